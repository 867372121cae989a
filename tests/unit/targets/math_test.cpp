#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "tests/unit/targets/kernel_test.h"

namespace nacre::test {
namespace {

using Exact = long double;  // 64 bits of mantissa on x86

// |got - want| in units of the last place of `want` rounded to T; denormals count in the smallest unit.
template <class T>
double ulps(T got, Exact want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got) || std::isnan(got))
    return rounded == got ? 0 : std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(std::max(std::fabs(rounded), std::numeric_limits<T>::min()), &exponent);
  return static_cast<double>(std::fabs(static_cast<Exact>(got) - want) /
                             std::ldexp(Exact{1}, exponent - std::numeric_limits<T>::digits));
}

struct Claim {
  Exact (*exact)(Exact);
  double float_ulps, double_ulps;
  bool (*domain)(Exact) = nullptr;
};
Exact exact_sigmoid(Exact x) { return 1 / (1 + std::exp(-x)); }
const std::map<std::string, Claim> kClaims = {
    {"exp", {[](Exact x) { return std::exp(x); }, 1.1, 1.1}},
    {"exp2", {[](Exact x) { return std::exp2(x); }, 1.1, 1.1}},
    {"expm1", {[](Exact x) { return std::expm1(x); }, 1.6, 2}},
    {"log", {[](Exact x) { return std::log(x); }, 0.8, 1}},
    {"log1p", {[](Exact x) { return std::log1p(x); }, 1.5, 2}},
    {"log2", {[](Exact x) { return std::log2(x); }, 0.51, 3}},
    {"log10", {[](Exact x) { return std::log10(x); }, 0.51, 3}},
    {"tanh", {[](Exact x) { return std::tanh(x); }, 2.3, 2.5}},
    {"sigmoid", {exact_sigmoid, 2.4, 2.5}},
    {"erf", {[](Exact x) { return std::erf(x); }, 2.8, 1.1}},
    {"erfc", {[](Exact x) { return std::erfc(x); }, 0.51, 4.5}},
    {"sin", {[](Exact x) { return std::sin(x); }, 1.6, 2.5}},
    {"cos", {[](Exact x) { return std::cos(x); }, 1.6, 2.5}},
    {"tan", {[](Exact x) { return std::tan(x); }, 3.2, 4}},
    {"asin", {[](Exact x) { return std::asin(x); }, 0.51, 2.5}},
    {"acos", {[](Exact x) { return std::acos(x); }, 0.51, 2.5}},
    {"atan", {[](Exact x) { return std::atan(x); }, 0.51, 2.5}},
    {"sinh", {[](Exact x) { return std::sinh(x); }, 0.51, 3}},
    {"cosh", {[](Exact x) { return std::cosh(x); }, 0.51, 3}},
    {"asinh", {[](Exact x) { return std::asinh(x); }, 0.51, 3}},
    {"acosh", {[](Exact x) { return std::acosh(x); }, 0.51, 3}},
    {"atanh", {[](Exact x) { return std::atanh(x); }, 0.51, 3}},
    {"sqrt", {[](Exact x) { return std::sqrt(x); }, 0.51, 0.51}},
    {"rsqrt", {[](Exact x) { return 1 / std::sqrt(x); }, 1.5, 1.5}},
    {"floor", {[](Exact x) { return std::floor(x); }, 0, 0}},
    {"ceil", {[](Exact x) { return std::ceil(x); }, 0, 0}},
    {"trunc", {[](Exact x) { return std::trunc(x); }, 0, 0}},
    {"round_even", {[](Exact x) { return std::nearbyint(x); }, 0, 0}},
    {"exp_negative", {[](Exact x) { return std::exp(x); }, 1.1, 1.1,
                      [](Exact x) { return std::isnan(x) || (x <= 0 && x > -87.3L); }}},
    {"relu", {[](Exact x) { return std::isnan(x) ? x : std::max(x, Exact{0}); }, 0, 0}},
    {"relu6", {[](Exact x) { return std::isnan(x) ? x : std::min(std::max(x, Exact{0}), Exact{6}); }, 0, 0}},
    {"softplus", {[](Exact x) { return std::max(x, Exact{0}) + std::log1p(std::exp(-std::fabs(x))); }, 3, 4}},
};
// Without FMA, products of the polynomials round once more.
constexpr double kWithoutFma = 2;

