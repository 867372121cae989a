// Products of matrices of 16-bit floats on tensor cores, accumulated in float32: what mma.sync, ldmatrix and cp.async do on sm_80
// and later.
//
//   gemm_half<HalfTile<kRows, kColumns, kBAlongK, kBFloat>>(batches, m, n, k, splits, a, b, epilogue, launch)
//     a(batch, m, k), b(batch, n, k)   the address of 8 elements along k, which must be a multiple of 16; or null: zeros. B may
//                                      instead lie along n (kBAlongK false): b(batch, n, k) is then of 8 elements along n
//     epilogue(batch, m, n, float)     takes each result once
//     splits                           blocks that share the terms of a tile; their parts go through scratch, and the last one
//                                      to come adds them
//
// k is a multiple of 8 (n, if B lies along n). A block of 128 threads: 4 warps, each a quarter of the tile.
#ifndef NACRE_DEVICE_MMA_H
#define NACRE_DEVICE_MMA_H
#include "nacre/cuda_base.h"

namespace nk {

template <int kRows, int kColumns, bool kBAlongK, bool kBFloat>
struct HalfTile {
  static constexpr int rows = kRows, columns = kColumns;
  static constexpr bool b_along_k = kBAlongK, bfloat = kBFloat;
};

namespace detail {

NACRE_INLINE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// 16 bytes to shared memory; zeros from nowhere.
NACRE_INLINE void copy_later(uint32_t to, const void* from) {
  const int bytes = from ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from ? __cvta_generic_to_global(from) : 0ull), "r"(bytes) : "memory");
}
NACRE_INLINE void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kOpen>
NACRE_INLINE void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

NACRE_INLINE void load_matrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
NACRE_INLINE void load_matrices_turned(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

template <bool kBFloat>
NACRE_INLINE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kBFloat)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace detail

