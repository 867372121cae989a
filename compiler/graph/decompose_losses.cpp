// Losses: a formula for each element, then none, the mean or the sum.
#include <cmath>
#include <numbers>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// reduction: 0 none, 1 mean, 2 sum.
Tensor reduced(Call& c, const Tensor& loss, nacre_dtype dtype) {
  int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) return cast(loss, dtype);
  Dims dims = all_dims(loss.rank());
  return cast(reduction == 1 ? mean(loss, dims) : sum(loss, dims), dtype);
}

struct Pair {
  Tensor x, target;
  nacre_dtype dtype;
};

// Input and target in the type in which the loss is computed, broadcast against each other.
Pair operands(Call& c) {
  Tensor x = c.self(), t = c.tensor("target");
  nacre_dtype dtype = result_type({x, t}), wide = is_floating(dtype) ? compute_type(dtype) : dtype;
  Shape shape = broadcast_shapes(x.shape(), t.shape(), c.facts());
  return {expand(cast(x, wide), shape), expand(cast(t, wide), shape), dtype};
}

Results mse(Call& c) {
  Pair p = operands(c);
  Tensor d = p.x - p.target;
  return reduced(c, d * d, p.dtype);
}

Results l1(Call& c) {
  Pair p = operands(c);
  return reduced(c, abs(p.x - p.target), p.dtype);
}

Results smooth_l1(Call& c) {
  Pair p = operands(c);
  double beta = c.real("beta", 1);
  Tensor d = abs(p.x - p.target);
  if (beta == 0) return reduced(c, d, p.dtype);
  return reduced(c, where(lt(d, beta), d * d * 0.5 / beta, d - 0.5 * beta), p.dtype);
}

Results huber(Call& c) {
  Pair p = operands(c);
  double delta = c.real("delta", 1);
  Tensor d = abs(p.x - p.target);
  return reduced(c, where(le(d, delta), d * d * 0.5, (d - 0.5 * delta) * delta), p.dtype);
}

Results binary_cross_entropy(Call& c) {
  Pair p = operands(c);
  Tensor yes = maximum(log(p.x), -100), no = maximum(log1p(-p.x), -100);
  Tensor loss = (p.target - 1) * no - p.target * yes;
  if (Tensor w = c.optional("weight")) loss = loss * cast(w, loss.dtype());
  return reduced(c, loss, p.dtype);
}

Tensor log_sigmoid(const Tensor& x) { return minimum(x, 0) - log1p(exp(-abs(x))); }

Results binary_cross_entropy_with_logits(Call& c) {
  Pair p = operands(c);
  Tensor one_minus = -p.target + 1;
  Tensor soft = log_sigmoid(p.x);
  if (Tensor w = c.optional("pos_weight"))
    soft = soft * ((cast(w, p.x.dtype()) - 1) * p.target + 1);
  Tensor loss = one_minus * p.x - soft;
  if (Tensor w = c.optional("weight")) loss = loss * cast(w, loss.dtype());
  return reduced(c, loss, p.dtype);
}

Results kl_divergence(Call& c) {
  Pair p = operands(c);
  Tensor loss;
  if (c.flag("log_target", false)) {
    loss = exp(p.target) * (p.target - p.x);
  } else {
    Tensor zero = full_like(p.target, 0);
    Tensor entropy = where(eq(p.target, 0), zero, p.target * log(p.target));
    loss = entropy - p.target * p.x;
  }
  return reduced(c, loss, p.dtype);
}

Results soft_margin(Call& c) {
  Pair p = operands(c);
  // In steps of the type itself, as PyTorch: what overflows stays infinite.
  Tensor exponent = -(cast(p.target, p.dtype) * cast(p.x, p.dtype));
  return reduced(c, log1p(exp(exponent)), p.dtype);
}

Results hinge_embedding(Call& c) {
  Pair p = operands(c);
  Tensor zero = full_like(p.x, 0);
  Tensor far = maximum(-p.x + c.real("margin", 1), 0);
  Tensor loss = where(ne(p.target, 1), far, zero) + where(ne(p.target, -1), p.x, zero);
  return reduced(c, loss, p.dtype);
}

Results margin_ranking(Call& c) {
  Tensor a = c.tensor("input1"), b = c.tensor("input2"), t = c.tensor("target");
  // The margin is a float, which makes floats of integers.
  Tensor loss = maximum(cast(-t * (a - b), c.output_dtype()) + c.real("margin", 0), 0);
  return reduced(c, loss, loss.dtype());
}

