// Index maps: views, joins and splits, copies of regions into regions. Where export recorded the
// shape of a result (view, expand, flatten, ...) that shape is taken: it has `-1` and symbols
// resolved.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Results reshape_as_recorded(Call& c) { return reshape(c.self(), c.output_shape()); }

// A size that varies was not 1 for export: where it is, the result has another rank.
Results squeeze(Call& c) {
  const Tensor x = c.self();
  const bool one = c.op() == "aten.squeeze.dim";
  Dims dims = one ? Dims{c.integer("dim")} : c.has("dim") ? c.integers("dim") : all_dims(x.rank());
  if (x.rank() == 0) dims.clear();
  for (const int64_t dim : dims) {
    const Expr other = simplify(Expr::make(ExprOp::ne, {x.size(dim), Expr(1)}), c.facts());
    if (!other.constant()) c.builder().require(other, fmt::format("dimension {} must not be 1: the program was exported with squeeze leaving it", dim));
  }
  return reshape_as_recorded(c);
}

Results expand_as_recorded(Call& c) { return expand(c.self(), c.output_shape()); }

Results permute(Call& c) { return permute(c.self(), c.integers("dims")); }

Results transpose(Call& c) { return transpose(c.self(), c.integer("dim0"), c.integer("dim1")); }

Results swap_last(Call& c) { return transpose(c.self(), -2, -1); }

Results adjoint(Call& c) { return conj(transpose(c.self(), -2, -1)); }

Results reverse_dims(Call& c) {  // numpy_T, and t of up to two dims
  Dims dims = all_dims(c.self().rank());
  std::reverse(dims.begin(), dims.end());
  return permute(c.self(), dims);
}

Results move_dims(Call& c) {
  Tensor x = c.self();
  if (x.rank() == 0) return x;
  Dims source = c.integers("source"), destination = c.integers("destination");
  Dims order(static_cast<size_t>(x.rank()), -1);
  std::vector<bool> moved(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < source.size(); i++) {
    int64_t from = normalized_dim(source[i], x.rank());
    order[static_cast<size_t>(normalized_dim(destination[i], x.rank()))] = from;
    moved[static_cast<size_t>(from)] = true;
  }
  int64_t next = 0;
  for (int64_t& o : order) {
    if (o >= 0) continue;
    while (moved[static_cast<size_t>(next)]) next++;
    o = next++;
  }
  return permute(x, order);
}

Results unsqueeze(Call& c) { return unsqueeze(c.self(), c.integer("dim")); }

// ---- Slices.

// A bound of a slice as Python counts it: from the end if negative, and never outside [low, size].
Expr clamped(const Expr& bound, const Expr& low, const Expr& size, const Facts& facts) {
  Expr from_start = bound;
  Interval range = interval(bound, facts);
  if (range.max < 0)
    from_start = bound + size;
  else if (range.min < 0)
    from_start =
        Expr::make(ExprOp::select, {Expr::make(ExprOp::lt, {bound, 0}), bound + size, bound});
  const bool open = range.min == kUnbounded;  // `x[1:]` as export writes it
  return simplify(max(low, open ? size : min(from_start, size)), facts);
}

struct Range {
  Expr start, end, step;
};

Range slice_range(const Call& c, const Expr& size) {
  Range r;
  r.step = c.size("step", Expr(1));
  auto start = c.optional_size("start"), end = c.optional_size("end");
  r.start = start ? clamped(*start, 0, size, c.facts()) : Expr(0);
  r.end = end ? clamped(*end, r.start, size, c.facts()) : size;
  return r;
}

Results slice(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank(), 0);
  Range r = slice_range(c, x.size(dim));
  return slice(x, dim, r.start, r.end, r.step);
}

Results slice_scatter(Call& c) {
  Tensor x = c.tensor("self"), src = cast(c.tensor("src"), x.dtype());
  int64_t dim = c.dim("dim", x.rank(), 0);
  Range r = slice_range(c, x.size(dim));
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = simplify(ceildiv(r.end - r.start, r.step), c.facts());
  return select_scatter_range(x, expand(src, shape), dim, r.start, r.step);
}

