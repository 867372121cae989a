// The canonical form is a polynomial with integer coefficients over atoms: symbols and the
// operators that do not distribute (floordiv, mod, min, max, comparisons, select). A polynomial is
// kept sorted by degree, then by its atoms, so that the constant is last. floordiv and mod divide
// polynomials, which takes every multiple of the divisor out of them.
#include "compiler/symbolic/expr.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/symbolic/simplify.h"

namespace nacre {

struct Expr::Node {
  ExprOp op = ExprOp::constant;
  int64_t value = 0;
  size_t hash = 0;
  std::string name;
  std::vector<Expr> operands;
};

namespace {

// ---- Arithmetic on int64.

[[noreturn]] void overflow() {
  fail(ErrorKind::unsupported, "a size or index expression exceeds 64 bits");
}
int64_t add_checked(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}
int64_t mul_checked(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}
int64_t negated(int64_t a) { return mul_checked(a, -1); }
// b != 0, and not INT64_MIN / -1.
int64_t floordiv_int(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
int64_t mod_int(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

size_t mixed(size_t h, size_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

// Constants in this range are shared static nodes: no allocation, no reference count.
constexpr int64_t kSmallMin = -64;
constexpr int64_t kSmallMax = 4160;

bool is_identifier(std::string_view s) {
  if (s.empty() || !(std::isalpha(static_cast<unsigned char>(s[0])) || s[0] == '_')) return false;
  return std::all_of(s.begin(), s.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
}

bool is_keyword(std::string_view s) {
  return s == "floordiv" || s == "mod" || s == "and" || s == "or" || s == "not";
}

int compare(const Expr& a, const Expr& b);

int compare_lists(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (int c = compare(a[i], b[i])) return c;
  return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
}

int compare(const Expr& a, const Expr& b) {
  if (a.op() != b.op()) return a.op() < b.op() ? -1 : 1;
  switch (a.op()) {
    case ExprOp::constant: {
      const int64_t x = *a.constant();
      const int64_t y = *b.constant();
      return x < y ? -1 : x > y ? 1 : 0;
    }
    case ExprOp::symbol: {
      const int c = a.name().compare(b.name());
      return c < 0 ? -1 : c > 0 ? 1 : 0;
    }
    default:
      return &a.operands() == &b.operands() ? 0 : compare_lists(a.operands(), b.operands());
  }
}

// ---- Polynomials.

using Atoms = std::vector<Expr>;  // sorted, with repetition
struct Term {
  int64_t coefficient = 0;
  Atoms atoms;
};
using Poly =
    std::vector<Term>;  // sorted by `before`, no zero coefficient, no equal atoms; empty is 0

constexpr size_t kMaxTerms = 4096;

// A monomial order: higher degree first, then lexicographic. Multiplying both sides keeps it, which
// division needs.
bool before(const Term& a, const Term& b) {
  if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size();
  return compare_lists(a.atoms, b.atoms) < 0;
}

void canonicalize(Poly& p) {
  if (p.size() > kMaxTerms)
    fail(ErrorKind::unsupported, "a size or index expression of more than {} terms", kMaxTerms);
  std::sort(p.begin(), p.end(), before);
  size_t out = 0;
  for (size_t i = 0; i < p.size();) {
    Term t = std::move(p[i++]);
    while (i < p.size() && p[i].atoms == t.atoms)
      t.coefficient = add_checked(t.coefficient, p[i++].coefficient);
    if (t.coefficient != 0) p[out++] = std::move(t);
  }
  p.resize(out);
}

Term to_term(const Expr& e) {
  if (auto c = e.constant()) return {*c, {}};
  if (e.op() != ExprOp::mul) return {1, {e}};
  const std::vector<Expr>& operands = e.operands();
  if (auto c = operands[0].constant()) return {*c, {operands.begin() + 1, operands.end()}};
  return {1, operands};
}

void append_poly(Poly& p, const Expr& e) {
  if (e.op() == ExprOp::add)
    for (const Expr& term : e.operands()) p.push_back(to_term(term));
  else if (!e.is(0))
    p.push_back(to_term(e));
}

Poly to_poly(const Expr& e) {
  Poly p;
  append_poly(p, e);
  return p;
}

Term multiply(const Term& a, const Term& b) {
  Term t{mul_checked(a.coefficient, b.coefficient), {}};
  t.atoms.resize(a.atoms.size() + b.atoms.size());
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), t.atoms.begin());
  return t;
}

Poly multiply(const Poly& a, const Poly& b) {
  if (a.size() * b.size() > kMaxTerms)
    fail(ErrorKind::unsupported, "a size or index expression of more than {} terms", kMaxTerms);
  Poly p;
  for (const Term& x : a)
    for (const Term& y : b) p.push_back(multiply(x, y));
  canonicalize(p);
  return p;
}

// a - q*b
Poly subtract_multiple(Poly a, const Term& q, const Poly& b) {
  for (const Term& t : b) {
    a.push_back(multiply(q, t));
    a.back().coefficient = negated(a.back().coefficient);
  }
  canonicalize(a);
  return a;
}

// a / b if it is a monomial with an integer coefficient.
std::optional<Term> exact_quotient(const Term& a, const Term& b) {
  const bool flips = b.coefficient == -1;
  if (!flips && (b.coefficient == 0 || a.coefficient % b.coefficient != 0)) return std::nullopt;
  if (!std::includes(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end()))
    return std::nullopt;
  Term t{flips ? negated(a.coefficient) : a.coefficient / b.coefficient, {}};
  std::set_difference(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                      std::back_inserter(t.atoms));
  return t;
}

struct Division {
  Poly quotient, remainder;
};

// n = quotient*d + remainder, where no term of the remainder is a multiple of d's first term. By a
// number, the remainder's constant is in [0, d).
Division divide(Poly n, const Poly& d) {
  Division result;
  const Term& lead = d.front();
  const bool by_number = d.size() == 1 && lead.atoms.empty();
  for (int steps = 0; !n.empty(); ++steps) {
    if (steps > 10000) fail(ErrorKind::unsupported, "a quotient of sizes is too complex");
    Term t = n.front();
    if (auto q = exact_quotient(t, lead)) {
      result.quotient.push_back(*q);
      n = subtract_multiple(std::move(n), *q, d);
      continue;
    }
    n.erase(n.begin());
    if (by_number && t.atoms.empty()) {
      result.quotient.push_back({floordiv_int(t.coefficient, lead.coefficient), {}});
      t.coefficient = mod_int(t.coefficient, lead.coefficient);
    }
    if (t.coefficient != 0) result.remainder.push_back(std::move(t));
  }
  canonicalize(result.quotient);
  return result;
}

// The greatest monomial that divides every term of both, with a positive coefficient.
Term common_factor(const Poly& a, const Poly& b) {
  Term g;
  bool first = true;
  for (const Poly* p : {&a, &b}) {
    for (const Term& t : *p) {
      g.coefficient = std::gcd(g.coefficient, t.coefficient);
      if (first) {
        g.atoms = t.atoms;
        first = false;
      } else {
        Atoms both;
        std::set_intersection(g.atoms.begin(), g.atoms.end(), t.atoms.begin(), t.atoms.end(),
                              std::back_inserter(both));
        g.atoms = std::move(both);
      }
    }
  }
  return g;
}

Poly divided(const Poly& p, const Term& by) {
  Poly out;
  for (const Term& t : p) out.push_back(*exact_quotient(t, by));
  return out;  // dividing by a common monomial keeps the order
}

Poly negated(Poly p) {
  for (Term& t : p) t.coefficient = negated(t.coefficient);
  return p;
}

bool is_number(const Poly& p) { return p.empty() || (p.size() == 1 && p[0].atoms.empty()); }
int64_t number(const Poly& p) { return p.empty() ? 0 : p[0].coefficient; }
bool is_one(const Term& t) { return t.coefficient == 1 && t.atoms.empty(); }

bool is_boolean(const Expr& e) {
  switch (e.op()) {
    case ExprOp::constant:
      return e.is(0) || e.is(1);
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
    case ExprOp::and_:
    case ExprOp::or_:
    case ExprOp::not_:
      return true;
    case ExprOp::select:
      return is_boolean(e.operands()[1]) && is_boolean(e.operands()[2]);
    default:
      return false;
  }
}

}  // namespace

// Makes nodes that are canonical already; everything else goes through Expr::make.
struct ExprFactory {
  static Expr node(ExprOp op, std::vector<Expr> operands) {
    auto n = std::make_shared<Expr::Node>();
    n->op = op;
    n->hash = mixed(0x51ed, static_cast<size_t>(op));
    for (const Expr& e : operands) n->hash = mixed(n->hash, e.hash());
    n->operands = std::move(operands);
    return Expr(std::shared_ptr<const Expr::Node>(std::move(n)));
  }
  static Expr from(const Term& t) {
    if (t.atoms.empty()) return t.coefficient;
    if (t.coefficient == 1 && t.atoms.size() == 1) return t.atoms[0];
    std::vector<Expr> operands;
    operands.reserve(t.atoms.size() + 1);
    if (t.coefficient != 1) operands.emplace_back(t.coefficient);
    operands.insert(operands.end(), t.atoms.begin(), t.atoms.end());
    return node(ExprOp::mul, std::move(operands));
  }
  static Expr from(const Poly& p) {
    if (p.empty()) return 0;
    if (p.size() == 1) return from(p[0]);
    std::vector<Expr> operands;
    operands.reserve(p.size());
    for (const Term& t : p) operands.push_back(from(t));
    return node(ExprOp::add, std::move(operands));
  }
};

namespace {

Expr from(const Poly& p) { return ExprFactory::from(p); }

Expr make_floordiv(const Expr& a, const Expr& b);

Expr make_mod(const Expr& a, const Expr& b) {
  if (b.is(0)) return ExprFactory::node(ExprOp::mod, {a, b});
  if (a.is(0) || b.is(1) || b.is(-1) || a == b) return 0;
  Poly n = to_poly(a);
  Poly d = to_poly(b);
  if (d.front().coefficient < 0) return -make_mod(from(negated(n)), from(negated(d)));
  const bool by_number = is_number(d);
  // mod(k*mod(x, c*m) + r, c) = mod(k*x + r, c)
  if (by_number) {
    for (size_t i = 0; i < n.size(); ++i) {
      if (n[i].atoms.size() != 1 || n[i].atoms[0].op() != ExprOp::mod) continue;
      const Expr inner = n[i].atoms[0];
      const auto m = inner.operands()[1].constant();
      if (!m || *m == 0 || *m % number(d) != 0) continue;
      const Expr k = n[i].coefficient;
      n.erase(n.begin() + static_cast<ptrdiff_t>(i));
      return make_mod(from(n) + k * inner.operands()[0], b);
    }
  }
  Division q = divide(n, d);
  if (d.size() > 1 && !q.remainder.empty() && q.remainder.size() >= n.size()) q.remainder = n;
  Poly& r = q.remainder;
  if (is_number(r) && by_number) return number(r);
  if (r.empty()) return 0;
  if (by_number) {
    // mod(g*x + r, g*d) = g*mod(x, d) + r for 0 <= r < g; what exceeds g goes into x.
    const int64_t c = number(d);
    int64_t g = c;
    int64_t constant = 0;
    for (const Term& t : r) {
      if (t.atoms.empty())
        constant = t.coefficient;
      else
        g = std::gcd(g, t.coefficient);
    }
    if (g > 1) {
      if (constant != 0) r.pop_back();
      const Poly x = divided(r, {g, {}});
      return Expr(g) * make_mod(from(x) + Expr(constant / g), Expr(c / g)) + Expr(constant % g);
    }
    // mod(-x, c) = c - 1 - mod(x + c - 1, c): the first coefficient is positive.
    if (r[0].coefficient < 0) return Expr(c - 1) - make_mod(from(negated(r)) + Expr(c - 1), b);
  } else {
    const Term g = common_factor(r, d);
    if (!is_one(g))
      return ExprFactory::from(g) * make_mod(from(divided(r, g)), from(divided(d, g)));
  }
  return ExprFactory::node(ExprOp::mod, {from(r), from(d)});
}

Expr make_floordiv(const Expr& a, const Expr& b) {
  if (b.is(0)) return ExprFactory::node(ExprOp::floordiv, {a, b});
  if (a.is(0)) return 0;
  if (b.is(1)) return a;
  if (a == b) return 1;
  Poly n = to_poly(a);
  Poly d = to_poly(b);
  if (d.front().coefficient < 0) return make_floordiv(from(negated(n)), from(negated(d)));
  const bool by_number = is_number(d);
  Division q = divide(n, d);
  // With several terms in the divisor, a quotient pays only if it leaves less to divide.
  if (d.size() > 1 && !q.remainder.empty() && q.remainder.size() >= n.size()) q = {{}, n};
  const Expr whole = from(q.quotient);
  Poly& r = q.remainder;
  if (r.empty() || (by_number && is_number(r))) return whole;
  if (by_number) {
    const int64_t c = number(d);
    // (g*x + k) floordiv (g*d) = (x + k floordiv g) floordiv d
    int64_t g = c;
    for (const Term& t : r)
      if (!t.atoms.empty()) g = std::gcd(g, t.coefficient);
    if (g > 1) {
      int64_t constant = 0;
      if (r.back().atoms.empty()) {
        constant = r.back().coefficient;
        r.pop_back();
      }
      return whole + make_floordiv(from(divided(r, {g, {}})) + Expr(constant / g), Expr(c / g));
    }
    // (-x) floordiv c = -((x + c - 1) floordiv c): the first coefficient is positive.
    if (r[0].coefficient < 0) return whole - make_floordiv(from(negated(r)) + Expr(c - 1), b);
    // (x floordiv a + k) floordiv c = (x + k*a) floordiv (a*c)
    if (r.size() <= 2 && r[0].coefficient == 1 && r[0].atoms.size() == 1 &&
        r[0].atoms[0].op() == ExprOp::floordiv && (r.size() == 1 || r[1].atoms.empty())) {
      const Expr x = r[0].atoms[0].operands()[0];
      const Expr by = r[0].atoms[0].operands()[1];
      if (by.constant().value_or(0) > 0)
        return whole +
               make_floordiv(x + by * Expr(r.size() == 2 ? r[1].coefficient : 0), by * Expr(c));
    }
  } else {
    const Term g = common_factor(r, d);
    if (!is_one(g)) return whole + make_floordiv(from(divided(r, g)), from(divided(d, g)));
  }
  return whole + ExprFactory::node(ExprOp::floordiv, {from(r), from(d)});
}

// a <= 0 or a < 0, as `positive terms <= negative terms`.
Expr make_le(const Expr& a, const Expr& b, bool strict) {
  Poly d = to_poly(a - b);
  int64_t constant = 0;
  if (!d.empty() && d.back().atoms.empty()) {
    constant = d.back().coefficient;
    d.pop_back();
  }
  if (strict) constant = add_checked(constant, 1);
  if (d.empty()) return constant <= 0 ? 1 : 0;
  // g*x + constant <= 0 is x <= floor(-constant / g)
  int64_t g = 0;
  for (const Term& t : d) g = std::gcd(g, t.coefficient);
  if (g > 1) {
    d = divided(d, {g, {}});
    constant = -floordiv_int(negated(constant), g);
  }
  Poly left, right;
  for (Term& t : d) {
    const bool positive = t.coefficient > 0;
    if (!positive) t.coefficient = negated(t.coefficient);
    (positive ? left : right).push_back(std::move(t));
  }
  ExprOp op = ExprOp::le;
  if (constant == 1 && !left.empty()) {
    op = ExprOp::lt;
  } else if (constant > 0 && !right.empty()) {
    left.push_back({constant, {}});
  } else if (constant != 0) {
    right.push_back({negated(constant), {}});
  }
  return ExprFactory::node(op, {from(left), from(right)});
}

Expr make_eq(const Expr& a, const Expr& b, bool equal) {
  Poly d = to_poly(a - b);
  int64_t constant = 0;
  if (!d.empty() && d.back().atoms.empty()) {
    constant = d.back().coefficient;
    d.pop_back();
  }
  if (d.empty()) return (constant == 0) == equal ? 1 : 0;
  int64_t g = 0;
  for (const Term& t : d) g = std::gcd(g, t.coefficient);
  if (constant % g != 0) return equal ? 0 : 1;
  const int64_t by = d.front().coefficient < 0 ? -g : g;
  d = divided(d, {by, {}});
  constant = -(constant / by);
  Poly left, right;
  for (Term& t : d) {
    const bool positive = t.coefficient > 0;
    if (!positive) t.coefficient = negated(t.coefficient);
    (positive ? left : right).push_back(std::move(t));
  }
  if (constant < 0 && !right.empty())
    left.push_back({negated(constant), {}});
  else if (constant != 0)
    right.push_back({constant, {}});
  return ExprFactory::node(equal ? ExprOp::eq : ExprOp::ne, {from(left), from(right)});
}

Expr make_extremum(ExprOp op, std::vector<Expr> operands) {
  std::vector<Expr> flat;
  for (Expr& e : operands) {
    if (e.op() == op)
      flat.insert(flat.end(), e.operands().begin(), e.operands().end());
    else
      flat.push_back(std::move(e));
  }
  // Operands that differ by a number are ordered.
  std::vector<Expr> kept;
  for (Expr& e : flat) {
    bool absorbed = false;
    for (Expr& k : kept) {
      const auto difference = (e - k).constant();
      if (!difference) continue;
      if ((op == ExprOp::min) == (*difference < 0) && *difference != 0) k = e;
      absorbed = true;
      break;
    }
    if (!absorbed) kept.push_back(std::move(e));
  }
  std::sort(kept.begin(), kept.end());
  return kept.size() == 1 ? kept[0] : ExprFactory::node(op, std::move(kept));
}

Expr as_boolean(const Expr& e) { return is_boolean(e) ? e : make_eq(e, 0, false); }

Expr make_junction(ExprOp op, const std::vector<Expr>& operands) {
  const int64_t absorbing = op == ExprOp::and_ ? 0 : 1;
  std::vector<Expr> kept;
  for (const Expr& operand : operands) {
    const Expr e = as_boolean(operand);
    if (e.is(absorbing)) return absorbing;
    if (e.constant()) continue;
    if (e.op() == op)
      kept.insert(kept.end(), e.operands().begin(), e.operands().end());
    else
      kept.push_back(e);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  if (kept.empty()) return 1 - absorbing;
  return kept.size() == 1 ? kept[0] : ExprFactory::node(op, std::move(kept));
}

Expr make_not(const Expr& e) {
  if (auto c = e.constant()) return *c == 0 ? 1 : 0;
  switch (e.op()) {
    case ExprOp::eq:
      return make_eq(e.operands()[0], e.operands()[1], false);
    case ExprOp::ne:
      return make_eq(e.operands()[0], e.operands()[1], true);
    case ExprOp::lt:
      return make_le(e.operands()[1], e.operands()[0], false);
    case ExprOp::le:
      return make_le(e.operands()[1], e.operands()[0], true);
    case ExprOp::not_:
      return e.operands()[0];
    default:
      break;
  }
  if (!is_boolean(e)) return make_eq(e, 0, true);
  return ExprFactory::node(ExprOp::not_, {e});
}

}  // namespace

// ---- Expr.

Expr::Expr(int64_t value) {
  static const std::vector<Node> small = [] {
    std::vector<Node> nodes(static_cast<size_t>(kSmallMax - kSmallMin + 1));
    for (size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].value = kSmallMin + static_cast<int64_t>(i);
      nodes[i].hash = mixed(0xc057, static_cast<size_t>(nodes[i].value));
    }
    return nodes;
  }();
  if (value >= kSmallMin && value <= kSmallMax) {
    // Points at the static node without owning it.
    node_ = std::shared_ptr<const Node>(std::shared_ptr<const Node>(),
                                        &small[static_cast<size_t>(value - kSmallMin)]);
    return;
  }
  auto n = std::make_shared<Node>();
  n->value = value;
  n->hash = mixed(0xc057, static_cast<size_t>(value));
  node_ = std::move(n);
}

Expr Expr::symbol(std::string name) {
  check(is_identifier(name) && !is_keyword(name), "'{}' is not a symbol's name", name);
  auto n = std::make_shared<Node>();
  n->op = ExprOp::symbol;
  n->hash = mixed(0x5b01, std::hash<std::string>()(name));
  n->name = std::move(name);
  return Expr(std::shared_ptr<const Node>(std::move(n)));
}

Expr Expr::make(ExprOp op, std::vector<Expr> operands) {
  const size_t count = operands.size();
  switch (op) {
    case ExprOp::constant:
    case ExprOp::symbol:
      break;
    case ExprOp::add: {
      Poly p;
      for (const Expr& e : operands) append_poly(p, e);
      canonicalize(p);
      return from(p);
    }
    case ExprOp::mul: {
      if (operands.empty()) break;
      Expr result = operands[0];
      for (size_t i = 1; i < count; ++i) result = result * operands[i];
      return result;
    }
    case ExprOp::floordiv:
      if (count == 2) return floordiv(operands[0], operands[1]);
      break;
    case ExprOp::mod:
      if (count == 2) return nacre::mod(operands[0], operands[1]);
      break;
    case ExprOp::min:
    case ExprOp::max:
      if (count >= 1) return make_extremum(op, std::move(operands));
      break;
    case ExprOp::eq:
    case ExprOp::ne:
      if (count == 2) return make_eq(operands[0], operands[1], op == ExprOp::eq);
      break;
    case ExprOp::lt:
    case ExprOp::le:
      if (count == 2) return make_le(operands[0], operands[1], op == ExprOp::lt);
      break;
    case ExprOp::and_:
    case ExprOp::or_:
      if (count >= 1) return make_junction(op, operands);
      break;
    case ExprOp::not_:
      if (count == 1) return make_not(operands[0]);
      break;
    case ExprOp::select:
      if (count != 3) break;
      operands[0] = as_boolean(operands[0]);
      if (auto c = operands[0].constant()) return *c != 0 ? operands[1] : operands[2];
      if (operands[1] == operands[2]) return operands[1];
      if (operands[1].is(1) && operands[2].is(0)) return operands[0];
      return ExprFactory::node(op, std::move(operands));
  }
  fail(ErrorKind::internal, "expression operator {} with {} operands", static_cast<int>(op), count);
}

ExprOp Expr::op() const { return node_->op; }
const std::vector<Expr>& Expr::operands() const { return node_->operands; }
const std::string& Expr::name() const { return node_->name; }
std::optional<int64_t> Expr::constant() const {
  if (node_->op != ExprOp::constant) return std::nullopt;
  return node_->value;
}
size_t Expr::hash() const { return node_->hash; }

namespace {
void collect_symbols(const Expr& e, std::set<std::string>& out) {
  if (e.op() == ExprOp::symbol) out.insert(e.name());
  for (const Expr& o : e.operands()) collect_symbols(o, out);
}
}  // namespace

std::set<std::string> Expr::symbols() const {
  std::set<std::string> out;
  collect_symbols(*this, out);
  return out;
}

Expr Expr::substitute(const std::map<std::string, Expr>& values) const {
  if (op() == ExprOp::constant || values.empty()) return *this;
  if (op() == ExprOp::symbol) {
    auto found = values.find(name());
    return found == values.end() ? *this : found->second;
  }
  std::vector<Expr> replaced;
  replaced.reserve(operands().size());
  bool changed = false;
  for (const Expr& o : operands()) {
    replaced.push_back(o.substitute(values));
    changed |= replaced.back().node_ != o.node_;
  }
  return changed ? make(op(), std::move(replaced)) : *this;
}

std::optional<int64_t> Expr::evaluate(const std::map<std::string, int64_t>& values) const {
  const auto at = [&](size_t i) { return operands()[i].evaluate(values); };
  switch (op()) {
    case ExprOp::constant:
      return node_->value;
    case ExprOp::symbol: {
      auto found = values.find(name());
      check(found != values.end(), "no value for symbol {}", name());
      return found->second;
    }
    case ExprOp::add:
    case ExprOp::mul: {
      int64_t sum = op() == ExprOp::add ? 0 : 1;
      for (const Expr& o : operands()) {
        const auto v = o.evaluate(values);
        if (!v) return std::nullopt;
        const bool failed = op() == ExprOp::add ? __builtin_add_overflow(sum, *v, &sum)
                                                : __builtin_mul_overflow(sum, *v, &sum);
        if (failed) return std::nullopt;
      }
      return sum;
    }
    case ExprOp::min:
    case ExprOp::max: {
      std::optional<int64_t> best;
      for (const Expr& o : operands()) {
        const auto v = o.evaluate(values);
        if (!v) return std::nullopt;
        if (!best || (op() == ExprOp::min ? *v < *best : *v > *best)) best = v;
      }
      return best;
    }
    case ExprOp::and_:
    case ExprOp::or_: {
      const bool stop = op() == ExprOp::or_;
      for (const Expr& o : operands()) {
        const auto v = o.evaluate(values);
        if (!v) return std::nullopt;
        if ((*v != 0) == stop) return stop ? 1 : 0;
      }
      return stop ? 0 : 1;
    }
    case ExprOp::not_: {
      const auto v = at(0);
      if (!v) return std::nullopt;
      return *v == 0 ? 1 : 0;
    }
    case ExprOp::select: {
      const auto c = at(0);
      if (!c) return std::nullopt;
      return at(*c != 0 ? 1 : 2);
    }
    default:
      break;
  }
  const auto a = at(0);
  const auto b = at(1);
  if (!a || !b) return std::nullopt;
  switch (op()) {
    case ExprOp::floordiv:
      if (*b == 0 || (*b == -1 && *a == std::numeric_limits<int64_t>::min())) return std::nullopt;
      return floordiv_int(*a, *b);
    case ExprOp::mod:
      if (*b == 0) return std::nullopt;
      return mod_int(*a, *b);
    case ExprOp::eq:
      return *a == *b ? 1 : 0;
    case ExprOp::ne:
      return *a != *b ? 1 : 0;
    case ExprOp::lt:
      return *a < *b ? 1 : 0;
    case ExprOp::le:
      return *a <= *b ? 1 : 0;
    default:
      fail(ErrorKind::internal, "expression operator {}", static_cast<int>(op()));
  }
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return true;
  if (a.node_->hash != b.node_->hash) return false;
  return compare(a, b) == 0;
}
bool operator<(const Expr& a, const Expr& b) { return compare(a, b) < 0; }

Expr operator+(const Expr& a, const Expr& b) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y) return add_checked(*x, *y);
  if (x == 0) return b;
  if (y == 0) return a;
  Poly p;
  append_poly(p, a);
  append_poly(p, b);
  canonicalize(p);
  return from(p);
}
Expr operator-(const Expr& a) {
  if (auto x = a.constant()) return negated(*x);
  return from(negated(to_poly(a)));
}
Expr operator-(const Expr& a, const Expr& b) { return b.is(0) ? a : a + -b; }
Expr operator*(const Expr& a, const Expr& b) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y) return mul_checked(*x, *y);
  if (x == 1) return b;
  if (y == 1) return a;
  if (x == 0 || y == 0) return 0;
  return from(multiply(to_poly(a), to_poly(b)));
}
Expr floordiv(const Expr& a, const Expr& b) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y && *y != 0) return *y == -1 ? negated(*x) : floordiv_int(*x, *y);
  return make_floordiv(a, b);
}
Expr ceildiv(const Expr& a, const Expr& b) { return -floordiv(-a, b); }
Expr mod(const Expr& a, const Expr& b) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y && *y != 0) return mod_int(*x, *y);
  return make_mod(a, b);
}
Expr min(const Expr& a, const Expr& b) { return make_extremum(ExprOp::min, {a, b}); }
Expr max(const Expr& a, const Expr& b) { return make_extremum(ExprOp::max, {a, b}); }