Results cosine_embedding(Call& c) {
  Tensor a = c.tensor("input1"), b = c.tensor("input2"), t = c.tensor("target");
  constexpr double kTiny = 1e-12;
  Dims last{a.rank() > b.rank() ? a.rank() - 1 : b.rank() - 1};
  nacre_dtype dtype = float_for(result_type({a, b}));
  a = to_compute(a);
  b = to_compute(b);
  Tensor dot = sum(a * b, last);
  Tensor norms = sqrt((sum(a * a, {-1}) + kTiny) * (sum(b * b, {-1}) + kTiny));
  Tensor cosine = dot / norms;
  Tensor zero = full_like(cosine, 0);
  Tensor loss = where(eq(t, 1), -cosine + 1, zero) +
                where(eq(t, -1), maximum(cosine - c.real("margin", 0), 0), zero);
  return reduced(c, loss, dtype);
}

Results triplet_margin(Call& c) {
  Tensor anchor = c.tensor("anchor");
  double p = c.real("p", 2), eps = c.real("eps", 1e-6);
  auto distance = [&](const Tensor& a, const Tensor& b) {
    Tensor d = abs(a - b + eps);
    if (p == 2) return sqrt(sum(d * d, {-1}));
    if (p == 1) return sum(d, {-1});
    if (std::isinf(p)) return amax(d, {-1});
    return pow(sum(pow(d, p), {-1}), 1 / p);
  };
  Tensor near = distance(anchor, c.tensor("positive")),
         far = distance(anchor, c.tensor("negative"));
  if (c.flag("swap", false))
    far = minimum(far, distance(c.tensor("positive"), c.tensor("negative")));
  Tensor loss = maximum(near - far + c.real("margin", 1), 0);
  return reduced(c, loss, c.output_dtype());
}

Results poisson_nll(Call& c) {
  Pair p = operands(c);
  double eps = c.real("eps", 1e-8);
  Tensor loss =
      c.flag("log_input", true) ? exp(to_float(p.x)) - p.target * p.x : p.x - p.target * log(p.x + eps);
  if (c.flag("full", false)) {
    Tensor stirling =
        p.target * log(to_float(p.target)) - p.target + log(p.target * (2 * std::numbers::pi)) * 0.5;
    loss = loss + where(le(p.target, 1), full_like(loss, 0), stirling);
  }
  return reduced(c, loss, c.output_dtype());  // a floating type also for integers
}

// ---- Class targets.

struct NllResult {
  Tensor loss, total_weight;
};

// -w[t] * logp[..., t, ...] with the classes in `dim`; an ignored target counts nothing.
NllResult negative_log_likelihood(Call& c, const Tensor& logp, const Tensor& target_in,
                                  int64_t dim) {
  nacre_dtype wide = logp.dtype();
  Tensor target = cast(target_in, NACRE_i64);
  Expr ignore = c.size("ignore_index", Expr(-100));
  Tensor kept = ne(target, Operand(ignore));
  Tensor safe = where(kept, target, full_like(target, 0));
  Tensor taken = squeeze(gather(logp, unsqueeze(safe, dim), dim), {dim});
  Tensor weight = cast(kept, wide);
  if (Tensor w = c.optional("weight")) weight = weight * index_dim(cast(w, wide), 0, safe);
  Tensor each = where(kept, -(taken * weight), full_like(taken, 0));
  int64_t reduction = c.integer("reduction", 1);
  Dims dims = all_dims(each.rank());
  if (reduction == 0) return {each, full_like(sum(weight, dims), 0)};
  Tensor total = sum(weight, dims), loss = sum(each, dims);
  return {reduction == 1 ? loss / total : loss, total};
}

Results nll(Call& c) {
  Tensor x = c.self();
  Tensor logp = to_compute(x);
  NllResult r = negative_log_likelihood(c, logp, c.tensor("target"), x.rank() == 1 ? 0 : 1);
  return {cast(r.loss, x.dtype()), c.needs(1) ? cast(r.total_weight, c.output_dtype(1)) : Tensor()};
}

