// Reductions, statistics and norms over dims, and running sums.
#include <cmath>
#include <limits>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The dims that a reduction names: `dim` as a number, a list or nothing.
Dims reduced_dims(const Call& c, const Tensor& x) { return c.dims("dim", x.rank()); }
bool keepdim(const Call& c) { return c.flag("keepdim", false); }

// A result over all dims flattened into one, given the shape of ones that keepdim asks for.
Tensor keep_all(const Tensor& scalar, const Call& c) { return reshape(scalar, c.output_shape()); }

Results sum(Call& c) {
  Tensor x = c.self();
  nacre_dtype dtype = c.output_dtype();
  return cast(sum(cast(x, dtype), reduced_dims(c, x), keepdim(c)), dtype);
}

Results nan_sum(Call& c) {
  Tensor x = cast(c.self(), c.output_dtype());
  if (is_floating(x.dtype())) x = where(isnan(x), full_like(x, 0), x);
  return cast(sum(x, reduced_dims(c, x), keepdim(c)), c.output_dtype());
}

Results mean(Call& c) {
  Tensor x = c.self();
  nacre_dtype dtype = c.output_dtype();
  if (is_integer_or_bool(dtype)) fail(ErrorKind::user, "mean of integers needs a floating dtype");
  nacre_dtype wide = compute_type(dtype);
  return cast(mean(cast(x, wide), reduced_dims(c, x), keepdim(c)), dtype);
}

Results nan_mean(Call& c) {
  Tensor x = to_compute(cast(c.self(), c.output_dtype()));
  Tensor bad = isnan(x);
  Dims dims = reduced_dims(c, x);
  Tensor total = sum(where(bad, full_like(x, 0), x), dims, keepdim(c));
  Tensor n = sum(logical_not(bad), dims, keepdim(c));
  return cast(total / cast(n, x.dtype()), c.output_dtype());
}

Results prod(Call& c) {
  Tensor x = c.self();
  nacre_dtype dtype = c.output_dtype();
  return cast(prod(cast(x, dtype), reduced_dims(c, x), keepdim(c)), dtype);
}

template <Tensor (*f)(const Tensor&, const Dims&, bool)>
Results extreme(Call& c) {
  Tensor x = c.self();
  return f(x, reduced_dims(c, x), keepdim(c));
}

Results any_all(Call& c, bool any_of, bool empty_is_nothing) {
  Tensor x = c.self();
  Dims dims = reduced_dims(c, x);
  if (empty_is_nothing && c.has("dim") && c.integers("dim").empty())
    return cast(to_bool(x), c.output_dtype());
  Tensor y = any_of ? any(x, dims, keepdim(c)) : all(x, dims, keepdim(c));
  return cast(y, c.output_dtype());
}

// max.dim and min.dim: values and the position of the first.
Results extreme_with_index(Call& c, bool largest) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank());
  Dims dims = x.rank() == 0 ? Dims{} : Dims{dim};
  Tensor values, positions;
  if (c.needs(0)) values = largest ? amax(x, dims, keepdim(c)) : amin(x, dims, keepdim(c));
  if (c.needs(1)) positions = largest ? argmax(x, dim, keepdim(c)) : argmin(x, dim, keepdim(c));
  return {values, positions};
}

Results arg_extreme(Call& c, bool largest) {
  Tensor x = c.self();
  if (c.has("dim")) {
    int64_t dim = c.dim("dim", x.rank());
    return largest ? argmax(x, dim, keepdim(c)) : argmin(x, dim, keepdim(c));
  }
  Tensor flat = flatten(x);
  return keep_all(largest ? argmax(flat, 0) : argmin(flat, 0), c);
}

Results min_and_max(Call& c) {  // aminmax
  Tensor x = c.self();
  Dims dims = reduced_dims(c, x);
  return {amin(x, dims, keepdim(c)), amax(x, dims, keepdim(c))};
}

Results count_nonzero(Call& c) {
  Tensor x = c.self();
  return sum(to_bool(x), reduced_dims(c, x));
}

// ---- Variance: two passes, as its precision asks.

struct Moments {
  Tensor variance, mean;
};

