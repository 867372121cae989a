// Each program is given as text; what counts is that the functional graph writes to nothing and
// gives what the captured graph gives when libtorch runs both, mutated inputs included.
#include "exporter/functionalize.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/eager.h"

namespace nacre {
namespace {

HostTensor ramp(std::vector<int64_t> shape) {
  std::byte* bytes = nullptr;
  HostTensor t = make_tensor(NACRE_f32, std::move(shape), &bytes);
  for (int64_t i = 0; i < t.elements(); ++i)
    reinterpret_cast<float*>(bytes)[i] = static_cast<float>(i % 17) - 5;
  return t;
}

std::string numbers(const HostTensor& t) {
  std::string text;
  for (int64_t i = 0; i < t.elements() && t.dtype == NACRE_f32; ++i)
    text += std::to_string(t.as<float>()[i]) + " ";
  return text;
}

// Runs both graphs and returns the functional one.
Graph expect_equal(const std::string& text, std::vector<HostTensor> inputs,
                   std::map<std::string, HostTensor> buffers = {}) {
  Graph captured = parse_graph(text);
  for (size_t i : written_inputs(captured)) {
    const GraphInput& input = captured.inputs[i];
    bool told = false;
    for (const GraphOutput& output : captured.outputs)
      told |= output.target == input.target && output.kind != OutputKind::user;
    if (told) continue;
    captured.outputs.push_back(
        {ValueRef{input.value},
         input.kind == InputKind::user ? OutputKind::input_mutation : OutputKind::buffer_mutation,
         input.target});
  }
  Graph functional = functionalize(captured);
  for (const Node& node : functional.nodes) {
    size_t end = node.op.find('.', node.op.find('.') + 1);
    EXPECT_NE(node.op[end - 1], '_') << node.op;
  }
  EXPECT_EQ(print(parse_graph(print(functional))), print(functional));
  auto expected = run_eager(captured, buffers, inputs, OracleType::own);
  auto got = run_eager(functional, buffers, inputs, OracleType::own);
  EXPECT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    EXPECT_EQ(expected[i].shape, got[i].shape);
    EXPECT_TRUE(expected[i].size_bytes == got[i].size_bytes &&
                std::memcmp(expected[i].data.get(), got[i].data.get(), got[i].size_bytes) == 0)
        << "output " << i << ": " << numbers(got[i]) << " instead of " << numbers(expected[i])
        << "\n"
        << print(functional);
  }
  return functional;
}

TEST(Functionalize, WritesOneElementOfAnExpansion) {  // x.expand(2, 3)[:, 1:2] += 1
  expect_equal(R"(graph forward captured {
    input %x: f32[2, 1] user "x"
    %wide: f32[2, 3] strides [1, 0] = aten.expand.default(%x, size=[2, 3])
    %part: f32[2, 1] strides [1, 0] = aten.slice.Tensor(%wide, dim=1, start=1, end=2)
    %sum: f32[2, 1] strides [1, 0] = aten.add_.Tensor(%part, other=1)
    %y: f32[2, 3] = aten.mul.Tensor(%wide, other=2)
    output %y user
  })",
               {ramp({2, 1})});
}

TEST(Functionalize, WritesTheNegativeOfOneElementOfAnExpansion) {
  expect_equal(R"(graph forward captured {
    input %x: f32[2, 1] user "x"
    %wide: f32[2, 3] strides [1, 0] = aten.expand.default(%x, size=[2, 3])
    %part: f32[2, 1] strides [1, 0] = aten.slice.Tensor(%wide, dim=1, start=1, end=2)
    %less: f32[2, 1] strides [1, 0] = aten._neg_view.default(%part)
    %sum: f32[2, 1] strides [1, 0] = aten.add_.Tensor(%less, other=1)
    output %wide user
  })",
               {ramp({2, 1})});
}

TEST(Functionalize, RefusesOneElementOfTheNegativeOfAnExpansion) {
  const Graph captured = parse_graph(R"(graph forward captured {
    input %x: f32[2, 1] user "x"
    %wide: f32[2, 3] strides [1, 0] = aten.expand.default(%x, size=[2, 3])
    %less: f32[2, 3] strides [1, 0] = aten._neg_view.default(%wide)
    %part: f32[2, 1] strides [1, 0] = aten.slice.Tensor(%less, dim=1, start=1, end=2)
    %sum: f32[2, 1] strides [1, 0] = aten.add_.Tensor(%part, other=1)
    output %x input_mutation "x"
  })");
  EXPECT_THROW(functionalize(captured), Error);
}

