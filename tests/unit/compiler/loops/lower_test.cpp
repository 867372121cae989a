#include "compiler/loops/lower.h"

#include <gtest/gtest.h>

#include "compiler/graph/builder.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

class Lower : public ::testing::Test {
 protected:
  Lower() : b(graph) { graph.level = Level::primitive; }
  ValueId input(const std::string& name, std::vector<Expr> shape, InputKind kind = InputKind::user, nacre_dtype dtype = NACRE_f32) {
    Value v;
    v.name = name;
    v.dtype = dtype;
    v.shape = std::move(shape);
    const ValueId id = graph.add_value(v);
    graph.inputs.push_back({id, kind, name});
    return id;
  }
  void output(ValueId v) { graph.outputs.push_back({ValueRef{v}, OutputKind::user, ""}); }
  LoopProgram lowered() {
    LoopProgram p = lower(graph);
    verify(p);
    EXPECT_EQ(print(parse_loops(print(p))), print(p));
    return p;
  }
  Graph graph;
  Builder b;
};

TEST_F(Lower, ViewsCostNoGroup) {
  const ValueId x = input("x", {4, 6});
  output(b.neg(b.flip(b.permute(b.slice(x, 1, 1, 5), {1, 0}), {0})));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.groups.size(), 1u);
  const Scalar& load = p.groups[0].nests[0].code[0];
  EXPECT_EQ(load.at[0].str(), "i1");
  EXPECT_EQ(load.at[1].str(), "-i0 + 4");
}

TEST_F(Lower, EqualZerosAroundAnImageAreTheConvolutionsPadding) {
  const ValueId x = input("x", {1, 3, 8, 8}), w = input("w", {4, 3, 3, 3}, InputKind::parameter);
  output(b.conv(b.pad(x, {0, 0, 1, 2}, {0, 0, 1, 2}, 0), w, {1, 1}, {0, 1}, {1, 1}, 1));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.groups.size(), 1u);
  EXPECT_EQ(p.groups[0].contraction->padding, (std::vector<Expr>{1, 3}));
}

TEST_F(Lower, UnequalZerosAreCopiedFirst) {
  const ValueId x = input("x", {1, 3, 8, 8}), w = input("w", {4, 3, 3, 3}, InputKind::parameter);
  output(b.conv(b.pad(x, {0, 0, 1, 1}, {0, 0, 2, 1}, 0), w, {1, 1}, {0, 0}, {1, 1}, 1));
  EXPECT_EQ(lowered().groups.size(), 2u);
}

TEST_F(Lower, HeadsReachAttentionWithoutACopy) {
  SymbolFacts f;
  f.range = {1, 512};
  graph.symbols["s0"] = f;
  const ValueId x = input("x", {2, Expr::symbol("s0"), 32});
  const ValueId heads = b.permute(b.reshape(x, {2, Expr::symbol("s0"), 4, 8}), {0, 2, 1, 3});
  output(b.attention(heads, heads, heads, kNoValue, 1, true));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.groups.size(), 1u);
  EXPECT_EQ(p.groups[0].contraction->operands[0].at[2], parse_expr("8*h + d"));
}

TEST_F(Lower, AnAddressThatIsNotAffineIsCopiedForAMatrixProduct) {
  const ValueId x = input("x", {4, 10, 8}), w = input("w", {32, 5}, InputKind::parameter);
  output(b.matmul(b.reshape(b.permute(x, {1, 0, 2}), {10, 32}), w));
  EXPECT_EQ(lowered().groups.size(), 2u);
}

TEST_F(Lower, ADeadStateIsUpdatedInPlace) {
  const ValueId cache = input("cache", {8, 4}, InputKind::buffer), row = input("row", {1, 4});
  const ValueId at = input("at", {1}, InputKind::user, NACRE_i64);
  const ValueId next = b.index_put(cache, row, {at}, false);
  graph.outputs.push_back({ValueRef{next}, OutputKind::buffer_mutation, "cache"});
  output(b.sum(next, {0}));
  const LoopProgram p = lowered();
  EXPECT_EQ(p.groups.size(), 2u) << print(p);
}

TEST_F(Lower, AStateThatIsReadLaterIsCopied) {
  const ValueId cache = input("cache", {8, 4}, InputKind::buffer), row = input("row", {1, 4});
  const ValueId next = b.select_scatter_range(cache, row, 0, 2);
  graph.outputs.push_back({ValueRef{next}, OutputKind::buffer_mutation, "cache"});
  output(b.sub(next, cache));
  EXPECT_EQ(lowered().groups.size(), 4u);  // copy, update of the part, difference, copy back
}