Expr wrapped_index(const Expr& index, const Expr& size, const Facts& facts) {
  Interval range = interval(index, facts);
  if (range.min >= 0) return index;
  if (range.max < 0) return simplify(index + size, facts);
  return simplify(
      Expr::make(ExprOp::select, {Expr::make(ExprOp::lt, {index, 0}), index + size, index}), facts);
}

Results select(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank());
  return select(x, dim, wrapped_index(c.size("index"), x.size(dim), c.facts()));
}

Results select_scatter(Call& c) {
  Tensor x = c.tensor("self"), src = cast(c.tensor("src"), x.dtype());
  int64_t dim = c.dim("dim", x.rank());
  Expr index = wrapped_index(c.size("index"), x.size(dim), c.facts());
  return select_scatter_range(x, unsqueeze(src, dim), dim, index);
}

Results narrow(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank());
  Expr start = wrapped_index(c.size("start"), x.size(dim), c.facts());
  return narrow(x, dim, start, c.size("length"));
}

// Export recorded the sizes of all pieces, whichever way the split was asked for.
Results split_along(Call& c, int64_t dim) {
  Tensor x = c.self();
  std::vector<Tensor> pieces;
  Expr start(0);
  for (size_t i = 0; i < c.outputs(); i++) {
    if (c.node().outputs[i] == kNoValue) c.unsupported("a split whose pieces were not recorded");
    Expr size = c.output_shape(i)[static_cast<size_t>(dim)];
    pieces.push_back(narrow(x, dim, start, size));
    start = simplify(start + size, c.facts());
  }
  return pieces;
}

Results split(Call& c) { return split_along(c, c.dim("dim", c.self().rank(), 0)); }

Results unbind(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank(), 0);
  std::vector<Tensor> rows;
  for (size_t i = 0; i < c.outputs(); i++) rows.push_back(select(x, dim, static_cast<int64_t>(i)));
  return rows;
}

// ---- Joins.

Results concatenate(Call& c, int64_t dim) {
  std::vector<Tensor> inputs = c.tensors("tensors");
  std::vector<Operand> operands;
  for (const Tensor& t : inputs) operands.emplace_back(t);
  nacre_dtype dtype = result_type(operands);
  std::vector<Tensor> kept;
  size_t rank = c.output_shape().size();
  for (const Tensor& t : inputs) {
    bool legacy_empty = t.rank() == 1 && t.size(0).is(0) && rank != 1;
    if (!legacy_empty) kept.push_back(cast(t, dtype));
  }
  if (kept.empty()) return cast(inputs.front(), dtype);
  return concat(kept, dim);
}

Results concatenate_dim(Call& c) { return concatenate(c, c.integer("dim", 0)); }

std::vector<Tensor> promoted(const std::vector<Tensor>& inputs) {
  std::vector<Operand> operands;
  for (const Tensor& t : inputs) operands.emplace_back(t);
  nacre_dtype dtype = result_type(operands);
  std::vector<Tensor> result;
  for (const Tensor& t : inputs) result.push_back(cast(t, dtype));
  return result;
}

Results stack(Call& c) { return stack(promoted(c.tensors("tensors")), c.integer("dim", 0)); }

// vstack, hstack, dstack and column_stack: concat after raising the rank as NumPy does.
Tensor at_least(const Tensor& x, int64_t rank) {
  if (x.rank() == 0) return reshape(x, Shape(static_cast<size_t>(rank), Expr(1)));
  if (rank == 2 && x.rank() == 1) return unsqueeze(x, 0);
  if (rank == 3 && x.rank() == 1) return unsqueeze(unsqueeze(x, 0), -1);
  if (rank == 3 && x.rank() == 2) return unsqueeze(x, -1);
  return x;
}

