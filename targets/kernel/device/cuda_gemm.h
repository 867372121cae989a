// Products of matrices whose operands come from anywhere: c(batch, m, n) = sum over k of a(batch, m, k) * b(batch, k, n).
//
//   gemm<Tile>(batches, m, n, k, a, b, epilogue)      a, b: float(batch, row, column), asked for elements that are there only;
//                                                     epilogue(batch, m, n, float) takes each result once
//   Tile<kRows, kColumns, kAlongK, kBAlongK, kOutAlongM>   what of the product a block computes, and along which of its indices
//                                                     neighbours in memory are neighbours: of a k or m, of b k or n, of c m or n
//
// Float32 throughout, in partial sums of 128 terms, so that the error does not grow with the length. A block of 256 threads.
#ifndef NACRE_DEVICE_GEMM_H
#define NACRE_DEVICE_GEMM_H
#include "nacre/cuda_base.h"

namespace nk {

template <int kRows, int kColumns, bool kAAlongK, bool kBAlongK, bool kOutAlongM>
struct Tile {
  static constexpr int rows = kRows, columns = kColumns;
  static constexpr bool a_along_k = kAAlongK, b_along_k = kBAlongK, out_along_m = kOutAlongM;
};

template <class T, class I, class A, class B, class E>
NACRE_INLINE void gemm(I batches, I m, I n, I k, A a, B b, E epilogue) {
  constexpr int kThreads = 256, kDepth = 16, kPartial = 128;
  constexpr int kM = T::rows, kN = T::columns;
  // Threads side by side along the side that results lie along.
  constexpr int kAcross = 16, kTM = kM / 16, kTN = kN / 16;
  constexpr int kALoads = kM * kDepth / kThreads, kBLoads = kN * kDepth / kThreads;
  __shared__ float as[2][kDepth][kM + 4], bs[2][kDepth][kN + 4];
  const int thread = threadIdx.x;
  const int tm = T::out_along_m ? thread % kAcross : thread / kAcross, tn = T::out_along_m ? thread / kAcross : thread % kAcross;
  const I tiles_m = (m + kM - 1) / kM, tiles_n = (n + kN - 1) / kN, tiles = batches * tiles_m * tiles_n;
  for (I tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const I batch = tile / (tiles_m * tiles_n), m0 = tile % tiles_m * kM, n0 = tile / tiles_m % tiles_n * kN;
    float next_a[kALoads], next_b[kBLoads];
    const auto load = [&](I k0) {
      NACRE_UNROLL for (int i = 0; i < kALoads; ++i) {
        const int at = thread + i * kThreads, row = T::a_along_k ? at / kDepth : at % kM, term = T::a_along_k ? at % kDepth : at / kM;
        next_a[i] = m0 + row < m && k0 + term < k ? a(batch, m0 + row, k0 + term) : 0.f;
      }
      NACRE_UNROLL for (int i = 0; i < kBLoads; ++i) {
        const int at = thread + i * kThreads, column = T::b_along_k ? at / kDepth : at % kN, term = T::b_along_k ? at % kDepth : at / kN;
        next_b[i] = n0 + column < n && k0 + term < k ? b(batch, k0 + term, n0 + column) : 0.f;
      }
    };
    const auto keep = [&](int stage) {
      NACRE_UNROLL for (int i = 0; i < kALoads; ++i) {
        const int at = thread + i * kThreads;
        as[stage][T::a_along_k ? at % kDepth : at / kM][T::a_along_k ? at / kDepth : at % kM] = next_a[i];
      }
      NACRE_UNROLL for (int i = 0; i < kBLoads; ++i) {
        const int at = thread + i * kThreads;
        bs[stage][T::b_along_k ? at % kDepth : at / kN][T::b_along_k ? at / kDepth : at % kN] = next_b[i];
      }
    };
    float total[kTM][kTN] = {}, part[kTM][kTN] = {};
    load(0);
    keep(0);
    __syncthreads();
    int stage = 0;
    for (I k0 = 0; k0 < k; k0 += kDepth) {
      const bool more = k0 + kDepth < k;
      if (more) load(k0 + kDepth);
      NACRE_UNROLL for (int term = 0; term < kDepth; ++term) {
        float x[kTM], y[kTN];
        NACRE_UNROLL for (int i = 0; i < kTM; ++i) x[i] = as[stage][term][T::out_along_m ? tm + i * kAcross : tm * kTM + i];
        NACRE_UNROLL for (int j = 0; j < kTN; ++j) y[j] = bs[stage][term][T::out_along_m ? tn * kTN + j : tn + j * kAcross];
        NACRE_UNROLL for (int i = 0; i < kTM; ++i) {
          NACRE_UNROLL for (int j = 0; j < kTN; ++j) part[i][j] = fmaf(x[i], y[j], part[i][j]);
        }
      }
      if ((k0 + kDepth) % kPartial == 0 || !more) {
        NACRE_UNROLL for (int i = 0; i < kTM; ++i) {
          NACRE_UNROLL for (int j = 0; j < kTN; ++j) {
            total[i][j] += part[i][j];
            part[i][j] = 0;
          }
        }
      }
      if (more) keep(1 - stage);
      __syncthreads();
      stage = 1 - stage;
    }
    NACRE_UNROLL for (int i = 0; i < kTM; ++i) {
      NACRE_UNROLL for (int j = 0; j < kTN; ++j) {
        const I row = m0 + (T::out_along_m ? tm + i * kAcross : tm * kTM + i), column = n0 + (T::out_along_m ? tn * kTN + j : tn + j * kAcross);
        if (row < m && column < n) epilogue(batch, row, column, total[i][j]);
      }
    }
  }
}

}  // namespace nk
#endif
