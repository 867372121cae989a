#include "exporter/eager.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nacre