Moments moments(Call& c) {
  Tensor x = to_compute(c.self());
  Dims dims = reduced_dims(c, x);
  double correction =
      c.has("unbiased") ? (c.flag("unbiased", true) ? 1 : 0) : c.real("correction", 1);
  Tensor average = mean(x, dims, true);
  Tensor deviation = x - average;
  Tensor total = sum(deviation * deviation, dims, keepdim(c));
  Expr n = simplify(count(x, dims), c.facts());
  Tensor divisor;
  double whole = std::floor(correction);
  if (whole == correction) {
    Expr degrees = simplify(max(n - Expr(static_cast<int64_t>(whole)), 0), c.facts());
    divisor = c.full({}, degrees, x.dtype());
  } else {
    divisor = maximum(c.full({}, n, x.dtype()) - correction, 0);
  }
  Moments m;
  m.variance = total / divisor;
  m.mean = keepdim(c) ? average : reshape(average, total.shape());
  return m;
}

Results variance(Call& c) { return cast(moments(c).variance, c.output_dtype()); }
Results deviation(Call& c) { return cast(sqrt(moments(c).variance), c.output_dtype()); }
Results variance_mean(Call& c) {
  Moments m = moments(c);
  return {cast(m.variance, c.self().dtype()), cast(m.mean, c.self().dtype())};
}
Results deviation_mean(Call& c) {
  Moments m = moments(c);
  return {cast(sqrt(m.variance), c.self().dtype()), cast(m.mean, c.self().dtype())};
}

// ---- Norms.

Tensor vector_norm(const Tensor& x, double order, const Dims& dims, bool keep) {
  Tensor a = abs(x);
  if (order == kInfinity) return amax(a, dims, keep);
  if (order == -kInfinity) return amin(a, dims, keep);
  if (order == 0) return cast(sum(ne(x, 0), dims, keep), x.dtype());
  if (order == 1) return sum(a, dims, keep);
  if (order == 2) return sqrt(sum(x * x, dims, keep));
  if (x.rank() == 0) return a;
  return pow(sum(pow(a, order), dims, keep), 1 / order);
}

Results norm(Call& c) {
  Tensor x = c.self();
  nacre_dtype dtype = c.output_dtype();
  double order = 2;
  for (const char* name : {"p", "ord"})
    if (c.has(name)) order = c.real(name);
  Tensor wide = cast(x, compute_type(dtype));
  return cast(vector_norm(wide, order, reduced_dims(c, x), keepdim(c)), dtype);
}

Results matrix_norm(Call& c) {
  Tensor x = cast(c.self(), compute_type(c.output_dtype()));
  Dims dims = c.integers("dim");
  if (dims.empty()) dims = {-2, -1};
  const Argument* ord = c.node().find("ord");
  bool named = !ord || std::holds_alternative<std::string>(*ord);
  std::string name = named ? c.text("ord", "fro") : "";
  double order = named ? 0 : c.real("ord");
  return cast(matrix_norm(c, x, name, order, dims, keepdim(c)), c.output_dtype());
}

Results linalg_norm(Call& c) {
  Tensor x = c.self();
  nacre_dtype dtype = c.output_dtype();
  Tensor wide = cast(x, compute_type(dtype));
  Dims dims = c.integers("dim");
  const Argument* ord = c.node().find("ord");
  bool absent = !c.has("ord");
  bool named = !absent && std::holds_alternative<std::string>(*ord);
  bool matrix = named || (!absent && (dims.size() == 2 || (dims.empty() && x.rank() == 2)));
  if (matrix) {
    if (dims.empty()) dims = {-2, -1};
    return cast(matrix_norm(c, wide, named ? c.text("ord", "fro") : "", named ? 0 : c.real("ord"),
                            dims, keepdim(c)),
                dtype);
  }
  Dims all = dims.empty() ? all_dims(x.rank()) : dims;
  return cast(vector_norm(wide, absent ? 2 : c.real("ord"), all, keepdim(c)), dtype);
}