Expr product(const std::vector<Expr>& factors) {
  Expr result = 1;
  for (const Expr& f : factors) result = result * f;
  return result;
}

// ---- Text.

namespace {

// How tightly an operator binds, for parentheses.
int precedence(const Expr& e) {
  switch (e.op()) {
    case ExprOp::or_:
      return 1;
    case ExprOp::and_:
      return 2;
    case ExprOp::not_:
      return 3;
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return 4;
    case ExprOp::add:
      return 5;
    case ExprOp::mul:
    case ExprOp::floordiv:
    case ExprOp::mod:
      return 6;
    case ExprOp::constant:
      return *e.constant() < 0 ? 5 : 7;
    default:
      return 7;
  }
}

void write(const Expr& e, std::string& out);

void write_in(const Expr& e, int at_least, std::string& out) {
  const bool parentheses = precedence(e) < at_least;
  if (parentheses) out += '(';
  write(e, out);
  if (parentheses) out += ')';
}

void write_list(const std::vector<Expr>& list, std::string_view separator, int at_least,
                std::string& out) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out += separator;
    write_in(list[i], at_least, out);
  }
}

void write_call(std::string_view name, const Expr& e, std::string& out) {
  out += name;
  out += '(';
  write_list(e.operands(), ", ", 0, out);
  out += ')';
}

