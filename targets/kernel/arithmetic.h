// Arithmetic as PyTorch defines it, where C++'s operators do not say it: for float, double, vf and the integer types.
//
//   abs, sign (0 for 0 and NaN)           bit_not(a)  ~a, of bool the negation
//   div_trunc, div_floor, fmod (sign of a), remainder (sign of b)   integers: b must not be 0 (nonzero() in loops.h); the least
//     integer by -1 wraps. Floating: div_floor is Python's, consistent with remainder
//   pow of integers     wraps; a negative exponent gives 0 unless the base is 1 or -1
//   fmax, fmin          NaN loses against a number
//   gcd of integers     never negative
//   shift_left, shift_right   a shift of the width or more gives 0 (right, negative: -1), as torch.bitwise_left_shift
//   to_integer<T>(x)    truncation; what T cannot hold gives what a conversion by way of int64 leaves of it
//   philox(counter, key)       64 random bits
//   from_bfloat16, to_bfloat16 (to nearest even); round_float16, round_bfloat16   to what that type holds, as a float
//   Sum                 of doubles, compensated
//   greater_first(a, b), less_first(a, b)   does a come before b in argmax, argmin: NaN comes first, equals do not replace
#ifndef NACRE_KERNEL_ARITHMETIC_H
#define NACRE_KERNEL_ARITHMETIC_H
#include "nacre/integers.h"
#include "nacre/math.h"

namespace nk {

NACRE_INLINE float abs(float a) { return absolute(a); }
NACRE_INLINE double abs(double a) { return absolute(a); }
NACRE_INLINE vf abs(vf a) { return absolute(a); }
NACRE_INLINE vf sign(vf a) {
  return select(a > splat(0.f), splat(1.f), select(a < splat(0.f), splat(-1.f), splat(0.f)));
}
NACRE_INLINE float sign(float a) { return static_cast<float>((a > 0) - (a < 0)); }
NACRE_INLINE double sign(double a) { return static_cast<double>((a > 0) - (a < 0)); }

template <class V>
NACRE_INLINE V div_trunc(V a, V b) {
  return trunc(a / b);
}
// As Python's: the quotient that goes with remainder(), rounded so that a whole quotient is met. Taken from fmod(), which is
// finite where remainder() of a divisor that is infinite is not.
template <class V>
NACRE_INLINE V div_floor_float(V a, V b) {
  const V zero = V(0), infinity = detail::infinity<V>(), plain = a / b, m = fmod(a, b);
  const auto overflows = (absolute(plain) == infinity) & (absolute(a) != infinity);
  V q = select(overflows, a, a - m) / b;
  q = select((m != zero) & ((m < zero) != (b < zero)), q - V(1), q);
  const V f = floor(q);
  const V r = select(q - f > V(0.5), f + V(1), f);
  return select(b == zero, plain, select(q == zero, copysign(zero, plain), r));
}
NACRE_INLINE float div_floor(float a, float b) { return div_floor_float(a, b); }
NACRE_INLINE double div_floor(double a, double b) { return div_floor_float(a, b); }
NACRE_INLINE vf div_floor(vf a, vf b) { return div_floor_float(a, b); }

template <class V>
NACRE_INLINE V fmax_float(V a, V b) {
  return select(b != b, a, select(a != a, b, select(a > b, a, b)));
}
template <class V>
NACRE_INLINE V fmin_float(V a, V b) {
  return select(b != b, a, select(a != a, b, select(a < b, a, b)));
}
NACRE_INLINE float fmax(float a, float b) { return fmax_float(a, b); }
NACRE_INLINE double fmax(double a, double b) { return fmax_float(a, b); }
NACRE_INLINE vf fmax(vf a, vf b) { return fmax_float(a, b); }
NACRE_INLINE float fmin(float a, float b) { return fmin_float(a, b); }
NACRE_INLINE double fmin(double a, double b) { return fmin_float(a, b); }
NACRE_INLINE vf fmin(vf a, vf b) { return fmin_float(a, b); }

NACRE_INLINE vi bit_not(vi a) { return ~a; }

// A float32 as a 16-bit one would hold it.
NACRE_INLINE float round_float16(float x) { return static_cast<float>(static_cast<_Float16>(x)); }
NACRE_INLINE float round_bfloat16(float x) { return from_bfloat16(to_bfloat16(x)); }
NACRE_INLINE vf round_float16(vf x) {
  typedef _Float16 vh __attribute__((ext_vector_type(VL)));
  return __builtin_convertvector(__builtin_convertvector(x, vh), vf);
}
NACRE_INLINE vf round_bfloat16(vf x) {
  const vu bits = __builtin_bit_cast(vu, x), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  return select(x != x, x, __builtin_bit_cast(vf, rounded));
}

NACRE_INLINE float reduce_prod(vf v) {
  return fold(v, [](auto a, auto b) NACRE_LAMBDA { return a * b; });
}

// A sum of doubles as an unevaluated sum of two (Knuth's two-sum), so that its error does not grow with the number of terms.
struct Sum {
  double high, low = 0;
  NACRE_MEMBER Sum(double x) : high(x) {}
  NACRE_MEMBER explicit operator double() const {
    const double sum = high + low;
    return sum == sum ? sum : high; // of infinities, `low` is none
  }
  NACRE_MEMBER Sum operator+(double x) const {
    Sum next(high + x);
    const double part = next.high - high;
    next.low = low + (high - (next.high - part)) + (x - part);
    return next;
  }
};

}  // namespace nk
#endif