Tensor log_sum_exp(const Tensor& x, const Dims& dims, bool keep) {
  if (x.rank() == 0) return x;
  Tensor peak = amax(x, dims, true);
  peak = where(eq(abs(peak), kInfinity), full_like(peak, 0), peak);
  Tensor total = log(sum(exp(x - peak), dims, true)) + peak;
  return keep ? total : squeeze(total, dims);
}

Results log_sum_exp(Call& c) {
  Tensor x = c.self();
  Tensor wide = to_compute(x);
  return cast(log_sum_exp(wide, reduced_dims(c, x), keepdim(c)), c.output_dtype());
}

// ---- Running values.

Results running(Call& c, const char* primitive) {
  Tensor x = c.self();
  nacre_dtype dtype = c.output_dtype();
  Tensor wide = cast(cast(x, dtype), compute_type(dtype));
  return cast(scan(primitive, wide, c.integer("dim")), dtype);
}

// The latest position of the running extreme: positions where x is the extreme so far, then their
// running maximum.
Results running_extreme(Call& c, bool largest) {
  Tensor x = c.self();
  int64_t dim = c.integer("dim");
  if (x.rank() == 0) return {x, c.full({}, 0, NACRE_i64)};
  Tensor values = scan(largest ? "cummax" : "cummin", x, dim);
  Tensor positions;
  if (c.needs(1)) {
    Tensor hit = eq(x, values);
    if (is_floating(x.dtype())) hit = hit | isnan(x);
    Tensor here = iota_along(c.builder(), x.shape(), dim);
    positions = scan("cummax", where(hit, here, full_like(here, 0)), dim);
  }
  return {values, positions};
}

// Every prefix on its own: a scan of (maximum, sum) pairs would be faster, and is not a primitive
// yet.
Results log_running_sum_exp(Call& c) {
  Tensor x = c.self();
  if (x.rank() == 0) return x;
  int64_t dim = c.dim("dim", x.rank());
  Tensor last = move_dim(to_compute(x), dim, -1);
  Expr n = last.size(-1);
  Shape wide = last.shape();
  wide.push_back(n);
  Dims dims = all_dims(last.rank());
  dims.back()++;
  Tensor rows = broadcast(last, wide, dims);  // [..., end, position]
  Builder& b = c.builder();
  Tensor within = le(iota_along(b, wide, -1), iota_along(b, wide, -2));
  Tensor masked = where(within, rows, full_like(rows, -kInfinity));
  return cast(move_dim(log_sum_exp(masked, {-1}, false), -1, dim), x.dtype());
}

Tensor difference(const Tensor& x, int64_t dim) {
  Expr n = x.size(dim);
  Tensor after = slice(x, dim, simplify(min(n, 1), x.facts()), n);
  Tensor before = slice(x, dim, 0, simplify(max(n - 1, 0), x.facts()));
  return x.dtype() == NACRE_bool_ ? ne(after, before) : after - before;
}

Results difference(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank(), -1);
  std::vector<Tensor> parts;
  if (Tensor before = c.optional("prepend")) parts.push_back(before);
  parts.push_back(x);
  if (Tensor after = c.optional("append")) parts.push_back(after);
  x = concat(parts, dim);
  for (int64_t i = 0; i < c.integer("n", 1); i++) x = difference(x, dim);
  return x;
}

// Twice the areas of the intervals along dim (of a rank-1 `x`, its only one), in the type of the
// operands: those of integers wrap, as PyTorch's do.
Tensor trapezoid_areas(Call& c, const Tensor& y, int64_t dim) {
  Expr n = y.size(dim);
  Expr last = simplify(max(n - 1, 0), c.facts());
  Tensor heights = slice(y, dim, simplify(min(n, 1), c.facts()), n) + slice(y, dim, 0, last);
  if (!c.has("x")) return to_float(heights) * c.real("dx", 1);
  Tensor x = c.tensor("x");
  Tensor widths;
  if (x.rank() == 1 && y.rank() > 1) {
    widths = difference(x, 0);
    Shape shape(static_cast<size_t>(y.rank()), Expr(1));
    shape[static_cast<size_t>(dim)] = widths.size(0);
    widths = broadcast(widths, shape, {dim});
  } else {
    widths = difference(x, dim - y.rank() + x.rank());
  }
  return heights * widths;
}

