#include "compiler/symbolic/simplify.h"

#include <gtest/gtest.h>

#include <charconv>
#include <sstream>

#include "compiler/symbolic/simplify_rules.h"
#include "tests/unit/compiler/symbolic/random_expr.h"

namespace nacre {
namespace {

// `i < n, s: 2..64 by 8`
Facts parse_facts(std::string_view text) {
  Facts facts;
  std::stringstream list{std::string(text)};
  for (std::string item; std::getline(list, item, ',');) {
    std::istringstream in(item);
    std::string name, rest;
    in >> name;
    SymbolFacts f;
    if (name.back() == ':') {
      name.pop_back();
      in >> rest;
      const size_t dots = rest.find("..");
      f.range = {std::stoll(rest.substr(0, dots)), std::stoll(rest.substr(dots + 2))};
      if (in >> rest) in >> f.multiple;
    } else {
      in >> rest;
      std::getline(in, rest);
      f.below = parse_expr(rest);
    }
    facts[name] = f;
  }
  return facts;
}

// A random assignment that the facts allow: symbols without a bound by others first.
std::optional<std::map<std::string, int64_t>> draw(RandomExpr& random, const Facts& facts) {
  std::map<std::string, int64_t> values;
  for (const bool bounded : {false, true}) {
    for (const auto& [name, f] : facts) {
      if (f.below.has_value() != bounded) continue;
      int64_t low = std::max<int64_t>(f.range.min, -50);
      int64_t high = std::min<int64_t>(f.range.max, 200);
      if (bounded) high = std::min(high, *f.below->evaluate(values) - 1);
      if (low > high) return std::nullopt;
      const int64_t first = low + ((f.multiple - low % f.multiple) % f.multiple);
      if (first > high) return std::nullopt;
      values[name] = first + f.multiple * random.uniform(0, (high - first) / f.multiple);
    }
  }
  return values;
}

class SimplifyRule : public testing::TestWithParam<Rule> {};

TEST_P(SimplifyRule, FiresOnItsExampleAndKeepsTheValue) {
  const Rule& rule = GetParam();
  const Facts facts = parse_facts(rule.facts);
  const Expr e = parse_expr(rule.example);
  ASSERT_EQ(e.op(), rule.op) << e.str();
  const auto better = rule.apply(e, facts);
  ASSERT_TRUE(better.has_value()) << rule.name << " does not fire on " << e.str();
  EXPECT_NE(*better, e);
  const Expr simple = simplify(e, facts);
  RandomExpr random(7);
  int tested = 0;
  for (int i = 0; i < 500; ++i) {
    const auto values = draw(random, facts);
    if (!values) continue;
    const auto expected = e.evaluate(*values);
    if (!expected) continue;
    EXPECT_EQ(better->evaluate(*values), expected) << e.str() << " -> " << better->str();
    EXPECT_EQ(simple.evaluate(*values), expected) << e.str();
    ++tested;
  }
  EXPECT_GT(tested, 100);
}

INSTANTIATE_TEST_SUITE_P(Table, SimplifyRule, testing::ValuesIn(kSimplifyRules),
                         [](const auto& rule) {
                           std::string name(rule.param.name);
                           for (char& c : name)
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

// What the rules must do together, as loops need it.
TEST(Simplify, UndoesAReshapeOfALoopIndex) {
  const struct {
    const char *expression, *facts, *result;
  } cases[] = {
      {"(8*i + j) floordiv 8", "j < 8, i: 0..9", "i"},
      {"(8*i + j) mod 8", "j < 8, i: 0..9", "j"},
      {"(n*i + j) floordiv n", "j < n, i < m, n: 1..64, m: 1..64", "i"},
      {"(n*i + j) mod n", "j < n, i < m, n: 1..64, m: 1..64", "j"},
      // [n, 4, 8] seen as [n*32] and back
      {"(32*i + 8*j + k) floordiv 32", "i < n, j < 4, k < 8, n: 1..64", "i"},
      {"((32*i + 8*j + k) mod 32) floordiv 8", "i < n, j < 4, k < 8, n: 1..64", "j"},
      {"((32*i + 8*j + k) floordiv 8) mod 4", "i < n, j < 4, k < 8, n: 1..64", "j"},
      // [a, b, c], all symbolic
      {"(b*c*i + c*j + k) floordiv (b*c)", "i < a, j < b, k < c, a: 1..9, b: 1..9, c: 1..9", "i"},
      {"((b*c*i + c*j + k) floordiv c) mod b", "i < a, j < b, k < c, a: 1..9, b: 1..9, c: 1..9",
       "j"},
      {"(b*c*i + c*j + k) mod c", "i < a, j < b, k < c, a: 1..9, b: 1..9, c: 1..9", "k"},
      {"c*((c*j + k) floordiv c) + (c*j + k) mod c", "j < b, k < c, b: 1..9, c: 1..9", "c*j + k"},
      // pixel shuffle: split and join a dim
      {"2*((2*h + u) floordiv 2) + (2*h + u) mod 2", "h < n, u < 2, n: 1..64", "2*h + u"},
      {"(s + 7 - (s + 7) mod 8) mod 8", "s: 1..100", "0"},
      {"max(i, 0)", "i < n, n: 1..9", "i"},
      {"min(i, n - 1)", "i < n, n: 1..9", "i"},
      {"select(0 <= i and i < n, i, 0)", "i < n, n: 1..9", "i"},
      {"min(j + 4*(s floordiv 4), s - 1)", "j < 1, s: 4..64 by 4", "s - 1"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(simplify(parse_expr(c.expression), parse_facts(c.facts)), parse_expr(c.result))
        << c.expression << " became "
        << simplify(parse_expr(c.expression), parse_facts(c.facts)).str();
}

TEST(Simplify, ProvesWithBoundsThatAreExpressions) {
  const Facts facts = parse_facts("i < n, j < s floordiv 4, n: 1..1000000000, s: 4..1000000000");
  EXPECT_TRUE(proves_lt(parse_expr("i"), parse_expr("n"), facts));
  EXPECT_TRUE(proves_le(parse_expr("4*j + 3"), parse_expr("s - 1"), facts));
  EXPECT_TRUE(proves_lt(parse_expr("i*s + 4*j"), parse_expr("n*s"), facts));
  EXPECT_FALSE(proves_lt(parse_expr("i"), parse_expr("s"), facts));
  EXPECT_FALSE(proves_le(parse_expr("4*j + 4"), parse_expr("s - 1"), facts));
  EXPECT_TRUE(proves_eq(parse_expr("(4*j + 3) floordiv 4"), parse_expr("j"), facts));
  EXPECT_TRUE(is_multiple(parse_expr("4*(s floordiv 2) + 8"), 4, facts));
  EXPECT_FALSE(is_multiple(parse_expr("s"), 4, facts));
}

TEST(Simplify, SurvivesHugeRanges) {
  const Facts facts =
      parse_facts("s: 0..9223372036854775806, t: -9223372036854775806..9223372036854775806");
  EXPECT_FALSE(proves_lt(parse_expr("64*s"), parse_expr("128*t + 5"), facts));
  EXPECT_TRUE(proves_le(parse_expr("64*s"), parse_expr("128*s + 5"), facts));
  EXPECT_EQ(simplify(parse_expr("(64*s + 3) mod 64"), facts), Expr(3));
  EXPECT_FALSE(proves_eq(parse_expr("s floordiv 1000"), parse_expr("t*t"), facts));
}

TEST(Simplify, BoundsExpressions) {
  const Facts facts = parse_facts("i < n, n: 2..10, s: 3..64 by 8");
  const auto expect = [&](const char* text, int64_t min, int64_t max) {
    const Interval r = interval(parse_expr(text), facts);
    EXPECT_EQ(r.min, min) << text;
    EXPECT_EQ(r.max, max) << text;
  };
  expect("i", 0, 9);
  expect("s", 8, 64);
  expect("2*i - n", -10, 16);
  expect("s floordiv n", 0, 32);
  expect("s mod 5", 0, 4);
  expect("i mod 16", 0, 9);
  expect("max(i, 4)", 4, 9);
  expect("i < 3", 0, 1);
  expect("select(i < 3, 7, s)", 7, 64);
  expect("unknown", -kUnbounded, kUnbounded);
  expect("unknown*unknown", 0, kUnbounded);
}

TEST(Simplify, KeepsTheValueOfRandomExpressions) {
  RandomExpr random(99);
  const char* all_facts[] = {
      "a: -20..20, b: 1..20, c < b, d: 0..24 by 8",
      "a: 1..6, b < a, c: 0..100, d < 8",
      "a: 8..64 by 4, b < a floordiv 4, c: 1..5, d < c",
  };
  for (int round = 0; round < 2400; ++round) {
    const Facts facts = parse_facts(all_facts[round % 3]);
    const RandomExpr::Result r = random.next(4);
    const Expr simple = simplify(r.expr, facts);
    const Interval limits = interval(r.expr, facts);
    for (int sample = 0; sample < 6; ++sample) {
      const auto values = draw(random, facts);
      if (!values) continue;
      const auto expected = r.value(*values);
      if (!expected) continue;
      EXPECT_EQ(simple.evaluate(*values), expected) << r.expr.str() << " -> " << simple.str();
      EXPECT_LE(limits.min, *expected) << r.expr.str();
      EXPECT_GE(limits.max, *expected) << r.expr.str();
    }
  }
}

}  // namespace
}  // namespace nacre
