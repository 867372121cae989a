// Recurrent layers over time, one direction: what depends on the previous step. The products of the inputs with their
// weights, for all steps at once and with the biases, are a gemm before this.
//
//   lstm(Recurrent{.time, .batch, .hidden, .y_t, .y_b, .h_b, .c_b}, const float* projected, const float* weights,
//        const float* h0, const float* c0, float* y, float* h, float* c, reverse, int thread, int threads, sync)
//     projected  [time][batch][4 hidden]: x W_ih^T + b_ih + b_hh, PyTorch's gate order i, f, g, o
//     weights    W_hh packed on the host: [ceil(hidden / VL)][k < hidden][gate][VL]: element (block, k, gate, lane) is
//                W_hh[gate * hidden + block * VL + lane][k], zeros beyond hidden; 64-byte aligned
//     h0, c0     [batch], rows h_b, c_b apart       y   (t, b) at y[t * y_t + b * y_b]
//     h, c       [batch][hidden]: the state after the last step
//     reverse    C<1>{}: from the last step to the first; C<0>{}
//     sync()     waits for all threads; called time times by each (also with one thread, where it may do nothing)
//   gru(Recurrent{...}, projected, weights, const float* bias, h0, y, h, reverse, thread, threads, sync)
//     projected  [time][batch][3 hidden]: x W_ih^T + b_ih, gate order r, z, n;   weights as above with 3 gates
//     bias       b_hh [3 hidden] or null;  c_b is not used
//
// A thread computes all gates of its own units, so a step needs one barrier. y, h and c must not overlap the inputs.
#ifndef NACRE_KERNEL_RECURRENT_H
#define NACRE_KERNEL_RECURRENT_H
#include "nacre/gemm.h"
#include "nacre/math.h"

namespace nk {

template <class Time, class Batch, class Hidden, class YT, class YB, class HB, class CB>
struct Recurrent {
  Time time;
  Batch batch;
  Hidden hidden;
  YT y_t;
  YB y_b;
  HB h_b;
  CB c_b;
};

namespace detail {

// h W_hh^T for one block of VL units and R rows of the batch: sums[row][gate].
template <int R, int G, class K>
NACRE_INLINE void recurrent_gates(vf (&sums)[R][G], const float* const (&h)[R], const float* __restrict w, K k) {
  // A second set of sums where one does not hide the latency of FMA.
  constexpr int kSplit = R * G >= 8 ? 1 : 2;
  vf acc[kSplit][R][G];
  NACRE_UNROLL for (int s = 0; s < kSplit; ++s) {
    NACRE_UNROLL for (int i = 0; i < R; ++i) {
      NACRE_UNROLL for (int g = 0; g < G; ++g) acc[s][i][g] = splat(0.f);
    }
  }
  const isize whole = k / 4 * 4;
  auto step = [&](auto chain, isize l) NACRE_LAMBDA {
    constexpr int s = decltype(chain)::value;
    vf wv[G];
    NACRE_UNROLL for (int g = 0; g < G; ++g) wv[g] = load(w + (l * G + g) * VL);
    NACRE_UNROLL for (int i = 0; i < R; ++i) {
      const vf x = splat(h[i][l]);
      NACRE_UNROLL for (int g = 0; g < G; ++g) acc[s][i][g] = fma(x, wv[g], acc[s][i][g]);
    }
  };
  NACRE_ROLLED for (isize l = 0; l < whole; l += 4) {
    step(C<0>{}, l);
    step(C<kSplit - 1>{}, l + 1);
    step(C<0>{}, l + 2);
    step(C<kSplit - 1>{}, l + 3);
  }
  NACRE_ROLLED for (isize l = whole; l < k; ++l) step(C<0>{}, l);
  NACRE_UNROLL for (int i = 0; i < R; ++i) {
    NACRE_UNROLL for (int g = 0; g < G; ++g) {
      sums[i][g] = kSplit == 2 ? acc[0][i][g] + acc[kSplit - 1][i][g] : acc[0][i][g];
    }
  }
}

template <class B>
inline constexpr isize constant_batch = 0;
template <isize V>
inline constexpr isize constant_batch<C<V>> = V;

// Runs cell(b, block, lanes, sums[G], previous h) for this thread's units, step by step.
template <int G, class S, class Reverse, class Cell, class Sync>
NACRE_INLINE void recurrent_steps(const S& s, const float* __restrict weights, const float* h0, const float* y,
                                  Reverse reverse, int thread, int threads, Cell cell, Sync sync) {
  constexpr int R = kRegisters == 32 ? 6 : kRegisters == 16 ? 3 : 2;
  const Range blocks = split(ceil_div(s.hidden, VL), thread, threads);
  NACRE_ROLLED for (isize step = 0; step < s.time; ++step) {
    const isize t = reverse ? s.time - 1 - step : step;
    const float* before = step == 0 ? h0 : y + (reverse ? t + 1 : t - 1) * s.y_t;
    const isize pitch = step == 0 ? isize{s.h_b} : isize{s.y_b};
    NACRE_ROLLED for (isize block = blocks.begin; block < blocks.end; ++block) {
      const float* w = weights + block * s.hidden * (G * VL);
      const int lanes = static_cast<int>(imin(VL, s.hidden - block * VL));
      const RowTiles tiles = row_tiles(s.batch, R);
      auto run = [&](auto rows, isize first, float* gates) NACRE_LAMBDA {
        constexpr int kRows = decltype(rows)::value;
        const float* h[kRows];
        NACRE_UNROLL for (int i = 0; i < kRows; ++i) h[i] = before + row_of(s.batch, first, i) * pitch;
        vf sums[kRows][G];
        recurrent_gates(sums, h, w, s.hidden);
        NACRE_UNROLL for (int i = 0; i < kRows; ++i) {
          NACRE_UNROLL for (int g = 0; g < G; ++g) store(gates + (i * G + g) * VL, sums[i][g]);
        }
      };
      auto run_rows = [&](isize rows, isize first, float* gates) NACRE_LAMBDA {
        if constexpr (is_constant<decltype(s.batch)>::value) {
          constexpr RowTiles t = row_tiles(decltype(s.batch){}, R);
          if (rows == t.short_rows) {
            run(C<t.short_rows>{}, first, gates);
          } else {
            run(C<imin(R, t.short_rows + 1)>{}, first, gates);
          }
        } else {
          run(C<R>{}, first, gates);
        }
      };
      NACRE_ROLLED for (isize tile = 0; tile < tiles.count; ++tile) {
        const isize first = tiles.row(tile), rows = tiles.row(tile + 1) - first;
        NACRE_ALIGNED float gates[R * G * VL];
        if (rows == 1) {
          run(C<1>{}, first, gates);
        } else if constexpr (constant_batch<decltype(s.batch)> != 1) {
          run_rows(rows, first, gates);
        }
        NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
          vf sums[G];
          NACRE_UNROLL for (int g = 0; g < G; ++g) sums[g] = load(gates + (i * G + g) * VL);
          cell(t, step, first + i, block * VL, lanes, sums, before + (first + i) * pitch + block * VL);
        }
      }
    }
    sync();
  }
}

}  // namespace detail

