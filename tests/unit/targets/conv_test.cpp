#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A convolution with channels-last data, its weights [group][oc][kh][kw][ic], and its result in double.
struct Case {
  int nv;
  ConvCall c{};
  bool transposed = false;
  Floats in{0}, w{0}, bias{0};
  std::vector<double> expected;

  int64_t channels() const { return c.ic * c.groups; }
  float weight(int64_t g, int64_t o, int64_t ky, int64_t kx, int64_t i) const {
    return w[(((g * c.oc + o) * c.kh + ky) * c.kw + kx) * c.ic + i];
  }
  Case(int nv_, ConvCall call, unsigned seed, bool transposed_ = false) : nv(nv_), c(call), transposed(transposed_) {
    c.sw = channels();
    c.sh = c.w * c.sw;
    c.sn = c.h * c.sh;
    in = random_floats(c.batch * c.sn, seed);
    w = random_floats(c.groups * c.oc * c.kh * c.kw * c.ic, seed + 1);
    bias = random_floats(c.groups * c.oc, seed + 2);
    expected.assign(static_cast<size_t>(c.batch * c.oh * c.ow * c.groups * c.oc), 0);
    for (int64_t n = 0; n < c.batch; ++n)
      for (int64_t y = 0; y < c.oh; ++y)
        for (int64_t x = 0; x < c.ow; ++x)
          for (int64_t g = 0; g < c.groups; ++g)
            for (int64_t o = 0; o < c.oc; ++o) {
              double sum = bias[g * c.oc + o];
              for (int64_t ky = 0; ky < c.kh; ++ky)
                for (int64_t kx = 0; kx < c.kw; ++kx) {
                  int64_t iy = y * c.stride_h - c.pad_h + ky * c.dilation_h;
                  int64_t ix = x * c.stride_w - c.pad_w + kx * c.dilation_w;
                  if (transposed) {
                    iy = y + c.pad_h - ky, ix = x + c.pad_w - kx;
                    if (iy < 0 || ix < 0 || iy % c.stride_h != 0 || ix % c.stride_w != 0) continue;
                    iy /= c.stride_h, ix /= c.stride_w;
                  }
                  if (iy < 0 || ix < 0 || iy >= c.h || ix >= c.w) continue;
                  for (int64_t i = 0; i < c.ic; ++i)
                    sum += double{in[n * c.sn + iy * c.sh + ix * c.sw + g * c.ic + i]} * weight(g, o, ky, kx, i);
                }
              expected[static_cast<size_t>(((n * c.oh + y) * c.ow + x) * c.groups * c.oc + g * c.oc + o)] = sum;
            }
  }
  Floats packed(int64_t nr) const {
    const int64_t k = c.kh * c.kw * c.ic, size = ceil_div(c.oc, nr) * k * nr;
    Floats result(c.groups * size);
    for (int64_t g = 0; g < c.groups; ++g) {
      const Floats one = pack_panels(c.oc, k, nr, [&](int64_t l, int64_t o) {
        return weight(g, o, l / (c.kw * c.ic), l / c.ic % c.kw, l % c.ic);
      });
      for (int64_t i = 0; i < size; ++i) result[g * size + i] = one[i];
    }
    return result;
  }
  Floats packed_transposed(int64_t nr) const {
    std::vector<float> all;
    for (int64_t ry = 0; ry < c.stride_h; ++ry)
      for (int64_t rx = 0; rx < c.stride_w; ++rx)
        for (int64_t g = 0; g < c.groups; ++g) {
          const int64_t ny = ceil_div(c.kh - ry, c.stride_h), nx = ceil_div(c.kw - rx, c.stride_w);
          const int64_t ty = ny > 0 ? ny : 0, tx = nx > 0 ? nx : 0;
          const Floats one = pack_panels(c.oc, ty * tx * c.ic, nr, [&](int64_t l, int64_t o) {
            const int64_t y = l / (tx * c.ic), x = l / c.ic % tx;
            return weight(g, o, ry + (ty - 1 - y) * c.stride_h, rx + (tx - 1 - x) * c.stride_w, l % c.ic);
          });
          for (int64_t i = 0; i < one.size(); ++i) all.push_back(one[i]);
        }
    Floats result(static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) result[static_cast<int64_t>(i)] = all[i];
    return result;
  }
  // The image with channels apart: [n][c][h][w].
  Floats planes() const {
    Floats result(c.batch * c.sn);
    for (int64_t n = 0; n < c.batch; ++n)
      for (int64_t p = 0; p < c.h * c.w; ++p)
        for (int64_t i = 0; i < c.ic; ++i) result[(n * c.ic + i) * c.h * c.w + p] = in[(n * c.h * c.w + p) * c.ic + i];
    return result;
  }
  void check(const std::string& what, ConvCall call, int64_t scratch_floats, const Floats& image, const Floats& weights,
             const std::function<void(const ConvCall&)>& run) const {
    for (int threads : {1, 2, 3}) {
      Floats out(static_cast<int64_t>(expected.size()));
      for (int thread = 0; thread < threads; ++thread) {
        Floats scratch(scratch_floats);
        call.in = image.data();
        call.weights = weights.data();
        call.bias = bias.data();
        call.out = out.data();
        call.scratch = scratch.data();
        call.thread = thread;
        call.threads = threads;
        run(call);
        ASSERT_TRUE(scratch.intact()) << what;
      }
      ASSERT_TRUE(out.intact()) << what;
      ASSERT_LE(error(out, expected), 1e-6 * static_cast<double>(c.kh * c.kw * c.ic + 8))
          << what << " batch " << c.batch << " image " << c.h << 'x' << c.w << 'x' << c.ic << " to " << c.oc << " groups "
          << c.groups << " kernel " << c.kh << 'x' << c.kw << " stride " << c.stride_h << ',' << c.stride_w << " padding "
          << c.pad_h << ',' << c.pad_w << " dilation " << c.dilation_h << ',' << c.dilation_w << ", panels of " << nv
          << ", " << threads << " threads";
    }
  }
};

