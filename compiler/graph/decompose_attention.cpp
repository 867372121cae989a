// Attention, in all the forms in which export leaves it, becomes prim.attention on four-dimensional
// operands; with dropout, products and a softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/decompose_random.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Shape leading(const Tensor& t) { return Shape(t.shape().begin(), t.shape().end() - 2); }

// [..., M, N] with the given leading dims as [B, H, M, N].
Tensor four_dims(const Tensor& t, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(t.size(-2));
  shape.push_back(t.size(-1));
  Tensor y = expand(t, shape);
  if (batch.size() == 2) return y;
  Shape four{1, 1, t.size(-2), t.size(-1)};
  if (!batch.empty()) {
    four[1] = batch.back();
    four[0] = product(Shape(batch.begin(), batch.end() - 1));
  }
  return reshape(y, four);
}

// Each head of k or v serves several heads of q.
Tensor repeated_heads(const Tensor& t, const Expr& heads) {
  Expr own = t.size(-3);
  if (own == heads) return t;
  Expr times = simplify(floordiv(heads, own), t.facts());
  Shape wide = t.shape(), joined = t.shape();
  wide.insert(wide.end() - 2, times);
  joined[joined.size() - 3] = heads;
  Dims dims = all_dims(t.rank());
  for (int64_t& d : dims)
    if (d >= t.rank() - 2) d++;
  return reshape(broadcast(t, wide, dims), joined);
}

}  // namespace

Tensor attention(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Tensor& mask,
                 bool is_causal, std::optional<double> scale, bool enable_gqa) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor q = q_in, k = k_in, v = v_in;
  Builder& b = q.builder();
  if (enable_gqa && q.rank() >= 3) {
    k = repeated_heads(k, q.size(-3));
    v = repeated_heads(v, q.size(-3));
  }
  double factor = 1;
  if (scale) {
    factor = *scale;
  } else if (auto width = q.size(-1).constant()) {
    factor = *width == 0 ? 1 : 1 / std::sqrt(static_cast<double>(*width));
  } else {
    Tensor width_root = rsqrt(full(b, {}, q.size(-1), compute_type(q.dtype())));
    q = cast(to_compute(q) * width_root, q.dtype());
  }
  const Facts& facts = q.facts();
  Shape batch =
      broadcast_shapes(broadcast_shapes(leading(q), leading(k), facts), leading(v), facts);
  Tensor additive = mask;
  if (mask) {
    Shape wide = batch;  // a mask may add leading dims, and its last two may be 1
    Shape mask_lead = mask.rank() > 2 ? leading(mask) : Shape{};
    batch = wide = broadcast_shapes(wide, mask_lead, facts);
    wide.push_back(q.size(-2));
    wide.push_back(k.size(-2));
    if (mask.dtype() == NACRE_bool_) {
      Tensor zero = full(b, {}, 0.0, q.dtype()), low = full(b, {}, -kInfinity, q.dtype());
      additive = where(mask, zero, low);
    } else {
      additive = cast(mask, q.dtype());
    }
    additive = four_dims(expand(additive, wide), batch);
  }
  Shape result = batch;
  result.push_back(q.size(-2));
  result.push_back(v.size(-1));
  // PyTorch takes integers only where there is nothing to compute.
  const bool is_empty = std::any_of(result.begin(), result.end(), [](const Expr& e) { return e.is(0); });
  if (!is_floating(q.dtype()) && is_empty) return full(b, result, 0, q.dtype());
  Tensor y(b,
           b.attention(four_dims(q, batch).id(), four_dims(k, batch).id(), four_dims(v, batch).id(),
                       additive ? additive.id() : kNoValue, factor, is_causal));
  return reshape(y, result);
}

