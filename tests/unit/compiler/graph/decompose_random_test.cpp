// Random numbers from end to end: what their operators are distributed like, and when runs repeat.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "compiler/compile.h"
#include "compiler/graph/text.h"
#include "compiler/run.h"

namespace nacre {
namespace {

constexpr int64_t kSize = 100'000;

// In the order of the outputs.
enum Output { uniform, other_uniform, uniform_f64, normal, normal_of, integers, exponential, dropped, coins, order, chosen, picked };

constexpr const char* kGraph = R"(
graph forward functional {
  symbol s0: [1, 1000000]
  input %x: f32[s0] user "x"
  input %p: f32[3] user "p"
  %uniform: f32[s0] = aten.rand_like.default(self=%x)
  %other_uniform: f32[s0] = aten.rand_like.default(self=%x)
  %uniform_f64: f64[s0] = aten.rand_like.default(self=%x, dtype=f64)
  %normal: f32[s0] = aten.randn_like.default(self=%x)
  %normal_of: f32[s0] = aten.normal_functional.default(self=%x, mean=3.0, std=0.5)
  %integers: i64[s0] = aten.randint_like.low_dtype(self=%x, low=-2, high=5, dtype=i64)
  %exponential: f32[s0] = aten.exponential.default(self=%x, lambd=2.0)
  %dropped: f32[s0] = aten.dropout.default(input=%x, p=0.25, train=true)
  %coins: f32[s0] = aten.bernoulli.p(self=%x, p=0.3)
  %order: i64[s0] = aten.randperm.default(n=s0)
  %chosen: i64[1000] = aten.multinomial.default(self=%p, num_samples=1000, replacement=true)
  %picked: i64[2] = aten.multinomial.default(self=%p, num_samples=2)
  output %uniform user
  output %other_uniform user
  output %uniform_f64 user
  output %normal user
  output %normal_of user
  output %integers user
  output %exponential user
  output %dropped user
  output %coins user
  output %order user
  output %chosen user
  output %picked user
}
)";

HostTensor vector(const std::vector<float>& values) {
  std::byte* bytes = nullptr;
  const HostTensor made = make_tensor(NACRE_f32, {static_cast<int64_t>(values.size())}, &bytes);
  std::copy(values.begin(), values.end(), reinterpret_cast<float*>(bytes));
  return made;
}

class Random : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Program program;
    program.graph = parse_graph(kGraph);
    bytes_ = new AlignedBytes(artifact_memory(compile(std::move(program), {}).artifact));
    model_ = new RuntimeModel(RuntimeModel::open(*bytes_, "random"));
  }
  static void TearDownTestSuite() {
    delete model_;
    delete bytes_;
  }

  static RuntimeSession session(unsigned threads = 1) {
    nacre_session_options options{};
    options.threads = threads;
    return {*model_, options};
  }
  static std::vector<HostTensor> run(RuntimeSession& session, int64_t size = kSize) {
    RuntimeSession::Call call = session.prepare(0, {vector(std::vector<float>(static_cast<size_t>(size), 2.F)), vector({1, 0, 3})});
    session.run(call);
    return call.outputs;
  }
  static bool same(const HostTensor& a, const HostTensor& b) {
    return a.size_bytes == b.size_bytes && std::equal(a.data.get(), a.data.get() + a.size_bytes, b.data.get());
  }
  static bool same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const HostTensor& x, const HostTensor& y) { return same(x, y); });
  }

  static AlignedBytes* bytes_;
  static RuntimeModel* model_;
};
AlignedBytes* Random::bytes_ = nullptr;
RuntimeModel* Random::model_ = nullptr;

std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> all(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = t.dtype == NACRE_f32   ? static_cast<double>(t.as<float>()[i])
             : t.dtype == NACRE_f64 ? t.as<double>()[i]
                                    : static_cast<double>(t.as<int64_t>()[i]);
  return all;
}

double mean(const std::vector<double>& x, const std::function<double(double)>& of = [](double v) { return v; }) {
  double sum = 0;
  for (double v : x) sum += of(v);
  return sum / static_cast<double>(x.size());
}

