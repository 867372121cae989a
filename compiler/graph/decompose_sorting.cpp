// Sorting and what follows from a sorted order: top-k, order statistics, search.
#include <cmath>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Results both(std::pair<Tensor, Tensor> sorted) { return {sorted.first, sorted.second}; }

Results sort(Call& c) {
  return both(sort(c.self(), c.integer("dim", -1), c.flag("descending", false)));
}

Results arg_sort(Call& c) {
  return sort(c.self(), c.integer("dim", -1), c.flag("descending", false)).second;
}

Results top(Call& c) {
  Tensor x = c.self();
  if (x.rank() == 0) return {x, c.full({}, 0, NACRE_i64)};
  int64_t dim = c.dim("dim", x.rank(), -1);
  Expr k = c.size("k");
  auto [values, positions] = sort(x, dim, c.flag("largest", true));
  return {narrow(values, dim, 0, k), narrow(positions, dim, 0, k)};
}

struct OrderStatistic {
  Tensor values, positions;
};

// The elements at `rank` (a tensor with size 1 in dim) of the sorted order.
OrderStatistic at_rank(const Tensor& x, int64_t dim, const Tensor& rank, bool keep) {
  auto [values, positions] = sort(x, dim, false);
  OrderStatistic s{gather(values, rank, dim), gather(positions, rank, dim)};
  if (!keep && x.rank() > 0) {
    s.values = squeeze(s.values, {dim});
    s.positions = squeeze(s.positions, {dim});
  }
  return s;
}

Results kth_value(Call& c) {
  Tensor x = c.self();
  bool keep = c.flag("keepdim", false);
  if (x.rank() == 0) return {x, c.full({}, 0, NACRE_i64)};
  int64_t dim = c.dim("dim", x.rank(), -1);
  Expr k = c.size("k");
  auto [values, positions] = sort(x, dim, false);
  if (keep) return {narrow(values, dim, k - 1, 1), narrow(positions, dim, k - 1, 1)};
  return {select(values, dim, k - 1), select(positions, dim, k - 1)};
}

// The lower of the two middle elements. NaN sorts last: `median` takes the first NaN if there is
// one, `nanmedian` the middle of the rest.
OrderStatistic median(const Tensor& x, int64_t dim, bool ignore_nan, bool keep) {
  Shape one = x.shape();
  one[static_cast<size_t>(dim)] = 1;
  Expr n = x.size(dim);
  Tensor middle =
      full(x.builder(), one, simplify(floordiv(max(n - 1, 0), 2), x.facts()), NACRE_i64);
  if (is_floating(x.dtype())) {
    Tensor bad = sum(isnan(x), {dim}, true);
    Tensor good = -bad + Operand(n);
    if (ignore_nan)
      middle = div_floor(maximum(good - 1, 0), 2);
    else
      middle = where(gt(bad, 0), good, middle);
  }
  return at_rank(x, dim, middle, keep);
}

Results median_dim(Call& c, bool ignore_nan) {
  Tensor x = c.self();
  if (x.rank() == 0) return {x, c.full({}, 0, NACRE_i64)};
  OrderStatistic s = median(x, c.dim("dim", x.rank()), ignore_nan, c.flag("keepdim", false));
  return {s.values, s.positions};
}

Results median_all(Call& c, bool ignore_nan) {
  Tensor x = flatten(c.self());
  if (x.size(0).is(0))
    return c.full({}, is_floating(x.dtype()) ? Number(std::nan("")) : Number(0), x.dtype());
  return median(x, 0, ignore_nan, false).values;
}