namespace {

// q k^T, scaled and masked, in the type that is computed in.
Tensor attention_scores(const Tensor& q, const Tensor& k, const Tensor& mask, bool is_causal, std::optional<double> scale) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(to_compute(q), transpose(to_compute(k), -2, -1));
  Builder& b = q.builder();
  if (scale)
    scores = scores * *scale;
  else
    scores = scores * rsqrt(full(b, {}, q.size(-1), scores.dtype()));
  if (mask)
    scores = mask.dtype() == NACRE_bool_ ? where(mask, scores, full(b, {}, -kInfinity, scores.dtype())) : scores + to_compute(mask);
  if (is_causal) {
    Tensor later = gt(iota_along(b, scores.shape(), -1), iota_along(b, scores.shape(), -2));
    scores = where(later, full_like(scores, -kInfinity), scores);
  }
  return scores;
}

Results sdpa(Call& c) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor q = c.tensor("query"), k = c.tensor("key"), v = c.tensor("value");
  Tensor mask = c.optional(c.has("attn_bias") ? "attn_bias" : "attn_mask");
  auto scale = c.optional_real("scale");
  const bool causal = c.flag("is_causal", false), grouped = c.flag("enable_gqa", false);
  const double dropout = c.real("dropout_p", 0);
  const bool gives_weights = c.op().find("attention_math") != std::string::npos && c.needs(1);
  Tensor own_k = grouped && q.rank() >= 3 ? repeated_heads(k, q.size(-3)) : k;
  std::vector<Tensor> results;
  if (dropout == 0 && !gives_weights) {
    results.push_back(attention(q, k, v, mask, causal, scale, grouped));
  } else {  // some of the weights are left out: they are written out
    Tensor own_v = grouped && q.rank() >= 3 ? repeated_heads(v, q.size(-3)) : v;
    Tensor scores = attention_scores(q, own_k, mask, causal, scale);
    Tensor nothing = eq(amax(scores, {-1}, true), -kInfinity);  // a row that is masked as a whole
    Tensor weights = where(nothing, full_like(scores, 0), softmax(scores, -1));
    if (dropout != 0) {
      Draws draws(c);
      weights = dropped(draws, weights, dropout);
    }
    results.push_back(cast(matmul(weights, to_compute(own_v)), q.dtype()));
    if (gives_weights) results.push_back(cast(weights, c.output_dtype(1)));
  }
  for (size_t i = results.size(); i < c.outputs(); i++) {
    if (!c.needs(i)) {
      results.emplace_back();
      continue;
    }
    if (i > 1) c.unsupported("the bookkeeping results of fused attention");
    // The logarithm of each row's sum of exponentials.
    Tensor scores = attention_scores(q, own_k, mask, causal, scale);
    Tensor peak = amax(scores, {-1}, true);
    peak = where(eq(abs(peak), kInfinity), full_like(peak, 0), peak);
    Tensor total = log(sum(exp(scores - peak), {-1}, true)) + peak;
    results.push_back(cast(squeeze(total, {-1}), c.output_dtype(i)));
  }
  return results;
}

// [B, S, 3 * E] -> q, k, v as [B, heads, S, E / heads]
std::vector<Tensor> split_heads(const Tensor& projected, int64_t parts, const Expr& heads) {
  Expr width = simplify(floordiv(projected.size(-1), heads * Expr(parts)), projected.facts());
  Tensor y =
      permute(reshape(projected, {projected.size(0), projected.size(1), parts, heads, width}),
              {2, 0, 3, 1, 4});
  std::vector<Tensor> result;
  for (int64_t i = 0; i < parts; i++) result.push_back(select(y, 0, i));
  return result;
}

// A padding or attention mask in which true leaves out, as an additive one. mask_type: 0 [S, S], 1
// [B, S], 2 [B, H, S, S].
Tensor excluding_mask(const Tensor& mask, std::optional<int64_t> type, const Tensor& q) {
  if (!mask) return {};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor m = mask;
  if (type == 1) m = reshape(m, {m.size(0), 1, 1, m.size(1)});
  if (m.dtype() != NACRE_bool_) return m;
  Builder& b = q.builder();
  return where(m, full(b, {}, -kInfinity, q.dtype()), full(b, {}, 0.0, q.dtype()));
}

