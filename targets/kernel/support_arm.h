// What LLVM calls on 32-bit Arm (support.h): copies, 64-bit division, conversions of 64-bit integers, and, where the processor has
// none (Cortex-M4), arithmetic of doubles. Names and results are those of Arm's run-time ABI. Numbers come and go in core
// registers there, so that they are integers here. Rounding is to nearest even; a NaN that comes out is the quiet one.
#ifndef NACRE_KERNEL_SUPPORT_ARM_H
#define NACRE_KERNEL_SUPPORT_ARM_H
#include "nacre/base.h"

namespace nacre_arm {

constexpr uint64_t kInfinity = 0x7ff0000000000000ull, kNan = 0x7ff8000000000000ull, kSign = 0x8000000000000000ull;

// 2^exponent * mantissa / 2^63, with the mantissa's highest bit set; 0 is a mantissa of 0. Infinity and NaN have the exponent 1024.
struct Real {
  bool negative;
  int32_t exponent;
  uint64_t mantissa;
};

// With a bit that says that something was lost.
NACRE_INLINE uint64_t shift_right(uint64_t x, int32_t by) { return by <= 0 ? x : by > 63 ? x != 0 : x >> by | (x << (64 - by) != 0); }

// As a number of `Bits` bits behind the point.
template <int Bits, int Bias>
static inline uint64_t pack(Real x) {
  constexpr int kLost = 63 - Bits;
  int32_t exponent = x.exponent + Bias;
  uint64_t m = x.mantissa;
  uint64_t result = 0;
  if (m != 0 && exponent >= 2 * Bias + 1) {
    result = static_cast<uint64_t>(2 * Bias + 1) << Bits;
  } else if (m != 0) {
    if (exponent <= 0) {
      m = shift_right(m, 1 - exponent);
      exponent = 0;
    }
    uint64_t kept = m >> kLost;
    const uint64_t rest = m << (64 - kLost);
    kept += rest > kSign || (rest == kSign && (kept & 1));
    // The first bit of a normal number adds to the exponent.
    result = kept + (static_cast<uint64_t>(exponent > 0 ? exponent - 1 : 0) << Bits);
  }
  return result | static_cast<uint64_t>(x.negative) << (Bits == 52 ? 63 : 31);
}
static inline uint64_t as_double(Real x) { return pack<52, 1023>(x); }
static inline uint32_t as_float(Real x) { return static_cast<uint32_t>(pack<23, 127>(x)); }

template <int Bits, int Bias>
static inline Real unpack(uint64_t bits) {
  const int32_t exponent = static_cast<int32_t>(bits >> Bits & (2 * Bias + 1));
  uint64_t m = bits << (63 - Bits);
  const bool negative = (bits >> (Bits == 52 ? 63 : 31) & 1) != 0;
  if (exponent == 2 * Bias + 1) return {negative, 1024, m | kSign};
  if (exponent) return {negative, exponent - Bias, m | kSign};
  m &= ~kSign;
  if (!m) return {negative, 0, 0};
  const int zeros = __builtin_clzll(m);
  return {negative, 1 - Bias - zeros, m << zeros};
}
static inline Real of_double(uint64_t bits) { return unpack<52, 1023>(bits); }
static inline Real of_float(uint32_t bits) { return unpack<23, 127>(bits); }
static inline Real of_integer(uint64_t magnitude, bool negative) {
  if (!magnitude) return {false, 0, 0};
  const int zeros = __builtin_clzll(magnitude);
  return {negative, 63 - zeros, magnitude << zeros};
}

// Towards zero; what is too large becomes the nearest that there is, and NaN 0.
static inline uint64_t to_integer(Real x, uint64_t most_positive, uint64_t most_negative) {
  if (x.exponent == 1024 && x.mantissa << 1) return 0;
  const uint64_t most = x.negative ? most_negative : most_positive;
  if (!x.mantissa || x.exponent < 0) return 0;
  const uint64_t magnitude = x.exponent > 63 ? most : x.mantissa >> (63 - x.exponent);
  const uint64_t result = magnitude > most ? most : magnitude;
  return x.negative ? -result : result;
}

// Under the base convention, a vector of four words comes back in r0 to r3: quotient and remainder.
typedef uint32_t FourWords __attribute__((vector_size(16)));
static inline FourWords divide(uint64_t a, uint64_t b, bool negative_quotient, bool negative_remainder) {
  uint64_t quotient = 0, rest = a;
  if (b != 0 && b <= a) {
    int shift = __builtin_clzll(b) - __builtin_clzll(a);
    for (uint64_t step = b << shift; shift >= 0; --shift, step >>= 1)
      if (rest >= step) {
        rest -= step;
        quotient |= 1ull << shift;
      }
  }
  if (negative_quotient) quotient = -quotient;
  if (negative_remainder) rest = -rest;
  return FourWords{static_cast<uint32_t>(quotient), static_cast<uint32_t>(quotient >> 32), static_cast<uint32_t>(rest),
                   static_cast<uint32_t>(rest >> 32)};
}

static inline bool is_nan(uint64_t bits) { return (bits & ~kSign) > kInfinity; }

static inline uint64_t add(uint64_t a, uint64_t b) {
  if (is_nan(a) || is_nan(b)) return kNan;
  Real x = of_double(a), y = of_double(b);
  if (x.exponent == 1024 || y.exponent == 1024)
    return x.exponent == 1024 && y.exponent == 1024 && x.negative != y.negative ? kNan : x.exponent == 1024 ? a : b;
  if (!y.mantissa) return x.mantissa ? a : a & b;
  if (!x.mantissa) return b;
  if (x.exponent < y.exponent || (x.exponent == y.exponent && x.mantissa < y.mantissa)) {
    const Real larger = y;
    y = x;
    x = larger;
  }
  // The mantissas' lowest bits are free.
  const uint64_t m = x.mantissa >> 1, n = shift_right(y.mantissa >> 1, x.exponent - y.exponent);
  const uint64_t sum = x.negative == y.negative ? m + n : m - n;
  if (!sum) return 0;
  const int zeros = __builtin_clzll(sum);
  return as_double({x.negative, x.exponent + 1 - zeros, sum << zeros});
}

static inline uint64_t multiply(uint64_t a, uint64_t b) {
  const Real x = of_double(a), y = of_double(b);
  const bool negative = x.negative != y.negative;
  if (is_nan(a) || is_nan(b)) return kNan;
  if (x.exponent == 1024 || y.exponent == 1024) return x.mantissa && y.mantissa ? kInfinity | static_cast<uint64_t>(negative) << 63 : kNan;
  if (!x.mantissa || !y.mantissa) return static_cast<uint64_t>(negative) << 63;
  // The lower 11 bits of both are 0.
  const uint64_t x1 = x.mantissa >> 32, x0 = x.mantissa & 0xffffffff, y1 = y.mantissa >> 32, y0 = y.mantissa & 0xffffffff;
  const uint64_t cross = x1 * y0 + (x0 * y0 >> 32), middle = x0 * y1 + (cross & 0xffffffff);
  const uint64_t high = x1 * y1 + (cross >> 32) + (middle >> 32), low = x.mantissa * y.mantissa;
  const uint64_t m = high | (low != 0);
  return m & kSign ? as_double({negative, x.exponent + y.exponent + 1, m}) : as_double({negative, x.exponent + y.exponent, m << 1});
}

static inline uint64_t quotient(uint64_t a, uint64_t b) {
  const Real x = of_double(a), y = of_double(b);
  const bool negative = x.negative != y.negative;
  const uint64_t sign = static_cast<uint64_t>(negative) << 63;
  if (is_nan(a) || is_nan(b)) return kNan;
  if (x.exponent == 1024) return y.exponent == 1024 ? kNan : kInfinity | sign;
  if (y.exponent == 1024) return sign;
  if (!y.mantissa) return x.mantissa ? kInfinity | sign : kNan;
  if (!x.mantissa) return sign;
  uint64_t rest = x.mantissa >> 11, result = 0;
  const uint64_t divisor = y.mantissa >> 11;
  for (int i = 0; i < 57; ++i) {
    result <<= 1;
    if (rest >= divisor) {
      rest -= divisor;
      result |= 1;
    }
    rest <<= 1;
  }
  const int zeros = __builtin_clzll(result);
  return as_double({negative, x.exponent - y.exponent + 7 - zeros, result << zeros | (rest != 0)});
}

// -1, 0, 1; 2 where one is NaN.
static inline int compare(uint64_t a, uint64_t b) {
  if (is_nan(a) || is_nan(b)) return 2;
  if (!((a | b) & ~kSign)) return 0;
  const int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  const bool less = x < 0 && y < 0 ? a > b : x < y;
  return a == b ? 0 : less ? -1 : 1;
}

// One bit of the root after the other, and one to round by.
static inline uint64_t root(uint64_t bits) {
  if (is_nan(bits) || bits == kInfinity || !(bits & ~kSign)) return bits;
  if (bits & kSign) return kNan;
  const Real x = of_double(bits);
  const bool odd = (x.exponent & 1) != 0;
  uint64_t mantissa = odd ? x.mantissa : x.mantissa >> 1, root = 0, rest = 0;
  for (int i = 0; i < 54; ++i) {
    rest = rest << 2 | mantissa >> 62;
    mantissa <<= 2;
    root <<= 1;
    const uint64_t trial = root << 1 | 1;
    if (rest >= trial) {
      rest -= trial;
      root |= 1;
    }
  }
  return as_double({false, (x.exponent - odd) / 2, root << 10 | (rest != 0)});
}

}  // namespace nacre_arm

