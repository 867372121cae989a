#include "compiler/fusion/index_map.h"

#include <algorithm>
#include <set>

namespace nacre {
namespace {

// `coefficient` * ((variable floordiv divisor) mod radix)
struct Digit {
  Expr coefficient, divisor, radix;
  std::string variable;
  Expr value;  // in terms of the element
};

class Inverter {
 public:
  Inverter(const std::vector<LoopVar>& loops, Simplifier& simplify) : simplify_(simplify) {
    for (const LoopVar& loop : loops) extents_.emplace(loop.name, loop.extent);
  }

  bool varies(const Expr& e) const {
    if (e.constant()) return false;
    if (e.op() == ExprOp::symbol) return extents_.contains(e.name());
    return std::any_of(e.operands().begin(), e.operands().end(), [&](const Expr& o) { return varies(o); });
  }

  std::optional<Digit> atom(const Expr& e) const {
    Digit d;
    d.coefficient = 1;
    d.divisor = 1;
    std::optional<Expr> radix;
    Expr inner = e;
    if (inner.op() == ExprOp::mod) {
      radix = inner.operands()[1];
      if (varies(*radix)) return std::nullopt;
      inner = Expr(inner.operands()[0]);
    }
    if (inner.op() == ExprOp::floordiv) {
      d.divisor = inner.operands()[1];
      if (varies(d.divisor)) return std::nullopt;
      inner = Expr(inner.operands()[0]);
    }
    if (inner.op() != ExprOp::symbol || !extents_.contains(inner.name())) return std::nullopt;
    d.variable = inner.name();
    if (radix) {
      d.radix = *radix;
      return d;
    }
    auto rest = exact_quotient(extents_.at(d.variable), d.divisor);
    if (!rest) return std::nullopt;
    d.radix = *rest;
    return d;
  }

  std::optional<Digit> term(const Expr& e) const {
    if (e.op() != ExprOp::mul) return atom(e);
    Expr coefficient = 1;
    std::optional<Digit> digit;
    for (const Expr& factor : e.operands()) {
      if (!varies(factor)) {
        coefficient = coefficient * factor;
        continue;
      }
      if (digit) return std::nullopt;
      digit = atom(factor);
      if (!digit) return std::nullopt;
    }
    if (digit) digit->coefficient = coefficient;
    return digit;
  }

  // (core + shift) mod size, where core covers the dim: a roll.
  std::optional<std::pair<Expr, Expr>> rolled(const Expr& at, const Expr& size) const {
    if (at.op() != ExprOp::mod || at.operands()[1] != size || at.operands()[0].op() != ExprOp::add) return std::nullopt;
    Expr core = 0, shift = 0;
    for (const Expr& t : at.operands()[0].operands()) (varies(t) ? core : shift) += t;
    if (shift.is(0)) return std::nullopt;
    return std::pair{core, shift};
  }

  // The digits of one dim, from its lowest on, each with its value.
  bool take_dim(const Expr& at, const Expr& size, const Expr& element) {
    if (!varies(at)) return at.is(0) && size.is(1);
    if (auto roll = rolled(at, size)) return take_dim(roll->first, size, mod(element + size - roll->second, size));
    std::vector<Digit> digits;
    if (at.op() == ExprOp::add) {
      for (const Expr& t : at.operands()) {
        auto d = term(t);
        if (!d) return false;
        digits.push_back(std::move(*d));
      }
    } else {
      auto d = term(at);
      if (!d) return false;
      digits.push_back(std::move(*d));
    }
    Expr place = 1;
    while (!digits.empty()) {
      auto next = std::find_if(digits.begin(), digits.end(), [&](const Digit& d) { return d.coefficient == place; });
      if (next == digits.end()) return false;
      Digit d = std::move(*next);
      digits.erase(next);
      Expr value = floordiv(element, place);
      if (!digits.empty()) value = mod(value, d.radix);
      d.value = simplify_(value);
      place = place * d.radix;
      by_variable_[d.variable].push_back(std::move(d));
    }
    return place == size;
  }

  std::optional<std::map<std::string, Expr>> values() {
    std::map<std::string, Expr> result;
    for (const auto& [name, extent] : extents_) {
      Expr place = 1, value = 0;
      std::vector<Digit> digits = by_variable_[name];
      while (!digits.empty()) {
        auto next = std::find_if(digits.begin(), digits.end(), [&](const Digit& d) { return d.divisor == place; });
        if (next == digits.end()) return std::nullopt;
        value = value + place * next->value;
        place = place * next->radix;
        digits.erase(next);
      }
      if (place != extent) return std::nullopt;
      result[name] = simplify_(value);
    }
    return result;
  }

 private:
  Simplifier& simplify_;
  std::map<std::string, Expr> extents_;
  std::map<std::string, std::vector<Digit>> by_variable_;
};

}  // namespace

std::optional<std::map<std::string, Expr>> inverse(const std::vector<Expr>& at, const std::vector<LoopVar>& loops,
                                                   const std::vector<Expr>& shape, const std::vector<Expr>& element,
                                                   Simplifier& simplify) {
  Inverter inverter(loops, simplify);
  for (size_t d = 0; d < at.size(); ++d)
    if (!inverter.take_dim(at[d], shape[d], element[d])) return std::nullopt;
  return inverter.values();
}

bool is_permutation(const std::vector<Expr>& at, const std::vector<LoopVar>& loops, const std::vector<Expr>& shape) {
  std::set<std::string> used;
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d].is(0) && shape[d].is(1)) continue;
    if (at[d].op() != ExprOp::symbol || !used.insert(at[d].name()).second) return false;
    auto loop = std::find_if(loops.begin(), loops.end(), [&](const LoopVar& l) { return l.name == at[d].name(); });
    if (loop == loops.end() || loop->extent != shape[d]) return false;
  }
  return std::all_of(loops.begin(), loops.end(),
                     [&](const LoopVar& l) { return used.contains(l.name) || l.extent.is(1); });
}

}  // namespace nacre