Tensor multi_head(Call& c, const Tensor& query, const Tensor& key, const Tensor& value,
                  const Expr& heads, const Tensor& qkv_weight, const Tensor& qkv_bias,
                  const Tensor& out_weight, const Tensor& out_bias, const Tensor& mask,
                  std::optional<int64_t> mask_type) {
  std::vector<Tensor> parts;
  if (query.id() == key.id() && key.id() == value.id()) {
    parts = split_heads(linear(query, qkv_weight, qkv_bias), 3, heads);
  } else {
    Expr width = query.size(-1);
    int64_t i = 0;
    for (const Tensor& t : {query, key, value}) {
      Tensor w = narrow(qkv_weight, 0, width * Expr(i), width);
      Tensor bias = qkv_bias ? narrow(qkv_bias, 0, width * Expr(i), width) : Tensor();
      parts.push_back(split_heads(linear(t, w, bias), 1, heads)[0]);
      i++;
    }
  }
  Tensor y = attention(parts[0], parts[1], parts[2], excluding_mask(mask, mask_type, parts[0]),
                       false, std::nullopt, false);
  (void)c;
  Tensor joined = permute(y, {0, 2, 1, 3});
  return linear(reshape(joined, query.shape()), out_weight, out_bias);
}

Results native_multi_head_attention(Call& c) {
  Tensor y =
      multi_head(c, c.tensor("query"), c.tensor("key"), c.tensor("value"), c.size("num_head"),
                 c.tensor("qkv_weight"), c.optional("qkv_bias"), c.tensor("proj_weight"),
                 c.optional("proj_bias"), c.optional("mask"), c.optional_integer("mask_type"));
  if (c.needs(1)) c.unsupported("the attention weights of the fused operator");
  return y;
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Tensor wide = to_compute(x);
  Tensor centred = wide - mean(wide, {-1}, true);
  Tensor y = centred * rsqrt(mean(centred * centred, {-1}, true) + eps);
  return cast(y * to_compute(weight) + to_compute(bias), x.dtype());
}

// The fused encoder layer that nn.TransformerEncoderLayer takes in eval mode.
Results encoder_layer(Call& c) {
  Tensor x = c.tensor("src");
  double eps = c.real("eps");
  bool first = c.flag("norm_first", false);
  auto norm = [&](const Tensor& t, int i) {
    std::string n = std::to_string(i);
    return layer_norm(t, c.tensor("norm_weight_" + n), c.tensor("norm_bias_" + n), eps);
  };
  auto attend = [&](const Tensor& t) {
    return multi_head(c, t, t, t, c.size("num_heads"), c.tensor("qkv_weight"),
                      c.optional("qkv_bias"), c.tensor("proj_weight"), c.optional("proj_bias"),
                      c.optional("mask"), c.optional_integer("mask_type"));
  };
  auto feed_forward = [&](const Tensor& t) {
    Tensor h = linear(t, c.tensor("ffn_weight_1"), c.tensor("ffn_bias_1"));
    if (c.flag("use_gelu", false)) {
      Tensor wide = to_compute(h);
      h = cast(wide * 0.5 * (erf(wide * std::sqrt(0.5)) + 1), h.dtype());
    } else {
      h = maximum(h, 0);
    }
    return linear(h, c.tensor("ffn_weight_2"), c.tensor("ffn_bias_2"));
  };
  if (first) {
    x = x + attend(norm(x, 1));
    return x + feed_forward(norm(x, 2));
  }
  x = norm(x + attend(x), 1);
  return norm(x + feed_forward(x), 2);
}

constexpr Decomposition kTable[] = {
    {"scaled_dot_product_attention.default", sdpa},
    {"_scaled_dot_product_attention_math.default", sdpa},
    {"_scaled_dot_product_flash_attention_for_cpu.default", sdpa},
    {"_scaled_dot_product_flash_attention.default", sdpa},
    {"_scaled_dot_product_efficient_attention.default", sdpa},
    {"_scaled_dot_product_fused_attention_overrideable.default", sdpa},
    {"_native_multi_head_attention.default", native_multi_head_attention},
    {"_transformer_encoder_layer_fwd.default", encoder_layer},
};

}  // namespace

Decompositions attention_decompositions() { return kTable; }

}  // namespace nacre
