// Operators whose results have as many elements as the data say. All of them number what they keep by a running sum, which
// tells the count and where each element goes.
#include <algorithm>

#include "compiler/graph/decompose_loops.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// Positions in a flattened tensor of this shape, as one index for each dim.
std::vector<Tensor> positions_along_dims(const Tensor& at, const Shape& shape) {
  if (shape.size() == 1) return {at};
  std::vector<Tensor> columns;
  Expr step = 1;  // between elements that are neighbours along a dim
  for (size_t d = shape.size(); d-- > 0;) {
    Tensor column = step.is(1) ? at : div_floor(at, Operand(step));
    columns.push_back(d == 0 ? column : remainder(column, Operand(shape[d])));
    step *= shape[d];
  }
  std::reverse(columns.begin(), columns.end());
  return columns;
}

// For each row of a list (of elements, or of rows of elements), whether it differs from the one before it.
Tensor begins_run(const Tensor& x) {
  Tensor i = iota(x.builder(), x.size(0));
  Tensor differs = ne(x, index(x, {maximum(i - 1, 0)}));
  if (x.rank() > 1) differs = any(differs, {1});
  return eq(i, 0) | differs;
}

struct Runs {
  Tensor values, of_row, lengths;  // the first of each run, the run of each row, how many rows each has
};

Runs runs(Call& c, const Tensor& x, const Expr& count) {
  Builder& b = c.builder();
  Tensor begins = begins_run(x);
  Runs r;
  Tensor first = true_positions(c, begins, count);
  r.values = index(x, {first});
  r.of_row = scan("cumsum", cast(begins, NACRE_i64), 0) - 1;
  Tensor ones = full(b, {x.size(0)}, 1, NACRE_i64);
  r.lengths = scatter(full(b, first.shape(), 0, NACRE_i64), r.of_row, ones, 0, "add");
  return r;
}

// Element i stands at places ends[i] - repeats[i] up to ends[i]: how many elements start at a place or before tells which
// one stands there.
Tensor repeated_positions(Call& c, const Tensor& repeats, const Expr& expected) {
  Builder& b = c.builder();
  Expr negative = c.count(any(lt(repeats, 0), {0}), 1);
  b.require(Expr::make(ExprOp::eq, {negative, Expr(0)}), "repeats can not be negative");
  Expr count = c.bind(sum(repeats, {0}), expected);
  Tensor starts = scan("cumsum", repeats, 0) - repeats;
  Tensor ones = full(b, repeats.shape(), 1, NACRE_i64);
  Tensor marks = scatter(full(b, {count + 1}, 0, NACRE_i64), starts, ones, 0, "add");
  return slice(scan("cumsum", marks, 0), 0, 0, count) - 1;
}

// The rows of x: [n, m] in the order of their first elements, where those are equal of their second ones, and so on: stable
// sorts by each column, the last one first.
Tensor row_order(Call& c, const Tensor& x) {
  Builder& b = c.builder();
  Expr n = x.size(0), m = x.size(1);
  if (m.is(1)) return sort(reshape(x, {n}), 0, false).second;
  return for_each_step(c, m, {iota(b, n)}, {x}, [&](const Expr& step, const Tensors& order, const Tensors& rows) -> Tensors {
    Tensor column = index(select(rows[0], 1, simplify(m - 1 - step, c.facts())), {order[0]});
    return {index(order[0], {sort(column, 0, false).second})};
  })[0];
}

// A dim in front, and all others as one.
Tensor as_rows(const Tensor& x, int64_t dim) {
  Tensor front = move_dim(x, dim, 0);
  Expr others = 1;
  for (int64_t d = 1; d < front.rank(); d++) others *= front.size(d);
  return reshape(front, {front.size(0), others});
}

Tensor from_rows(const Tensor& rows, const Tensor& x, int64_t dim) {
  Shape shape = move_dim(x, dim, 0).shape();
  shape[0] = rows.size(0);
  return move_dim(reshape(rows, shape), 0, dim);
}

Results nonzero(Call& c) {
  Tensor mask = to_bool(c.self());
  Expr count = c.output_shape()[0];
  std::vector<Tensor> columns = mask_indices(c, mask, count);
  if (columns.empty()) return c.full(c.output_shape(), 0, NACRE_i64);
  return stack(columns, 1);
}

