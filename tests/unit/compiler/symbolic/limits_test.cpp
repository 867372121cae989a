#include "compiler/symbolic/limits.h"

#include <gtest/gtest.h>

#include "tests/unit/compiler/symbolic/random_expr.h"

namespace nacre {
namespace {

Facts facts() {
  Facts f;
  f["s0"].range = {1, 100};
  f["s1"].range = {0, kUnbounded};
  f["u0"].range = {0, kUnbounded};
  f["u0"].below = parse_expr("s0*s1 + 1");
  f["u1"].range = {2, 9};
  f["u2"].range = {-kUnbounded, kUnbounded};
  f["u3"].range = {0, 50};
  f["u3"].below = parse_expr("s0");
  return f;
}
const std::set<std::string> kUnknown = {"u0", "u1", "u2", "u3"};

std::string upper(const char* e) {
  auto limit = upper_limit(parse_expr(e), kUnknown, facts());
  return limit ? limit->str() : "none";
}
std::string lower(const char* e) {
  auto limit = lower_limit(parse_expr(e), kUnknown, facts());
  return limit ? limit->str() : "none";
}

TEST(Limits, AreInTermsOfWhatIsKnown) {
  EXPECT_EQ(upper("s0 + 3"), "s0 + 3");
  EXPECT_EQ(upper("u0"), "s0*s1");
  EXPECT_EQ(upper("3*u0 + s1"), "3*s0*s1 + s1");
  EXPECT_EQ(upper("u1*u1"), "81");
  EXPECT_EQ(upper("s0 - u1"), "s0 - 2");
  EXPECT_EQ(lower("s0 - u1"), "s0 - 9");
  EXPECT_EQ(upper("u0 floordiv u1"), "(s0*s1) floordiv 2");
  EXPECT_EQ(upper("u0 mod s0"), "s0 - 1");
  EXPECT_EQ(upper("u0 < u1"), "1");
  EXPECT_EQ(lower("u0"), "0");
}

TEST(Limits, AreAbsentWithoutABound) {
  EXPECT_EQ(upper("u2"), "none");
  EXPECT_EQ(upper("u2 + u1"), "none");
  EXPECT_EQ(upper("min(u2, u1)"), "9");
}

// No assignment that the facts allow exceeds the limit.
TEST(Limits, HoldForEveryValue) {
  const char* const cases[] = {"3*u3 + u1 - 2", "u3*u1 + s0", "max(u3, u1 - 4) floordiv 3", "s0*s1 - u1*u3", "(u3 + s1) mod u1", "min(u3, s1) + u1",
                               "(s0 - u3) * u1"};
  const Facts known = facts();
  for (const char* text : cases) {
    const Expr e = parse_expr(text);
    const auto high = upper_limit(e, kUnknown, known), low = lower_limit(e, kUnknown, known);
    for (int64_t s0 : {1, 2, 7, 100})
      for (int64_t s1 : {0, 1, 5})
        for (int64_t u1 : {2, 5, 9})
          for (int64_t u3 = 0; u3 < s0 && u3 <= 50; u3 += 3) {
            const std::map<std::string, int64_t> values{{"s0", s0}, {"s1", s1}, {"u1", u1}, {"u3", u3}};
            if (high) EXPECT_LE(*e.evaluate(values), *high->evaluate(values)) << text;
            if (low) EXPECT_GE(*e.evaluate(values), *low->evaluate(values)) << text;
          }
  }
}

}  // namespace
}  // namespace nacre