#ifdef NACRE_SUPPORT
NACRE_SUPPORT void __aeabi_memcpy(void* to, const void* from, __SIZE_TYPE__ size) { memcpy(to, from, size); }
NACRE_SUPPORT void __aeabi_memcpy4(void* to, const void* from, __SIZE_TYPE__ size) { memcpy(to, from, size); }
NACRE_SUPPORT void __aeabi_memcpy8(void* to, const void* from, __SIZE_TYPE__ size) { memcpy(to, from, size); }
NACRE_SUPPORT void __aeabi_memset(void* to, __SIZE_TYPE__ size, int value) { memset(to, value, size); }
NACRE_SUPPORT void __aeabi_memset4(void* to, __SIZE_TYPE__ size, int value) { memset(to, value, size); }
NACRE_SUPPORT void __aeabi_memset8(void* to, __SIZE_TYPE__ size, int value) { memset(to, value, size); }
NACRE_SUPPORT void __aeabi_memclr(void* to, __SIZE_TYPE__ size) { memset(to, 0, size); }
NACRE_SUPPORT void __aeabi_memclr4(void* to, __SIZE_TYPE__ size) { memset(to, 0, size); }
NACRE_SUPPORT void __aeabi_memclr8(void* to, __SIZE_TYPE__ size) { memset(to, 0, size); }