void write_infix(std::string_view op, const Expr& e, int at_least, std::string& out) {
  write_in(e.operands()[0], at_least, out);
  out += op;
  write_in(e.operands()[1], at_least, out);
}

void write(const Expr& e, std::string& out) {
  switch (e.op()) {
    case ExprOp::constant:
      out += std::to_string(*e.constant());
      return;
    case ExprOp::symbol:
      out += e.name();
      return;
    case ExprOp::add:
      for (size_t i = 0; i < e.operands().size(); ++i) {
        std::string term;
        write_in(e.operands()[i], e.operands()[i].constant() ? 0 : 6, term);
        if (i == 0)
          out += term;
        else if (term[0] == '-')
          out.append(" - ").append(term, 1);
        else
          out.append(" + ").append(term);
      }
      return;
    case ExprOp::mul:
      if (e.operands()[0].is(-1)) {
        out += '-';
        write_list({e.operands().begin() + 1, e.operands().end()}, "*", 7, out);
      } else {
        if (e.operands()[0].constant()) {
          out += std::to_string(*e.operands()[0].constant()) + "*";
          write_list({e.operands().begin() + 1, e.operands().end()}, "*", 7, out);
        } else {
          write_list(e.operands(), "*", 7, out);
        }
      }
      return;
    case ExprOp::floordiv:
      write_infix(" floordiv ", e, 7, out);
      return;
    case ExprOp::mod:
      write_infix(" mod ", e, 7, out);
      return;
    case ExprOp::min:
      write_call("min", e, out);
      return;
    case ExprOp::max:
      write_call("max", e, out);
      return;
    case ExprOp::eq:
      write_infix(" == ", e, 5, out);
      return;
    case ExprOp::ne:
      write_infix(" != ", e, 5, out);
      return;
    case ExprOp::lt:
      write_infix(" < ", e, 5, out);
      return;
    case ExprOp::le:
      write_infix(" <= ", e, 5, out);
      return;
    case ExprOp::and_:
      write_list(e.operands(), " and ", 3, out);
      return;
    case ExprOp::or_:
      write_list(e.operands(), " or ", 2, out);
      return;
    case ExprOp::not_:
      out += "not ";
      write_in(e.operands()[0], 3, out);
      return;
    case ExprOp::select:
      write_call("select", e, out);
      return;
  }
}

}  // namespace