Results trapezoid(Call& c) {
  Tensor y = c.has("x") ? c.tensor("y") : to_float(c.tensor("y"));
  int64_t dim = c.dim("dim", y.rank(), -1);
  return to_float(sum(trapezoid_areas(c, y, dim), {dim})) * 0.5;
}

Results cumulative_trapezoid(Call& c) {
  Tensor y = c.tensor("y");
  int64_t dim = c.dim("dim", y.rank(), -1);
  Tensor areas = trapezoid_areas(c, y, dim);
  if (is_integer_or_bool(areas.dtype())) areas = cast(areas, NACRE_i64);
  return to_float(scan("cumsum", areas, dim)) * 0.5;
}

Results trace(Call& c) {
  Tensor x = c.self();
  Shape shape = x.shape();
  Tensor on = eq(iota_along(c.builder(), shape, 0), iota_along(c.builder(), shape, 1));
  return sum(where(on, x, full_like(x, 0)), {0, 1});
}

Results sum_to_size(Call& c) {
  Tensor x = c.self();
  Shape size = c.sizes("size");
  int64_t skip = x.rank() - static_cast<int64_t>(size.size());
  Dims dims;
  for (int64_t d = 0; d < x.rank(); d++)
    if (d < skip || (size[static_cast<size_t>(d - skip)].is(1) && !x.size(d).is(1)))
      dims.push_back(d);
  return cast(dims.empty() ? x : reshape(sum(x, dims, true), size), c.output_dtype());
}

Results distance(Call& c) {
  Tensor d = c.tensor("self") - c.tensor("other"), wide = to_compute(d);
  return cast(vector_norm(wide, c.real("p", 2), all_dims(d.rank()), false), d.dtype());
}

// Central differences inside, one-sided ones of the given order at both ends; the spacing is even.
Results gradient(Call& c) {
  Tensor x = c.self();
  int64_t order = c.integer("edge_order", 1);
  Dims dims = c.integers("dim");
  if (dims.empty()) dims = all_dims(x.rank());
  std::vector<double> spacing = c.reals("spacing");
  std::vector<Tensor> results;
  for (size_t i = 0; i < dims.size(); i++) {
    int64_t dim = normalized_dim(dims[i], x.rank());
    double h = spacing.empty() ? 1 : spacing.size() == 1 ? spacing[0] : spacing.at(i);
    Expr n = x.size(dim);
    Tensor f = to_float(x);
    auto at = [&](const Expr& start) { return slice(f, dim, start, start + 1); };
    Tensor inside = (slice(f, dim, 2, n) - slice(f, dim, 0, n - 2)) / (2 * h);
    Tensor first, last;
    if (order == 1) {
      first = (at(1) - at(0)) / h;
      last = (at(n - 1) - at(n - 2)) / h;
    } else {
      first = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / h;
      last = (at(n - 1) * 1.5 - at(n - 2) * 2 + at(n - 3) * 0.5) / h;
    }
    results.push_back(concat({first, inside, last}, dim));
  }
  return results;
}

// Rows are variables, columns observations, which may count `fweights` times and weigh `aweights`.
Tensor covariance(Call& c) {
  Tensor x = to_float(c.self());
  if (x.rank() < 2) x = reshape(x, {1, x.elements()});
  Tensor f = c.optional("fweights"), a = c.optional("aweights"), w;
  for (const Tensor& t : {f, a})
    if (t) w = w ? w * t : t;
  Expr correction = c.size("correction", Expr(1));
  if (!w) {
    Tensor centred = x - mean(x, {1}, true);
    Expr n = simplify(max(x.size(1) - correction, 0), c.facts());
    return matmul(centred, transpose(centred, 0, 1)) / Operand(n);
  }
  Tensor total = sum(w, all_dims(w.rank()));
  w = cast(w, x.dtype());
  total = cast(total, x.dtype());
  Tensor lost = a ? cast(sum(w * cast(a, x.dtype()), all_dims(w.rank())), x.dtype()) / total * Operand(correction)
                  : full_like(total, Number(correction));
  Tensor centred = x - sum(x * w, {1}, true) / total;
  return matmul(centred, transpose(centred * w, 0, 1)) / maximum(total - lost, 0);
}