TEST_F(Lower, ExchangedStatesGoThroughTemporaries) {
  const ValueId a = input("a", {4}, InputKind::buffer), c = input("c", {4}, InputKind::buffer);
  graph.outputs.push_back({ValueRef{a}, OutputKind::buffer_mutation, "c"});
  graph.outputs.push_back({ValueRef{c}, OutputKind::buffer_mutation, "a"});
  EXPECT_EQ(lowered().groups.size(), 4u);
}

TEST_F(Lower, ARollIsAnIndexMap) {
  const ValueId x = input("x", {10, 6});
  output(b.neg(b.concat({b.slice(x, 0, 7, 10), b.slice(x, 0, 0, 7)}, 0)));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.groups.size(), 1u);
  EXPECT_EQ(p.groups[0].nests[0].code[0].at[0], parse_expr("(i0 + 7) mod 10"));
}

TEST_F(Lower, PartsThatFollowOnEachOtherAreConcatenatedByOneCopy) {
  const ValueId x = input("x", {4, 10}), z = input("z", {4, 3});
  output(b.concat({b.slice(x, 1, 0, 4), b.slice(x, 1, 4, 9), z}, 1));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.groups.size(), 2u);
  EXPECT_EQ(p.groups[0].nests[0].loops[1].extent, Expr(9));
}

TEST_F(Lower, NoneIsNoOutputAndNumbersAreTensors) {
  const ValueId x = input("x", {Expr::symbol("s0")});
  graph.symbols["s0"].range.min = 1;
  graph.outputs.push_back({std::monostate{}, OutputKind::user, ""});
  graph.outputs.push_back({Expr::symbol("s0") * 2, OutputKind::user, ""});
  graph.outputs.push_back({true, OutputKind::user, ""});
  output(b.neg(x));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.outputs.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(p[p.outputs[static_cast<size_t>(i)].buffer].index, i);
  EXPECT_EQ(p[p.outputs[0].buffer].dtype, NACRE_i64);
  EXPECT_TRUE(p[p.outputs[0].buffer].shape.empty());
  EXPECT_EQ(p[p.outputs[1].buffer].dtype, NACRE_bool_);
}

TEST_F(Lower, AnEmptyPartIsNotWritten) {
  const ValueId x = input("x", {2, 5}), part = input("part", {2, 0});
  output(b.neg(b.select_scatter_range(x, part, 1, 5)));
  EXPECT_EQ(lowered().groups.size(), 2u);  // a copy of the whole, its negation
}

TEST_F(Lower, GatherRefusesIndicesFromTheEnd) {
  const ValueId x = input("x", {2, 3}), i = input("i", {2, 2}, InputKind::user, NACRE_i64);
  output(b.gather(x, i, 1));
  output(b.index(x, {i}));
  const LoopProgram p = lowered();
  ASSERT_EQ(p.groups.size(), 2u);
  EXPECT_NE(print(p).find("below 3"), std::string::npos);
  EXPECT_NE(print(p).find("in 2"), std::string::npos);
}

TEST_F(Lower, AnInputThatIsReturnedIsCopied) {
  const ValueId x = input("x", {4});
  output(x);
  output(x);
  const LoopProgram p = lowered();
  EXPECT_EQ(p.groups.size(), 2u);
  EXPECT_EQ(p[p.outputs[0].buffer].kind, BufferKind::output);
  EXPECT_NE(p.outputs[0].buffer, p.outputs[1].buffer);
}

TEST_F(Lower, APartOfNothingReachesNoElement) {
  const ValueId x = input("x", {5});
  output(b.slice(x, 0, 5, 5));
  EXPECT_EQ(lowered().groups.size(), 1u);
}

TEST_F(Lower, AnUnknownPrimitiveNamesThePythonLine) {
  const ValueId x = input("x", {4});
  Node node;
  node.op = "prim.unheard_of";
  node.where = {"aten.unheard_of.default", "net", "model.py", 42};
  node.args.push_back({"x", ValueRef{x}});
  graph.nodes.push_back(node);
  try {
    lower(graph);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::unsupported);
    EXPECT_NE(std::string(e.what()).find("model.py:42"), std::string::npos);
  }
}

}  // namespace
}  // namespace nacre
