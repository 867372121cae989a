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

}  // namespace
}  // namespace nacre
