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

TEST(Sympy, ReadsTheConstructorFormThatExportStores) {
  EXPECT_EQ(
      parse_sympy("Add(FloorDiv(Add(Symbol('s53', positive=True, integer=True), Integer(-1)), "
                  "Integer(2)), Integer(1))"),
      parse_expr("(s53 + 1) floordiv 2"));
  EXPECT_EQ(parse_sympy("Mul(Integer(3), Symbol('s0', integer=True), Symbol('s1', integer=True))"),
            parse_expr("3*s0*s1"));
  EXPECT_EQ(parse_sympy("Add(Symbol('s0', integer=True), PythonMod(Mul(Integer(-1), Symbol('s0', "
                        "integer=True)), Integer(8)))"),
            parse_expr("s0 + (-s0) mod 8"));
  EXPECT_EQ(parse_sympy("FloorToInt(Mul(Float('2.5', precision=53), ToFloat(Symbol('s0'))))"),
            parse_expr("5*s0 floordiv 2"));
  EXPECT_EQ(parse_sympy("Pow(Symbol('s0'), Integer(2))"), parse_expr("s0*s0"));
}

TEST(Sympy, ReadsThePrintedForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"Max(1, s0//2)", "max(1, s0 floordiv 2)"},
      {"s77*s27", "s27*s77"},
      {"FloorDiv(s0, 2)", "s0 floordiv 2"},
      {"Eq(Mod(s0, 2), 0)", "s0 mod 2 == 0"},
      {"ceiling(s0/2)", "(s0 + 1) floordiv 2"},
      {"floor(s0/2 + 1/2)", "(s0 + 1) floordiv 2"},
      {"s0**2 - 4*s0", "s0*s0 - 4*s0"},
      {"(((s53 - 1)//2)) + 1", "(s53 + 1) floordiv 2"},
      {"s0 + (PythonMod(-s0, 8))", "s0 + (-s0) mod 8"},
      {"Piecewise((1, s0 < 2), (s0, True))", "select(s0 < 2, 1, s0)"},
      {"(s0 < 3) & (s1 >= 2) | ~(s0 > s1)", "s0 < 3 and 2 <= s1 or not s1 < s0"},
      {"ModularIndexing(s0, 4, 8)", "(s0 floordiv 4) mod 8"},
      {"(s0*s1)/s1", "s0"},
  };
  for (const auto& [sympy, ours] : cases)
    EXPECT_EQ(parse_sympy(sympy), parse_expr(ours)) << sympy << " is " << parse_sympy(sympy).str();
}

TEST(Sympy, TruncatesTowardsZero) {
  const Expr e = parse_sympy("TruncToInt(IntTrueDiv(s0, 3))");
  for (int64_t v = -7; v <= 7; ++v) EXPECT_EQ(e.evaluate({{"s0", v}}), v / 3);
}

TEST(Sympy, NamesWhatHasNoIntegerMeaning) {
  for (const char* text : {"sin(s0)", "s0/2", "0.1*s0", "s0**s1"}) {
    try {
      (void)parse_sympy(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::unsupported) << text << ": " << error.message;
    }
  }
}

}  // namespace
}  // namespace nacre
