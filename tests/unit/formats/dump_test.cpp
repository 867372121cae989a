#include "formats/dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

TEST(Dump, TextSaysGuardsAndSizesInWords) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  const std::string text = fmt::dump_text(bytes.span());
  for (const char* line : {
           "symbol 0 s0 from 1 to 32\n",
           "entry 0 forward\n  input 0 x: f32[s0 * 2, 4]\n  output 0 y: f32[s0 * 2, 4]\n",
           "    guard input 'x': dtype f32\n    guard input 'x': rank 2\n"
           "    guard input 'x' dimension 0: in [2, 64]\n    guard input 'x' dimension 0: 2*s0\n"
           "    guard input 'x' dimension 1: 4\n",
           "    node 6 = (s0 * 8) * 4\n",
           "    buffer b1 arena offset 0 size (s0 * 8) * 4\n",
           "    arena (s0 * 8) * 4 bytes, at most 1024\n",
           "    command 1 call scale(b1, b2) barrier  # model.py:41 block.first aten.mul.Tensor; "
           "model.py:42 ",
           "image 0 test-target ",
           "kernel 0 scale in image 0  # model.py:41 block.first aten.mul.Tensor",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
  }
}

TEST(Dump, JsonHasTheSame) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  const auto json = nlohmann::json::parse(fmt::dump_json(bytes.span()));
  EXPECT_EQ(json["size_bytes"], bytes.size());
  EXPECT_EQ(json["entries"][0]["name"], "forward");
  EXPECT_EQ(json["entries"][0]["inputs"][0]["shape"], nlohmann::json({"s0 * 2", 4}));
  const auto& variant = json["entries"][0]["variants"][0];
  EXPECT_EQ(variant["guards"][2], "input 'x' dimension 0: in [2, 64]");
  EXPECT_EQ(variant["arena_bound_bytes"], 1024);
  EXPECT_EQ(variant["program"][1]["command"], "call");
  EXPECT_EQ(variant["program"][1]["barrier"], true);
  EXPECT_EQ(variant["program"][1]["lines"][1]["line"], 42);
  EXPECT_EQ(json["kernels"].size(), kKernelCount);
}

TEST(Words, NestsExpressionsAndStopsWhereTheyAreTooDeep) {
  fmt::Artifact a = scale_artifact();
  auto& nodes = a.entries[0].variants[0].nodes;
  nodes.push_back({NACRE_EXPR_max, 0, 1});       // 7
  nodes.push_back({NACRE_EXPR_add, 7, 3});       // 8
  nodes.push_back({NACRE_EXPR_round_up, 8, 5});  // 9
  for (uint32_t i = 10; i < 300; ++i)
    nodes.push_back({NACRE_EXPR_sub, 0, i - 1});  // deep on the right
  a.entries[0].variants[0].slots[1].size = Size::node(9);
  a.entries[0].variants[0].slots[2].size = Size::node(299);
  Aligned bytes(fmt::artifact_bytes(a));
  const std::string text = fmt::dump_text(bytes.span());
  EXPECT_NE(text.find("round_up(max(s0, 8) + 2, 4)"), std::string::npos) << text;
  EXPECT_NE(text.find("..."), std::string::npos);
}

}  // namespace
}  // namespace nacre::test
