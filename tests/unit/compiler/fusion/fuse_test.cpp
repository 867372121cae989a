#include "compiler/fusion/fuse.h"

#include <gtest/gtest.h>

#include "compiler/graph/builder.h"
#include "compiler/loops/lower.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"

namespace nacre {
namespace {

class Fuse : public ::testing::Test {
 protected:
  Fuse() : b(graph) { graph.level = Level::primitive; }

  ValueId input(const std::string& name, std::vector<Expr> shape, InputKind kind = InputKind::user) {
    Value v;
    v.name = name;
    v.dtype = NACRE_f32;
    v.shape = std::move(shape);
    const ValueId id = graph.add_value(v);
    graph.inputs.push_back({id, kind, name});
    return id;
  }
  void output(ValueId v) { graph.outputs.push_back({ValueRef{v}, OutputKind::user, ""}); }
  void dynamic(const std::string& symbol) {
    SymbolFacts f;
    f.range = {1, 512};
    f.hint = 32;
    graph.symbols[symbol] = f;
  }
  LoopProgram fused() {
    LoopProgram p = fuse(lower(graph));
    verify(p);
    return p;
  }
  ValueId row(const char* reduction, ValueId x) {
    return b.broadcast_to(b.reduce(reduction, x, {b.rank(x) - 1}, true), b.shape(x));
  }
  ValueId softmax(ValueId x) {
    const ValueId e = b.exp(b.sub(x, row("amax", x)));
    return b.div(e, row("sum", e));
  }
  ValueId layer_norm(ValueId x, ValueId scale, ValueId shift) {
    const int64_t last = b.rank(x) - 1;
    const ValueId n = b.full_like(b.sum(x, {last}, true), 64);
    const ValueId mean = b.div(b.sum(x, {last}, true), n);
    const ValueId centered = b.sub(x, b.broadcast_to(mean, b.shape(x)));
    const ValueId variance = b.div(b.sum(b.mul(centered, centered), {last}, true), n);
    const ValueId r = b.rsqrt(b.add(variance, b.full_like(variance, 1e-5)));
    const ValueId y = b.mul(centered, b.broadcast_to(r, b.shape(x)));
    return b.add(b.mul(y, b.broadcast_to(scale, b.shape(x))), b.broadcast_to(shift, b.shape(x)));
  }

  Graph graph;
  Builder b;
};

TEST_F(Fuse, MakesOneGroupOfSoftmaxAndComputesTheExponentialOnce) {
  output(softmax(input("x", {12, 64})));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 1u) << print(p);
  EXPECT_EQ(p.groups[0].outer.size(), 1u);
  int exponentials = 0, locals = 0;
  for (const Nest& n : p.groups[0].nests)
    for (const Scalar& s : n.code) exponentials += s.prim == "exp";
  for (const Buffer& buffer : p.buffers) locals += buffer.kind == BufferKind::local;
  EXPECT_EQ(exponentials, 1);
  EXPECT_EQ(locals, 3) << print(p);
}

TEST_F(Fuse, KeepsTheContiguousLoopInsideASoftmaxOverChannels) {
  const ValueId x = input("x", {2, 21, 40, 40});
  const ValueId e = b.exp(b.sub(x, b.broadcast_to(b.amax(x, {1}, true), b.shape(x))));
  output(b.div(e, b.broadcast_to(b.sum(e, {1}, true), b.shape(x))));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 1u) << print(p);
  for (const LoopVar& l : p.groups[0].outer) EXPECT_NE(l.name, "i3") << print(p);
}

TEST_F(Fuse, MakesOneGroupOfLayerNormOverDynamicRows) {
  dynamic("s0");
  const ValueId scale = input("scale", {64}, InputKind::parameter), shift = input("shift", {64}, InputKind::parameter);
  output(layer_norm(input("x", {Expr::symbol("s0"), 64}), scale, shift));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 1u) << print(p);
  EXPECT_EQ(p.groups[0].nests.size(), 3u);
}

TEST_F(Fuse, MakesOneGroupOfGroupNormThroughTheReshape) {
  const ValueId x = input("x", {2, 32, 8, 8}), scale = input("scale", {32}, InputKind::parameter);
  const ValueId y = b.reshape(x, {2, 4, 512});
  const ValueId centered = b.sub(y, row("sum", y));
  const ValueId normal = b.mul(centered, b.broadcast_to(b.rsqrt(b.sum(b.mul(centered, centered), {2}, true)), {2, 4, 512}));
  output(b.mul(b.reshape(normal, {2, 32, 8, 8}), b.broadcast(scale, {2, 32, 8, 8}, {1})));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 1u) << print(p);
  EXPECT_EQ(p.groups[0].outer.size(), 2u);
}

TEST_F(Fuse, PutsBiasActivationAndResidualIntoTheEpilogue) {
  dynamic("s0");
  const Expr s = Expr::symbol("s0");
  const ValueId x = input("x", {2, s, 64}), w = input("w", {64, 64}, InputKind::parameter),
                bias = input("bias", {64}, InputKind::parameter);
  const ValueId y = b.reshape(b.matmul(b.reshape(x, {2 * s, 64}), b.permute(w, {1, 0})), {2, s, 64});
  const ValueId z = b.add(y, b.broadcast_to(bias, b.shape(y)));
  output(b.add(b.mul(z, b.sigmoid(z)), x));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 1u) << print(p);
  EXPECT_TRUE(p.groups[0].contraction.has_value());
}

