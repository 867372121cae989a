// Operators whose results have as many elements as the data say. All of them number what they keep by a running sum, which
// tells the count and where each element goes.
#include <algorithm>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// For each element of a list, whether it differs from the one before it.
Tensor begins_run(const Tensor& x) {
  Tensor i = iota(x.builder(), x.size(0));
  Tensor before = index(x, {maximum(i - 1, 0)});
  return eq(i, 0) | ne(x, before);
}

struct Runs {
  Tensor values, of_element, lengths;  // the first of each run, the run of each element, how many elements each has
};

Runs runs(Call& c, const Tensor& x) {
  Builder& b = c.builder();
  Tensor begins = begins_run(x);
  Runs r;
  Tensor first = true_positions(c, begins, c.output_shape()[0]);
  r.values = index(x, {first});
  r.of_element = scan("cumsum", cast(begins, NACRE_i64), 0) - 1;
  Tensor ones = full(b, x.shape(), 1, NACRE_i64);
  r.lengths = scatter(full(b, first.shape(), 0, NACRE_i64), r.of_element, ones, 0, "add");
  return r;
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

// Element i stands at places ends[i] - repeats[i] up to ends[i]: how many elements start at a place or before tells which
// one stands there.
Results repeat_interleave(Call& c) {
  Builder& b = c.builder();
  Tensor repeats = cast(c.self(), NACRE_i64);
  Expr count = c.bind(sum(repeats, {0}), c.output_shape()[0]);
  Tensor starts = scan("cumsum", repeats, 0) - repeats;
  Tensor ones = full(b, repeats.shape(), 1, NACRE_i64);
  Tensor marks = scatter(full(b, {count + 1}, 0, NACRE_i64), starts, ones, 0, "add");
  return cast(slice(scan("cumsum", marks, 0), 0, 0, count) - 1, c.output_dtype());
}

// values, inverse, counts, of which those that were not asked for are empty.
Results unique_results(Call& c, const Runs& r, const Tensor& inverse) {
  std::vector<Tensor> results{r.values};
  Tensor none = c.full({Expr(0)}, 0, NACRE_i64);
  if (c.outputs() > 1) results.push_back(c.flag("return_inverse", false) ? inverse : none);
  if (c.outputs() > 2) results.push_back(c.flag("return_counts", false) ? r.lengths : none);
  return results;
}

Results unique(Call& c) {
  Tensor x = c.self();
  auto [sorted, order] = sort(flatten(x), 0, false);
  Runs r = runs(c, sorted);
  Tensor inverse = scatter(full_like(order, 0), order, r.of_element, 0);
  return unique_results(c, r, reshape(inverse, x.shape()));
}

Results unique_consecutive(Call& c) {
  Tensor x = c.self();
  if (c.has("dim") && x.rank() != 1) c.unsupported("runs of slices");
  Runs r = runs(c, flatten(x));
  return unique_results(c, r, reshape(r.of_element, x.shape()));
}

constexpr Decomposition kTable[] = {
    {"nonzero.default", nonzero},
    {"argwhere.default", nonzero},
    {"masked_select.default", masked_select},
    {"repeat_interleave.Tensor", repeat_interleave},
    {"_unique2.default", unique},
    {"_unique.default", unique},
    {"unique_consecutive.default", unique_consecutive},
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
  Tensor at = true_positions(c, flatten(mask.rank() ? mask : reshape(mask, {1})), expected);
  std::vector<Tensor> columns;
  if (mask.rank() == 1) return {at};
  Expr step = 1;  // between elements that are neighbours along a dim
  for (int64_t d = mask.rank(); d-- > 0;) {
    Tensor column = step.is(1) ? at : div_floor(at, Operand(step));
    columns.push_back(d == 0 ? column : remainder(column, Operand(mask.size(d))));
    step *= mask.size(d);
  }
  std::reverse(columns.begin(), columns.end());
  return columns;
}

Decompositions selection_decompositions() { return kTable; }

}  // namespace nacre
