// Types, inlining, 16-bit floats, checked indices, and what a kernel gets beside its buffers and sizes.
//
//   Launch                           status: where the first error in the data is noted; scratch: of all blocks
//                                    counters: zeros for blocks to count each other
//   release_next(), await_previous() at the beginning of a kernel, and before it reads or writes what another may
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

// The next kernel may begin before this one is done; what it shares with earlier ones waits for them.
NACRE_INLINE void release_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
NACRE_INLINE void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

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

// 8 elements, or fewer, that lie side by side, at a multiple of their size.
template <class T, int N = 8>
struct Piece {
  static constexpr int bytes = N * static_cast<int>(sizeof(T));
  union {
    T at[N];
    uint32_t words[bytes / 4];
  };
  NACRE_MEMBER Piece() {}
  NACRE_MEMBER T& operator[](int i) { return at[i]; }
  NACRE_MEMBER const T& operator[](int i) const { return at[i]; }
};
template <int N = 8, class T>
NACRE_INLINE Piece<T, N> load_piece(const T* from) {
  Piece<T, N> piece;
  if constexpr (Piece<T, N>::bytes == 4) {
    piece.words[0] = *reinterpret_cast<const uint32_t*>(from);
  } else if constexpr (Piece<T, N>::bytes == 8) {
    const uint2 both = *reinterpret_cast<const uint2*>(from);
    piece.words[0] = both.x, piece.words[1] = both.y;
  } else {
    NACRE_UNROLL for (int i = 0; i < Piece<T, N>::bytes / 16; ++i) {
      const uint4 all = reinterpret_cast<const uint4*>(from)[i];
      piece.words[4 * i] = all.x, piece.words[4 * i + 1] = all.y, piece.words[4 * i + 2] = all.z, piece.words[4 * i + 3] = all.w;
    }
  }
  return piece;
}
// Zeros where there is nothing: without a branch, so that many loads are on their way at once.
template <int N = 8, class T>
NACRE_INLINE Piece<T, N> load_piece_if(bool there, const T* from) {
  Piece<T, N> piece;
  const int wanted = there;
  if constexpr (Piece<T, N>::bytes == 4) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.b32 %0, [%1];\n}\n" : "=&r"(piece.words[0]) : "l"(from), "r"(wanted));
  } else if constexpr (Piece<T, N>::bytes == 8) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n@p ld.global.v2.b32 {%0, %1}, [%2];\n}\n"
                 : "=&r"(piece.words[0]), "=&r"(piece.words[1])
                 : "l"(from), "r"(wanted));
  } else {
    NACRE_UNROLL for (int i = 0; i < Piece<T, N>::bytes / 16; ++i)
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
          "@p ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n}\n"
          : "=&r"(piece.words[4 * i]), "=&r"(piece.words[4 * i + 1]), "=&r"(piece.words[4 * i + 2]), "=&r"(piece.words[4 * i + 3])
          : "l"(reinterpret_cast<const uint4*>(from) + i), "r"(wanted));
  }
  return piece;
}
// All loads before are on their way when anything after is computed: compilers save registers otherwise, and wait for one after the other.
NACRE_INLINE void start_loads() { __syncwarp(__activemask()); }
template <class T, int N>
NACRE_INLINE void store_piece(T* to, const Piece<T, N>& piece) {
  if constexpr (Piece<T, N>::bytes == 4) {
    *reinterpret_cast<uint32_t*>(to) = piece.words[0];
  } else if constexpr (Piece<T, N>::bytes == 8) {
    *reinterpret_cast<uint2*>(to) = {piece.words[0], piece.words[1]};
  } else {
    NACRE_UNROLL for (int i = 0; i < Piece<T, N>::bytes / 16; ++i)
      reinterpret_cast<uint4*>(to)[i] = {piece.words[4 * i], piece.words[4 * i + 1], piece.words[4 * i + 2], piece.words[4 * i + 3]};
  }
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