Results cross_entropy(Call& c) {
  Tensor x = c.self(), target = c.tensor("target");
  int64_t dim = x.rank() == 1 ? 0 : 1;
  double smoothing = c.real("label_smoothing", 0);
  int64_t reduction = c.integer("reduction", 1);
  Tensor logp = log_softmax(to_compute(x), dim);
  Expr classes = x.size(dim);
  Tensor weight = c.optional("weight");
  auto weighted = [&](const Tensor& t) {
    if (!weight) return t;
    return t * broadcast(cast(weight, t.dtype()), t.shape(), {dim});
  };
  if (is_floating(target.dtype())) {  // probabilities of the classes
    Tensor p = cast(target, logp.dtype());
    if (smoothing > 0) p = p * (1 - smoothing) + full_like(p, smoothing) / Operand(classes);
    Tensor each = -sum(weighted(logp) * p, {dim});
    Tensor loss = each;
    if (reduction != 0) loss = sum(each, all_dims(each.rank()));
    if (reduction == 1) {
      Expr rows = simplify(floordiv(x.elements(), max(classes, 1)), c.facts());
      loss = loss / Operand(rows);
    }
    return cast(loss, x.dtype());
  }
  NllResult r = negative_log_likelihood(c, logp, target, dim);
  if (smoothing == 0) return cast(r.loss, x.dtype());
  Tensor smooth = -sum(weighted(logp), {dim});
  Tensor kept = ne(cast(target, NACRE_i64), Operand(c.size("ignore_index", Expr(-100))));
  smooth = where(kept, smooth, full_like(smooth, 0));
  if (reduction != 0) smooth = sum(smooth, all_dims(smooth.rank()));
  if (reduction == 1) {
    Tensor n = weight ? r.total_weight : cast(sum(kept, all_dims(kept.rank())), smooth.dtype());
    smooth = smooth / n;
  }
  Tensor loss = r.loss * (1 - smoothing) + smooth * smoothing / Operand(classes);
  return cast(loss, x.dtype());
}

// sum over classes i != t of max(0, margin - x[t] + x[i])^p, over the number of classes.
Results multi_margin(Call& c) {
  Tensor x = c.self();
  Tensor rows = x.rank() < 2 ? reshape(x, {1, x.elements()}) : x;
  Tensor wide = to_compute(rows);
  Tensor target = reshape(cast(c.tensor("target"), NACRE_i64), {rows.size(0), 1});
  Tensor own = gather(wide, target, 1);
  Tensor z = maximum(wide - own + c.real("margin", 1), 0);
  if (c.real("p", 1) == 2) z = z * z;
  if (Tensor w = c.optional("weight")) z = z * index_dim(cast(w, z.dtype()), 0, target);
  Tensor others = ne(iota_along(c.builder(), z.shape(), 1), target);
  Tensor each = sum(where(others, z, full_like(z, 0)), {1}) / Operand(rows.size(1));
  if (x.rank() < 2) each = reshape(each, {});
  return reduced(c, each, x.dtype());
}

// Targets of a row are its entries before the first -1.
Results multilabel_margin(Call& c) {
  Tensor x = c.self();
  Tensor rows = to_compute(x.rank() < 2 ? reshape(x, {1, x.elements()}) : x);
  Tensor target = reshape(cast(c.tensor("target"), NACRE_i64), rows.shape());
  Tensor ended = scan("cumsum", cast(lt(target, 0), NACRE_i64), 1);
  Tensor valid = eq(ended, 0);
  Tensor safe = where(valid, target, full_like(target, 0));
  Tensor is_target = gt(scatter(full_like(target, 0), safe, cast(valid, NACRE_i64), 1, "amax"), 0);
  Tensor own = unsqueeze(gather(rows, safe, 1), 2);     // [n, target, 1]
  Tensor z = maximum(unsqueeze(rows, 1) - own + 1, 0);  // [n, target, class]
  Tensor counted = logical_not(unsqueeze(is_target, 1)) & expand(unsqueeze(valid, 2), z.shape());
  Tensor each = sum(where(counted, z, full_like(z, 0)), {1, 2}) / Operand(rows.size(1));
  if (x.rank() < 2) each = reshape(each, {});
  return {reduced(c, each, x.dtype()),
          c.needs(1) ? cast(reshape(is_target, x.shape()), x.dtype()) : Tensor()};
}

constexpr Decomposition kTable[] = {
    {"mse_loss.default", mse},
    {"l1_loss.default", l1},
    {"smooth_l1_loss.default", smooth_l1},
    {"huber_loss.default", huber},
    {"binary_cross_entropy.default", binary_cross_entropy},
    {"binary_cross_entropy_with_logits.default", binary_cross_entropy_with_logits},
    {"kl_div.default", kl_divergence},
    {"soft_margin_loss.default", soft_margin},
    {"hinge_embedding_loss.default", hinge_embedding},
    {"margin_ranking_loss.default", margin_ranking},
    {"cosine_embedding_loss.default", cosine_embedding},
    {"triplet_margin_loss.default", triplet_margin},
    {"poisson_nll_loss.default", poisson_nll},
    {"nll_loss.default", nll},
    {"nll_loss_nd.default", nll},
    {"nll_loss_forward.default", nll},
    {"nll_loss2d.default", nll},
    {"nll_loss2d_forward.default", nll},
    {"cross_entropy_loss.default", cross_entropy},
    {"multi_margin_loss.default", multi_margin},
    {"multilabel_margin_loss.default", multilabel_margin},
    {"multilabel_margin_loss_forward.default", multilabel_margin},
};

}  // namespace

Decompositions loss_decompositions() { return kTable; }

}  // namespace nacre