// The longest run of equal elements in sorted order, the first of them among equals; its last
// element gives the position.
Results mode(Call& c) {
  Tensor x = c.self();
  if (x.rank() == 0) return {x, c.full({}, 0, NACRE_i64)};
  int64_t dim = c.dim("dim", x.rank(), -1);
  auto [values, positions] = sort(move_dim(x, dim, -1), -1, false);
  Shape wide = values.shape();
  wide.push_back(wide.back());
  Dims outer = all_dims(values.rank()), inner = outer;
  inner.back()++;
  Builder& b = c.builder();
  Tensor same = eq(broadcast(values, wide, outer), broadcast(values, wide, inner));
  Tensor before = le(iota_along(b, wide, -1), iota_along(b, wide, -2));
  Tensor run = sum(same & before, {-1});
  Tensor best = argmax(run, -1, true);
  Tensor v = gather(values, best, -1), p = gather(positions, best, -1);
  if (c.flag("keepdim", false)) return {move_dim(v, -1, dim), move_dim(p, -1, dim)};
  return {squeeze(v, {-1}), squeeze(p, {-1})};
}

// quantile and nanquantile: the sorted elements interpolated at q * (n - 1).
Results quantile(Call& c, bool ignore_nan) {
  Tensor x = c.self();
  Builder& b = c.builder();
  bool keep = c.flag("keepdim", false);
  std::string method = c.text("interpolation", "linear");
  Operand q_argument = c.operand("q");
  Tensor q = as_tensor(b, q_argument, x.dtype());
  bool all = !c.has("dim");
  int64_t dim = all ? 0 : c.dim("dim", x.rank());
  Tensor rows = all || x.rank() == 0 ? flatten(x) : move_dim(x, dim, -1);
  auto [sorted, positions] = sort(rows, -1, false);
  Tensor bad = sum(isnan(rows), {-1}, true);
  Tensor n = cast(-bad + Operand(rows.size(-1)), x.dtype());
  // [q, ...rows..., 1] ranks
  Tensor qs = q.rank() == 0 ? reshape(q, {1}) : q;
  Shape shape{qs.size(0)};
  for (const Expr& e : n.shape()) shape.push_back(e);
  Tensor last = ignore_nan ? maximum(n - 1, 0) : full_like(n, rows.size(-1) - Expr(1));
  Tensor rank = broadcast(qs, shape, {0}) * expand(unsqueeze(last, 0), shape);
  if (!ignore_nan)
    rank = where(gt(expand(unsqueeze(bad, 0), shape), 0), full_like(rank, rows.size(-1) - Expr(1)),
                 rank);
  if (method == "lower") rank = floor(rank);
  if (method == "higher") rank = ceil(rank);
  if (method == "nearest") rank = round(rank);
  Tensor below = floor(rank), above = ceil(rank);
  Shape source = sorted.shape();
  source.insert(source.begin(), qs.size(0));
  Tensor table = expand(unsqueeze(sorted, 0), source);
  Tensor low = gather(table, cast(below, NACRE_i64), -1);
  Tensor high = gather(table, cast(above, NACRE_i64), -1);
  Tensor result = low;
  if (method == "midpoint") {
    Tensor half = where(eq(below, above), full_like(rank, 0), full_like(rank, 0.5));
    result = low + (high - low) * half;
  } else if (method == "linear") {
    Tensor w = rank - below;
    result = where(lt(w, 0.5), low + w * (high - low), high - (high - low) * (-w + 1));
  }
  // [q, ..., 1] -> the reduced dim kept or dropped, the q dim dropped for one number
  if (!all && x.rank() > 0 && keep) result = move_dim(result, -1, dim + 1);
  return reshape(result, c.output_shape());
}

// ---- Search.

// The number of boundaries before each value: those less than it, or with `right` those not
// greater.
Tensor insertion_points(const Tensor& boundaries, const Tensor& values, bool right) {
  Shape wide = values.shape();
  Expr n = boundaries.size(-1);
  wide.push_back(n);
  Dims value_dims = all_dims(values.rank());
  Tensor v = broadcast(values, wide, value_dims);
  Tensor b;
  if (boundaries.rank() == 1) {
    b = broadcast(boundaries, wide, {values.rank()});
  } else {
    Dims dims = all_dims(boundaries.rank());
    dims.back()++;
    b = broadcast(boundaries, wide, dims);
  }
  Tensor before = logical_not(right ? gt(b, v) : ge(b, v));  // NaN comes after everything
  return sum(before, {-1});
}