Results masked_select(Call& c) {
  Tensor x = c.self(), mask = to_bool(c.tensor("mask"));
  Shape shape = broadcast_shapes(x.shape(), mask.shape(), c.facts());
  Tensor kept = true_positions(c, flatten(expand(mask, shape)), c.output_shape()[0]);
  return index(flatten(expand(x, shape)), {kept});
}

Results nonzero_numpy(Call& c) {
  Tensor mask = to_bool(c.self());
  if (mask.rank() == 0) mask = reshape(mask, {1});
  return mask_indices(c, mask, c.output_shape()[0]);
}

// The first `size` positions, and fill_value in place of those that are missing.
Results nonzero_static(Call& c) {
  Builder& b = c.builder();
  Tensor mask = to_bool(c.self());
  Expr size = c.size("size");
  if (mask.rank() == 0) return c.full(c.output_shape(), 0, NACRE_i64);
  Tensor flat = flatten(mask), ones = cast(flat, NACRE_i64), place = scan("cumsum", ones, 0) - 1;
  Tensor last = full_like(place, size);
  place = where(flat & lt(place, last), place, last);  // all others to one place more
  Tensor at = slice(scatter(full(b, {size + 1}, 0, NACRE_i64), place, iota(b, flat.size(0)), 0), 0, 0, size);
  Tensor found = lt(iota(b, size), sum(ones, {0}));
  std::vector<Tensor> columns = positions_along_dims(at, mask.shape());
  for (Tensor& column : columns) column = where(found, column, c.operand("fill_value", -1));
  return stack(columns, 1);
}

Results repeat_interleave(Call& c) {
  return cast(repeated_positions(c, cast(c.self(), NACRE_i64), c.output_shape()[0]), c.output_dtype());
}

Results repeat_elements(Call& c) {
  Tensor x = c.tensor("self"), repeats = cast(c.tensor("repeats"), NACRE_i64);
  bool flat = !c.has("dim") || x.rank() == 0;
  if (flat) x = flatten(x.rank() ? x : reshape(x, {1}));
  int64_t dim = flat ? 0 : c.dim("dim", x.rank());
  if (repeats.rank() == 0 || repeats.size(0).is(1)) repeats = expand(reshape(repeats, {1}), {x.size(dim)});
  Tensor positions = repeated_positions(c, repeats, c.output_shape()[static_cast<size_t>(dim)]);
  return index_dim(x, dim, positions);
}

// values, inverse, counts, of which those that were not asked for are empty.
Results unique_results(Call& c, const Tensor& values, const Tensor& inverse, const Tensor& counts) {
  std::vector<Tensor> results{values};
  Tensor none = c.full({Expr(0)}, 0, NACRE_i64);
  if (c.outputs() > 1) results.push_back(c.flag("return_inverse", false) ? inverse : none);
  if (c.outputs() > 2) results.push_back(c.flag("return_counts", false) ? counts : none);
  return results;
}

Results unique(Call& c) {
  Tensor x = c.self();
  auto [sorted, order] = sort(flatten(x), 0, false);
  Runs r = runs(c, sorted, c.output_shape()[0]);
  Tensor inverse = scatter(full_like(order, 0), order, r.of_row, 0);
  return unique_results(c, r.values, reshape(inverse, x.shape()), r.lengths);
}

Results unique_dim(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank());
  Tensor rows = as_rows(x, dim);
  Tensor order = row_order(c, rows);
  Runs r = runs(c, index(rows, {order}), c.output_shape()[static_cast<size_t>(dim)]);
  return {from_rows(r.values, x, dim), scatter(full_like(order, 0), order, r.of_row, 0), r.lengths};
}

Results unique_consecutive(Call& c) {
  Tensor x = c.self();
  if (!c.has("dim")) {
    Runs r = runs(c, flatten(x), c.output_shape()[0]);
    return unique_results(c, r.values, reshape(r.of_row, x.shape()), r.lengths);
  }
  int64_t dim = c.dim("dim", x.rank());
  Runs r = runs(c, as_rows(x, dim), c.output_shape()[static_cast<size_t>(dim)]);
  return {from_rows(r.values, x, dim), r.of_row, r.lengths};
}

