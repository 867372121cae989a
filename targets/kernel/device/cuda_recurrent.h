// LSTM and GRU layers whose input has been multiplied with its weights already: a block for each row of the batch.
#ifndef NACRE_DEVICE_RECURRENT_H
#define NACRE_DEVICE_RECURRENT_H
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

}  // namespace nk
#endif