Results numpy_stack(Call& c) {
  std::vector<Tensor> inputs = promoted(c.tensors("tensors"));
  const std::string& op = c.op();
  bool column = op.find("column_stack") != std::string::npos;
  bool depth = op.find("dstack") != std::string::npos;
  bool horizontal = op.find("hstack") != std::string::npos;
  for (Tensor& t : inputs) {
    if (column)
      t = t.rank() <= 1 ? reshape(t, {t.elements(), 1}) : t;
    else
      t = at_least(t, depth ? 3 : horizontal ? 1 : 2);
  }
  int64_t dim = column ? 1 : depth ? 2 : horizontal && inputs[0].rank() > 1 ? 1 : 0;
  return concat(inputs, dim);
}

template <int64_t rank>
Results at_least_rank(Call& c) {
  return at_least(c.self(), rank);
}
template <int64_t rank>
Results at_least_rank_all(Call& c) {
  std::vector<Tensor> result;
  for (const Tensor& t : c.tensors("tensors")) result.push_back(at_least(t, rank));
  return result;
}

Results block_diagonal(Call& c) {
  std::vector<Tensor> inputs = promoted(c.tensors("tensors"));
  Expr rows(0), columns(0), total_columns = c.output_shape()[1];
  std::vector<Tensor> bands;
  for (const Tensor& t : inputs) {
    Tensor m = at_least(t, 2);
    bands.push_back(pad(m, {0, columns}, {0, total_columns - columns - m.size(1)}, 0));
    columns = simplify(columns + m.size(1), c.facts());
  }
  return concat(bands, 0);
}

// Every input is padded to whole chunks along dim and cut into them; chunk i of the result holds chunk i of each input.
Results chunk_concatenate(Call& c) {
  int64_t dim = c.integer("dim");
  Expr chunks = c.size("num_chunks");
  std::vector<Tensor> pieces;
  for (const Tensor& t : c.tensors("tensors")) {
    int64_t d = normalized_dim(dim, t.rank());
    Expr length = simplify(ceildiv(t.size(d), chunks), c.facts());
    Tensor whole = pad_dim(t, d, 0, simplify(length * chunks - t.size(d), c.facts()), 0);
    Shape shape(t.shape().begin(), t.shape().begin() + d);
    shape.push_back(chunks);
    shape.push_back(length);
    for (int64_t i = d + 1; i < t.rank(); i++) shape.back() *= t.size(i);
    pieces.push_back(reshape(whole, shape));
  }
  return concat(pieces, pieces.front().rank() - 1);
}

Results meshgrid(Call& c) {
  std::vector<Tensor> inputs = c.tensors("tensors");
  bool swapped = c.text("indexing", "ij") == "xy" && inputs.size() >= 2;
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); i++) {
    auto dim = static_cast<int64_t>(swapped && i < 2 ? 1 - i : i);
    Tensor row = inputs[i].rank() == 0 ? reshape(inputs[i], {1}) : inputs[i];
    result.push_back(broadcast(row, c.output_shape(i), {dim}));
  }
  return result;
}

Results cartesian_product(Call& c) {
  std::vector<Tensor> inputs = promoted(c.tensors("tensors"));
  if (inputs.size() == 1) return inputs[0];
  Shape shape;
  for (const Tensor& t : inputs) shape.push_back(t.size(0));
  std::vector<Tensor> columns;
  for (size_t i = 0; i < inputs.size(); i++)
    columns.push_back(flatten(broadcast(inputs[i], shape, {static_cast<int64_t>(i)})));
  return stack(columns, 1);
}