int64_t out_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  return (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
}
ConvCall conv_call(int64_t n, int64_t h, int64_t w, int64_t ic, int64_t oc, int64_t g, int64_t kh, int64_t kw, int64_t sh,
                   int64_t sw, int64_t ph, int64_t pw, int64_t dh, int64_t dw) {
  ConvCall c{};
  c.batch = n, c.h = h, c.w = w, c.ic = ic, c.oc = oc, c.groups = g, c.kh = kh, c.kw = kw;
  c.stride_h = sh, c.stride_w = sw, c.pad_h = ph, c.pad_w = pw, c.dilation_h = dh, c.dilation_w = dw;
  c.oh = out_size(h, kh, sh, ph, dh), c.ow = out_size(w, kw, sw, pw, dw);
  return c;
}

// Every combination that has a result.
template <class F>
void for_shapes(F f) {
  unsigned seed = 1;
  for (int64_t kernel : {1, 2, 3, 5})
    for (int64_t stride : {1, 2, 3})
      for (int64_t pad : {0, 1, 3})
        for (int64_t dilation : {1, 2})
          for (int64_t groups : {1, 2}) {
            const int64_t h = 3 + seed % 9, w = 2 + seed % 11, kw = seed % 3 == 0 ? 1 : kernel;
            const int64_t pw = seed % 4 == 0 ? 0 : pad;
            ++seed;
            ConvCall c = conv_call(1 + seed % 2, h, w, 1 + seed % 9, 1 + seed % 21, groups, kernel, kw, stride,
                                   1 + seed % 2, pad, pw, dilation, dilation);
            if (h + 2 * pad < (kernel - 1) * dilation + 1 || w + 2 * pw < (kw - 1) * dilation + 1) continue;
            f(c, seed);
          }
}