TEST_F(Fuse, StoresWhatTheEpilogueAndAnotherReaderNeed) {
  const ValueId x = input("x", {1, 8, 16, 16}), w = input("w", {8, 8, 3, 3}, InputKind::parameter);
  const ValueId y = b.conv(x, w, {1, 1}, {1, 1}, {1, 1}, 1);
  const ValueId z = b.maximum(y, b.full_like(y, 0));
  output(b.add(b.conv(z, w, {1, 1}, {1, 1}, {1, 1}, 1), z));
  const LoopProgram p = fused();
  EXPECT_EQ(p.groups.size(), 2u) << print(p);
}

TEST_F(Fuse, LeavesAnExpensiveProducerOutOfOverlappingWindows) {
  const ValueId x = input("x", {1, 8, 16, 16});
  const ValueId w = b.window(b.window(b.tanh(x), 2, 3, 1), 3, 3, 1);
  output(b.amax(w, {4, 5}));
  EXPECT_EQ(fused().groups.size(), 2u);
}

TEST_F(Fuse, KeepsTheEpilogueOfAConvolutionBesideItsPooling) {
  const ValueId x = input("x", {1, 3, 16, 16}), w = input("w", {8, 3, 3, 3}, InputKind::parameter);
  const ValueId y = b.conv(x, w, {1, 1}, {1, 1}, {1, 1}, 1);
  const ValueId z = b.maximum(y, b.full_like(y, 0));
  output(b.amax(b.window(b.window(z, 2, 2, 2), 3, 2, 2), {4, 5}));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 2u) << print(p);
  EXPECT_EQ(p.groups[0].nests[0].code.size(), 3u) << print(p);
}

TEST_F(Fuse, LetsConvolutionsStoreIntoTheirPartOfAConcat) {
  const ValueId x = input("x", {1, 8, 16, 16}), w = input("w", {8, 8, 1, 1}, InputKind::parameter);
  const auto conv = [&] { return b.tanh(b.conv(x, w, {1, 1}, {0, 0}, {1, 1}, 1)); };
  const ValueId first = conv();
  output(b.concat({first, conv()}, 1));
  const LoopProgram p = fused();
  EXPECT_EQ(p.groups.size(), 2u) << print(p);
}

TEST_F(Fuse, PermutesWhenItStores) {
  const ValueId q = input("q", {1, 4, 10, 8});
  const ValueId y = b.attention(q, q, q, kNoValue, 1, false);
  const ValueId w = input("w", {32, 32}, InputKind::parameter);
  output(b.matmul(b.reshape(b.permute(y, {0, 2, 1, 3}), {10, 32}), w));
  const LoopProgram p = fused();
  EXPECT_EQ(p.groups.size(), 2u) << print(p);
}

TEST_F(Fuse, ScalesTheProductRatherThanItsOperand) {
  const ValueId x = input("x", {2, 10, 64}), k = input("k", {2, 4, 8, 10});
  const ValueId heads = b.permute(b.reshape(x, {2, 10, 4, 16}), {0, 2, 1, 3});
  const ValueId q = b.slice(heads, 3, 0, 8);
  const ValueId y = b.matmul(b.mul(q, b.full_like(q, 0.125)), k);
  output(b.add(y, b.full_like(y, 1)));
  const LoopProgram p = fused();
  ASSERT_EQ(p.groups.size(), 1u) << print(p);
  EXPECT_EQ(p.groups[0].nests[0].code[1].number, 0.125) << print(p);
}

TEST_F(Fuse, UpdatesAStateInPlace) {
  const ValueId state = input("state", {4, 8}, InputKind::buffer), x = input("x", {4, 8});
  const ValueId next = b.add(b.mul(state, b.full_like(state, 0.9)), x);
  graph.outputs.push_back({ValueRef{next}, OutputKind::buffer_mutation, "state"});
  output(b.mul(next, next));
  const LoopProgram p = fused();
  EXPECT_EQ(p.groups.size(), 1u) << print(p);
}

TEST_F(Fuse, KeepsTheOldStateForWhoStillReadsIt) {
  const ValueId state = input("state", {4, 8}, InputKind::buffer), x = input("x", {4, 8});
  const ValueId next = b.add(state, x);
  const ValueId old = b.flip(state, {0});
  graph.outputs.push_back({ValueRef{next}, OutputKind::buffer_mutation, "state"});
  output(b.mul(next, old));
  const LoopProgram p = fused();
  for (const Group& g : p.groups) {
    bool writes = false, reads_flipped = false;
    for (const Nest& n : g.nests) {
      for (const Store& s : n.stores) writes = writes || p[s.buffer].kind == BufferKind::state;
      for (const Scalar& s : n.code)
        reads_flipped = reads_flipped || (s.op == ScalarOp::load && p[s.buffer].kind == BufferKind::state && s.at[0] != Expr::symbol("i0"));
    }
    EXPECT_FALSE(writes && reads_flipped) << print(p);
  }
}

TEST_F(Fuse, MergesNestsThatReadTheSame) {
  const ValueId x = input("x", {6, 32});
  output(b.sum(x, {1}));
  output(b.amax(x, {1}));
  EXPECT_EQ(fused().groups.size(), 1u);
}

TEST_F(Fuse, RemovesWhatNothingReads) {
  const ValueId x = input("x", {6, 32});
  b.exp(x);
  output(b.neg(x));
  EXPECT_EQ(fused().groups.size(), 1u);
}

}  // namespace
}  // namespace nacre
