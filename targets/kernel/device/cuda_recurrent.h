// LSTM and GRU layers whose input has been multiplied with its weights already: a block for each row of the batch, or a cluster of
// blocks that keep the weights from the first step to the last.
#ifndef NACRE_DEVICE_RECURRENT_H
#define NACRE_DEVICE_RECURRENT_H
#include "nacre/cuda_gemv.h"
#include "nacre/cuda_math.h"
#include "nacre/cuda_team.h"

namespace nk {

struct Recurrent {
  i64 time, batch, hidden, y_t, y_b, h_b, h_u, c_b, c_u, w_g, w_u, bias_g;  // sizes, and strides by time, batch, unit, gate
  const float *input, *weights, *h0, *c0, *bias = nullptr;                  // input: [time, batch, gates * hidden]
  float *y, *h, *c;
};

// Scratch of a block: h, c (LSTM), and the sums of all gates.
template <bool kLstm, bool kReverse>
NACRE_INLINE void recurrent(const Recurrent& s, float* scratch) {
  constexpr int kGates = kLstm ? 4 : 3;
  const i64 gates = kGates * s.hidden;
  float *const h = scratch, *const cell = h + s.hidden, *const sums = cell + s.hidden;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (i64 b = blockIdx.x; b < s.batch; b += gridDim.x) {
    for (i64 u = threadIdx.x; u < s.hidden; u += blockDim.x) {
      h[u] = s.h0[b * s.h_b + u * s.h_u];
      if constexpr (kLstm) cell[u] = s.c0[b * s.c_b + u * s.c_u];
    }
    __syncthreads();
    for (i64 step = 0; step < s.time; ++step) {
      const i64 t = kReverse ? s.time - 1 - step : step;
      for (i64 g = warp; g < gates; g += warps) {
        Sum sum;
        for (i64 u = lane; u < s.hidden; u += 32) sum = sum + s.weights[g * s.w_g + u * s.w_u] * h[u];
        sum = fold_warp(sum, [](Sum a, Sum b) { return a + b; });
        if (lane == 0) sums[g] = static_cast<float>(sum);
      }
      __syncthreads();
      const float* const in = s.input + (t * s.batch + b) * gates;
      for (i64 u = threadIdx.x; u < s.hidden; u += blockDim.x) {
        const i64 n = s.hidden;
        float next;
        if constexpr (kLstm) {
          const float i = sigmoid(in[u] + sums[u]), f = sigmoid(in[n + u] + sums[n + u]);
          const float g = tanh(in[2 * n + u] + sums[2 * n + u]), o = sigmoid(in[3 * n + u] + sums[3 * n + u]);
          cell[u] = f * cell[u] + i * g;
          next = o * tanh(cell[u]);
        } else {
          const auto bias = [&](i64 gate) { return s.bias ? s.bias[gate * s.bias_g] : 0.f; };
          const float r = sigmoid(in[u] + (sums[u] + bias(u))), z = sigmoid(in[n + u] + (sums[n + u] + bias(n + u)));
          const float g = tanh(in[2 * n + u] + r * (sums[2 * n + u] + bias(2 * n + u)));
          next = (1 - z) * g + z * h[u];
        }
        h[u] = next;
        s.y[t * s.y_t + b * s.y_b + u] = next;
      }
      __syncthreads();
    }
    for (i64 u = threadIdx.x; u < s.hidden; u += blockDim.x) {
      s.h[b * s.hidden + u] = h[u];
      if constexpr (kLstm) s.c[b * s.hidden + u] = cell[u];
    }
    __syncthreads();
  }
}

// What becomes of a unit whose gates have these sums: `cell` is its cell (LSTM), or what it was (GRU).
template <bool kLstm>
NACRE_INLINE float next_of(const float* in, const float* sums, const float* bias, float& cell) {
  if constexpr (kLstm) {
    cell = sigmoid(in[1] + sums[1]) * cell + sigmoid(in[0] + sums[0]) * tanh(in[2] + sums[2]);
    return sigmoid(in[3] + sums[3]) * tanh(cell);
  } else {
    const float r = sigmoid(in[0] + (sums[0] + bias[0])), z = sigmoid(in[1] + (sums[1] + bias[1]));
    const float g = tanh(in[2] + r * (sums[2] + bias[2]));
    return cell = (1 - z) * g + z * cell;
  }
}

// By clusters of kBlocks blocks of 512 threads. A warp has kUnits units (a power of two, 8 at most), of the rows of whose gates it keeps
// kHeld in registers and kShared in dynamic shared memory, 64 * kShared * (kHidden rounded up to 32) bytes; the others it reads in
// each step. Weights and a bias are read before the kernels ahead are done.
template <bool kLstm, bool kReverse, int kHidden, int kBlocks, int kUnits, int kHeld, int kShared>
NACRE_INLINE void recurrent_in_cluster(const Recurrent& s) {
  using namespace detail;
  constexpr int kGates = kLstm ? 4 : 3, kRows = kGates * kUnits, kTerms = (kHidden + 31) / 32, kPitch = 32 * kTerms;
  constexpr int kEach = (kHidden + kBlocks - 1) / kBlocks, kLanes = 32 / kUnits;
  extern __shared__ char dynamic_memory[];
  __shared__ float h[2][kPitch];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = blockIdx.x % kBlocks;
  float* const rows = reinterpret_cast<float*>(dynamic_memory) + warp * kShared * kPitch;
  const auto unit = [&](int i) { return rank * kEach + warp * kUnits + i; };
  const auto is_there = [&](int i) { return warp * kUnits + i < kEach && unit(i) < kHidden; };
  const auto weight = [&](int row, int term) {
    const int u = row / kGates, k = term * 32 + lane;
    return is_there(u) && k < kHidden ? s.weights[(row % kGates * kHidden + unit(u)) * s.w_g + k * s.w_u] : 0.f;
  };
  float held[kHeld][kTerms];
  NACRE_UNROLL for (int row = 0; row < kHeld; ++row) {
    NACRE_UNROLL for (int i = 0; i < kTerms; ++i) held[row][i] = weight(row, i);
  }
  for (int row = 0; row < kShared; ++row)
    for (int i = 0; i < kTerms; ++i) rows[row * kPitch + i * 32 + lane] = weight(kHeld + row, i);
  // Each lane of a unit's does the same, but for what goes to other blocks.
  const int mine = lane / kLanes, u = unit(mine);
  const bool there = is_there(mine);
  float bias[kGates] = {};
  if constexpr (!kLstm)
    for (int g = 0; g < kGates; ++g)
      if (s.bias && there) bias[g] = s.bias[(g * kHidden + u) * s.bias_g];
  await_previous();
  for (i64 b = blockIdx.x / kBlocks; b < s.batch; b += gridDim.x / kBlocks) {
    for (int k = threadIdx.x; k < kPitch; k += blockDim.x) h[0][k] = h[1][k] = k < kHidden ? s.h0[b * s.h_b + k * s.h_u] : 0.f;
    float cell = 0, last = 0, in[kGates] = {};
    if (there) cell = kLstm ? s.c0[b * s.c_b + u * s.c_u] : s.h0[b * s.h_b + u * s.h_u];
    const auto read = [&](i64 step) {
      const float* const from = s.input + ((kReverse ? s.time - 1 - step : step) * s.batch + b) * (kGates * kHidden) + u;
      if (there && step < s.time) {
        NACRE_UNROLL for (int g = 0; g < kGates; ++g) in[g] = from[g * kHidden];
      }
    };
    read(0);
    sync_cluster();
    for (i64 step = 0; step < s.time; ++step) {
      float x[kTerms], sums[4 * kUnits] = {};
      NACRE_UNROLL for (int i = 0; i < kTerms; ++i) x[i] = h[step % 2][i * 32 + lane];
      NACRE_UNROLL for (int row = 0; row < kRows; ++row) {
        NACRE_UNROLL for (int i = 0; i < kTerms; ++i) {
          float w;
          if (row < kHeld)
            w = held[row < kHeld ? row : 0][i];
          else if (row < kHeld + kShared)
            w = rows[(row - kHeld) * kPitch + i * 32 + lane];
          else
            w = weight(row, i);
          float& sum = sums[row / kGates * 4 + row % kGates];
          sum = fmaf(w, x[i], sum);
        }
      }
      fold_rows(sums);
      float gates[4];
      NACRE_UNROLL for (int g = 0; g < 4; ++g) gates[g] = __shfl_sync(0xffffffffu, sums[0], mine * kLanes + g * (kLanes / 4));
      last = next_of<kLstm>(in, gates, bias, cell);
      if (there) {
        for (int block = lane % kLanes; block < kBlocks; block += kLanes) store_of_block(&h[(step + 1) % 2][u], block, last);
        if (lane % kLanes == 0) s.y[(kReverse ? s.time - 1 - step : step) * s.y_t + b * s.y_b + u] = last;
      }
      arrive_in_cluster();
      read(step + 1);
      wait_in_cluster();
    }
    if (there && lane % kLanes == 0) {
      s.h[b * kHidden + u] = last;
      if constexpr (kLstm) s.c[b * kHidden + u] = cell;
    }
    sync_cluster();
  }
}

}  // namespace nk
#endif
