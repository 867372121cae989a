// Types, inlining, 16-bit floats, checked indices, and what a kernel gets beside its buffers and sizes.
//
//   Launch                           status: where the first error in the data is noted; scratch: of all blocks
//                                    counters: zeros for blocks to count each other
//   report(launch, status)           at the end of a kernel, by each thread
//   index_in, index_below, nonzero   as in loops.h
//   floordiv, floormod, imin, imax   of index expressions
#ifndef NACRE_DEVICE_BASE_H
#define NACRE_DEVICE_BASE_H
#define NACRE_DEVICE 1
#define NACRE_INLINE static __device__ __forceinline__
#define NACRE_MEMBER __device__ __forceinline__
#define NACRE_UNROLL _Pragma("unroll")

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

// Generated literals.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)

namespace nk {

using i64 = int64_t;

// A float16 in memory.
struct Half {
  uint16_t bits;
  Half() = default;
  explicit NACRE_MEMBER Half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  explicit NACRE_MEMBER Half(double x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x)); }
  template <class T>
  explicit NACRE_MEMBER Half(T x) : Half(static_cast<float>(x)) {}
  NACRE_MEMBER operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
#define _Float16 Half

struct BFloat16 {
  uint16_t bits;
  NACRE_MEMBER operator float() const { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
};

struct Launch {
  unsigned long long* status;
  unsigned long long command;
  char* scratch;
  unsigned* counters;  // 0, and left so
};

NACRE_INLINE void report(const Launch& launch, int32_t status) {
  if (status != 0) atomicCAS(launch.status, 0ull, (launch.command + 1) << 32 | static_cast<uint32_t>(status));
}

template <class E>
NACRE_INLINE E index_in(i64 index, E extent, int32_t& status, int32_t error) {
  const i64 wrapped = index < 0 ? index + extent : index;
  if (static_cast<uint64_t>(wrapped) >= static_cast<uint64_t>(extent)) {
    status = error;
    return 0;
  }
  return static_cast<E>(wrapped);
}
template <class E>
NACRE_INLINE E index_below(i64 index, E extent, int32_t& status, int32_t error) {
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(static_cast<i64>(extent))) {
    status = error;
    return 0;
  }
  return static_cast<E>(index);
}
template <class T>
NACRE_INLINE T nonzero(T divisor, int32_t& status, int32_t error) {
  if (divisor == 0) {
    status = error;
    return 1;
  }
  return divisor;
}

template <class A, class B>
NACRE_INLINE auto imin(A a, B b) -> decltype(a + b) {
  return a < b ? decltype(a + b)(a) : decltype(a + b)(b);
}
template <class A, class B>
NACRE_INLINE auto imax(A a, B b) -> decltype(a + b) {
  return a > b ? decltype(a + b)(a) : decltype(a + b)(b);
}
template <class A, class B>
NACRE_INLINE auto floordiv(A a, B b) -> decltype(a + b) {
  const decltype(a + b) q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
template <class A, class B>
NACRE_INLINE auto floormod(A a, B b) -> decltype(a + b) {
  return a - floordiv(a, b) * b;
}

}  // namespace nk
#endif
