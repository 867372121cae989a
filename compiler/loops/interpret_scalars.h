// The pointwise primitives of ops.def on the host: the functions that its expressions name, and a kernel for each
// primitive and type. Private to the interpreter.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace nacre::scalar_ops {

template <class T>
concept Real = std::floating_point<T>;
template <class T>
concept Whole = std::integral<T>;

using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atanh;
using std::cos;
using std::cosh;
using std::exp;
using std::exp2;
using std::expm1;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::sin;
using std::sinh;
using std::tan;
using std::tanh;

// Only of floating types: an integer has none of these.
#define NACRE_REAL_ONLY(f) \
  template <Whole T>       \
  void f(T) = delete;
NACRE_REAL_ONLY(acos)
NACRE_REAL_ONLY(acosh)
NACRE_REAL_ONLY(asin)
NACRE_REAL_ONLY(asinh)
NACRE_REAL_ONLY(atan)
NACRE_REAL_ONLY(atanh)
NACRE_REAL_ONLY(cos)
NACRE_REAL_ONLY(cosh)
NACRE_REAL_ONLY(exp)
NACRE_REAL_ONLY(exp2)
NACRE_REAL_ONLY(expm1)
NACRE_REAL_ONLY(log)
NACRE_REAL_ONLY(log10)
NACRE_REAL_ONLY(log1p)
NACRE_REAL_ONLY(log2)
NACRE_REAL_ONLY(sin)
NACRE_REAL_ONLY(sinh)
NACRE_REAL_ONLY(tan)
NACRE_REAL_ONLY(tanh)
#undef NACRE_REAL_ONLY

template <Real T>
T sqrt(T a) {
  return std::sqrt(a);
}
template <Real T>
T rsqrt(T a) {
  return T(1) / std::sqrt(a);
}
template <Real T>
T erf(T a) {
  return std::erf(a);
}
template <Real T>
T erfc(T a) {
  return std::erfc(a);
}
template <Real T>
T sigmoid(T a) {
  return T(1) / (T(1) + std::exp(-a));
}
template <class T>
T abs(T a) {
  if constexpr (Real<T>)
    return std::fabs(a);
  else
    return a < T(0) ? static_cast<T>(-a) : a;
}
template <class T>
T sign(T a) {
  return static_cast<T>((T(0) < a) - (a < T(0)));
}
template <class T>
T ceil(T a) {
  if constexpr (Real<T>)
    return std::ceil(a);
  else
    return a;
}
template <class T>
T floor(T a) {
  if constexpr (Real<T>)
    return std::floor(a);
  else
    return a;
}
template <class T>
T trunc(T a) {
  if constexpr (Real<T>)
    return std::trunc(a);
  else
    return a;
}
template <class T>
T round_even(T a) {
  if constexpr (Real<T>)
    return std::nearbyint(a);
  else
    return a;
}
template <Whole T>
T bit_not(T a) {
  if constexpr (std::is_same_v<T, bool>)
    return !a;
  else
    return static_cast<T>(~a);
}
// Integer divisors are not 0: the interpreter looks before.
template <class T>
T div_trunc(T a, T b) {
  if constexpr (Real<T>)
    return std::trunc(a / b);
  else if constexpr (std::is_signed_v<T>)
    return b == T(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : static_cast<T>(a / b);
  else
    return static_cast<T>(a / b);
}
template <class T>
T fmod(T a, T b) {
  if constexpr (Real<T>)
    return std::fmod(a, b);
  else if constexpr (std::is_signed_v<T>)
    return b == T(-1) ? T(0) : static_cast<T>(a % b);
  else
    return static_cast<T>(a % b);
}
template <class T>
T remainder(T a, T b) {
  T r = scalar_ops::fmod(a, b);
  if (r != T(0) && (r < T(0)) != (b < T(0))) r = static_cast<T>(r + b);
  return r;
}
template <class T>
T div_floor(T a, T b) {
  if constexpr (Real<T>) {
    if (b == T(0)) return a / b;
    const T r = std::fmod(a, b);
    T q = (a - r) / b;
    if (r != T(0) && (b < T(0)) != (r < T(0))) q -= T(1);
    if (q == T(0)) return std::copysign(T(0), a / b);
    T whole = std::floor(q);
    if (q - whole > T(0.5)) whole += T(1);
    return whole;
  } else {
    const T q = div_trunc(a, b);
    return scalar_ops::fmod(a, b) != T(0) && (a < T(0)) != (b < T(0)) ? static_cast<T>(q - 1) : q;
  }
}
template <class T>
T pow(T a, T b) {
  if constexpr (Real<T>) {
    return std::pow(a, b);
  } else {
    if (b < T(0)) {
      if (a == T(1)) return T(1);
      if (a == static_cast<T>(-1)) return b % T(2) == T(0) ? T(1) : static_cast<T>(-1);
      return T(0);
    }
    uint64_t base = static_cast<uint64_t>(a), result = 1;
    for (auto n = static_cast<uint64_t>(b); n; n >>= 1, base *= base)
      if (n & 1) result *= base;
    return static_cast<T>(result);
  }
}
template <Real T>
T atan2(T a, T b) {
  return std::atan2(a, b);
}
template <class T>
T maximum(T a, T b) {
  return b != b || b > a ? b : a;
}
template <class T>
T minimum(T a, T b) {
  return b != b || b < a ? b : a;
}
template <class T>
T fmax(T a, T b) {
  return a != a ? b : b != b ? a : (a > b ? a : b);
}
template <class T>
T fmin(T a, T b) {
  return a != a ? b : b != b ? a : (a < b ? a : b);
}
template <Real T>
T copysign(T a, T b) {
  return std::copysign(a, b);
}
template <Real T>
T nextafter(T a, T b) {
  return std::nextafter(a, b);
}
template <Whole T>
T gcd(T a, T b) {
  a = scalar_ops::abs(a);
  b = scalar_ops::abs(b);
  while (a != T(0)) {
    const T rest = static_cast<T>(b % a);
    b = a;
    a = rest;
  }
  return b;
}
template <Whole T>
T shift_left(T a, T b) {
  constexpr auto bits = static_cast<uint64_t>(sizeof(T) * 8);
  return static_cast<uint64_t>(b) >= bits ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << static_cast<uint64_t>(b));
}
template <Whole T>
T shift_right(T a, T b) {
  constexpr auto bits = static_cast<uint64_t>(sizeof(T) * 8);
  if (static_cast<uint64_t>(b) >= bits) return a < T(0) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> b);
}

// Philox 4x32-10: words 0 and 1 of the block of counter a under key b.
inline int64_t philox(int64_t a, int64_t b) {
  uint32_t counter[4] = {static_cast<uint32_t>(a), static_cast<uint32_t>(static_cast<uint64_t>(a) >> 32), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(b), static_cast<uint32_t>(static_cast<uint64_t>(b) >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53} * counter[0], q = uint64_t{0xCD9E8D57} * counter[2];
    const uint32_t next[4] = {static_cast<uint32_t>(q >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(q),
                              static_cast<uint32_t>(p >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p)};
    for (int i = 0; i < 4; ++i) counter[i] = next[i];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return static_cast<int64_t>(static_cast<uint64_t>(counter[1]) << 32 | counter[0]);
}
template <class T>
  requires(!std::same_as<T, int64_t>)
void philox(T, T) = delete;

}  // namespace nacre::scalar_ops
