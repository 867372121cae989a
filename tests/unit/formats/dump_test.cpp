#include "formats/dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/verify.h"
#include "formats/words.h"
#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

nacre_container verified(Aligned& bytes) {
  char buffer[512];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  nacre_container container;
  EXPECT_EQ(nacre_verify(bytes.data(), bytes.size(), &container, &why), NACRE_VERDICT_GOOD)
      << buffer;
  return container;
}

TEST(Dump, TextSaysGuardsAndSizesInWords) {
  Aligned bytes(fmt::artifact_bytes(scale_artifact()));
  const std::string text = fmt::dump_text(verified(bytes));
  for (const char* line : {
           "symbol 0 s0 from 1 to 32\n",
           "entry 0 forward\n  input 0 x: f32[s0 * 2, 4]\n  output 0 y: f32[s0 * 2, 4]\n",
           "    guard input 'x': dtype f32\n    guard input 'x': rank 2\n"
           "    guard input 'x' dimension 0: in [2, 64]\n    guard input 'x' dimension 0: 2*s0\n"
           "    guard input 'x' dimension 1: 4\n",
           "    node n6 = n2 * 4\n",
           "    buffer b1 arena offset 0 size s0 * 8 * 4\n",
           "    arena s0 * 8 * 4 bytes, at most 1024\n",
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
  const auto json = nlohmann::json::parse(fmt::dump_json(verified(bytes)));
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

// The text of the last node, in a buffer of the given size.
std::string words_of_last(std::vector<fmt::Node> more, std::size_t capacity = 256) {
  fmt::Artifact a = scale_artifact();
  auto& nodes = a.entries[0].variants[0].nodes;
  nodes.insert(nodes.end(), more.begin(), more.end());
  Aligned bytes(fmt::artifact_bytes(a));
  nacre_words words;
  nacre_words_open(&words, verified(bytes).meta, 0, 0);
  std::string buffer(capacity, '\0');
  nacre_text text;
  nacre_text_start(&text, buffer.data(), buffer.size());
  nacre_words_size(&words, Size::node(static_cast<uint32_t>(6 + more.size())).raw, &text);
  return buffer.c_str();
}

// Nodes of scale_artifact: 0 s0, 1 8, 2 s0 * 8, 3 2, 4 s0 * 2, 5 4, 6 s0 * 8 * 4. New ones start
// at 7.
TEST(Words, BracketsOnlyWhatNeedsThem) {
  EXPECT_EQ(words_of_last({{NACRE_EXPR_add, 0, 3}, {NACRE_EXPR_mul, 7, 7}}), "(s0 + 2) * (s0 + 2)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_mul, 0, 3}, {NACRE_EXPR_add, 7, 2}}), "s0 * 2 + s0 * 8");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_add, 0, 3}, {NACRE_EXPR_sub, 0, 7}}), "s0 - (s0 + 2)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_floor_div, 0, 3}, {NACRE_EXPR_mul, 5, 7}}), "4 * (s0 // 2)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_mul, 5, 0}, {NACRE_EXPR_floor_div, 7, 3}}), "4 * s0 // 2");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_mul, 3, 0}, {NACRE_EXPR_mul, 5, 7}}), "4 * 2 * s0");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_floor_div, 0, 3}, {NACRE_EXPR_floor_div, 0, 7}}),
            "s0 // (s0 // 2)");
  EXPECT_EQ(
      words_of_last({{NACRE_EXPR_max, 0, 1}, {NACRE_EXPR_add, 7, 3}, {NACRE_EXPR_round_up, 8, 5}}),
      "round_up(max(s0, 8) + 2, 4)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_eq, 0, 3}, {NACRE_EXPR_not_, 7, 0}}), "not (s0 == 2)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_le, 0, 3}, {NACRE_EXPR_lt, 3, 0}, {NACRE_EXPR_and_, 7, 8}}),
            "s0 <= 2 and (2 < s0)");
}

TEST(Words, PutsANumberThatANodeHoldsWhereAPersonWould) {
  EXPECT_EQ(words_of_last({{NACRE_EXPR_mul, 0, 3, true}}), "3 * s0");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_floor_div, 0, 2, true}, {NACRE_EXPR_mul, 7, 4, true}}), "4 * (s0 // 2)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_mul, 0, 4, true}, {NACRE_EXPR_floor_div, 7, 2, true}}), "4 * s0 // 2");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_add, 0, 1, true}, {NACRE_EXPR_mul, 7, 4, true}}), "4 * (s0 + 1)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_mul, 0, 4, true}, {NACRE_EXPR_mul, 3, 7}}), "2 * 4 * s0");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_sub, 0, 7, true}, {NACRE_EXPR_round_up, 7, 64, true}}), "round_up(s0 - 7, 64)");
  EXPECT_EQ(words_of_last({{NACRE_EXPR_add, 0, INT64_MIN, true}}), "s0 + -9223372036854775808");
}

TEST(Dump, SaysWhichFormatAFileNeeds) {
  fmt::Artifact a = scale_artifact();
  Aligned old(fmt::artifact_bytes(a));
  a.entries[0].variants[0].nodes.push_back({NACRE_EXPR_mul, 0, 4, true});
  Aligned with_number(fmt::artifact_bytes(a));
  EXPECT_NE(fmt::dump_text(verified(old)).find("format 1.0,"), std::string::npos);
  EXPECT_NE(fmt::dump_text(verified(with_number)).find("format 1.1,"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(fmt::dump_json(verified(with_number)))["entries"][0]["variants"][0]["nodes"]["n7"], "4 * s0");
}

TEST(Words, EndsWhereExpressionsDoNot) {
  std::vector<fmt::Node> deep, wide;
  for (uint32_t i = 7; i < 300; ++i) deep.push_back({NACRE_EXPR_sub, 0, i - 1});
  EXPECT_NE(words_of_last(deep, 4096).find("..."), std::string::npos);
  // 2^60 characters if it were written out.
  for (uint32_t i = 7; i < 67; ++i) wide.push_back({NACRE_EXPR_add, i - 1, i - 1});
  EXPECT_LE(words_of_last(wide, 256).size(), 255u);
}

}  // namespace
}  // namespace nacre::test
