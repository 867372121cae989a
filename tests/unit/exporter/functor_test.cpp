// Functions over at::Tensor, traced; the captured graph must give what the function itself gives.
#include "exporter/functor.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"
#include "tests/unit/exporter/expect_same.h"

namespace nacre {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor ramp(at::IntArrayRef shape) { return at::arange(at::numel(at::empty(shape)), at::kFloat).reshape(shape) - 2.5; }

Program traced(const Functor& functor, const Tensors& examples, const FunctorTensors& owned = {}) {
  Program program = trace("forward", functor, examples, owned);
  verify(program.graph);
  EXPECT_EQ(print(parse_graph(print(program.graph))), print(program.graph));
  return program;
}

TEST(Functor, RecordsTheOperatorsThatAreCalled) {
  const at::Tensor weight = ramp({3, 4});
  const Functor f = [&](const Tensors& in) { return Tensors{at::relu(at::linear(in[0], weight)), in[1].sum()}; };
  const Program program = traced(f, {ramp({2, 4}), ramp({5})}, {.parameters = {{"fc.weight", weight}}, .buffers = {}});
  ASSERT_EQ(program.graph.nodes.size(), 3u) << print(program.graph);  // not what linear does inside
  EXPECT_EQ(program.graph.nodes[0].op, "aten.linear.default");
  ASSERT_EQ(program.graph.inputs.size(), 3u);
  EXPECT_EQ(program.graph.inputs[2].target, "fc.weight");
  EXPECT_EQ(program.graph.inputs[2].kind, InputKind::parameter);
  expect_same(program, f({ramp({2, 4}), ramp({5})}));
}

TEST(Functor, TakesUnnamedTensorsAsConstants) {
  const Functor f = [](const Tensors& in) { return Tensors{in[0] * at::tensor({1.0f, 2.0f, 4.0f})}; };
  expect_same(traced(f, {ramp({2, 3})}), f({ramp({2, 3})}));
}

TEST(Functor, RefusesWritesThroughViewsOfBefore) {
  const at::Tensor total = at::zeros({3}), first = total.select(0, 0);
  const Functor f = [&](const Tensors& in) {
    first.add_(in[0].sum());
    return Tensors{total * 2};
  };
  EXPECT_THROW(traced(f, {ramp({2})}, {.parameters = {}, .buffers = {{"total", total}}}), Error);
  EXPECT_TRUE(at::equal(total, at::zeros({3})));
}

TEST(Functor, FollowsWritesThroughViews) {
  const Functor f = [](const Tensors& in) {
    at::Tensor y = in[0] * 2;
    y.select(0, 1).add_(in[0].select(0, 0));
    return Tensors{y.t(), y};
  };
  expect_same(traced(f, {ramp({2, 3})}), f({ramp({2, 3})}));
}

TEST(Functor, KeepsStateAndLeavesTheOriginalAlone) {
  const at::Tensor total = at::zeros({3});
  const Functor f = [&](const Tensors& in) {
    total.add_(in[0].sum(0));
    return Tensors{total * 2};
  };
  const Program program = traced(f, {ramp({2, 3})}, {.parameters = {}, .buffers = {{"total", total}}});
  EXPECT_TRUE(at::equal(total, at::zeros({3})));
  ASSERT_EQ(program.graph.outputs.size(), 2u);
  EXPECT_EQ(program.graph.outputs[1].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(program.graph.outputs[1].target, "total");
  Tensors expected = f({ramp({2, 3})});
  expected.push_back(total);
  expect_same(program, expected);
}

TEST(Functor, GivesBuffersBackWhenItThrows) {
  const at::Tensor total = at::zeros({3});
  const Functor f = [&](const Tensors& in) -> Tensors {
    total.add_(in[0].sum(0));
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(traced(f, {ramp({2, 3})}, {.parameters = {}, .buffers = {{"total", total}}}), std::runtime_error);
  EXPECT_TRUE(at::equal(total, at::zeros({3})));
}

TEST(Functor, WritesToInputs) {
  const at::Tensor x = ramp({3});
  const Program program = traced([](const Tensors& in) { return Tensors{in[0].add_(1).clone()}; }, {x});
  EXPECT_TRUE(at::equal(x, ramp({3})));
  ASSERT_EQ(program.graph.outputs.size(), 2u);
  EXPECT_EQ(program.graph.outputs[1].kind, OutputKind::input_mutation);
  expect_same(program, {x + 1, x + 1});
}

TEST(Functor, OneExampleGivenTwiceIsTwoInputs) {
  const at::Tensor x = ramp({3});
  const Program program = traced([](const Tensors& in) { return Tensors{in[0] - in[1]}; }, {x, x});
  EXPECT_EQ(program.graph.inputs.size(), 2u);
}

TEST(Functor, DecidesBySizesButNotByValues) {
  const Program program = traced([](const Tensors& in) { return Tensors{in[0].size(0) > 2 ? in[0] + 1 : in[0]}; }, {ramp({3})});
  EXPECT_EQ(program.graph.nodes.size(), 1u);
  try {
    traced([](const Tensors& in) { return Tensors{in[0].sum().item<float>() > 0 ? in[0] : -in[0]}; }, {ramp({3})});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("decides by the value of a tensor"), std::string::npos) << error.what();
  }
}

TEST(Functor, TellsWhatLibtorchRaises) {
  try {
    traced([](const Tensors& in) { return Tensors{at::matmul(in[0], in[0])}; }, {ramp({2, 3})});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_NE(std::string(error.what()).find("the functor `forward` fails on its examples: mm: mat1"), std::string::npos) << error.what();
  }
  // Nothing of a failed trace is left on.
  traced([](const Tensors& in) { return Tensors{in[0] + 1}; }, {ramp({3})});
}

}  // namespace
}  // namespace nacre