__attribute__((pcs("aapcs"))) NACRE_SUPPORT nacre_arm::FourWords __aeabi_uldivmod(uint64_t a, uint64_t b) {
  return nacre_arm::divide(a, b, false, false);
}
__attribute__((pcs("aapcs"))) NACRE_SUPPORT nacre_arm::FourWords __aeabi_ldivmod(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a < 0 ? -a : a), y = static_cast<uint64_t>(b < 0 ? -b : b);
  return nacre_arm::divide(x, y, (a < 0) != (b < 0), a < 0);
}

NACRE_SUPPORT uint32_t __aeabi_ul2f(uint64_t x) { return nacre_arm::as_float(nacre_arm::of_integer(x, false)); }
NACRE_SUPPORT uint32_t __aeabi_l2f(int64_t x) { return nacre_arm::as_float(nacre_arm::of_integer(static_cast<uint64_t>(x < 0 ? -x : x), x < 0)); }
NACRE_SUPPORT uint64_t __aeabi_ul2d(uint64_t x) { return nacre_arm::as_double(nacre_arm::of_integer(x, false)); }
NACRE_SUPPORT uint64_t __aeabi_l2d(int64_t x) { return nacre_arm::as_double(nacre_arm::of_integer(static_cast<uint64_t>(x < 0 ? -x : x), x < 0)); }
NACRE_SUPPORT uint64_t __aeabi_f2lz(uint32_t x) { return nacre_arm::to_integer(nacre_arm::of_float(x), ~0ull >> 1, nacre_arm::kSign); }
NACRE_SUPPORT uint64_t __aeabi_f2ulz(uint32_t x) { return nacre_arm::to_integer(nacre_arm::of_float(x), ~0ull, 0); }
NACRE_SUPPORT uint64_t __aeabi_d2lz(uint64_t x) { return nacre_arm::to_integer(nacre_arm::of_double(x), ~0ull >> 1, nacre_arm::kSign); }
NACRE_SUPPORT uint64_t __aeabi_d2ulz(uint64_t x) { return nacre_arm::to_integer(nacre_arm::of_double(x), ~0ull, 0); }