std::string Expr::str() const {
  std::string out;
  write(*this, out);
  return out;
}

namespace {

// Deeper nesting than this is refused, so that hostile text cannot exhaust the stack.
constexpr int kMaxDepth = 400;

// Characters, names and numbers; both grammars below read through it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  // Takes `token` if it is next; a word only as a whole.
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    const size_t end = at_ + token.size();
    if (is_identifier(token) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }
  bool next_is(std::string_view token) {
    const size_t before = at_;
    const bool found = take(token);
    at_ = before;
    return found;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse(fmt::format("expected '{}'", token));
  }
  bool next_is_digit() {
    skip_blanks();
    return at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) ||
                                  (text_[at_] == '.' && at_ + 1 < text_.size() &&
                                   std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))));
  }
  std::string_view word() {
    skip_blanks();
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_ || !is_identifier(text_.substr(at_, end - at_)))
      refuse("expected a number, a symbol or '('");
    const std::string_view w = text_.substr(at_, end - at_);
    at_ = end;
    return w;
  }
  int64_t integer(bool negative) {
    skip_blanks();
    const std::string digits =
        (negative ? "-" : "") + std::string(text_.substr(at_, digits_here()));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      refuse("a number that exceeds 64 bits");
    at_ += digits.size() - (negative ? 1 : 0);
    return value;
  }
  size_t digits_here() const {
    size_t n = 0;
    while (at_ + n < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_ + n]))) ++n;
    return n;
  }
  // What stands before the next `end`, which is skipped.
  std::string_view up_to(char end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) refuse(fmt::format("expected '{}'", end));
    const std::string_view before = text_.substr(at_, found - at_);
    at_ = found + 1;
    return before;
  }
  // The number's whole text if it has a fraction or an exponent, and skips it.
  std::string_view take_decimal() {
    skip_blanks();
    size_t end = at_ + digits_here();
    if (end >= text_.size() || (text_[end] != '.' && text_[end] != 'e')) return {};
    while (end < text_.size() &&
           (std::isdigit(static_cast<unsigned char>(text_[end])) || text_[end] == '.' ||
            text_[end] == 'e' ||
            ((text_[end] == '-' || text_[end] == '+') && text_[end - 1] == 'e')))
      ++end;
    const std::string_view number = text_.substr(at_, end - at_);
    at_ = end;
    return number;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::user, "expression '{}', column {}: {}", text_, at_ + 1, why);
  }
  struct Deeper {
    explicit Deeper(Scanner& s) : scanner(s) {
      if (++scanner.depth_ > kMaxDepth) scanner.refuse("nested too deeply");
    }
    ~Deeper() { --scanner.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Scanner& scanner;
  };

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  }
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

