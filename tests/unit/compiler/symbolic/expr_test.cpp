#include "compiler/symbolic/expr.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/support/error.h"
#include "tests/unit/compiler/symbolic/random_expr.h"

namespace nacre {
namespace {

Expr s(const char* name) { return Expr::symbol(name); }

TEST(Expr, ComparesEqualHoweverItWasWritten) {
  const Expr a = s("a"), b = s("b");
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(a + b + 1, Expr(1) + b + a);
  EXPECT_EQ(a * (b + 1) - a * b - a, Expr(0));
  EXPECT_EQ(Expr::make(ExprOp::lt, {a, b}), Expr::make(ExprOp::le, {a + 1, b}));
  EXPECT_EQ(ceildiv(a, 2), floordiv(a + 1, 2));
  EXPECT_EQ((a + b).hash(), (b + a).hash());
  EXPECT_NE(a + b, a - b);
}

TEST(Expr, FoldsNumbersWithFloorDivision) {
  EXPECT_TRUE(floordiv(-7, 2).is(-4));
  EXPECT_TRUE(mod(-7, 2).is(1));
  EXPECT_TRUE(mod(7, -2).is(-1));
  EXPECT_TRUE(ceildiv(7, 2).is(4));
  EXPECT_TRUE(min(3, 5).is(3));
  EXPECT_TRUE(product({2, 3, 7}).is(42));
  EXPECT_TRUE(product({}).is(1));
  EXPECT_FALSE(floordiv(1, 0).constant());
  EXPECT_EQ(floordiv(1, 0).evaluate({}), std::nullopt);
}

TEST(Expr, TakesMultiplesOfTheDivisorOut) {
  const Expr i = s("i"), j = s("j"), n = s("n");
  EXPECT_EQ(floordiv(i * n + j, n), i + floordiv(j, n));
  EXPECT_EQ(floordiv(i * (n + 1) + j, n + 1), i + floordiv(j, n + 1));
  EXPECT_EQ(mod(i * n + j, n), mod(j, n));
  EXPECT_EQ(floordiv(n * n - 1, n + 1), n - 1);
  // Three convolutions of stride 2 shrink a size to a single quotient.
  Expr size = n;
  for (int layer = 0; layer < 3; ++layer) size = floordiv(size - 1, 2) + 1;
  EXPECT_EQ(size.str(), "(n + 7) floordiv 8");
}

TEST(Expr, PrintsWhatItReads) {
  for (const char* text :
       {"0", "-5", "8*s0 + 1", "s0*s0 - s1", "s0 floordiv 2", "3*(s0 floordiv 2) - (s1 mod 4)",
        "max(3, s0)", "min(s0, s1)", "s0 + s1 <= 128", "s0 < s1", "s0 == 3", "s0 != s1",
        "s0 <= 4 and s1 <= 4", "not (s0 <= 4 and s1 <= 4)", "select(s0 < s1, s0, s1)",
        "(s0 + 1) floordiv (s1 + 2)", "-s0 + s1", "9223372036854775807", "-9223372036854775808"}) {
    const Expr e = parse_expr(text);
    EXPECT_EQ(parse_expr(e.str()), e) << text << " printed as " << e.str();
  }
  EXPECT_EQ(parse_expr("1+s0*8").str(), "8*s0 + 1");
}

TEST(Expr, RandomExpressionsRoundTripAndKeepTheirValue) {
  RandomExpr random(20240501);
  for (int round = 0; round < 3000; ++round) {
    const RandomExpr::Result r = random.next(4);
    EXPECT_EQ(parse_expr(r.expr.str()), r.expr) << r.expr.str();
    for (int sample = 0; sample < 4; ++sample) {
      const auto values = random.values();
      const auto expected = r.value(values);
      if (!expected) continue;  // a division by zero or an overflow: no value to keep
      EXPECT_EQ(r.expr.evaluate(values), expected) << r.expr.str();
    }
  }
}

TEST(Expr, SubstitutesAndListsSymbols) {
  const Expr e = parse_expr("8*s0 + min(s1, 3)");
  EXPECT_EQ(e.symbols(), (std::set<std::string>{"s0", "s1"}));
  EXPECT_TRUE(e.substitute({{"s0", 2}, {"s1", 7}}).is(19));
  EXPECT_EQ(e.substitute({{"s0", Expr::symbol("t") + 1}}).str(), "8*t + min(3, s1) + 8");
  EXPECT_THROW((void)e.evaluate({{"s0", 1}}), Error);
}

TEST(Expr, RefusesWrongTextWithItsColumn) {
  for (const char* text : {"", "1 +", "(a", "a b", "f(a)", "min()", "a floordiv",
                           "99999999999999999999", "mod 3", "select(a, b)", "%"}) {
    try {
      (void)parse_expr(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::user) << text;
      EXPECT_NE(error.message.find("column"), std::string::npos) << error.message;
    }
  }
  EXPECT_THROW((void)parse_expr(std::string(100000, '(')), Error);
  EXPECT_THROW((void)parse_expr(std::string(100000, '-')), Error);
}

TEST(Expr, RefusesOverflowInsteadOfWrapping) {
  EXPECT_THROW((void)(Expr(INT64_MAX) + 1), Error);
  EXPECT_THROW((void)(Expr(INT64_MAX) * 2), Error);
  EXPECT_EQ(parse_expr("a*a").evaluate({{"a", INT64_MAX}}), std::nullopt);
}

}  // namespace
}  // namespace nacre