// All choices of r of n positions in lexicographic order: of the n^r tuples, numbered, those that ascend. The k-th of them
// is found by writing each number at its place among them.
Results combinations(Call& c) {
  Tensor x = c.self();
  int64_t r = c.integer("r", 2);
  bool repeated = c.flag("with_replacement", false);
  Builder& b = c.builder();
  Expr n = x.size(0), total(1), count = c.output_shape()[0];
  if (r == 0) return c.full(c.output_shape(), 0, x.dtype());
  Shape cube(static_cast<size_t>(r), n);
  for (int64_t i = 0; i < r; i++) total *= n;
  Tensor ascends = full(b, cube, Number(true), NACRE_bool_);
  for (int64_t i = 1; i < r; i++) {
    Tensor before = iota_along(b, cube, i - 1), here = iota_along(b, cube, i);
    ascends = ascends & (repeated ? le(before, here) : lt(before, here));
  }
  ascends = flatten(ascends);
  Tensor place = scan("cumsum", cast(ascends, NACRE_i64), 0) - 1;
  place = where(ascends, place, full_like(place, 0) + Operand(count));  // the others go behind the end
  Tensor tuples = index_put(full(b, {count + 1}, 0, NACRE_i64), iota(b, total), {place}, false);
  Tensor rest = narrow(tuples, 0, 0, count);
  std::vector<Tensor> columns(static_cast<size_t>(r));
  for (int64_t i = r; i-- > 0;) {
    columns[static_cast<size_t>(i)] = index_dim(x, 0, remainder(rest, Operand(max(n, 1))));
    rest = div_floor(rest, Operand(max(n, 1)));
  }
  return stack(columns, 1);
}

// ---- Repetition.

// Every dim of x in `repeats` copies, one after the other (or each element in a row of copies).
Tensor tile(const Tensor& x, const Shape& repeats) {
  size_t rank = std::max(repeats.size(), x.shape().size());
  Shape wide, joined;
  Dims dims;
  for (size_t d = 0; d < rank; d++) {
    Expr times = d + repeats.size() >= rank ? repeats[d + repeats.size() - rank] : Expr(1);
    Expr size(1);
    if (d + x.shape().size() >= rank) size = x.shape()[d + x.shape().size() - rank];
    if (!times.is(1)) wide.push_back(times);
    if (d + x.shape().size() >= rank) {
      dims.push_back(static_cast<int64_t>(wide.size()));
      wide.push_back(size);
    } else if (times.is(1)) {
      wide.push_back(size);
    }
    joined.push_back(times * size);
  }
  return reshape(broadcast(x, wide, dims), joined);
}

Results repeat(Call& c) { return tile(c.self(), c.sizes("repeats")); }
Results tile_dims(Call& c) { return tile(c.self(), c.sizes("dims")); }

Results repeat_interleave(Call& c) {
  Tensor x = c.self();
  Expr times = c.size("repeats");
  if (!c.has("dim")) x = flatten(x);
  int64_t dim = c.has("dim") ? c.dim("dim", x.rank()) : 0;
  Shape wide = x.shape(), joined = x.shape();
  wide.insert(wide.begin() + dim + 1, times);
  joined[static_cast<size_t>(dim)] *= times;
  Dims dims = all_dims(x.rank());
  for (int64_t& d : dims)
    if (d > dim) d++;
  return reshape(broadcast(x, wide, dims), joined);
}

Tensor roll_dim(const Tensor& x, int64_t dim, const Expr& shift) {
  Expr size = x.size(dim);
  if (size.is(0) || size.is(1)) return x;
  // A size of 0 at run time leaves nothing to move: the divisor 1 only avoids a division by 0.
  Expr start = simplify(mod(-shift, max(size, 1)), x.facts());
  if (start.is(0)) return x;
  return concat({slice(x, dim, start, size), slice(x, dim, 0, start)}, dim);
}

Results roll(Call& c) {
  Tensor x = c.self();
  Shape shifts = c.sizes("shifts");
  Dims dims = c.integers("dims");
  if (x.rank() == 0) return x;
  if (dims.empty()) return reshape(roll_dim(flatten(x), 0, shifts.at(0)), x.shape());
  Tensor y = x;
  for (size_t i = 0; i < dims.size(); i++) y = roll_dim(y, dims[i], shifts.at(i));
  return y;
}

