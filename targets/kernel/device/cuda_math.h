// Elementary functions of float and double, as ops.def names them. They are the toolkit's, without fast-math: at most 2 units of
// rounding in float (pow 4, tan 4), 2 in double.
#ifndef NACRE_DEVICE_MATH_H
#define NACRE_DEVICE_MATH_H
#include "nacre/cuda_base.h"

namespace nk {

#define NACRE_FUNCTION(name, single)                                \
  NACRE_INLINE float name(float a) { return ::single(a); }          \
  NACRE_INLINE double name(double a) { return ::name(a); }
NACRE_FUNCTION(exp, expf)
NACRE_FUNCTION(exp2, exp2f)
NACRE_FUNCTION(expm1, expm1f)
NACRE_FUNCTION(log, logf)
NACRE_FUNCTION(log2, log2f)
NACRE_FUNCTION(log10, log10f)
NACRE_FUNCTION(log1p, log1pf)
NACRE_FUNCTION(sin, sinf)
NACRE_FUNCTION(cos, cosf)
NACRE_FUNCTION(tan, tanf)
NACRE_FUNCTION(asin, asinf)
NACRE_FUNCTION(acos, acosf)
NACRE_FUNCTION(atan, atanf)
NACRE_FUNCTION(sinh, sinhf)
NACRE_FUNCTION(cosh, coshf)
NACRE_FUNCTION(tanh, tanhf)
NACRE_FUNCTION(asinh, asinhf)
NACRE_FUNCTION(acosh, acoshf)
NACRE_FUNCTION(atanh, atanhf)
NACRE_FUNCTION(erf, erff)
NACRE_FUNCTION(erfc, erfcf)
NACRE_FUNCTION(sqrt, sqrtf)
NACRE_FUNCTION(ceil, ceilf)
NACRE_FUNCTION(floor, floorf)
NACRE_FUNCTION(trunc, truncf)
#undef NACRE_FUNCTION

NACRE_INLINE float abs(float a) { return ::fabsf(a); }
NACRE_INLINE double abs(double a) { return ::fabs(a); }
NACRE_INLINE float round_even(float a) { return ::rintf(a); }
NACRE_INLINE double round_even(double a) { return ::rint(a); }
NACRE_INLINE float pow(float a, float b) { return ::powf(a, b); }
NACRE_INLINE double pow(double a, double b) { return ::pow(a, b); }
NACRE_INLINE float atan2(float a, float b) { return ::atan2f(a, b); }
NACRE_INLINE double atan2(double a, double b) { return ::atan2(a, b); }
NACRE_INLINE float fmod(float a, float b) { return ::fmodf(a, b); }
NACRE_INLINE double fmod(double a, double b) { return ::fmod(a, b); }
NACRE_INLINE float copysign(float a, float b) { return ::copysignf(a, b); }
NACRE_INLINE double copysign(double a, double b) { return ::copysign(a, b); }
NACRE_INLINE float nextafter(float a, float b) { return ::nextafterf(a, b); }
NACRE_INLINE double nextafter(double a, double b) { return ::nextafter(a, b); }

#define NACRE_FLOATING(T)                                                                            \
  NACRE_INLINE T rsqrt(T a) { return T(1) / sqrt(a); }                                               \
  NACRE_INLINE T sigmoid(T a) { return T(1) / (T(1) + exp(-a)); }                                    \
  NACRE_INLINE T sign(T a) { return static_cast<T>((a > 0) - (a < 0)); }                             \
  NACRE_INLINE T maximum(T a, T b) { return b != b ? b : b > a ? b : a; }                            \
  NACRE_INLINE T minimum(T a, T b) { return b != b ? b : b < a ? b : a; }                            \
  NACRE_INLINE T fmax(T a, T b) { return b != b ? a : a != a ? b : a > b ? a : b; }                  \
  NACRE_INLINE T fmin(T a, T b) { return b != b ? a : a != a ? b : a < b ? a : b; }                  \
  NACRE_INLINE T div_trunc(T a, T b) { return trunc(a / b); }                                        \
  NACRE_INLINE T remainder(T a, T b) {                                                               \
    const T r = fmod(a, b);                                                                          \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                 \
  }                                                                                                  \
  /* Python's, as in arithmetic.h. */                                                                \
  NACRE_INLINE T div_floor(T a, T b) {                                                               \
    const T plain = a / b, m = fmod(a, b);                                                           \
    if (b == 0) return plain;                                                                        \
    const bool overflows = isinf(plain) && !isinf(a);                                                \
    T q = (overflows ? a : a - m) / b;                                                               \
    if (m != 0 && (m < 0) != (b < 0)) q -= 1;                                                        \
    if (q == 0) return copysign(T(0), plain);                                                        \
    const T f = floor(q);                                                                            \
    return q - f > T(0.5) ? f + 1 : f;                                                               \
  }
NACRE_FLOATING(float)
NACRE_FLOATING(double)
#undef NACRE_FLOATING

NACRE_INLINE float round_float16(float x) { return static_cast<float>(Half(x)); }
NACRE_INLINE float round_bfloat16(float x) { return from_bfloat16(to_bfloat16(x)); }

// A sum of floats as an unevaluated sum of two, so that its error does not grow with the number of terms.
struct Sum {
  float high, low;
  NACRE_MEMBER Sum(float x = 0) : high(x), low(0) {}
  NACRE_MEMBER Sum(float h, float l) : high(h), low(l) {}
  explicit NACRE_MEMBER operator float() const {
    const float sum = high + low;
    return sum == sum ? sum : high;  // of infinities, `low` is none
  }
};
NACRE_INLINE Sum operator+(Sum a, Sum b) {
  const float sum = a.high + b.high, part = sum - a.high;
  const float error = (a.high - (sum - part)) + (b.high - part);
  return Sum(sum, a.low + b.low + error);
}
NACRE_INLINE Sum operator+(Sum a, float b) { return a + Sum(b); }

// The best so far of argmax or argmin, and where it was.
template <class T>
struct Best {
  T value = 0;
  i64 at = -1;
  template <bool kMost>
  NACRE_MEMBER void take(T x, i64 where) {
    if (at < 0 || (kMost ? greater_first(x, value) : less_first(x, value))) value = x, at = where;
  }
  template <bool kMost>
  NACRE_MEMBER Best better(Best other) const {
    if (at < 0) return other;
    if (other.at < 0) return *this;
    if (kMost ? greater_first(value, other.value) : less_first(value, other.value)) return *this;
    if (kMost ? greater_first(other.value, value) : less_first(other.value, value)) return other;
    return at < other.at ? *this : other;
  }
};

// For results that are rounded to 16 bits: relative errors of at most 2^-20, of erf an absolute one of 2^-21 (Abramowitz and Stegun,
// 7.1.26). A divisor above 2^126 counts as infinite.
NACRE_INLINE float exp_16(float a) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a * 1.44269504f));
  return y;
}
NACRE_INLINE float div_16(float a, float b) { return __fdividef(a, b); }
NACRE_INLINE float sigmoid_16(float a) { return __fdividef(1.f, 1.f + exp_16(-a)); }
NACRE_INLINE float erf_16(float a) {
  const float t = __fdividef(1.f, fmaf(0.3275911f, ::fabsf(a), 1.f));
  const float p = t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f), 0.254829592f);
  return ::copysignf(fmaf(-p, exp_16(-a * a), 1.f), a);
}

}  // namespace nk
#endif
