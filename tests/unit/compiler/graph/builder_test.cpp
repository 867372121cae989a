#include "compiler/graph/builder.h"

#include <gtest/gtest.h>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

class BuilderTest : public testing::Test {
 protected:
  BuilderTest() {
    graph_.level = Level::primitive;
    graph_.symbols["s0"] = {{2, 64}, 2, 8, std::nullopt};
  }
  ValueId input(const char* name, std::vector<Expr> shape, nacre_dtype dtype = NACRE_f32) {
    Value v;
    v.name = name;
    v.dtype = dtype;
    v.shape = std::move(shape);
    const ValueId id = graph_.add_value(std::move(v));
    graph_.inputs.push_back({id, InputKind::user, name});
    return id;
  }
  std::string shape(ValueId v) const {
    std::string out;
    for (const Expr& e : graph_[v].shape) out += (out.empty() ? "" : " ") + e.str();
    return out;
  }

  Graph graph_;
  Builder b{graph_};
  Expr s0 = Expr::symbol("s0");
};

TEST_F(BuilderTest, BuildsALinearLayerThatVerifies) {
  const ValueId x = input("x", {s0, 64}), w = input("w", {10, 64}), bias = input("bias", {10});
  b.at({"aten.linear.default", "fc", "model.py", 41});
  const ValueId m = b.matmul(x, b.permute(w, {1, 0}));
  const ValueId y = b.add(m, bias);
  graph_.outputs.push_back({ValueRef{y}, OutputKind::user, ""});
  EXPECT_EQ(print(graph_), R"(graph forward primitive {
  symbol s0: [2, 64] multiple 2 hint 8
  input %x: f32[s0, 64] user "x"
  input %w: f32[10, 64] user "w"
  input %bias: f32[10] user "bias"
  %permute: f32[64, 10] = prim.permute(%w, dims=[1, 0])  # aten.linear.default model.py:41 fc
  %matmul: f32[s0, 10] = prim.matmul(%x, %permute)  # aten.linear.default model.py:41 fc
  %broadcast: f32[s0, 10] = prim.broadcast(%bias, shape=[s0, 10], dims=[1])  # aten.linear.default model.py:41 fc
  %add: f32[s0, 10] = prim.add(%matmul, %broadcast)  # aten.linear.default model.py:41 fc
  output %add user
}
)");
  verify(graph_);
}

