#include "exporter/sympy.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace nacre {
namespace {

Expr s(const char* name) { return Expr::symbol(name); }

TEST(ParseSrepr, ReadsSizesAsExportWritesThem) {
  auto e = parse_srepr(
      "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(1))", nullptr);
  ASSERT_TRUE(e);
  EXPECT_EQ(*e, Expr(2) * s("s77") + Expr(1));
  e = parse_srepr("Max(Integer(1), FloorDiv(Symbol('s0', integer=True), Integer(2)))", nullptr);
  ASSERT_TRUE(e);
  EXPECT_EQ(e->evaluate({{"s0", 9}}), 4);
  EXPECT_EQ(e->evaluate({{"s0", 1}}), 1);
}

TEST(ParseSrepr, KeepsFractionsExact) {
  auto half = parse_srepr("Mul(Rational(1, 2), Symbol('s0', integer=True))", nullptr);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->evaluate({{"s0", 14}}), 7);
  auto ceiling =
      parse_srepr("CeilToInt(IntTrueDiv(Symbol('s0', integer=True), Integer(4)))", nullptr);
  ASSERT_TRUE(ceiling);
  EXPECT_EQ(ceiling->evaluate({{"s0", 9}}), 3);
  auto doubled = parse_srepr(
      "TruncToInt(Mul(Float('2.0', precision=53), ToFloat(Symbol('s0', integer=True))))", nullptr);
  ASSERT_TRUE(doubled);
  EXPECT_EQ(doubled->evaluate({{"s0", 7}}), 14);
}

TEST(ParseSrepr, ScalesAsDoublesDoAndSaysUpToWhere) {
  std::vector<Expr> assumptions;
  auto e = parse_srepr(
      "TruncToInt(Mul(Float('1.3', precision=53), ToFloat(Symbol('s0', integer=True))))",
      &assumptions);
  ASSERT_TRUE(e);
  ASSERT_EQ(assumptions.size(), 1u);
  for (int64_t n = 1; n < 5000; ++n) {
    ASSERT_EQ(assumptions[0].evaluate({{"s0", n}}), 1);
    ASSERT_EQ(e->evaluate({{"s0", n}}), static_cast<int64_t>(1.3 * static_cast<double>(n))) << n;
  }
}

TEST(ParseSrepr, HasNoAnswerForFunctionsOfRealNumbers) {
  EXPECT_FALSE(parse_srepr("FloorToInt(OpaqueUnaryFn_sqrt(Symbol('s0', integer=True)))", nullptr));
}

TEST(ParseSrepr, RefusesMalformedText) {
  for (const char* text :
       {"", "Mul(", "Mul(Integer(2)", "Mul(Integer(2)))", "Symbol('s0", "Symbol()"}) {
    try {
      EXPECT_FALSE(parse_srepr(text, nullptr)) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::user);
    }
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Mul(";
  EXPECT_THROW(parse_srepr(deep, nullptr), Error);
}

TEST(ParseGuard, ReadsPythonWithTheNamesOfTheInputs) {
  auto meaning = [](std::string_view source) -> std::optional<Expr> {
    if (source == "L['x'].size()[0]") return s("s0");
    if (source == "L['d']['k'][1].size()[2]") return s("s1");
    if (source == "L['n']") return s("n");
    return std::nullopt;
  };
  auto e = parse_guard("(L['x'].size()[0] % 2) == 0", meaning);
  ASSERT_TRUE(e);
  EXPECT_EQ(e->evaluate({{"s0", 6}}), 1);
  EXPECT_EQ(e->evaluate({{"s0", 7}}), 0);
  e = parse_guard(
      "torch.sym_max(1, (L['x'].size()[0]*L['d']['k'][1].size()[2]) // L['n']) >= L['n'] and not "
      "L['n'] != (-1) + 3",
      meaning);
  ASSERT_TRUE(e);
  EXPECT_EQ(e->evaluate({{"s0", 4}, {"s1", 3}, {"n", 2}}), 1);
  EXPECT_EQ(e->evaluate({{"s0", 4}, {"s1", 3}, {"n", 3}}), 0);
  e = parse_guard("2 <= L['n'] < 5", meaning);
  ASSERT_TRUE(e);
  EXPECT_EQ(e->evaluate({{"n", 4}}), 1);
  EXPECT_EQ(e->evaluate({{"n", 5}}), 0);
  EXPECT_FALSE(parse_guard("L['unknown'].size()[0] == 1", meaning));
}

}  // namespace
}  // namespace nacre