// fft.fftshift moves the first half behind, ifftshift moves it back; nothing else about them is
// Fourier.
Results half_roll(Call& c, bool back) {
  Tensor x = c.self();
  Dims dims = c.integers("dim");
  if (dims.empty()) dims = all_dims(x.rank());
  for (int64_t d : dims) {
    Expr half = floordiv(x.size(d), 2);
    x = roll_dim(x, d, back ? -half : half);
  }
  return x;
}

Results flip(Call& c) {
  Dims dims = c.integers("dims");
  return dims.empty() ? c.self() : flip(c.self(), dims);
}

Results rot90(Call& c) {
  Tensor x = c.self();
  Dims dims = c.integers("dims");
  if (dims.empty()) dims = {0, 1};
  switch (((c.integer("k", 1) % 4) + 4) % 4) {
    case 1:
      return transpose(flip(x, {dims[1]}), dims[0], dims[1]);
    case 2:
      return flip(x, dims);
    case 3:
      return transpose(flip(x, {dims[0]}), dims[0], dims[1]);
    default:
      return x;
  }
}

// ---- Shuffles.

Results pixel_shuffle(Call& c) {  // [..., C*r*r, H, W] -> [..., C, H*r, W*r]
  Tensor x = c.self();
  int64_t r = c.integer("upscale_factor"), n = x.rank();
  Tensor y = unflatten(x, n - 3, {-1, r, r});  // [..., C, r, r, H, W]
  Dims order = all_dims(n + 2);
  std::copy_n(Dims{n, n - 2, n + 1, n - 1}.begin(), 4,
              order.begin() + (n - 2));  // [..., C, H, r, W, r]
  return reshape(permute(y, order), c.output_shape());
}

Results pixel_unshuffle(Call& c) {
  Tensor x = c.self();
  int64_t r = c.integer("downscale_factor"), n = x.rank();
  Tensor y = unflatten(unflatten(x, n - 1, {-1, r}), n - 2, {-1, r});  // [..., C, H, r, W, r]
  Dims order = all_dims(n + 2);
  std::copy_n(Dims{n - 1, n + 1, n - 2, n}.begin(), 4,
              order.begin() + (n - 2));  // [..., C, r, r, H, W]
  return reshape(permute(y, order), c.output_shape());
}

Results channel_shuffle(Call& c) {
  Tensor x = c.self();
  Expr groups = c.size("groups");
  Tensor y = unflatten(x, 1, {groups, -1});
  return reshape(transpose(y, 1, 2), x.shape());
}

// ---- Diagonals.

struct Diagonal {
  Tensor moved;                             // dim1 and dim2 last
  Expr rows, columns, row, column, length;  // where it starts, how long it is
};

Diagonal diagonal_of(const Call& c, const Tensor& x, int64_t dim1, int64_t dim2) {
  Dims order;
  for (int64_t d = 0; d < x.rank(); d++)
    if (d != dim1 && d != dim2) order.push_back(d);
  order.push_back(dim1);
  order.push_back(dim2);
  Expr offset = c.size("offset", Expr(0));
  if (c.has("diagonal")) offset = c.size("diagonal");
  Diagonal d;
  d.moved = permute(x, order);
  d.rows = x.size(dim1);
  d.columns = x.size(dim2);
  d.row = simplify(max(-offset, 0), c.facts());
  d.column = simplify(max(offset, 0), c.facts());
  d.length = simplify(max(min(d.rows - d.row, d.columns - d.column), 0), c.facts());
  return d;
}

// The two dims are flattened; the diagonal is every (columns + 1)th element.
Tensor take_diagonal(const Diagonal& d, const Facts& facts) {
  Tensor flat = flatten(d.moved, -2, -1);
  if (d.length.is(0)) return slice(flat, -1, 0, 0);
  Expr start = d.row * d.columns + d.column;
  Expr end = start + (d.length - 1) * (d.columns + 1) + 1;
  if (!proves_le(1, d.length, facts)) {  // empty at some sizes
    start = min(start, d.rows * d.columns);
    end = max(start, end);
  }
  return slice(flat, -1, simplify(start, facts), simplify(end, facts), d.columns + 1);
}