template <class S, class Reverse, class Sync>
NACRE_INLINE void lstm(const S& s, const float* projected, const float* weights, const float* h0, const float* c0,
                       float* y, float* h, float* c, Reverse reverse, int thread, int threads, Sync sync) {
  detail::recurrent_steps<4>(
      s, weights, h0, y, reverse, thread, threads,
      [&](isize t, isize step, isize b, isize unit, int lanes, vf(&sums)[4], const float*) NACRE_LAMBDA {
        const float* x = projected + (t * s.batch + b) * (4 * s.hidden) + unit;
        NACRE_UNROLL for (int g = 0; g < 4; ++g) {
          sums[g] += lanes == VL ? load(x + g * s.hidden) : load_part(x + g * s.hidden, lanes);
        }
        float* cell = c + b * s.hidden + unit;
        const float* before = step == 0 ? c0 + b * s.c_b + unit : cell;
        const vf old = lanes == VL ? load(before) : load_part(before, lanes);
        const vf value = fma(sigmoid(sums[1]), old, sigmoid(sums[0]) * tanh(sums[2]));
        const vf out = sigmoid(sums[3]) * tanh(value);
        store_part(cell, value, lanes);
        store_part(y + t * s.y_t + b * s.y_b + unit, out, lanes);
        if (step == s.time - 1) store_part(h + b * s.hidden + unit, out, lanes);
      },
      sync);
}

template <class S, class Reverse, class Sync>
NACRE_INLINE void gru(const S& s, const float* projected, const float* weights, const float* bias, const float* h0,
                      float* y, float* h, Reverse reverse, int thread, int threads, Sync sync) {
  detail::recurrent_steps<3>(
      s, weights, h0, y, reverse, thread, threads,
      [&](isize t, isize step, isize b, isize unit, int lanes, vf(&sums)[3], const float* before) NACRE_LAMBDA {
        const float* x = projected + (t * s.batch + b) * (3 * s.hidden) + unit;
        vf in[3];
        NACRE_UNROLL for (int g = 0; g < 3; ++g) {
          in[g] = load_part(x + g * s.hidden, lanes);
          if (bias != nullptr) sums[g] += load_part(bias + g * s.hidden + unit, lanes);
        }
        const vf old = load_part(before, lanes);
        const vf reset = sigmoid(in[0] + sums[0]), update = sigmoid(in[1] + sums[1]);
        const vf candidate = tanh(fma(reset, sums[2], in[2]));
        const vf out = fma(old - candidate, update, candidate);
        store_part(y + t * s.y_t + b * s.y_b + unit, out, lanes);
        if (step == s.time - 1) store_part(h + b * s.hidden + unit, out, lanes);
      },
      sync);
}

}  // namespace nk
#endif
