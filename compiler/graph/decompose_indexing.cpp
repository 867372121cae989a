// Reading and writing at positions that tensors hold.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

bool is_mask(const Tensor& t) { return t && (t.dtype() == NACRE_bool_ || t.dtype() == NACRE_u8); }

// A mask stands for one index for each of its dims. `count`: what export calls the number of elements that it selects.
std::vector<Tensor> without_masks(Call& c, const std::vector<Tensor>& indices, const std::optional<Expr>& count) {
  std::vector<Tensor> result;
  for (const Tensor& t : indices) {
    if (!is_mask(t)) {
      result.push_back(t);
      continue;
    }
    if (t.rank() == 0) c.unsupported("a mask without dims");
    for (Tensor& column : mask_indices(c, to_bool(t), count)) result.push_back(std::move(column));
  }
  return result;
}

Results index(Call& c) {
  std::vector<Tensor> indices = c.tensors("indices");
  Tensor x = c.tensor("self");
  if (std::none_of(indices.begin(), indices.end(), is_mask)) return index(x, indices);
  // The dim of the result that counts what the masks select: the last of those that the indices make.
  size_t first = indices.size(), last = 0, rank = 1, present = 0;
  for (size_t i = 0, dim = 0; i < indices.size(); i++) {
    size_t dims = is_mask(indices[i]) ? static_cast<size_t>(indices[i].rank()) : 1;
    if (indices[i]) {
      first = std::min(first, dim);
      last = dim + dims;
      present += dims;
      if (!is_mask(indices[i])) rank = std::max(rank, static_cast<size_t>(indices[i].rank()));
    }
    dim += dims;
  }
  size_t place = (last - first == present ? first : 0) + rank - 1;
  return index(x, without_masks(c, indices, c.output_shape()[place]));
}

// Out-of-range positions are those that a mask rules out: they are brought into range.
std::vector<Tensor> indices_in_range(Call& c, const Tensor& x) {
  std::vector<Tensor> indices = without_masks(c, c.tensors("indices"), std::nullopt);
  for (size_t i = 0; i < indices.size(); i++) {
    if (!indices[i]) continue;
    Expr last = simplify(max(x.shape()[i] - 1, 0), c.facts());
    indices[i] = clamp(cast(indices[i], NACRE_i64), 0, Operand(last));
  }
  return indices;
}

Results masked_index(Call& c) {
  Tensor x = c.tensor("self"), mask = to_bool(c.tensor("mask"));
  std::vector<Tensor> indices = indices_in_range(c, x);
  Tensor taken = index(x, indices);
  return where(mask, taken, as_tensor(c.builder(), c.operand("fill"), x.dtype()));
}

// x with src written where a mask is true, in order: the k-th true element takes row k of `rows`.
Tensor write_masked(const Tensor& x, const Tensor& mask, const Tensor& rows, int64_t mask_rank,
                    bool accumulate) {
  Tensor flat = flatten(mask);
  Tensor rank = reshape(scan("cumsum", cast(flat, NACRE_i64), 0) - 1, mask.shape());
  rank = maximum(rank, 0);
  Tensor table = pad_dim(rows, 0, 0, 1, 0);  // a row to read where there is nothing to write
  Tensor taken = expand(index_dim(table, 0, rank), x.shape());
  Tensor wide = broadcast(mask, x.shape(), all_dims(mask_rank));
  if (accumulate) return x + where(wide, taken, full_like(x, 0));
  return where(wide, taken, x);
}

// The shape of x[indices].
Shape indexed_shape(const Tensor& x, const std::vector<Tensor>& indices) {
  Shape common;
  size_t first = indices.size(), last = 0;
  int present = 0;
  for (size_t i = 0; i < indices.size(); i++) {
    if (!indices[i]) continue;
    common = broadcast_shapes(common, indices[i].shape(), x.facts());
    first = std::min(first, i);
    last = i;
    present++;
  }
  bool adjacent = present > 0 && last - first + 1 == static_cast<size_t>(present);
  Shape shape;
  for (size_t d = 0; d < x.shape().size(); d++) {
    if (adjacent && d == first) shape.insert(shape.end(), common.begin(), common.end());
    if (d >= indices.size() || !indices[d]) shape.push_back(x.shape()[d]);
  }
  if (!adjacent) shape.insert(shape.begin(), common.begin(), common.end());
  return shape;
}

