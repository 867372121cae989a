// Threads that work together: W of them, 1, 32, or all of a block.
//
//   Team<W> team     index(), count(): which team of how many; rank(), size(): which thread of the team
//   TeamOfSome<W>    the same where only some of the blocks are concerned: from a first one on, so many
//   team.sync()      what one thread has written, the others see
//   team.fold(x, f)  f over the values of all threads, for all of them; f is associative and commutative
#ifndef NACRE_DEVICE_TEAM_H
#define NACRE_DEVICE_TEAM_H
#include "nacre/cuda_base.h"

namespace nk {

template <class T>
NACRE_INLINE T shuffled(T value, int mask) {
  if constexpr (sizeof(T) < 4) {
    return static_cast<T>(__shfl_xor_sync(0xffffffffu, static_cast<int>(value), mask));
  } else {
    union Words {
      T whole;
      int words[sizeof(T) / 4];
      NACRE_MEMBER Words() {}
    } from, to;
    from.whole = value;
    NACRE_UNROLL for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i) to.words[i] = __shfl_xor_sync(0xffffffffu, from.words[i], mask);
    return to.whole;
  }
}

template <class T, class F>
NACRE_INLINE T fold_warp(T value, F f) {
  NACRE_UNROLL for (int mask = 16; mask > 0; mask /= 2) value = f(value, shuffled(value, mask));
  return value;
}

template <int W>
struct Team {
  static_assert(W == 1 || W % 32 == 0);
  static NACRE_MEMBER int size() { return W; }
  NACRE_MEMBER int rank() const {
    if constexpr (W == 1) return 0;
    return W == 32 ? threadIdx.x % 32 : threadIdx.x;
  }
  NACRE_MEMBER int index() const { return W <= 32 ? (blockIdx.x * blockDim.x + threadIdx.x) / W : blockIdx.x; }
  NACRE_MEMBER int count() const { return W <= 32 ? gridDim.x * blockDim.x / W : gridDim.x; }
  NACRE_MEMBER void sync() const {
    if constexpr (W == 32) __syncwarp();
    if constexpr (W > 32) __syncthreads();
  }
  template <class T, class F>
  NACRE_MEMBER T fold(T value, F f) const {
    if constexpr (W == 1) return value;
    value = fold_warp(value, f);
    if constexpr (W > 32) {
      __shared__ alignas(16) char memory[W / 32 * sizeof(T)];
      T* const parts = reinterpret_cast<T*>(memory);
      __syncthreads();
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
      __syncthreads();
      value = parts[0];
      NACRE_UNROLL for (int i = 1; i < W / 32; ++i) value = f(value, parts[i]);
    }
    return value;
  }
};

template <int W>
struct TeamOfSome : Team<W> {
  int first, blocks;
  NACRE_MEMBER TeamOfSome(i64 from, i64 many) : first(static_cast<int>(from)), blocks(static_cast<int>(many)) {}
  NACRE_MEMBER int index() const { return W <= 32 ? ((blockIdx.x - first) * blockDim.x + threadIdx.x) / W : blockIdx.x - first; }
  NACRE_MEMBER int count() const { return W <= 32 ? blocks * blockDim.x / W : blocks; }
};

}  // namespace nk
#endif
