#include "exporter/eager.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

HostTensor filled(float each) {
  std::byte* bytes = nullptr;
  HostTensor t = make_tensor(NACRE_f32, {2}, &bytes);
  for (int i = 0; i < 2; ++i) reinterpret_cast<float*>(bytes)[i] = each;
  return t;
}

const char* kSum = R"(graph forward captured {
  input %total: f32[2] buffer "total"
  input %x: f32[2] user "x"
  %next: f32[2] = aten.add_.Tensor(%total, other=%x)
  output %total buffer_mutation "total"
})";

TEST(Eager, StateIsCarriedOnInDoublePrecision) {
  const Graph graph = parse_graph(kSum);
  std::map<std::string, HostTensor> weights{{"total", filled(1)}};
  for (int call = 0; call < 2; ++call)
    weights["total"] = run_eager(graph, weights, {filled(1e-12f)}, OracleType::wide).at(0);
  ASSERT_EQ(weights["total"].dtype, NACRE_f64);
  EXPECT_NEAR(weights["total"].as<double>()[0] - 1, 2e-12, 1e-15);
}

TEST(Eager, RefusesADoubleWhereTheGraphHasAFloat) {
  const Graph graph = parse_graph(kSum);
  const HostTensor wide = run_eager(graph, {{"total", filled(1)}}, {filled(1)}, OracleType::wide).at(0);
  EXPECT_THROW(run_eager(graph, {{"total", wide}}, {filled(1)}, OracleType::own), Error);
  EXPECT_THROW(run_eager(graph, {{"total", filled(1)}}, {wide}, OracleType::wide), Error);
}

TEST(Eager, ConversionThatTheOracleDoesNotNeedIsACopyAllTheSame) {
  const Graph graph = parse_graph(R"(graph forward captured {
  input %p: f32[2] parameter "p"
  input %x: f32[2] user "x"
  %wide: f64[2] = aten.to.dtype(%p, dtype=f64)
  %product: f64[2] = aten.mul_.Tensor(%wide, other=%x)
  output %product user "[0]"
})");
  const std::map<std::string, HostTensor> weights{{"p", filled(3)}};
  for (int call = 0; call < 2; ++call)
    EXPECT_EQ(run_eager(graph, weights, {filled(2)}, OracleType::narrow).at(0).as<float>()[0], 6);
  EXPECT_EQ(weights.at("p").as<float>()[0], 3);
}

TEST(Eager, FactorsOfProductsAreRoundedAndNothingElse) {
  const Graph graph = parse_graph(R"(graph forward captured {
  input %x: f32[2] user "x"
  %row: f32[1, 2] = aten.view.default(%x, size=[1, 2])
  %column: f32[2, 1] = aten.view.default(%x, size=[2, 1])
  %bias: f32[1, 1] = aten.slice.Tensor(%row, dim=1, start=0, end=1)
  %y: f32[1, 1] = aten.addmm.default(%bias, mat1=%row, mat2=%column)
  %z: f32[2] = aten.mul.Tensor(%x, other=%x)
  output %y user "[0]"
  output %z user "[1]"
})");
  const auto results = [&](float x) {
    const std::vector<HostTensor> all = run_eager(graph, {}, {filled(x)}, OracleType::tf32);
    return std::pair(all.at(0).as<float>()[0], all.at(1).as<float>()[0]);
  };
  // 1 + 2^-10 has 11 bits, 1 + 2^-11 lies between two numbers of 11 bits, the lower of which is 1: halves go up.
  EXPECT_EQ(results(1 + 0x1p-10f).first, 1 + 0x1p-10f + 2 * (1 + 0x1p-10f) * (1 + 0x1p-10f));
  EXPECT_EQ(results(1 + 0x1p-11f).first, 1 + 0x1p-11f + 2 * (1 + 0x1p-10f) * (1 + 0x1p-10f));
  EXPECT_EQ(results(1 + 0x1p-12f).first, 1 + 0x1p-12f + 2);
  EXPECT_EQ(results(1 + 0x1p-12f).second, (1 + 0x1p-12f) * (1 + 0x1p-12f));
  EXPECT_EQ(results(INFINITY).first, INFINITY);
  EXPECT_TRUE(std::isnan(results(NAN).first));
}

TEST(Eager, NarrowVarianceRoundsLikeFloat32) {
  // 2^24 + 1 is no float32: added up in float64, the mean of these would be another.
  const Graph graph = parse_graph(R"(graph forward captured {
  input %x: f64[3] user "x"
  %variance: f64[1], %mean: f64[1] = aten.var_mean.correction(%x, correction=0, keepdim=true)
  output %variance user "[0]"
  output %mean user "[1]"
})");
  std::byte* bytes = nullptr;
  const HostTensor x = make_tensor(NACRE_f64, {3}, &bytes);
  for (int i = 0; i < 3; ++i) reinterpret_cast<double*>(bytes)[i] = i == 0 ? 0x1p24 : 1;
  const std::vector<HostTensor> results = run_eager(graph, {}, {x}, OracleType::narrow);
  EXPECT_EQ(results.at(0).shape, std::vector<int64_t>{1});
  EXPECT_EQ(results.at(1).as<float>()[0], 0x1p24F / 3);
}

TEST(Eager, NarrowVarianceOfANumberAlongItsDim) {
  std::byte* bytes = nullptr;
  const HostTensor x = make_tensor(NACRE_f64, {}, &bytes);
  *reinterpret_cast<double*>(bytes) = 2.5;
  for (const char* dim : {"-1", "0"}) {
    const Graph graph = parse_graph(fmt::format(R"(graph forward captured {{
  input %x: f64[] user "x"
  %variance: f64[], %mean: f64[] = aten.var_mean.correction(%x, dim=[{}], correction=0)
  output %variance user "[0]"
  output %mean user "[1]"
}})", dim));
    const std::vector<HostTensor> results = run_eager(graph, {}, {x}, OracleType::narrow);
    EXPECT_EQ(results.at(0).as<float>()[0], 0);
    EXPECT_EQ(results.at(1).as<float>()[0], 2.5F);
  }
}

}  // namespace
}  // namespace nacre