TEST_F(BuilderTest, InfersShapesAndTypes) {
  const ValueId x = input("x", {s0, 3, 32, 32});
  const ValueId w = input("w", {8, 3, 3, 3});
  EXPECT_EQ(shape(b.conv(x, w, {2, 2}, {1, 1}, {1, 1}, 1)), "s0 8 16 16");
  EXPECT_EQ(
      shape(b.conv_transpose(x, input("wt", {3, 5, 4, 4}), {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1)),
      "s0 5 64 64");
  EXPECT_EQ(shape(b.window(x, 3, 3, 2)), "s0 3 32 15 3");
  EXPECT_EQ(shape(b.slice(x, -1, 1, 32, 2)), "s0 3 32 16");
  EXPECT_EQ(shape(b.select(x, 1, 2)), "s0 32 32");
  EXPECT_EQ(shape(b.pad(x, {0, 0, 1, 2}, {0, 0, 3, 4}, 0)), "s0 3 36 38");
  EXPECT_EQ(shape(b.concat({x, x, x}, 0)), "3*s0 3 32 32");
  EXPECT_EQ(shape(b.reshape(x, {floordiv(s0, 2), 6, 1024})), "s0 floordiv 2 6 1024");
  EXPECT_EQ(shape(b.sum(x, {-1, 1})), "s0 32");
  EXPECT_EQ(shape(b.amax(x, {2, 3}, true)), "s0 3 1 1");
  EXPECT_EQ(shape(b.unsqueeze(x, -1)), "s0 3 32 32 1");
  EXPECT_EQ(b.dtype(b.argmax(x, 1)), NACRE_i64);
  EXPECT_EQ(b.dtype(b.lt(x, x)), NACRE_bool_);
  EXPECT_EQ(b.dtype(b.where(b.lt(x, x), x, x)), NACRE_f32);
  const auto [values, indices] = b.sort(x, 1);
  EXPECT_EQ(b.dtype(values), NACRE_f32);
  EXPECT_EQ(b.dtype(indices), NACRE_i64);
  verify(graph_);
}

TEST_F(BuilderTest, InfersIndexedShapes) {
  const ValueId x = input("x", {5, 6, 7, 8});
  const ValueId i = input("i", {2, 3}, NACRE_i64);
  EXPECT_EQ(shape(b.index(x, {kNoValue, i, i})), "5 2 3 8");
  EXPECT_EQ(shape(b.index(x, {i, kNoValue, i})), "2 3 6 8");
  EXPECT_EQ(shape(b.index(x, {i})), "2 3 6 7 8");
  EXPECT_EQ(shape(b.gather(x, input("g", {5, 6, 7, 1}, NACRE_i64), 3)), "5 6 7 1");
  verify(graph_);
}

TEST_F(BuilderTest, InfersAttentionAndRecurrentLayers) {
  const ValueId q = input("q", {2, 4, s0, 16}), k = input("k", {2, 4, 9, 16}),
                v = input("v", {2, 4, 9, 24});
  EXPECT_EQ(shape(b.attention(q, k, v, kNoValue, 0.25, false)), "2 4 s0 24");
  const ValueId x = input("x", {7, s0, 10}), h = input("h", {s0, 20}), c = input("c", {s0, 20});
  const auto lstm =
      b.lstm(x, h, c, input("w1", {80, 10}), input("w2", {80, 20}), kNoValue, kNoValue, false);
  EXPECT_EQ(shape(lstm.y), "7 s0 20");
  EXPECT_EQ(shape(lstm.c), "s0 20");
  const auto gru = b.gru(x, h, input("w3", {60, 10}), input("w4", {60, 20}), input("b3", {60}),
                         input("b4", {60}), true);
  EXPECT_EQ(shape(gru.h), "s0 20");
  verify(graph_);
}

TEST_F(BuilderTest, BroadcastsPointwiseOperandsAsNumPy) {
  const ValueId x = input("x", {s0, 1, 4}), y = input("y", {3, 1}), scalar = input("z", {});
  EXPECT_EQ(shape(b.add(x, y)), "s0 3 4");
  EXPECT_EQ(shape(b.mul(scalar, y)), "3 1");
  EXPECT_EQ(shape(b.mul(y, x)), "s0 3 4");
  verify(graph_);
}

TEST_F(BuilderTest, ReturnsTheOperandWhereNothingChanges) {
  const ValueId x = input("x", {s0, 3});
  EXPECT_EQ(b.permute(x, {0, 1}), x);
  EXPECT_EQ(b.reshape(x, {s0, 3}), x);
  EXPECT_EQ(b.broadcast_to(x, {s0, 3}), x);
  EXPECT_EQ(b.cast(x, NACRE_f32), x);
  EXPECT_EQ(b.slice(x, 0, 0, s0), x);
  EXPECT_EQ(b.flip(x, {}), x);
  EXPECT_EQ(b.sum(x, {}), x);
  EXPECT_EQ(b.concat({x}, 0), x);
  EXPECT_EQ(b.pad(x, {0, 0}, {0, 0}, 1), x);
  EXPECT_TRUE(graph_.nodes.empty());
}

TEST_F(BuilderTest, GivesNumbersTheKindOfTheirType) {
  const auto value = [&](ValueId v) {
    (void)v;
    return *graph_.nodes.back().find("value");
  };
  EXPECT_EQ(value(b.full({2}, 1.0, NACRE_f32)), Argument(1.0));
  EXPECT_EQ(value(b.full({2}, 1.0, NACRE_i64)), Argument(Expr(1)));
  EXPECT_EQ(value(b.full({2}, 1.0, NACRE_bool_)), Argument(true));
  EXPECT_EQ(value(b.full_bool({2}, false)), Argument(false));
  EXPECT_THROW((void)b.full({2}, 1.5, NACRE_i64), Error);
}

TEST_F(BuilderTest, RefusesWhatBreaksARule) {
  const ValueId x = input("x", {2, 3}), y = input("y", {4, 5}), i = input("i", {2, 3}, NACRE_i32);
  const auto refuses = [&](auto make) {
    try {
      make();
      ADD_FAILURE() << print(graph_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::internal) << e.message;
    }
  };
  refuses([&] { b.add(x, y); });
  refuses([&] { b.matmul(x, y); });
  refuses([&] { b.add(x, i); });
  refuses([&] { b.reshape(x, {7}); });
  refuses([&] { b.permute(x, {1, 1}); });
  refuses([&] { b.permute(x, {1}); });
  refuses([&] { b.slice(x, 0, 1, 5); });
  refuses([&] { b.slice(x, 2, 0, 1); });
  refuses([&] { b.concat({x, y}, 0); });
  refuses([&] { b.index(x, {i}); });
  refuses([&] { b.sum(i, {0}); });
  refuses([&] { b.pad(x, {0, -1}, {0, 0}, 0); });
  refuses([&] { b.scatter(x, x, x, 0); });
  refuses([&] { b.make_one("prim.nothing", {}); });
  refuses([&] { b.make_one("prim.neg", {}); });
}

TEST(GraphTest, KeepsNamesUnique) {
  Graph g;
  Value v;
  v.name = "x";
  EXPECT_EQ(g[g.add_value(v)].name, "x");
  EXPECT_EQ(g[g.add_value(v)].name, "x_1");
  EXPECT_EQ(g[g.add_value(v)].name, "x_2");
  v.name = "x_1";
  EXPECT_EQ(g[g.add_value(v)].name, "x_1_1");
  v.name = "";
  EXPECT_EQ(g[g.add_value(v)].name, "v");
}

}  // namespace
}  // namespace nacre
