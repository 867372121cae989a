#include "compiler/graph/specialize.h"

#include <gtest/gtest.h>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

const char* const kGraph = R"(graph f primitive {
  symbol s0: [1, 64] hint 4
  symbol s1: [2, inf] multiple 2 hint 6
  symbol s2: [1, 64]
  symbol n: [0, 9]
  assume s2 <= s0 + 8
  input %x: f32[s0, 3, 2*s1] user "x"
  input %y: f32[s2, s0 + s1] user "y"
  input %n: int(n) user "n"
  %r: f32[2*s0*s1, 3] = prim.reshape(%x, shape=[2*s0*s1, 3])
  output %r user
}
)";

Narrowing narrowed(const std::string& variant) { return narrow(parse_graph(kGraph), parse_variant(variant)); }

std::string refusal(const std::string& variant) {
  try {
    narrowed(variant);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    return error.message;
  }
  return "";
}

TEST(Specialize, ReadsRequests) {
  const VariantRequest r = parse_variant("decode/x: [2..32, 3, H, 8*W, _, 4.., 8..64 by 8] channels_last, n: 5");
  EXPECT_EQ(r.entry, "decode");
  ASSERT_EQ(r.inputs.size(), 2u);
  const std::vector<DimRequest>& d = r.inputs[0].dims;
  ASSERT_EQ(d.size(), 7u);
  EXPECT_EQ(d[0].min, 2);
  EXPECT_EQ(d[0].max, 32);
  EXPECT_EQ(d[1].min, 3);
  EXPECT_EQ(d[1].max, 3);
  EXPECT_EQ(d[2].name, "H");
  EXPECT_EQ(d[3].name, "W");
  EXPECT_EQ(d[3].multiple, 8);
  EXPECT_EQ(d[4].max, kUnbounded);
  EXPECT_EQ(d[5].min, 4);
  EXPECT_EQ(d[5].max, kUnbounded);
  EXPECT_EQ(d[6].multiple, 8);
  EXPECT_TRUE(r.inputs[0].channels_last);
  EXPECT_TRUE(r.inputs[1].scalar);
  EXPECT_EQ(r.inputs[1].dims[0].min, 5);
}

TEST(Specialize, RefusesWhatIsNoRequest) {
  for (const char* text : {"", "x", "x:", "x: [", "x: [1", "x: [1 2]", "x: [9..2]", "x: [0*W]", "x: [1] y", "x: [99999999999999999999]", "x: [..]"})
    EXPECT_THROW(parse_variant(text), Error) << text;
}

TEST(Specialize, FixesSymbolsByTheirSizes) {
  const Narrowing n = narrowed("x: [1, 3, 8]");
  EXPECT_EQ(n.values.at("s0"), Expr(1));
  EXPECT_EQ(n.values.at("s1"), Expr(4));
  EXPECT_FALSE(n.values.contains("s2"));
  const Graph g = specialize(parse_graph(kGraph), n);
  verify(g);
  const std::string text = print(g);
  for (const char* line : {"symbol s0: [1, 1]", "symbol s2: [1, 64]", "%x: f32[1, 3, 8]", "%y: f32[s2, 5]", "prim.reshape(%x, shape=[8, 3])", "assume s2 <= 9"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
}

TEST(Specialize, NarrowsRangesAndMultiples) {
  const Narrowing n = narrowed("x: [3..30 by 8, 3, 10..50], n: 2..4");
  EXPECT_EQ(n.symbols.at("s0").range.min, 8);
  EXPECT_EQ(n.symbols.at("s0").range.max, 24);
  EXPECT_EQ(n.symbols.at("s0").multiple, 8);
  EXPECT_EQ(n.symbols.at("s0").hint, 8);
  EXPECT_EQ(n.symbols.at("s1").range.min, 6);
  EXPECT_EQ(n.symbols.at("s1").range.max, 24);
  EXPECT_EQ(n.symbols.at("n").range.max, 4);
  // 2*s1 = 12*W: s1 is a multiple of 6.
  EXPECT_EQ(narrowed("x: [_, 3, 12*W]").symbols.at("s1").multiple, 6);
}

TEST(Specialize, OneNameIsOneSize) {
  const Narrowing n = narrowed("x: [B, 3, _], y: [B, _]");
  EXPECT_EQ(n.values.size(), 1u);
  EXPECT_EQ(n.values.at("s2"), Expr::symbol("s0"));
  ASSERT_EQ(n.conditions.size(), 1u);
  EXPECT_EQ(n.conditions[0], parse_expr("s0 == s2"));
  EXPECT_EQ(narrowed("x: [B, 3, _], y: [B, _], n: 1").volume, narrowed("y: [B, _], x: [B, 3, _], n: 1").volume);
  // With a size that is no symbol, the guard says it.
  EXPECT_EQ(narrowed("x: [_, 3, K], y: [_, K]").conditions.size(), 1u);
  // Named and then fixed, or the other way round.
  EXPECT_EQ(narrowed("x: [B, 3, _], y: [B, _], n: _").values.size(), 1u);
  const Narrowing fixed = narrowed("y: [7, _], x: [7, 3, _]");
  EXPECT_EQ(fixed.values.at("s0"), Expr(7));
  EXPECT_EQ(fixed.values.at("s2"), Expr(7));
}

TEST(Specialize, SizesOfSeveralSymbolsAreConditions) {
  EXPECT_EQ(narrowed("y: [_, 20]").conditions.size(), 2u);  // at least and at most
  const Narrowing n = narrowed("x: [4, 3, _], y: [_, 20]");
  EXPECT_EQ(n.values.at("s1"), Expr(16));
}

TEST(Specialize, TheNarrowerHasTheSmallerVolume) {
  const double general = narrow(parse_graph(kGraph), VariantRequest{}).volume;
  const double some = narrowed("x: [2..32, 3, _]").volume, fewer = narrowed("x: [2..32 by 4, 3, _]").volume;
  EXPECT_LT(some, general);
  EXPECT_LT(fewer, some);
  EXPECT_LT(narrowed("x: [4, 3, _]").volume, fewer);
  EXPECT_LT(narrowed("x: [4, 3, _] channels_last").volume, narrowed("x: [4, 3, _]").volume);
  EXPECT_LT(narrowed("x: [4, 3, 12]").volume, narrowed("x: [4, 3, _]").volume);
}

TEST(Specialize, SaysWhatCannotBe) {
  EXPECT_EQ(refusal("z: [1]"), "variant 'z: [1]': there is no input 'z'; there are x, y, n");
  EXPECT_EQ(refusal("x: [1, 4, _]"), "variant 'x: [1, 4, _]': input 'x' dimension 1 is always 3");
  EXPECT_EQ(refusal("x: [65, 3, _]"), "variant 'x: [65, 3, _]': input 'x' dimension 0 is in [1, 64]");
  EXPECT_EQ(refusal("x: [1, 3, 10]"), "variant 'x: [1, 3, 10]': input 'x' dimension 2 cannot have such a size");
  EXPECT_EQ(refusal("x: [1, 3]"), "variant 'x: [1, 3]': input 'x' has 3 dimensions, not 2");
  EXPECT_EQ(refusal("n: [1]"), "variant 'n: [1]': input 'n' is a number: write its value without brackets");
  EXPECT_EQ(refusal("x: 1"), "variant 'x: 1': input 'x' is no integer: write its sizes in brackets");
  EXPECT_EQ(refusal("y: [_, _] channels_last"), "variant 'y: [_, _] channels_last': input 'y' has no channels that could lie last");
}

}  // namespace
}  // namespace nacre