Tensor put_at(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate) {
  return index_put(x, expand(values, indexed_shape(x, indices)), indices, accumulate);
}

Results index_put_masked(Call& c, const Tensor& x, const std::vector<Tensor>& indices,
                         const Tensor& values, bool accumulate) {
  size_t at = 0;
  int present = 0;
  for (size_t i = 0; i < indices.size(); i++) {
    if (!indices[i]) continue;
    at = i;
    present++;
  }
  if (present != 1) return put_at(x, without_masks(c, indices, std::nullopt), values, accumulate);
  Tensor mask = to_bool(indices[at]);
  auto first = static_cast<int64_t>(at);
  int64_t rest = x.rank() - first - mask.rank();  // dims after those that the mask covers
  // The selected elements are one dim of the values, `rest` dims before their end.
  bool one_for_all = values.rank() <= rest || values.size(-1 - rest).is(1);
  if (one_for_all) {
    Tensor v = values;
    if (v.rank() > rest) {  // one dim of size 1 stands for all dims of the mask
      Shape shape = v.shape();
      for (int64_t i = 1; i < mask.rank(); i++)
        shape.insert(shape.end() - static_cast<std::ptrdiff_t>(rest), Expr(1));
      v = reshape(v, shape);
    }
    v = expand(v, x.shape());
    Dims dims = all_dims(mask.rank());
    for (int64_t& d : dims) d += first;
    Tensor wide = broadcast(mask, x.shape(), dims);
    if (accumulate) return x + where(wide, v, full_like(x, 0));
    return where(wide, v, x);
  }
  if (at != 0) return put_at(x, without_masks(c, indices, std::nullopt), values, accumulate);
  Shape row_shape{values.size(-1 - rest)};
  for (int64_t d = x.rank() - rest; d < x.rank(); d++) row_shape.push_back(x.size(d));
  return write_masked(x, mask, expand(values, row_shape), mask.rank(), accumulate);
}

Results index_put(Call& c) {
  Tensor x = c.tensor("self");
  std::vector<Tensor> indices = c.tensors("indices");
  Tensor values = cast(c.tensor("values"), x.dtype());
  bool accumulate = c.flag("accumulate", false);
  for (const Tensor& t : indices)
    if (is_mask(t)) return index_put_masked(c, x, indices, values, accumulate);
  bool nothing = true;
  for (const Tensor& t : indices) nothing = nothing && !t;
  if (nothing) return accumulate ? x + values : expand(values, x.shape());
  return put_at(x, indices, values, accumulate);
}

Results masked_index_put(Call& c) {
  Tensor x = c.tensor("self"), mask = to_bool(c.tensor("mask"));
  std::vector<Tensor> indices = indices_in_range(c, x);
  Shape shape = indexed_shape(x, indices);
  Tensor values = cast(c.tensor("values"), x.dtype());
  values = expand(where(mask, values, full(c.builder(), {}, 0, x.dtype())), shape);
  return index_put(x, values, indices, true);
}

Results masked_scatter(Call& c) {
  Tensor x = c.tensor("self"), mask = to_bool(c.tensor("mask"));
  Shape shape = c.output_shape();
  return write_masked(expand(x, shape), expand(mask, shape),
                      flatten(cast(c.tensor("source"), x.dtype())),
                      static_cast<int64_t>(shape.size()), false);
}

Results index_select(Call& c) {
  Tensor x = c.tensor("self"), i = c.tensor("index");
  Tensor row = i.rank() == 0 ? reshape(i, {1}) : i;
  if (x.rank() == 0) return reshape(index_dim(reshape(x, {1}), 0, row), c.output_shape());
  return index_dim(x, c.integer("dim"), row);
}

Results embedding(Call& c) { return index_dim(c.tensor("weight"), 0, c.tensor("indices")); }

