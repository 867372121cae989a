// Products of matrices of 16-bit floats whose operands the copy engine brings, by tensor maps (sm_90): one warp has it bring tiles, and
// warpgroups multiply them (by wgmma, where the code is for sm_90a). A block stays for several tiles, and while it writes results, the next tile's operands come.
//
//   gemm_mapped<MappedTile>(batches, m, n, steps, a, columns, epilogue)
//     steps                            of 64 terms; what is not there is zeros
//     a(batch, m)(step, to, barrier)   has a tile of rows brought: bring_matrix or bring_pixels
//     columns                          the map of the other operand, as bring_columns wants it
//     epilogue(batch, m, n)(values)    takes 8 results at a time, along n: the first call loads what it needs
//
//   MappedTile<kWarpgroups, kColumns, kStages, kSplits, kBFloat, kWeights>
//     kWarpgroups   of 64 rows each, beside the warp that brings
//     kSplits       blocks of a cluster, which share the terms of a tile
//     kWeights      `columns` are there before the kernels ahead of this one are done
//
// n is a multiple of 32. A block has kWarpgroups * 128 + 32 threads, and kStages * (kWarpgroups * 64 + kColumns) * 128 + 1024 bytes of
// dynamic shared memory, and where a tile is shared, (kSplits - 1) / kSplits of 4 bytes for each of its results.
#ifndef NACRE_DEVICE_MAPPED_H
#define NACRE_DEVICE_MAPPED_H
#include "nacre/cuda_mma.h"

namespace nk {

// As the driver encodes it.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

template <int kGroups, int kColumns, int kDeep, int kParts, bool kBFloat, bool kConstant>
struct MappedTile {
  static constexpr int warpgroups = kGroups, rows = kGroups * 64, columns = kColumns, stages = kDeep, splits = kParts;
  static constexpr bool bfloat = kBFloat, weights = kConstant;
};

#if __CUDA_ARCH__ >= 900
namespace detail {

NACRE_INLINE void open_barrier(uint32_t at, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory"); }
NACRE_INLINE void expect_bytes(uint32_t at, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory"); }
NACRE_INLINE void arrive_at(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
NACRE_INLINE void await_phase(uint32_t at, int phase) {
  asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::"r"(at), "r"(phase) : "memory");
}

NACRE_INLINE void store_of_block(uint32_t at, int block, const float (&x)[4]) {
  asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nst.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n}\n" ::"r"(at), "r"(block), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

// 64 terms of 16 rows of each warp, and of all columns.
#ifdef NACRE_WARPGROUPS
constexpr int kWarpsArrive = 4;  // together
template <class T>
NACRE_INLINE void multiply_step(float (&sums)[T::columns / 8][4], uint32_t a, uint32_t b) {
  open_products();
  NACRE_UNROLL for (int quarter = 0; quarter < 4; ++quarter)
    multiply_wide<T::bfloat, false>(sums, described(a + threadIdx.x / 128 * 8192 + quarter * 32), described(b + quarter * 32));
  close_products();
  await_products<1>();
}
template <class T>
NACRE_INLINE void end_steps(float (&sums)[T::columns / 8][4]) {
  await_products<0>();
  NACRE_UNROLL for (int i = 0; i < T::columns / 2; ++i) asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");  // they are read from here on
}
#else
constexpr int kWarpsArrive = 1;
template <class T>
NACRE_INLINE void multiply_step(float (&sums)[T::columns / 8][4], uint32_t a, uint32_t b) {
  const int lane = threadIdx.x % 32;
  NACRE_UNROLL for (int quarter = 0; quarter < 4; ++quarter) {
    uint32_t x[4];
    load_matrices(x, a + piece_of(threadIdx.x / 32 * 16 + lane % 16, quarter * 2 + lane / 16));
    NACRE_UNROLL for (int j = 0; j < T::columns / 8; j += 2) {
      uint32_t y[4];
      load_matrices(y, b + piece_of(j * 8 + lane % 8 + lane / 16 * 8, quarter * 2 + lane / 8 % 2));
      multiply<T::bfloat>(sums[j], x, y[0], y[1]);
      multiply<T::bfloat>(sums[j + 1], x, y[2], y[3]);
    }
  }
  __syncwarp();
}
template <class T>
NACRE_INLINE void end_steps(float (&)[T::columns / 8][4]) {}
#endif

// Of the map of columns: 64 terms of the tile's. They lie in another order, so that eight neighbours become results of one thread: bits 1
// and 2 of a column's number change places with bits 3 and 4.
NACRE_INLINE void bring_columns(const TensorMap& map, uint32_t to, uint32_t barrier, int term, int column) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %3, %3, %4}], [%5];" ::"r"(to), "l"(&map), "r"(term), "r"(0), "r"(column / 32), "r"(barrier)
               : "memory");
}

}  // namespace detail

