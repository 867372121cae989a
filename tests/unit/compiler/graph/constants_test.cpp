// fold_constants, with the loop interpreter in the place of compiled constants: a
// folded program must give what the whole program gives.
#include "compiler/graph/constants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/loops/interpret.h"
#include "compiler/loops/lower.h"

namespace nacre {
namespace {

HostTensor random_tensor(const Value& value, std::mt19937& engine) {
  std::vector<int64_t> shape;
  for (const Expr& e : value.shape) shape.push_back(*e.constant());
  std::byte* bytes = nullptr;
  HostTensor t = make_tensor(value.dtype, shape, &bytes);
  auto* data = reinterpret_cast<float*>(bytes);
  for (int64_t i = 0; i < t.elements(); ++i)
    data[i] = std::uniform_real_distribution<float>(0.5f, 1.5f)(engine);
  return t;
}

struct Folding {
  Program before, after;
  std::vector<Graph> evaluated;  // the graphs of constants
  std::vector<HostTensor> inputs;

  explicit Folding(const std::string& lines) {
    std::mt19937 engine(5);
    before.graph = parse_graph("graph f primitive {\n" + lines + "}\n");
    verify(before.graph);
    for (const GraphInput& input : before.graph.inputs) {
      HostTensor t = random_tensor(before.graph[input.value], engine);
      if (input.kind == InputKind::user)
        inputs.push_back(t);
      else
        before.weights[input.target] = t;
    }
    Program program = before;
    after = fold_constants(std::move(program), [&](const Graph& graph, const auto& weights) {
      verify(graph);
      evaluated.push_back(graph);
      return interpret(lower(graph), weights, {});
    });
    verify(after.graph);
    expect_same_results();
  }

  void expect_same_results() const {
    const auto expected = interpret(lower(before.graph), before.weights, inputs);
    const auto got = interpret(lower(after.graph), after.weights, inputs);
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].shape, expected[i].shape);
      for (int64_t k = 0; k < got[i].elements(); ++k) {
        const float e = expected[i].as<float>()[k];
        ASSERT_NEAR(got[i].as<float>()[k], e, 1e-5f * std::max(1.0f, std::abs(e)));
      }
    }
  }

  std::vector<std::string> ops() const {
    std::vector<std::string> list;
    for (const Node& node : after.graph.nodes) list.push_back(node.op);
    return list;
  }
  std::vector<std::string> weight_names() const {
    std::vector<std::string> list;
    for (const auto& [name, tensor] : after.weights) list.push_back(name);
    return list;
  }
};

using Names = std::vector<std::string>;

TEST(Constants, ComputesWhatDependsOnWeightsAlone) {
  const Folding f(R"(
  input %x: f32[4] user "x"
  input %v: f32[4] buffer "var"
  input %w: f32[4] parameter "weight"
  %e: f32[4] = prim.full(shape=[4], value=0.001, dtype=f32)
  %a: f32[4] = prim.add(%v, %e)
  %r: f32[4] = prim.rsqrt(%a)
  %s: f32[4] = prim.mul(%r, %w)
  %y: f32[4] = prim.mul(%x, %s)
  output %y user
)");
  EXPECT_EQ(f.evaluated.size(), 1u);
  EXPECT_EQ(f.ops(), Names({"prim.mul"}));
  EXPECT_EQ(f.weight_names(), Names({"constant.s"}));
}

TEST(Constants, LeavesViewsFillsAndMutatedBuffers) {
  const Folding f(R"(
  input %x: f32[4, 2] user "x"
  input %w: f32[2, 4] parameter "w"
  input %m: f32[4, 2] buffer "mean"
  %t: f32[4, 2] = prim.permute(%w, dims=[1, 0])
  %z: f32[4, 2] = prim.full(shape=[4, 2], value=3.0, dtype=f32)
  %a: f32[4, 2] = prim.add(%x, %t)
  %b: f32[4, 2] = prim.add(%a, %z)
  %n: f32[4, 2] = prim.neg(%m)
  %c: f32[4, 2] = prim.add(%b, %n)
  output %c user
  output %c buffer_mutation "mean"
)");
  EXPECT_TRUE(f.evaluated.empty());
  EXPECT_EQ(f.after.graph.nodes.size(), f.before.graph.nodes.size());
  EXPECT_EQ(f.weight_names(), Names({"mean", "w"}));
}

TEST(Constants, DoesNotBlowAWeightUp) {
  const Folding f(R"(
  input %x: f32[1024, 1024] user "x"
  input %w: f32[1024] parameter "w"
  %u: f32[1024, 1024] = prim.broadcast(%w, shape=[1024, 1024], dims=[1])
  %s: f32[1024, 1024] = prim.broadcast(%w, shape=[1024, 1024], dims=[0])
  %p: f32[1024, 1024] = prim.mul(%u, %s)
  %y: f32[1024, 1024] = prim.add(%x, %p)
  output %y user
)");
  EXPECT_EQ(f.ops(), Names({"prim.broadcast", "prim.broadcast", "prim.mul", "prim.add"}));
}

TEST(Constants, DropsWeightsThatNothingReads) {
  const Folding f(R"(
  input %x: f32[4] user "x"
  input %unused: f32[4] parameter "unused"
  %y: f32[4] = prim.neg(%x)
  output %y user
)");
  EXPECT_TRUE(f.weight_names().empty());
  EXPECT_EQ(f.after.graph.inputs.size(), 1u);
}

// The batch norm of inference after a convolution with a bias, as decompose writes it, becomes its
// weights.
}  // namespace
}  // namespace nacre
