#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

// Checks one shape; `channels` are call.groups.
void check(const std::string& what, int vector_floats, ConvCall c, unsigned seed,
           const std::function<void(const ConvCall&)>& run) {
  const int64_t channels = c.groups, pitch = (channels + vector_floats - 1) / vector_floats * vector_floats;
  c.ic = c.oc = 1;
  c.oh = (c.h + 2 * c.pad_h - (c.kh - 1) * c.dilation_h - 1) / c.stride_h + 1;
  c.ow = (c.w + 2 * c.pad_w - (c.kw - 1) * c.dilation_w - 1) / c.stride_w + 1;
  c.sw = channels, c.sh = c.w * channels, c.sn = c.h * c.sh;
  const Floats in = random_floats(c.batch * c.sn, seed), bias = random_floats(channels, seed + 1);
  Floats weights = random_floats(c.kh * c.kw * pitch, seed + 2);
  std::vector<double> expected;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t y = 0; y < c.oh; ++y)
      for (int64_t x = 0; x < c.ow; ++x)
        for (int64_t ch = 0; ch < channels; ++ch) {
          double sum = bias[ch];
          for (int64_t ky = 0; ky < c.kh; ++ky)
            for (int64_t kx = 0; kx < c.kw; ++kx) {
              const int64_t iy = y * c.stride_h - c.pad_h + ky * c.dilation_h;
              const int64_t ix = x * c.stride_w - c.pad_w + kx * c.dilation_w;
              if (iy < 0 || ix < 0 || iy >= c.h || ix >= c.w) continue;
              sum += double{in[n * c.sn + iy * c.sh + ix * c.sw + ch]} * weights[(ky * c.kw + kx) * pitch + ch];
            }
          expected.push_back(sum);
        }
  for (int threads : {1, 2, 3}) {
    Floats out(static_cast<int64_t>(expected.size()));
    c.in = in.data(), c.weights = weights.data(), c.bias = bias.data(), c.out = out.data();
    c.threads = threads;
    for (c.thread = 0; c.thread < threads; ++c.thread) run(c);
    ASSERT_TRUE(out.intact()) << what;
    ASSERT_LE(error(out, expected), 1e-6 * static_cast<double>(c.kh * c.kw + 8))
        << what << " batch " << c.batch << " image " << c.h << 'x' << c.w << 'x' << channels << " kernel " << c.kh << 'x'
        << c.kw << " stride " << c.stride_h << ',' << c.stride_w << " padding " << c.pad_h << ',' << c.pad_w
        << " dilation " << c.dilation_h << ',' << c.dilation_w << ", " << threads << " threads";
  }
}

ConvCall depthwise_call(int64_t n, int64_t h, int64_t w, int64_t c, int64_t kh, int64_t kw, int64_t sh, int64_t sw,
                        int64_t ph, int64_t pw, int64_t dh, int64_t dw) {
  ConvCall call{};
  call.batch = n, call.h = h, call.w = w, call.groups = c, call.kh = kh, call.kw = kw, call.stride_h = sh;
  call.stride_w = sw, call.pad_h = ph, call.pad_w = pw, call.dilation_h = dh, call.dilation_w = dw;
  return call;
}

TEST(Depthwise, RunTimeSizes) {
  for (const Level& level : levels()) {
    unsigned seed = 1;
    for (int64_t kernel : {1, 2, 3, 5, 7})
      for (int64_t stride : {1, 2, 3})
        for (int64_t pad : {0, 1, 3, 8})
          for (int64_t dilation : {1, 2, 4}) {
            const int64_t h = 1 + seed % 13, w = 1 + seed % 23, kw = seed % 3 == 0 ? 3 : kernel;
            ++seed;
            if (h + 2 * pad < (kernel - 1) * dilation + 1 || w + 2 * pad < (kw - 1) * dilation + 1) continue;
            check(level.name, level.kernels->vector_floats,
                  depthwise_call(1 + seed % 2, h, w, 1 + seed % 37, kernel, kw, stride, 1 + seed % 2, pad, pad, dilation,
                                 dilation),
                  seed, level.kernels->depthwise);
            if (HasFatalFailure()) return;
          }
  }
}

TEST(Depthwise, ConstantSizes) {
  std::vector<ConvCall> shapes;
#define DEPTHWISE(...) shapes.push_back(depthwise_call(__VA_ARGS__));
#include "tests/unit/targets/shapes.def"
  for (const Level& level : levels())
    for (size_t i = 0; i < shapes.size(); ++i)
      check(level.name, level.kernels->vector_floats, shapes[i], 3,
            [&](const ConvCall& c) { level.kernels->depthwise_constant(static_cast<int>(i), c); });
}

}  // namespace
}  // namespace nacre::test