// How far the mean of f(x) is from what it should be, in its own standard errors.
double errors_off(const std::vector<double>& x, const std::function<double(double)>& f, double expected) {
  const double m = mean(x, f), variance = mean(x, [&](double v) { return (f(v) - m) * (f(v) - m); });
  return std::abs(m - expected) / std::sqrt(variance / static_cast<double>(x.size()));
}

double identity(double v) { return v; }
double square(double v) { return v * v; }

// Pearson's sum over cells of equal probability, in standard deviations off its mean. `cell` is in [0, cells).
double unevenness(const std::vector<double>& x, int cells, const std::function<double(double)>& cell) {
  std::vector<double> count(static_cast<size_t>(cells));
  for (double v : x) count.at(static_cast<size_t>(cell(v)))++;
  const double expected = static_cast<double>(x.size()) / cells;
  double sum = 0;
  for (double n : count) sum += (n - expected) * (n - expected) / expected;
  return std::abs(sum - (cells - 1)) / std::sqrt(2.0 * (cells - 1));
}

constexpr double kFar = 5;  // standard errors; the seeds are fixed

TEST_F(Random, Uniform) {
  RuntimeSession s = session();
  const std::vector<HostTensor> y = run(s);
  for (Output output : {uniform, other_uniform, uniform_f64}) {
    const std::vector<double> x = numbers(y[output]);
    EXPECT_GE(*std::min_element(x.begin(), x.end()), 0);
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 1);
    EXPECT_LT(errors_off(x, identity, 0.5), kFar);
    EXPECT_LT(errors_off(x, square, 1.0 / 3), kFar);
    EXPECT_LT(unevenness(x, 100, [](double v) { return v * 100; }), kFar);
    // The lowest digits, too, and neighbours do not know each other.
    EXPECT_LT(unevenness(x, 64, [](double v) { return std::fmod(v * 16777216, 64); }), kFar);
    std::vector<double> products;
    for (size_t i = 1; i < x.size(); ++i) products.push_back((x[i] - 0.5) * (x[i - 1] - 0.5));
    EXPECT_LT(errors_off(products, identity, 0), kFar);
  }
  EXPECT_FALSE(same(y[uniform], y[other_uniform])) << "two operators have the same numbers";
}

TEST_F(Random, Normal) {
  RuntimeSession s = session();
  const std::vector<HostTensor> y = run(s);
  const std::vector<double> x = numbers(y[normal]);
  EXPECT_LT(errors_off(x, identity, 0), kFar);
  EXPECT_LT(errors_off(x, square, 1), kFar);
  EXPECT_LT(errors_off(x, [](double v) { return v * v * v; }, 0), kFar);
  EXPECT_LT(errors_off(x, [](double v) { return v * v * v * v; }, 3), kFar);
  EXPECT_LT(unevenness(x, 50, [](double v) { return std::min(49.0, 25 * std::erfc(-v / std::sqrt(2.0))); }), kFar);
  const std::vector<double> moved = numbers(y[normal_of]);
  EXPECT_LT(errors_off(moved, identity, 3), kFar);
  EXPECT_LT(errors_off(moved, [](double v) { return (v - 3) * (v - 3); }, 0.25), kFar);
}

TEST_F(Random, OtherDistributions) {
  RuntimeSession s = session();
  const std::vector<HostTensor> y = run(s);
  EXPECT_LT(unevenness(numbers(y[integers]), 7, [](double v) { return v + 2; }), kFar);
  const std::vector<double> times = numbers(y[exponential]);
  EXPECT_LT(errors_off(times, identity, 0.5), kFar);
  EXPECT_LT(unevenness(times, 50, [](double v) { return std::min(49.0, -50 * std::expm1(-2 * v)); }), kFar);
  const std::vector<double> kept = numbers(y[dropped]);
  for (double v : kept) ASSERT_TRUE(v == 0 || std::abs(v - 2 / 0.75) < 1e-6) << v;
  EXPECT_LT(errors_off(kept, identity, 2), kFar);
  EXPECT_LT(errors_off(numbers(y[coins]), identity, 0.3), kFar);
}