TEST(Conv, RunTimeSizes) {
  for (const Level& level : levels())
    for_shapes([&](const ConvCall& call, unsigned seed) {
      const int nv = 1 + static_cast<int>(seed) % level.kernels->max_nv;
      const Case t(nv, call, seed);
      t.check(level.name, t.c, level.kernels->conv_scratch(t.c), t.in, t.packed(nv * level.kernels->vector_floats),
              [&](const ConvCall& c) { level.kernels->conv(nv, c); });
    });
}

TEST(Conv, ChannelsApart) {
  for (const Level& level : levels())
    for_shapes([&](ConvCall call, unsigned seed) {
      call.groups = 1;
      const int nv = 1 + static_cast<int>(seed) % level.kernels->max_nv;
      const Case t(nv, call, seed);
      ConvCall planar = t.c;
      planar.sn = t.c.ic * t.c.h * t.c.w, planar.sc = t.c.h * t.c.w, planar.sh = t.c.w, planar.sw = 1;
      t.check(level.name, planar, level.kernels->conv_planar_scratch(planar), t.planes(),
              t.packed(nv * level.kernels->vector_floats),
              [&](const ConvCall& c) { level.kernels->conv_planar(nv, c); });
    });
}

TEST(Conv, ConstantSizes) {
  std::vector<std::pair<int, ConvCall>> shapes;
#define CONV(nv, n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, dh, dw) \
  shapes.push_back({nv, conv_call(n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, dh, dw)});
#include "tests/unit/targets/shapes.def"
  for (const Level& level : levels())
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int nv = shapes[i].first;
      const Case t(nv, shapes[i].second, 5);
      const Floats weights = t.packed(nv * level.kernels->vector_floats);
      t.check(level.name, t.c, level.kernels->conv_scratch(t.c), t.in, weights,
              [&](const ConvCall& c) { level.kernels->conv_constant(static_cast<int>(i), c); });
      if (t.c.groups != 1 || t.c.ic >= 8) continue;
      ConvCall planar = t.c;
      planar.sc = t.c.h * t.c.w;
      t.check(level.name + " planar", planar, level.kernels->conv_planar_scratch(planar), t.planes(), weights,
              [&](const ConvCall& c) { level.kernels->conv_planar_constant(static_cast<int>(i), c); });
    }
}

TEST(Conv, Winograd) {
  for (const Level& level : levels()) {
    unsigned seed = 1;
    for (int out : {2, 4})
      for (int64_t h : {1, 4, 7, 13})
        for (int64_t pad : {0, 1, 2})
          for (int64_t oc : {3, 16, 37}) {
            ++seed;
            if (h + 2 * pad < 3) continue;
            const int nv = out == 2 ? 2 : 1;
            const int64_t nr = nv * level.kernels->vector_floats;
            const Case t(nv, conv_call(1 + seed % 2, h, 5 + seed % 7, seed % 3 == 0 ? 48 : 16, oc, 1, 3, 3, 1, 1, pad, pad, 1, 1), seed);
            t.check(level.name + " winograd", t.c, level.kernels->winograd_scratch(out, nv, t.c), t.in, t.packed(nr),
                    [&](const ConvCall& c) { level.kernels->winograd(out, nv, c); });
            if (HasFatalFailure()) return;
          }
  }
}

TEST(Conv, Transposed) {
  std::vector<std::pair<int, ConvCall>> shapes;
#define TRANSPOSED(nv, n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, oh_, ow_) \
  shapes.push_back({nv, conv_call(n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, 1, 1)}); \
  shapes.back().second.oh = oh_; \
  shapes.back().second.ow = ow_;
#include "tests/unit/targets/shapes.def"
  for (const Level& level : levels())
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int nv = shapes[i].first;
      const Case t(nv, shapes[i].second, 9, true);
      t.check(level.name, t.c, level.kernels->conv_scratch(t.c), t.in,
              t.packed_transposed(nv * level.kernels->vector_floats),
              [&](const ConvCall& c) { level.kernels->transposed_constant(static_cast<int>(i), c); });
    }
}

}  // namespace
}  // namespace nacre::test
