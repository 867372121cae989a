#include "compiler/fusion/index_map.h"

#include <gtest/gtest.h>

namespace nacre {
namespace {

std::vector<Expr> exprs(std::initializer_list<const char*> texts) {
  std::vector<Expr> result;
  for (const char* t : texts) result.push_back(parse_expr(t));
  return result;
}

std::string inverted(std::initializer_list<const char*> at, std::vector<LoopVar> loops, std::initializer_list<const char*> shape) {
  Facts facts;
  facts["s0"].range = {1, 100};
  const std::vector<Expr> sizes = exprs(shape);
  std::vector<Expr> element;
  for (size_t i = 0; i < sizes.size(); ++i) {
    element.push_back(Expr::symbol("t" + std::to_string(i)));
    add_loop_facts(facts, {{"t" + std::to_string(i), sizes[i]}});
  }
  Simplifier simplify(facts);
  auto values = inverse(exprs(at), loops, sizes, element, simplify);
  if (!values) return "none";
  std::string text;
  for (const auto& [name, value] : *values) text += name + " = " + value.str() + "; ";
  return text;
}

TEST(IndexMap, InvertsAPermutation) {
  EXPECT_EQ(inverted({"j", "i"}, {{"i", 4}, {"j", 6}}, {"6", "4"}), "i = t1; j = t0; ");
}
TEST(IndexMap, InvertsASplitDim) {
  EXPECT_EQ(inverted({"i floordiv 8", "i mod 8"}, {{"i", 32}}, {"4", "8"}), "i = 8*t0 + t1; ");
}
TEST(IndexMap, InvertsAMergedDimOfSymbolicSize) {
  EXPECT_EQ(inverted({"s0*b + s", "d"}, {{"b", 2}, {"s", Expr::symbol("s0")}, {"d", 64}}, {"2*s0", "64"}),
            "b = t0 floordiv s0; d = t1; s = t0 mod s0; ");
}
TEST(IndexMap, InvertsHeadsBroughtTogether) {
  EXPECT_EQ(inverted({"0", "k floordiv 8", "m", "k mod 8"}, {{"m", 10}, {"k", 32}}, {"1", "4", "10", "8"}),
            "k = 8*t1 + t3; m = t2; ");
}
TEST(IndexMap, InvertsARoll) {
  EXPECT_EQ(inverted({"(i + 3) mod 10", "j"}, {{"i", 10}, {"j", 4}}, {"10", "4"}), "i = (t0 + 7) mod 10; j = t1; ");
}
TEST(IndexMap, RefusesWhatIsNoBijection) {
  EXPECT_EQ(inverted({"i"}, {{"i", 4}, {"j", 6}}, {"4"}), "none");            // a broadcast
  EXPECT_EQ(inverted({"i + 1"}, {{"i", 4}}, {"5"}), "none");                  // a part
  EXPECT_EQ(inverted({"2*i + k"}, {{"i", 4}, {"k", 3}}, {"9"}), "none");      // windows that overlap
  EXPECT_EQ(inverted({"i floordiv 2"}, {{"i", 8}}, {"4"}), "none");           // elements read twice
}

}  // namespace
}  // namespace nacre