Results covariance_of(Call& c) { return reshape(covariance(c), c.output_shape()); }

Results correlation(Call& c) {
  Tensor y = covariance(c);
  Shape shape = y.shape();
  Tensor on = eq(iota_along(c.builder(), shape, 0), iota_along(c.builder(), shape, 1));
  Tensor deviation = sqrt(sum(where(on, y, full_like(y, 0)), {1}, true));
  y = y / deviation / transpose(deviation, 0, 1);
  return reshape(c.self().rank() < 2 ? y : clamp(y, -1, 1), c.output_shape());
}

// Segments of a dim, given by lengths or offsets for each row of the dims before it: a mask over [segment, element].
Results segment_reduce(Call& c) {
  Tensor data = c.tensor("data"), x = to_compute(data);
  int64_t axis = c.dim("axis", x.rank(), 0);
  std::string reduce = c.text("reduce", "");
  if (c.has("indices")) c.unsupported("segments by indices");
  Tensor start, end;
  if (Tensor lengths = c.optional("lengths")) {
    lengths = cast(lengths, NACRE_i64);
    end = scan("cumsum", lengths, -1);
    start = end - lengths;
  } else {
    Tensor offsets = cast(c.tensor("offsets"), NACRE_i64);
    Expr n = offsets.size(-1);
    start = slice(offsets, -1, 0, simplify(n - 1, c.facts()));
    end = slice(offsets, -1, 1, n);
  }
  // [rows..., segment, element, rest...]
  Shape wide(x.shape().begin(), x.shape().begin() + axis);
  wide.push_back(start.size(-1));
  for (int64_t d = axis; d < x.rank(); d++) wide.push_back(x.size(d));
  Dims of_data, of_segments = all_dims(axis + 1);
  for (int64_t d = 0; d < x.rank(); d++) of_data.push_back(d < axis ? d : d + 1);
  Tensor at = iota_along(c.builder(), wide, axis + 1);
  Tensor inside = ge(at, broadcast(start, wide, of_segments)) & lt(at, broadcast(end, wide, of_segments));
  Tensor elements = broadcast(x, wide, of_data);
  auto kept = [&](double identity) { return where(inside, elements, full_like(elements, identity)); };
  auto initial = c.optional_number("initial");
  Tensor result;
  Dims dims{axis + 1};
  if (reduce == "max" || reduce == "min") {
    bool most = reduce == "max";
    result = most ? amax(kept(-kInfinity), dims) : amin(kept(kInfinity), dims);
    if (initial) result = most ? maximum(result, *initial) : minimum(result, *initial);
  } else if (reduce == "prod") {
    result = prod(kept(1), dims);
    if (initial) result = result * *initial;
  } else if (reduce == "sum" || reduce == "mean") {
    result = sum(kept(0), dims);
    if (initial) result = result + *initial;
    if (reduce == "mean") {
      Tensor n = cast(broadcast(end - start, result.shape(), of_segments), result.dtype());
      Tensor mean = result / n;
      Tensor nothing = initial ? result : full_like(result, std::nan(""));
      result = where(gt(n, 0), mean, nothing);
    }
  } else {
    c.unsupported("the reduction " + reduce);
  }
  return cast(result, data.dtype());
}