TEST_F(Random, OrdersAndChoices) {
  RuntimeSession s = session();
  const std::vector<HostTensor> y = run(s);
  std::vector<double> all = numbers(y[order]);
  std::vector<double> products;
  const double middle = (kSize - 1) / 2.0;
  for (size_t i = 0; i < all.size(); ++i) products.push_back((all[i] - middle) * (static_cast<double>(i) - middle));
  EXPECT_LT(errors_off(products, identity, 0), kFar);
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<double>(i));
  // The second of three has no chance.
  const std::vector<double> picks = numbers(y[chosen]);
  for (double v : picks) ASSERT_TRUE(v == 0 || v == 2) << v;
  EXPECT_LT(errors_off(picks, [](double v) { return v / 2; }, 0.75), kFar);
  const std::vector<double> pair = numbers(y[picked]);
  EXPECT_EQ(pair[0] + pair[1], 2);
  EXPECT_NE(pair[0], 1);
}

TEST_F(Random, RunsDifferAndSeedsRepeat) {
  RuntimeSession a = session();
  const std::vector<HostTensor> first = run(a), second = run(a);
  for (Output output : {uniform, normal, integers, dropped, order}) EXPECT_FALSE(same(first[output], second[output])) << output;
  // A new session, and one that is reset, start again.
  RuntimeSession b = session();
  EXPECT_TRUE(same(run(b), first));
  nacre_session_reset(a.get());
  EXPECT_TRUE(same(run(a), first));
  // So does a seed, and another seed has other numbers.
  ASSERT_EQ(nacre_session_seed(a.get(), 7), NACRE_OK);
  const std::vector<HostTensor> seven = run(a), seven_again = run(a);
  ASSERT_EQ(nacre_session_seed(b.get(), 7), NACRE_OK);
  EXPECT_TRUE(same(run(b), seven));
  EXPECT_TRUE(same(run(b), seven_again));
  ASSERT_EQ(nacre_session_seed(b.get(), 8), NACRE_OK);
  const std::vector<HostTensor> eight = run(b);
  for (Output output : {uniform, normal, integers, dropped, order}) {
    EXPECT_FALSE(same(seven[output], eight[output])) << output;
    EXPECT_FALSE(same(seven[output], first[output])) << output;
  }
}

TEST_F(Random, ThreadsAndSizesDoNotMatter) {
  RuntimeSession one = session(1), two = session(2);
  const std::vector<HostTensor> y = run(one);
  EXPECT_TRUE(same(run(two), y));
  RuntimeSession small = session();
  const std::vector<HostTensor> few = run(small, 10);
  EXPECT_TRUE(std::equal(few[uniform].as<float>(), few[uniform].as<float>() + 10, y[uniform].as<float>()));
}

// What draws in a branch, in the rounds of a loop that data end, and for each row.
constexpr const char* kBodies = R"(
graph forward functional {
  subgraph go_on graph go_on functional {
    input %i: i64[] user "i"
    input %a: f32[100000] user "a"
    input %b: f32[100000] user "b"
    %u: f32[] = aten.rand.default(size=[], dtype=f32)
    %end: f32[] = aten.add.Scalar(self=%u, other=1)
    %more: bool[] = aten.lt.Tensor(self=%i, other=%end)
    output %more user
  }
  subgraph round graph round functional {
    input %i: i64[] user "i"
    input %a: f32[100000] user "a"
    input %b: f32[100000] user "b"
    %j: i64[] = aten.add.Scalar(self=%i, other=1)
    %u: f32[100000] = aten.rand_like.default(self=%a)
    output %j user
    output %b user
    output %u user
  }
  subgraph row graph row functional {
    input %sum: f32[100000] user "sum"
    input %x: f32[100000] user "x"
    %u: f32[100000] = aten.rand_like.default(self=%x)
    %next: f32[100000] = aten.add.Tensor(self=%sum, other=%u)
    output %next user
    output %u user
  }
  subgraph yes graph yes functional {
    input %x: f32[100000] user "x"
    %u: f32[100000] = aten.rand_like.default(self=%x)
    output %u user
  }
  subgraph no graph no functional {
    input %x: f32[100000] user "x"
    %u: f32[100000] = aten.neg.default(self=%x)
    output %u user
  }
  input %x: f32[100000] user "x"
  input %rows: f32[2, 100000] user "rows"
  input %flag: bool[] user "flag"
  %zero: i64[] = aten.full.default(size=[], fill_value=0, dtype=i64)
  %count: i64[], %first: f32[100000], %second: f32[100000] = higher_order.while_loop(cond_graph=@go_on, body_graph=@round, carried_inputs=[%zero, %x, %x], additional_inputs=tensors[])
  %total: f32[100000], %each: f32[2, 100000] = higher_order.scan(combine_graph=@row, init=[%x], xs=[%rows], additional_inputs=tensors[])
  %branch: f32[100000] = higher_order.cond(predicate=%flag, true_graph=@yes, false_graph=@no, operands=[%x])
  %around: f32[100000] = aten.rand_like.default(self=%x)
  output %count user
  output %first user
  output %second user
  output %total user
  output %each user
  output %branch user
  output %around user
}
)";

