// softmax(q k^T * scale + mask) v of 16-bit floats on tensor cores, with the softmax kept up from one tile of keys to the next.
//
//   attention_half<kDepth, kCausal, kBFloat, kDown, kAcross, kPieces>(batches, s, t, scale, nothing, q, k, v, mask, epilogue)
//     q(batch, s, d), k(batch, t, d), v(batch, t, e)   the address of 8 elements along d or e, a multiple of 16
//     mask(batch, s, t)                                what is added to a score
//     epilogue(batch, s, e, values)                    takes each result once: 8 at a time, along e, or one; a row that sees nothing is `nothing`
//
// kDepth, of d and e, is a multiple of 16 and at most 128. Each of kDown * kAcross warps takes 16 rows; those side by side share the
// keys. Dynamic shared memory: attention_bytes in codegen.
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

}  // namespace detail

template <int kDepth, bool kCausal, bool kBFloat, int kDown, int kAcross, int kPieces, class I, class Q, class K, class V, class M, class E>
NACRE_INLINE void attention_half(I batches, I s, I t, float scale, float nothing, Q q, K k, V v, M mask, E epilogue) {
  using namespace detail;
  constexpr int kThreads = 32 * kDown * kAcross, kRows = 16 * kDown, kKeys = kDepth > 64 ? 32 : 64, kPitch = kDepth + 8, kColumns = kDepth / 8, kStages = 2;
  constexpr int kStep = kAcross * kKeys, kTile = kStep * kPitch * 2, kResults = kDepth + 8;
  constexpr float kLog2 = 1.44269504f;
  const float kNothing = -__builtin_inff();
  extern __shared__ char dynamic_memory[];
  __shared__ float2 sums[kAcross][kRows];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, down = warp % kDown, across = warp / kDown;
  const uint32_t base = (shared_address(dynamic_memory) + 15) & ~15u, at_q = base + kStages * 2 * kTile;
  float* const results = reinterpret_cast<float*>(dynamic_memory + (base - shared_address(dynamic_memory)));
  const I tiles = (s + kRows - 1) / kRows;
  for (I work = blockIdx.x; work < batches * tiles; work += gridDim.x) {
    const I batch = work / tiles, s0 = work % tiles * kRows;
    const I end = kCausal && s0 + kRows < t ? s0 + kRows : t;
    const int steps = static_cast<int>((end + kStep - 1) / kStep);
    const auto load = [&](int step) {
      const uint32_t at_k = base + step % kStages * 2 * kTile, at_v = at_k + kTile;
      NACRE_UNROLL for (int i = 0; i < kStep * kColumns / kThreads; ++i) {
        const int at = thread + i * kThreads, row = at / kColumns, column = at % kColumns;
        const I key = I(step) * kStep + row;
        copy_later(at_k + (row * kPitch + column * 8) * 2, key < t ? k(batch, key, I(column * 8)) : nullptr);
        copy_later(at_v + (row * kPitch + column * 8) * 2, key < t ? v(batch, key, I(column * 8)) : nullptr);
      }
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
      const I t0 = I(step) * kStep + across * kKeys;
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
    for (int i = thread; i < kRows * kColumns; i += kThreads) {
      const int row = i / kColumns, column = i % kColumns * 8;
      if (s0 + row >= s) continue;
      float greatest = kNothing, sum = 0, values[8] = {};
      NACRE_UNROLL for (int part = 0; part < kAcross; ++part) greatest = fmaxf(greatest, sums[part][row].x);
      NACRE_UNROLL for (int part = 0; part < kAcross; ++part) {
        const float2 own = sums[part][row];
        const float weight = own.x == kNothing && own.y == own.y ? 0.f : power_of_two(own.x - greatest);
        sum += own.y * weight;
        NACRE_UNROLL for (int e = 0; e < 8; ++e) values[e] += results[(part * kRows + row) * kResults + column + e] * weight;
      }
      NACRE_UNROLL for (int e = 0; e < 8; ++e) values[e] = sum == 0 ? nothing : values[e] / sum;
      if constexpr (kPieces == 8) {
        epilogue(batch, s0 + row, I(column), values);
      } else {
        NACRE_UNROLL for (int e = 0; e < 8; ++e) epilogue(batch, s0 + row, I(column + e), values[e]);
      }
    }
  }
}

}  // namespace nk
#endif
