// Normalisation and softmax. Statistics and the result are computed in compute_type and rounded
// once.
//
// Batch norm with running statistics becomes (x - mean) * scale + bias, where scale is a small
// subgraph of the parameters alone: constant work that is folded later.
#include <cmath>
#include <limits>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

Tensor softmax(const Tensor& x, int64_t dim) {
  Tensor y = to_compute(x);
  if (x.rank() == 0) return cast(exp(y - y), x.dtype());
  Tensor e = exp(y - amax(y, {dim}, true));
  return cast(e / sum(e, {dim}, true), x.dtype());
}

Tensor log_softmax(const Tensor& x, int64_t dim) {
  Tensor y = to_compute(x);
  if (x.rank() == 0) return cast(y - y, x.dtype());
  Tensor shifted = y - amax(y, {dim}, true);
  return cast(shifted - log(sum(exp(shifted), {dim}, true)), x.dtype());
}

namespace {

Results softmax(Call& c, bool logarithm) {
  Tensor x = c.self();
  if (x.rank() > 0 && x.size(c.dim("dim", x.rank(), -1)).is(0)) return cast(x, c.output_dtype());
  // With a dtype the input is converted first, so nothing is rounded in between.
  Tensor y = cast(x, compute_type(c.output_dtype()));
  int64_t dim = c.dim("dim", x.rank(), -1);
  return cast(logarithm ? log_softmax(y, dim) : softmax(y, dim), c.output_dtype());
}

// A row of nothing but -inf gives zeros.
Results safe_softmax(Call& c) {
  Tensor x = cast(c.self(), compute_type(c.output_dtype()));
  int64_t dim = c.dim("dim", x.rank(), -1);
  Tensor masked = all(eq(x, -std::numeric_limits<double>::infinity()), {dim}, true);
  Tensor y = softmax(x, dim);
  return cast(where(masked, full_like(y, 0), y), c.output_dtype());
}

Results softmax_backward(Call& c, bool logarithm) {
  Tensor gradient = to_compute(c.tensor("grad_output")), y = to_compute(c.tensor("output"));
  int64_t dim = c.dim("dim", y.rank());
  Dims dims = y.rank() == 0 ? Dims{} : Dims{dim};
  Tensor result;
  if (logarithm) {
    result = gradient - exp(y) * sum(gradient, dims, true);
  } else {
    Tensor weighted = gradient * y;
    result = weighted - y * sum(weighted, dims, true);
  }
  return cast(result, c.output_dtype());
}

// One value a channel, shaped to meet x: channels are dim 1.
Tensor per_channel(const Tensor& v, const Tensor& x) { return broadcast(v, x.shape(), {1}); }

// ---- Batch norm.

struct Parameters {
  Tensor weight, bias;  // in compute_type; may be absent
};

Parameters parameters(Call& c, nacre_dtype wide) {
  Parameters p{c.optional("weight"), c.optional("bias")};
  if (p.weight) p.weight = cast(p.weight, wide);
  if (p.bias) p.bias = cast(p.bias, wide);
  return p;
}

// Not x * scale + (bias - mean * scale): where a channel hardly varies, the scale is large, and the
// two products cancel.
Tensor scale_and_shift(const Tensor& x, const Tensor& average, const Tensor& inverse,
                       const Parameters& p) {
  Tensor scale = p.weight ? p.weight * inverse : inverse;
  Tensor y = (x - per_channel(average, x)) * per_channel(scale, x);
  return p.bias ? y + per_channel(p.bias, x) : y;
}

struct Normalized {
  Tensor y, mean, inverse;
};

Normalized batch_norm_inference(Call& c) {
  Tensor x = c.tensor("input");
  nacre_dtype wide = compute_type(x.dtype());
  Tensor average = cast(c.tensor("running_mean"), wide);
  Tensor inverse = rsqrt(cast(c.tensor("running_var"), wide) + c.real("eps", 1e-5));
  Tensor y = scale_and_shift(cast(x, wide), average, inverse, parameters(c, wide));
  return {cast(y, x.dtype()), average, inverse};
}

// With the batch's own statistics.
Normalized batch_norm_of_batch(Call& c) {
  Tensor input = c.tensor("input"), x = to_compute(input);
  Dims dims;
  for (int64_t d = 0; d < x.rank(); d++)
    if (d != 1) dims.push_back(d);
  Tensor average = mean(x, dims, true);
  Tensor centred = x - average;
  Tensor variance = mean(centred * centred, dims, true);
  Tensor inverse = rsqrt(variance + c.real("eps", 1e-5));
  Parameters p = parameters(c, x.dtype());
  Tensor y = centred * inverse;
  if (p.weight) y = y * per_channel(p.weight, x);
  if (p.bias) y = y + per_channel(p.bias, x);
  Shape channels{x.size(1)};
  return {cast(y, input.dtype()), reshape(average, channels), reshape(inverse, channels)};
}

Tensor nothing(Call& c, nacre_dtype dtype) { return c.full({0}, 0, dtype); }

// (output, save_mean, save_invstd): the last two are empty at inference.
Results native_batch_norm(Call& c, bool training) {
  if (!training) {
    std::vector<Tensor> results{batch_norm_inference(c).y};
    const size_t statistics = c.outputs() >= 5 ? c.outputs() - 2 : c.outputs();  // the running ones, as they were
    for (size_t i = 1; i < statistics; i++)
      results.push_back(c.needs(i) ? nothing(c, c.output_dtype(i)) : Tensor());
    if (statistics < c.outputs()) results.insert(results.end(), {c.tensor("running_mean"), c.tensor("running_var")});
    return results;
  }
  Normalized n = batch_norm_of_batch(c);
  std::vector<Tensor> results{n.y, n.mean, n.inverse};
  for (size_t i = 1; i < 3; i++)
    if (c.needs(i)) results[i] = cast(results[i], c.output_dtype(i));
  // New running statistics, where the operator returns them: (1 - momentum) * old + momentum *
  // (unbiased) batch.
  if (c.outputs() >= 5) {
    Tensor x = to_compute(c.tensor("input"));
    Expr count = simplify(floordiv(x.elements(), max(x.size(1), 1)), c.facts());
    double momentum = c.real("momentum", 0.1), eps = c.real("eps", 1e-5);
    auto blended = [&](const char* name, const Tensor& now) {
      Tensor old = c.tensor(name);
      return cast(to_compute(old) * (1 - momentum) + now * momentum, old.dtype());
    };
    Tensor biased = reciprocal(n.inverse * n.inverse) - eps;
    Tensor unbiased = biased * Operand(count) / Operand(count - 1);
    if (c.op().find("_batch_norm_with_update") != std::string::npos)
      results.push_back(c.full({0}, 0, NACRE_u8));  // the reserve
    results.push_back(c.has("running_mean") ? blended("running_mean", n.mean) : Tensor());
    results.push_back(c.has("running_var") ? blended("running_var", unbiased) : Tensor());
  }
  return results;
}

Results batch_norm(Call& c) {
  if (c.tensor("input").elements().is(0)) return c.tensor("input");
  bool own = c.flag("training", false) || !c.has("running_mean");
  return own ? batch_norm_of_batch(c).y : batch_norm_inference(c).y;
}

// Every sample and channel on its own, unless running statistics are used.
Results instance_norm(Call& c) {
  Tensor input = c.tensor("input");
  if (!c.flag("use_input_stats", true)) return batch_norm_inference(c).y;
  Tensor x = to_compute(input);
  Dims dims;
  for (int64_t d = 2; d < x.rank(); d++) dims.push_back(d);
  Tensor centred = x - mean(x, dims, true);
  Tensor y = centred * rsqrt(mean(centred * centred, dims, true) + c.real("eps", 1e-5));
  Parameters p = parameters(c, x.dtype());
  if (p.weight) y = y * per_channel(p.weight, x);
  if (p.bias) y = y + per_channel(p.bias, x);
  return cast(y, input.dtype());
}

// ---- Layer, RMS and group norm.

Dims normalized_dims_of(Call& c, const Tensor& x) {
  auto n = static_cast<int64_t>(c.sizes("normalized_shape").size());
  Dims dims;
  for (int64_t d = x.rank() - n; d < x.rank(); d++) dims.push_back(d);
  return dims;
}

Results layer_norm(Call& c) {
  Tensor input = c.tensor("input"), x = to_compute(input);
  Dims dims = normalized_dims_of(c, x);
  Tensor average = mean(x, dims, true);
  Tensor centred = x - average;
  Tensor inverse = rsqrt(mean(centred * centred, dims, true) + c.real("eps", 1e-5));
  Tensor y = centred * inverse;
  Parameters p = parameters(c, x.dtype());
  if (p.weight) y = y * p.weight;
  if (p.bias) y = y + p.bias;
  std::vector<Tensor> results{cast(y, input.dtype())};
  if (c.needs(1)) results.push_back(cast(average, c.output_dtype(1)));
  if (c.needs(2)) {
    results.resize(2);
    results.push_back(cast(inverse, c.output_dtype(2)));
  }
  return results;
}

Results rms_norm(Call& c) {
  Tensor input = c.tensor("input"), x = to_compute(input);
  Dims dims = normalized_dims_of(c, x);
  double eps = c.real("eps", epsilon(x.dtype()));
  Tensor inverse = rsqrt(mean(x * x, dims, true) + eps);
  Tensor y = x * inverse;
  if (Tensor weight = c.optional("weight")) y = y * cast(weight, x.dtype());
  return {cast(y, c.output_dtype()), c.needs(1) ? cast(inverse, c.output_dtype(1)) : Tensor()};
}

Results group_norm(Call& c, const char* groups_name) {
  Tensor input = c.tensor("input"), x = to_compute(input);
  Expr groups = c.size(groups_name);
  Tensor rows = reshape(x, {x.size(0), groups, -1});
  Tensor average = mean(rows, {2}, true);
  Tensor centred = rows - average;
  Tensor inverse = rsqrt(mean(centred * centred, {2}, true) + c.real("eps", 1e-5));
  Tensor y = reshape(centred * inverse, x.shape());
  Parameters p = parameters(c, x.dtype());
  if (p.weight) y = y * per_channel(p.weight, x);
  if (p.bias) y = y + per_channel(p.bias, x);
  auto statistic = [&](size_t i, const Tensor& t) {
    return c.needs(i) ? cast(reshape(t, {x.size(0), groups}), c.output_dtype(i)) : Tensor();
  };
  return {cast(y, input.dtype()), statistic(1, average), statistic(2, inverse)};
}

// ---- Others.

// w = g * v / |v|, the norm over all dims but `dim`.
Results weight_norm(Call& c) {
  Tensor v = c.tensor("v"), g = c.tensor("g");
  int64_t dim = c.integer("dim", 0);
  Dims dims;
  for (int64_t d = 0; d < v.rank(); d++)
    if (dim == -1 || d != normalized_dim(dim, v.rank())) dims.push_back(d);
  Tensor norm = sqrt(sum(v * v, dims, true));
  return {v * (g / norm), norm};
}

Results renorm(Call& c) {
  Tensor x = c.self();
  double p = c.real("p"), limit = c.real("maxnorm");
  int64_t dim = c.dim("dim", x.rank());
  Dims dims;
  for (int64_t d = 0; d < x.rank(); d++)
    if (d != dim) dims.push_back(d);
  Tensor wide = to_compute(x), a = abs(wide), norm;
  if (std::isinf(p))
    norm = amax(a, dims, true);
  else if (p == 1)
    norm = sum(a, dims, true);
  else if (p == 2)
    norm = sqrt(sum(a * a, dims, true));
  else
    norm = pow(sum(pow(a, p), dims, true), 1 / p);
  Tensor factor = where(gt(norm, limit), reciprocal(norm + 1e-7) * limit, full_like(norm, 1));
  return cast(wide * factor, x.dtype());
}

constexpr Decomposition kTable[] = {
    {"softmax.int", [](Call& c) { return softmax(c, false); }},
    {"_softmax.default", [](Call& c) { return softmax(c, false); }},
    {"special_softmax.default", [](Call& c) { return softmax(c, false); }},
    {"log_softmax.int", [](Call& c) { return softmax(c, true); }},
    {"_log_softmax.default", [](Call& c) { return softmax(c, true); }},
    {"special_log_softmax.default", [](Call& c) { return softmax(c, true); }},
    {"_safe_softmax.default", safe_softmax},
    {"_softmax_backward_data.default", [](Call& c) { return softmax_backward(c, false); }},
    {"_log_softmax_backward_data.default", [](Call& c) { return softmax_backward(c, true); }},
    {"batch_norm.default", batch_norm},
    {"native_batch_norm.default",
     [](Call& c) { return native_batch_norm(c, c.flag("training", false)); }},
    {"_native_batch_norm_legit.default",
     [](Call& c) { return native_batch_norm(c, c.flag("training", false)); }},
    {"_native_batch_norm_legit.no_stats", [](Call& c) { return native_batch_norm(c, true); }},
    {"_native_batch_norm_legit_no_training.default",
     [](Call& c) { return native_batch_norm(c, false); }},
    {"_native_batch_norm_legit_functional.default",
     [](Call& c) { return native_batch_norm(c, c.flag("training", false)); }},
    {"_batch_norm_no_update.default", [](Call& c) { return native_batch_norm(c, false); }},
    {"_batch_norm_with_update_functional.default",
     [](Call& c) { return native_batch_norm(c, true); }},
    {"cudnn_batch_norm.default",
     [](Call& c) { return native_batch_norm(c, c.flag("training", false)); }},
    {"instance_norm.default", instance_norm},
    {"layer_norm.default", layer_norm},
    {"native_layer_norm.default", layer_norm},
    {"rms_norm.default", rms_norm},
    {"_fused_rms_norm.default", rms_norm},
    {"group_norm.default", [](Call& c) { return group_norm(c, "num_groups"); }},
    {"native_group_norm.default", [](Call& c) { return group_norm(c, "group"); }},
    {"_weight_norm.default", weight_norm},
    {"_weight_norm_interface.default", weight_norm},
    {"renorm.default", renorm},
};

}  // namespace

Decompositions normalization_decompositions() { return kTable; }

}  // namespace nacre
