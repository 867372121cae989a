#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "formats/expr.h"

namespace {

// The value of one operation on two constants, of which the node itself may hold the second.
std::optional<int64_t> value(nacre_expr_kind kind, int64_t a, int64_t b) {
  const nacre_node nodes[] = {{NACRE_EXPR_constant, 0, a},
                              {NACRE_EXPR_constant, 0, b},
                              {static_cast<uint32_t>(kind), 0, 1}};
  int64_t values[3];
  const bool good = nacre_expr_evaluate(nodes, 3, 0, nullptr, values);
  if (kind != NACRE_EXPR_not_) {
    const nacre_node one = {kind | NACRE_EXPR_NUMBER, 0, b};
    int64_t with_number[2] = {a, 0};
    EXPECT_EQ(nacre_expr_evaluate(&one, 1, 1, nullptr, with_number), good);
    if (good) {
      EXPECT_EQ(with_number[1], values[2]);
    }
  }
  if (!good) return std::nullopt;
  return values[2];
}

TEST(Expr, DividesAsPythonDoes) {
  EXPECT_EQ(value(NACRE_EXPR_floor_div, 7, 2), 3);
  EXPECT_EQ(value(NACRE_EXPR_floor_div, -7, 2), -4);
  EXPECT_EQ(value(NACRE_EXPR_floor_div, 7, -2), -4);
  EXPECT_EQ(value(NACRE_EXPR_floor_div, -7, -2), 3);
  EXPECT_EQ(value(NACRE_EXPR_mod, 7, 3), 1);
  EXPECT_EQ(value(NACRE_EXPR_mod, -7, 3), 2);
  EXPECT_EQ(value(NACRE_EXPR_mod, 7, -3), -2);
  EXPECT_EQ(value(NACRE_EXPR_mod, -7, -3), -1);
  EXPECT_EQ(value(NACRE_EXPR_mod, 6, -3), 0);
}

TEST(Expr, ComputesEveryKind) {
  EXPECT_EQ(value(NACRE_EXPR_add, 2, 3), 5);
  EXPECT_EQ(value(NACRE_EXPR_sub, 2, 3), -1);
  EXPECT_EQ(value(NACRE_EXPR_mul, 2, 3), 6);
  EXPECT_EQ(value(NACRE_EXPR_min, 2, 3), 2);
  EXPECT_EQ(value(NACRE_EXPR_max, 2, 3), 3);
  EXPECT_EQ(value(NACRE_EXPR_eq, 3, 3), 1);
  EXPECT_EQ(value(NACRE_EXPR_ne, 3, 3), 0);
  EXPECT_EQ(value(NACRE_EXPR_lt, 3, 3), 0);
  EXPECT_EQ(value(NACRE_EXPR_le, 3, 3), 1);
  EXPECT_EQ(value(NACRE_EXPR_and_, 4, 2), 1);
  EXPECT_EQ(value(NACRE_EXPR_or_, 0, 0), 0);
  EXPECT_EQ(value(NACRE_EXPR_not_, 7, 0), 0);
  EXPECT_EQ(value(NACRE_EXPR_not_, 0, 0), 1);
  EXPECT_EQ(value(NACRE_EXPR_round_up, 65, 64), 128);
  EXPECT_EQ(value(NACRE_EXPR_round_up, 64, 64), 64);
  EXPECT_EQ(value(NACRE_EXPR_round_up, -65, 64), -64);
}

TEST(Expr, StopsWhereNumbersEnd) {
  EXPECT_EQ(value(NACRE_EXPR_add, INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_sub, INT64_MIN, 1), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_mul, INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_floor_div, 1, 0), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_mod, 1, 0), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_floor_div, INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_mod, INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_round_up, INT64_MAX, 64), std::nullopt);
  EXPECT_EQ(value(NACRE_EXPR_round_up, 1, 0), std::nullopt);
}

TEST(Expr, GoesOnWhereTheEntrysListEnds) {
  const int64_t symbols[] = {11, 5};
  const nacre_node entry[] = {{NACRE_EXPR_symbol, 1, 0}};
  const nacre_node variant[] = {{NACRE_EXPR_symbol, 0, 0}, {NACRE_EXPR_mul, 0, 1}};
  int64_t values[3];
  ASSERT_TRUE(nacre_expr_evaluate(entry, 1, 0, symbols, values));
  ASSERT_TRUE(nacre_expr_evaluate(variant, 2, 1, symbols, values));
  EXPECT_EQ(values[2], 55);
  EXPECT_EQ(nacre_size_value(~int64_t{2}, values), 55);
  EXPECT_EQ(nacre_size_value(7, values), 7);
}

}  // namespace