class ExprParser {
 public:
  explicit ExprParser(std::string_view text) : in_(text) {}

  Expr whole() {
    Expr e = junction();
    if (!in_.at_end()) in_.refuse("expected an operator or the end");
    return e;
  }

 private:
  Expr junction() {
    Scanner::Deeper deeper(in_);
    std::vector<Expr> either{conjunction()};
    while (in_.take("or")) either.push_back(conjunction());
    return either.size() == 1 ? either[0] : Expr::make(ExprOp::or_, either);
  }
  Expr conjunction() {
    std::vector<Expr> all{negation()};
    while (in_.take("and")) all.push_back(negation());
    return all.size() == 1 ? all[0] : Expr::make(ExprOp::and_, all);
  }
  Expr negation() {
    Scanner::Deeper deeper(in_);
    if (in_.take("not")) return Expr::make(ExprOp::not_, {negation()});
    const Expr a = sum();
    if (in_.take("==")) return Expr::make(ExprOp::eq, {a, sum()});
    if (in_.take("!=")) return Expr::make(ExprOp::ne, {a, sum()});
    if (in_.take("<=")) return Expr::make(ExprOp::le, {a, sum()});
    if (in_.take("<")) return Expr::make(ExprOp::lt, {a, sum()});
    if (in_.take(">=")) return Expr::make(ExprOp::le, {sum(), a});
    if (in_.take(">")) return Expr::make(ExprOp::lt, {sum(), a});
    return a;
  }
  Expr sum() {
    std::vector<Expr> terms{term()};
    for (;;) {
      if (in_.take("+"))
        terms.push_back(term());
      else if (in_.take("-"))
        terms.push_back(-term());
      else
        return terms.size() == 1 ? terms[0] : Expr::make(ExprOp::add, std::move(terms));
    }
  }
  Expr term() {
    Expr e = unary();
    for (;;) {
      if (in_.take("*"))
        e = e * unary();
      else if (in_.take("floordiv"))
        e = floordiv(e, unary());
      else if (in_.take("mod"))
        e = mod(e, unary());
      else
        return e;
    }
  }
  Expr unary() {
    Scanner::Deeper deeper(in_);
    if (in_.take("-")) return in_.next_is_digit() ? Expr(in_.integer(true)) : -unary();
    if (in_.next_is_digit()) return in_.integer(false);
    if (in_.take("(")) {
      Expr e = junction();
      in_.expect(")");
      return e;
    }
    const std::string_view name = in_.word();
    if (is_keyword(name)) in_.refuse(fmt::format("'{}' where a value belongs", name));
    if (!in_.take("(")) return Expr::symbol(std::string(name));
    std::vector<Expr> args{junction()};
    while (in_.take(",")) args.push_back(junction());
    in_.expect(")");
    if (name == "min") return Expr::make(ExprOp::min, args);
    if (name == "max") return Expr::make(ExprOp::max, args);
    if (name == "select" && args.size() == 3) return Expr::make(ExprOp::select, args);
    in_.refuse(fmt::format("no function {} of {} operands", name, args.size()));
  }

