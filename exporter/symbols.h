// The symbols of an exported program: what is known about each, and the expressions over them as
// the file writes them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/symbolic/expr.h"
#include "compiler/symbolic/simplify.h"

namespace nacre {

class SymbolTable {
 public:
  // Reads `range_constraints`.
  void read_ranges(const nlohmann::json& ranges);

  // A SymInt of the schema, `{"as_int": 4}` or `{"as_expr": {"expr_str": ..., "hint": ...}}`,
  // simplified by the ranges. An expression without an integer form becomes a symbol of its own,
  // the same one wherever it appears.
  Expr integer(const nlohmann::json& sym_int);
  // A SymBool: 0, 1 or a condition; nullopt if it has no integer form.
  std::optional<Expr> boolean(const nlohmann::json& sym_bool);

  // An assumption that the program depends on. What it says about one symbol alone (a bound,
  // divisibility) is kept as a fact, the rest as an expression that must be 1; equalities make
  // expressions equal to a symbol that symbol from then on.
  void assume(const Expr& condition);

  // `e` with what the assumptions make equal replaced, and simplified.
  Expr canonical(const Expr& e) const;
  bool proves(const Expr& condition, const Facts& facts) const;

  Facts facts;
  std::vector<Expr> assumptions;
  std::set<std::string> opaque;  // symbols that stand for expressions without an integer form

 private:
  Expr replaced(const Expr& e) const;
  std::unordered_map<std::string, Expr> parsed_;
  std::map<Expr, Expr> equal_;  // expression -> symbol
};

}  // namespace nacre
