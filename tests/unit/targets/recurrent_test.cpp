#include <cmath>

#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void check(const Level& level, int64_t time, int64_t batch, int64_t hidden, bool lstm, bool reverse, bool with_bias,
           int threads) {
  const int64_t gates = lstm ? 4 : 3, vl = level.kernels->vector_floats, blocks = (hidden + vl - 1) / vl;
  const Floats projected = random_floats(time * batch * gates * hidden, 1), w = random_floats(gates * hidden * hidden, 2),
               h0 = random_floats(batch * hidden, 3), c0 = random_floats(batch * hidden, 4),
               bias = random_floats(gates * hidden, 5);
  Floats packed(blocks * hidden * gates * vl);
  for (int64_t j = 0; j < hidden; ++j)
    for (int64_t l = 0; l < hidden; ++l)
      for (int64_t g = 0; g < gates; ++g)
        packed[((j / vl * hidden + l) * gates + g) * vl + j % vl] = w[(g * hidden + j) * hidden + l];

  std::vector<double> h(h0.data(), h0.data() + batch * hidden), c(c0.data(), c0.data() + batch * hidden);
  std::vector<double> y(static_cast<size_t>(time * batch * hidden));
  for (int64_t step = 0; step < time; ++step) {
    const int64_t t = reverse ? time - 1 - step : step;
    const std::vector<double> old = h;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t j = 0; j < hidden; ++j) {
        double in[4] = {}, rec[4] = {};
        for (int64_t g = 0; g < gates; ++g) {
          in[g] = projected[(t * batch + b) * gates * hidden + g * hidden + j];
          if (with_bias) rec[g] = bias[g * hidden + j];
          for (int64_t l = 0; l < hidden; ++l)
            rec[g] += double{w[(g * hidden + j) * hidden + l]} * old[static_cast<size_t>(b * hidden + l)];
        }
        const size_t at = static_cast<size_t>(b * hidden + j);
        if (lstm) {
          c[at] = sigmoid(in[1] + rec[1]) * c[at] + sigmoid(in[0] + rec[0]) * std::tanh(in[2] + rec[2]);
          h[at] = sigmoid(in[3] + rec[3]) * std::tanh(c[at]);
        } else {
          const double r = sigmoid(in[0] + rec[0]), z = sigmoid(in[1] + rec[1]), n = std::tanh(in[2] + r * rec[2]);
          h[at] = (1 - z) * n + z * old[at];
        }
        y[static_cast<size_t>((t * batch + b) * hidden + j)] = h[at];
      }
  }
  Floats y_out(time * batch * hidden), h_out(batch * hidden), c_out(batch * hidden);
  Barrier barrier(threads);
  run_threads(threads, [&](int thread) {
    const RecurrentCall call{time,         batch,        hidden,       projected.data(), packed.data(),
                             with_bias ? bias.data() : nullptr,        h0.data(),        c0.data(),
                             y_out.data(), h_out.data(), c_out.data(), reverse,          thread,
                             threads,      Barrier::wait, &barrier};
    lstm ? level.kernels->lstm(call) : level.kernels->gru(call);
  });
  const std::string what = level.name + (lstm ? " lstm" : " gru");
  ASSERT_TRUE(y_out.intact() && h_out.intact() && c_out.intact()) << what;
  ASSERT_LE(error(y_out, y), 1e-5) << what << " time " << time << " batch " << batch << " hidden " << hidden << " threads "
                                   << threads;
  ASSERT_LE(error(h_out, h), 1e-5) << what;
  if (lstm) {
    ASSERT_LE(error(c_out, c), 1e-5) << what;
  }
}

TEST(Recurrent, StepsBothWaysForEverySize) {
  for (const Level& level : levels())
    for (int64_t time : {1, 2, 7})
      for (int64_t batch : {1, 2, 3, 8})
        for (int64_t hidden : {1, 7, 8, 16, 21, 40})
          for (int threads : {1, 2, 3}) {
            const bool reverse = (batch + hidden) % 2 == 0;
            check(level, time, batch, hidden, true, reverse, false, threads);
            check(level, time, batch, hidden, false, reverse, hidden % 3 != 0, threads);
            if (HasFatalFailure()) return;
          }
}

}  // namespace
}  // namespace nacre::test