// Rows that are looked up and longer than max_norm are scaled down to it.
Results embedding_renorm(Call& c) {
  Tensor x = c.tensor("self"), wide = to_compute(x);
  Tensor indices = flatten(c.tensor("indices"));
  double limit = c.real("max_norm"), p = c.real("norm_type", 2);
  Tensor a = abs(wide), norm;
  if (std::isinf(p))
    norm = amax(a, {1}, true);
  else if (p == 1)
    norm = sum(a, {1}, true);
  else if (p == 2)
    norm = sqrt(sum(a * a, {1}, true));
  else
    norm = pow(sum(pow(a, p), {1}, true), 1 / p);
  Tensor marks = full(c.builder(), {x.size(0)}, Number(false), NACRE_bool_);
  Tensor yes = full(c.builder(), indices.shape(), Number(true), NACRE_bool_);
  Tensor touched = unsqueeze(index_put(marks, yes, {indices}, false), 1);
  Tensor scaled = cast(wide * (reciprocal(norm + 1e-7) * limit), x.dtype());
  return where(touched & gt(norm, limit), scaled, x);
}

Results take(Call& c) { return index(flatten(c.tensor("self")), {c.tensor("index")}); }

Results gather(Call& c) { return gather(c.tensor("self"), c.tensor("index"), c.integer("dim")); }

Results take_along_dim(Call& c) {
  Tensor x = c.tensor("self"), i = c.tensor("indices");
  if (!c.has("dim")) return gather(flatten(x), flatten(i), 0);
  int64_t dim = c.dim("dim", x.rank());
  auto but_dim = [&](Shape shape) {
    shape.erase(shape.begin() + dim);
    return shape;
  };
  Shape common = broadcast_shapes(but_dim(x.shape()), but_dim(i.shape()), c.facts());
  auto widened = [&](const Tensor& t) {
    Shape shape = common;
    shape.insert(shape.begin() + dim, t.size(dim));
    return expand(t, shape);
  };
  return gather(widened(x), widened(i), dim);
}

// ---- Scatter.

// The part of src that index covers.
Tensor covered(const Tensor& src, const Tensor& index) {
  Tensor part = src;
  for (int64_t d = 0; d < index.rank(); d++)
    if (index.size(d) != part.size(d)) part = slice(part, d, 0, index.size(d));
  return part;
}

Tensor scatter_source(Call& c, const Tensor& x, const Tensor& index) {
  if (c.has("src")) return covered(cast(c.tensor("src"), x.dtype()), index);
  return filled(c.builder(), index.shape(), c.operand("value"), x.dtype());
}

// x with the positions that index names set to `value`: where a reduction leaves the old element
// out.
Tensor cleared(const Tensor& x, const Tensor& index, int64_t dim, const Number& value) {
  return scatter(x, index, full(x.builder(), index.shape(), value, x.dtype()), dim);
}

Tensor scatter_reduce(Call& c, const Tensor& x, const Tensor& index, const Tensor& src, int64_t dim,
                      const std::string& reduce, bool include_self) {
  nacre_dtype wide = compute_type(x.dtype());
  Tensor base = cast(x, wide), source = cast(src, wide);
  auto start = [&](const Number& identity) {
    return include_self ? base : cleared(base, index, dim, identity);
  };
  Tensor result;
  if (reduce == "sum" || reduce == "add") {
    result = scatter(start(0), index, source, dim, "add");
  } else if (reduce == "prod" || reduce == "multiply" || reduce == "mul") {
    result = scatter(start(1), index, source, dim, "mul");
  } else if (reduce == "amax") {
    result = scatter(start(padding_below(wide)), index, source, dim, "amax");
  } else if (reduce == "amin") {
    Number top = wide == NACRE_i64 ? Number(std::numeric_limits<int64_t>::max())
                                   : Number(padding_above(wide));
    result = scatter(start(top), index, source, dim, "amin");
  } else if (reduce == "mean") {
    Tensor total = scatter(start(0), index, source, dim, "add");
    Tensor ones = full(c.builder(), index.shape(), 1, wide);
    Tensor n = scatter(full_like(base, include_self ? 1 : 0), index, ones, dim, "add");
    n = maximum(n, 1);
    result = is_floating(wide) ? total / n : div_floor(total, n);
  } else {
    c.unsupported("the reduction " + reduce);
  }
  return cast(result, x.dtype());
}

