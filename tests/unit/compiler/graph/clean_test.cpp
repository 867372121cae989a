#include "compiler/graph/clean.h"

#include <gtest/gtest.h>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"

namespace nacre {
namespace {

std::string cleaned(const std::string& lines) {
  Graph g = clean(parse_graph("graph f primitive {\n" + lines + "}\n"));
  verify(g);
  EXPECT_EQ(g.values.size(), parse_graph(print(g)).values.size()) << "a value that nothing names";
  std::string text = print(g);
  text.erase(0, text.find('\n') + 1);
  text.erase(text.size() - 2);
  return text;
}

TEST(Clean, MergesEqualNodesAndThoseThatBecomeEqual) {
  EXPECT_EQ(cleaned(R"(  input %x: f32[4] user "x"
  %a: f32[4] = prim.exp(%x)
  %b: f32[4] = prim.exp(%x)
  %c: f32[4] = prim.neg(%a)
  %d: f32[4] = prim.neg(%b)
  %y: f32[4] = prim.add(%c, %d)
  output %y user
)"),
            R"(  input %x: f32[4] user "x"
  %a: f32[4] = prim.exp(%x)
  %c: f32[4] = prim.neg(%a)
  %y: f32[4] = prim.add(%c, %c)
  output %y user
)");
}

TEST(Clean, RemovesWhatOnlyDeadNodesRead) {
  EXPECT_EQ(cleaned(R"(  input %x: f32[4] user "x"
  input %w: f32[4] parameter "w"
  %a: f32[4] = prim.exp(%w)
  %b: f32[4] = prim.exp(%a)
  %y: f32[4] = prim.neg(%x)
  output %y user
)"),
            R"(  input %x: f32[4] user "x"
  input %w: f32[4] parameter "w"
  %y: f32[4] = prim.neg(%x)
  output %y user
)");
}

TEST(Clean, KeepsNodesApartThatDifferInOneArgument) {
  const char* text = R"(  input %x: f32[4, 4] user "x"
  %a: f32[4] = prim.sum(%x, dims=[0])
  %b: f32[4] = prim.sum(%x, dims=[1])
  %c: f32[4] = prim.full(shape=[4], value=0.0, dtype=f32)
  %d: f32[4] = prim.full(shape=[4], value=-0.0, dtype=f32)
  %e: f32[4, 4] = prim.concat([%a, %b, %c, %d], dim=0)
)";
  std::string lines = text;
  lines.replace(lines.find("f32[4, 4] = prim.concat"), 9, "f32[16]");
  lines += "  output %e user\n";
  EXPECT_EQ(cleaned(lines), lines);
}

TEST(Clean, MergesNodesOfSeveralResults) {
  EXPECT_EQ(cleaned(R"(  input %x: f32[4] user "x"
  %a: f32[4], %b: i64[4] = prim.sort(%x, dim=0, descending=false, stable=true)
  %c: f32[4], %d: i64[4] = prim.sort(%x, dim=0, descending=false, stable=true)
  output %a user
  output %d user
)"),
            R"(  input %x: f32[4] user "x"
  %a: f32[4], %b: i64[4] = prim.sort(%x, dim=0, descending=false, stable=true)
  output %a user
  output %b user
)");
}

}  // namespace
}  // namespace nacre