TEST(RandomNumbers, DifferFromRoundToRoundInBodies) {
  Program program;
  program.graph = parse_graph(kBodies);
  const AlignedBytes bytes = artifact_memory(compile(std::move(program), {}).artifact);
  const RuntimeModel model = RuntimeModel::open(bytes, "bodies");
  RuntimeSession session(model, {});
  const auto run = [&](bool flag) {
    std::byte *rows = nullptr, *truth = nullptr;
    HostTensor pair = make_tensor(NACRE_f32, {2, kSize}, &rows), which = make_tensor(NACRE_bool_, {}, &truth);
    std::fill_n(reinterpret_cast<float*>(rows), 2 * kSize, 0.F);
    *reinterpret_cast<bool*>(truth) = flag;
    RuntimeSession::Call call = session.prepare(0, {vector(std::vector<float>(kSize, 0.F)), pair, which});
    session.run(call);
    return call.outputs;
  };
  const std::vector<HostTensor> y = run(true);
  EXPECT_EQ(y[0].as<int64_t>()[0], 2);
  std::vector<std::vector<double>> draws{numbers(y[1]), numbers(y[2]), numbers(y[5]), numbers(y[6])};
  const std::vector<double> rows = numbers(y[4]), total = numbers(y[3]);
  draws.emplace_back(rows.begin(), rows.begin() + kSize);
  draws.emplace_back(rows.begin() + kSize, rows.end());
  for (std::size_t i = 0; i < draws.size(); ++i) {
    EXPECT_LT(unevenness(draws[i], 100, [](double v) { return v * 100; }), kFar) << i;
    for (std::size_t j = 0; j < i; ++j) {
      std::vector<double> products;
      for (std::size_t k = 0; k < draws[i].size(); ++k) products.push_back((draws[i][k] - 0.5) * (draws[j][k] - 0.5));
      EXPECT_LT(errors_off(products, identity, 0), kFar) << i << " and " << j << " know each other";
    }
  }
  for (std::size_t k = 0; k < total.size(); ++k) ASSERT_NEAR(total[k], rows[k] + rows[k + kSize], 1e-6);
  const std::vector<HostTensor> other = run(false);
  EXPECT_EQ(other[5].as<float>()[0], 0);
  EXPECT_NE(numbers(other[1]), draws[0]);
  nacre_session_reset(session.get());
  EXPECT_EQ(numbers(run(true)[4]), rows);
}

