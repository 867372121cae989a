// The canonical form is a polynomial with integer coefficients over atoms: symbols and the
// operators that do not distribute (floordiv, mod, min, max, comparisons, select). A polynomial is
// kept sorted by degree, then by its atoms, so that the constant is last. floordiv and mod divide
// polynomials, which takes every multiple of the divisor out of them.
#include "compiler/symbolic/expr.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/hash.h"

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

// Constants in this range are shared static nodes: no allocation, no reference count.
constexpr int64_t kSmallMin = -64;
constexpr int64_t kSmallMax = 4160;

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
    n->hash = hash_combine(0x51ed, static_cast<size_t>(op));
    for (const Expr& e : operands) n->hash = hash_combine(n->hash, e.hash());
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
      nodes[i].hash = hash_combine(0xc057, static_cast<size_t>(nodes[i].value));
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
  n->hash = hash_combine(0xc057, static_cast<size_t>(value));
  node_ = std::move(n);
}

Expr Expr::symbol(std::string name) {
  check(is_symbol_name(name), "'{}' is not a symbol's name", name);
  auto n = std::make_shared<Node>();
  n->op = ExprOp::symbol;
  n->hash = hash_combine(0x5b01, std::hash<std::string>()(name));
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

std::optional<Expr> exact_quotient(const Expr& b, const Expr& a) {
  if (a == b) return Expr(1);
  if (a.is(0)) return std::nullopt;
  Expr q = floordiv(b, a);
  if (q * a == b) return q;
  return std::nullopt;
}

Expr product(const std::vector<Expr>& factors) {
  Expr result = 1;
  for (const Expr& f : factors) result = result * f;
  return result;
}

}  // namespace nacre