#if !(__ARM_FP & 8)
NACRE_SUPPORT double sqrt(double x) { return __builtin_bit_cast(double, nacre_arm::root(__builtin_bit_cast(uint64_t, x))); }
NACRE_SUPPORT uint64_t __aeabi_dadd(uint64_t a, uint64_t b) { return nacre_arm::add(a, b); }
NACRE_SUPPORT uint64_t __aeabi_dsub(uint64_t a, uint64_t b) { return nacre_arm::add(a, b ^ nacre_arm::kSign); }
NACRE_SUPPORT uint64_t __aeabi_dmul(uint64_t a, uint64_t b) { return nacre_arm::multiply(a, b); }
NACRE_SUPPORT uint64_t __aeabi_ddiv(uint64_t a, uint64_t b) { return nacre_arm::quotient(a, b); }
NACRE_SUPPORT int __aeabi_dcmpeq(uint64_t a, uint64_t b) { return nacre_arm::compare(a, b) == 0; }
NACRE_SUPPORT int __aeabi_dcmplt(uint64_t a, uint64_t b) { return nacre_arm::compare(a, b) == -1; }
NACRE_SUPPORT int __aeabi_dcmple(uint64_t a, uint64_t b) { return nacre_arm::compare(a, b) <= 0; }
NACRE_SUPPORT int __aeabi_dcmpgt(uint64_t a, uint64_t b) { return nacre_arm::compare(a, b) == 1; }
NACRE_SUPPORT int __aeabi_dcmpge(uint64_t a, uint64_t b) { return nacre_arm::compare(b, a) <= 0; }
NACRE_SUPPORT int __aeabi_dcmpun(uint64_t a, uint64_t b) { return nacre_arm::compare(a, b) == 2; }
NACRE_SUPPORT uint32_t __aeabi_d2f(uint64_t x) { return nacre_arm::is_nan(x) ? 0x7fc00000 : nacre_arm::as_float(nacre_arm::of_double(x)); }
NACRE_SUPPORT uint64_t __aeabi_f2d(uint32_t x) {
  return (x & 0x7fffffff) > 0x7f800000 ? nacre_arm::kNan : nacre_arm::as_double(nacre_arm::of_float(x));
}
NACRE_SUPPORT int32_t __aeabi_d2iz(uint64_t x) {
  return static_cast<int32_t>(nacre_arm::to_integer(nacre_arm::of_double(x), 0x7fffffff, 0x80000000));
}
NACRE_SUPPORT uint32_t __aeabi_d2uiz(uint64_t x) { return static_cast<uint32_t>(nacre_arm::to_integer(nacre_arm::of_double(x), 0xffffffff, 0)); }
NACRE_SUPPORT uint64_t __aeabi_i2d(int32_t x) { return __aeabi_l2d(x); }
NACRE_SUPPORT uint64_t __aeabi_ui2d(uint32_t x) { return __aeabi_ul2d(x); }
#endif
#endif
#endif