TEST(Functionalize, RefusesTwoElementsThatShareMemory) {
  const Graph captured = parse_graph(R"(graph forward captured {
    input %x: f32[2, 1] user "x"
    %wide: f32[2, 3] strides [1, 0] = aten.expand.default(%x, size=[2, 3])
    %part: f32[2, 2] strides [1, 0] = aten.slice.Tensor(%wide, dim=1, start=1, end=3)
    %sum: f32[2, 2] strides [1, 0] = aten.add_.Tensor(%part, other=1)
    output %x input_mutation "x"
  })");
  EXPECT_THROW(functionalize(captured), Error);
}

TEST(Functionalize, WritesThroughAColumn) {  // x[:, 0] += 1
  Graph g = expect_equal(R"(graph forward captured {
    input %x: f32[3, 4] user "x"
    %all: f32[3, 4] = aten.slice.Tensor(%x, dim=0, start=0, end=9223372036854775807)
    %column: f32[3] strides [4] = aten.select.int(%all, dim=1, index=0)
    %sum: f32[3] strides [4] = aten.add_.Tensor(%column, other=1)
    %y: f32[3, 4] = aten.mul.Tensor(%x, other=2)
    output %y user
  })",
                         {ramp({3, 4})});
  EXPECT_EQ(g.outputs.size(), 2u);
}

TEST(Functionalize,
     SeesOneViewChangeThroughAnother) {  // y.view(-1).mul_(2), read through a transposed view
  expect_equal(R"(graph forward captured {
    input %x: f32[2, 3] user "x"
    %y: f32[2, 3] = aten.clone.default(%x)
    %t: f32[3, 2] strides [1, 3] = aten.permute.default(%y, dims=[1, 0])
    %flat: f32[6] = aten.view.default(%y, size=[-1])
    %twice: f32[6] = aten.mul_.Tensor(%flat, other=2)
    %z: f32[3, 2] = aten.add.Tensor(%t, other=1)
    output %z user
    output %y user
  })",
               {ramp({2, 3})});
}

TEST(Functionalize, ReadsTheOldContentsOfCopies) {
  expect_equal(R"(graph forward captured {
    input %x: f32[4] user "x"
    %old: f32[4] = aten.clone.default(%x)
    %z: f32[4] = aten.zero_.default(%x)
    %y: f32[4] = aten.add.Tensor(%old, other=%z)
    output %y user
  })",
               {ramp({4})});
}

TEST(Functionalize, FollowsBranchesOfViews) {
  expect_equal(R"(graph forward captured {
    input %x: f32[4, 6] user "x"
    %a: f32[4, 3] strides [6, 1], %b: f32[4, 3] strides [6, 1] = aten.split.Tensor(%x, split_size=3, dim=1)
    %d: f32[3] strides [7] = aten.diagonal.default(%a)
    %r: f32[3] strides [7] = aten.fill_.Scalar(%d, value=9)
    %u: f32[1, 4, 3] strides [24, 6, 1] = aten.unsqueeze.default(%b, dim=0)
    %e: f32[1, 4, 3] strides [24, 6, 1] = aten.exp_.default(%u)
    %s: f32[4, 3] = aten.add.Tensor(%a, other=%b)
    output %s user
  })",
               {ramp({4, 6})});
}

TEST(Functionalize, CopiesWithBroadcastAndConversion) {
  expect_equal(R"(graph forward captured {
    input %x: f32[2, 3] user "x"
    input %v: f32[3] user "v"
    %i: i64[3] = aten.to.dtype(%v, dtype=i64)
    %c: f32[2, 3] = aten.copy_.default(%x, src=%i)
    %h: f32[2, 3] = aten.div_.Tensor(%c, other=2)
    output %h user
  })",
               {ramp({2, 3}), ramp({3})});
}

TEST(Functionalize, ConvertsWhatAnInPlaceOperatorPromotes) {
  expect_equal(R"(graph forward captured {
    input %x: f32[3] user "x"
    %d: f64[3] = aten.to.dtype(%x, dtype=f64)
    %y: f32[3] = aten.mul_.Tensor(%x, other=%d)
    %b: f32[3] = aten.gt_.Scalar(%y, other=2)
    output %b user
  })",
               {ramp({3})});
}