Results diagonal(Call& c) {
  Tensor x = c.self();
  Diagonal d = diagonal_of(c, x, c.dim("dim1", x.rank(), 0), c.dim("dim2", x.rank(), 1));
  return take_diagonal(d, c.facts());
}

Tensor on_diagonal(const Diagonal& d) {
  Builder& b = d.moved.builder();
  const Shape& shape = d.moved.shape();
  return eq(iota_along(b, shape, -1) - iota_along(b, shape, -2), Operand(d.column - d.row));
}

// src (the diagonal last) spread over rows and columns; what lies beside the diagonal is of no
// meaning.
Tensor spread_diagonal(const Diagonal& d, const Tensor& src) {
  Tensor rows = pad_dim(src, -1, d.row, d.rows - d.row - d.length, 0);
  return expand(unsqueeze(rows, -1), d.moved.shape());
}

Tensor restore(const Tensor& moved, int64_t dim1, int64_t dim2) {
  Dims order(static_cast<size_t>(moved.rank()), -1);
  order[static_cast<size_t>(dim1)] = moved.rank() - 2;
  order[static_cast<size_t>(dim2)] = moved.rank() - 1;
  int64_t next = 0;
  for (int64_t& o : order)
    if (o < 0) o = next++;
  return permute(moved, order);
}

Results diagonal_scatter(Call& c) {
  Tensor x = c.tensor("self"), src = cast(c.tensor("src"), x.dtype());
  int64_t dim1 = c.dim("dim1", x.rank(), 0), dim2 = c.dim("dim2", x.rank(), 1);
  Diagonal d = diagonal_of(c, x, dim1, dim2);
  return restore(where(on_diagonal(d), spread_diagonal(d, src), d.moved), dim1, dim2);
}

Results diagonal_embed(Call& c) {
  Tensor src = c.self();
  Shape shape = c.output_shape();
  auto rank = static_cast<int64_t>(shape.size());
  int64_t dim1 = c.dim("dim1", rank, -2), dim2 = c.dim("dim2", rank, -1);
  Diagonal d = diagonal_of(c, c.full(shape, 0, src.dtype()), dim1, dim2);
  return restore(where(on_diagonal(d), spread_diagonal(d, src), d.moved), dim1, dim2);
}

Results diag(Call& c) {
  Tensor x = c.self();
  if (x.rank() == 2) return take_diagonal(diagonal_of(c, x, 0, 1), c.facts());
  Diagonal d = diagonal_of(c, c.full(c.output_shape(), 0, x.dtype()), 0, 1);
  return where(on_diagonal(d), spread_diagonal(d, x), d.moved);
}

Results diagflat(Call& c) {
  Tensor x = flatten(c.self());
  Diagonal d = diagonal_of(c, c.full(c.output_shape(), 0, x.dtype()), 0, 1);
  return where(on_diagonal(d), spread_diagonal(d, x), d.moved);
}

Results triangle(Call& c, bool lower) {
  Tensor x = c.self();
  Expr k = c.size("diagonal", Expr(0));
  Tensor distance = iota_along(c.builder(), x.shape(), -1) - iota_along(c.builder(), x.shape(), -2);
  Tensor kept = lower ? le(distance, Operand(k)) : ge(distance, Operand(k));
  return where(kept, x, full_like(x, 0));
}

// ---- Strided views of a dense tensor.

// The flat position of every element of the view.
Tensor strided_positions(const Call& c, const Shape& size, const Shape& stride) {
  Tensor position = c.full(size, c.size("storage_offset", Expr(0)), NACRE_i64);
  for (size_t d = 0; d < size.size(); d++) {
    if (stride[d].is(0) || size[d].is(1)) continue;
    Tensor row = iota(c.builder(), size[d], 0, stride[d]);
    position = position + broadcast(row, size, {static_cast<int64_t>(d)});
  }
  return position;
}

