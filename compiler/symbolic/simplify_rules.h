// The rewrite rules of simplify(), one line each. A rule looks at the top of an expression whose operands are simplified
// already, and gives an equal one, or nothing if it does not apply. Equal means: for every assignment that the facts allow
// and for which the expression has a value.
//
// Each rule carries an example on which it must fire; the tests evaluate both sides on random values, so a new line here
// tests itself. Facts in an example: `i < n` (0 <= i < n), `s: 2..64` (a range), `s: 2..64 by 8` (and a multiple).
#pragma once

#include <optional>

#include "compiler/symbolic/expr.h"
#include "compiler/symbolic/simplify.h"

namespace nacre {

using RuleFunction = std::optional<Expr>(const Expr& e, const Facts& facts);

RuleFunction symbol_with_one_value, sum_with_quotient_and_remainder, floordiv_in_one_step, floordiv_small_terms,
    floordiv_known_multiples, floordiv_nested, floordiv_of_mod, mod_in_one_step, mod_small_terms, mod_known_multiples,
    mod_nested, extremum_ordered, comparison_decided;

struct Rule {
  const char* name;
  ExprOp op;
  RuleFunction* apply;
  const char* example;
  const char* facts;
};

// clang-format off
inline constexpr Rule kSimplifyRules[] = {
    {"a symbol with one value", ExprOp::symbol, symbol_with_one_value, "s", "s: 7..7"},

    // c*(x floordiv c) + x mod c = x, x - x mod c = c*(x floordiv c), c*((x floordiv c) mod d) + x mod c = x mod (c*d)
    {"quotient and remainder", ExprOp::add, sum_with_quotient_and_remainder,
     "8*(i floordiv 8) + i mod 8", "i: 0..100"},
    {"quotient and remainder, symbolic", ExprOp::add, sum_with_quotient_and_remainder,
     "3*n*(i floordiv n) + 3*(i mod n) + j", "n: 1..9, i: 0..100, j: -5..5"},
    {"padding to a multiple", ExprOp::add, sum_with_quotient_and_remainder, "s + (-s) mod 8", "s: 1..100"},
    {"digits of an index", ExprOp::add, sum_with_quotient_and_remainder,
     "n*((i floordiv n) mod m) + i mod n", "n: 1..9, m: 1..9, i: 0..1000"},
    // c*(x floordiv c) = x for a multiple x of c
    {"exact quotient", ExprOp::add, sum_with_quotient_and_remainder, "8*(s floordiv 8) + 1", "s: 8..64 by 8"},
    {"exact quotient, alone", ExprOp::mul, sum_with_quotient_and_remainder, "16*(s floordiv 8)", "s: 8..64 by 8"},

    // x floordiv c = k for k*c <= x < (k+1)*c
    {"quotient of a small numerator", ExprOp::floordiv, floordiv_in_one_step, "(j + 7) floordiv 9", "j: 2..10"},
    {"quotient of a remainder in range", ExprOp::floordiv, floordiv_in_one_step, "(n*i + j) floordiv (n*m)", "j < n, i < m, n: 1..9, m: 1..9"},
    {"quotient of a small negative", ExprOp::floordiv, floordiv_in_one_step, "(-j - 1) floordiv n", "j < n, n: 1..9"},
    // (g*x + r) floordiv (g*d) = x floordiv d for 0 <= r < g
    {"quotient without its small terms", ExprOp::floordiv, floordiv_small_terms,
     "(8*i + j) floordiv 16", "j < 8, i: 0..100"},
    {"quotient without its small terms, symbolic", ExprOp::floordiv, floordiv_small_terms,
     "(n*i + j) floordiv (n*m)", "j < n, i: 0..100, n: 1..9, m: 1..9"},
    // (x + r) floordiv c = x floordiv c + k for a multiple x of c, k*c <= r < (k+1)*c
    {"quotient of a known multiple and a small term", ExprOp::floordiv, floordiv_known_multiples,
     "(s + j) floordiv 8", "s: 8..64 by 8, j: 0..7"},
    // (x floordiv a) floordiv b = x floordiv (a*b)
    {"quotient of a quotient", ExprOp::floordiv, floordiv_nested, "(i floordiv n) floordiv m", "i: -100..100, n: 1..9, m: 1..9"},
    // (x mod (a*b)) floordiv a = (x floordiv a) mod b
    {"quotient of a remainder", ExprOp::floordiv, floordiv_of_mod, "(i mod 64) floordiv 8", "i: -100..100"},
    {"quotient of a remainder, symbolic", ExprOp::floordiv, floordiv_of_mod, "(i mod (n*m)) floordiv n", "i: 0..100, n: 1..9, m: 1..9"},

    // x mod c = x - k*c for k*c <= x < (k+1)*c
    {"remainder of a small numerator", ExprOp::mod, mod_in_one_step, "(j + 16) mod 9", "j: 2..10"},
    {"remainder of an index in range", ExprOp::mod, mod_in_one_step, "(n*i + j) mod (n*m)", "j < n, i < m, n: 1..9, m: 1..9"},
    {"remainder of a small negative", ExprOp::mod, mod_in_one_step, "(-j - 1) mod n", "j < n, n: 1..9"},
    // (g*x + r) mod (g*d) = g*(x mod d) + r for 0 <= r < g
    {"remainder without its small terms", ExprOp::mod, mod_small_terms, "(8*i + j) mod 16", "j < 8, i: 0..100"},
    {"remainder without its small terms, symbolic", ExprOp::mod, mod_small_terms,
     "(n*i + j) mod (n*m)", "j < n, i: 0..100, n: 1..9, m: 1..9"},
    // (x + r) mod c = r mod c for a multiple x of c
    {"remainder of a known multiple", ExprOp::mod, mod_known_multiples, "(s + j) mod 8", "s: 8..64 by 16, j: -9..20"},
    // (k*(x mod (c*m)) + r) mod c = (k*x + r) mod c
    {"remainder of a remainder", ExprOp::mod, mod_nested, "(3*(i mod (n*m)) + j) mod n", "i: 0..100, j: -5..5, n: 1..9, m: 1..9"},

    {"minimum of ordered operands", ExprOp::min, extremum_ordered, "min(s, n)", "s: 1..8, n: 8..20"},
    {"maximum of ordered operands", ExprOp::max, extremum_ordered, "max(i + 1, n, j)", "i < n, n: 1..9, j: -5..5"},

    {"equality of disjoint ranges", ExprOp::eq, comparison_decided, "i == n", "i < n, n: 1..9"},
    {"inequality of disjoint ranges", ExprOp::ne, comparison_decided, "s != 0", "s: 1..9"},
    {"order by range", ExprOp::lt, comparison_decided, "2*i + 1 < 2*n", "i < n, n: 1..9"},
    {"order by range, or equal", ExprOp::le, comparison_decided, "n <= i", "i < n, n: 1..9"},
};
// clang-format on

}  // namespace nacre
