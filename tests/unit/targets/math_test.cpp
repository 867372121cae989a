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

// As Python's, with PyTorch's zeros and infinities.
Exact exact_floor_division(Exact a, Exact b) {
  if (b == 0 || std::isnan(a) || std::isnan(b)) return a / b;
  if (std::isinf(a)) return std::nan("");
  if (std::isinf(b)) return a != 0 && (a < 0) != (b < 0) ? -1 : std::copysign(Exact{0}, a / b);
  return std::floor(a / b);
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
      {"copysign", {[](Exact a, Exact b) { return std::copysign(a, b); }, 0, 0}},
      {"div_floor", {exact_floor_division, 1.01, 1.01}}};
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
      std::vector<float> y(a.size()), v(a.size());
      f->scalar(a.data(), b.data(), y.data(), static_cast<int64_t>(a.size()));
      f->vector(a.data(), b.data(), v.data(), static_cast<int64_t>(a.size()));
      std::vector<double> yd(ad.size());
      f->wide(ad.data(), bd.data(), yd.data(), static_cast<int64_t>(ad.size()));
      for (size_t i = 0; i < a.size(); ++i) {
        const Exact want = claim.exact(a[i], b[i]);
        ASSERT_LE(ulps(y[i], want), claim.float_ulps * slack)
            << level.name << ' ' << f->name << '(' << a[i] << ", " << b[i] << ") is " << y[i] << ", not " << static_cast<double>(want);
        ASSERT_LE(ulps(v[i], want), claim.float_ulps * slack)
            << level.name << " vector " << f->name << '(' << a[i] << ", " << b[i] << ") is " << v[i] << ", not " << static_cast<double>(want);
      }
      for (size_t i = 0; i < ad.size(); ++i) {
        const Exact want = claim.exact(ad[i], bd[i]);
        ASSERT_LE(ulps(yd[i], want), claim.double_ulps * slack)
            << level.name << " double " << f->name << '(' << ad[i] << ", " << bd[i] << ") is " << yd[i] << ", not " << static_cast<double>(want);
      }
    }
    EXPECT_EQ(tested, claims.size());
  }
}

// Numbers of any size, subnormal ones among them.
template <class T>
std::vector<T> any_size(unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<T> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits,
                                              std::numeric_limits<T>::max_exponent);
  std::vector<T> x(1 << 14);
  for (T& v : x) v = std::ldexp(mantissa(random), exponent(random));
  return x;
}

TEST(Math, RemaindersAreExactForAnyQuotient) {
  const std::vector<float> a = any_size<float>(1), b = any_size<float>(2);
  const std::vector<double> ad = any_size<double>(3), bd = any_size<double>(4);
  const auto n = static_cast<int64_t>(a.size());
  for (const Level& level : levels())
    for (const FloatFunction2* f = level.functions->functions2; f->name != nullptr; ++f) {
      if (std::string(f->name) != "fmod") continue;
      std::vector<float> y(a.size()), v(a.size());
      std::vector<double> yd(ad.size());
      f->scalar(a.data(), b.data(), y.data(), n);
      f->vector(a.data(), b.data(), v.data(), n);
      f->wide(ad.data(), bd.data(), yd.data(), n);
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(ulps(y[i], std::fmod(a[i], b[i])), 0) << level.name << ' ' << a[i] << ", " << b[i];
        ASSERT_EQ(ulps(v[i], std::fmod(a[i], b[i])), 0) << level.name << " vector " << a[i] << ", " << b[i];
        ASSERT_EQ(ulps(yd[i], std::fmod(ad[i], bd[i])), 0) << level.name << " double " << ad[i] << ", " << bd[i];
      }
    }
}

// What torch.div(a, b, rounding_mode="floor") gives at the edges, with the sign of its zeros.
TEST(Math, FloorDivisionAtTheEdges) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  struct Quotient {
    double a, b, want;
  };
  const Quotient quotients[] = {
      {0.5, -inf, -1}, {-0.5, inf, -1}, {0.5, inf, 0.0},  {-0.5, -inf, 0.0}, {0.0, inf, 0.0},  {0.0, -inf, -0.0},
      {-0.0, inf, -0.0}, {inf, 2, nan}, {inf, inf, nan},  {-0.5, -2, 0.0},   {0.5, 2, 0.0},    {0.5, -2, -1},
      {-0.0, 2, -0.0}, {1, 0, inf},     {-1, 0.0, -inf},  {0.0, 0.0, nan},   {nan, 1, nan},    {7, -2, -4},
      {-7, -2, 3},     {1, 0.1, 9},     {1e38, 1e-38, 0}, {1e38, -1e-38, 0}};
  for (const Level& level : levels()) {
    for (const FloatFunction2* f = level.functions->functions2; f->name != nullptr; ++f) {
      if (std::string(f->name) != "div_floor") continue;
      for (const Quotient& q : quotients) {
        const float a = static_cast<float>(q.a), b = static_cast<float>(q.b);
        const double want = q.a == 1e38 ? std::copysign(inf, q.b) : q.want;  // the quotient overflows in float32
        float y = 0;
        f->scalar(&a, &b, &y, 1);
        std::vector<float> as(16, a), bs(16, b), ys(16);
        f->vector(as.data(), bs.data(), ys.data(), 16);
        for (const float got : {y, ys[0], ys[15]}) {
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got)) << level.name << ' ' << a << " // " << b << " is " << got;
          } else {
            EXPECT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << level.name << ' ' << a << " // " << b << " is " << got;
          }
        }
      }
    }
  }
}

