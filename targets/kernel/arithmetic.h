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
//   greater_first(a, b), less_first(a, b)   does a come before b in argmax, argmin: NaN comes first, equals do not replace
#ifndef NACRE_KERNEL_ARITHMETIC_H
#define NACRE_KERNEL_ARITHMETIC_H
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

NACRE_INLINE bool bit_not(bool a) { return !a; }
NACRE_INLINE vi bit_not(vi a) { return ~a; }
NACRE_INLINE bool maximum(bool a, bool b) { return a || b; }
NACRE_INLINE bool minimum(bool a, bool b) { return a && b; }

// T is wide enough for the type's products and quotients, or wraps (kernels are compiled with -fwrapv).
#define NACRE_INTEGER(T)                                                                                          \
  NACRE_INLINE T abs(T a) { return static_cast<T>(a < 0 ? -a : a); }                                              \
  NACRE_INLINE T sign(T a) { return static_cast<T>((a > 0) - (a < 0)); }                                          \
  NACRE_INLINE T bit_not(T a) { return static_cast<T>(~a); }                                                      \
  NACRE_INLINE T maximum(T a, T b) { return a > b ? a : b; }                                                      \
  NACRE_INLINE T minimum(T a, T b) { return a < b ? a : b; }                                                      \
  NACRE_INLINE T fmax(T a, T b) { return a > b ? a : b; }                                                         \
  NACRE_INLINE T fmin(T a, T b) { return a < b ? a : b; }                                                         \
  NACRE_INLINE T ceil(T a) { return a; }                                                                          \
  NACRE_INLINE T floor(T a) { return a; }                                                                         \
  NACRE_INLINE T trunc(T a) { return a; }                                                                         \
  NACRE_INLINE T round_even(T a) { return a; }                                                                    \
  NACRE_INLINE T div_trunc(T a, T b) {                                                                            \
    return static_cast<T>(T(b + 1) == 0 && T(-1) < 0 ? T(0) - a : a / b);                                         \
  }                                                                                                               \
  NACRE_INLINE T fmod(T a, T b) { return static_cast<T>(T(b + 1) == 0 && T(-1) < 0 ? T(0) : a % b); }             \
  NACRE_INLINE T remainder(T a, T b) {                                                                            \
    const T r = fmod(a, b);                                                                                       \
    return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);                                              \
  }                                                                                                               \
  NACRE_INLINE T div_floor(T a, T b) {                                                                            \
    const T q = div_trunc(a, b), r = fmod(a, b);                                                                  \
    return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? q - 1 : q);                                              \
  }                                                                                                               \
  NACRE_INLINE T pow(T a, T b) {                                                                                  \
    if (b < 0) return static_cast<T>(a == 1 ? 1 : a == T(-1) ? (b % 2 == 0 ? 1 : -1) : 0);                        \
    T result = 1, power = a;                                                                                      \
    for (T n = b; n > 0; n = static_cast<T>(n / 2)) {                                                             \
      if (n % 2 != 0) result = static_cast<T>(result * power);                                                    \
      power = static_cast<T>(power * power);                                                                      \
    }                                                                                                             \
    return result;                                                                                                \
  }                                                                                                               \
  NACRE_INLINE T gcd(T a, T b) {                                                                                  \
    a = abs(a);                                                                                                   \
    b = abs(b);                                                                                                   \
    while (a != 0) {                                                                                              \
      const T rest = fmod(b, a);                                                                                  \
      b = a;                                                                                                      \
      a = rest;                                                                                                   \
    }                                                                                                             \
    return b;                                                                                                     \
  }                                                                                                               \
  NACRE_INLINE T shift_left(T a, T b) {                                                                           \
    return static_cast<T>(b < 0 || b >= T(sizeof(T) * 8) ? T(0) : T(static_cast<i64>(a) << static_cast<i64>(b))); \
  }                                                                                                               \
  NACRE_INLINE T shift_right(T a, T b) {                                                                          \
    return static_cast<T>(b < 0 || b >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : T(a >> b));                   \
  }
NACRE_INTEGER(uint8_t)
NACRE_INTEGER(int8_t)
NACRE_INTEGER(int16_t)
NACRE_INTEGER(int32_t)
NACRE_INTEGER(i64)
#undef NACRE_INTEGER

template <class T>
NACRE_INLINE T to_integer(double x) {
  const bool fits = x > -9223372036854775809.0 && x < 9223372036854775808.0;
  return static_cast<T>(fits ? static_cast<i64>(x) : (-9223372036854775807LL - 1));
}

// Philox 4x32-10 (Salmon et al., 2011): words 0 and 1 of the block of counter a under key b.
NACRE_INLINE i64 philox(i64 a, i64 b) {
  uint32_t c0 = static_cast<uint32_t>(a), c1 = static_cast<uint32_t>(static_cast<uint64_t>(a) >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(b), k1 = static_cast<uint32_t>(static_cast<uint64_t>(b) >> 32);
  NACRE_UNROLL for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53} * c0, q = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(q >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(q);
    c2 = static_cast<uint32_t>(p >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return static_cast<i64>(static_cast<uint64_t>(c1) << 32 | c0);
}

NACRE_INLINE float from_bfloat16(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
NACRE_INLINE uint16_t to_bfloat16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

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

template <class T>
NACRE_INLINE bool greater_first(T a, T b) {
  return a > b || (a != a && b == b);
}
template <class T>
NACRE_INLINE bool less_first(T a, T b) {
  return a < b || (a != a && b == b);
}

NACRE_INLINE float reduce_prod(vf v) {
  return fold(v, [](auto a, auto b) NACRE_LAMBDA { return a * b; });
}

}  // namespace nk
#endif
