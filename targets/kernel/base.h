// What every generated kernel starts from: integer types, inlining, compile-time sizes, work splitting.
//
// Kernels are freestanding C++20: nothing but these headers, vector extensions and compiler builtins.
//
//   C<56>{}                      a size known at compile time; converts to isize. Every size and stride parameter of the
//                                library is a template type: pass C<...>{} for a constant, an isize for a run-time value.
//   Range split(isize count, isize part, isize parts)    the part-th of `parts` nearly equal slices of [0, count)
//   NACRE_INLINE                 a function that must be inlined
//   NACRE_LAMBDA                 follows a lambda's parameter list, so that it is inlined: [&](isize m, vf x) NACRE_LAMBDA {...}
//   NACRE_UNROLL                 before a loop of small constant length: unroll it fully
#ifndef NACRE_KERNEL_BASE_H
#define NACRE_KERNEL_BASE_H

#ifdef __clang__
// Everything that takes or returns a vector is inlined: no calling convention is involved.
#pragma clang diagnostic ignored "-Wpsabi"
// `a & b` of two conditions: evaluated without a branch, and the same text for scalars and vectors.
#pragma clang diagnostic ignored "-Wbitwise-instead-of-logical"
#endif

#define NACRE_INLINE static inline __attribute__((always_inline))
#define NACRE_MEMBER inline __attribute__((always_inline))
#define NACRE_LAMBDA __attribute__((always_inline))
#define NACRE_UNROLL _Pragma("clang loop unroll(full)")
#define NACRE_UNROLL4 _Pragma("clang loop unroll_count(4)")
#define NACRE_ROLLED _Pragma("clang loop unroll(disable) vectorize(disable)")

// Of arrays of vectors on the stack: as it is aligned anyway where vectors need no more.
#ifdef __arm__
#define NACRE_ALIGNED alignas(8)
#else
#define NACRE_ALIGNED alignas(64)
#endif

// To read soon. Microcontrollers have little to gain from it.
#ifdef __arm__
#define NACRE_PREFETCH(address, locality) static_cast<void>(address)
#else
#define NACRE_PREFETCH(address, locality) __builtin_prefetch(address, 0, locality)
#endif

// Cache sizes of the target in bytes, for one core. A target's compile flags set them.
#ifndef NACRE_L1_BYTES
#define NACRE_L1_BYTES 32768
#endif
#ifndef NACRE_L2_BYTES
#define NACRE_L2_BYTES 524288
#endif

#ifndef INT64_MAX  // <stdint.h> is not there in a kernel; on the host, in tests, it may be
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#endif

namespace nk {

using i64 = int64_t;
// Sizes, indices and distances in memory: as wide as addresses are.
using isize = __PTRDIFF_TYPE__;

template <isize V>
struct C {
  static constexpr isize value = V;
  constexpr NACRE_MEMBER operator isize() const { return V; }
};

template <class T>
struct is_constant {
  static constexpr bool value = false;
};
template <isize V>
struct is_constant<C<V>> {
  static constexpr bool value = true;
};
template <class T, isize V>
inline constexpr bool constant_is = false;
template <isize V>
inline constexpr bool constant_is<C<V>, V> = true;
template <class... T>
inline constexpr bool all_constant = (is_constant<T>::value && ...);

// As wide as the wider of both, and at least as sizes are.
template <class A, class B>
NACRE_INLINE constexpr auto imin(A a, B b) -> decltype(a + b + isize()) {
  return a < b ? decltype(a + b + isize())(a) : decltype(a + b + isize())(b);
}
template <class A, class B>
NACRE_INLINE constexpr auto imax(A a, B b) -> decltype(a + b + isize()) {
  return a > b ? decltype(a + b + isize())(a) : decltype(a + b + isize())(b);
}
NACRE_INLINE constexpr isize ceil_div(isize a, isize b) { return (a + b - 1) / b; }
NACRE_INLINE constexpr isize round_up(isize a, isize b) { return ceil_div(a, b) * b; }

// An epilogue of many operations. Unrolled over a tile's registers, it would be mixed with the tile's last products, and their
// sums would not stay in registers: so they go through memory, and its code stands there once.
template <class F>
struct LongEpilogue : F {
  using F::operator();
};
template <class F>
NACRE_INLINE LongEpilogue<F> long_epilogue(F f) {
  return {f};
}
template <class F>
inline constexpr bool is_long = false;
template <class F>
inline constexpr bool is_long<LongEpilogue<F>> = true;
// An epilogue that hands everything on to another one.
template <class Other, class F>
NACRE_INLINE auto as_long_as(F f) {
  if constexpr (is_long<Other>) {
    return long_epilogue(f);
  } else {
    return f;
  }
}

struct Range {
  isize begin, end;
};
NACRE_INLINE constexpr Range split(isize count, isize part, isize parts) {
  const isize q = count / parts, r = count % parts;
  const isize begin = part * q + imin(part, r);
  return {begin, begin + q + (part < r ? 1 : 0)};
}

}  // namespace nk
#endif
