// Distributions whose numbers are drawn until they are accepted: a loop over rounds, in which the elements that are not done yet
// draw again. All are computed in float64, by the methods that PyTorch's own kernels take.
#include <cmath>
#include <limits>

#include "compiler/graph/decompose_loops.h"
#include "compiler/graph/decompose_random.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The least normal number of a floating type.
double least(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_f64:
      return std::numeric_limits<double>::min();
    case NACRE_f16:
      return std::ldexp(1.0, -14);
    default:
      return static_cast<double>(std::numeric_limits<float>::min());
  }
}

// One round: what each element has now, with whether it is done.
struct Round {
  Tensor result, done;
  Tensors more = {};  // the next of further carried values
};
using Attempt = std::function<Round(Draws& draws, const Tensor& result, const Tensors& more, const Tensors& operands)>;

// From 0 on, where `todo` holds, until every element is done.
Tensor rounds(Draws& draws, const Tensor& todo, Tensors more, const Tensors& operands, const Attempt& attempt) {
  Tensors carried{todo, full(todo.builder(), todo.shape(), 0.0, NACRE_f64), draws.state()};
  carried.insert(carried.end(), more.begin(), more.end());
  const auto body = [&](const Tensors& now, const Tensors& others) {
    const Tensor &left = now[0], &result = now[1], &state = now[2];
    Draws own(state);
    Round round = attempt(own, result, Tensors(now.begin() + 3, now.end()), others);
    Tensors next{left & logical_not(round.done), where(left, round.result, result), state + iota(state.builder(), 2)};
    next.insert(next.end(), round.more.begin(), round.more.end());
    return next;
  };
  const auto go_on = [](const Tensors& now) { return any(now[0], all_dims(now[0].rank())); };
  return while_true(todo.builder(), carried, operands, go_on, body)[1];
}

// log(1 - u) of u in [0, 1): never of 0.
Tensor log_unit(Draws& draws, const Shape& shape) { return log(-draws.unit(shape, NACRE_f64) + 1); }

// Below a rate of 10 how many uniform numbers have a product above exp(-rate); beyond, Hoermann's transformed rejection (PTRS).
Results poisson(Call& c) {
  Tensor rate = cast(c.self(), NACRE_f64);
  const Shape shape = rate.shape();
  Draws draws(c);
  Tensor y = rounds(draws, gt(rate, 0.0) & lt(rate, kInfinity), {full_like(rate, 0.0)}, {rate},
                    [&](Draws& d, const Tensor& result, const Tensors& more, const Tensors& operands) -> Round {
                      const Tensor& lambda = operands[0];
                      Tensor log_product = more[0] + log_unit(d, shape);
                      Tensor goes_on = gt(log_product, -lambda);
                      Tensor large = maximum(lambda, 10.0);
                      Tensor b = sqrt(large) * 2.53 + 0.931, a = b * 0.02483 - 0.059;
                      Tensor inverse_alpha = reciprocal(b - 3.4) * 1.1328 + 1.1239, limit = -reciprocal(b - 2.0) * 3.6224 + 0.9277;
                      Tensor u = d.unit(shape, NACRE_f64) - 0.5, v = -d.unit(shape, NACRE_f64) + 1;
                      Tensor us = -abs(u) + 0.5;
                      Tensor k = floor((a * 2.0 / us + b) * u + large + 0.43);
                      Tensor inside = ge(us, 0.07) & le(v, limit);
                      Tensor possible = ge(k, 0.0) & (ge(us, 0.013) | le(v, us));
                      Tensor density = k * log(large) - large - lgamma(maximum(k, 0.0) + 1);
                      Tensor below = le(log(v) + log(inverse_alpha) - log(a / (us * us) + b), density);
                      Tensor is_large = ge(lambda, 10.0);
                      return {where(is_large, k, result + cast(goes_on, NACRE_f64)),
                              where(is_large, inside | (possible & below), logical_not(goes_on)),
                              {log_product}};
                    });
  return cast(y, c.output_dtype());
}

