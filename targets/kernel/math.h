// Elementary functions without branches or library calls: loops over the scalar forms vectorise.
//
// One template serves float, double, vf (VL floats) and vd (VL doubles). Over the whole range, with infinities, NaN and
// denormal arguments as in C's <math.h>; errors against exact values in units of the last place (ULP) of the result.
//
//   function                                  float, vf     double
//   exp, exp2                                 1.1           1.1    denormal results are right
//   expm1, log, log1p                         1.6 0.8 1.5   2
//   log2, log10                               0.5           3
//   tanh, sigmoid                             2.3           2.5
//   erf                                       2.8           1.1
//   erfc                                      0.5           4.1
//   sin, cos (any argument)                   1.6           2.5
//   tan                                       3.1           4
//   asin, acos, atan, atan2                   0.5           2.5
//   sinh, cosh, asinh, acosh, atanh           0.5           3
//   pow                                       0.5           1.5
//   sqrt; floor, ceil, trunc, round_even      0.5; exact    0.5; exact
//   rsqrt                                     1.5           1.5    1 / sqrt
//   gelu(x)        x / 2 (1 + erf(x / sqrt 2))                 gelu_tanh(x)   its approximation by tanh
//   silu(x)        x sigmoid(x)     softplus(x) ln(1 + e^x)    mish(x)        x tanh(softplus(x))
//   hardsigmoid, hardswish, relu6 (NaN propagates)
//   fmod(x, y)     exact remainder, sign of x (C);   remainder(x, y)  sign of y (Python, torch.remainder)
//   exp_negative(x)   e^x for x <= 0, or x = NaN, 1.1 ULP; below -87.3 the result is 0: for softmax
//
// Float functions that are rare in networks (log2, pow, asin, ...) are computed in double and rounded once.
#ifndef NACRE_KERNEL_MATH_H
#define NACRE_KERNEL_MATH_H
#include "nacre/math_coefficients.h"
#include "nacre/vec.h"

