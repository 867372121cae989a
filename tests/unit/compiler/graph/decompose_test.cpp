#include "compiler/graph/decompose.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/decompose_tensor.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

Graph decomposed(const std::string& lines) {
  Graph g = decompose(parse_graph("graph f functional {\n" + lines + "}\n"));
  verify(g);
  return g;
}

// The operators of a graph in order, without `prim.`.
std::vector<std::string> ops(const Graph& g) {
  std::vector<std::string> names;
  for (const Node& n : g.nodes) names.push_back(n.op.substr(5));
  return names;
}

using Names = std::vector<std::string>;

std::string message(const std::string& lines, ErrorKind kind) {
  try {
    decomposed(lines);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Promotion, OfTypesIsThatOfPyTorch) {
  EXPECT_EQ(promote(NACRE_u8, NACRE_i8), NACRE_i16);
  EXPECT_EQ(promote(NACRE_u8, NACRE_i64), NACRE_i64);
  EXPECT_EQ(promote(NACRE_i64, NACRE_f16), NACRE_f16);
  EXPECT_EQ(promote(NACRE_f16, NACRE_bf16), NACRE_f32);
  EXPECT_EQ(promote(NACRE_bool_, NACRE_u8), NACRE_u8);
  EXPECT_EQ(promote(NACRE_f64, NACRE_c64), NACRE_c128);
}

TEST(Promotion, PutsTensorsWithDimsBeforeZeroDimsBeforeNumbers) {
  Graph g;
  g.level = Level::primitive;
  Builder b(g);
  Tensor small = full(b, {Expr(4)}, 1, NACRE_i8), point = full(b, {}, 1, NACRE_i64);
  Tensor half = full(b, {Expr(4)}, 1, NACRE_f16), wide_point = full(b, {}, 1, NACRE_f64);
  EXPECT_EQ(result_type({small, point}), NACRE_i8);
  EXPECT_EQ(result_type({small, wide_point}), NACRE_f64);
  EXPECT_EQ(result_type({half, wide_point}), NACRE_f16);
  EXPECT_EQ(result_type({small, 3}), NACRE_i8);
  EXPECT_EQ(result_type({small, 0.5}), NACRE_f32);
  EXPECT_EQ(result_type({point, 0.5}), NACRE_f32);
  EXPECT_EQ(result_type({full(b, {}, 1, NACRE_bool_), 2}), NACRE_i64);
  EXPECT_EQ(result_type({half, 2.5}), NACRE_f16);
}

TEST(Decompose, KeepsNamesAndProvenance) {
  Graph g = decomposed(R"(  input %x: f32[4] user "x"
  %y: f32[4] = aten.silu.default(self=%x)  # aten.silu.default model.py:7 act
  output %y user
)");
  EXPECT_EQ(ops(g), (Names{"sigmoid", "mul"}));
  EXPECT_EQ(g[g.nodes.back().outputs[0]].name, "y");
  for (const Node& n : g.nodes)
    EXPECT_EQ(where_text(n.where), "model.py:7, act (aten.silu.default)");
}

TEST(Decompose, LeavesOutWhatNothingReads) {
  Graph g = decomposed(R"(  input %x: f32[4] user "x"
  %dead: f32[4] = custom.unknown.default(self=%x)
  %v: f32[], %i: i64[] = aten.max.dim(self=%x, dim=0)
  output %i user
)");
  EXPECT_EQ(ops(g), (Names{"argmax"}));
}

TEST(Decompose, NamesEveryUnknownOperatorWithItsLine) {
  std::string text = message(R"(  input %x: f32[4] user "x"
  %a: f32[4] = custom.first.default(self=%x)  # custom.first.default model.py:3 block
  %b: f32[4] = custom.second.default(self=%a)  # custom.second.default model.py:5 head
  output %b user
)",
                             ErrorKind::unsupported);
  EXPECT_TRUE(has(text, "custom.first.default at model.py:3, block")) << text;
  EXPECT_TRUE(has(text, "custom.second.default at model.py:5, head")) << text;
}

TEST(Decompose, SaysWhereAnUnsupportedArgumentStands) {
  std::string text = message(R"(  input %x: f32[4, 4] user "x"
  %y: f32[4, 4], %p: i32[4] = aten.linalg_lu_factor.default(self=%x, pivot=false)  # aten.linalg_lu_factor.default model.py:9
  output %y user
)",
                             ErrorKind::unsupported);
  EXPECT_TRUE(has(text, "model.py:9")) << text;
  EXPECT_TRUE(has(text, "without pivots")) << text;
}

TEST(Decompose, NoticesAResultThatIsNotWhatExportRecorded) {
  message(R"(  input %x: f32[4] user "x"
  %y: f32[4, 1] = aten.exp.default(self=%x)
  output %y user
)",
          ErrorKind::internal);
  message(R"(  input %x: f32[4] user "x"
  %y: f64[4] = aten.exp.default(self=%x)
  output %y user
)",
          ErrorKind::internal);
}

