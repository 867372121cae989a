// Element by element: arithmetic, comparisons, logic, activations. Anything that takes more than
// one primitive is computed in compute_type and rounded once, as ATen's kernels do for float16 and
// bfloat16.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- One operand.

using Unary = Tensor (*)(const Tensor&);

// exp, sin, ...: integers become float32.
template <Unary f>
Results float_unary(Call& c) {
  return f(to_float(c.self()));
}

// A formula over a floating operand, computed in compute_type and rounded to the operand's type.
template <Unary f>
Results float_formula(Call& c) {
  Tensor x = to_float(c.self());
  return cast(f(to_compute(x)), x.dtype());
}

// ceil, floor, ...: integers are their own result.
template <Unary f>
Results rounding(Call& c) {
  Tensor x = c.self();
  return is_integer_or_bool(x.dtype()) ? x : f(x);
}

template <Unary f>
Results plain_unary(Call& c) {
  return f(c.self());
}

Results identity(Call& c) { return c.self(); }

Results magnitude(Call& c) {
  Tensor x = c.self();
  if (is_complex(x.dtype())) return hypot(real(x), imag(x));
  return x.dtype() == NACRE_bool_ ? x : abs(x);
}

Tensor square(const Tensor& x) { return x * x; }

Tensor softplus(const Tensor& x, double beta, double threshold) {
  Tensor scaled = beta == 1 ? x : x * beta;
  Tensor soft = log1p(exp(scaled));
  return where(gt(scaled, threshold), x, beta == 1 ? soft : soft / beta);
}

Tensor elu(const Tensor& x, double alpha, double scale, double input_scale) {
  Tensor negative = expm1(input_scale == 1 ? x : x * input_scale) * (alpha * scale);
  return where(gt(x, 0), scale == 1 ? x : x * scale, negative);
}

Tensor gelu_exact(const Tensor& x) { return x * 0.5 * (erf(x * std::numbers::sqrt2 / 2) + 1); }

Tensor gelu_tanh(const Tensor& x) {
  constexpr double kScale = std::numbers::sqrt2 * 2 * std::numbers::inv_sqrtpi / 2;
  Tensor inner = (x + x * x * x * 0.044715) * kScale;
  return x * 0.5 * (tanh(inner) + 1);
}

Tensor log_sigmoid(const Tensor& x) { return minimum(x, 0) - log1p(exp(-abs(x))); }

Tensor relu(const Tensor& x) { return maximum(x, 0); }

// A number that an integer type does not reach is no limit: it is not wrapped.
bool limits(const Operand& bound, nacre_dtype dtype, bool low) {
  if (!is_integer(dtype) || !bound.number() || !bound.number()->constant()) return true;
  return low ? *bound.number()->constant() >= padding_below(dtype) : *bound.number()->constant() <= padding_above(dtype);
}

Tensor limited(Tensor x, const std::optional<Operand>& low, const std::optional<Operand>& high) {
  nacre_dtype dtype = x.dtype();
  if (low && limits(*low, dtype, true)) x = binary("maximum", x, *low, dtype);
  if (high && limits(*high, dtype, false)) x = binary("minimum", x, *high, dtype);
  return x;
}

Results hardtanh(Call& c, double low, double high) {
  Tensor x = c.self();
  if (is_integer(x.dtype())) return limited(x, static_cast<int64_t>(low), static_cast<int64_t>(high));
  return clamp(x, low, high);
}

Results is_finite(Call& c, bool inf) {
  Tensor x = c.self();
  if (is_integer_or_bool(x.dtype())) return c.full(x.shape(), Number(!inf), NACRE_bool_);
  if (is_complex(x.dtype()))
    x = inf ? nacre::fmax(abs(real(x)), abs(imag(x))) : maximum(abs(real(x)), abs(imag(x)));
  return inf ? eq(abs(x), kInfinity) : lt(abs(x), kInfinity);
}

Results is_signed_infinity(Call& c, double which) {
  Tensor x = c.self();
  if (is_integer_or_bool(x.dtype())) return c.full(x.shape(), Number(false), NACRE_bool_);
  return eq(x, which);
}

Results round_decimals(Call& c) {
  Tensor x = c.self();
  int64_t decimals = c.integer("decimals", 0);
  if (is_integer_or_bool(x.dtype())) return x;
  if (decimals == 0) return round(x);
  double power = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  Tensor wide = to_compute(x);
  Tensor y = decimals > 0 ? round(wide * power) / power : round(wide / power) * power;
  return cast(y, x.dtype());
}

Results nan_to_num(Call& c) {
  Tensor x = c.self();
  if (is_integer_or_bool(x.dtype())) return x;
  double nan = c.real("nan", 0.0);
  double above = c.real("posinf", largest(x.dtype()));
  double below = c.real("neginf", -largest(x.dtype()));
  Tensor y = where(isnan(x), full_like(x, nan), x);
  y = where(eq(y, kInfinity), full_like(x, above), y);
  return where(eq(y, -kInfinity), full_like(x, below), y);
}

// The sum of c[i] * x^i.
Tensor polynomial(const Tensor& x, std::initializer_list<double> highest_first) {
  Tensor y;
  for (double c : highest_first) y = y ? y * x + c : full_like(x, c);
  return y;
}

