// Integer expressions over symbols: sizes, strides, offsets, loop indices, guards.
//
// An Expr is an immutable value in canonical form, so equal expressions that differ only in how they were written compare
// equal: sums are flattened, sorted and have one constant; products are expanded over sums; constants are folded.
// Division is floor division and `mod` has the divisor's sign, as in Python and sympy (which torch.export writes).
// Rewrites that need ranges (`(8*i + j) floordiv 8 = i` for 0 <= j < 8) live in simplify.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nacre {

enum class ExprOp : uint8_t {
  constant, symbol,
  add, mul, floordiv, mod, min, max,
  eq, ne, lt, le,      // 0 or 1
  and_, or_, not_,     // of 0 and 1
  select,              // operand 0 ? operand 1 : operand 2
};

class Expr {
 public:
  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t value);  // NOLINT(google-explicit-constructor): a number is an expression
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}
  static Expr symbol(std::string name);

  // The canonical expression of `op` over `operands` (as many as the operator takes; add, mul, min, max, and_, or_ take
  // any number from one on).
  static Expr make(ExprOp op, std::vector<Expr> operands);

  ExprOp op() const;
  const std::vector<Expr>& operands() const;
  const std::string& name() const;           // of a symbol
  std::optional<int64_t> constant() const;   // the value if this is a number
  bool is(int64_t value) const { return constant() == value; }

  std::set<std::string> symbols() const;
  Expr substitute(const std::map<std::string, Expr>& values) const;
  // The value under an assignment of every symbol; Error{internal} for a missing one, nullopt on overflow or division by 0.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t>& values) const;

  // `8*s0 + 1`, `s0 floordiv 2`, `max(s0, 3)`: parses back to the same expression.
  std::string str() const;

  friend bool operator==(const Expr& a, const Expr& b);
  friend bool operator<(const Expr& a, const Expr& b);  // any total order, the same on every run and machine
  size_t hash() const;

  struct Node;

 private:
  friend struct ExprFactory;
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator*(const Expr& a, const Expr& b);
Expr floordiv(const Expr& a, const Expr& b);
Expr ceildiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
inline bool operator!=(const Expr& a, const Expr& b) { return !(a == b); }
inline Expr& operator+=(Expr& a, const Expr& b) { return a = a + b; }
inline Expr& operator*=(Expr& a, const Expr& b) { return a = a * b; }

// q with b = q * a, as expressions, so that it holds also where symbols may be 0.
std::optional<Expr> exact_quotient(const Expr& b, const Expr& a);

Expr product(const std::vector<Expr>& factors);  // 1 for none: the number of elements of a shape

// Reads what str() writes; Error{user} with the column otherwise.
Expr parse_expr(std::string_view text);
bool is_symbol_name(std::string_view text);  // what Expr::symbol takes

}  // namespace nacre

template <>
struct std::hash<nacre::Expr> {
  size_t operator()(const nacre::Expr& e) const { return e.hash(); }
};