TEST(Decompose, TakesTheRecordedFormOfASize) {
  // u0 is the size of data: only the exported program knows that both are equal.
  Graph g = decomposed(R"(  symbol u0: [0, 10]
  symbol u1: [0, 10]
  input %x: f32[u0] user "x"
  %y: f32[u1] = aten.exp.default(self=%x)
  output %y user
)");
  const auto& out = std::get<ValueRef>(g.outputs[0].value);
  EXPECT_EQ(g[out.id].shape, (std::vector<Expr>{Expr::symbol("u1")}));
}

TEST(Decompose, SpecialPowersNeedNoPow) {
  auto power = [](const std::string& exponent) {
    return ops(
        decomposed("  input %x: f32[4] user \"x\"\n"
                   "  %y: f32[4] = aten.pow.Tensor_Scalar(self=%x, exponent=" +
                   exponent + ")\n  output %y user\n"));
  };
  EXPECT_EQ(power("2"), (Names{"mul"}));
  EXPECT_EQ(power("0.5"), (Names{"sqrt"}));
  EXPECT_EQ(power("-1"), (Names{"reciprocal"}));
  EXPECT_EQ(power("2.5"), (Names{"full", "pow"}));
}

TEST(Decompose, SumsSixteenBitFloatsInFloat32) {
  Graph g = decomposed(R"(  input %x: f16[2, 4] user "x"
  %y: f16[2] = aten.sum.dim_IntList(self=%x, dim=[-1])
  output %y user
)");
  EXPECT_EQ(ops(g), (Names{"cast", "sum", "cast"}));
  EXPECT_EQ(g[g.nodes[1].outputs[0]].dtype, NACRE_f32);
}

TEST(Decompose, ViewsOfAWholeGraphAreIndexMapsOnly) {
  Graph g = decomposed(R"(  symbol s0: [2, 9]
  input %x: f32[s0, 6] user "x"
  %a: f32[s0, 2, 3] = aten.view.default(self=%x, size=[s0, 2, -1])
  %b: f32[2, s0, 3] = aten.permute.default(self=%a, dims=[1, 0, 2])
  %c: f32[s0, 3] = aten.select.int(self=%b, dim=0, index=-1)
  %d: f32[s0, 3] = aten.flip.default(self=%c, dims=[0])
  %e: f32[s0, 2, 2] = aten.unfold.default(self=%d, dimension=1, size=2, step=1)
  %f: f32[s0, 4, 2] = aten.cat.default(tensors=[%e, %e], dim=1)
  output %f user
)");
  Names views{"reshape", "permute", "slice", "reshape", "flip", "window", "concat"};
  EXPECT_EQ(ops(g), views);
}

TEST(Decompose, SplitsByTheRecordedSizes) {
  Graph g = decomposed(R"(  input %x: f32[7] user "x"
  %a: f32[3], %b: f32[3], %c: f32[1] = aten.chunk.default(self=%x, chunks=3)
  output %a user
  output %c user
)");
  ASSERT_EQ(ops(g), (Names{"slice", "slice", "slice"}));
  EXPECT_EQ(std::get<Expr>(*g.nodes[2].find("start")), Expr(6));
}

TEST(Decompose, KnowsCopiesOfViews) {
  const Graph g = decomposed(R"(
  input %x: f32[2, 3] user "x"
  %a: f32[6] = aten.view_copy.default(self=%x, size=[6])
  %b: f32[3, 2] = aten.permute_copy.default(self=%x, dims=[1, 0])
  output %a user
  output %b user
)");
  EXPECT_EQ(ops(g), (Names{"reshape", "permute"}));
}

TEST(Decompose, AWholeFactorOfNearestResizingIsAView) {
  auto resized = [](const char* size, const char* out) {
    return ops(decomposed(std::string("  input %x: f32[1, 1, 4, 4] user \"x\"\n  %y: f32[1, 1, ") +
                          out + "] = aten.upsample_nearest2d.default(self=%x, output_size=[" +
                          size + "])\n  output %y user\n"));
  };
  Names whole = resized("8, 12", "8, 12"), broken = resized("8, 6", "8, 6");
  EXPECT_EQ(std::count(whole.begin(), whole.end(), "index"), 0);
  EXPECT_EQ(std::count(broken.begin(), broken.end(), "index"), 1);
}

TEST(Decompose, RejectsADimOutOfRange) {
  message(R"(  input %x: f32[4] user "x"
  %y: f32[] = aten.sum.dim_IntList(self=%x, dim=[3])
  output %y user
)",
          ErrorKind::user);
}

}  // namespace
}  // namespace nacre