  Scanner in_;
};

// sympy's form. Rational numbers occur between a true division and the floor, ceiling or conversion
// around it, so every value is a quotient; what has a denominator left at the end is no integer.
class SympyParser {
 public:
  explicit SympyParser(std::string_view text) : text_(text), in_(text) {}

  Expr whole() {
    const Ratio r = disjunction();
    if (!in_.at_end()) in_.refuse("expected an operator or the end");
    return integer(r);
  }

 private:
  struct Ratio {
    Expr num;
    Expr den = 1;
  };
  using Args = std::vector<Ratio>;

  [[noreturn]] void unsupported(const std::string& what) {
    fail(ErrorKind::unsupported, "{} in the size expression '{}'", what, text_);
  }
  Expr integer(const Ratio& r) {
    if (r.den.is(1)) return r.num;
    if (mod(r.num, r.den).is(0)) return floordiv(r.num, r.den);
    unsupported("a quotient that is not known to be whole");
  }
  static Expr floor_of(const Ratio& r) { return floordiv(r.num, r.den); }
  static Expr ceiling_of(const Ratio& r) { return ceildiv(r.num, r.den); }
  static Expr truncated(const Ratio& r) {
    if (r.den.is(1)) return r.num;
    return Expr::make(ExprOp::select,
                      {Expr::make(ExprOp::le, {0, r.num * r.den}), floor_of(r), ceiling_of(r)});
  }
  static Ratio add(const Ratio& a, const Ratio& b, int64_t sign) {
    if (a.den == b.den) return {a.num + Expr(sign) * b.num, a.den};
    return {a.num * b.den + Expr(sign) * b.num * a.den, a.den * b.den};
  }
  static Ratio multiply(const Ratio& a, const Ratio& b) { return {a.num * b.num, a.den * b.den}; }
  static Ratio divide(const Ratio& a, const Ratio& b) { return {a.num * b.den, a.den * b.num}; }
  Ratio power(const Ratio& a, const Ratio& b) {
    const auto exponent = integer(b).constant();
    if (!exponent || std::abs(*exponent) > 64) unsupported("a power with that exponent");
    Ratio r{1, 1};
    for (int64_t i = 0; i < std::abs(*exponent); ++i) r = multiply(r, a);
    return *exponent < 0 ? Ratio{r.den, r.num} : r;
  }
  // Comparing quotients: both sides times the (positive, in every size) denominators.
  static Expr compare(ExprOp op, const Ratio& a, const Ratio& b) {
    return Expr::make(op, {a.num * b.den, b.num * a.den});
  }

