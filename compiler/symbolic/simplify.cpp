// Three layers. Intervals and divisibility are computed bottom up. Proofs of `d >= 0` bound d from
// below by replacing one atom after another by its limits, which may be expressions (`j < n`),
// until an interval decides. The rules ask for proofs.
#include "compiler/symbolic/simplify.h"

#include <algorithm>
#include <numeric>

#include "compiler/support/error.h"
#include "compiler/symbolic/simplify_rules.h"

namespace nacre {
namespace {

using Wide = __int128;

// ---- Intervals.

int64_t saturated(Wide v) {
  if (v >= kUnbounded) return kUnbounded;
  if (v <= -kUnbounded) return -kUnbounded;
  return static_cast<int64_t>(v);
}

bool is_infinite(int64_t v) { return v == kUnbounded || v == -kUnbounded; }

int64_t floordiv_int(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

// One limit of a sum: an infinite summand decides.
int64_t add_limits(int64_t a, int64_t b) {
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return b;
  return saturated(Wide{a} + b);
}

int64_t multiply_limits(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (is_infinite(a) || is_infinite(b)) return (a < 0) == (b < 0) ? kUnbounded : -kUnbounded;
  return saturated(Wide{a} * b);
}

Interval multiply(Interval a, Interval b) {
  const auto [min, max] =
      std::minmax({multiply_limits(a.min, b.min), multiply_limits(a.min, b.max),
                   multiply_limits(a.max, b.min), multiply_limits(a.max, b.max)});
  return {min, max};
}

// floor(a / b) for b >= 1.
int64_t divide_limits(int64_t a, int64_t b) {
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return a < 0 ? -1 : 0;
  return floordiv_int(a, b);
}

Interval hull(Interval a, Interval b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

// Larger limits stand for "none" in exported programs, and their products would leave 64 bits.
constexpr int64_t kMaxLimit = int64_t{1} << 40;

constexpr int kMaxBelowDepth = 8;  // a bound that is a symbol with a bound that is ...

Interval interval_of(const Expr& e, const Facts& facts, int depth);

Interval interval_of_symbol(const std::string& name, const Facts& facts, int depth) {
  const auto found = facts.find(name);
  if (found == facts.end()) return {};
  const SymbolFacts& f = found->second;
  Interval r = f.range;
  if (f.below && depth < kMaxBelowDepth) {
    const int64_t end = interval_of(*f.below, facts, depth + 1).max;
    if (!is_infinite(end)) r.max = std::min(r.max, end - 1);
  }
  if (f.multiple > 1) {
    if (!is_infinite(r.min)) r.min = -floordiv_int(-r.min, f.multiple) * f.multiple;
    if (!is_infinite(r.max)) r.max = floordiv_int(r.max, f.multiple) * f.multiple;
  }
  return r;
}

Interval interval_of(const Expr& e, const Facts& facts, int depth) {
  const auto at = [&](size_t i) { return interval_of(e.operands()[i], facts, depth); };
  switch (e.op()) {
    case ExprOp::constant:
      return {*e.constant(), *e.constant()};
    case ExprOp::symbol:
      return interval_of_symbol(e.name(), facts, depth);
    case ExprOp::add: {
      Interval sum{0, 0};
      for (size_t i = 0; i < e.operands().size(); ++i) {
        const Interval term = at(i);
        sum = {add_limits(sum.min, term.min), add_limits(sum.max, term.max)};
      }
      return sum;
    }
    case ExprOp::mul: {
      Interval result = at(0);
      for (size_t i = 1; i < e.operands().size(); ++i) {
        const Interval factor = at(i);
        // A square is not negative.
        if (e.operands()[i] == e.operands()[i - 1] && factor.min < 0 && i == 1) {
          const int64_t most = std::max(multiply_limits(factor.min, factor.min),
                                        multiply_limits(factor.max, factor.max));
          result = {0, most};
          continue;
        }
        result = multiply(result, factor);
      }
      return result;
    }
    case ExprOp::floordiv: {
      const Interval n = at(0);
      const Interval d = at(1);
      if (d.min < 1) return {};
      return {std::min(divide_limits(n.min, d.min), divide_limits(n.min, d.max)),
              std::max(divide_limits(n.max, d.min), divide_limits(n.max, d.max))};
    }
    case ExprOp::mod: {
      const Interval n = at(0);
      const Interval d = at(1);
      if (d.min < 1) return {};
      if (n.min >= 0 && n.max < d.min) return n;
      const int64_t most = is_infinite(d.max) ? kUnbounded : d.max - 1;
      return {0, n.min >= 0 ? std::min(n.max, most) : most};
    }
    case ExprOp::min:
    case ExprOp::max: {
      Interval r = at(0);
      for (size_t i = 1; i < e.operands().size(); ++i) {
        const Interval o = at(i);
        r = e.op() == ExprOp::min ? Interval{std::min(r.min, o.min), std::min(r.max, o.max)}
                                  : Interval{std::max(r.min, o.min), std::max(r.max, o.max)};
      }
      return r;
    }
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
    case ExprOp::and_:
    case ExprOp::or_:
    case ExprOp::not_:
      return {0, 1};
    case ExprOp::select:
      return hull(at(1), at(2));
  }
  return {};
}

Interval range_of(const Expr& e, const Facts& facts) { return interval_of(e, facts, 0); }

// ---- Divisibility: the greatest known common divisor of e and `of`.

int64_t known_divisor(const Expr& e, int64_t of, const Facts& facts) {
  if (of == 1) return 1;
  switch (e.op()) {
    case ExprOp::constant:
      return std::gcd(*e.constant(), of);
    case ExprOp::symbol: {
      const auto found = facts.find(e.name());
      return found == facts.end() ? 1 : std::gcd(found->second.multiple, of);
    }
    case ExprOp::mul: {
      int64_t known = 1;
      for (const Expr& o : e.operands()) {
        const int64_t left = of / known;
        known *= known_divisor(o, left, facts);
      }
      return known;
    }
    case ExprOp::floordiv: {
      const int64_t by = e.operands()[1].constant().value_or(0);
      if (by <= 0 || of > kUnbounded / by) return 1;
      const int64_t known = known_divisor(e.operands()[0], of * by, facts);
      return known % by == 0 ? known / by : 1;
    }
    case ExprOp::add:
    case ExprOp::mod:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::select: {
      int64_t known = of;
      for (size_t i = e.op() == ExprOp::select ? 1 : 0; i < e.operands().size(); ++i)
        known = std::gcd(known, known_divisor(e.operands()[i], of, facts));
      return known;
    }
    default:
      return 1;
  }
}

// ---- Terms of a sum.

struct Term {
  int64_t coefficient = 1;
  std::vector<Expr> atoms;
};

Term term_of(const Expr& e) {
  if (auto c = e.constant()) return {*c, {}};
  if (e.op() != ExprOp::mul) return {1, {e}};
  Term t;
  for (const Expr& o : e.operands()) {
    if (auto c = o.constant())
      t.coefficient = *c;
    else
      t.atoms.push_back(o);
  }
  return t;
}

std::vector<Expr> terms_of(const Expr& e) {
  if (e.op() == ExprOp::add) return e.operands();
  return {e};
}

Expr sum_of(const std::vector<Expr>& terms) {
  return terms.empty() ? Expr(0) : Expr::make(ExprOp::add, terms);
}

Expr without(const Term& t, size_t atom) {
  Expr rest = t.coefficient;
  for (size_t i = 0; i < t.atoms.size(); ++i)
    if (i != atom) rest = rest * t.atoms[i];
  return rest;
}

size_t size_of(const Expr& e) {
  size_t n = 1;
  for (const Expr& o : e.operands()) n += size_of(o);
  return n;
}

bool contains(const Expr& e, const Expr& part) {
  if (e == part) return true;
  return std::any_of(e.operands().begin(), e.operands().end(),
                     [&](const Expr& o) { return contains(o, part); });
}

// ---- Proofs.

class Prover {
 public:
  explicit Prover(const Facts& facts) : facts_(facts) {}

  bool nonnegative(const Expr& d, int depth = 12) {
    if (auto c = d.constant()) return *c >= 0;
    if (range_of(d, facts_).min >= 0) return true;
    if (depth == 0 || --budget_ < 0) return false;
    const std::vector<Expr> terms = terms_of(d);
    // Composite atoms first: what they are replaced by may cancel against symbols. Then loop
    // variables whose bound is an expression; a plain symbol last, since its least value forgets
    // how it relates to the others.
    for (const int order : {0, 1, 2, 3}) {
      for (const Expr& term : terms) {
        for (const Expr& atom : term_of(term).atoms)
          if (auto result = replace(atom, terms, order, depth)) return *result;
      }
    }
    return false;
  }

 private:
  // The sum of `terms` is factor*atom + rest; whether it is >= 0 follows from the atom's limits.
  // Nothing if d is not of that form or the atom has no limit on the side that matters.
  std::optional<bool> replace(const Expr& atom, const std::vector<Expr>& terms, int order,
                              int depth) {
    const bool composite = atom.op() != ExprOp::symbol;
    if (composite != (order == 0)) return std::nullopt;
    const auto known = composite ? facts_.end() : facts_.find(atom.name());
    const bool bounded = known != facts_.end() && known->second.below;
    if (!composite && bounded != (order < 3)) return std::nullopt;
    std::vector<Expr> factors, rests;
    for (const Expr& term : terms) {
      const Term t = term_of(term);
      const auto found = std::find(t.atoms.begin(), t.atoms.end(), atom);
      if (found == t.atoms.end()) {
        if (atom.op() == ExprOp::symbol && contains(term, atom)) return std::nullopt;
        rests.push_back(term);
        continue;
      }
      const Expr factor = without(t, static_cast<size_t>(found - t.atoms.begin()));
      if (contains(factor, atom)) return std::nullopt;
      factors.push_back(factor);
    }
    const Expr factor = sum_of(factors);
    const Expr rest = sum_of(rests);
    const Interval sign = range_of(factor, facts_);
    if (sign.min < 0 && sign.max > 0) return std::nullopt;
    const bool rising = sign.min >= 0;  // the least d is at the least atom
    if (bounded && rising != (order == 2)) return std::nullopt;
    bool tried = false;
    const auto try_limit = [&](const Expr& limit) {
      tried = true;
      return nonnegative(factor * limit + rest, depth - 1);
    };
    const std::vector<Expr>& operands = atom.operands();
    switch (atom.op()) {
      case ExprOp::symbol:
        if (bounded && !rising && try_limit(*known->second.below - Expr(1))) return true;
        break;
      case ExprOp::floordiv: {
        const Expr& n = operands[0];
        const Expr& c = operands[1];
        if (range_of(c, facts_).min < 1) break;
        // n - c + 1 <= c*atom <= n
        const Expr scaled = rising ? n - c + Expr(1) : n;
        if (mod(factor, c).is(0)) {
          tried = true;
          if (nonnegative(floordiv(factor, c) * scaled + rest, depth - 1)) return true;
        } else if (c.constant() && factor.constant()) {
          // d >= 0 if c*d > -c
          tried = true;
          if (nonnegative(factor * scaled + c * rest + c - Expr(1), depth - 1)) return true;
        }
        if (!rising && range_of(n, facts_).min >= 0 && try_limit(n)) return true;
        break;
      }
      case ExprOp::mod:
        if (range_of(operands[1], facts_).min < 1) break;
        if (rising) {
          if (try_limit(0)) return true;
        } else {
          if (try_limit(operands[1] - Expr(1))) return true;
          if (range_of(operands[0], facts_).min >= 0 && try_limit(operands[0])) return true;
        }
        break;
      case ExprOp::min:
      case ExprOp::max: {
        // Between the operands, one is enough on the side where the atom is at least as tight as
        // each of them.
        if ((atom.op() == ExprOp::min) == rising) {
          if (std::all_of(operands.begin(), operands.end(), try_limit)) return true;
        } else if (std::any_of(operands.begin(), operands.end(), try_limit)) {
          return true;
        }
        break;
      }
      case ExprOp::select:
        if (try_limit(operands[1]) && try_limit(operands[2])) return true;
        break;
      default:
        break;
    }
    const Interval limits = range_of(atom, facts_);
    const int64_t limit = rising ? limits.min : limits.max;
    if (std::abs(limit) <= kMaxLimit && try_limit(limit)) return true;
    if (!tried) return std::nullopt;
    return false;
  }

  const Facts& facts_;
  int budget_ = 96;
};

bool nonnegative(const Expr& d, const Facts& facts) { return Prover(facts).nonnegative(d); }
bool positive(const Expr& d, const Facts& facts) { return nonnegative(d - Expr(1), facts); }

// 0 <= r < end
bool in_range(const Expr& r, const Expr& end, const Facts& facts) {
  return nonnegative(r, facts) && positive(end - r, facts);
}

// k with k*c <= n < (k+1)*c, for c > 0.
std::optional<int64_t> constant_quotient(const Expr& n, const Expr& c, const Facts& facts) {
  if (auto by = c.constant()) {
    const Interval r = range_of(n, facts);
    if (!is_infinite(r.min) && !is_infinite(r.max) &&
        floordiv_int(r.min, *by) == floordiv_int(r.max, *by))
      return floordiv_int(r.min, *by);
  }
  if (in_range(n, c, facts)) return 0;
  if (in_range(n + c, c, facts)) return -1;
  return std::nullopt;
}

struct Split {
  Expr whole;  // the multiples of `by`, divided by it
  Expr small;  // 0 <= small < by
  Expr by;     // divides the divisor
};

// The numerator of a floordiv or mod as by*whole + small, for a `by` that is a common factor of the
// divisor and a term.
std::optional<Split> split_small_terms(const Expr& n, const Expr& divisor, const Facts& facts) {
  if (divisor.op() == ExprOp::add || n.op() != ExprOp::add) return std::nullopt;
  const Term d = term_of(divisor);
  std::vector<Expr> tried;
  for (const Expr& term : n.operands()) {
    const Term t = term_of(term);
    if (t.atoms.empty()) continue;
    Expr by = std::gcd(t.coefficient, d.coefficient);
    std::vector<Expr> common;
    std::set_intersection(t.atoms.begin(), t.atoms.end(), d.atoms.begin(), d.atoms.end(),
                          std::back_inserter(common));
    by = by * product(common);
    if (by.is(1) || std::find(tried.begin(), tried.end(), by) != tried.end()) continue;
    tried.push_back(by);
    if (range_of(by, facts).min < 1) continue;
    std::vector<Expr> whole, small;
    for (const Expr& other : n.operands()) (mod(other, by).is(0) ? whole : small).push_back(other);
    if (small.empty() || whole.empty()) continue;
    const Expr rest = sum_of(small);
    if (in_range(rest, by, facts)) return Split{floordiv(sum_of(whole), by), rest, by};
  }
  return std::nullopt;
}

// The terms of n that are multiples of c, and the others.
std::pair<Expr, Expr> split_multiples(const Expr& n, int64_t c, const Facts& facts) {
  std::vector<Expr> multiples, others;
  for (const Expr& term : terms_of(n))
    (known_divisor(term, c, facts) == c ? multiples : others).push_back(term);
  return {sum_of(multiples), sum_of(others)};
}

std::optional<Expr> if_simpler(Expr candidate, const Expr& than) {
  if (size_of(candidate) < size_of(than)) return candidate;
  return std::nullopt;
}

}  // namespace

// ---- The rules, in the order of simplify_rules.h.

std::optional<Expr> symbol_with_one_value(const Expr& e, const Facts& facts) {
  const Interval r = range_of(e, facts);
  if (r.min == r.max && !is_infinite(r.min)) return Expr(r.min);
  return std::nullopt;
}

std::optional<Expr> sum_with_quotient_and_remainder(const Expr& e, const Facts& facts) {
  for (const Expr& term : terms_of(e)) {
    const Term t = term_of(term);
    for (size_t i = 0; i < t.atoms.size(); ++i) {
      const Expr& atom = t.atoms[i];
      if (atom.op() == ExprOp::floordiv) {
        const Expr& x = atom.operands()[0];
        const auto c = atom.operands()[1].constant();
        if (!c || *c <= 0 || t.coefficient % *c != 0 || known_divisor(x, *c, facts) != *c) continue;
        return e - term + floordiv(without(t, i), *c) * x;
      }
      if (atom.op() != ExprOp::mod) continue;
      const Expr& x = atom.operands()[0];
      const Expr& c = atom.operands()[1];
      const Expr factor = without(t, i);
      const Expr quotient = floordiv(x, c);
      // Only where a term vanishes: 392*(x floordiv 7) + 7*(x mod 7) keeps its digits apart, whose
      // ranges tell more.
      if (auto simpler = if_simpler(e - term + factor * (x - c * quotient), e);
          simpler && terms_of(*simpler).size() < terms_of(e).size())
        return simpler;
      // The next digit of the same index.
      for (const Expr& other : terms_of(e)) {
        for (const Expr& digit : term_of(other).atoms) {
          if (digit.op() != ExprOp::mod || digit.operands()[0] != quotient) continue;
          if (range_of(c, facts).min < 1 || range_of(digit.operands()[1], facts).min < 1) continue;
          const Expr both = mod(x, c * digit.operands()[1]);
          if (auto simpler = if_simpler(e - term - factor * c * digit + factor * both, e))
            return simpler;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<Expr> floordiv_in_one_step(const Expr& e, const Facts& facts) {
  const Expr& c = e.operands()[1];
  if (range_of(c, facts).min < 1) return std::nullopt;
  if (auto k = constant_quotient(e.operands()[0], c, facts)) return Expr(*k);
  return std::nullopt;
}

std::optional<Expr> floordiv_small_terms(const Expr& e, const Facts& facts) {
  const Expr& c = e.operands()[1];
  if (range_of(c, facts).min < 1) return std::nullopt;
  if (auto s = split_small_terms(e.operands()[0], c, facts))
    return floordiv(s->whole, floordiv(c, s->by));
  return std::nullopt;
}

std::optional<Expr> floordiv_known_multiples(const Expr& e, const Facts& facts) {
  const Expr c = e.operands()[1];
  if (c.constant().value_or(0) <= 0) return std::nullopt;
  const auto [multiples, others] = split_multiples(e.operands()[0], *c.constant(), facts);
  if (multiples.is(0) || others.is(0)) return std::nullopt;
  if (auto k = constant_quotient(others, c, facts)) return floordiv(multiples, c) + Expr(*k);
  return std::nullopt;
}

std::optional<Expr> floordiv_nested(const Expr& e, const Facts& facts) {
  const Expr& n = e.operands()[0];
  const Expr& c = e.operands()[1];
  if (n.op() != ExprOp::floordiv || range_of(c, facts).min < 1) return std::nullopt;
  return floordiv(n.operands()[0], n.operands()[1] * c);
}

std::optional<Expr> floordiv_of_mod(const Expr& e, const Facts& facts) {
  const Expr& n = e.operands()[0];
  const Expr& c = e.operands()[1];
  if (n.op() != ExprOp::mod || range_of(c, facts).min < 1) return std::nullopt;
  const Expr& modulus = n.operands()[1];
  if (range_of(modulus, facts).min < 1 || !mod(modulus, c).is(0)) return std::nullopt;
  return mod(floordiv(n.operands()[0], c), floordiv(modulus, c));
}

std::optional<Expr> mod_in_one_step(const Expr& e, const Facts& facts) {
  const Expr& c = e.operands()[1];
  if (range_of(c, facts).min < 1) return std::nullopt;
  if (auto k = constant_quotient(e.operands()[0], c, facts)) return e.operands()[0] - Expr(*k) * c;
  return std::nullopt;
}

std::optional<Expr> mod_small_terms(const Expr& e, const Facts& facts) {
  const Expr& c = e.operands()[1];
  if (range_of(c, facts).min < 1) return std::nullopt;
  if (auto s = split_small_terms(e.operands()[0], c, facts))
    return s->by * mod(s->whole, floordiv(c, s->by)) + s->small;
  return std::nullopt;
}

std::optional<Expr> mod_known_multiples(const Expr& e, const Facts& facts) {
  const Expr c = e.operands()[1];
  if (c.constant().value_or(0) <= 0) return std::nullopt;
  const auto [multiples, others] = split_multiples(e.operands()[0], *c.constant(), facts);
  if (multiples.is(0)) return std::nullopt;
  return mod(others, c);
}

std::optional<Expr> mod_nested(const Expr& e, const Facts& facts) {
  const Expr& c = e.operands()[1];
  if (range_of(c, facts).min < 1) return std::nullopt;
  for (const Expr& term : terms_of(e.operands()[0])) {
    const Term t = term_of(term);
    for (size_t i = 0; i < t.atoms.size(); ++i) {
      const Expr& inner = t.atoms[i];
      if (inner.op() != ExprOp::mod || !mod(inner.operands()[1], c).is(0)) continue;
      return mod(e.operands()[0] - term + without(t, i) * inner.operands()[0], c);
    }
  }
  return std::nullopt;
}

std::optional<Expr> extremum_ordered(const Expr& e, const Facts& facts) {
  const std::vector<Expr>& operands = e.operands();
  const bool least = e.op() == ExprOp::min;
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t j = 0; j < operands.size(); ++j) {
      if (i == j) continue;
      const Expr difference = least ? operands[j] - operands[i] : operands[i] - operands[j];
      if (!nonnegative(difference, facts)) continue;
      std::vector<Expr> kept = operands;  // i is enough, j goes
      kept.erase(kept.begin() + static_cast<ptrdiff_t>(j));
      return Expr::make(e.op(), kept);
    }
  }
  return std::nullopt;
}

std::optional<Expr> comparison_decided(const Expr& e, const Facts& facts) {
  const Expr d = e.operands()[1] - e.operands()[0];
  switch (e.op()) {
    case ExprOp::le:
      if (nonnegative(d, facts)) return Expr(1);
      if (positive(-d, facts)) return Expr(0);
      return std::nullopt;
    case ExprOp::lt:
      if (positive(d, facts)) return Expr(1);
      if (nonnegative(-d, facts)) return Expr(0);
      return std::nullopt;
    default:
      if (positive(d, facts) || positive(-d, facts)) return Expr(e.op() == ExprOp::ne ? 1 : 0);
      return std::nullopt;
  }
}

// ---- What simplify.h declares.

Interval interval(const Expr& e, const Facts& facts) { return range_of(e, facts); }

bool is_multiple(const Expr& e, int64_t of, const Facts& facts) {
  check(of > 0, "divisibility by {}", of);
  return known_divisor(e, of, facts) == of || simplify(mod(e, of), facts).is(0);
}

bool proves_le(const Expr& a, const Expr& b, const Facts& facts) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y) return *x <= *y;
  const Expr d = b - a;
  return nonnegative(d, facts) || nonnegative(simplify(d, facts), facts);
}
bool proves_lt(const Expr& a, const Expr& b, const Facts& facts) {
  return proves_le(a + Expr(1), b, facts);
}
bool proves_eq(const Expr& a, const Expr& b, const Facts& facts) {
  return a == b || simplify(a - b, facts).is(0);
}

namespace {

Expr simplified(const Expr& e, const Facts& facts, int depth) {
  if (e.op() == ExprOp::constant) return e;
  if (depth == 0) return e;
  Expr current = e;
  if (e.op() != ExprOp::symbol) {
    std::vector<Expr> operands;
    operands.reserve(e.operands().size());
    bool changed = false;
    for (const Expr& o : e.operands()) {
      operands.push_back(simplified(o, facts, depth));
      changed |= !(operands.back() == o);
    }
    if (changed) {
      current = Expr::make(e.op(), std::move(operands));
      return simplified(current, facts, depth - 1);
    }
  }
  RuleFunction* last = nullptr;  // several lines of the table may show one function
  for (const Rule& rule : kSimplifyRules) {
    if (rule.op != current.op() || rule.apply == last) continue;
    last = rule.apply;
    if (auto better = rule.apply(current, facts)) {
      if (*better == current) continue;
      return simplified(*better, facts, depth - 1);
    }
  }
  return current;
}

}  // namespace

Expr simplify(const Expr& e, const Facts& facts) {
  constexpr int kMaxRewrites = 64;
  return simplified(e, facts, kMaxRewrites);
}

}  // namespace nacre