// Wide ranges, distributions that draw until they accept, and dropout inside of operators: one graph.
constexpr const char* kMore = R"(
graph forward functional {
  input %x: f32[100000] user "x"
  input %q: f32[1, 1, 1000, 4] user "q"
  input %h: f32[2, 1, 1] user "h"
  input %w: f32[1, 1] user "w"
  input %v: f32[1, 1] user "v"
  %wide: i64[100000] = aten.randint.low(low=-9223372036854775808, high=9223372036854775807, size=[100000])
  %half: i64[100000] = aten.randint.low(low=-4611686018427387904, high=4611686018427387905, size=[100000])
  %all: i64[100000] = aten.random.default(self=%wide)
  %few: f32[100000] = aten.mul.Scalar(self=%x, other=3.5)
  %some: f32[100000] = aten.mul.Scalar(self=%x, other=0.5)
  %many: f32[100000] = aten.mul.Scalar(self=%x, other=50)
  %three: f32[100000] = aten.mul.Scalar(self=%x, other=3)
  %third: f32[100000] = aten.mul.Scalar(self=%x, other=0.3)
  %most: f32[100000] = aten.mul.Scalar(self=%x, other=0.8)
  %poisson_few: f32[100000] = aten.poisson.default(self=%few)
  %poisson_many: f32[100000] = aten.poisson.default(self=%many)
  %binomial_few: f32[100000] = aten.binomial.default(count=%three, prob=%third)
  %binomial_many: f32[100000] = aten.binomial.default(count=%many, prob=%most)
  %gamma_small: f32[100000] = aten._standard_gamma.default(self=%some)
  %gamma_large: f32[100000] = aten._standard_gamma.default(self=%few)
  %pairs: f32[50000, 2] = aten.view.default(self=%some, size=[50000, 2])
  %parts: f32[50000, 2] = aten._sample_dirichlet.default(self=%pairs)
  %attention: f32[1, 1, 1000, 4] = aten.scaled_dot_product_attention.default(query=%q, key=%q, value=%q, dropout_p=0.25)
  %steps: f32[100000, 1, 1] = aten.view.default(self=%x, size=[100000, 1, 1])
  %layers: f32[100000, 1, 1], %end: f32[2, 1, 1] = aten.rnn_relu.input(input=%steps, hx=%h, params=[%w, %v, %w, %v], has_biases=false, num_layers=2, dropout=0.5, train=true, bidirectional=false, batch_first=false)
  output %wide user
  output %half user
  output %all user
  output %poisson_few user
  output %poisson_many user
  output %binomial_few user
  output %binomial_many user
  output %gamma_small user
  output %gamma_large user
  output %parts user
  output %attention user
  output %layers user
}
)";

// In the order of the outputs.
enum More { wide, half, all, poisson_few, poisson_many, binomial_few, binomial_many, gamma_small, gamma_large, parts, attention, layers };

class MoreRandom : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Program program;
    program.graph = parse_graph(kMore);
    const AlignedBytes bytes = artifact_memory(compile(std::move(program), {}).artifact);
    const RuntimeModel model = RuntimeModel::open(bytes, "more random");
    RuntimeSession session(model, {});
    const auto ones = [](std::vector<int64_t> shape, float value) {
      std::byte* data = nullptr;
      HostTensor made = make_tensor(NACRE_f32, std::move(shape), &data);
      std::fill_n(reinterpret_cast<float*>(data), made.elements(), value);
      return made;
    };
    RuntimeSession::Call call =
        session.prepare(0, {ones({kSize}, 1), ones({1, 1, 1000, 4}, 1), ones({2, 1, 1}, 0), ones({1, 1}, 0.5), ones({1, 1}, 0)});
    session.run(call);
    for (const HostTensor& t : call.outputs) results_->push_back(numbers(t));
  }
  static const std::vector<double>& of(More output) { return results_->at(output); }

 private:
  static std::vector<std::vector<double>>* results_;
};
std::vector<std::vector<double>>* MoreRandom::results_ = new std::vector<std::vector<double>>;

TEST_F(MoreRandom, WideRanges) {
  const double whole = std::ldexp(1.0, 64);
  EXPECT_LT(unevenness(of(wide), 100, [&](double v) { return std::min(99.0, (v / whole + 0.5) * 100); }), kFar);
  EXPECT_LT(unevenness(of(all), 100, [&](double v) { return std::min(99.0, v / whole * 200); }), kFar);
  for (double v : of(half)) ASSERT_LE(std::abs(v), std::ldexp(1.0, 62));
  EXPECT_LT(errors_off(of(half), [&](double v) { return v / whole; }, 0), kFar);
}