Results search_sorted(Call& c) {
  Tensor sequence = c.tensor("sorted_sequence");
  if (Tensor sorter = c.optional("sorter")) sequence = gather(sequence, sorter, -1);
  bool right = c.text("side", c.flag("right", false) ? "right" : "left") == "right";
  Operand value = c.operand("self");
  nacre_dtype dtype = result_type({sequence, value});
  Tensor v = as_tensor(c.builder(), value, dtype);
  return cast(insertion_points(cast(sequence, dtype), v, right), c.output_dtype());
}

Results bucketize(Call& c) {
  Tensor boundaries = c.tensor("boundaries");
  Operand value = c.operand("self");
  nacre_dtype dtype = result_type({boundaries, value});
  Tensor v = as_tensor(c.builder(), value, dtype);
  return cast(insertion_points(cast(boundaries, dtype), v, c.flag("right", false)),
              c.output_dtype());
}

Results is_in(Call& c, const char* elements_name, const char* tests_name) {
  Operand elements = c.operand(elements_name), tests = c.operand(tests_name);
  nacre_dtype dtype = result_type({elements, tests});
  Tensor x = as_tensor(c.builder(), elements, dtype);
  Tensor t = flatten(as_tensor(c.builder(), tests, dtype));
  Shape wide = x.shape();
  wide.push_back(t.size(0));
  Tensor hit =
      any(eq(broadcast(x, wide, all_dims(x.rank())), broadcast(t, wide, {x.rank()})), {-1});
  return c.flag("invert", false) ? logical_not(hit) : hit;
}

// Equal bins between two bounds; the upper bound belongs to the last bin.
Results histogram(Call& c) {
  Tensor x = flatten(c.self());
  int64_t bins = c.integer("bins", 100);
  double low = c.real("min", 0), high = c.real("max", 0);
  Builder& b = c.builder();
  Tensor from = full(b, {}, low, x.dtype()), to = full(b, {}, high, x.dtype());
  if (low == high && !x.size(0).is(0)) {
    from = amin(x, {0});
    to = amax(x, {0});
  }
  Tensor flat = eq(from, to);
  from = where(flat, from - 1, from);
  to = where(flat, to + 1, to);
  Tensor position = floor((x - from) * static_cast<double>(bins) / (to - from));
  Tensor bin = minimum(cast(position, NACRE_i64), bins - 1);
  Tensor inside = ge(x, from) & le(x, to);
  Tensor one = cast(inside, x.dtype());
  Tensor zero = full(b, {Expr(bins)}, 0, x.dtype());
  return index_put(zero, one, {where(inside, bin, full_like(bin, 0))}, true);
}

// `count` equal bins between two 0-d bounds, counted from both ends.
Tensor even_edges(const Tensor& low, const Tensor& high, int64_t count) {
  Tensor i = cast(iota(low.builder(), count + 1), low.dtype());
  Tensor step = (high - low) / static_cast<double>(count);
  Tensor down = high - step * (-i + static_cast<double>(count));
  return where(lt(i, static_cast<double>((count + 1) / 2)), low + step * i, down);
}

// The edges that histogram and histogramdd use in dimension d: given, or even between bounds that are given or found.
Tensor histogram_edges(Call& c, const Tensor& column, size_t d) {
  if (Tensor given = c.op().find(".bins_tensor") != std::string::npos ? c.tensor("bins") : Tensor()) return given;
  if (c.op().find(".TensorList_bins") != std::string::npos) return c.tensors("bins").at(d);
  Dims counts = c.integers("bins");
  int64_t count = counts.size() == 1 ? counts[0] : counts.at(d);
  std::vector<double> range = c.reals("range");
  Builder& b = c.builder();
  if (!range.empty())
    return even_edges(full(b, {}, range.at(2 * d), column.dtype()), full(b, {}, range.at(2 * d + 1), column.dtype()), count);
  Tensor low = full(b, {}, 0, column.dtype()), high = low;
  if (!column.size(0).is(0)) {
    low = amin(column, {0});
    high = amax(column, {0});
  }
  Tensor flat = eq(low, high);
  return even_edges(where(flat, low - 0.5, low), where(flat, high + 0.5, high), count);
}

