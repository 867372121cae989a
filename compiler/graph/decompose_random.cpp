// Random numbers. A counter-based generator (prim.philox) makes them: bits are a function of the session's seed, of how often
// the entry has run since it was set, of the operator's place in the graph, and of the element. So threads and shapes do not
// matter, and runs repeat. Seed and count are a state of the session, `random_state`.
#include "compiler/graph/decompose_random.h"

#include <cmath>
#include <numbers>

#include "compiler/support/error.h"

namespace nacre {

namespace {

// Draws of one operator; the next one's follow.
constexpr int64_t kMostDraws = int64_t{1} << 20;

// Binary digits of a floating type.
int digits_of(nacre_dtype dtype) { return dtype == NACRE_f64 ? 53 : dtype == NACRE_f32 ? 24 : dtype == NACRE_f16 ? 11 : 8; }

}  // namespace

Tensor Draws::bits(const Shape& shape) {
  Builder& b = state_.builder();
  Tensor seed = select(state_, 0, 0), count = select(state_, 0, 1);
  Tensor key = philox(full(b, {}, stream_ * kMostDraws + draw_++, NACRE_i64), philox(count, seed));
  Expr n = product(shape);
  Tensor position = iota(b, n);
  return reshape(philox(position, key), shape);
}

Tensor Draws::unit(const Shape& shape, nacre_dtype dtype) {
  const int digits = digits_of(dtype);
  const nacre_dtype wide = compute_type(dtype);
  Tensor whole = shift_right(bits(shape), 64 - digits) & full(state_.builder(), shape, (int64_t{1} << digits) - 1, NACRE_i64);
  return cast(cast(whole, wide) * std::ldexp(1.0, -digits), dtype);
}

// Box and Muller's.
Tensor Draws::normal(const Shape& shape, nacre_dtype dtype) {
  const nacre_dtype wide = dtype == NACRE_f64 ? NACRE_f64 : NACRE_f32;
  Tensor radius = sqrt(log(-unit(shape, wide) + 1) * -2.0);
  return cast(radius * cos(unit(shape, wide) * (2 * std::numbers::pi)), dtype);
}

Tensor Draws::chance(const Shape& shape, const Operand& p) {
  const nacre_dtype dtype = p.tensor() && p.tensor()->dtype() == NACRE_f64 ? NACRE_f64 : NACRE_f32;
  Tensor u = unit(shape, dtype);
  if (auto* t = p.tensor()) return lt(u, expand(cast(*t, dtype), shape));
  return lt(u, p);
}

Tensor Draws::state() { return stack({bits({}), full(state_.builder(), {}, 0, NACRE_i64)}, 0); }

namespace {

Tensor kept_part(const Tensor& x, const Tensor& kept, double p) { return where(kept, x * (1 / (1 - p)), full_like(x, 0)); }

}  // namespace

Tensor dropped(Draws& draws, const Tensor& x, double p) {
  return p == 1 ? x * 0 : kept_part(x, draws.chance(x.shape(), 1 - p), p);
}

namespace {

// Whole numbers from `low` to `last`. Where there are 2^63 of them or more, their count and the random bits are unsigned numbers:
// a negative int64 is the larger one.
Tensor whole_numbers(Call& c, const Shape& shape, const Expr& low, const Expr& last, nacre_dtype dtype) {
  Tensor random = Draws(c).bits(shape);
  if (const auto from = low.constant(), to = last.constant(); from && to) {
    const auto count = static_cast<int64_t>(static_cast<uint64_t>(*to) - static_cast<uint64_t>(*from) + 1);
    if (count < 0) random = where(lt(random, 0) & ge(random, Operand(count)), random - Operand(count), random);
    if (count <= 0 && *from <= *to) return cast(random + Operand(*from), dtype);  // 0: 2^64
  }
  Tensor positive = shift_right(random, 1) & full(c.builder(), shape, INT64_MAX, NACRE_i64);
  const Expr count = simplify(last - low + 1, c.facts());
  return cast(remainder(positive, Operand(max(count, 1))) + Operand(low), dtype);
}

// ---- Operators.

Results uniform(Call& c) {  // rand and its kin, and uniform(from, to)
  const nacre_dtype dtype = c.output_dtype();
  const double from = c.real("from", 0.0), to = c.real("to", 1.0);
  Tensor u = Draws(c).unit(c.output_shape(), dtype);
  return from == 0 && to == 1 ? u : u * (to - from) + from;
}

Results normal(Call& c) {  // randn and its kin; mean and std are numbers or tensors
  const nacre_dtype dtype = c.output_dtype();
  Tensor z = Draws(c).normal(c.output_shape(), compute_type(dtype));
  for (const char* name : {"std", "mean"}) {
    auto given = c.optional_operand(name);
    if (!given) continue;
    if (auto* t = given->tensor()) given = Operand(cast(*t, z.dtype()));
    z = std::string(name) == "std" ? z * *given : z + *given;
  }
  return cast(z, dtype);
}

Results integers(Call& c) {  // randint and its kin
  const nacre_dtype dtype = c.output_dtype();
  return whole_numbers(c, c.output_shape(), c.size("low", Expr(0)), c.size("high") - 1, dtype);
}

Results random(Call& c) {  // random_: from 0, or from `from`, to `to` or what the type holds
  const nacre_dtype dtype = c.output_dtype();
  Expr last;
  if (c.has("to"))
    last = c.size("to") - 1;
  else if (is_floating(dtype))
    last = int64_t{1} << digits_of(dtype);
  else
    last = dtype == NACRE_i64 ? INT64_MAX : static_cast<int64_t>(padding_above(dtype));
  return whole_numbers(c, c.output_shape(), c.size("from", Expr(0)), last, dtype);
}

Results bernoulli(Call& c) {
  Tensor x = c.self();
  const Operand p = c.has("p") ? c.operand("p") : Operand(x);
  return cast(Draws(c).chance(c.output_shape(), p), c.output_dtype());
}

Results exponential(Call& c) {
  const nacre_dtype dtype = c.output_dtype();
  // Never 0, so that one may divide by it and take its logarithm.
  Tensor y = maximum(-log(-Draws(c).unit(c.output_shape(), NACRE_f64) + 1), epsilon(dtype) / 2);
  return cast(y * (1.0 / c.real("lambd", 1.0)), dtype);
}

Results geometric(Call& c) {
  Tensor u = Draws(c).unit(c.output_shape(), NACRE_f64);
  return cast(ceil(log(-u + 1) / std::log1p(-c.real("p"))), c.output_dtype());
}

Results cauchy(Call& c) {
  Tensor u = Draws(c).unit(c.output_shape(), NACRE_f64);
  return cast(tan((u - 0.5) * std::numbers::pi) * c.real("sigma", 1.0) + c.real("median", 0.0), c.output_dtype());
}

Results log_normal(Call& c) {
  Tensor z = Draws(c).normal(c.output_shape(), NACRE_f64);
  return cast(exp(z * c.real("std", 2.0) + c.real("mean", 1.0)), c.output_dtype());
}

Results permutation(Call& c) {  // the order of random numbers
  Tensor keys = Draws(c).bits(c.output_shape());
  return cast(sort(keys, 0, false).second, c.output_dtype());
}

// With replacement, how many sums of probabilities a number in [0, total) reaches; without, the largest of p / (exponential).
Results multinomial(Call& c) {
  Tensor p = cast(c.self(), NACRE_f64);
  const Expr count = c.size("num_samples");
  const int64_t last = p.rank() - 1;
  if (!c.flag("replacement", false)) {
    Tensor keys = p / -log(-Draws(c).unit(p.shape(), NACRE_f64) + 1);
    Tensor order = sort(where(eq(p, 0), full_like(p, -1), keys), last, true).second;
    return narrow(order, last, 0, count);
  }
  Tensor ends = scan("cumsum", p, last);
  Tensor u = Draws(c).unit(c.output_shape(), NACRE_f64) * narrow(ends, last, p.size(last) - 1, 1);
  Tensor reached = le(unsqueeze(ends, -2), unsqueeze(u, -1));
  return minimum(sum(reached, {last + 1}), Operand(p.size(last) - 1));
}

// ---- Dropout: in training, elements (or channels) are kept with probability 1 - p.

Tensor kept(Call& c, const Tensor& x, double p, bool channels) {
  Shape shape = x.shape();
  if (channels)
    for (size_t d = 2; d < shape.size(); ++d) shape[d] = 1;
  return Draws(c).chance(shape, 1 - p);
}

bool drops(const Call& c) { return c.flag("train", false) && c.real("p", 0.5) != 0; }

Results dropout(Call& c) {
  Tensor x = c.self();
  if (!drops(c)) return x;
  const double p = c.real("p", 0.5);
  if (p == 1) return x * 0;
  const bool channels = c.op().find("feature") != std::string::npos;
  return kept_part(x, kept(c, x, p, channels), p);
}

// What is dropped becomes the value that selu saturates at, and the result keeps mean 0 and variance 1.
Results alpha_dropout(Call& c) {
  Tensor x = c.self();
  if (!drops(c)) return x;
  const double p = c.real("p", 0.5), low = -1.7580993408473766;
  if (p == 1) return x * 0;
  const double a = 1 / std::sqrt((1 - p) * (1 + p * low * low)), shift = -a * p * low;
  const bool channels = c.op().find("feature") != std::string::npos;
  return where(kept(c, x, p, channels), x * a + shift, full_like(x, low * a + shift));
}

Results native_dropout(Call& c) {
  Tensor x = c.self();
  const double p = c.real("p");
  if (!c.flag("train", true) || p == 0) return {x, c.full(x.shape(), Number(true), NACRE_bool_)};
  Tensor mask = Draws(c).chance(x.shape(), 1 - p);
  if (p == 1) return {x * 0, mask};
  return {kept_part(x, mask, p), mask};
}

// In training, the slope of each negative element is a random one.
Results rrelu(Call& c) {
  Tensor x = c.self();
  const double lower = c.real("lower", 0.125), upper = c.real("upper", 1.0 / 3);
  const nacre_dtype wide = compute_type(x.dtype());
  Tensor y = cast(x, wide);
  Tensor sloped = c.flag("training", false) ? y * (Draws(c).unit(x.shape(), wide) * (upper - lower) + lower) : y * ((lower + upper) / 2);
  return cast(where(gt(y, 0), y, sloped), x.dtype());
}

constexpr Decomposition kTable[] = {
    {"rrelu.default", rrelu},
    {"rand.default", uniform},
    {"rand_like.default", uniform},
    {"uniform.default", uniform},
    {"randn.default", normal},
    {"randn_like.default", normal},
    {"normal.Tensor_float", normal},
    {"normal.float_Tensor", normal},
    {"normal.Tensor_Tensor", normal},
    {"normal.float_float", normal},
    {"normal_functional.default", normal},
    {"randint.default", integers},
    {"randint.low", integers},
    {"randint_like.default", integers},
    {"randint_like.low_dtype", integers},
    {"random.default", random},
    {"random.from", random},
    {"random.to", random},
    {"bernoulli.default", bernoulli},
    {"bernoulli.p", bernoulli},
    {"bernoulli.Tensor", bernoulli},
    {"exponential.default", exponential},
    {"geometric.default", geometric},
    {"cauchy.default", cauchy},
    {"log_normal.default", log_normal},
    {"randperm.default", permutation},
    {"multinomial.default", multinomial},
    {"dropout.default", dropout},
    {"feature_dropout.default", dropout},
    {"alpha_dropout.default", alpha_dropout},
    {"feature_alpha_dropout.default", alpha_dropout},
    {"native_dropout.default", native_dropout},
};

}  // namespace

Decompositions random_decompositions() { return kTable; }

}  // namespace nacre
