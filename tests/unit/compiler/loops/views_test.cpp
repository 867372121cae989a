#include "compiler/loops/views.h"

#include <gtest/gtest.h>

#include <random>

namespace nacre {
namespace {

std::vector<Expr> shape_of(std::initializer_list<const char*> texts) {
  std::vector<Expr> result;
  for (const char* t : texts) result.push_back(parse_expr(t));
  return result;
}

std::string reshaped(std::initializer_list<const char*> from, std::initializer_list<const char*> to) {
  Facts facts;
  facts["s0"].range = {1, 100};
  facts["s1"].range = {1, 100};
  const std::vector<Expr> sizes = shape_of(to);
  std::vector<Expr> index;
  for (size_t i = 0; i < sizes.size(); ++i) {
    index.push_back(Expr::symbol("d" + std::to_string(i)));
    add_loop_facts(facts, {{"d" + std::to_string(i), sizes[i]}});
  }
  Simplifier simplify(facts);
  std::string text;
  for (const Expr& e : reshape_index(shape_of(from), sizes, index, simplify)) text += e.str() + "; ";
  return text;
}

TEST(Views, ReshapeLeavesOtherDimsAlone) {
  EXPECT_EQ(reshaped({"s0", "s1", "64"}, {"s0", "s1", "4", "16"}), "d0; d1; 16*d2 + d3; ");
  EXPECT_EQ(reshaped({"s0", "s1", "64"}, {"s0*s1", "64"}), "d0 floordiv s1; d0 mod s1; d1; ");
  EXPECT_EQ(reshaped({"s0", "12", "7"}, {"s0", "1", "12", "7", "1"}), "d0; d2; d3; ");
  EXPECT_EQ(reshaped({"2", "6", "5"}, {"3", "4", "5"}), "(4*d0 + d1) floordiv 6; (4*d0 + d1) mod 6; d2; ");
}

TEST(Views, ReshapeAgreesWithCountingElements) {
  std::mt19937 random(7);
  const std::vector<std::vector<int64_t>> shapes = {{24}, {2, 12}, {3, 8}, {4, 6}, {2, 3, 4}, {4, 3, 2}, {2, 2, 6}, {1, 24, 1}};
  for (const auto& from : shapes)
    for (const auto& to : shapes) {
      std::vector<Expr> old_shape(from.begin(), from.end()), new_shape(to.begin(), to.end()), index;
      Facts facts;
      for (size_t i = 0; i < to.size(); ++i) {
        index.push_back(Expr::symbol("d" + std::to_string(i)));
        add_loop_facts(facts, {{"d" + std::to_string(i), new_shape[i]}});
      }
      Simplifier simplify(facts);
      const std::vector<Expr> at = reshape_index(old_shape, new_shape, index, simplify);
      for (int64_t n = 0; n < 24; ++n) {
        std::map<std::string, int64_t> values;
        int64_t rest = n;
        for (size_t i = to.size(); i-- > 0;) {
          values["d" + std::to_string(i)] = rest % to[i];
          rest /= to[i];
        }
        int64_t linear = 0;
        for (size_t i = 0; i < from.size(); ++i) {
          const int64_t digit = *at[i].evaluate(values);
          ASSERT_TRUE(digit >= 0 && digit < from[i]);
          linear = linear * from[i] + digit;
        }
        ASSERT_EQ(linear, n);
      }
    }
}

TEST(Views, ChainsOfViewsBecomeOneIndexMap) {
  LoopProgram program;
  Buffer buffer;
  buffer.name = "x";
  buffer.dtype = NACRE_f32;
  buffer.shape = {2, 10, 32};
  program.buffers.push_back(buffer);
  // [b, s, h*d] -> [b, h, s, d], the first 4 of s
  View v = whole(program, 0);
  v = reshape_view(v, {2, 10, 4, 8}, {});
  v = permute_view(v, {0, 2, 1, 3}, {});
  v = slice_view(v, 2, 3, 7, 1, {});
  ASSERT_EQ(v.shape, (std::vector<Expr>{2, 4, 4, 8}));
  EXPECT_EQ(v.at[0].str(), "_0");
  EXPECT_EQ(v.at[1].str(), "_2 + 3");
  EXPECT_EQ(v.at[2].str(), "8*_1 + _3");
}

TEST(Views, PaddingTwiceWithOneValueIsOneView) {
  LoopProgram program;
  Buffer buffer;
  buffer.name = "x";
  buffer.dtype = NACRE_f32;
  buffer.shape = {4};
  program.buffers.push_back(buffer);
  Scalar zero, one;
  zero.dtype = one.dtype = NACRE_f32;
  one.number = 1;
  auto padded = pad_view(whole(program, 0), {1}, {2}, zero, {});
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded->when.size(), 2u);
  EXPECT_TRUE(pad_view(*padded, {1}, {0}, zero, {}));
  EXPECT_FALSE(pad_view(*padded, {1}, {0}, one, {}));
}

}  // namespace
}  // namespace nacre
