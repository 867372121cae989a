#include "compiler/graph/require_sizes.h"

#include <gtest/gtest.h>

#include "compiler/graph/text.h"

namespace nacre {
namespace {

Graph required(const std::string& lines) {
  Graph graph = parse_graph("graph f primitive {\n  symbol s0: [0, 16]\n  symbol s1: [0, 16]\n  input %x: f32[s0, 3] user \"x\"\n" + lines + "}\n");
  require_sizes(graph);
  return graph;
}

TEST(RequireSizes, SlicesAtFixedNumbersRaiseTheLeastSize) {
  const Graph graph = required(R"(
  %a: f32[1, 3] = prim.slice(%x, dim=0, start=1, end=2, step=1)
  %b: f32[1, 3] = prim.slice(%x, dim=0, start=s0 - 3, end=s0 - 2, step=1)
  output %a user
  output %b user
)");
  EXPECT_EQ(graph.symbols.at("s0").range.min, 3);
  EXPECT_TRUE(graph.assumptions.empty());
}

TEST(RequireSizes, WindowsNeedTheirReach) {
  const Graph graph = required(R"(
  %a: f32[s0 - 4, 3, 3] = prim.window(%x, dim=0, size=3, step=1, dilation=2)
  output %a user
)");
  EXPECT_EQ(graph.symbols.at("s0").range.min, 5);
}

TEST(RequireSizes, ASizeThatIsTakenForAnotherIsAssumed) {
  const Graph graph = required(R"(
  input %y: f32[s1, 3] user "y"
  %a: f32[min(2, s0), 3] = prim.slice(%x, dim=0, start=0, end=min(2, s0), step=1)
  %b: f32[2, 3] = prim.broadcast(%a, shape=[2, 3], dims=[0, 1])
  %c: f32[s1, 3] = prim.slice(%x, dim=0, start=0, end=s1, step=1)
  output %b user
  output %c user
)");
  ASSERT_EQ(graph.assumptions.size(), 2u);
  EXPECT_EQ(graph.assumptions[0].evaluate({{"s0", 2}, {"s1", 3}}), 0);
  EXPECT_EQ(graph.assumptions[0].evaluate({{"s0", 3}, {"s1", 3}}), 1);
  EXPECT_EQ(graph.assumptions[1].evaluate({{"s0", 1}, {"s1", 0}}), 0);
  EXPECT_EQ(graph.assumptions[1].evaluate({{"s0", 2}, {"s1", 0}}), 1);
}

TEST(RequireSizes, WhatFollowsIsNotAsked) {
  const Graph graph = required(R"(
  %a: f32[max(0, s0 - 1), 3] = prim.slice(%x, dim=0, start=0, end=max(0, s0 - 1), step=1)
  %b: f32[min(2, s0), 3] = prim.slice(%x, dim=0, start=0, end=min(2, s0), step=1)
  output %a user
  output %b user
)");
  EXPECT_EQ(graph.symbols.at("s0").range.min, 0);
  EXPECT_TRUE(graph.assumptions.empty());
}

}  // namespace
}  // namespace nacre