// 64 terms of rows from `row` on, as many as the map says.
NACRE_INLINE void bring_matrix(const TensorMap& map, uint32_t to, uint32_t barrier, int term, int row, int batch) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(&map), "r"(term), "r"(row), "r"(batch), "r"(barrier)
               : "memory");
}
// 64 channels of a filter's tap of pixels one after the other, from the one whose first tap is at (x, y) of the image.
NACRE_INLINE void bring_pixels(const TensorMap& map, uint32_t to, uint32_t barrier, int channel, int x, int y, int image, int across, int down) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to), "l"(&map), "r"(channel), "r"(x), "r"(y),
               "r"(image), "r"(barrier), "h"(static_cast<uint16_t>(across)), "h"(static_cast<uint16_t>(down))
               : "memory");
}

template <class T, class I, class A, class E>
NACRE_INLINE void gemm_mapped(I batches, I m, I n, int steps, A a, const TensorMap& columns, E epilogue) {
  using namespace detail;
  constexpr int kM = T::rows, kN = T::columns, kStages = T::stages, kSplits = T::splits, kABytes = kM * 128, kBBytes = kN * 128, kDown = 8;
  constexpr int kPieces = kN / 16;  // of 8 results that a thread has: of each 32 columns, one in each of two rows
  static_assert(kN % (32 * kSplits) == 0);
  extern __shared__ char dynamic_memory[];
  __shared__ uint64_t barriers[2 * kStages];
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32, rank = blockIdx.x % kSplits;
  const uint32_t base = (shared_address(dynamic_memory) + 1023) & ~1023u, full = shared_address(barriers), empty = full + kStages * 8;
  const auto at_a = [&](int stage) { return base + stage * (kABytes + kBBytes); };
  const auto at_b = [&](int stage) { return at_a(stage) + kABytes; };
  // Tiles in an order in which those at one time share what they read.
  const I down = (m + kM - 1) / kM, across = (n + kN - 1) / kN, tiles = batches * down * across;
  struct Place {
    I batch, m, n;
  };
  const auto place_of = [&](I tile) {
    const I within = tile % (down * across), band = within / (kDown * across) * kDown, rest = within - band * across, height = down - band < kDown ? down - band : kDown;
    return Place{tile / (down * across), (band + rest % height) * kM, rest / height * kN};
  };
  if (threadIdx.x == 0) {
    NACRE_UNROLL for (int s = 0; s < kStages; ++s) {
      open_barrier(full + s * 8, 1);
      open_barrier(empty + s * 8, T::warpgroups * 4 / kWarpsArrive);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  kSplits > 1 ? sync_cluster() : __syncthreads();
  const I first = blockIdx.x / kSplits, every = gridDim.x / kSplits;
  const int begin = steps * rank / kSplits, end = steps * (rank + 1) / kSplits;
  if (warp == T::warpgroups * 4) {
    if (lane == 0) {
      int stage = 0, phase = 0, filled = 0;
      const auto bring_b = [&](I n0, int step) {
        expect_bytes(full + stage * 8, kABytes + kBBytes);
        bring_columns(columns, at_b(stage), full + stage * 8, step * 64, n0);
      };
      if (T::weights && first < tiles) {
        for (const I n0 = place_of(first).n; filled < kStages && begin + filled < end; ++filled, ++stage) bring_b(n0, begin + filled);
        stage = 0;
      }
      await_previous();
      for (I tile = first; tile < tiles; tile += every) {
        const Place at = place_of(tile);
        const auto rows = a(at.batch, at.m);
        for (int step = begin; step < end; ++step) {
          if (filled > 0) {
            --filled;
          } else {
            await_phase(empty + stage * 8, phase ^ 1);
            bring_b(at.n, step);
          }
          rows(step, at_a(stage), full + stage * 8);
          if (++stage == kStages) stage = 0, phase ^= 1;
        }
      }
    }
    __syncwarp();
    if (kSplits > 1)
      for (I tile = first; tile < tiles; tile += every) sync_cluster();
  } else {
    int stage = 0, phase = 0;
    await_previous();
    for (I tile = first; tile < tiles; tile += every) {
      const Place at = place_of(tile);
      // Results 8 at a time: pieces of two rows, then of the columns 32 further on; of a shared tile, each block takes every kSplits-th 32.
      constexpr int kOwn = kPieces / kSplits, kTogether = kOwn < 4 || kOwn % 4 != 0 ? 2 : 4;
      const I row = at.m + warp * 16 + lane / 4, column = at.n + rank * 32 + lane % 4 * 8;
      const auto row_of = [&](int i) { return row + i % 2 * 8; };
      const auto column_of = [&](int i) { return column + i / 2 * (32 * kSplits); };
      const auto prepare = [&](int from) {
        return several([&](int i) { return epilogue(at.batch, row_of(i) < m ? row_of(i) : m - 1, column_of(from + i) < n ? column_of(from + i) : n - 8); }, typename Below<kTogether>::type());
      };
      float sums[kN / 8][4] = {};
      const auto finish = [&](const auto& prepared, int from) {
        NACRE_UNROLL for (int i = 0; i < kTogether; ++i) {
          float values[8];
          NACRE_UNROLL for (int e = 0; e < 8; ++e) values[e] = sums[(from + i) / 2 * 4 + e / 2][i % 2 * 2 + e % 2];
          if (row_of(i) < m && column_of(from + i) < n) prepared.at[i](values);
        }
      };
      const auto multiply_all = [&] {
        int before = -1;
        const auto release = [&] {
          if (before >= 0 && threadIdx.x % (32 * kWarpsArrive) == 0) arrive_at(empty + before * 8);
        };
        for (int step = begin; step < end; ++step) {
          await_phase(full + stage * 8, phase);
          multiply_step<T>(sums, at_a(stage), at_b(stage));
          release();
          before = stage;
          if (++stage == kStages) stage = 0, phase ^= 1;
        }
        end_steps<T>(sums);
        release();
        if constexpr (kSplits > 1) {
          // Pieces to the blocks that want them, in the order of threads; ours become the first.
          const auto there = [&](int from, int piece, int half) { return base + kStages * (kABytes + kBBytes) + (((from * kOwn + piece) * 2 + half) * T::warpgroups * 128 + threadIdx.x) * 16; };
          NACRE_UNROLL for (int i = 0; i < kPieces; ++i) {
            NACRE_UNROLL for (int half = 0; half < 2; ++half) {
              const int j = i / 2 * 4 + half * 2, to = i / 2 % kSplits, e = i % 2 * 2;
              const float part[4] = {sums[j][e], sums[j][e + 1], sums[j + 1][e], sums[j + 1][e + 1]};
              if (to != rank) store_of_block(there(rank < to ? rank : rank - 1, i / 2 / kSplits * 2 + i % 2, half), to, part);
            }
          }
          sync_cluster();
          NACRE_UNROLL for (int i = 0; i < kOwn; ++i) {
            NACRE_UNROLL for (int half = 0; half < 2; ++half) {
              const int j = i / 2 * 4 + half * 2, e = i % 2 * 2;
              float part[4];
              NACRE_UNROLL for (int c = 0; c < 4; ++c) {
                part[c] = 0;
                NACRE_UNROLL for (int s = 0; s < kSplits; ++s) part[c] = s == rank ? sums[i / 2 * 4 * kSplits + s * 4 + half * 2 + c / 2][e + c % 2] : part[c];
              }
              NACRE_UNROLL for (int s = 0; s + 1 < kSplits; ++s) {
                float other[4];
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(other[0]), "=f"(other[1]), "=f"(other[2]), "=f"(other[3]) : "r"(there(s, i, half)) : "memory");
                NACRE_UNROLL for (int c = 0; c < 4; ++c) part[c] += other[c];
              }
              NACRE_UNROLL for (int c = 0; c < 4; ++c) sums[j + c / 2][e + c % 2] = part[c];
            }
          }
        }
      };
      // Where there are registers enough, what the first results need is on its way while products are computed.
      if constexpr (kN <= 128) {
        const auto early = prepare(0);
        multiply_all();
        finish(early, 0);
      } else {
        multiply_all();
        finish(prepare(0), 0);
      }
      NACRE_UNROLL for (int from = kTogether; from < kOwn; from += kTogether) finish(prepare(from), from);
    }
  }
}
#endif

}  // namespace nk
#endif