Results scatter(Call& c) {
  Tensor x = c.tensor("self"), index = c.tensor("index");
  int64_t dim = c.integer("dim");
  Tensor src = scatter_source(c, x, index);
  if (c.has("reduce"))
    return scatter_reduce(c, x, index, src, dim, c.text("reduce", ""),
                          c.flag("include_self", true));
  return scatter(x, index, src, dim);
}

Results scatter_add(Call& c) {
  Tensor x = c.tensor("self"), index = c.tensor("index");
  return scatter_reduce(c, x, index, scatter_source(c, x, index), c.integer("dim"), "add", true);
}

// ---- Whole slices along a dim.

struct Slices {
  Tensor x, index, source;  // rank 0 made rank 1
  int64_t dim;
};

Slices slices(Call& c, const Tensor& source) {
  Slices s{c.tensor("self"), c.tensor("index"), source, c.integer("dim")};
  if (s.x.rank() == 0) s.x = reshape(s.x, {1});
  if (s.index.rank() == 0) s.index = reshape(s.index, {1});
  s.dim = normalized_dim(s.dim, s.x.rank());
  Shape shape = s.x.shape();
  shape[static_cast<size_t>(s.dim)] = s.index.size(0);
  if (s.source.rank() == 0 || s.source.rank() != s.x.rank())
    s.source = s.source.rank() == 0 ? expand(s.source, shape) : reshape(s.source, shape);
  return s;
}

// `wrap`: a negative index counts from the end.
Tensor put_slices(const Slices& s, bool accumulate, bool wrap = false) {
  std::vector<Tensor> indices(static_cast<size_t>(s.dim));
  indices.push_back(s.index);
  return index_put(s.x, s.source, indices, accumulate, wrap);
}

Results index_add(Call& c) {
  Tensor x = c.tensor("self");
  nacre_dtype wide = compute_type(x.dtype());
  Tensor source = cast(c.tensor("source"), wide);
  Operand alpha = c.operand("alpha", 1);
  if (!alpha.is(1)) source = binary("mul", source, alpha, wide);
  Slices s = slices(c, source);
  s.x = cast(s.x, wide);
  return reshape(cast(put_slices(s, true), x.dtype()), x.shape());
}

Results index_copy(Call& c) {
  Tensor x = c.tensor("self");
  return reshape(put_slices(slices(c, cast(c.tensor("source"), x.dtype())), false), x.shape());
}

Results index_fill(Call& c) {
  Tensor x = c.tensor("self");
  Tensor value = reshape(as_tensor(c.builder(), c.operand("value"), x.dtype()), {});
  return reshape(put_slices(slices(c, value), false, true), x.shape());
}

Results index_reduce(Call& c) {
  Tensor x = c.tensor("self");
  Slices s = slices(c, cast(c.tensor("source"), x.dtype()));
  Tensor everywhere = broadcast(s.index, s.source.shape(), {s.dim});
  Tensor y = scatter_reduce(c, s.x, everywhere, s.source, s.dim, c.text("reduce", ""),
                            c.flag("include_self", true));
  return reshape(y, x.shape());
}

Results put(Call& c) {
  Tensor x = c.tensor("self"), i = flatten(c.tensor("index"));
  Tensor source = reshape(cast(c.tensor("source"), x.dtype()), i.shape());
  Tensor y = index_put(flatten(x), source, {i}, c.flag("accumulate", false));
  return reshape(y, x.shape());
}

// ---- Bags of embeddings.

