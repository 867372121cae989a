#include "compiler/graph/cut.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"

namespace nacre {
namespace {

// a -> b -> c -> d -> e, with a side branch and a symbol.
const char* const kWhole = R"(graph f functional {
  symbol s0: [1, 8]
  input %x: f32[s0, 4] user "x"
  input %w: f32[4, 4] parameter "w"
  %a: f32[s0, 4] = aten.relu.default(%x)
  %side: f32[s0, 4] = aten.neg.default(%x)
  %b: f32[s0, 4] = aten.mm.default(%a, mat2=%w)
  %c: f32[s0, 4] = aten.sin.default(%b)
  %d: f32[s0, 4] = aten.add.Tensor(%c, other=%side)
  %e: f32[s0, 4] = aten.cos.default(%d)
  output %e user
  output %side user
}
)";

bool has(const Graph& graph, const std::string& op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; });
}

TEST(Cut, TakesWhatIsMadeOutsideAsInputs) {
  const Graph whole = parse_graph(kWhole);
  Part part{{false, false, true, false, true, false}, {whole.nodes[4].outputs[0]}};
  const std::optional<Graph> graph = cut(whole, part);
  ASSERT_TRUE(graph);
  verify(*graph);
  EXPECT_EQ(print(*graph), R"(graph f functional {
  symbol s0: [1, 8]
  input %w: f32[4, 4] parameter "w"
  input %a: f32[s0, 4] user "a"
  input %side: f32[s0, 4] user "side"
  input %c: f32[s0, 4] user "c"
  %b: f32[s0, 4] = aten.mm.default(%a, mat2=%w)
  %d: f32[s0, 4] = aten.add.Tensor(%c, other=%side)
  output %d user
}
)");
}

TEST(Cut, HandsOverNoNumbers) {
  const Graph whole = parse_graph(R"(graph f functional {
  input %x: f32[4] user "x"
  %s: f32[] = aten.sum.default(%x)
  %n: float = aten.item.default(%s)
  %y: f32[4] = aten.mul.Tensor(%x, other=%n)
  output %y user
}
)");
  EXPECT_FALSE(cut(whole, {{false, false, true}, {whole.nodes[2].outputs[0]}}));
  EXPECT_TRUE(cut(whole, {{false, true, true}, {whole.nodes[2].outputs[0]}}));
}

TEST(Cut, SpecialisesSymbols) {
  const Graph graph = specialised(parse_graph(kWhole), {{"s0", 3}});
  verify(graph);
  EXPECT_TRUE(graph.symbols.empty());
  EXPECT_NE(print(graph).find("%e: f32[3, 4] = aten.cos.default(%d)"), std::string::npos);
}

TEST(SmallestPart, IsOneNodeWhereOneIsEnough) {
  const Graph whole = parse_graph(kWhole);
  const Part part = smallest_part(whole, [](const Graph& g) { return has(g, "aten.mm.default"); }, 100);
  EXPECT_EQ(std::count(part.nodes.begin(), part.nodes.end(), true), 1);
  EXPECT_TRUE(part.nodes[2]);
  EXPECT_EQ(part.outputs, whole.nodes[2].outputs);
}

TEST(SmallestPart, KeepsNodesThatFailTogether) {
  const Graph whole = parse_graph(kWhole);
  const Part part = smallest_part(whole, [](const Graph& g) { return has(g, "aten.relu.default") && has(g, "aten.cos.default"); }, 100);
  EXPECT_TRUE(part.nodes[0]);
  EXPECT_TRUE(part.nodes[5]);
  EXPECT_LE(std::count(part.nodes.begin(), part.nodes.end(), true), 5);
}

TEST(SmallestPart, AsksNoMoreThanItMay) {
  const Graph whole = parse_graph(kWhole);
  int asked = 0;
  const Part part = smallest_part(whole, [&](const Graph&) { return ++asked < 0; }, 3);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(std::count(part.nodes.begin(), part.nodes.end(), true), 6);
}

}  // namespace
}  // namespace nacre