// Giles' approximation of the inverse error function, then two Newton steps, which bring it to the
// precision of the type.
Tensor erfinv(const Tensor& x) {
  Tensor w = -log((-x + 1) * (x + 1));
  Tensor small = w - 2.5;
  Tensor p =
      polynomial(small, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                         0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  Tensor large = sqrt(w) - 3.0;
  Tensor q =
      polynomial(large, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                         0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  Tensor y = where(lt(w, 5.0), p, q) * x;
  for (int step = 0; step < 2; step++) {
    Tensor slope = exp(-(y * y)) * (2 * std::numbers::inv_sqrtpi);
    Tensor next = y - (erf(y) - x) / slope;
    y = where(gt(slope, 0) & lt(abs(x), 1), next, y);
  }
  y = where(eq(abs(x), 1.0), copysign(full_like(x, kInfinity), x), y);
  return where(gt(abs(x), 1.0), full_like(x, std::nan("")), y);
}

}  // namespace

// Lanczos' approximation (g = 7) of log|Gamma(x)|, with the reflection formula below 1/2.
Tensor lgamma(const Tensor& x) {
  constexpr double kCoefficients[] = {
      0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
      771.32342877765313,   -176.61502916214059,   12.507343278686905,
      -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  Tensor z = cast(x, NACRE_f64);
  Tensor reflected = lt(z, 0.5);
  Tensor u = where(reflected, -z, z - 1);  // Gamma(u + 1)
  Tensor series = full_like(z, kCoefficients[0]);
  for (int i = 1; i < 9; i++) series = series + reciprocal(u + i) * kCoefficients[i];
  Tensor t = u + 7.5;
  Tensor value = log(t) * (u + 0.5) - t + log(series) + 0.5 * std::log(2 * std::numbers::pi);
  Tensor sine = abs(sin((z - floor(z)) * std::numbers::pi));
  Tensor mirror = -log(sine) + std::log(std::numbers::pi) - value;
  Tensor y = where(reflected, mirror, value);
  y = where(eq(abs(z), kInfinity), full_like(z, kInfinity), y);
  y = where(eq(z, 1.0) | eq(z, 2.0), full_like(z, 0.0), y);
  return cast(y, x.dtype());
}

namespace {

// Reflection below 1/2, the recurrence up to 10 and the asymptotic series beyond, in float64.
Tensor digamma(const Tensor& x) {
  Tensor z = cast(x, NACRE_f64);
  Tensor reflected = lt(z, 0.5);
  Tensor u = where(reflected, -z + 1, z);
  Tensor shift = full_like(z, 0.0);
  for (int i = 0; i < 10; i++) shift = shift + reciprocal(u + i);
  Tensor v = u + 10;
  Tensor r = reciprocal(v);
  Tensor r2 = r * r;
  Tensor series =
      polynomial(r2, {-3617.0 / 8160, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12});
  Tensor value = log(v) - r * 0.5 - r2 * series - shift;
  // Exactly 1/tan(pi z): the fraction keeps the argument small.
  Tensor fraction = z - floor(z);
  Tensor mirror = value - reciprocal(tan(fraction * std::numbers::pi)) * std::numbers::pi;
  Tensor y = where(reflected, mirror, value);
  Tensor pole = le(z, 0) & eq(fraction, 0);
  y = where(pole, full_like(z, std::nan("")), y);
  y = where(eq(z, 0.0), -copysign(full_like(z, kInfinity), z), y);
  return cast(y, x.dtype());
}

// exp(x^2) erfc(x): by its continued fraction where erfc is small.
Tensor scaled_erfc(const Tensor& x) {
  Tensor z = cast(x, NACRE_f64);
  Tensor far = maximum(z, 4.0), fraction = far;
  for (int k = 40; k > 0; k--) fraction = reciprocal(fraction) * (k / 2.0) + far;
  Tensor large = reciprocal(fraction) * std::numbers::inv_sqrtpi;
  return cast(where(gt(z, 4.0), large, exp(z * z) * erfc(z)), x.dtype());
}

// e^z in float64, infinite where it is so in `dtype`: PyTorch's i0 and i1 overflow with it.
Tensor exp_within(const Tensor& z, nacre_dtype dtype) {
  return exp(where(gt(z, std::log(largest(dtype))), full_like(z, kInfinity), z));
}

// The modified Bessel function of an order, beyond 30: its asymptotic series, without e^z.
Tensor bessel_tail(const Tensor& z, int order) {
  Tensor r = reciprocal(maximum(z, 30.0) * 8), series = full_like(z, 1.0);
  for (int k = 16; k > 0; k--) {
    const double odd = 2 * k - 1;
    series = series * r * ((odd * odd - 4 * order * order) / k) + 1;
  }
  return series / sqrt(z * (2 * std::numbers::pi));
}

}  // namespace

// The modified Bessel function of order 0, times exp(-|x|) if `scaled`: its power series up to 30,
// the asymptotic one beyond.
Tensor bessel_i0(const Tensor& x, bool scaled) {
  Tensor z = abs(cast(x, NACRE_f64));
  Tensor quarter = minimum(z * z / 4, 225.0);
  constexpr int kTerms = 64;
  Tensor series = full_like(z, 1.0);
  for (int k = kTerms; k > 0; k--) series = series * quarter / static_cast<double>(k * k) + 1;
  Tensor tail = bessel_tail(z, 0);
  Tensor small = scaled ? series * exp(-z) : series, large = scaled ? tail : tail * exp_within(z, x.dtype());
  return cast(where(le(z, 30.0), small, large), x.dtype());
}

namespace {

// The modified Bessel function of order 1, likewise.
Tensor bessel_i1(const Tensor& x, bool scaled) {
  Tensor z = cast(x, NACRE_f64), a = abs(z);
  Tensor quarter = minimum(a * a / 4, 225.0);
  constexpr int kTerms = 64;
  Tensor series = full_like(z, 1.0);
  for (int k = kTerms; k > 0; k--) series = series * quarter / static_cast<double>(k * (k + 1)) + 1;
  series = series * a / 2;
  Tensor tail = bessel_tail(a, 1);
  Tensor small = scaled ? series * exp(-a) : series, large = scaled ? tail : tail * exp_within(a, x.dtype());
  return cast(copysign(where(le(a, 30.0), small, large), z), x.dtype());
}

Tensor sinc(const Tensor& x) {
  Tensor t = x * std::numbers::pi;
  return where(eq(x, 0), full_like(x, 1.0), sin(t) / t);
}

Tensor entropy(const Tensor& x) {  // special.entr
  Tensor y = where(gt(x, 0), -(x * log(x)), full_like(x, -kInfinity));
  y = where(eq(x, 0), full_like(x, 0.0), y);
  return where(isnan(x), x, y);
}

// The x below which a part p of the normal distribution lies. From a rational function of Hastings (Abramowitz and Stegun 26.2.23),
// right to 4.5e-4, two of Halley's steps; in the smaller tail, of which erfc knows all digits.
Tensor ndtri(const Tensor& x) {
  Tensor p = cast(x, NACRE_f64);
  Tensor upper = gt(p, 0.5), q = where(upper, -p + 1, p);
  Tensor t = sqrt(log(q) * -2);
  Tensor z = polynomial(t, {0.010328, 0.802853, 2.515517}) / polynomial(t, {0.001308, 0.189269, 1.432788, 1.0}) - t;
  for (int step = 0; step < 2; ++step) {
    Tensor root = exp(z * z * 0.25);  // of 1 / density, which may overflow
    Tensor u = (erfc(z * (-std::numbers::sqrt2 / 2)) * 0.5 - q) * root * std::sqrt(2 * std::numbers::pi) * root;
    z = z - u / (z * u * 0.5 + 1);
  }
  z = where(eq(q, 0), full_like(z, -kInfinity), z);
  return cast(where(upper, -z, z), x.dtype());
}

Tensor log_ndtr(const Tensor& x) {
  Tensor wide = cast(x, NACRE_f64);
  Tensor t = wide * (std::numbers::sqrt2 / 2);
  Tensor middle = where(lt(wide, 0), log(erfc(-t) * 0.5), log1p(erfc(t) * -0.5));
  // Far below, where erfc underflows: the asymptotic series of the tail.
  Tensor r2 = reciprocal(wide * wide);
  Tensor series = polynomial(r2, {-10395.0, 945.0, -105.0, 15.0, -3.0, 1.0});
  series = -r2 * series + 1;
  Tensor tail =
      -(wide * wide) * 0.5 - log(-wide) - 0.5 * std::log(2 * std::numbers::pi) + log(series);
  return cast(where(lt(wide, -30.0), tail, middle), x.dtype());
}

// As PyTorch: 0 far below, where erfc would give a tail.
Tensor ndtr(const Tensor& x) { return (erf(x * (std::numbers::sqrt2 / 2)) + 1) * 0.5; }

// ---- Two operands.

using Binary = Tensor (*)(const Operand&, const Operand&);

Operand other(Call& c) { return c.operand("other"); }

template <Binary f>
Results plain_binary(Call& c) {
  return f(c.operand("self"), other(c));
}

// Promoted to a floating type: atan2, copysign, true division.
template <Binary f>
Results float_binary(Call& c) {
  Operand a = c.operand("self"), b = other(c);
  nacre_dtype dtype = float_for(result_type({a, b}));
  return f(as_tensor(c.builder(), a, dtype), as_tensor(c.builder(), b, dtype));
}

// A formula over two floating operands, rounded once.
template <Binary f>
Results float_binary_formula(Call& c) {
  Operand a = c.operand("self"), b = other(c);
  nacre_dtype dtype = float_for(result_type({a, b})), wide = compute_type(dtype);
  return cast(f(as_tensor(c.builder(), a, wide), as_tensor(c.builder(), b, wide)), dtype);
}

// a + alpha * b (or minus), rounded once.
Results scaled_sum(Call& c, const Operand& a, const Operand& b, bool subtract) {
  Operand alpha = c.operand("alpha", 1);
  nacre_dtype dtype = result_type({a, b});
  const char* primitive = subtract ? "sub" : "add";
  if (alpha.is(1)) return binary(primitive, a, b, dtype);
  nacre_dtype wide = compute_type(dtype);
  Tensor scaled = as_tensor(c.builder(), b, wide);
  scaled = binary("mul", scaled, alpha, wide);
  return cast(binary(primitive, a, scaled, wide), dtype);
}

Results add(Call& c) { return scaled_sum(c, c.operand("self"), other(c), false); }
Results sub(Call& c) { return scaled_sum(c, c.operand("self"), other(c), true); }
Results rsub(Call& c) { return scaled_sum(c, other(c), c.operand("self"), true); }

Tensor divide(Call& c, const Operand& a, const Operand& b, const std::string& mode) {
  nacre_dtype dtype = result_type({a, b});
  if (mode.empty()) return binary("div", a, b, float_for(dtype));
  if (mode == "trunc") return binary("div_trunc", a, b, dtype);
  if (mode == "floor") return binary("div_floor", a, b, dtype);
  c.unsupported("rounding_mode " + mode);
}

Results div(Call& c) { return divide(c, c.operand("self"), other(c), c.text("rounding_mode", "")); }
Results floor_divide(Call& c) { return divide(c, c.operand("self"), other(c), "floor"); }

Tensor power(Call& c, const Operand& base, const Operand& exponent) {
  nacre_dtype dtype = result_type({base, exponent});
  Builder& b = c.builder();
  const Tensor* x = base.tensor();
  const Number* e = exponent.number();
  if (x && e) {
    auto constant = e->constant();
    Tensor y = cast(*x, dtype);
    if (constant == 1.0) return y;
    if (constant == 0.0) return full_like(y, 1);
    if (constant == 2.0) return y * y;
    if (is_floating(dtype) || is_complex(dtype)) {
      Tensor wide = to_compute(y);
      auto rounded = [&](const Tensor& t) { return cast(t, dtype); };
      if (constant == 3.0) return rounded(wide * wide * wide);
      // Roots differ from powers at -inf and -0; PyTorch's float16 kernel takes none.
      if (constant == 0.5 && dtype != NACRE_f16) return sqrt(y);
      if (constant == -0.5 && dtype != NACRE_f16) return rsqrt(y);
      if (constant == -1.0) return reciprocal(y);
      if (constant == -2.0) return rounded(reciprocal(wide * wide));
    }
  }
  if (dtype == NACRE_bool_)  // 0^0 is 1
    return as_tensor(b, base, dtype) | logical_not(as_tensor(b, exponent, dtype));
  return binary("pow", base, exponent, dtype);
}

Results pow(Call& c) { return power(c, c.operand("self"), c.operand("exponent")); }

Results float_power(Call& c) {
  Builder& b = c.builder();
  return power(c, as_tensor(b, c.operand("self"), NACRE_f64),
               c.has("exponent") && c.operand("exponent").number()
                   ? c.operand("exponent")
                   : Operand(as_tensor(b, c.operand("exponent"), NACRE_f64)));
}

template <Binary f>
Results logical(Call& c) {
  return f(to_bool(c.tensor("self")), to_bool(c.tensor("other")));
}

// log(exp(a) + exp(b)) in the base of `exp` and `log1p` / `scale`.
Tensor log_add(const Tensor& a, const Tensor& b, bool base2) {
  Tensor m = maximum(a, b);
  Tensor difference = -abs(a - b);
  Tensor tail = base2 ? log1p(exp2(difference)) / std::numbers::ln2 : log1p(exp(difference));
  return where(eq(abs(a), kInfinity) & eq(a, b), a, m + tail);
}
Tensor log_add_e(const Operand& a, const Operand& b) {
  return log_add(*a.tensor(), *b.tensor(), false);
}
Tensor log_add_2(const Operand& a, const Operand& b) {
  return log_add(*a.tensor(), *b.tensor(), true);
}

Tensor x_log(const Tensor& x, const Tensor& y, const Tensor& log_y) {
  Tensor z = where(eq(x, 0), full(x.builder(), {}, 0.0, x.dtype()), x * log_y);
  return where(isnan(y), y, z);
}
Tensor xlogy(const Operand& a, const Operand& b) {
  return x_log(*a.tensor(), *b.tensor(), log(*b.tensor()));
}
Tensor xlog1py(const Operand& a, const Operand& b) {
  return x_log(*a.tensor(), *b.tensor(), log1p(*b.tensor()));
}

Results heaviside(Call& c) {
  Tensor x = c.tensor("self"), values = c.tensor("values");
  Tensor zero = full(c.builder(), {}, 0, x.dtype());
  return where(eq(x, zero), values, cast(gt(x, zero), x.dtype()));
}

Results is_close(Call& c) {
  Tensor a = c.tensor("self"), b = c.tensor("other");
  double rtol = c.real("rtol", 1e-5), atol = c.real("atol", 1e-8);
  Tensor close = eq(a, b);
  if (is_floating(a.dtype()) && c.flag("equal_nan", false)) close = close | (isnan(a) & isnan(b));
  if (rtol == 0 && atol == 0) return close;
  Tensor x = nacre::to_float(a), y = nacre::to_float(b);
  Tensor allowed = abs(y * rtol) + atol, actual = abs(x - y);
  return close | (lt(actual, kInfinity) & le(actual, allowed));
}

Results multivariate_lgamma(Call& c) {
  Tensor input = nacre::to_float(c.self()), x = cast(input, NACRE_f64);
  int64_t p = c.integer("p");
  auto n = static_cast<double>(p);
  Tensor y = full_like(x, n * (n - 1) / 4 * std::log(std::numbers::pi));
  for (int64_t j = 0; j < p; j++) y = y + lgamma(x - static_cast<double>(j) / 2);
  return cast(y, input.dtype());
}

Results ldexp(Call& c) {
  Operand x = c.operand("self");
  Tensor e = c.tensor("other");
  nacre_dtype dtype = float_for(result_type({x, e}));
  nacre_dtype power = float_for(e.dtype());
  return mul(as_tensor(c.builder(), x, dtype), cast(exp2(cast(e, power)), dtype));
}

// The product and its sign are those of int32 where the dtype is narrower, as in C++; then it wraps.
Tensor least_common_multiple(const Operand& a, const Operand& b) {
  Tensor divisor = gcd(a, b);
  const nacre_dtype dtype = divisor.dtype();
  const nacre_dtype wide = nacre_dtype_size_bytes(dtype) < 4 ? NACRE_i32 : dtype;
  Tensor whole = where(eq(divisor, 0), full_like(divisor, 1), divisor);
  Tensor quotient = cast(div_trunc(a, whole), wide), other = cast(as_tensor(divisor.builder(), b, dtype), wide);
  return cast(abs(mul(quotient, other)), dtype);
}

// x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1. The logarithm may be off by one next to a power of two; scaling by a
// power of two is exact, in two steps because the whole power may overflow.
Results mantissa_and_exponent(Call& c) {
  Tensor x = c.self(), wide = cast(x, NACRE_f64);
  Tensor special = eq(wide, 0) | logical_not(lt(abs(wide), kInfinity));
  Tensor safe = where(special, full_like(wide, 1), wide);
  Tensor e = floor(log2(abs(safe))) + 1;
  Tensor half = floor(e / 2);
  Tensor m = safe * exp2(-half) * exp2(half - e);
  Tensor large = ge(abs(m), 1.0), small = lt(abs(m), 0.5);
  m = where(large, m * 0.5, where(small, m * 2.0, m));
  e = e + cast(large, NACRE_f64) - cast(small, NACRE_f64);
  e = where(special, full_like(e, 0), e);
  return {cast(where(special, wide, m), x.dtype()), cast(e, NACRE_i32)};
}

// The next number from a towards b. A 16-bit float steps in its own bits, not in those of a float32.
Results next_after(Call& c) {
  Operand a = c.operand("self"), b = other(c);
  const nacre_dtype dtype = result_type({a, b});
  if (compute_type(dtype) == dtype) return nextafter(a, b);
  Tensor x = as_tensor(c.builder(), a, dtype), y = as_tensor(c.builder(), b, dtype);
  auto bits = [&](int n) { return as_tensor(c.builder(), n, NACRE_i16); };
  auto bitcast = [&](const Tensor& t, nacre_dtype to) {
    return Tensor(c.builder(), c.builder().make_one("prim.bitcast", {{"x", ValueRef{t.id()}}, {"dtype", to}}));
  };
  Tensor away = eq(gt(y, x), gt(x, 0));  // from zero: a larger magnitude
  Tensor moved = bitcast(bitcast(x, NACRE_i16) + where(away, bits(1), bits(-1)), dtype);
  Tensor least = copysign(bitcast(bits(1), dtype), y);
  Tensor next = where(eq(x, y), y, where(eq(x, 0), least, moved));
  return where(isnan(x) | isnan(y), x + y, next);
}

// ---- Three operands.

Results clamp(Call& c) {
  Operand x = c.operand("self");
  auto low = c.optional_operand("min"), high = c.optional_operand("max");
  std::vector<Operand> all{x};
  if (low) all.push_back(*low);
  if (high) all.push_back(*high);
  nacre_dtype dtype = result_type(all);
  return limited(as_tensor(c.builder(), x, dtype), low, high);
}

Results where(Call& c) {
  return where(c.tensor("condition"), c.operand("self"), c.operand("other"));
}

Results masked_fill(Call& c) {
  Tensor x = c.tensor("self"), mask = c.tensor("mask");
  Tensor value = as_tensor(c.builder(), c.operand("value"), x.dtype());
  return where(mask, value, x);
}

Results lerp(Call& c) {
  Tensor a = c.tensor("self"), b = c.tensor("end");
  nacre_dtype dtype = c.output_dtype(), wide = compute_type(dtype);
  Tensor x = cast(a, wide), y = cast(b, wide);
  Operand weight = c.operand("weight");
  if (weight.number()) {
    double w = c.real("weight");
    Tensor result = std::abs(w) < 0.5 ? x + (y - x) * w : y - (y - x) * (1 - w);
    return cast(result, dtype);
  }
  Tensor w = cast(*weight.tensor(), wide);
  return cast(where(lt(abs(w), 0.5), x + w * (y - x), y - (y - x) * (-w + 1)), dtype);
}

Results add_product(Call& c, bool divide) {
  Tensor x = c.tensor("self"), a = c.tensor("tensor1"), b = c.tensor("tensor2");
  nacre_dtype dtype = result_type({x, a, b});
  nacre_dtype wide = compute_type(divide ? float_for(dtype) : dtype);
  Tensor scaled = cast(a, wide);
  Operand value = c.operand("value", 1);
  if (!value.is(1)) scaled = binary("mul", scaled, value, wide);
  Tensor product = divide ? nacre::div(scaled, cast(b, wide)) : mul(scaled, cast(b, wide));
  return cast(nacre::add(cast(x, wide), product), dtype);
}

// ---- Activations with arguments.

template <class F>
Results activation(Call& c, F f) {
  Tensor x = c.self();
  return cast(f(to_compute(x)), x.dtype());
}

Results prelu(Call& c) {
  Tensor x = c.tensor("self"), w = c.tensor("weight");
  if (w.rank() != x.rank()) {  // one weight a channel, or one for all
    if (w.rank() == 1 && !w.size(0).is(1)) {
      Shape shape(static_cast<size_t>(x.rank()), Expr(1));
      shape[1] = w.size(0);
      w = broadcast(w, shape, {1});
    } else {
      w = reshape(w, {});
    }
  }
  Tensor y = to_compute(x);
  return cast(where(gt(y, 0), y, y * to_compute(w)), x.dtype());
}

Results gelu(Call& c) {
  std::string approximate = c.text("approximate", "none");
  return activation(
      c, [&](const Tensor& x) { return approximate == "tanh" ? gelu_tanh(x) : gelu_exact(x); });
}

Results glu(Call& c) {
  Tensor x = c.self();
  int64_t dim = c.dim("dim", x.rank(), -1);
  Expr half = simplify(floordiv(x.size(dim), 2), c.facts());
  Tensor a = to_compute(narrow(x, dim, 0, half));
  Tensor b = to_compute(narrow(x, dim, half, half));
  return cast(a * sigmoid(b), x.dtype());
}

Results threshold(Call& c) {
  Tensor x = c.self();
  Operand limit = c.operand("threshold"), value = c.operand("value");
  Builder& b = c.builder();
  return where(le(x, as_tensor(b, limit, x.dtype())), as_tensor(b, value, x.dtype()), x);
}

Results logit(Call& c) {
  Tensor x = nacre::to_float(c.self());
  Tensor y = to_compute(x);
  if (auto eps = c.optional_real("eps")) y = clamp(y, *eps, 1 - *eps);
  return cast(log(y / (-y + 1)), x.dtype());
}

// One formula under the several names that ATen gives it.
#define NACRE_FLOAT_UNARY(name) \
  { #name ".default", float_unary < nacre::name> }
#define NACRE_ALIAS(alias, name) \
  { #alias ".default", float_unary < nacre::name> }
#define NACRE_COMPARISON(name) \
  {#name ".Tensor", plain_binary<nacre::name>}, { #name ".Scalar", plain_binary < nacre::name> }
#define NACRE_BITWISE(op, primitive)                              \
  {"bitwise_" #op ".Tensor", plain_binary<primitive>},            \
      {"bitwise_" #op ".Scalar", plain_binary<primitive>},        \
      {"bitwise_" #op ".Scalar_Tensor", plain_binary<primitive>}, \
      {"__" #op "__.Tensor", plain_binary<primitive>}, {          \
    "__" #op "__.Scalar", plain_binary<primitive>                 \
  }

// clang-format off
constexpr Decomposition kTable[] = {
    // Floating functions of one operand.
    NACRE_FLOAT_UNARY(sqrt), NACRE_FLOAT_UNARY(rsqrt), NACRE_FLOAT_UNARY(reciprocal), NACRE_FLOAT_UNARY(exp),
    NACRE_FLOAT_UNARY(exp2), NACRE_FLOAT_UNARY(expm1), NACRE_FLOAT_UNARY(log), NACRE_FLOAT_UNARY(log2),
    NACRE_FLOAT_UNARY(log10), NACRE_FLOAT_UNARY(log1p), NACRE_FLOAT_UNARY(sin), NACRE_FLOAT_UNARY(cos),
    NACRE_FLOAT_UNARY(tan), NACRE_FLOAT_UNARY(asin), NACRE_FLOAT_UNARY(acos), NACRE_FLOAT_UNARY(atan),
    NACRE_FLOAT_UNARY(sinh), NACRE_FLOAT_UNARY(cosh), NACRE_FLOAT_UNARY(tanh), NACRE_FLOAT_UNARY(asinh),
    NACRE_FLOAT_UNARY(acosh), NACRE_FLOAT_UNARY(atanh), NACRE_FLOAT_UNARY(erf), NACRE_FLOAT_UNARY(sigmoid),
    NACRE_ALIAS(arcsin, asin), NACRE_ALIAS(arccos, acos), NACRE_ALIAS(arctan, atan), NACRE_ALIAS(arcsinh, asinh),
    NACRE_ALIAS(arccosh, acosh), NACRE_ALIAS(arctanh, atanh), NACRE_ALIAS(special_erf, erf),
    NACRE_ALIAS(special_exp2, exp2), NACRE_ALIAS(special_expm1, expm1), NACRE_ALIAS(special_log1p, log1p),
    NACRE_ALIAS(special_expit, sigmoid),
    NACRE_FLOAT_UNARY(erfc), NACRE_ALIAS(special_erfc, erfc), {"special_erfcx.default", float_formula<scaled_erfc>},
    {"erfinv.default", float_formula<erfinv>}, {"special_erfinv.default", float_formula<erfinv>},
    {"lgamma.default", float_formula<lgamma>}, {"special_gammaln.default", float_formula<lgamma>},
    {"digamma.default", float_formula<digamma>}, {"special_digamma.default", float_formula<digamma>},
    {"special_psi.default", float_formula<digamma>},
    {"i0.default", float_formula<[](const Tensor& x) { return bessel_i0(x, false); }>},
    {"special_i0.default", float_formula<[](const Tensor& x) { return bessel_i0(x, false); }>},
    {"special_i0e.default", float_formula<[](const Tensor& x) { return bessel_i0(x, true); }>},
    {"special_i1.default", float_formula<[](const Tensor& x) { return bessel_i1(x, false); }>},
    {"special_i1e.default", float_formula<[](const Tensor& x) { return bessel_i1(x, true); }>},
    {"mvlgamma.default", multivariate_lgamma}, {"special_multigammaln.default", multivariate_lgamma},
    {"isclose.default", is_close},
    {"sinc.default", float_formula<sinc>}, {"special_sinc.default", float_formula<sinc>},
    {"special_entr.default", float_formula<entropy>},
    {"special_ndtr.default", float_formula<ndtr>}, {"special_log_ndtr.default", float_formula<log_ndtr>},
    {"special_ndtri.default", float_formula<ndtri>},
    {"deg2rad.default", float_formula<[](const Tensor& x) { return x * (std::numbers::pi / 180); }>},
    {"rad2deg.default", float_formula<[](const Tensor& x) { return x * (180 / std::numbers::pi); }>},
    {"logit.default", logit}, {"special_logit.default", logit},

    // Functions of one operand that keep its type.
    {"neg.default", plain_unary<nacre::neg>}, {"negative.default", plain_unary<nacre::neg>},
    {"positive.default", identity}, {"abs.default", magnitude}, {"absolute.default", magnitude},
    {"fabs.default", plain_unary<nacre::abs>},
    {"sign.default", [](Call& c) -> Results { return c.self().dtype() == NACRE_bool_ ? c.self() : sign(c.self()); }},
    {"ceil.default", rounding<nacre::ceil>}, {"floor.default", rounding<nacre::floor>},
    {"trunc.default", rounding<nacre::trunc>}, {"fix.default", rounding<nacre::trunc>},
    {"round.default", rounding<nacre::round>}, {"round.decimals", round_decimals}, {"special_round.default", round_decimals},
    {"frac.default", plain_unary<[](const Tensor& x) { return x - trunc(x); }>},
    {"square.default", [](Call& c) -> Results {
       Tensor x = c.self();
       return square(x.dtype() == NACRE_bool_ ? cast(x, NACRE_i64) : x);
     }},
    {"bitwise_not.default", plain_unary<nacre::bitwise_not>},
    {"logical_not.default", [](Call& c) -> Results { return logical_not(to_bool(c.self())); }},
    {"nan_to_num.default", nan_to_num},

    // Classification.
    {"isnan.default", [](Call& c) -> Results {
       Tensor x = c.self();
       if (is_integer_or_bool(x.dtype())) return c.full(x.shape(), Number(false), NACRE_bool_);
       return isnan(x);
     }},
    {"isinf.default", [](Call& c) -> Results { return is_finite(c, true); }},
    {"isfinite.default", [](Call& c) -> Results { return is_finite(c, false); }},
    {"isposinf.default", [](Call& c) -> Results { return is_signed_infinity(c, kInfinity); }},
    {"isneginf.default", [](Call& c) -> Results { return is_signed_infinity(c, -kInfinity); }},
    {"signbit.default", [](Call& c) -> Results {
       Tensor x = c.self();
       if (x.dtype() == NACRE_bool_) return c.full(x.shape(), Number(false), NACRE_bool_);
       if (is_integer(x.dtype())) return lt(x, 0);
       return lt(copysign(full_like(x, 1.0), x), 0.0);
     }},

    // Arithmetic.
    {"add.Tensor", add}, {"add.Scalar", add}, {"_add_relu.Tensor", [](Call& c) -> Results { return relu(add(c).list[0]); }},
    {"sub.Tensor", sub}, {"sub.Scalar", sub}, {"subtract.Tensor", sub}, {"subtract.Scalar", sub},
    {"rsub.Tensor", rsub}, {"rsub.Scalar", rsub},
    {"mul.Tensor", plain_binary<nacre::mul>}, {"mul.Scalar", plain_binary<nacre::mul>},
    {"multiply.Tensor", plain_binary<nacre::mul>}, {"multiply.Scalar", plain_binary<nacre::mul>},
    {"div.Tensor", div}, {"div.Scalar", div}, {"div.Tensor_mode", div}, {"div.Scalar_mode", div},
    {"divide.Tensor", div}, {"divide.Scalar", div}, {"divide.Tensor_mode", div}, {"divide.Scalar_mode", div},
    {"true_divide.Tensor", div}, {"true_divide.Scalar", div},
    {"floor_divide.default", floor_divide}, {"floor_divide.Scalar", floor_divide},
    {"fmod.Tensor", plain_binary<nacre::fmod>}, {"fmod.Scalar", plain_binary<nacre::fmod>},
    {"remainder.Tensor", plain_binary<nacre::remainder>}, {"remainder.Scalar", plain_binary<nacre::remainder>},
    {"remainder.Scalar_Tensor", plain_binary<nacre::remainder>},
    {"pow.Tensor_Tensor", pow}, {"pow.Tensor_Scalar", pow}, {"pow.Scalar", pow},
    {"float_power.Tensor_Tensor", float_power}, {"float_power.Tensor_Scalar", float_power}, {"float_power.Scalar", float_power},
    {"atan2.default", float_binary<nacre::atan2>}, {"arctan2.default", float_binary<nacre::atan2>},
    {"copysign.Tensor", float_binary<nacre::copysign>}, {"copysign.Scalar", float_binary<nacre::copysign>},
    {"hypot.default", float_binary_formula<hypot>},
    {"logaddexp.default", float_binary_formula<log_add_e>}, {"logaddexp2.default", float_binary_formula<log_add_2>},
    {"xlogy.Tensor", float_binary_formula<xlogy>}, {"xlogy.Scalar_Other", float_binary_formula<xlogy>},
    {"xlogy.Scalar_Self", float_binary_formula<xlogy>}, {"special_xlogy.default", float_binary_formula<xlogy>},
    {"special_xlogy.self_scalar", float_binary_formula<xlogy>}, {"special_xlogy.other_scalar", float_binary_formula<xlogy>},
    {"special_xlog1py.default", float_binary_formula<xlog1py>},
    {"special_xlog1py.self_scalar", float_binary_formula<xlog1py>}, {"special_xlog1py.other_scalar", float_binary_formula<xlog1py>},
    {"heaviside.default", heaviside}, {"ldexp.Tensor", ldexp},
    {"nextafter.default", next_after},
    {"gcd.default", plain_binary<nacre::gcd>}, {"lcm.default", plain_binary<least_common_multiple>},
    {"frexp.Tensor", mantissa_and_exponent},
    {"maximum.default", plain_binary<nacre::maximum>}, {"minimum.default", plain_binary<nacre::minimum>},
    {"max.other", plain_binary<nacre::maximum>}, {"min.other", plain_binary<nacre::minimum>},
    {"fmax.default", plain_binary<nacre::fmax>}, {"fmin.default", plain_binary<nacre::fmin>},
    {"addcmul.default", [](Call& c) { return add_product(c, false); }},
    {"addcdiv.default", [](Call& c) { return add_product(c, true); }},
    {"lerp.Scalar", lerp}, {"lerp.Tensor", lerp},

    // Comparisons and logic.
    NACRE_COMPARISON(eq), NACRE_COMPARISON(ne), NACRE_COMPARISON(lt), NACRE_COMPARISON(le), NACRE_COMPARISON(gt),
    NACRE_COMPARISON(ge),
    {"not_equal.Tensor", plain_binary<nacre::ne>}, {"not_equal.Scalar", plain_binary<nacre::ne>},
    {"less.Tensor", plain_binary<nacre::lt>}, {"less.Scalar", plain_binary<nacre::lt>},
    {"less_equal.Tensor", plain_binary<nacre::le>}, {"less_equal.Scalar", plain_binary<nacre::le>},
    {"greater.Tensor", plain_binary<nacre::gt>}, {"greater.Scalar", plain_binary<nacre::gt>},
    {"greater_equal.Tensor", plain_binary<nacre::ge>}, {"greater_equal.Scalar", plain_binary<nacre::ge>},
    {"logical_and.default", logical<nacre::bitwise_and>}, {"logical_or.default", logical<nacre::bitwise_or>},
    {"logical_xor.default", logical<nacre::bitwise_xor>},
    NACRE_BITWISE(and, nacre::bitwise_and), NACRE_BITWISE(or, nacre::bitwise_or), NACRE_BITWISE(xor, nacre::bitwise_xor),
    {"bitwise_left_shift.Tensor", plain_binary<nacre::shift_left>},
    {"bitwise_left_shift.Tensor_Scalar", plain_binary<nacre::shift_left>},
    {"bitwise_left_shift.Scalar_Tensor", plain_binary<nacre::shift_left>},
    {"__lshift__.Tensor", plain_binary<nacre::shift_left>}, {"__lshift__.Scalar", plain_binary<nacre::shift_left>},
    {"bitwise_right_shift.Tensor", plain_binary<nacre::shift_right>},
    {"bitwise_right_shift.Tensor_Scalar", plain_binary<nacre::shift_right>},
    {"bitwise_right_shift.Scalar_Tensor", plain_binary<nacre::shift_right>},
    {"__rshift__.Tensor", plain_binary<nacre::shift_right>}, {"__rshift__.Scalar", plain_binary<nacre::shift_right>},

    // Choice.
    {"where.self", where}, {"where.ScalarSelf", where}, {"where.ScalarOther", where}, {"where.Scalar", where},
    {"masked_fill.Scalar", masked_fill}, {"masked_fill.Tensor", masked_fill},
    {"clamp.default", clamp}, {"clamp.Tensor", clamp}, {"clip.default", clamp}, {"clip.Tensor", clamp},
    {"clamp_min.default", clamp}, {"clamp_min.Tensor", clamp}, {"clamp_max.default", clamp}, {"clamp_max.Tensor", clamp},

    // Activations.
    {"relu.default", plain_unary<relu>},
    {"relu6.default", [](Call& c) { return hardtanh(c, 0, 6); }},
    {"hardtanh.default", [](Call& c) { return hardtanh(c, c.real("min_val", -1), c.real("max_val", 1)); }},
    {"hardswish.default", float_formula<[](const Tensor& x) { return x * clamp(x + 3, 0, 6) / 6; }>},
    {"hardsigmoid.default", float_formula<[](const Tensor& x) { return clamp(x + 3, 0, 6) / 6; }>},
    {"silu.default", float_formula<[](const Tensor& x) { return x * sigmoid(x); }>},
    {"mish.default", float_formula<[](const Tensor& x) { return x * tanh(softplus(x, 1, kInfinity)); }>},
    {"gelu.default", gelu}, {"glu.default", glu}, {"prelu.default", prelu}, {"_prelu_kernel.default", prelu},
    {"elu.default", [](Call& c) {
       return activation(c, [&](const Tensor& x) {
         return elu(x, c.real("alpha", 1), c.real("scale", 1), c.real("input_scale", 1));
       });
     }},
    {"celu.default", [](Call& c) {
       double alpha = c.real("alpha", 1);
       return activation(c, [&](const Tensor& x) { return elu(x, alpha, 1, 1 / alpha); });
     }},
    {"selu.default", float_formula<[](const Tensor& x) {
       return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
     }>},
    {"leaky_relu.default", [](Call& c) {
       return activation(c, [&](const Tensor& x) { return where(gt(x, 0), x, x * c.real("negative_slope", 0.01)); });
     }},
    {"softplus.default", [](Call& c) {
       return activation(c, [&](const Tensor& x) { return softplus(x, c.real("beta", 1), c.real("threshold", 20)); });
     }},
    {"log_sigmoid.default", float_formula<log_sigmoid>},
    {"log_sigmoid_forward.default", [](Call& c) -> Results {
       Tensor x = c.self();
       Tensor y = cast(log_sigmoid(to_compute(x)), x.dtype());
       return {y, c.needs(1) ? exp(-abs(x)) : Tensor()};
     }},
    {"softsign.default", float_formula<[](const Tensor& x) { return x / (abs(x) + 1); }>},
    {"tanhshrink.default", float_formula<[](const Tensor& x) { return x - tanh(x); }>},
    {"threshold.default", threshold},
    {"hardshrink.default", [](Call& c) -> Results {
       Tensor x = c.self();
       return where(le(abs(x), c.real("lambd", 0.5)), full_like(x, 0), x);
     }},
    {"softshrink.default", [](Call& c) {
       double l = c.real("lambd", 0.5);
       return activation(c, [&](const Tensor& x) {
         return where(gt(x, l), x - l, where(lt(x, -l), x + l, x * 0));
       });
     }},
};
// clang-format on

}  // namespace

Decompositions pointwise_decompositions() { return kTable; }

}  // namespace nacre