  Ratio disjunction() {
    Scanner::Deeper deeper(in_);
    std::vector<Expr> either;
    Ratio first = conjunction();
    while (in_.take("|") || in_.take("or")) {
      if (either.empty()) either.push_back(first.num);
      either.push_back(conjunction().num);
    }
    return either.empty() ? first : Ratio{Expr::make(ExprOp::or_, either)};
  }
  Ratio conjunction() {
    std::vector<Expr> all;
    Ratio first = negation();
    while (in_.take("&") || in_.take("and")) {
      if (all.empty()) all.push_back(first.num);
      all.push_back(negation().num);
    }
    return all.empty() ? first : Ratio{Expr::make(ExprOp::and_, all)};
  }
  Ratio negation() {
    Scanner::Deeper deeper(in_);
    if (in_.take("~") || in_.take("not")) return {Expr::make(ExprOp::not_, {negation().num})};
    const Ratio a = sum();
    if (in_.take("==")) return {compare(ExprOp::eq, a, sum())};
    if (in_.take("!=")) return {compare(ExprOp::ne, a, sum())};
    if (in_.take("<=")) return {compare(ExprOp::le, a, sum())};
    if (in_.take("<")) return {compare(ExprOp::lt, a, sum())};
    if (in_.take(">=")) return {compare(ExprOp::le, sum(), a)};
    if (in_.take(">")) return {compare(ExprOp::lt, sum(), a)};
    return a;
  }
  Ratio sum() {
    Ratio r = term();
    for (;;) {
      if (in_.take("+"))
        r = add(r, term(), 1);
      else if (in_.take("-"))
        r = add(r, term(), -1);
      else
        return r;
    }
  }
  Ratio term() {
    Ratio r = unary();
    for (;;) {
      if (in_.next_is("**")) return r;
      if (in_.take("//"))
        r = {floor_of(divide(r, unary()))};
      else if (in_.take("*"))
        r = multiply(r, unary());
      else if (in_.take("/"))
        r = divide(r, unary());
      else if (in_.take("%"))
        r = {mod(integer(r), integer(unary()))};
      else
        return r;
    }
  }
  Ratio unary() {
    Scanner::Deeper deeper(in_);
    if (in_.take("-")) {
      Ratio r = unary();
      return {-r.num, r.den};
    }
    if (in_.take("+")) return unary();
    Ratio base = primary();
    return in_.take("**") ? power(base, unary()) : base;
  }
  Ratio primary() {
    if (in_.next_is_digit()) return literal();
    if (in_.take("(")) {
      Ratio r = disjunction();
      in_.expect(")");
      return r;
    }
    const std::string_view name = in_.word();
    if (!in_.take("(")) {
      if (name == "True" || name == "true") return {1};
      if (name == "False" || name == "false") return {0};
      if (name == "int_oo" || name == "oo") return {kUnbounded};
      if (is_keyword(name)) in_.refuse(fmt::format("'{}' where a value belongs", name));
      return {Expr::symbol(std::string(name))};
    }
    if (name == "Piecewise") return piecewise();
    if (name == "Symbol" || name == "Float") return quoted(name);
    Args args;
    if (!in_.take(")")) {
      do args.push_back(disjunction());
      while (in_.take(","));
      in_.expect(")");
    }
    return call(name, args);
  }
  // A decimal number is taken only if binary floating point holds it exactly and its denominator is
  // small: then the floating computation that it stands for is exact as well.
  Ratio literal() {
    const std::string_view decimal = in_.take_decimal();
    if (decimal.empty()) return {in_.integer(false)};
    return floating(decimal);
  }
  Ratio floating(std::string_view decimal) {
    double value = std::strtod(std::string(decimal).c_str(), nullptr);
    int64_t denominator = 1;
    while (denominator < (1 << 20) && value != std::floor(value)) {
      value *= 2;
      denominator *= 2;
    }
    if (value != std::floor(value) || value > 9e15)
      unsupported(fmt::format("the floating-point number {}", decimal));
    return {static_cast<int64_t>(value), denominator};
  }
  // Symbol('s0', positive=True, integer=True) and Float('2.0', precision=53) of sympy's constructor
  // form.
  Ratio quoted(std::string_view constructor) {
    in_.expect("'");
    const std::string_view text = in_.up_to('\'');
    in_.up_to(')');
    if (constructor == "Float") return floating(text);
    if (!is_identifier(text) || is_keyword(text))
      in_.refuse(fmt::format("'{}' is not a symbol's name", text));
    return {Expr::symbol(std::string(text))};
  }
  Ratio piecewise() {
    std::vector<std::pair<Expr, Expr>> cases;
    do {
      in_.expect("(");
      Expr value = integer(disjunction());
      in_.expect(",");
      Expr condition = integer(disjunction());
      in_.expect(")");
      cases.emplace_back(value, condition);
    } while (in_.take(","));
    in_.expect(")");
    if (!cases.back().second.is(1)) unsupported("a Piecewise without a last case");
    Expr result = cases.back().first;
    for (size_t i = cases.size() - 1; i-- > 0;)
      result = Expr::make(ExprOp::select, {cases[i].second, cases[i].first, result});
    return {result};
  }
  Ratio call(std::string_view name, const Args& args) {
    const auto is = [&](std::string_view n, size_t count) {
      return name == n && args.size() == count;
    };
    const auto all = [&] {
      std::vector<Expr> list;
      for (const Ratio& a : args) list.push_back(integer(a));
      return list;
    };
    if (is("FloorDiv", 2) || is("CleanDiv", 2)) return {floor_of(divide(args[0], args[1]))};
    if (is("CeilDiv", 2)) return {ceiling_of(divide(args[0], args[1]))};
    if (is("Mod", 2) || is("PythonMod", 2)) return {mod(integer(args[0]), integer(args[1]))};
    if (is("ModularIndexing", 3))
      return {mod(floor_of(divide(args[0], args[1])), integer(args[2]))};
    if (is("IntTrueDiv", 2) || is("FloatTrueDiv", 2)) return divide(args[0], args[1]);
    if (is("floor", 1) || is("FloorToInt", 1)) return {floor_of(args[0])};
    if (is("ceiling", 1) || is("CeilToInt", 1)) return {ceiling_of(args[0])};
    if (is("TruncToInt", 1) || is("TruncToFloat", 1)) return {truncated(args[0])};
    if (is("ToFloat", 1) || is("Identity", 1)) return args[0];
    if (is("PowByNatural", 2) || is("FloatPow", 2) || is("Pow", 2)) return power(args[0], args[1]);
    if (is("LShift", 2)) return multiply(args[0], power({2, 1}, args[1]));
    if (is("RShift", 2)) return {floor_of(divide(args[0], power({2, 1}, args[1])))};
    if (is("Abs", 1)) return {max(integer(args[0]), -integer(args[0]))};
    if (is("Where", 3)) return {Expr::make(ExprOp::select, all())};
    if (is("Integer", 1)) return args[0];
    if (is("Rational", 2)) return divide(args[0], args[1]);
    if (is("Eq", 2) || is("Equality", 2)) return {compare(ExprOp::eq, args[0], args[1])};
    if (is("Ne", 2) || is("Unequality", 2)) return {compare(ExprOp::ne, args[0], args[1])};
    if (is("Lt", 2) || is("StrictLessThan", 2)) return {compare(ExprOp::lt, args[0], args[1])};
    if (is("Le", 2) || is("LessThan", 2)) return {compare(ExprOp::le, args[0], args[1])};
    if (is("Gt", 2) || is("StrictGreaterThan", 2)) return {compare(ExprOp::lt, args[1], args[0])};
    if (is("Ge", 2) || is("GreaterThan", 2)) return {compare(ExprOp::le, args[1], args[0])};
    if (is("Not", 1)) return {Expr::make(ExprOp::not_, all())};
    if (!args.empty()) {
      if (name == "Add") {
        Ratio sum = args[0];
        for (size_t i = 1; i < args.size(); ++i) sum = add(sum, args[i], 1);
        return sum;
      }
      if (name == "Mul") {
        Ratio product = args[0];
        for (size_t i = 1; i < args.size(); ++i) product = multiply(product, args[i]);
        return product;
      }
      if (name == "Max") return {Expr::make(ExprOp::max, all())};
      if (name == "Min") return {Expr::make(ExprOp::min, all())};
      if (name == "And") return {Expr::make(ExprOp::and_, all())};
      if (name == "Or") return {Expr::make(ExprOp::or_, all())};
    }
    unsupported(fmt::format("the function {} of {} operands", name, args.size()));
  }

  std::string_view text_;
  Scanner in_;
};

}  // namespace

Expr parse_expr(std::string_view text) { return ExprParser(text).whole(); }
Expr parse_sympy(std::string_view text) { return SympyParser(text).whole(); }

}  // namespace nacre