// How often each number occurs, from 0 to the largest one.
Results bincount(Call& c) {
  Builder& b = c.builder();
  Tensor x = c.self(), i = cast(x, NACRE_i64);
  Tensor counted = c.has("weights") ? cast(c.tensor("weights"), c.output_dtype()) : full(b, i.shape(), 1, NACRE_i64);
  Tensor most = maximum(amax(concat({i, full(b, {1}, -1, NACRE_i64)}, 0), {0}) + 1, c.operand("minlength", 0));
  std::optional<Expr> limit;
  if (x.dtype() == NACRE_u8) limit = max(c.size("minlength", Expr(0)), Expr(256));
  if (x.dtype() == NACRE_i8) limit = max(c.size("minlength", Expr(0)), Expr(128));
  Expr count = c.bind(most, c.output_shape()[0], limit);
  return scatter(full(b, {count}, 0, c.output_dtype()), i, counted, 0, "add");
}

// x cut where a tensor says, as Python slices do: from the end where negative, and never beyond it.
Results tensor_split(Call& c) {
  Tensor x = c.tensor("self"), cuts = c.tensor("tensor_indices_or_sections");
  if (cuts.rank() != 1) c.unsupported("a number of parts that depends on data");
  auto parts = static_cast<int64_t>(c.outputs());
  int64_t dim = c.dim("dim", x.rank(), 0);
  Expr n = x.size(dim);
  Tensor cut = cast(cuts, NACRE_i64);
  cut = clamp(where(lt(cut, 0), cut + Operand(n), cut), 0, Operand(n));
  std::vector<Tensor> results;
  Expr start = 0;
  for (int64_t i = 0; i < parts; i++) {
    Tensor begin = i > 0 ? select(cut, 0, i - 1) : c.full({}, 0, NACRE_i64);
    Tensor end = i + 1 < parts ? select(cut, 0, i) : c.full({}, n, NACRE_i64);
    if (i > 0) start = c.count(begin, n);
    auto part = static_cast<size_t>(i);
    if (!c.is_given(part)) {
      results.emplace_back();
      continue;
    }
    Expr length = c.bind(maximum(end - begin, 0), c.output_shape(part)[static_cast<size_t>(dim)], n);
    results.push_back(narrow(x, dim, start, length));
  }
  return results;
}

constexpr Decomposition kTable[] = {
    {"nonzero.default", nonzero},
    {"argwhere.default", nonzero},
    {"nonzero_numpy.default", nonzero_numpy},
    {"where.default", nonzero_numpy},
    {"nonzero_static.default", nonzero_static},
    {"masked_select.default", masked_select},
    {"repeat_interleave.Tensor", repeat_interleave},
    {"repeat_interleave.self_Tensor", repeat_elements},
    {"_unique2.default", unique},
    {"_unique.default", unique},
    {"unique_dim.default", unique_dim},
    {"unique_consecutive.default", unique_consecutive},
    {"unique_dim_consecutive.default", unique_consecutive},
    {"bincount.default", bincount},
    {"tensor_split.tensor_indices_or_sections", tensor_split},
};

}  // namespace

Tensor true_positions(Call& c, const Tensor& mask, const std::optional<Expr>& expected) {
  Builder& b = c.builder();
  Expr n = mask.size(0);
  Tensor ones = cast(mask, NACRE_i64);
  Tensor total = sum(ones, {0});
  Expr count = expected ? c.bind(total, *expected, n) : c.count(total, n);
  Tensor place = where(mask, scan("cumsum", ones, 0) - 1, full_like(ones, n));  // all others to one place more
  Tensor table = scatter(full(b, {n + 1}, 0, NACRE_i64), place, iota(b, n), 0);
  return slice(table, 0, 0, count);
}

std::vector<Tensor> mask_indices(Call& c, const Tensor& mask, const std::optional<Expr>& expected) {
  return positions_along_dims(true_positions(c, flatten(mask.rank() ? mask : reshape(mask, {1})), expected), mask.shape());
}

Decompositions selection_decompositions() { return kTable; }

}  // namespace nacre
