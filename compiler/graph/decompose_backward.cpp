// Gradients that exports contain as operators of their own.
//
// A convolution's are convolutions again: the gradient of its input is the transposed one, that of its weight correlates
// input and result over the batch.
#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// ---- Convolution.

struct Convolution {
  Dims stride, padding, dilation;
  int64_t groups;
};

Tensor channels(const Tensor& x, int64_t group, int64_t groups) {
  Expr size = simplify(floordiv(x.size(1), groups), x.facts());
  return narrow(x, 1, simplify(size * Expr(group), x.facts()), size);
}

// w[s, b, k] = sum over n, p of small[n, s, p] * big[n, b, p * stride + k * dilation - padding], group by group.
Tensor weight_gradient(const Convolution& a, const Tensor& big, const Tensor& small, const Shape& kernel) {
  Builder& b = big.builder();
  std::vector<Tensor> parts;
  for (int64_t g = 0; g < a.groups; g++) {
    Tensor x = transpose(channels(big, g, a.groups), 0, 1), y = transpose(channels(small, g, a.groups), 0, 1);
    Tensor w(b, b.conv(x.id(), y.id(), a.dilation, a.padding, a.stride, 1));
    for (size_t d = 0; d < kernel.size(); d++) w = narrow(w, static_cast<int64_t>(d) + 2, 0, kernel[d]);
    parts.push_back(transpose(w, 0, 1));
  }
  return concat(parts, 0);
}

// The adjoint of a convolution: what no window reached is 0.
Tensor input_gradient(const Convolution& a, const Tensor& gradient, const Tensor& w, const Shape& input) {
  Builder& b = gradient.builder();
  Dims none(a.stride.size(), 0);
  Tensor y(b, b.conv_transpose(gradient.id(), w.id(), a.stride, none, none, a.dilation, a.groups));
  Shape low(static_cast<size_t>(y.rank()), Expr(0)), high = low;
  for (size_t d = 0; d < a.stride.size(); d++) {
    low[d + 2] = Expr(-a.padding[d]);
    high[d + 2] = simplify(input[d + 2] + Expr(a.padding[d]) - y.shape()[d + 2], y.facts());
  }
  return pad(y, low, high, 0);
}

Results convolution_backward(Call& c) {
  Tensor gradient = c.tensor("grad_output"), x = c.tensor("input"), w = c.tensor("weight");
  auto spatial = static_cast<size_t>(w.rank() - 2);
  Convolution a{c.integers("stride", spatial, 1), c.integers("padding", spatial, 0), c.integers("dilation", spatial, 1),
                c.integer("groups", 1)};
  bool transposed = c.flag("transposed", false);
  Shape kernel(w.shape().begin() + 2, w.shape().end());
  Tensor of_input, of_weight, of_bias;
  if (c.needs(0)) {
    Builder& b = c.builder();
    of_input = transposed ? Tensor(b, b.conv(gradient.id(), w.id(), a.stride, a.padding, a.dilation, a.groups))
                          : input_gradient(a, gradient, w, x.shape());
  }
  if (c.needs(1))
    of_weight = transposed ? weight_gradient(a, gradient, x, kernel) : weight_gradient(a, x, gradient, kernel);
  if (c.needs(2)) {
    Dims dims{0};
    for (int64_t d = 2; d < gradient.rank(); d++) dims.push_back(d);
    of_bias = sum(gradient, dims);
  }
  return {of_input, of_weight, of_bias};
}

// ---- Normalisation: with g the gradient of the normalised x, dx = inverse * (g - mean(g) - x * mean(g * x)).

Tensor through_normalization(const Tensor& normal, const Tensor& g, const Tensor& inverse, const Dims& dims) {
  return (g - mean(g, dims, true) - normal * mean(g * normal, dims, true)) * inverse;
}

Results layer_norm_backward(Call& c) {
  Tensor input = c.tensor("input"), gradient = to_compute(c.tensor("grad_out")), x = to_compute(input);
  auto n = static_cast<int64_t>(c.sizes("normalized_shape").size());
  Dims inner, outer;
  for (int64_t d = 0; d < x.rank(); d++) (d < x.rank() - n ? outer : inner).push_back(d);
  Tensor inverse = cast(c.tensor("rstd"), x.dtype());
  Tensor normal = (x - cast(c.tensor("mean"), x.dtype())) * inverse;
  Tensor of_input, of_weight, of_bias;
  if (c.needs(0)) {
    Tensor g = gradient;
    if (Tensor w = c.optional("weight")) g = g * cast(w, x.dtype());
    of_input = cast(through_normalization(normal, g, inverse, inner), input.dtype());
  }
  if (c.needs(1)) of_weight = cast(sum(gradient * normal, outer), c.output_dtype(1));
  if (c.needs(2)) of_bias = cast(sum(gradient, outer), c.output_dtype(2));
  return {of_input, of_weight, of_bias};
}

Results group_norm_backward(Call& c) {
  Tensor input = c.tensor("input"), gradient = to_compute(c.tensor("grad_out")), x = to_compute(input);
  Shape rows{x.size(0), c.size("group"), Expr(-1)};
  Tensor inverse = unsqueeze(reshape(cast(c.tensor("rstd"), x.dtype()), {rows[0], rows[1]}), -1);
  Tensor average = unsqueeze(reshape(cast(c.tensor("mean"), x.dtype()), {rows[0], rows[1]}), -1);
  Tensor normal = (reshape(x, rows) - average) * inverse;
  Dims but_channels;
  for (int64_t d = 0; d < x.rank(); d++)
    if (d != 1) but_channels.push_back(d);
  Tensor of_input, of_weight, of_bias;
  if (c.needs(0)) {
    Tensor g = gradient;
    if (Tensor w = c.optional("weight")) g = g * broadcast(cast(w, x.dtype()), x.shape(), {1});
    Tensor y = through_normalization(normal, reshape(g, rows), inverse, {2});
    of_input = cast(reshape(y, x.shape()), input.dtype());
  }
  if (c.needs(1)) of_weight = cast(sum(gradient * reshape(normal, x.shape()), but_channels), c.output_dtype(1));
  if (c.needs(2)) of_bias = cast(sum(gradient, but_channels), c.output_dtype(2));
  return {of_input, of_weight, of_bias};
}

// ---- Embedding.

Results embedding_backward(Call& c) {
  Tensor gradient = c.tensor("grad_output"), indices = flatten(cast(c.tensor("indices"), NACRE_i64));
  nacre_dtype wide = compute_type(gradient.dtype());
  Expr rows = c.size("num_weights"), width = gradient.size(-1);
  Tensor g = reshape(cast(gradient, wide), {indices.size(0), width});
  if (c.flag("scale_grad_by_freq", false)) {
    Tensor one = full_like(indices, 1);
    Tensor counts = index_put(c.full({rows}, 0, NACRE_i64), one, {indices}, true, false);
    g = g / cast(unsqueeze(index_dim(counts, 0, indices), 1), wide);
  }
  if (int64_t padding = c.integer("padding_idx", -1); padding >= 0)
    g = where(unsqueeze(ne(indices, padding), 1), g, full_like(g, 0));
  return cast(index_put(c.full({rows, width}, 0, wide), g, {indices}, true, false), gradient.dtype());
}

constexpr Decomposition kTable[] = {
    {"convolution_backward.default", convolution_backward},
    {"native_layer_norm_backward.default", layer_norm_backward},
    {"native_group_norm_backward.default", group_norm_backward},
    {"embedding_dense_backward.default", embedding_backward},
};

}  // namespace

Decompositions backward_decompositions() { return kTable; }

}  // namespace nacre