// Rows of x are points; a point counts where every coordinate lies between the first and the last edge (inclusive).
Results histogram_of_points(Call& c, const Tensor& x) {
  Builder& b = c.builder();
  nacre_dtype dtype = x.dtype();
  std::vector<Tensor> edges;
  Shape shape = c.output_shape();
  Tensor inside, place;
  for (size_t d = 0; d < shape.size(); d++) {
    Tensor column = select(x, 1, static_cast<int64_t>(d));
    Tensor e = histogram_edges(c, column, d);
    edges.push_back(e);
    Expr bins = shape[d];
    Tensor bin = minimum(insertion_points(e, column, true) - 1, Operand(bins - 1));
    Tensor here = ge(column, select(e, 0, 0)) & le(column, select(e, 0, e.size(0) - 1));
    bin = where(here, bin, full_like(bin, 0));
    inside = inside ? inside & here : here;
    place = place ? place * Operand(bins) + bin : bin;
  }
  Tensor weight = cast(inside, dtype);
  if (Tensor w = c.optional("weight")) weight = where(inside, cast(flatten(w), dtype), full_like(weight, 0));
  Tensor hist = index_put(full(b, {product(shape)}, 0, dtype), weight, {place}, true);
  hist = reshape(hist, shape);
  if (c.flag("density", false)) {
    hist = hist / sum(hist, all_dims(hist.rank()));
    for (size_t d = 0; d < shape.size(); d++) {
      Expr n = edges[d].size(0);
      Tensor width = slice(edges[d], 0, 1, n) - slice(edges[d], 0, 0, n - 1);
      hist = hist / broadcast(width, shape, {static_cast<int64_t>(d)});
    }
  }
  std::vector<Tensor> results{hist};
  for (const Tensor& e : edges) results.push_back(cast(e, dtype));
  return results;
}

Results histogram_of_values(Call& c) { return histogram_of_points(c, unsqueeze(flatten(c.self()), 1)); }

Results histogram_of_rows(Call& c) {
  Tensor x = c.self();
  return histogram_of_points(c, x.rank() > 2 ? flatten(x, 0, -2) : x);
}

constexpr Decomposition kTable[] = {
    {"sort.default", sort},
    {"sort.stable", sort},
    {"argsort.default", arg_sort},
    {"argsort.stable", arg_sort},
    {"msort.default", [](Call& c) -> Results { return sort(c.self(), 0, false).first; }},
    {"topk.default", top},
    {"kthvalue.default", kth_value},
    {"median.default", [](Call& c) { return median_all(c, false); }},
    {"nanmedian.default", [](Call& c) { return median_all(c, true); }},
    {"median.dim", [](Call& c) { return median_dim(c, false); }},
    {"nanmedian.dim", [](Call& c) { return median_dim(c, true); }},
    {"mode.default", mode},
    {"quantile.default", [](Call& c) { return quantile(c, false); }},
    {"quantile.scalar", [](Call& c) { return quantile(c, false); }},
    {"nanquantile.default", [](Call& c) { return quantile(c, true); }},
    {"nanquantile.scalar", [](Call& c) { return quantile(c, true); }},
    {"searchsorted.Tensor", search_sorted},
    {"searchsorted.Scalar", search_sorted},
    {"bucketize.Tensor", bucketize},
    {"bucketize.Scalar", bucketize},
    {"isin.Tensor_Tensor", [](Call& c) { return is_in(c, "elements", "test_elements"); }},
    {"isin.Tensor_Scalar", [](Call& c) { return is_in(c, "elements", "test_element"); }},
    {"isin.Scalar_Tensor", [](Call& c) { return is_in(c, "element", "test_elements"); }},
    {"histc.default", histogram},
    {"histogram.bin_ct", histogram_of_values},
    {"histogram.bins_tensor", histogram_of_values},
    {"histogramdd.default", histogram_of_rows},
    {"histogramdd.int_bins", histogram_of_rows},
    {"histogramdd.TensorList_bins", histogram_of_rows},
};

}  // namespace

Decompositions sorting_decompositions() { return kTable; }

}  // namespace nacre