bool is_dense(const Shape& size, const Shape& stride, const Facts& facts) {
  Expr step(1);
  for (size_t d = size.size(); d-- > 0;) {
    if (!size[d].is(1) && !proves_eq(stride[d], step, facts)) return false;
    step *= size[d];
  }
  return true;
}

Results as_strided(Call& c) {
  Tensor x = c.self();
  Shape size = c.sizes("size"), stride = c.sizes("stride");
  if (size.size() != stride.size()) c.unsupported("sizes and strides of different length");
  Expr offset = c.size("storage_offset", Expr(0));
  Tensor flat = flatten(x);
  if (is_dense(size, stride, c.facts()))
    return reshape(narrow(flat, 0, offset, simplify(product(size), c.facts())), size);
  // A permutation of a dense view stays a view: sort the dims by stride.
  Dims order = all_dims(static_cast<int64_t>(size.size()));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const Expr& p = stride[static_cast<size_t>(a)];
    const Expr& q = stride[static_cast<size_t>(b)];
    return p != q && proves_lt(q, p, c.facts());
  });
  Shape sorted_size, sorted_stride;
  for (int64_t d : order) {
    sorted_size.push_back(size[static_cast<size_t>(d)]);
    sorted_stride.push_back(stride[static_cast<size_t>(d)]);
  }
  if (is_dense(sorted_size, sorted_stride, c.facts())) {
    Dims back(order.size());
    for (size_t i = 0; i < order.size(); i++)
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    Tensor part = narrow(flat, 0, offset, simplify(product(size), c.facts()));
    return permute(reshape(part, sorted_size), back);
  }
  return index(flat, {strided_positions(c, size, stride)});
}

Results as_strided_scatter(Call& c) {
  Tensor x = c.tensor("self"), src = cast(c.tensor("src"), x.dtype());
  Shape size = c.sizes("size"), stride = c.sizes("stride");
  Tensor flat = flatten(x);
  Tensor positions = strided_positions(c, size, stride);
  return reshape(index_put(flat, expand(src, size), {positions}, false), x.shape());
}

Results unfold(Call& c) {
  Tensor x = c.self();
  if (x.rank() == 0) return expand(x, c.output_shape());
  return window(x, c.dim("dimension", x.rank()), c.size("size"), c.size("step"));
}

