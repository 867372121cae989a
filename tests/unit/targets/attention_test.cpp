#include <cmath>
#include <limits>

#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

enum class Mask { none, random, first_query_masked, nan_score };

void check(const std::string& what, const Level& level, AttentionCall a, Mask mask_kind, unsigned seed,
           const std::function<void(const AttentionCall&)>& run) {
  const Floats q = random_floats(a.batch * a.s * a.heads * a.d, seed), k = random_floats(a.batch * a.t * a.heads * a.d, seed + 1),
               v = random_floats(a.batch * a.t * a.heads * a.e, seed + 2);
  Floats mask = random_floats(a.s * a.t, seed + 3);
  const double infinity = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < a.s * a.t; ++i)
    if (mask[i] < -0.7f) mask[i] = static_cast<float>(-infinity);
  if (mask_kind == Mask::first_query_masked)
    for (int64_t j = 0; j < a.t; ++j) mask[j] = static_cast<float>(-infinity);
  if (mask_kind == Mask::nan_score) mask[0] = std::numeric_limits<float>::quiet_NaN();
  a.scale = 3.f / std::sqrt(static_cast<float>(a.d));
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.mask = mask_kind == Mask::none ? nullptr : mask.data();
  std::vector<double> expected(static_cast<size_t>(a.batch * a.s * a.heads * a.e));
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.s; ++i) {
        std::vector<double> score(static_cast<size_t>(a.t));
        double greatest = -infinity, sum = 0;
        for (int64_t j = 0; j < a.t; ++j) {
          double x = 0;
          for (int64_t l = 0; l < a.d; ++l)
            x += double{q[((b * a.s + i) * a.heads + h) * a.d + l]} * k[((b * a.t + j) * a.heads + h) * a.d + l];
          x *= a.scale;
          if (a.mask != nullptr) x += mask[i * a.t + j];
          if (a.causal && j > i) x = -infinity;
          score[static_cast<size_t>(j)] = x;
          greatest = std::isnan(x) || x > greatest ? x : greatest;
        }
        for (double& x : score) {
          x = greatest == -infinity ? 0 : std::exp(x - greatest);
          sum += x;
        }
        for (int64_t c = 0; c < a.e; ++c) {
          double x = 0;
          for (int64_t j = 0; j < a.t; ++j)
            x += score[static_cast<size_t>(j)] * v[((b * a.t + j) * a.heads + h) * a.e + c];
          expected[static_cast<size_t>(((b * a.s + i) * a.heads + h) * a.e + c)] = sum == 0 ? 0 : x / sum;
        }
      }
  for (int threads : {1, 2, 3}) {
    Floats out(static_cast<int64_t>(expected.size()));
    for (int thread = 0; thread < threads; ++thread) {
      Floats scratch(level.kernels->attention_scratch(a));
      a.out = out.data(), a.scratch = scratch.data(), a.thread = thread, a.threads = threads;
      run(a);
      ASSERT_TRUE(scratch.intact()) << what;
    }
    ASSERT_TRUE(out.intact()) << what;
    for (size_t i = 0; i < expected.size(); ++i) {
      const float got = out[static_cast<int64_t>(i)];
      ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(got) : std::fabs(got - expected[i]) <= 4e-6)
          << what << " element " << i << ": " << got << ", not " << expected[i] << "; batch " << a.batch << " heads "
          << a.heads << " queries " << a.s << " keys " << a.t << " d " << a.d << " e " << a.e << " causal " << a.causal
          << " mask " << static_cast<int>(mask_kind) << ", " << threads << " threads";
    }
  }
}

AttentionCall attention_call(int64_t b, int64_t h, int64_t s, int64_t t, int64_t d, int64_t e, bool causal) {
  AttentionCall a{};
  a.batch = b, a.heads = h, a.s = s, a.t = t, a.d = d, a.e = e, a.causal = causal;
  return a;
}

TEST(Attention, RunTimeSizes) {
  for (const Level& level : levels()) {
    unsigned seed = 1;
    for (int64_t s : {1, 2, 4, 5, 6, 7, 13, 29})
      for (int64_t t : {1, 3, 8, 15, 16, 17, 33, 80})
        for (int64_t d : {1, 8, 13, 32})
          for (Mask mask : {Mask::none, Mask::random}) {
            ++seed;
            check(level.name, level,
                  attention_call(1 + seed % 2, 1 + seed % 3, s, t, d, seed % 2 == 0 ? d : d + 5, seed % 5 == 0), mask, seed,
                  level.kernels->attention);
            if (HasFatalFailure()) return;
          }
  }
}

TEST(Attention, FullyMaskedQueriesGiveZeroAndNanStays) {
  for (const Level& level : levels())
    for (int64_t s : {2, 9})
      for (Mask mask : {Mask::first_query_masked, Mask::nan_score})
        check(level.name, level, attention_call(1, 2, s, 11, 8, 16, false), mask, 4, level.kernels->attention);
}

TEST(Attention, ConstantSizes) {
  std::vector<AttentionCall> shapes;
#define ATTENTION(...) shapes.push_back(attention_call(__VA_ARGS__));
#include "tests/unit/targets/shapes.def"
  for (const Level& level : levels())
    for (size_t i = 0; i < shapes.size(); ++i)
      for (Mask mask : {Mask::none, Mask::random})
        check(level.name, level, shapes[i], mask, 6,
              [&](const AttentionCall& a) { level.kernels->attention_constant(static_cast<int>(i), a); });
}

}  // namespace
}  // namespace nacre::test
