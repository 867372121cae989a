// Products of a matrix with one vector: y(n) = sum over k of x(k) * w(n, k), at the rate at which memory gives the matrix.
//
//   Gemv<T, kK, kAcross, kBeside, kPieces, kRows, kStages> product(n, rows)
//                                 of the block: its share of the n rows, of which there are at most `rows`. T: float, Half or BFloat16
//     .begin(w)                   the first rows are on their way to shared memory; w(n) is the address of row n, a multiple of 16 bytes
//     .take(x)                    x(first, values): the vector's elements from `first` on, as many as 16 bytes hold of T
//     .sum(w)                     the sums of all rows, in shared memory
//     .each(epilogue)             epilogue(n, sum) takes each result once
//
// The block has kBeside teams of kAcross warps. A team takes kRows rows at a time, of each of which a thread has kPieces pieces of 16
// bytes: it copies them itself, kStages - 1 steps ahead, and keeps its part of the vector in registers, so that none waits for
// another before all rows are done. Dynamic shared memory: kStages * kRows * kPieces * 16 bytes a thread, and 4 * kAcross bytes a row.
#ifndef NACRE_DEVICE_GEMV_H
#define NACRE_DEVICE_GEMV_H
#include "nacre/cuda_mma.h"

namespace nk {

namespace detail {

// The sum over a warp of each of kRows values: that of row `row` is with the lanes for which it is the answer.
template <int kRows>
NACRE_INLINE int fold_rows(float (&sums)[kRows]) {
  const int lane = threadIdx.x % 32;
  int row = 0, mask = 16;
  NACRE_UNROLL for (int half = kRows / 2; half > 0; half /= 2, mask /= 2) {
    const bool upper = lane & mask;
    if (upper) row += half;
    NACRE_UNROLL for (int i = 0; i < half; ++i) {
      const float given = upper ? sums[i] : sums[i + half];
      sums[i] = (upper ? sums[i + half] : sums[i]) + __shfl_xor_sync(0xffffffffu, given, mask);
    }
  }
  for (; mask > 0; mask /= 2) sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], mask);
  return row;
}

NACRE_INLINE float from_word(const float*, uint32_t word, int) { return __uint_as_float(word); }
NACRE_INLINE float from_word(const Half*, uint32_t word, int upper) {
  Half half;
  half.bits = static_cast<uint16_t>(upper ? word >> 16 : word);
  return half;
}
NACRE_INLINE float from_word(const BFloat16*, uint32_t word, int upper) { return __uint_as_float(upper ? word & 0xffff0000u : word << 16); }

}  // namespace detail

template <class T, int kK, int kAcross, int kBeside, int kPieces, int kRows, int kStages>
struct Gemv {
  static constexpr int kEach = 16 / static_cast<int>(sizeof(T)), kWord = 4 / static_cast<int>(sizeof(T));
  static constexpr int kTeam = 32 * kAcross, kThreads = kTeam * kBeside, kStep = kRows * kPieces * kThreads * 16;
  static_assert(kTeam * kPieces * kEach >= kK && kK % kEach == 0);
  int first, count, steps;
  uint32_t ring;
  float* sums;
  float vector[kPieces][kEach];

  static NACRE_MEMBER int team() { return threadIdx.x / kTeam; }
  static NACRE_MEMBER int rank() { return threadIdx.x % kTeam; }

  NACRE_MEMBER Gemv(i64 n) {
    using namespace detail;
    extern __shared__ char dynamic_memory[];
    const uint32_t start = shared_address(dynamic_memory);
    ring = (start + 15 & ~15u) + threadIdx.x * 16;
    sums = reinterpret_cast<float*>(dynamic_memory + ((start + 15 & ~15u) - start) + kStages * kStep);
    first = static_cast<int>(n * blockIdx.x / gridDim.x);
    count = static_cast<int>(n * (blockIdx.x + 1) / gridDim.x) - first;
    steps = (count + kRows * kBeside - 1) / (kRows * kBeside);
  }

  template <class W>
  NACRE_MEMBER void copy(int step, W w) const {
    using namespace detail;
    if (step < steps) {
      const uint32_t to = ring + step % kStages * kStep;
      NACRE_UNROLL for (int r = 0; r < kRows; ++r) {
        const int row = (step * kBeside + team()) * kRows + r;
        if (row >= count) continue;  // its sum goes nowhere
        const auto* const from = w(first + row);
        NACRE_UNROLL for (int p = 0; p < kPieces; ++p) {
          const int k = (p * kTeam + rank()) * kEach;
          copy_later(to + (r * kPieces + p) * (kThreads * 16), kTeam * kPieces * kEach == kK || k < kK ? from + k : nullptr);
        }
      }
    }
    close_copies();
  }
  template <class W>
  NACRE_MEMBER void begin(W w) const {
    for (int step = 0; step < kStages - 1; ++step) copy(step, w);
  }

  template <class X>
  NACRE_MEMBER void take(X x) {
    NACRE_UNROLL for (int p = 0; p < kPieces; ++p) {
      const int k = (p * kTeam + rank()) * kEach;
      if (kTeam * kPieces * kEach == kK || k < kK) {
        x(k, vector[p]);
      } else {
        NACRE_UNROLL for (int e = 0; e < kEach; ++e) vector[p][e] = 0;
      }
    }
  }

  template <class W>
  NACRE_MEMBER void sum(W w) const {
    using namespace detail;
    for (int step = 0; step < steps; ++step) {
      copy(step + kStages - 1, w);
      await_copies<kStages - 1>();
      const uint32_t from = ring + step % kStages * kStep;
      float part[kRows] = {};
      NACRE_UNROLL for (int r = 0; r < kRows; ++r) {
        NACRE_UNROLL for (int p = 0; p < kPieces; ++p) {
          uint32_t words[4];
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(from + (r * kPieces + p) * (kThreads * 16)) : "memory");
          NACRE_UNROLL for (int e = 0; e < kEach; ++e) part[r] = fmaf(from_word(static_cast<const T*>(nullptr), words[e / kWord], e % kWord), vector[p][e], part[r]);
        }
      }
      const int own = fold_rows(part), row = (step * kBeside + team()) * kRows + own;
      if (threadIdx.x % (32 / kRows) == 0 && row < count) sums[row * kAcross + rank() / 32] = part[0];
    }
    await_copies<0>();
    __syncthreads();
  }

  template <class E>
  NACRE_MEMBER void each(E epilogue) const {
    for (int row = threadIdx.x; row < count; row += kThreads) {
      float sum = 0;
      NACRE_UNROLL for (int i = 0; i < kAcross; ++i) sum += sums[row * kAcross + i];
      epilogue(first + row, sum);
    }
  }
};

}  // namespace nk
#endif
