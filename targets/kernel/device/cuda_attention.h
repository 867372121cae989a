// softmax(q k^T * scale + mask) v of 16-bit floats on tensor cores, with the softmax kept up from one tile of keys to the next.
//
//   attention_half<kDepth, kCausal, kBFloat>(batches, s, t, scale, q, k, v, mask, epilogue)
//     q(batch, s, d), k(batch, t, d), v(batch, t, e)   the address of 8 elements along d or e, a multiple of 16
//     mask(batch, s, t)                                what is added to a score
//     epilogue(batch, s, e, float)                     takes each result once; a row that sees nothing is 0
//
// kDepth, of d and e, is a multiple of 16 and at most 128. A block of 128 threads takes 64 rows, each warp 16 of them.
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

}  // namespace detail

template <int kDepth, bool kCausal, bool kBFloat, class I, class Q, class K, class V, class M, class E>
NACRE_INLINE void attention_half(I batches, I s, I t, float scale, Q q, K k, V v, M mask, E epilogue) {
  using namespace detail;
  constexpr int kThreads = 128, kRows = 64, kKeys = kDepth > 64 ? 32 : 64, kPitch = kDepth + 8, kPieces = kDepth / 8;
  __shared__ alignas(128) uint16_t qs[kRows * kPitch], ks[kKeys * kPitch], vs[kKeys * kPitch];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const uint32_t at_q = shared_address(qs), at_k = shared_address(ks), at_v = shared_address(vs);
  const I tiles = (s + kRows - 1) / kRows;
  for (I work = blockIdx.x; work < batches * tiles; work += gridDim.x) {
    const I batch = work / tiles, s0 = work % tiles * kRows;
    __syncthreads();
    for (int i = thread; i < kRows * kPieces; i += kThreads) {
      const int row = i / kPieces, column = i % kPieces;
      copy_later(at_q + (row * kPitch + column * 8) * 2, s0 + row < s ? q(batch, s0 + row, I(column * 8)) : nullptr);
    }
    float most[2] = {-__builtin_inff(), -__builtin_inff()}, total[2] = {0, 0}, out[kDepth / 8][4] = {};
    const I end = kCausal && s0 + kRows < t ? s0 + kRows : t;
    for (I t0 = 0; t0 < end; t0 += kKeys) {
      for (int i = thread; i < kKeys * kPieces; i += kThreads) {
        const int row = i / kPieces, column = i % kPieces;
        copy_later(at_k + (row * kPitch + column * 8) * 2, t0 + row < t ? k(batch, t0 + row, I(column * 8)) : nullptr);
        copy_later(at_v + (row * kPitch + column * 8) * 2, t0 + row < t ? v(batch, t0 + row, I(column * 8)) : nullptr);
      }
      close_copies();
      await_copies<0>();
      __syncthreads();
      float score[kKeys / 8][4] = {};
      NACRE_UNROLL for (int d = 0; d < kDepth / 16; ++d) {
        uint32_t x[4];
        load_matrices(x, at_q + ((warp * 16 + lane % 16) * kPitch + d * 16 + lane / 16 * 8) * 2);
        NACRE_UNROLL for (int j = 0; j < kKeys / 16; ++j) {
          uint32_t y[4];
          load_matrices(y, at_k + ((j * 16 + lane % 8 + lane / 16 * 8) * kPitch + d * 16 + lane / 8 % 2 * 8) * 2);
          multiply<kBFloat>(score[2 * j], x, y[0], y[1]);
          multiply<kBFloat>(score[2 * j + 1], x, y[2], y[3]);
        }
      }
      float next[2] = {most[0], most[1]};
      NACRE_UNROLL for (int j = 0; j < kKeys / 8; ++j) {
        NACRE_UNROLL for (int e = 0; e < 4; ++e) {
          const I row = s0 + warp * 16 + lane / 4 + e / 2 * 8, key = t0 + j * 8 + lane % 4 * 2 + e % 2;
          const bool seen = key < t && row < s && (!kCausal || key <= row);
          score[j][e] = seen ? score[j][e] * scale + mask(batch, row, key) : -__builtin_inff();
          next[e / 2] = fmaxf(next[e / 2], score[j][e]);
        }
      }
      NACRE_UNROLL for (int r = 0; r < 2; ++r) {
        next[r] = fold_quad(next[r], [](float a, float b) { return fmaxf(a, b); });
        const float shrink = next[r] == -__builtin_inff() ? 1.f : exp(most[r] - next[r]);
        most[r] = next[r];
        total[r] *= shrink;
        NACRE_UNROLL for (int j = 0; j < kDepth / 8; ++j) {
          out[j][2 * r] *= shrink;
          out[j][2 * r + 1] *= shrink;
        }
      }
      NACRE_UNROLL for (int j = 0; j < kKeys / 8; ++j) {
        NACRE_UNROLL for (int e = 0; e < 4; ++e) {
          score[j][e] = most[e / 2] == -__builtin_inff() && score[j][e] == score[j][e] ? 0.f : exp(score[j][e] - most[e / 2]);
          total[e / 2] += score[j][e];
        }
      }
      NACRE_UNROLL for (int j = 0; j < kKeys / 16; ++j) {
        const uint32_t x[4] = {packed<kBFloat>(score[2 * j][0], score[2 * j][1]), packed<kBFloat>(score[2 * j][2], score[2 * j][3]),
                               packed<kBFloat>(score[2 * j + 1][0], score[2 * j + 1][1]), packed<kBFloat>(score[2 * j + 1][2], score[2 * j + 1][3])};
        NACRE_UNROLL for (int e = 0; e < kDepth / 16; ++e) {
          uint32_t y[4];
          load_matrices_turned(y, at_v + ((j * 16 + lane % 16) * kPitch + e * 16 + lane / 16 * 8) * 2);
          multiply<kBFloat>(out[2 * e], x, y[0], y[1]);
          multiply<kBFloat>(out[2 * e + 1], x, y[2], y[3]);
        }
      }
      __syncthreads();
    }
    NACRE_UNROLL for (int r = 0; r < 2; ++r) {
      const float sum = fold_quad(total[r], [](float a, float b) { return a + b; });
      const I row = s0 + warp * 16 + lane / 4 + r * 8;
      if (row >= s) continue;
      NACRE_UNROLL for (int j = 0; j < kDepth / 8; ++j) {
        NACRE_UNROLL for (int e = 0; e < 2; ++e) epilogue(batch, row, I(j * 8 + lane % 4 * 2 + e), sum == 0 ? 0.f : out[j][2 * r + e] / sum);
      }
    }
  }
}

}  // namespace nk
#endif