// Of equals the first stays, as in torch.clamp.
TEST(Math, MaximumAndMinimumKeepTheSignOfZero) {
  for (const Level& level : levels()) {
    for (const FloatFunction2* f = level.functions->functions2; f->name != nullptr; ++f) {
      if (std::string(f->name) != "maximum" && std::string(f->name) != "minimum") continue;
      for (const float zero : {0.f, -0.f}) {
        const std::vector<float> a(16, zero), b(16, -zero);
        std::vector<float> y(16), v(16);
        f->scalar(a.data(), b.data(), y.data(), 16);
        f->vector(a.data(), b.data(), v.data(), 16);
        for (size_t i = 0; i < 16; ++i) {
          EXPECT_EQ(std::signbit(y[i]), std::signbit(zero)) << level.name << ' ' << f->name;
          EXPECT_EQ(std::signbit(v[i]), std::signbit(zero)) << level.name << ' ' << f->name << " (vector)";
        }
      }
    }
  }
}

// Magnitudes beside zero: LLVM 19 forgets that |x| > 0 holds for negative x too.
TEST(Math, MagnitudesBesideZero) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {0, -0.f, 1, -1, -0.25f, 3, -3, infinity, -infinity, -1e-40f, 1e-40f, nan, -2, -4, -1e30f, 5};
  const std::vector<double> wide(x.begin(), x.end());
  const std::map<std::string, float (*)(float)> want = {
      {"zero_or_magnitude", [](float v) { return std::fabs(v); }},
      {"magnitude_or_zero", [](float v) { return std::fabs(v); }},
      {"zero_below_magnitude", [](float) { return 0.f; }}};
  for (const Level& level : levels()) {
    size_t tested = 0;
    for (const FloatFunction* f = level.functions->functions; f->name != nullptr; ++f) {
      const auto found = want.find(f->name);
      if (found == want.end()) continue;
      ++tested;
      std::vector<float> y(16), v(16);
      std::vector<double> d(16);
      f->scalar(x.data(), y.data(), 16);
      f->vector(x.data(), v.data(), 16);
      f->wide(wide.data(), d.data(), 16);
      for (size_t i = 0; i < 16; ++i) {
        const float expected = found->second(x[i]);
        for (const double got : {double{y[i]}, double{v[i]}, d[i]}) {
          if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(got)) << level.name << ' ' << f->name << " is " << got;
          } else {
            EXPECT_FALSE(std::signbit(got)) << level.name << ' ' << f->name << " of " << x[i];
            EXPECT_EQ(got, double{expected}) << level.name << ' ' << f->name << " of " << x[i];
          }
        }
      }
    }
    EXPECT_EQ(tested, want.size());
  }
}

// What LLVM calls where the machine has no float16 arithmetic.
TEST(Math, MinimumAndMaximumThatTheCompilerCalls) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Level& level : levels()) {
    for (const auto function : {level.functions->minimum_number, level.functions->maximum_number}) {
      EXPECT_EQ(function(1, nan), 1.f);
      EXPECT_EQ(function(nan, 1), 1.f);
      EXPECT_TRUE(std::isnan(function(nan, nan)));
      EXPECT_TRUE(std::signbit(function(0.f, -0.f)));  // the second of equals
      EXPECT_FALSE(std::signbit(function(-0.f, 0.f)));
    }
    EXPECT_EQ(level.functions->minimum_number(1, 2), 1.f);
    EXPECT_EQ(level.functions->maximum_number(1, 2), 2.f);
  }
}

TEST(Math, HalfPrecisionWithoutInstructions) {
  const Level v2 = levels().front();
  ASSERT_NE(v2.functions->from_half, nullptr);
  const auto value = [](uint32_t bits) {  // 0x7c00 counts as 2^16
    return static_cast<float>(bits < 0x400 ? std::ldexp(bits, -24) : std::ldexp(1024 + (bits & 1023), static_cast<int>(bits >> 10) - 25));
  };
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float x = value(bits), middle = (x + value(bits + 1)) / 2;
    for (const float sign : {1.f, -1.f}) {
      const uint32_t s = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(v2.functions->from_half(static_cast<uint16_t>(bits | s)), sign * x) << bits;
      ASSERT_EQ(v2.functions->to_half(sign * x), bits | s) << x;
      ASSERT_EQ(v2.functions->to_half(sign * middle), (bits + (bits & 1)) | s) << middle;
      ASSERT_EQ(v2.functions->to_half(sign * std::nextafter(middle, 0.f)), bits | s) << middle;
      ASSERT_EQ(v2.functions->to_half(sign * std::nextafter(middle, 1e9f)), (bits + 1) | s) << middle;
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(v2.functions->from_half(0x7c00), inf);
  EXPECT_EQ(v2.functions->from_half(0xfc00), -inf);
  EXPECT_EQ(v2.functions->to_half(-inf), 0xfc00);
  EXPECT_EQ(v2.functions->to_half(1e30f), 0x7c00);
  EXPECT_TRUE(std::isnan(v2.functions->from_half(0x7e01)));
  EXPECT_TRUE(std::isnan(v2.functions->from_half(v2.functions->to_half(std::nanf("")))));
}

}  // namespace
}  // namespace nacre::test
