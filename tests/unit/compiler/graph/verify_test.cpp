#include "compiler/graph/verify.h"

#include <gtest/gtest.h>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

// The message of the failure; empty if the graph is right.
std::string problem(const Graph& g) {
  try {
    verify(g);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::internal);
    return e.what();
  }
}
std::string problem(const std::string& lines, const char* level = "primitive") {
  return problem(parse_graph(std::string("graph f ") + level + " {\n" + lines + "}\n"));
}

void expect_problem(const std::string& got, const char* wanted) {
  EXPECT_NE(got.find(wanted), std::string::npos) << "got: " << got;
}

TEST(Verify, AcceptsARightGraphOfEachLevel) {
  EXPECT_EQ(problem("input %x: f32[2] user \"x\"\n%y: f32[2] = prim.neg(%x)\noutput %y user\n"),
            "");
  EXPECT_EQ(
      problem(
          "input %x: f32[2] strides [3] user \"x\"\n%y: f32[2] = aten.add_.Tensor(%x, other=%x)\n",
          "captured"),
      "");
  EXPECT_EQ(problem("input %x: f32[2] user \"x\"\n%y: f32[2] = aten.__and__.Tensor(%x, other=%x)\n"
                    "output %y input_mutation \"x\"\n",
                    "functional"),
            "");
}

TEST(Verify, NamesTheNodeAndItsRule) {
  const std::string got = problem(
      "input %x: f32[2] user \"x\"\n%y: f32[3] = prim.neg(%x)  # aten.neg.default model.py:3 fc\n");
  expect_problem(got, "model.py:3");
  expect_problem(got, "%y: f32[3] = prim.neg(%x)");
  expect_problem(got, "%y should have shape [2]");
}

TEST(Verify, RefusesWrongPrimitives) {
  expect_problem(problem("input %x: f32[2] user \"x\"\n%y: i64[2] = prim.neg(%x)\n"),
                 "%y is i64, not f32");
  expect_problem(problem("input %x: f32[2] user \"x\"\n%y: f32[2] = aten.neg.default(%x)\n"),
                 "no primitive");
  expect_problem(problem("input %x: f32[2] user \"x\"\n%y: f32[2], %z: f32[2] = prim.neg(%x)\n"),
                 "1 results, not 2");
  expect_problem(problem("input %x: f32[2] strides [1] user \"x\"\n"), "has strides");
  expect_problem(problem("input %x: f32[2, 3] user \"x\"\n%y: f32[2] = prim.sum(%x, dims=[2])\n"),
                 "no dim of 2");
  expect_problem(problem("input %x: f32[2] user \"x\"\n%y: f32[2] = prim.sum(%x)\n"),
                 "dims is missing");
}

TEST(Verify, RefusesMutationBelowTheCapturedLevel) {
  expect_problem(
      problem("input %x: f32[2] user \"x\"\n%y: f32[2] = aten.add_.Tensor(%x, other=%x)\n",
              "functional"),
      "writes an operand");
  expect_problem(
      problem("input %x: f32[2] user \"x\"\n%y: f32[2] = aten.add.out(%x, other=%x, out=%x)\n",
              "functional"),
      "writes an operand");
  expect_problem(problem("input %x: f32[2] user \"x\"\n%y: f32[2] = prim.neg(%x)\n", "functional"),
                 "a primitive");
}

TEST(Verify, RefusesUndeclaredSymbolsAndSubgraphs) {
  expect_problem(problem("input %x: f32[s0] user \"x\"\n"), "s0");
  expect_problem(problem("symbol s0: [5, 2]\n"), "empty range");
  expect_problem(problem("assume s9 < 3\n"), "s9");
  expect_problem(problem("input %x: f32[2] user \"x\"\n%y: f32[2] = cond(pred=%x, graph=@body)\n",
                         "functional"),
                 "no subgraph body");
}

TEST(Verify, RefusesMutationsOfWhatIsNoInput) {
  expect_problem(problem("input %x: f32[2] user \"x\"\noutput %x buffer_mutation \"b\"\n"),
                 "'b' is no input");
  expect_problem(problem("input %x: f32[2] user \"x\"\noutput %x input_mutation \"y\"\n"),
                 "'y' is no user input");
}

TEST(Verify, RefusesUseBeforeDefinition) {
  Graph g = parse_graph(
      "graph f primitive {\ninput %x: f32[2] user \"x\"\n%y: f32[2] = prim.neg(%x)\n%z: f32[2] = "
      "prim.neg(%y)\n}\n");
  std::swap(g.nodes[0], g.nodes[1]);
  expect_problem(problem(g), "%y is used before it is defined");
  g.nodes[0].outputs[0] = 99;
  EXPECT_NE(problem(g), "");
}

TEST(Verify, RefusesTwoValuesOfOneName) {
  Graph g = parse_graph(
      "graph f primitive {\ninput %x: f32[2] user \"x\"\n%y: f32[2] = prim.neg(%x)\n}\n");
  g[g.nodes[0].outputs[0]].name = "x";
  expect_problem(problem(g), "two values have the name %x");
}

TEST(Verify, AcceptsSizesThatMayBeEqual) {
  const char* symbols = "symbol s0: [2, 9]\nsymbol u0: [0, 100]\n";
  EXPECT_EQ(
      problem(std::string(symbols) + "input %x: f32[s0] user \"x\"\ninput %y: f32[u0] user \"y\"\n"
                                     "%z: f32[s0] = prim.add(%x, %y)\n"),
      "");
  expect_problem(problem(std::string(symbols) +
                         "input %x: f32[s0] user \"x\"\ninput %y: f32[s0 + 1] user \"y\"\n"
                         "%z: f32[s0] = prim.add(%x, %y)\n"),
                 "shape");
}

}  // namespace
}  // namespace nacre
