// What is known about symbols, and what follows from it for expressions.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "compiler/symbolic/expr.h"

namespace nacre {

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// A closed interval; `max == kUnbounded` means no upper limit, `min == -kUnbounded` no lower one.
struct Interval {
  int64_t min = -kUnbounded;
  int64_t max = kUnbounded;
};

struct SymbolFacts {
  Interval range{0, kUnbounded};
  int64_t multiple = 1;                // the symbol is a multiple of this
  int64_t hint = 0;                    // a typical value (the sample inputs'); 0: none known
  std::optional<Expr> below;           // exclusive upper bound as an expression (a loop variable's extent)
  bool assumed = false;                // range.max stands in for a limit that the program does not state
};

// Facts about the symbols of a graph or of a loop nest, by name, in a fixed order.
using Facts = std::map<std::string, SymbolFacts>;

Interval interval(const Expr& e, const Facts& facts);
bool is_multiple(const Expr& e, int64_t of, const Facts& facts);

// Proofs: true only if it holds for every assignment that the facts allow.
bool proves_le(const Expr& a, const Expr& b, const Facts& facts);
bool proves_lt(const Expr& a, const Expr& b, const Facts& facts);
bool proves_eq(const Expr& a, const Expr& b, const Facts& facts);

// An equal expression that is never more complex: floordiv and mod of sums whose remainder is in range, min and max of
// ordered operands, comparisons that are decided. Each rule stands in simplify_rules.h and is tested on random values.
Expr simplify(const Expr& e, const Facts& facts);

}  // namespace nacre