template <class T>
std::vector<T> arguments() {
  std::vector<T> x;
  std::mt19937_64 random(20261129);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  for (int i = 0; i < 60000; ++i) {
    const Bits bits = static_cast<Bits>(random());
    T value;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
  }
  for (T limit : {T{1}, T{10}, T{110}, T{750}}) {
    std::uniform_real_distribution<T> uniform(-limit, limit);
    for (int i = 0; i < 30000; ++i) x.push_back(uniform(random));
  }
  const T infinity = std::numeric_limits<T>::infinity();
  for (T value : {T{0}, -T{0}, T{1}, T{-1}, T{0.5}, T{-0.5}, T{1.5}, T{2.5}, T{-2.5}, T{2}, infinity, -infinity,
                  std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest(),
                  std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(), T{88.72}, T{-103.9}, T{709.78}})
    x.push_back(value);
  while (x.size() % 16 != 0) x.push_back(T{0.25});
  return x;
}

template <class T>
void check(const std::string& what, const Claim& claim, double limit, const std::vector<T>& x, const std::vector<T>& y) {
  double worst = 0;
  T at = 0, got = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (claim.domain != nullptr && !claim.domain(x[i])) continue;
    const Exact want = claim.exact(x[i]);
    const double u = ulps(y[i], want);
    if (u > worst) worst = u, at = x[i], got = y[i];
    if (want == 0 && y[i] == 0) {
      EXPECT_EQ(std::signbit(want), std::signbit(y[i])) << what << " of " << x[i];
    }
  }
  EXPECT_LE(worst, limit) << what << " of " << at << " is " << got << ", not " << static_cast<double>(claim.exact(at));
}

TEST(Math, StatedErrorsOfOneArgument) {
  const std::vector<float> x = arguments<float>();
  const std::vector<double> xd = arguments<double>();
  for (const Level& level : levels()) {
    const double slack = level.fma ? 1 : kWithoutFma;
    size_t tested = 0;
    for (const FloatFunction* f = level.functions->functions; f->name != nullptr; ++f) {
      const auto found = kClaims.find(f->name);
      if (found == kClaims.end()) continue;
      ++tested;
      const Claim& claim = found->second;
      const std::string what = level.name + " " + f->name;
      std::vector<float> y(x.size());
      f->scalar(x.data(), y.data(), static_cast<int64_t>(x.size()));
      check(what, claim, claim.float_ulps * slack, x, y);
      std::vector<float> v(x.size());
      f->vector(x.data(), v.data(), static_cast<int64_t>(x.size()));
      check(what + " (vector)", claim, claim.float_ulps * slack, x, v);
      std::vector<double> yd(xd.size());
      f->wide(xd.data(), yd.data(), static_cast<int64_t>(xd.size()));
      check(what + " (double)", claim, claim.double_ulps * slack, xd, yd);
    }
    EXPECT_EQ(tested, kClaims.size());
  }
}