Results embedding_bag(Call& c) {
  Tensor weight = c.tensor("weight"), indices = c.tensor("indices");
  if (indices.rank() != 1) c.unsupported("indices that are not a list");
  Tensor offsets = cast(c.tensor("offsets"), NACRE_i64);
  indices = cast(indices, NACRE_i64);
  if (c.flag("include_last_offset", false))
    offsets = slice(offsets, 0, 0, simplify(offsets.size(0) - 1, c.facts()));
  int64_t mode = c.integer("mode", 0);
  Builder& b = c.builder();
  Expr n = indices.size(0), bags = offsets.size(0);

  // The bag of an entry: the last one that starts at it or before.
  Tensor position = unsqueeze(iota(b, n), 1);
  Tensor bag = sum(le(unsqueeze(offsets, 0), position), {1}) - 1;
  Tensor counted = full(b, {n}, Number(true), NACRE_bool_);
  auto padding = c.optional_integer("padding_idx");
  if (padding && *padding < 0 && c.op().find("aten._embedding_bag") == 0) padding.reset();
  if (padding) {
    Expr row = *padding < 0 ? weight.size(0) + Expr(*padding) : Expr(*padding);
    counted = ne(indices, Operand(row));
  }
  nacre_dtype wide = compute_type(weight.dtype());
  Tensor rows = cast(index_dim(weight, 0, indices), wide);
  if (Tensor scale = c.optional("per_sample_weights"))
    rows = rows * unsqueeze(cast(scale, wide), 1);
  Tensor keep = unsqueeze(counted, 1);
  Shape shape{bags, weight.size(1)};
  Tensor sizes = index_put(full(b, {bags}, 0, NACRE_i64), cast(counted, NACRE_i64), {bag}, true);
  Tensor result;
  if (mode == 2) {
    Tensor low = full(b, shape, padding_below(wide), wide);
    Tensor everywhere = broadcast(bag, rows.shape(), {0});
    Tensor best = scatter(low, everywhere, where(keep, rows, full_like(rows, padding_below(wide))),
                          0, "amax");
    result = where(gt(unsqueeze(sizes, 1), 0), best, full_like(best, 0));
  } else {
    result = index_put(full(b, shape, 0, wide), where(keep, rows, full_like(rows, 0)), {bag}, true);
    if (mode == 1) result = result / cast(unsqueeze(maximum(sizes, 1), 1), wide);
  }
  for (size_t i = 1; i < c.outputs(); i++)
    if (c.needs(i)) c.unsupported("the bookkeeping results of an embedding bag");
  return cast(result, weight.dtype());
}

Results one_hot(Call& c) {
  Tensor x = cast(c.self(), NACRE_i64);
  Expr classes = c.size("num_classes", Expr(-1));
  if (classes.is(-1))
    c.unsupported("num_classes=-1 depends on the data: name the number of classes");
  Shape shape = x.shape();
  shape.push_back(classes);
  Tensor wide = broadcast(x, shape, all_dims(x.rank()));
  return cast(eq(wide, iota_along(c.builder(), shape, -1)), NACRE_i64);
}

constexpr Decomposition kTable[] = {
    {"index.Tensor", index},
    {"_unsafe_index.Tensor", index},
    {"_unsafe_masked_index.default", masked_index},
    {"_unsafe_masked_index_put_accumulate.default", masked_index_put},
    {"embedding_renorm.default", embedding_renorm},
    {"index_put.default", index_put},
    {"_unsafe_index_put.default", index_put},
    {"_index_put_impl.default", index_put},
    {"masked_scatter.default", masked_scatter},
    {"index_select.default", index_select},
    {"embedding.default", embedding},
    {"take.default", take},
    {"gather.default", gather},
    {"take_along_dim.default", take_along_dim},
    {"scatter.src", scatter},
    {"scatter.value", scatter},
    {"scatter.reduce", scatter},
    {"scatter.value_reduce", scatter},
    {"scatter_add.default", scatter_add},
    {"scatter_reduce.two", scatter},
    {"index_add.default", index_add},
    {"index_copy.default", index_copy},
    {"index_fill.int_Scalar", index_fill},
    {"index_fill.int_Tensor", index_fill},
    {"index_reduce.default", index_reduce},
    {"put.default", put},
    {"embedding_bag.default", embedding_bag},
    {"embedding_bag.padding_idx", embedding_bag},
    {"_embedding_bag.default", embedding_bag},
    {"_embedding_bag_forward_only.default", embedding_bag},
    {"one_hot.default", one_hot},
};

}  // namespace

Decompositions indexing_decompositions() { return kTable; }

}  // namespace nacre
