// The part of arithmetic.h that is the same on every machine: integers, bits, the order of argmax. It stands on NACRE_INLINE,
// NACRE_UNROLL and the integer types of base.h, or on those of a device's library.
#ifndef NACRE_KERNEL_INTEGERS_H
#define NACRE_KERNEL_INTEGERS_H
#ifndef NACRE_DEVICE
#include "nacre/base.h"
#endif

namespace nk {

NACRE_INLINE bool bit_not(bool a) { return !a; }
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

template <class T>
NACRE_INLINE bool greater_first(T a, T b) {
  return a > b || (a != a && b == b);
}
template <class T>
NACRE_INLINE bool less_first(T a, T b) {
  return a < b || (a != a && b == b);
}

}  // namespace nk
#endif