namespace nk {

typedef double vd __attribute__((ext_vector_type(VL)));
typedef i64 vl __attribute__((ext_vector_type(VL)));
typedef uint32_t vu __attribute__((ext_vector_type(VL)));
typedef uint64_t vul __attribute__((ext_vector_type(VL)));

inline constexpr bool kHasFma = NACRE_FMA_DOUBLE;
#if NACRE_FMA_DOUBLE
NACRE_INLINE vd fma(vd a, vd b, vd c) { return __builtin_elementwise_fma(a, b, c); }
#else
NACRE_INLINE vd fma(vd a, vd b, vd c) { return a * b + c; }
#endif
NACRE_INLINE vd select(vl m, vd a, vd b) { return m ? a : b; }
NACRE_INLINE vl select(vl m, vl a, vl b) { return m ? a : b; }
NACRE_INLINE vd copysign(vd m, vd s) {
  const vl sign = (vl)(static_cast<i64>(0x8000000000000000ull));
  return __builtin_bit_cast(vd,
                            (__builtin_bit_cast(vl, s) & sign) | (__builtin_bit_cast(vl, m) & ~sign));
}

namespace detail {

template <class V>
struct Real;
template <>
struct Real<float> {
  using Element = float;
  using Bits = uint32_t;
  using Int = int32_t;
  using Wide = double;
};
template <>
struct Real<vf> {
  using Element = float;
  using Bits = vu;
  using Int = vi;
  using Wide = vd;
};
template <>
struct Real<double> {
  using Element = double;
  using Bits = uint64_t;
  using Int = i64;
  using Wide = double;
};
template <>
struct Real<vd> {
  using Element = double;
  using Bits = vul;
  using Int = vl;
  using Wide = vd;
};

template <class V>
using Element = typename Real<V>::Element;
template <class V>
using Bits = typename Real<V>::Bits;
template <class V>
using Int = typename Real<V>::Int;
template <class V>
inline constexpr bool is_double = sizeof(Element<V>) == 8;
template <class V>
inline constexpr int mantissa_bits = is_double<V> ? 52 : 23;
template <class V>
inline constexpr int exponent_bias = is_double<V> ? 1023 : 127;

template <class V>
NACRE_INLINE Bits<V> bits(V x) {
  return __builtin_bit_cast(Bits<V>, x);
}
template <class V>
NACRE_INLINE V from_bits(Bits<V> b) {
  return __builtin_bit_cast(V, b);
}
template <class V>
NACRE_INLINE Int<V> as_int(Bits<V> b) {
  return __builtin_bit_cast(Int<V>, b);
}
template <class V>
NACRE_INLINE Bits<V> as_bits(Int<V> i) {
  return __builtin_bit_cast(Bits<V>, i);
}
// Scalars and vectors share the notation V(constant).
template <class V>
NACRE_INLINE V number(double x) {
  return V(static_cast<Element<V>>(x));
}

NACRE_INLINE double widen(float x) { return x; }
NACRE_INLINE vd widen(vf x) { return __builtin_convertvector(x, vd); }
NACRE_INLINE float narrow(double x) { return static_cast<float>(x); }
NACRE_INLINE vf narrow(vd x) { return __builtin_convertvector(x, vf); }

// c[0] + x c[1] + ...
template <class V, class E, int N>
NACRE_INLINE V polynomial(V x, const E (&c)[N]) {
  V p = V(c[N - 1]);
  NACRE_UNROLL for (int i = N - 2; i >= 0; --i) p = fma(p, x, V(c[i]));
  return p;
}

// The nearest integer, both as a number and as bits: adding 1.5 * 2^mantissa rounds. For |x| < 2^(mantissa - 2).
template <class V>
struct Rounded {
  V value;
  Int<V> integer;
};
template <class V>
NACRE_INLINE Rounded<V> nearest(V x) {
  const V magic = number<V>(is_double<V> ? 6755399441055744.0 : 12582912.0);
  const V t = x + magic;
  return {t - magic, as_int<V>(bits(t) - bits(magic))};
}
// 2^n for a normal result
template <class V>
NACRE_INLINE V power_of_two(Int<V> n) {
  return from_bits<V>((as_bits<V>(n) + static_cast<Element<Bits<V>>>(exponent_bias<V>)) << mantissa_bits<V>);
}
template <>
struct Real<uint32_t> {
  using Element = uint32_t;
};
template <>
struct Real<uint64_t> {
  using Element = uint64_t;
};
template <>
struct Real<vu> {
  using Element = uint32_t;
};
template <>
struct Real<vul> {
  using Element = uint64_t;
};

// x = n ln 2 + r; returns e^r - 1 and n.
template <class V>
struct Reduced {
  V r, expm1;
  Int<V> n;
  V whole;  // n as a number
};
template <class V>
NACRE_INLINE Reduced<V> reduce_exp(V x) {
  const Rounded<V> n = nearest(x * number<V>(1.44269504088896340736));
  V r, p;
  if constexpr (is_double<V>) {
    r = fma(n.value, V(-coefficients::kLn2Double[0]), x);
    r = fma(n.value, V(-coefficients::kLn2Double[1]), r);
    p = polynomial(r, coefficients::kExpDouble);
  } else {
    r = fma(n.value, V(-coefficients::kLn2Float[0]), x);
    r = fma(n.value, V(-coefficients::kLn2Float[1]), r);
    p = polynomial(r, coefficients::kExpFloat);
  }
  return {r, fma(p, r * r, r), n.integer, n.value};
}
template <class V>
NACRE_INLINE V clamp_number(V x, double low, double high) {  // NaN stays
  x = select(x < number<V>(low), number<V>(low), x);
  return select(x > number<V>(high), number<V>(high), x);
}
// y * 2^n in two steps, so that denormal and infinite results come out right. `whole`: n as a number
template <class V>
NACRE_INLINE V scale(V y, Int<V> n, [[maybe_unused]] V whole) {
#if defined(__AVX512F__) && NACRE_VL == 16
  if constexpr (sizeof(V) == 64 && !is_double<V>) {
    typedef float raw __attribute__((vector_size(64)));
    const raw a = __builtin_bit_cast(raw, y), b = __builtin_bit_cast(raw, whole);
    return __builtin_bit_cast(V, __builtin_ia32_scalefps512_mask(a, b, a, 0xffff, 4));
  }
#endif
  const Int<V> half = n >> 1;
  return y * power_of_two<V>(half) * power_of_two<V>(n - half);
}

// x = m 2^e with m in [2/3, 4/3); x > 0. Zero, infinities, NaN: the caller selects.
template <class V>
struct Split {
  V m, e;
  Int<V> exponent;
};
NACRE_INLINE float to_real(int32_t n) { return static_cast<float>(n); }
NACRE_INLINE vf to_real(vi n) { return __builtin_convertvector(n, vf); }
NACRE_INLINE double to_real(i64 n) { return __builtin_bit_cast(double, n + 0x4338000000000000ll) - 6755399441055744.0; }
NACRE_INLINE vd to_real(vl n) {
  return __builtin_bit_cast(vd, n + (vl)(0x4338000000000000ll)) - (vd)(6755399441055744.0);
}
template <class V>
NACRE_INLINE Split<V> split_exponent(V x) {
  using B = Element<Bits<V>>;
  const V smallest = from_bits<V>(Bits<V>(static_cast<B>(B{1} << mantissa_bits<V>)));
  const auto denormal = x < smallest;
  const V scaled = select(denormal, x * number<V>(is_double<V> ? 0x1p54 : 0x1p25), x);
  const Bits<V> two_thirds = bits(number<V>(2.0 / 3));
  const Int<V> e = as_int<V>(bits(scaled) - two_thirds) >> mantissa_bits<V>;
  const V m = from_bits<V>(bits(scaled) - (as_bits<V>(e) << mantissa_bits<V>));
  const V shift = select(denormal, number<V>(is_double<V> ? 54 : 25), number<V>(0));
  return {m, to_real(e) - shift, e};
}
// ln(1 + f) + e ln 2 for f in [-1/3, 1/3]
template <class V>
NACRE_INLINE V log_parts(V f, V e) {
  if constexpr (is_double<V>) {
    const V s = f / (number<V>(2) + f), z = s * s, half_square = number<V>(0.5) * f * f;
    // ln(1 + f) = f - (f^2 / 2 - s (f^2 / 2 + z R(z)))
    const V rest = z * polynomial(z, coefficients::kLogDouble);
    const V low = fma(s, half_square + rest, e * V(coefficients::kLn2Double[1]));
    return fma(e, V(coefficients::kLn2Double[0]), f - (half_square - low));
  } else {
    const V p = polynomial(f, coefficients::kLogFloat);
    const V square = f * f;
    V low = fma(p * f, square, e * V(coefficients::kLn2Float[1]));
    low = fma(square, number<V>(-0.5), low);
    return fma(e, V(coefficients::kLn2Float[0]), f + low);
  }
}
template <class V>
NACRE_INLINE V infinity() {
  return number<V>(__builtin_inf());
}
template <class V>
NACRE_INLINE V not_a_number() {
  return number<V>(__builtin_nan(""));
}
// What a logarithm gives outside (0, inf).
template <class V>
NACRE_INLINE V log_limits(V x, V result) {
  result = select(x == infinity<V>(), x, result);
  result = select(x == number<V>(0), -infinity<V>(), result);
  return select(x < number<V>(0), not_a_number<V>(), select(x != x, x, result));
}

}  // namespace detail

// ---- rounding, roots -----------------------------------------------------------------------------------------------------

// Where rounding is an instruction or a few (RISC-V).
#if defined(__SSE4_1__) || defined(__aarch64__) || defined(__riscv)
#define NACRE_ROUNDS 1
#else
#define NACRE_ROUNDS 0
#endif

// Nearest integer, halves to even: adding and subtracting 2^mantissa, where the number is smaller than that.
template <class V>
NACRE_INLINE V round_even(V x) {
#if NACRE_ROUNDS
  return __builtin_elementwise_roundeven(x);
#else
  const V big = detail::number<V>(detail::is_double<V> ? 0x1p52 : 0x1p23), a = absolute(x);
  return copysign(select(a < big, (a + big) - big, a), x);
#endif
}
template <class V>
NACRE_INLINE V floor(V x) {
#if NACRE_ROUNDS
  return __builtin_elementwise_floor(x);
#else
  const V r = round_even(x);
  return copysign(select(r > x, r - detail::number<V>(1), r), x);
#endif
}
template <class V>
NACRE_INLINE V ceil(V x) {
#if NACRE_ROUNDS
  return __builtin_elementwise_ceil(x);
#else
  const V r = round_even(x);
  return copysign(select(r < x, r + detail::number<V>(1), r), x);
#endif
}
template <class V>
NACRE_INLINE V trunc(V x) {
#if NACRE_ROUNDS
  return __builtin_elementwise_trunc(x);
#else
  return copysign(floor(absolute(x)), x);
#endif
}
NACRE_INLINE float sqrt(float x) { return __builtin_elementwise_sqrt(x); }
NACRE_INLINE double sqrt(double x) { return __builtin_elementwise_sqrt(x); }
NACRE_INLINE vf sqrt(vf x) { return __builtin_elementwise_sqrt(x); }
NACRE_INLINE vd sqrt(vd x) { return __builtin_elementwise_sqrt(x); }
template <class V>
NACRE_INLINE V rsqrt(V x) {
  return detail::number<V>(1) / sqrt(x);
}

// ---- exponentials ----------------------------------------------------------------------------------------------------------

template <class V>
NACRE_INLINE V exp(V x) {
  const V c = detail::is_double<V> ? detail::clamp_number(x, -746, 710) : detail::clamp_number(x, -104, 89);
  const detail::Reduced<V> e = detail::reduce_exp(c);
  return detail::scale(e.expm1 + detail::number<V>(1), e.n, e.whole);
}
template <class V>
NACRE_INLINE V exp_negative(V x) {
  const V c = select(x < detail::number<V>(-87.3365), detail::number<V>(-87.3365), x);
  const detail::Reduced<V> e = detail::reduce_exp(c);
  const V y = (e.expm1 + detail::number<V>(1)) * detail::power_of_two<V>(e.n);
  return select(x < detail::number<V>(-87.3365), detail::number<V>(0), y);
}
template <class V>
NACRE_INLINE V exp2(V x) {
  const V c = detail::is_double<V> ? detail::clamp_number(x, -1080, 1025) : detail::clamp_number(x, -152, 129);
  const detail::Rounded<V> n = detail::nearest(c);
  const V f = (c - n.value) * detail::number<V>(0.693147180559945309417);
  V p;
  if constexpr (detail::is_double<V>) {
    p = detail::polynomial(f, coefficients::kExpDouble);
  } else {
    p = detail::polynomial(f, coefficients::kExpFloat);
  }
  return detail::scale(fma(p, f * f, f) + detail::number<V>(1), n.integer, n.value);
}
template <class V>
NACRE_INLINE V expm1(V x) {
  const V c = detail::is_double<V> ? detail::clamp_number(x, -40, 710) : detail::clamp_number(x, -20, 89);
  const detail::Reduced<V> e = detail::reduce_exp(c);
  // 2^n (e^r - 1) + (2^n - 1), with half of 2^n so that it does not overflow before the result does.
  const V half = detail::power_of_two<V>(e.n - 1);
  const V y = fma(half, e.expm1, half - detail::number<V>(0.5)) * detail::number<V>(2);
  const V tiny = detail::number<V>(detail::is_double<V> ? 1e-17 : 1e-8);
  return select(absolute(x) < tiny, x, y);
}
template <class V>
NACRE_INLINE V sigmoid(V x) {
  const V a = -absolute(x), least = detail::number<V>(detail::is_double<V> ? -746 : -104);
  const detail::Reduced<V> e = detail::reduce_exp(select(a < least, least, a));  // NaN stays
  const V z = detail::scale(e.expm1 + detail::number<V>(1), e.n, e.whole);
  return select(x < detail::number<V>(0), z, detail::number<V>(1)) / (z + detail::number<V>(1));
}
template <class V>
NACRE_INLINE V tanh(V x) {
  const V a = absolute(x);
  const V c = select(a > detail::number<V>(22), detail::number<V>(22), a);
  const V t = expm1(c + c);
  return copysign(t / (t + detail::number<V>(2)), x);
}
template <class V>
NACRE_INLINE V sinh(V x) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), one = detail::number<V>(1), half = detail::number<V>(0.5);
    const auto large = a > detail::number<V>(40);
    const V t = expm1(select(large, half, a));
    const V near = half * (t + t / (t + one));
    const V h = exp(half * a);
    return copysign(select(large, half * h * h, near), x);
  } else {
    return detail::narrow(sinh(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V cosh(V x) {
  if constexpr (detail::is_double<V>) {
    const V h = exp(detail::number<V>(0.5) * absolute(x));
    return fma(detail::number<V>(0.5) * h, h, detail::number<V>(0.5) / h / h);
  } else {
    return detail::narrow(cosh(detail::widen(x)));
  }
}

// ---- logarithms --------------------------------------------------------------------------------------------------------------

template <class V>
NACRE_INLINE V log(V x) {
  const detail::Split<V> s = detail::split_exponent(x);
  return detail::log_limits(x, detail::log_parts(s.m - detail::number<V>(1), s.e));
}
template <class V>
NACRE_INLINE V log1p(V x) {
  const V one = detail::number<V>(1);
  const V u = x + one;
  // What rounding 1 + x lost, scaled like the mantissa.
  const V lost = select(absolute(x) < one, x - (u - one), one - (u - x));
  const detail::Split<V> s = detail::split_exponent(u);
  using I = detail::Int<V>;
  const auto large = s.exponent > detail::mantissa_bits<V> + 8;
  const V down = detail::power_of_two<V>(select(large, I(0), -s.exponent));
  const V f = fma(select(large, detail::number<V>(0), lost), down, s.m - one);
  const V y = detail::log_limits(u, detail::log_parts(f, s.e));
  return select(absolute(x) < detail::number<V>(detail::is_double<V> ? 1e-17 : 1e-9), x, y);
}
template <class V>
NACRE_INLINE V log2(V x) {
  if constexpr (detail::is_double<V>) {
    const detail::Split<V> s = detail::split_exponent(x);
    const V y = fma(detail::log_parts(s.m - detail::number<V>(1), detail::number<V>(0)),
                    detail::number<V>(1.44269504088896340736), s.e);
    return detail::log_limits(x, y);
  } else {
    return detail::narrow(log2(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V log10(V x) {
  if constexpr (detail::is_double<V>) {
    return log(x) * detail::number<V>(0.434294481903251827651);
  } else {
    return detail::narrow(log10(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V asinh(V x) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), one = detail::number<V>(1);
    const auto large = a > detail::number<V>(1e8);
    const V b = select(large, one, a);
    const V near = log1p(b + b * b / (one + sqrt(fma(b, b, one))));
    return copysign(select(large, log(a) + detail::number<V>(0.693147180559945309417), near), x);
  } else {
    return detail::narrow(asinh(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V acosh(V x) {
  if constexpr (detail::is_double<V>) {
    const V one = detail::number<V>(1);
    const auto large = x > detail::number<V>(1e8);
    const V t = select(large, one, x - one);
    const V near = log1p(t + sqrt(fma(t, t, t + t)));
    return select(x < one, detail::not_a_number<V>(),
                  select(large, log(x) + detail::number<V>(0.693147180559945309417), near));
  } else {
    return detail::narrow(acosh(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V atanh(V x) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), one = detail::number<V>(1);
    return copysign(detail::number<V>(0.5) * log1p((a + a) / (one - a)), x);
  } else {
    return detail::narrow(atanh(detail::widen(x)));
  }
}

// ---- error function ------------------------------------------------------------------------------------------------------------

template <class V>
NACRE_INLINE V erfc(V x) {
  if constexpr (detail::is_double<V>) {
    const V one = detail::number<V>(1), two = detail::number<V>(2);
    const V a = absolute(x), c = select(a > detail::number<V>(28), detail::number<V>(28), a);
    const V g = detail::polynomial((c - two) / (c + two), coefficients::kErfcDouble);
    // e^(-c^2) with the square's low half
    const V high = detail::from_bits<V>(detail::bits(c) & detail::Bits<V>(0xfffffffff8000000ull));
    const V low = (c - high) * (c + high);
    const V down = fma(fma(fma(low, detail::number<V>(1.0 / 24), detail::number<V>(-1.0 / 6)), low, detail::number<V>(0.5)),
                       low * low, -low);
    const V e = exp(-(high * high));
    const V scaled = fma(e, down, e);
    const V tail = scaled * g / fma(two, c, one);
    const V z = x * x;
    const V near = one - fma(detail::polynomial(z, coefficients::kErfDouble), x, x);
    const V y = select(a < detail::number<V>(0.5), near, select(x < detail::number<V>(0), two - tail, tail));
    return select(x != x, x, y);
  } else {
    return detail::narrow(erfc(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V erf(V x) {
  const V a = absolute(x), one = detail::number<V>(1);
  if constexpr (detail::is_double<V>) {
    const V z = x * x;
    const V near = fma(detail::polynomial(z, coefficients::kErfDouble), x, x);
    const V c = select(a > detail::number<V>(6), detail::number<V>(6), a);
    return select(a < one, near, copysign(one - erfc(c), x));
  } else {
    // erf t = 1 - e^-q(t) with q(t) / t a polynomial: one form for the whole range, exact near 0, too.
    const V t = select(a > detail::number<V>(4), detail::number<V>(4), a);
    const detail::Reduced<V> e = detail::reduce_exp(-t * detail::polynomial(t, coefficients::kErfFloat));
    const V scale = detail::power_of_two<V>(e.n);
    return copysign(fma(scale, e.expm1, scale - one), x);
  }
}

// ---- trigonometry ----------------------------------------------------------------------------------------------------------------

namespace detail {

// x = quadrant pi / 2 + r with |r| <= pi / 4 (1 + tiny)
template <class V>
struct Angle {
  V r;
  Int<V> quadrant;
};

// For floats: the product with each piece of 2 / pi is exact in double, as are its whole multiples of 4, which go.
template <class V, class W = typename Real<V>::Wide>
NACRE_INLINE Angle<V> reduce_angle_float(V x) {
  const W a = widen(x);
  W fraction = number<W>(0), turns = number<W>(0);
  NACRE_UNROLL for (int i = 0; i < 7; ++i) {
    const W p = a * number<W>(coefficients::kTwoOverPiChunks[i]);
    const W whole = round_even(p);
    turns = turns + (whole - number<W>(4) * round_even(whole * number<W>(0.25)));
    fraction = fraction + (p - whole);
    const W carry = round_even(fraction);
    turns = turns + carry;
    fraction = fraction - carry;
  }
  const V r = narrow(fraction * number<W>(1.57079632679489661923));
  const auto q = nearest(narrow(turns));
  return {r, q.integer};
}

#if NACRE_FMA
// The usual case of vectors, |x| < 2^15: pi / 2 in three parts.
NACRE_INLINE Angle<vf> reduce_angle_small(vf x) {
  const Rounded<vf> n = nearest(x * splat(0.636619772367581343076f));
  vf r = fma(n.value, splat(-coefficients::kHalfPiFloat[0]), x);
  r = fma(n.value, splat(-coefficients::kHalfPiFloat[1]), r);
  r = fma(n.value, splat(-coefficients::kHalfPiFloat[2]), r);
  return {r, n.integer};
}
// Out of line, by way of memory.
__attribute__((noinline)) static inline void reduce_angles(const float* x, float* r, int32_t* quadrant) {
  const Angle<vf> a = reduce_angle_float(load(x));
  store(r, a.r);
  *reinterpret_cast<vi_any*>(quadrant) = a.quadrant;
}
NACRE_INLINE Angle<vf> reduce_angle_vector(vf x) {
  if (__builtin_reduce_and(absolute(x) < splat(32768.f))) return reduce_angle_small(x);
  NACRE_ALIGNED float in[VL], r[VL];
  NACRE_ALIGNED int32_t quadrant[VL];
  store(in, x);
  reduce_angles(in, r, quadrant);
  return {load(r), *reinterpret_cast<const vi_any*>(quadrant)};
}
#else
NACRE_INLINE Angle<vf> reduce_angle_vector(vf x) { return reduce_angle_float(x); }
#endif

struct LargeAngle {
  double r;
  i64 quadrant;
};
// The 128 bits of a product.
struct Product {
  uint64_t high, low;
};
NACRE_INLINE Product multiply_wide(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  const unsigned __int128 p = static_cast<unsigned __int128>(a) * b;
  return {static_cast<uint64_t>(p >> 64), static_cast<uint64_t>(p)};
#else
  const uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
  const uint64_t cross = a1 * b0 + (a0 * b0 >> 32), middle = a0 * b1 + (cross & 0xffffffff);
  return {a1 * b1 + (cross >> 32) + (middle >> 32), a * b};
#endif
}

// 2^20 <= x, finite: multiplies the mantissa by the 192 bits of 2 / pi that matter.
__attribute__((noinline)) inline LargeAngle reduce_large(double x) {
  const uint64_t b = __builtin_bit_cast(uint64_t, x);
  const uint64_t mantissa = (b & 0xfffffffffffffull) | 0x10000000000000ull;
  const int exponent = static_cast<int>(b >> 52) - 1075;  // x = mantissa 2^exponent
  const int start = exponent - 2 + 64;                    // first bit wanted: what lies before is a multiple of 4
  const int word = start / 64, shift = start % 64;
  uint64_t w[3];
  NACRE_UNROLL for (int i = 0; i < 3; ++i) {
    const uint64_t high = coefficients::kTwoOverPi[word + i], low = coefficients::kTwoOverPi[word + i + 1];
    w[i] = shift == 0 ? high : (high << shift) | (low >> (64 - shift));
  }
  const Product p2 = multiply_wide(mantissa, w[2]), p1 = multiply_wide(mantissa, w[1]);
  const uint64_t middle = p1.low + p2.high, last = p2.low;
  const uint64_t p0 = mantissa * w[0] + p1.high + (middle < p1.low);
  const uint64_t high = (p0 << 2) | (middle >> 62), low = (middle << 2) | (last >> 62);
  const i64 quadrant = static_cast<i64>(p0 >> 62) + static_cast<i64>(high >> 63);
  const double fraction = static_cast<double>(static_cast<i64>(high)) * 0x1p-64;
  const double rest = static_cast<double>(low) * 0x1p-128;
  return {(fraction + rest) * 1.57079632679489661923, quadrant};
}

NACRE_INLINE Angle<double> reduce_angle_double(double x) {
  const double a = absolute(x);
  if (a < 0x1p20) {
    const Rounded<double> n = nearest(x * 0.636619772367581343076);
    double r = fma(n.value, -coefficients::kHalfPiDouble[0], x);
    const double t = n.value * coefficients::kHalfPiDouble[1];
    const double s = r - t;
    const double lost = (r - s) - t;
    r = s + (lost - n.value * (coefficients::kHalfPiDouble[2] + coefficients::kHalfPiDouble[3]));
    return {r, n.integer};
  }
  if (!(a < __builtin_inf())) return {__builtin_nan(""), 0};
  const LargeAngle l = reduce_large(a);
  return x < 0 ? Angle<double>{-l.r, -l.quadrant} : Angle<double>{l.r, l.quadrant};
}

template <class V>
NACRE_INLINE Angle<V> reduce_angle(V x) {
  if constexpr (sizeof(V) == 8 && is_double<V>) {
    return reduce_angle_double(x);
  } else if constexpr (sizeof(V) == sizeof(vf) && !is_double<V>) {
    return reduce_angle_vector(x);
  } else {
    return reduce_angle_float(x);
  }
}

template <class V>
NACRE_INLINE V sin_near(V r) {
  const V z = r * r;
  if constexpr (is_double<V>) {
    return fma(polynomial(z, coefficients::kSinDouble) * z, r, r);
  } else {
    return fma(polynomial(z, coefficients::kSinFloat) * z, r, r);
  }
}
template <class V>
NACRE_INLINE V cos_near(V r) {
  const V z = r * r, one = number<V>(1), half = number<V>(0.5);
  V p;
  if constexpr (is_double<V>) {
    p = polynomial(z, coefficients::kCosDouble);
  } else {
    p = polynomial(z, coefficients::kCosFloat);
  }
  // 1 - z / 2, with what its rounding lost
  const V h = half * z, w = one - h;
  return w + fma(p * z, z, (one - w) - h);
}
template <class V>
NACRE_INLINE V sin_quadrant(V r, Int<V> quadrant) {
  const V s = select((quadrant & 1) != 0, cos_near(r), sin_near(r));
  return select((quadrant & 2) != 0, -s, s);
}

}  // namespace detail

template <class V>
NACRE_INLINE V sin(V x) {
  const detail::Angle<V> a = detail::reduce_angle(x);
  return select(x == detail::number<V>(0), x, detail::sin_quadrant(a.r, a.quadrant));
}
template <class V>
NACRE_INLINE V cos(V x) {
  const detail::Angle<V> a = detail::reduce_angle(x);
  return detail::sin_quadrant(a.r, a.quadrant + 1);
}
template <class V>
NACRE_INLINE V tan(V x) {
  const detail::Angle<V> a = detail::reduce_angle(x);
  const V s = detail::sin_near(a.r), c = detail::cos_near(a.r);
  const auto odd = (a.quadrant & 1) != 0;
  return select(x == detail::number<V>(0), x, select(odd, -c, s) / select(odd, s, c));
}
template <class V>
NACRE_INLINE V atan(V x) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), one = detail::number<V>(1);
    // tan(pi / 8), tan(3 pi / 8): subtract pi / 4 or pi / 2 beyond them
    const auto far = a > detail::number<V>(2.41421356237309504880), middle = a > detail::number<V>(0.41421356237309504880);
    const V top = select(far, -one, select(middle, a - one, a));
    const V bottom = select(far, a, select(middle, a + one, one));
    const V t = top / bottom, z = t * t;
    const V p = fma(detail::polynomial(z, coefficients::kAtanDouble) * z, t, t);
    const V base = select(far, detail::number<V>(1.57079632679489661923),
                          select(middle, detail::number<V>(0.785398163397448309616), detail::number<V>(0)));
    const V low = select(far, detail::number<V>(6.123233995736766036e-17),
                         select(middle, detail::number<V>(3.061616997868383018e-17), detail::number<V>(0)));
    return copysign(base + (p + low), x);
  } else {
    return detail::narrow(atan(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V atan2(V y, V x) {
  if constexpr (detail::is_double<V>) {
    const V ax = absolute(x), ay = absolute(y), zero = detail::number<V>(0), inf = detail::infinity<V>();
    const auto both_zero = (ax == zero) & (ay == zero), both_infinite = (ax == inf) & (ay == inf);
    const V ratio = select(both_zero, zero, select(both_infinite, detail::number<V>(1), ay / ax));
    const V a = atan(ratio);
    const auto left = copysign(detail::number<V>(1), x) < zero;
    const V turned =
        (detail::number<V>(3.14159265358979323846) - a) + detail::number<V>(1.224646799147353207e-16);
    const V r = copysign(select(left, turned, a), y);
    return select(x != x, x, select(y != y, y, r));
  } else {
    return detail::narrow(atan2(detail::widen(y), detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V asin(V x) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), one = detail::number<V>(1), half = detail::number<V>(0.5);
    const auto far = a > half;
    const V z = select(far, (one - a) * half, a * a);
    const V t = select(far, sqrt(z), a);
    const V p = fma(detail::polynomial(z, coefficients::kAsinDouble) * z, t, t);
    const V turned =
        detail::number<V>(1.57079632679489661923) - (p + p - detail::number<V>(6.123233995736766036e-17));
    return copysign(select(far, turned, p), x);
  } else {
    return detail::narrow(asin(detail::widen(x)));
  }
}
template <class V>
NACRE_INLINE V acos(V x) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), one = detail::number<V>(1), half = detail::number<V>(0.5);
    const auto far = a > half;
    const V z = select(far, (one - a) * half, a * a);
    const V t = select(far, sqrt(z), x);
    const V p = fma(detail::polynomial(z, coefficients::kAsinDouble) * z, t, t);
    const V pi_half = detail::number<V>(1.57079632679489661923), low = detail::number<V>(6.123233995736766036e-17);
    const V near = pi_half - (p - low);
    const V turned = select(x < detail::number<V>(0), (pi_half - (p - low)) * detail::number<V>(2), p + p);
    return select(far, turned, near);
  } else {
    return detail::narrow(acos(detail::widen(x)));
  }
}

// ---- power -------------------------------------------------------------------------------------------------------------------------

namespace detail {

// The exact product a b = high + low.
template <class V>
struct Pair {
  V high, low;
};
template <class V>
NACRE_INLINE Pair<V> product(V a, V b) {
  const V p = a * b;
  if constexpr (kHasFma) {
    return {p, fma(a, b, -p)};
  } else {
    const Bits<V> mask = Bits<V>(0xfffffffff8000000ull);
    const V ah = from_bits<V>(bits(a) & mask), al = a - ah, bh = from_bits<V>(bits(b) & mask), bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
  }
}
template <class V>
NACRE_INLINE Pair<V> sum(V a, V b) {  // |a| >= |b|
  const V s = a + b;
  return {s, b - (s - a)};
}
// ln x to about 2^-65, x > 0 finite
template <class V>
NACRE_INLINE Pair<V> log_pair(V x) {
  const Split<V> x2 = split_exponent(x);
  const V f = x2.m - number<V>(1), d = x2.m + number<V>(1);
  const V one = number<V>(1), back = d - one;
  const V d_low = (one - (d - back)) + (x2.m - back);
  // s = f / d = s + s_low
  const V s = f / d;
  const Pair<V> sd = product(s, d);
  const V s_low = (((f - sd.high) - sd.low) - s * d_low) / d;
  const Pair<V> z = product(s, s);
  const V z_low = z.low + number<V>(2) * s * s_low;
  // ln = 2 s + 2/3 s^3 + s^5 R(z)
  const Pair<V> cube = product(z.high, s);
  const V cube_low = cube.low + z_low * s + z.high * s_low;
  const V third = number<V>(0.66666666666666662966), third_low = number<V>(3.70074341541718820e-17);
  const Pair<V> t = product(cube.high, third);
  const V t_low = t.low + cube_low * third + cube.high * third_low;
  const V rest = polynomial(z.high, coefficients::kLogDoubleRest) * z.high * cube.high;
  const V e1 = x2.e * V(coefficients::kLn2Double[0]), e2 = x2.e * V(coefficients::kLn2Double[1]);
  // e1 is 0 or larger than 2 s: add downwards
  const Pair<V> a = sum(e1, s + s);
  const Pair<V> b = sum(a.high, t.high);
  const V low = ((a.low + b.low) + (s_low + s_low + t_low)) + (e2 + rest);
  return sum(b.high, low);
}

template <class V>
NACRE_INLINE V power_limits(V x, V y, V magnitude) {
  const V zero = number<V>(0), one = number<V>(1), inf = infinity<V>();
  const V half = y * number<V>(0.5);
  const auto whole = (round_even(y) == y);
  const auto odd = whole & (round_even(half) != half) & (absolute(y) < number<V>(0x1p53));
  const auto negative = copysign(one, x) < zero;
  V r = select(negative & odd, -magnitude, magnitude);
  r = select((x < zero) & (x != -inf) & (whole == 0) & (y == y), not_a_number<V>(), r);
  r = select((absolute(x) == one) & (absolute(y) == inf), one, r);
  return select((y == zero) | (x == one), one, r);
}

}  // namespace detail

template <class V>
NACRE_INLINE V pow(V x, V y) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), inf = detail::infinity<V>(), zero = detail::number<V>(0);
    const auto usual = (a > zero) & (a < inf) & (absolute(y) < inf);
    const V ys = detail::clamp_number(y, -0x1p80, 0x1p80);
    const detail::Pair<V> l = detail::log_pair(select(usual, a, detail::number<V>(1)));
    const detail::Pair<V> p = detail::product(l.high, ys);
    const V low = p.low + l.low * ys;
    const V high = detail::clamp_number(p.high, -800, 800);
    // e^(high + low)
    const detail::Reduced<V> e = detail::reduce_exp(high);
    const V extra = select(absolute(p.high) < detail::number<V>(800), low, zero);
    const V near = detail::scale(detail::number<V>(1) + (e.expm1 + fma(e.expm1, extra, extra)), e.n, e.whole);
    const V edge = exp(detail::clamp_number(y * log(a), -1e300, 1e300));
    const auto ordinary = usual & (y == y) & (x == x);
    return detail::power_limits(x, y, select(ordinary, near, edge));
  } else {
    // In double: ln x to 2^-50 is enough for a float's power.
    const auto xd = detail::widen(x), yd = detail::widen(y);
    using W = decltype(xd + yd);
    return detail::narrow(detail::power_limits<W>(xd, yd, exp(yd * log(absolute(xd)))));
  }
}

// ---- activations and others --------------------------------------------------------------------------------------------------------

template <class V>
NACRE_INLINE V gelu(V x) {
  const V half = detail::number<V>(0.5) * x;
  return fma(half, erf(x * detail::number<V>(0.70710678118654752440)), half);
}
template <class V>
NACRE_INLINE V gelu_tanh(V x) {
  const V inner = x * fma(x * x, detail::number<V>(0.044715), detail::number<V>(1));
  const V half = detail::number<V>(0.5) * x;
  return fma(half, tanh(inner * detail::number<V>(0.79788456080286535588)), half);
}
template <class V>
NACRE_INLINE V silu(V x) {
  return x * sigmoid(x);
}
template <class V>
NACRE_INLINE V softplus(V x) {
  const V z = log1p(exp(-absolute(x)));
  return select(x > detail::number<V>(0), x, detail::number<V>(0)) + z;
}
template <class V>
NACRE_INLINE V mish(V x) {
  return x * tanh(softplus(x));
}
template <class V>
NACRE_INLINE V relu6(V x) {
  return detail::clamp_number(x, 0, 6);
}
template <class V>
NACRE_INLINE V hardsigmoid(V x) {
  return relu6(x + detail::number<V>(3)) / detail::number<V>(6);
}
template <class V>
NACRE_INLINE V hardswish(V x) {
  return x * relu6(x + detail::number<V>(3)) / detail::number<V>(6);
}

// The next number from a towards b.
template <class V>
NACRE_INLINE V nextafter(V a, V b) {
  using Bits = detail::Bits<V>;
  const Bits own = detail::bits(a);
  const auto away = (b > a) == (a > detail::number<V>(0));
  const V moved = select(away, detail::from_bits<V>(own + Bits(1)), detail::from_bits<V>(own - Bits(1)));
  const V r = select(a == detail::number<V>(0), copysign(detail::from_bits<V>(Bits(0) + 1), b), moved);
  return select((a != a) | (b != b), a + b, select(a == b, b, r));
}

namespace detail {

// A quotient below this is found whole, or one too great, and its product with the divisor is exact.
inline constexpr double kWholeQuotient = kHasFma ? 0x1p52 : 0x1p26;

template <class M>
NACRE_INLINE bool any(M mask) {
  if constexpr (__is_arithmetic(M)) {
    return mask;
  } else {
    return __builtin_reduce_or(mask) != 0;
  }
}
// a - quotient * b of positive numbers, brought into [0, b).
template <class V>
NACRE_INLINE V rest_of(V a, V b, V quotient) {
  V r;
  if constexpr (kHasFma) {
    r = fma(-quotient, b, a);
  } else {
    const V high = from_bits<V>(bits(b) & Bits<V>(0xfffffffff8000000ull));
    r = (a - quotient * high) - quotient * (b - high);
  }
  return select(r < number<V>(0), r + b, r);
}
// The rest for any a and b: of b times a power of two first, then of smaller and smaller ones. Out of line, by way of memory.
template <class V>
__attribute__((noinline)) inline void rest_in_steps(const V* a, const V* b, V* rest) {
  const V zero = number<V>(0), one = number<V>(1), inf = infinity<V>(), step = number<V>(kWholeQuotient);
  const auto usual = (*a < inf) & (*b > zero) & (*b < inf);
  const V divisor = select(usual, *b, one);
  V r = select(usual, *a, zero), multiple = divisor;
  while (any(multiple * step <= r)) multiple = select(multiple * step <= r, multiple * step, multiple);
  for (;;) {
    r = rest_of<V>(r, multiple, trunc(r / multiple));
    if (!any(multiple > divisor)) break;
    multiple = select(multiple > divisor, multiple * number<V>(1 / kWholeQuotient), multiple);
  }
  *rest = select(usual, r, select((*a < inf) & (*b == inf), *a, not_a_number<V>()));
}

}  // namespace detail

template <class V>
NACRE_INLINE V fmod(V x, V y) {
  if constexpr (detail::is_double<V>) {
    const V a = absolute(x), b = absolute(y);
    const V q = trunc(a / b);
    V r = detail::rest_of(a, b, q);
    const auto near = (q < detail::number<V>(detail::kWholeQuotient)) & (b < detail::infinity<V>());
    if (__builtin_expect(detail::any(!near), 0)) detail::rest_in_steps(&a, &b, &r);
    return copysign(r, x);
  } else {
    return detail::narrow(fmod(detail::widen(x), detail::widen(y)));
  }
}
template <class V>
NACRE_INLINE V remainder(V x, V y) {
  const V r = fmod(x, y), zero = detail::number<V>(0);
  return select((r != zero) & ((r < zero) != (y < zero)), r + y, r);
}

}  // namespace nk
#endif