// Whether values come as often as they should, by `probability` of 0, 1, ...
void expect_counts(const std::vector<double>& x, const std::function<double(double)>& log_probability) {
  std::vector<double> count(200);
  for (double v : x) count.at(static_cast<size_t>(v))++;
  double sum = 0, cells = 0;
  for (size_t k = 0; k < count.size(); ++k) {
    const double expected = std::exp(log_probability(static_cast<double>(k))) * static_cast<double>(x.size());
    if (!(expected > 20)) continue;
    sum += (count[k] - expected) * (count[k] - expected) / expected;
    cells++;
  }
  EXPECT_LT(std::abs(sum - cells) / std::sqrt(2 * cells), kFar);
}

TEST_F(MoreRandom, Counts) {
  const auto poisson = [](double rate) { return [rate](double k) { return k * std::log(rate) - rate - std::lgamma(k + 1); }; };
  expect_counts(of(poisson_few), poisson(3.5));
  expect_counts(of(poisson_many), poisson(50));
  const auto binomial = [](double n, double p) {
    return [n, p](double k) {
      if (k > n) return -std::numeric_limits<double>::infinity();
      return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) + (n - k) * std::log1p(-p);
    };
  };
  expect_counts(of(binomial_few), binomial(3, 0.3));
  expect_counts(of(binomial_many), binomial(50, 0.8));
}

TEST_F(MoreRandom, Gammas) {
  // Of shape 1/2 it is half the square of a normal number.
  EXPECT_LT(unevenness(of(gamma_small), 50, [](double v) { return std::min(49.0, 50 * std::erf(std::sqrt(v))); }), kFar);
  EXPECT_LT(errors_off(of(gamma_large), identity, 3.5), kFar);
  EXPECT_LT(errors_off(of(gamma_large), square, 3.5 * 4.5), kFar);
  EXPECT_LT(errors_off(of(gamma_large), [](double v) { return v * v * v; }, 3.5 * 4.5 * 5.5), kFar);
  // Two shares of shape 1/2 each: the arcsine law.
  std::vector<double> first;
  for (size_t i = 0; i < of(parts).size(); i += 2) {
    ASSERT_NEAR(of(parts)[i] + of(parts)[i + 1], 1, 1e-6);
    first.push_back(of(parts)[i]);
  }
  EXPECT_LT(unevenness(first, 50, [](double v) { return std::min(49.0, 100 / std::numbers::pi * std::asin(std::sqrt(v))); }), kFar);
}

TEST_F(MoreRandom, DropoutInsideOfOperators) {
  // The mean of 1000 ones of which a quarter is left out.
  std::vector<double> rows;
  for (size_t i = 0; i < of(attention).size(); i += 4) {
    ASSERT_EQ(of(attention)[i], of(attention)[i + 3]);
    rows.push_back(of(attention)[i]);
  }
  EXPECT_LT(errors_off(rows, identity, 1), kFar);
  EXPECT_LT(errors_off(rows, [](double v) { return (v - 1) * (v - 1); }, 0.25 / 0.75 / 1000), kFar);
  // The second layer gives half of what it sees of the first one: half of the time nothing, else 1.
  for (double v : of(layers)) ASSERT_TRUE(v == 0 || v == 0.5) << v;
  EXPECT_LT(errors_off(of(layers), identity, 0.25), kFar);
}

TEST(RandomNumbers, AModelWithoutThemHasNoSeed) {
  Program program;
  program.graph = parse_graph("graph forward functional {\n  input %x: f32[4] user \"x\"\n  %y: f32[4] = aten.relu.default(self=%x)\n  output %y user\n}\n");
  const AlignedBytes bytes = artifact_memory(compile(std::move(program), {}).artifact);
  const RuntimeModel model = RuntimeModel::open(bytes, "relu");
  RuntimeSession session(model, {});
  EXPECT_EQ(nacre_session_seed(session.get(), 1), NACRE_NOT_FOUND);
}

}  // namespace
}  // namespace nacre
