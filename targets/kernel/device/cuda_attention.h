// softmax(q k^T * scale + mask) v of 16-bit floats on tensor cores, with the softmax kept up from one tile of keys to the next.
//
//   attention_half<kDepth, kCausal, kBFloat, kDown, kAcross, kKeys, kSplits, kPieces>(batches, s, t, scale, nothing, q, k, v, mask, epilogue)
//     q(batch, s, d), k(batch, t, d), v(batch, t, e)   the address of 8 elements along d or e, a multiple of 16; of k and v, they may be
//                                                      float32
//     mask(batch, s, t)                                what is added to a score
//     epilogue(batch, s, e, value)                     takes each result once, or epilogue(batch, s, e)(values) 8 at a time, along e, if
//                                                      kPieces is 8; a row that sees nothing is `nothing`
//
// kDepth, of d and e, is a multiple of 16 and at most 128. Each of kDown * kAcross warps takes 16 rows and kKeys keys at a time; those
// side by side share the keys, and so do the kSplits blocks of a cluster. Dynamic shared memory: as codegen computes it.
#ifndef NACRE_DEVICE_ATTENTION_H
#define NACRE_DEVICE_ATTENTION_H
#include "nacre/cuda_math.h"
#include "nacre/cuda_mma.h"

namespace nk {

namespace detail {

template <class F>
NACRE_INLINE float fold_quad(float x, F f) {
  x = f(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return f(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

NACRE_INLINE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Pieces of 8 elements to shared memory as 16-bit floats; zeros from nowhere. `to` and `from` of each of kCount that is there.
template <bool kBFloat, int kCount, class To, class From, class There>
NACRE_INLINE void copy_pieces(To to, From from, There there) {
  using T = decltype(from(0));
  if constexpr (sizeof(*static_cast<T>(nullptr)) == 2) {
    NACRE_UNROLL for (int i = 0; i < kCount; ++i) {
      if (there(i)) copy_later(to(i), from(i));
    }
  } else {
    Piece<float> pieces[kCount];
    NACRE_UNROLL for (int i = 0; i < kCount; ++i) {
      const float* const place = from(i);
      pieces[i] = load_piece_if(place != nullptr, place);
    }
    NACRE_UNROLL for (int i = 0; i < kCount; ++i) {
      if (!there(i)) continue;
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to(i)), "r"(packed<kBFloat>(pieces[i][0], pieces[i][1])), "r"(packed<kBFloat>(pieces[i][2], pieces[i][3])),
                   "r"(packed<kBFloat>(pieces[i][4], pieces[i][5])), "r"(packed<kBFloat>(pieces[i][6], pieces[i][7]))
                   : "memory");
    }
  }
}

// What is left of a value with the maximum `own` where `greatest` is that of all.
NACRE_INLINE float weight_of(float own, float greatest) { return own == -__builtin_inff() ? 0.f : power_of_two(own - greatest); }

}  // namespace detail

template <int kDepth, bool kCausal, bool kBFloat, int kDown, int kAcross, int kKeys, int kSplits, int kPieces, class I, class Q, class K, class V, class M, class E>
NACRE_INLINE void attention_half(I batches, I s, I t, float scale, float nothing, Q q, K k, V v, M mask, E epilogue) {
  using namespace detail;
  constexpr int kThreads = 32 * kDown * kAcross, kRows = 16 * kDown, kPitch = kDepth + 8, kColumns = kDepth / 8, kStages = 2;
  constexpr int kStep = kAcross * kKeys, kTile = kStep * kPitch * 2, kResults = kDepth + 8;
  constexpr float kLog2 = 1.44269504f;
  const float kNothing = -__builtin_inff();
  extern __shared__ char dynamic_memory[];
  __shared__ float2 sums[kAcross][kRows];
  [[maybe_unused]] __shared__ float2 own_sums[kRows];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, down = warp % kDown, across = warp / kDown;
  const uint32_t base = (shared_address(dynamic_memory) + 15) & ~15u, at_q = base + kStages * 2 * kTile;
  float* const results = reinterpret_cast<float*>(dynamic_memory + (base - shared_address(dynamic_memory)));
  const I tiles = (s + kRows - 1) / kRows;
  const int rank = blockIdx.x % kSplits;
  for (I work = blockIdx.x / kSplits; work < batches * tiles; work += gridDim.x / kSplits) {
    const I batch = work / tiles, s0 = work % tiles * kRows;
    const I end = kCausal && s0 + kRows < t ? s0 + kRows : t;
    const int all_steps = static_cast<int>((end + kStep - 1) / kStep), first = all_steps * rank / kSplits, steps = all_steps * (rank + 1) / kSplits - first;
    const auto load = [&](int step) {
      const uint32_t at_k = base + step % kStages * 2 * kTile, at_v = at_k + kTile;
      const auto row = [&](int i) { return (thread + i * kThreads) / kColumns; };
      const auto column = [&](int i) { return (thread + i * kThreads) % kColumns * 8; };
      const auto place = [&](uint32_t at) { return [=](int i) { return at + (row(i) * kPitch + column(i)) * 2; }; };
      const auto key = [&](int i) { return I(first + step) * kStep + row(i); };
      // The last round of a depth that is no power of two may have fewer pieces than threads.
      constexpr int kTilePieces = kStep * kColumns, kCount = (kTilePieces + kThreads - 1) / kThreads;
      const auto is_there = [&](int i) { return kTilePieces % kThreads == 0 || i % kCount < kCount - 1 || thread + i % kCount * kThreads < kTilePieces; };
      // Both at once, since what is float32 is in registers on its way.
      const auto both = [&](int i) { return i < kCount ? (key(i) < t ? k(batch, key(i), I(column(i))) : nullptr) : key(i - kCount) < t ? v(batch, key(i - kCount), I(column(i - kCount))) : nullptr; };
      copy_pieces<kBFloat, 2 * kCount>([&](int i) { return i < kCount ? place(at_k)(i) : place(at_v)(i - kCount); }, both, is_there);
    };
    __syncthreads();
    for (int i = thread; i < kRows * kColumns; i += kThreads) {
      const int row = i / kColumns, column = i % kColumns;
      copy_later(at_q + (row * kPitch + column * 8) * 2, s0 + row < s ? q(batch, s0 + row, I(column * 8)) : nullptr);
    }
    NACRE_UNROLL for (int step = 0; step < kStages; ++step) {
      if (step < steps) load(step);
      close_copies();
    }
    float most[2] = {kNothing, kNothing}, total[2] = {0, 0}, out[kColumns][4] = {};
    uint32_t x[kDepth / 16][4];
    for (int step = 0; step < steps; ++step) {
      // What is added comes from anywhere: it is on its way before the products, and of somewhere where there is no such score.
      const I t0 = I(first + step) * kStep + across * kKeys;
      float added[kKeys / 8][4];
      NACRE_UNROLL for (int j = 0; j < kKeys / 8; ++j) {
        NACRE_UNROLL for (int e = 0; e < 4; ++e) {
          const I row = s0 + down * 16 + lane / 4 + e / 2 * 8, key = t0 + j * 8 + lane % 4 * 2 + e % 2;
          added[j][e] = mask(batch, row < s ? row : s - 1, key < t ? key : t - 1);
        }
      }
      await_copies<kStages - 1>();
      __syncthreads();
      if (step == 0) {
        NACRE_UNROLL for (int d = 0; d < kDepth / 16; ++d) load_matrices(x[d], at_q + ((down * 16 + lane % 16) * kPitch + d * 16 + lane / 16 * 8) * 2);
      }
      const uint32_t at_k = base + step % kStages * 2 * kTile + across * kKeys * kPitch * 2, at_v = at_k + kTile;
      if (t0 < end) {
        float score[kKeys / 8][4] = {};
        NACRE_UNROLL for (int d = 0; d < kDepth / 16; ++d) {
          NACRE_UNROLL for (int j = 0; j < kKeys / 16; ++j) {
            uint32_t y[4];
            load_matrices(y, at_k + ((j * 16 + lane % 8 + lane / 16 * 8) * kPitch + d * 16 + lane / 8 % 2 * 8) * 2);
            multiply<kBFloat>(score[2 * j], x[d], y[0], y[1]);
            multiply<kBFloat>(score[2 * j + 1], x[d], y[2], y[3]);
          }
        }
        float next[2] = {most[0], most[1]};
        NACRE_UNROLL for (int j = 0; j < kKeys / 8; ++j) {
          NACRE_UNROLL for (int e = 0; e < 4; ++e) {
            const I row = s0 + down * 16 + lane / 4 + e / 2 * 8, key = t0 + j * 8 + lane % 4 * 2 + e % 2;
            const bool seen = key < t && row < s && (!kCausal || key <= row);
            score[j][e] = seen ? (score[j][e] * scale + added[j][e]) * kLog2 : kNothing;
            next[e / 2] = fmaxf(next[e / 2], score[j][e]);
          }
        }
        NACRE_UNROLL for (int r = 0; r < 2; ++r) {
          next[r] = fold_quad(next[r], [](float a, float b) { return fmaxf(a, b); });
          const float shrink = next[r] == kNothing ? 1.f : power_of_two(most[r] - next[r]);
          most[r] = next[r];
          total[r] *= shrink;
          NACRE_UNROLL for (int j = 0; j < kColumns; ++j) {
            out[j][2 * r] *= shrink;
            out[j][2 * r + 1] *= shrink;
          }
        }
        NACRE_UNROLL for (int j = 0; j < kKeys / 8; ++j) {
          NACRE_UNROLL for (int e = 0; e < 4; ++e) {
            score[j][e] = most[e / 2] == kNothing && score[j][e] == score[j][e] ? 0.f : power_of_two(score[j][e] - most[e / 2]);
            total[e / 2] += score[j][e];
          }
        }
        NACRE_UNROLL for (int j = 0; j < kKeys / 16; ++j) {
          const uint32_t p[4] = {packed<kBFloat>(score[2 * j][0], score[2 * j][1]), packed<kBFloat>(score[2 * j][2], score[2 * j][3]),
                                 packed<kBFloat>(score[2 * j + 1][0], score[2 * j + 1][1]), packed<kBFloat>(score[2 * j + 1][2], score[2 * j + 1][3])};
          NACRE_UNROLL for (int e = 0; e < kDepth / 16; ++e) {
            uint32_t y[4];
            load_matrices_turned(y, at_v + ((j * 16 + lane % 16) * kPitch + e * 16 + lane / 16 * 8) * 2);
            multiply<kBFloat>(out[2 * e], p, y[0], y[1]);
            multiply<kBFloat>(out[2 * e + 1], p, y[2], y[3]);
          }
        }
      }
      __syncthreads();
      if (step + kStages < steps) load(step + kStages);
      close_copies();
    }
    await_copies<0>();
    __syncthreads();
    // Each warp's part of its rows; then all parts of a row together.
    NACRE_UNROLL for (int r = 0; r < 2; ++r) {
      const int row = down * 16 + lane / 4 + r * 8;
      const float sum = fold_quad(total[r], [](float a, float b) { return a + b; });
      if (lane % 4 == 0) sums[across][row] = {most[r], sum};
      NACRE_UNROLL for (int j = 0; j < kColumns; ++j)
        *reinterpret_cast<float2*>(results + (across * kRows + row) * kResults + j * 8 + lane % 4 * 2) = {out[j][2 * r], out[j][2 * r + 1]};
    }
    __syncthreads();
    const auto give = [&](int row, int column, float sum, float (&values)[8]) {
      NACRE_UNROLL for (int e = 0; e < 8; ++e) values[e] = sum == 0 ? nothing : values[e] / sum;
      if constexpr (kPieces == 8) {
        epilogue(batch, s0 + row, I(column))(values);
      } else {
        NACRE_UNROLL for (int e = 0; e < 8; ++e) epilogue(batch, s0 + row, I(column + e), values[e]);
      }
    };
    for (int i = thread; i < kRows * kColumns; i += kThreads) {
      const int row = i / kColumns, column = i % kColumns * 8;
      if (s0 + row >= s) continue;
      float greatest = kNothing, sum = 0, values[8] = {};
      NACRE_UNROLL for (int part = 0; part < kAcross; ++part) greatest = fmaxf(greatest, sums[part][row].x);
      NACRE_UNROLL for (int part = 0; part < kAcross; ++part) {
        const float2 own = sums[part][row];
        const float weight = weight_of(own.x, greatest);
        sum += own.y * weight;
        NACRE_UNROLL for (int e = 0; e < 8; ++e) values[e] += results[(part * kRows + row) * kResults + column + e] * weight;
      }
      if constexpr (kSplits == 1) {
        give(row, column, sum, values);
      } else {
        NACRE_UNROLL for (int e = 0; e < 8; ++e) results[row * kResults + column + e] = values[e];
        if (column == 0) own_sums[row] = {greatest, sum};
      }
    }
    if constexpr (kSplits > 1) {
      // Each block of the cluster takes some of the results, from all of them.
      sync_cluster();
      for (int i = rank * kThreads + thread; i < kRows * kColumns; i += kSplits * kThreads) {
        const int row = i / kColumns, column = i % kColumns * 8;
        if (s0 + row >= s) continue;
        const uint32_t at_sums = shared_address(&own_sums[row]), there = base + (row * kResults + column) * 4;
        float most_of[kSplits], greatest = kNothing, sum = 0, values[8] = {};
        NACRE_UNROLL for (int part = 0; part < kSplits; ++part) {
          most_of[part] = load_one_of_block(at_sums, part);
          greatest = fmaxf(greatest, most_of[part]);
        }
        NACRE_UNROLL for (int part = 0; part < kSplits; ++part) {
          const float weight = weight_of(most_of[part], greatest);
          const float4 low = load_of_block(there, part), high = load_of_block(there + 16, part);
          sum += load_one_of_block(at_sums + 4, part) * weight;
          values[0] += low.x * weight, values[1] += low.y * weight, values[2] += low.z * weight, values[3] += low.w * weight;
          values[4] += high.x * weight, values[5] += high.y * weight, values[6] += high.z * weight, values[7] += high.w * weight;
        }
        give(row, column, sum, values);
      }
      sync_cluster();
    }
  }
}

}  // namespace nk
#endif