// Of count trials with probability p <= 1/2: where fewer than 10 successes are expected, how many geometric gaps fit into the
// trials; else Hoermann's transformed rejection (BTRS).
Results binomial(Call& c) {
  const Shape shape = c.output_shape();
  Tensor count = expand(cast(c.tensor("count"), NACRE_f64), shape), given = expand(cast(c.tensor("prob"), NACRE_f64), shape);
  Tensor flipped = gt(given, 0.5);
  Tensor p = where(flipped, -given + 1, given);
  Draws draws(c);
  Tensor successes = rounds(
      draws, gt(count, 0.0) & gt(p, 0.0), {full_like(p, 0.0)}, {count, p},
      [&](Draws& d, const Tensor& result, const Tensors& more, const Tensors& operands) -> Round {
        const Tensor &n = operands[0], &q = operands[1];
        Tensor trials = more[0] + maximum(ceil(log_unit(d, shape) / log1p(-q)), 1.0);
        Tensor goes_on = le(trials, n);
        Tensor is_large = ge(n * q, 10.0);
        // Where nothing is large, numbers that keep the arithmetic finite.
        Tensor m = where(is_large, n, full_like(n, 40.0)), r = where(is_large, q, full_like(q, 0.5));
        Tensor spread = sqrt(m * r * (-r + 1));
        Tensor b = spread * 2.53 + 1.15, a = b * 0.0248 + r * 0.01 - 0.0873;
        Tensor centre = m * r + 0.5, limit = -reciprocal(b) * 4.2 + 0.92;
        Tensor alpha = (reciprocal(b) * 5.1 + 2.83) * spread, mode = floor((m + 1) * r);
        Tensor u = d.unit(shape, NACRE_f64) - 0.5, v = -d.unit(shape, NACRE_f64) + 1;
        Tensor us = -abs(u) + 0.5;
        Tensor k = floor((a * 2.0 / us + b) * u + centre);
        Tensor inside = ge(us, 0.07) & le(v, limit);
        Tensor possible = ge(k, 0.0) & le(k, m);
        Tensor safe = clamp(k, 0.0, m);
        Tensor odds = (safe - mode) * log(r / (-r + 1));
        Tensor density = lgamma(mode + 1) + lgamma(m - mode + 1) - lgamma(safe + 1) - lgamma(m - safe + 1) + odds;
        Tensor below = le(log(v * alpha / (a / (us * us) + b)), density);
        return {where(is_large, k, result + cast(goes_on, NACRE_f64)),
                where(is_large, possible & (inside | below), logical_not(goes_on)),
                {trials}};
      });
  Tensor y = where(flipped, count - successes, successes);
  y = where(isnan(given), given, y);
  return cast(where(le(count, 0.0) | le(given, 0.0), full_like(y, 0.0), y), c.output_dtype());
}

// Marsaglia and Tsang's method; a shape below 1 is one more, times a power of a uniform number.
Tensor gamma(Draws& draws, const Tensor& given) {
  const Shape shape = given.shape();
  Tensor small = lt(given, 1.0);
  Tensor factor = where(small, exp(log_unit(draws, shape) / given), full_like(given, 1.0));
  Tensor d = where(small, given + 1, given) - 1.0 / 3;
  Tensor y = rounds(draws, ge(given, 0.0) & lt(given, kInfinity), {}, {d},
                    [&](Draws& own, const Tensor&, const Tensors&, const Tensors& operands) -> Round {
                      const Tensor& depth = operands[0];
                      Tensor x = own.normal(shape, NACRE_f64);
                      Tensor t = x * rsqrt(depth * 9.0) + 1;
                      Tensor v = t * t * t, log_u = log_unit(own, shape);
                      Tensor below = lt(log_u, x * x * 0.5 + depth * (-v + 1 + log(v)));
                      return {depth * v, gt(t, 0.0) & below};
                    });
  return where(isnan(given) | lt(given, 0.0), full_like(given, std::nan("")), factor * y);
}

Results standard_gamma(Call& c) {
  const nacre_dtype dtype = c.output_dtype();
  Draws draws(c);
  return cast(maximum(gamma(draws, cast(c.self(), NACRE_f64)), least(dtype)), dtype);
}

Results dirichlet(Call& c) {
  const nacre_dtype dtype = c.output_dtype();
  Draws draws(c);
  Tensor y = maximum(gamma(draws, cast(c.self(), NACRE_f64)), std::numeric_limits<double>::min());
  return cast(clamp(y / sum(y, {-1}, true), least(dtype), 1 - epsilon(dtype) / 2), dtype);
}

constexpr Decomposition kTable[] = {
    {"poisson.default", poisson},
    {"binomial.default", binomial},
    {"_standard_gamma.default", standard_gamma},
    {"_sample_dirichlet.default", dirichlet},
};

}  // namespace

Decompositions distribution_decompositions() { return kTable; }

}  // namespace nacre