constexpr Decomposition kTable[] = {
    {"sum.default", sum},
    {"sum.dim_IntList", sum},
    {"nansum.default", nan_sum},
    {"mean.default", mean},
    {"mean.dim", mean},
    {"nanmean.default", nan_mean},
    {"prod.default", prod},
    {"prod.dim_int", prod},
    {"amax.default", extreme<amax>},
    {"amin.default", extreme<amin>},
    {"max.default", extreme<amax>},
    {"min.default", extreme<amin>},
    {"max.dim", [](Call& c) { return extreme_with_index(c, true); }},
    {"min.dim", [](Call& c) { return extreme_with_index(c, false); }},
    {"argmax.default", [](Call& c) { return arg_extreme(c, true); }},
    {"argmin.default", [](Call& c) { return arg_extreme(c, false); }},
    {"aminmax.default", min_and_max},
    {"_aminmax.default", min_and_max},
    {"_aminmax.dim", min_and_max},
    {"any.default", [](Call& c) { return any_all(c, true, false); }},
    {"any.dim", [](Call& c) { return any_all(c, true, false); }},
    {"any.dims", [](Call& c) { return any_all(c, true, true); }},
    {"all.default", [](Call& c) { return any_all(c, false, false); }},
    {"all.dim", [](Call& c) { return any_all(c, false, false); }},
    {"all.dims", [](Call& c) { return any_all(c, false, true); }},
    {"count_nonzero.default", count_nonzero},
    {"count_nonzero.dim_IntList", count_nonzero},
    {"var.default", variance},
    {"var.dim", variance},
    {"var.correction", variance},
    {"std.default", deviation},
    {"std.dim", deviation},
    {"std.correction", deviation},
    {"var_mean.default", variance_mean},
    {"var_mean.dim", variance_mean},
    {"var_mean.correction", variance_mean},
    {"std_mean.default", deviation_mean},
    {"std_mean.dim", deviation_mean},
    {"std_mean.correction", deviation_mean},
    {"norm.Scalar", norm},
    {"norm.ScalarOpt_dtype", norm},
    {"norm.ScalarOpt_dim", norm},
    {"norm.ScalarOpt_dim_dtype", norm},
    {"linalg_vector_norm.default", norm},
    {"frobenius_norm.dim", norm},
    {"linalg_norm.default", linalg_norm},
    {"linalg_norm.ord_str", linalg_norm},
    {"linalg_matrix_norm.default", matrix_norm},
    {"linalg_matrix_norm.str_ord", matrix_norm},
    {"logsumexp.default", log_sum_exp},
    {"special_logsumexp.default", log_sum_exp},
    {"cumsum.default", [](Call& c) { return running(c, "cumsum"); }},
    {"cumprod.default", [](Call& c) { return running(c, "cumprod"); }},
    {"cummax.default", [](Call& c) { return running_extreme(c, true); }},
    {"cummin.default", [](Call& c) { return running_extreme(c, false); }},
    {"logcumsumexp.default", log_running_sum_exp},
    {"diff.default", difference},
    {"trapezoid.x", trapezoid},
    {"trapezoid.dx", trapezoid},
    {"trapz.x", trapezoid},
    {"trapz.dx", trapezoid},
    {"cumulative_trapezoid.x", cumulative_trapezoid},
    {"cumulative_trapezoid.dx", cumulative_trapezoid},
    {"trace.default", trace},
    {"cov.default", covariance_of},
    {"corrcoef.default", correlation},
    {"segment_reduce.default", segment_reduce},
    {"sum_to_size.default", sum_to_size},
    {"dist.default", distance},
    {"gradient.scalarint", gradient},
    {"gradient.scalararray", gradient},
    {"gradient.array", gradient},
    {"gradient.scalarrayint", gradient},
    {"gradient.scalarrayarray", gradient},
};

}  // namespace

Tensor matrix_norm(Call& c, const Tensor& x, const std::string& name, double order, Dims dims,
                   bool keep) {
  if (name == "fro") return vector_norm(x, 2, dims, keep);
  if (!name.empty()) c.unsupported("the norm " + name + " needs singular values");
  if (std::abs(order) != 1 && std::abs(order) != kInfinity)
    c.unsupported("this norm needs singular values");
  int64_t rank = x.rank();
  int64_t rows = normalized_dim(dims.at(0), rank), columns = normalized_dim(dims.at(1), rank);
  if (std::abs(order) == kInfinity) std::swap(rows, columns);
  Tensor sums = sum(abs(x), {rows}, true);
  Tensor y = order > 0 ? maximum(amax(sums, {columns}, true), 0) : amin(sums, {columns}, true);  // 0 of nothing
  return keep ? y : squeeze(y, {rows, columns});
}

Decompositions reduction_decompositions() { return kTable; }

}  // namespace nacre