constexpr Decomposition kTable[] = {
    {"view.default", reshape_as_recorded},
    {"view_as.default", reshape_as_recorded},
    {"reshape.default", reshape_as_recorded},
    {"reshape_as.default", reshape_as_recorded},
    {"_unsafe_view.default", reshape_as_recorded},
    {"_reshape_alias.default", reshape_as_recorded},
    {"_reshape_copy.default", reshape_as_recorded},
    {"flatten.using_ints", reshape_as_recorded},
    {"unflatten.int", reshape_as_recorded},
    {"ravel.default", reshape_as_recorded},
    {"squeeze.default", squeeze},
    {"squeeze.dim", squeeze},
    {"squeeze.dims", squeeze},
    {"unsqueeze.default", unsqueeze},
    {"expand.default", expand_as_recorded},
    {"expand_as.default", expand_as_recorded},
    {"broadcast_to.default", expand_as_recorded},
    {"broadcast_tensors.default",
     [](Call& c) -> Results {
       std::vector<Tensor> result = c.tensors("tensors");
       for (size_t i = 0; i < result.size(); i++) result[i] = expand(result[i], c.output_shape(i));
       return result;
     }},
    {"permute.default", permute},
    {"transpose.int", transpose},
    {"swapaxes.default",
     [](Call& c) -> Results {
       return transpose(c.self(), c.integer("axis0"), c.integer("axis1"));
     }},
    {"swapdims.default", transpose},
    {"t.default", reverse_dims},
    {"numpy_T.default", reverse_dims},
    {"matrix_H.default", adjoint},
    {"mT.default", swap_last},
    {"mH.default", adjoint},
    {"adjoint.default", adjoint},
    {"movedim.int", move_dims},
    {"movedim.intlist", move_dims},
    {"moveaxis.int", move_dims},
    {"moveaxis.intlist", move_dims},
    {"slice.Tensor", slice},
    {"slice_scatter.default", slice_scatter},
    {"select.int", select},
    {"select_scatter.default", select_scatter},
    {"narrow.default", narrow},
    {"split.Tensor", split},
    {"split.sizes", split},
    {"split.default", split},
    {"split_with_sizes.default", split},
    {"unsafe_split.Tensor", split},
    {"unsafe_split_with_sizes.default", split},
    {"chunk.default", split},
    {"unsafe_chunk.default", split},
    {"tensor_split.sections", split},
    {"tensor_split.indices", split},
    {"hsplit.int", [](Call& c) { return split_along(c, c.self().rank() == 1 ? 0 : 1); }},
    {"hsplit.array", [](Call& c) { return split_along(c, c.self().rank() == 1 ? 0 : 1); }},
    {"vsplit.int", [](Call& c) { return split_along(c, 0); }},
    {"vsplit.array", [](Call& c) { return split_along(c, 0); }},
    {"dsplit.int", [](Call& c) { return split_along(c, 2); }},
    {"dsplit.array", [](Call& c) { return split_along(c, 2); }},
    {"unbind.int", unbind},
    {"cat.default", concatenate_dim},
    {"concat.default", concatenate_dim},
    {"concatenate.default", concatenate_dim},
    {"stack.default", stack},
    {"vstack.default", numpy_stack},
    {"row_stack.default", numpy_stack},
    {"hstack.default", numpy_stack},
    {"dstack.default", numpy_stack},
    {"column_stack.default", numpy_stack},
    {"atleast_1d.default", at_least_rank<1>},
    {"atleast_2d.default", at_least_rank<2>},
    {"atleast_3d.default", at_least_rank<3>},
    {"atleast_1d.Sequence", at_least_rank_all<1>},
    {"atleast_2d.Sequence", at_least_rank_all<2>},
    {"atleast_3d.Sequence", at_least_rank_all<3>},
    {"block_diag.default", block_diagonal},
    {"_chunk_cat.default", chunk_concatenate},
    {"meshgrid.default", meshgrid},
    {"meshgrid.indexing", meshgrid},
    {"cartesian_prod.default", cartesian_product},
    {"combinations.default", combinations},
    {"repeat.default", repeat},
    {"tile.default", tile_dims},
    {"repeat_interleave.self_int", repeat_interleave},
    {"roll.default", roll},
    {"fft_fftshift.default", [](Call& c) { return half_roll(c, false); }},
    {"fft_ifftshift.default", [](Call& c) { return half_roll(c, true); }},
    {"flip.default", flip},
    {"fliplr.default", [](Call& c) -> Results { return flip(c.self(), {1}); }},
    {"flipud.default", [](Call& c) -> Results { return flip(c.self(), {0}); }},
    {"rot90.default", rot90},
    {"pixel_shuffle.default", pixel_shuffle},
    {"pixel_unshuffle.default", pixel_unshuffle},
    {"channel_shuffle.default", channel_shuffle},
    {"native_channel_shuffle.default", channel_shuffle},
    {"diagonal.default", diagonal},
    {"linalg_diagonal.default",
     [](Call& c) -> Results {
       Tensor x = c.self();
       Diagonal d = diagonal_of(c, x, c.dim("dim1", x.rank(), -2), c.dim("dim2", x.rank(), -1));
       return take_diagonal(d, c.facts());
     }},
    {"diagonal_scatter.default", diagonal_scatter},
    {"diag_embed.default", diagonal_embed},
    {"diag.default", diag},
    {"diagflat.default", diagflat},
    {"tril.default", [](Call& c) { return triangle(c, true); }},
    {"triu.default", [](Call& c) { return triangle(c, false); }},
    {"as_strided.default", as_strided},
    {"as_strided_scatter.default", as_strided_scatter},
    {"unfold.default", unfold},
};

}  // namespace

Decompositions view_decompositions() { return kTable; }

}  // namespace nacre