// Against its formula, in units of the greatest magnitude involved.
TEST(Math, Activations) {
  const std::map<std::string, Exact (*)(Exact)> exact = {
      {"gelu", [](Exact x) { return x / 2 * (1 + std::erf(x / std::sqrt(Exact{2}))); }},
      {"gelu_tanh", [](Exact x) { return x / 2 * (1 + std::tanh(0.797884560802865355879892L * (x + 0.044715L * x * x * x))); }},
      {"silu", [](Exact x) { return x / (1 + std::exp(-x)); }},
      {"mish", [](Exact x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"hardsigmoid", [](Exact x) { return std::min(std::max(x + 3, Exact{0}), Exact{6}) / 6; }},
      {"hardswish", [](Exact x) { return x * std::min(std::max(x + 3, Exact{0}), Exact{6}) / 6; }}};
  std::vector<float> x, y(16 * 4096), v(16 * 4096);
  for (int i = 0; i < 16 * 4096; ++i) x.push_back(static_cast<float>(i - 32768) / 3000.f);
  for (const Level& level : levels()) {
    size_t tested = 0;
    for (const FloatFunction* f = level.functions->functions; f->name != nullptr; ++f) {
      const auto found = exact.find(f->name);
      if (found == exact.end()) continue;
      ++tested;
      f->scalar(x.data(), y.data(), static_cast<int64_t>(x.size()));
      f->vector(x.data(), v.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = static_cast<double>(found->second(x[i])), limit = 3e-7 * std::max(1.0, std::fabs(double{x[i]}));
        ASSERT_NEAR(y[i], want, limit) << level.name << ' ' << f->name << " of " << x[i];
        ASSERT_NEAR(v[i], want, limit) << level.name << ' ' << f->name << " of " << x[i];
      }
      float nan = std::numeric_limits<float>::quiet_NaN(), out = 0;
      f->scalar(&nan, &out, 1);
      EXPECT_TRUE(std::isnan(out)) << f->name;
    }
    EXPECT_EQ(tested, exact.size());
  }
}

Exact exact_remainder(Exact a, Exact b) {
  const Exact r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class T>
std::pair<std::vector<T>, std::vector<T>> pairs() {
  std::vector<T> a, b;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<T> base(0, 4), power(-30, 30);
  for (int i = 0; i < 40000; ++i) {
    a.push_back(base(random));
    b.push_back(power(random));
    a.push_back(power(random));
    b.push_back(static_cast<T>(static_cast<int>(random() % 41) - 20));
  }
  const T infinity = std::numeric_limits<T>::infinity();
  const T special[] = {0, -T{0}, 1, -1, 2, -2, 3, -3, T{0.5}, T{-0.5}, infinity, -infinity,
                       std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::denorm_min(),
                       -std::numeric_limits<T>::min(), T{1e38}, T{-1e38}, T{2.5}, static_cast<T>(16777217), T{1e10}};
  for (T x : special)
    for (T y : special) a.push_back(x), b.push_back(y);
  while (a.size() % 16 != 0) a.push_back(1), b.push_back(1);
  return {a, b};
}

TEST(Math, StatedErrorsOfTwoArguments) {
  struct Claim2 {
    Exact (*exact)(Exact, Exact);
    double float_ulps, double_ulps;
  };
  const std::map<std::string, Claim2> claims = {
      {"pow", {[](Exact a, Exact b) { return std::pow(a, b); }, 0.51, 1.5}},
      {"atan2", {[](Exact a, Exact b) { return std::atan2(a, b); }, 0.51, 2.6}},
      {"fmod", {[](Exact a, Exact b) { return std::fmod(a, b); }, 0, 0}},
      {"remainder", {exact_remainder, 0.51, 0.51}},
      {"maximum", {[](Exact a, Exact b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); }, 0, 0}},
      {"minimum", {[](Exact a, Exact b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); }, 0, 0}},
      {"copysign", {[](Exact a, Exact b) { return std::copysign(a, b); }, 0, 0}}};
  const auto [a, b] = pairs<float>();
  const auto [ad, bd] = pairs<double>();
  for (const Level& level : levels()) {
    const double slack = level.fma ? 1 : kWithoutFma;
    size_t tested = 0;
    for (const FloatFunction2* f = level.functions->functions2; f->name != nullptr; ++f) {
      const auto found = claims.find(f->name);
      if (found == claims.end()) continue;
      ++tested;
      const Claim2& claim = found->second;
      const bool quotient = std::string(f->name) == "fmod" || std::string(f->name) == "remainder";
      std::vector<float> y(a.size()), v(a.size());
      f->scalar(a.data(), b.data(), y.data(), static_cast<int64_t>(a.size()));
      f->vector(a.data(), b.data(), v.data(), static_cast<int64_t>(a.size()));
      std::vector<double> yd(ad.size());
      f->wide(ad.data(), bd.data(), yd.data(), static_cast<int64_t>(ad.size()));
      for (size_t i = 0; i < a.size(); ++i) {
        if (quotient && std::fabs(double{a[i]} / b[i]) > 1e15 && !std::isinf(a[i]) && b[i] != 0) continue;
        const Exact want = claim.exact(a[i], b[i]);
        ASSERT_LE(ulps(y[i], want), claim.float_ulps * slack)
            << level.name << ' ' << f->name << '(' << a[i] << ", " << b[i] << ") is " << y[i] << ", not " << static_cast<double>(want);
        ASSERT_LE(ulps(v[i], want), claim.float_ulps * slack)
            << level.name << " vector " << f->name << '(' << a[i] << ", " << b[i] << ") is " << v[i] << ", not " << static_cast<double>(want);
      }
      for (size_t i = 0; i < ad.size(); ++i) {
        if (quotient && std::fabs(ad[i] / bd[i]) > 9e15 && !std::isinf(ad[i]) && bd[i] != 0) continue;
        const Exact want = claim.exact(ad[i], bd[i]);
        ASSERT_LE(ulps(yd[i], want), claim.double_ulps * slack)
            << level.name << " double " << f->name << '(' << ad[i] << ", " << bd[i] << ") is " << yd[i] << ", not " << static_cast<double>(want);
      }
    }
    EXPECT_EQ(tested, claims.size());
  }
}

}  // namespace
}  // namespace nacre::test
