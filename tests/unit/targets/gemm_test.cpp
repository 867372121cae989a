#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

struct Size {
  int nv;
  int64_t m, n, k;
};

// Result and bias checks of one product for each number of threads; run(thread, threads, call).
struct Product {
  Size s;
  int64_t lda, ska;
  Floats a, w, bias;
  std::vector<double> expected;

  Product(Size size, int64_t a_row_gap, bool a_columns, unsigned seed)
      : s(size),
        lda(a_columns ? 1 : size.k + a_row_gap),
        ska(a_columns ? size.m + a_row_gap : 1),
        a(random_floats((a_columns ? (size.k - 1) * ska + size.m : (size.m - 1) * lda + size.k), seed)),
        w(random_floats(size.n * size.k, seed + 1)),
        bias(random_floats(size.n, seed + 2)),
        expected(static_cast<size_t>(size.m * size.n)) {
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = bias[j];
        for (int64_t l = 0; l < s.k; ++l) sum += double{a[i * lda + l * ska]} * w[l * s.n + j];
        expected[static_cast<size_t>(i * s.n + j)] = sum;
      }
  }
  void check(const std::string& what, int64_t scratch_floats, const std::function<void(const GemmCall&)>& run,
             const float* b, int64_t sbk, int64_t sbn) const {
    for (int threads : {1, 2, 3}) {
      Floats c(s.m * s.n);
      for (int thread = 0; thread < threads; ++thread) {
        Floats scratch(scratch_floats);
        run({s.m, s.n, s.k, a.data(), lda, ska, b, sbk, sbn, c.data(), bias.data(), scratch.data(), thread, threads});
        ASSERT_TRUE(scratch.intact()) << what;
      }
      ASSERT_TRUE(c.intact()) << what;
      ASSERT_LE(error(c, expected), 1e-6 * static_cast<double>(s.k + 8))
          << what << ' ' << s.m << 'x' << s.n << 'x' << s.k << " panels of " << s.nv << ", " << threads << " threads";
    }
  }
};

std::string what(const Level& level) { return level.name; }

TEST(Gemm, RunTimeSizes) {
  for (const Level& level : levels()) {
    unsigned seed = 1;
    for (int64_t m = 1; m <= 17; ++m)
      for (int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 31, 33, 48, 65, 70})
        for (int64_t k : {1, 2, 3, 4, 7, 40}) {
          const int nv = 1 + static_cast<int>(seed) % level.kernels->max_nv;
          const Product p({nv, m, n, k}, seed % 3, seed % 5 == 0, seed);
          const Floats b = pack_panels(n, k, nv * level.kernels->vector_floats,
                                       [&](int64_t l, int64_t j) { return p.w[l * n + j]; });
          p.check(what(level), level.kernels->gemm_scratch(nv, m, n, k),
                  [&](const GemmCall& call) { level.kernels->gemm(nv, call); }, b.data(), 0, 0);
          if (HasFatalFailure()) return;
          ++seed;
        }
  }
}

TEST(Gemm, LargeSizesAreCutAlongK) {
  for (const Level& level : levels())
    for (Size s : {Size{2, 150, 200, 1500}, Size{1, 61, 300, 4000}, Size{2, 97, 260, 2100}}) {
      const Product p(s, 0, false, 7);
      const Floats b = pack_panels(s.n, s.k, s.nv * level.kernels->vector_floats,
                                   [&](int64_t l, int64_t j) { return p.w[l * s.n + j]; });
      p.check(what(level), level.kernels->gemm_scratch(s.nv, s.m, s.n, s.k),
              [&](const GemmCall& call) { level.kernels->gemm(s.nv, call); }, b.data(), 0, 0);
    }
}

// A chain over all of K would be 3.8e-5 off: it rounds the same way at each step.
TEST(Gemm, LongSumsAreAddedInPieces) {
  for (const Level& level : levels()) {
    const Size s{1, 61, 300, 4096};
    Floats a(s.m * s.k);
    for (int64_t i = 0; i < a.size(); ++i) a[i] = 0.1f;
    const Floats b = pack_panels(s.n, s.k, level.kernels->vector_floats, [](int64_t, int64_t) { return 1.f; });
    const int64_t scratch_floats = level.kernels->gemm_scratch(s.nv, s.m, s.n, s.k);
    ASSERT_GT(scratch_floats, 0) << what(level) << " does not cut along K";
    Floats c(s.m * s.n), bias(s.n), scratch(scratch_floats);
    level.kernels->gemm(s.nv, {s.m, s.n, s.k, a.data(), s.k, 1, b.data(), 0, 0, c.data(), bias.data(), scratch.data(), 0, 1});
    const double sum = 0.1f * static_cast<double>(s.k);
    ASSERT_LE(error(c, std::vector<double>(static_cast<size_t>(s.m * s.n), sum)), 6e-6 * sum) << what(level);
  }
}

TEST(Gemm, ConstantSizes) {
  std::vector<Size> sizes;
#define GEMM(nv, m, n, k) sizes.push_back({nv, m, n, k});
#include "tests/unit/targets/shapes.def"
  for (const Level& level : levels())
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Size s = sizes[i];
      const Product p(s, 3, false, 11);
      const Floats b = pack_panels(s.n, s.k, s.nv * level.kernels->vector_floats,
                                   [&](int64_t l, int64_t j) { return p.w[l * s.n + j]; });
      p.check(what(level), level.kernels->gemm_scratch(s.nv, s.m, s.n, s.k),
              [&](const GemmCall& call) { level.kernels->gemm_constant(static_cast<int>(i), call); }, b.data(), 0, 0);
    }
}

TEST(GemmOfActivations, BothOrientations) {
  for (const Level& level : levels()) {
    unsigned seed = 100;
    for (int64_t m : {1, 2, 5, 6, 7, 13, 40})
      for (int64_t n : {1, 5, 8, 16, 19, 33, 70, 150})
        for (int64_t k : {1, 4, 9, 16, 35, 300}) {
          const int nv = 1 + static_cast<int>(seed) % level.kernels->max_nv;
          const Product p({nv, m, n, k}, seed % 3, false, seed);
          const int64_t gap = seed % 4;
          Floats straight(k * (n + gap)), turned(n * (k + gap)), sparse(k * n * 2 + 1);
          for (int64_t l = 0; l < k; ++l)
            for (int64_t j = 0; j < n; ++j) {
              straight[l * (n + gap) + j] = turned[j * (k + gap) + l] = sparse[(l * n + j) * 2] = p.w[l * n + j];
            }
          const int64_t scratch = level.kernels->gemm_ab_scratch(nv, m, n, k);
          auto run = [&](const GemmCall& call) { level.kernels->gemm_ab(nv, call); };
          p.check(what(level) + " [K][N]", scratch, run, straight.data(), n + gap, 1);
          p.check(what(level) + " [N][K]", scratch, run, turned.data(), 1, k + gap);
          p.check(what(level) + " strided", scratch, run, sparse.data(), n * 2, 2);
          if (HasFatalFailure()) return;
          ++seed;
        }
  }
}

}  // namespace
}  // namespace nacre::test