TEST(Functionalize, GivesBackBuffers) {
  Graph g = expect_equal(R"(graph forward captured {
    input %b: f32[4] buffer "state"
    input %x: f32[2] user "x"
    %tail: f32[2] strides [1] offset (2) = aten.slice.Tensor(%b, dim=0, start=2, end=4)
    %c: f32[2] strides [1] offset (2) = aten.copy_.default(%tail, src=%x)
    %y: f32[] = aten.sum.default(%b)
    output %y user
  })",
                         {ramp({2})}, {{"state", ramp({4})}});
  ASSERT_EQ(g.outputs.size(), 2u);
  EXPECT_EQ(g.outputs[1].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(g.outputs[1].target, "state");
}

TEST(Functionalize, WritesThroughAnyOtherViewByItsPositions) {
  expect_equal(R"(graph forward captured {
    input %x: f32[8] user "x"
    %w: f32[2, 3] strides [4, 1] = aten.unfold.default(%x, dimension=0, size=3, step=4)
    %y: f32[2, 3] strides [4, 1] = aten.neg_.default(%w)
    %s: f32[8] = aten.add.Tensor(%x, other=1)
    output %s user
  })",
               {ramp({8})});
}

TEST(Functionalize, AddressesMemoryByStrides) {
  expect_equal(R"(graph forward captured {
    input %x: f32[2, 6] user "x"
    %t: f32[6, 2] strides [1, 6] = aten.t.default(%x)
    %w: f32[3] strides [2] offset (1) = aten.as_strided.default(%t, size=[3], stride=[2], storage_offset=1)
    %y: f32[3] strides [2] offset (1) = aten.add_.Tensor(%w, other=10)
    %s: f32[6, 2] = aten.add.Tensor(%t, other=0)
    output %s user
  })",
               {ramp({2, 6})});
}

TEST(Functionalize, KnowsThatDropoutInEvaluationReturnsItsArgument) {
  expect_equal(R"(graph forward captured {
    input %x: f32[4] user "x"
    %d: f32[4] = aten.dropout.default(input=%x, p=0.5, train=false)
    %y: f32[4] = aten.add_.Tensor(%d, other=1)
    %z: f32[4] = aten.mul.Tensor(%x, other=%y)
    output %z user
  })",
               {ramp({4})});
}

TEST(Functionalize, KnowsWhetherReshapeCopies) {
  // Of a transposed tensor it copies, so the write stays in the copy; of a contiguous one it does
  // not.
  Graph g = expect_equal(R"(graph forward captured {
    input %x: f32[2, 3] user "x"
    %t: f32[3, 2] strides [1, 3] = aten.t.default(%x)
    %copy: f32[6] = aten.reshape.default(%t, shape=[-1])
    %a: f32[6] = aten.add_.Tensor(%copy, other=1)
    output %a user
    output %x user
  })",
                         {ramp({2, 3})});
  EXPECT_EQ(g.outputs.size(), 2u);
  g = expect_equal(R"(graph forward captured {
    input %x: f32[2, 3] user "x"
    %flat: f32[6] = aten.reshape.default(%x, shape=[-1])
    %a: f32[6] = aten.add_.Tensor(%flat, other=1)
    output %x user
  })",
                   {ramp({2, 3})});
  EXPECT_EQ(g.outputs.size(), 2u);
}

TEST(Functionalize, ShowsTheStatisticsThatNormalisationUpdates) {
  for (const char* norm :
       {"batch_norm.default(input=%x, weight=none, bias=none, running_mean=%m, running_var=%v, "
        "training=true, "
        "momentum=0.25, eps=0.125, cudnn_enabled=false)",
        "instance_norm.default(input=%x, weight=none, bias=none, running_mean=%m, running_var=%v, "
        "use_input_stats=true, momentum=0.25, eps=0.125, cudnn_enabled=false)"}) {
    Graph g = expect_equal(fmt::format(R"(graph forward captured {{
    input %m: f32[3] buffer "mean"
    input %v: f32[3] buffer "var"
    input %x: f32[2, 3, 5] user "x"
    %y: f32[2, 3, 5] = aten.{}
    output %y user
    output %m buffer_mutation "mean"
    output %v buffer_mutation "var"
  }})",
                                       norm),
                           {ramp({2, 3, 5})}, {{"mean", ramp({3})}, {"var", ramp({3})}});
    EXPECT_EQ(g.outputs.size(), 3u);
  }
}

TEST(Functionalize, RefusesWhatGivesATensorOtherMemory) {
  Graph captured = parse_graph(R"(graph forward captured {
    input %x: f32[4] user "x"
    input %y: f32[4] user "y"
    %z: f32[4] = aten.set_.source_Tensor(%x, source=%y)
    output %z user
  })");
  EXPECT_THROW(functionalize(captured), Error);
}

}  // namespace
}  // namespace nacre