template <class T, class I, class A, class B, class E>
NACRE_INLINE void gemm_half(I batches, I m, I n, I k, int splits, A a, B b, E epilogue, const Launch& launch) {
  using namespace detail;
  constexpr int kThreads = 128, kDepth = 32, kM = T::rows, kN = T::columns, kStages = kM + kN > 128 ? 3 : 4;
  constexpr int kWarpsM = kM >= 64 ? 2 : 1, kWarpsN = 4 / kWarpsM;
  constexpr int kWM = kM / kWarpsM, kWN = kN / kWarpsN, kFM = kWM / 16, kFN = kWN / 8;
  static_assert(kFM >= 1 && kFN >= 2 && kFN % 2 == 0);
  // Rows of 32 elements (4 pieces of 16 bytes): pieces change places so that 8 rows of a matrix lie in different banks. Where B
  // lies along n, its rows are padded instead.
  constexpr int kBPitch = T::b_along_k ? kDepth : kN + 8;
  constexpr int kABytes = kM * kDepth * 2, kBBytes = (T::b_along_k ? kN * kDepth : kDepth * kBPitch) * 2;
  __shared__ alignas(128) char memory[kStages * (kABytes + kBBytes)];
  __shared__ bool last;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int wm = warp % kWarpsM * kWM, wn = warp / kWarpsM * kWN;
  const uint32_t base = shared_address(memory);
  const auto piece = [](int row, int column) { return static_cast<uint32_t>(row * 64 + ((column ^ (row >> 1 & 3)) << 4)); };
  const I tiles_m = (m + kM - 1) / kM, tiles_n = (n + kN - 1) / kN, tiles = batches * tiles_m * tiles_n;
  const I steps = (k + kDepth - 1) / kDepth;
  for (I work = blockIdx.x; work < tiles * splits; work += gridDim.x) {
    const I tile = work / splits;
    const int split = static_cast<int>(work % splits);
    const I batch = tile / (tiles_m * tiles_n), m0 = tile % tiles_m * kM, n0 = tile / tiles_m % tiles_n * kN;
    const I first = steps * split / splits, end = steps * (split + 1) / splits;
    const auto load = [&](I step, int stage) {
      const uint32_t to_a = base + stage * (kABytes + kBBytes), to_b = to_a + kABytes;
      const I k0 = step * kDepth;
      NACRE_UNROLL for (int i = 0; i < kM * 4 / kThreads; ++i) {
        const int at = thread + i * kThreads, row = at / 4, column = at % 4;
        const I term = k0 + column * 8;
        copy_later(to_a + piece(row, column), m0 + row < m && term < k ? a(batch, m0 + row, term) : nullptr);
      }
      if constexpr (T::b_along_k) {
        NACRE_UNROLL for (int i = 0; i < kN * 4 / kThreads; ++i) {
          const int at = thread + i * kThreads, row = at / 4, column = at % 4;
          const I term = k0 + column * 8;
          copy_later(to_b + piece(row, column), n0 + row < n && term < k ? b(batch, n0 + row, term) : nullptr);
        }
      } else {
        constexpr int kPieces = kN / 8;
        NACRE_UNROLL for (int i = 0; i < kDepth * kPieces / kThreads; ++i) {
          const int at = thread + i * kThreads, row = at / kPieces, column = at % kPieces;
          copy_later(to_b + row * kBPitch * 2 + column * 16, k0 + row < k && n0 + column * 8 < n ? b(batch, n0 + column * 8, k0 + row) : nullptr);
        }
      }
    };
    float sums[kFM][kFN][4] = {};
    __syncthreads();
    NACRE_UNROLL for (int s = 0; s < kStages - 1; ++s) {
      if (first + s < end) load(first + s, s);
      close_copies();
    }
    int stage = 0;
    for (I step = first; step < end; ++step) {
      await_copies<kStages - 2>();
      __syncthreads();
      if (step + kStages - 1 < end) load(step + kStages - 1, (stage + kStages - 1) % kStages);
      close_copies();
      const uint32_t from_a = base + stage * (kABytes + kBBytes), from_b = from_a + kABytes;
      NACRE_UNROLL for (int half = 0; half < 2; ++half) {
        uint32_t x[kFM][4], y[kFN / 2][4];
        NACRE_UNROLL for (int i = 0; i < kFM; ++i) load_matrices(x[i], from_a + piece(wm + i * 16 + lane % 16, half * 2 + lane / 16));
        NACRE_UNROLL for (int j = 0; j < kFN / 2; ++j) {
          if constexpr (T::b_along_k)
            load_matrices(y[j], from_b + piece(wn + j * 16 + lane % 8 + lane / 16 * 8, half * 2 + lane / 8 % 2));
          else
            load_matrices_turned(y[j], from_b + ((half * 16 + lane % 16) * kBPitch + wn + j * 16 + lane / 16 * 8) * 2);
        }
        NACRE_UNROLL for (int i = 0; i < kFM; ++i) {
          NACRE_UNROLL for (int j = 0; j < kFN; ++j) multiply<T::bfloat>(sums[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
        }
      }
      stage = (stage + 1) % kStages;
    }
    if (splits > 1) {
      // Parts lie in the order of threads, so that each reads what the same thread of another block wrote.
      constexpr int kPart = kFM * kFN * 4;
      float* const parts = reinterpret_cast<float*>(launch.scratch) + i64(tile) * splits * (kPart * kThreads);
      NACRE_UNROLL for (int i = 0; i < kPart; ++i) parts[(split * kPart + i) * kThreads + thread] = sums[i / (kFN * 4)][i / 4 % kFN][i % 4];
      __threadfence();
      __syncthreads();
      if (thread == 0) last = atomicAdd(&launch.counters[tile], 1u) == static_cast<unsigned>(splits - 1);
      __syncthreads();
      if (!last) continue;
      __threadfence();
      if (thread == 0) launch.counters[tile] = 0;
      NACRE_UNROLL for (int i = 0; i < kPart; ++i) {
        float sum = 0;
        for (int s = 0; s < splits; ++s) sum += parts[(s * kPart + i) * kThreads + thread];
        sums[i / (kFN * 4)][i / 4 % kFN][i % 4] = sum;
      }
    }
    NACRE_UNROLL for (int i = 0; i < kFM; ++i) {
      NACRE_UNROLL for (int j = 0; j < kFN; ++j) {
        NACRE_UNROLL for (int e = 0; e < 4; ++e) {
          const I row = m0 + wm + i * 16 + lane / 4 + e / 2 * 8, column = n0 + wn + j * 8 + lane % 4 * 2 + e % 2;
          if (row < m && column < n) epilogue(batch, row, column, sums[i][j][e]);
        }
      }
    }
  }
}

}  // namespace nk
#endif
