#include "compiler/symbolic/limits.h"

#include <algorithm>

namespace nacre {

namespace {

constexpr int kMaxDepth = 8;  // a bound that is a symbol with a bound that is ...

class Limits {
 public:
  Limits(const std::set<std::string>& unknown, const Facts& facts) : unknown_(unknown), facts_(facts) {}

  std::optional<Expr> limit(const Expr& e, bool upper) {
    if (is_known(e)) return e;
    const Interval range = interval(e, facts_);
    if (auto found = by_parts(e, upper)) return simplify(*found, facts_);
    const int64_t end = upper ? range.max : range.min;
    if (end == kUnbounded || end == -kUnbounded) return std::nullopt;
    return Expr(end);
  }

 private:
  bool is_known(const Expr& e) const {
    if (e.constant()) return true;
    const std::set<std::string> symbols = e.symbols();
    return std::none_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return unknown_.contains(s); });
  }

  // Of every operand, in one direction.
  std::optional<std::vector<Expr>> limits(const std::vector<Expr>& operands, bool upper) {
    std::vector<Expr> result;
    for (const Expr& o : operands) {
      auto l = limit(o, upper);
      if (!l) return std::nullopt;
      result.push_back(*l);
    }
    return result;
  }

  std::optional<Expr> by_parts(const Expr& e, bool upper) {
    const std::vector<Expr>& operands = e.operands();
    switch (e.op()) {
      case ExprOp::symbol:
        return of_symbol(e.name(), upper);
      case ExprOp::add:
      case ExprOp::min:
      case ExprOp::max: {
        auto parts = limits(operands, upper);
        return parts ? std::optional(Expr::make(e.op(), *parts)) : std::nullopt;
      }
      case ExprOp::mul:
        return of_product(operands, upper);
      case ExprOp::floordiv: {
        // Rises with the dividend, and, where that is not negative, falls with the divisor.
        if (interval(operands[1], facts_).min < 1) return std::nullopt;
        auto dividend = limit(operands[0], upper);
        if (!dividend) return std::nullopt;
        if (is_known(operands[1])) return floordiv(*dividend, operands[1]);
        if (interval(operands[0], facts_).min < 0) return std::nullopt;
        auto divisor = limit(operands[1], !upper);
        if (!divisor || interval(*divisor, facts_).min < 1) return std::nullopt;
        return floordiv(*dividend, *divisor);
      }
      case ExprOp::mod: {
        if (interval(operands[1], facts_).min < 1) return std::nullopt;
        if (!upper) return Expr(0);
        auto divisor = limit(operands[1], true);
        return divisor ? std::optional(*divisor - 1) : std::nullopt;
      }
      case ExprOp::select: {
        auto parts = limits({operands[1], operands[2]}, upper);
        return parts ? std::optional(Expr::make(upper ? ExprOp::max : ExprOp::min, *parts)) : std::nullopt;
      }
      default:
        return std::nullopt;  // truth values have constant limits
    }
  }

  std::optional<Expr> of_symbol(const std::string& name, bool upper) {
    auto found = facts_.find(name);
    if (found == facts_.end()) return std::nullopt;
    const SymbolFacts& f = found->second;
    std::optional<Expr> result;
    const int64_t end = upper ? f.range.max : f.range.min;
    if (end != kUnbounded && end != -kUnbounded) result = Expr(end);
    if (upper && f.below && depth_ < kMaxDepth) {
      ++depth_;
      if (auto below = limit(*f.below - 1, true)) {
        // Ends such as 2^63 - 2 say nothing.
        const bool says = result && end < (int64_t{1} << 40);
        result = says ? min(*result, *below) : *below;
      }
      --depth_;
    }
    return result;
  }

  std::optional<Expr> of_product(const std::vector<Expr>& factors, bool upper) {
    // A negative constant turns the direction; otherwise no factor may be negative.
    std::vector<Expr> rest;
    Expr constant = 1;
    for (const Expr& f : factors) {
      if (f.constant())
        constant = f;
      else
        rest.push_back(f);
    }
    if (constant.constant().value_or(0) < 0) upper = !upper;
    Expr result = constant;
    for (const Expr& f : rest) {
      if (rest.size() > 1 && interval(f, facts_).min < 0) return std::nullopt;
      auto l = limit(f, upper);
      if (!l) return std::nullopt;
      result = result * (rest.size() > 1 ? max(*l, Expr(0)) : *l);
    }
    return result;
  }

  const std::set<std::string>& unknown_;
  const Facts& facts_;
  int depth_ = 0;
};

}  // namespace

std::optional<Expr> upper_limit(const Expr& e, const std::set<std::string>& unknown, const Facts& facts) {
  return Limits(unknown, facts).limit(e, true);
}

std::optional<Expr> lower_limit(const Expr& e, const std::set<std::string>& unknown, const Facts& facts) {
  return Limits(unknown, facts).limit(e, false);
}

}  // namespace nacre
