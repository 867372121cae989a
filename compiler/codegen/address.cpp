#include "compiler/codegen/address.h"

#include <fmt/format.h>

#include "compiler/support/error.h"

namespace nacre {

std::vector<Expr> strides_of(const Buffer& buffer) {
  const size_t rank = buffer.shape.size();
  std::vector<Expr> strides(rank, Expr(1));
  Expr step = 1;
  for (size_t i = rank; i-- > 0;) {
    const size_t dim = buffer.order.empty() ? i : static_cast<size_t>(buffer.order[i]);
    strides[dim] = step;
    step = step * buffer.shape[dim];
  }
  return strides;
}

Expr elements_of(const Buffer& buffer) { return product(buffer.shape); }

Expr address(const Buffer& buffer, const std::vector<Expr>& at, const Facts& facts) {
  check(at.size() == buffer.shape.size(), "buffer {} has {} dims and is indexed with {}", buffer.name,
        buffer.shape.size(), at.size());
  const std::vector<Expr> strides = strides_of(buffer);
  Expr sum = 0;
  for (size_t i = 0; i < at.size(); ++i) sum = sum + at[i] * strides[i];
  return simplify(sum, facts);
}

std::optional<Expr> coefficient(const Expr& e, const std::string& var, const Facts& facts) {
  if (!e.symbols().contains(var)) return Expr(0);
  const Expr step = simplify(e.substitute({{var, Expr::symbol(var) + 1}}) - e, facts);
  if (step.symbols().contains(var)) return std::nullopt;
  return step;
}

Expr without(const Expr& e, const std::string& var, const Facts& facts) {
  return simplify(e.substitute({{var, Expr(0)}}), facts);
}

int64_t typical(const Expr& e, const Facts& symbols) {
  std::map<std::string, int64_t> values;
  for (const std::string& name : e.symbols()) {
    auto known = symbols.find(name);
    int64_t value = 0;
    if (known != symbols.end() && !known->second.below) {
      const SymbolFacts& f = known->second;
      value = f.hint > 0 ? f.hint : std::max<int64_t>(f.range.min, std::min<int64_t>(f.range.max, 16));
    }
    values[name] = value;
  }
  return e.evaluate(values).value_or(0);
}

std::string cpp(const Expr& e, const Facts& facts) {
  if (auto number = e.constant()) return std::to_string(*number);
  const auto& operands = e.operands();
  auto joined = [&](const char* op) {
    std::string text = "(";
    for (size_t i = 0; i < operands.size(); ++i) text += (i ? op : "") + cpp(operands[i], facts);
    return text + ")";
  };
  auto folded = [&](const char* function) {
    std::string text = cpp(operands[0], facts);
    for (size_t i = 1; i < operands.size(); ++i) text = fmt::format("{}({}, {})", function, text, cpp(operands[i], facts));
    return text;
  };
  auto division = [&](const char* op, const char* function) {
    const std::string a = cpp(operands[0], facts), b = cpp(operands[1], facts);
    if (interval(operands[0], facts).min >= 0 && interval(operands[1], facts).min > 0)
      return fmt::format("({} {} {})", a, op, b);
    return fmt::format("{}({}, {})", function, a, b);
  };
  switch (e.op()) {
    case ExprOp::constant: break;
    case ExprOp::symbol: return e.name();
    case ExprOp::add: return joined(" + ");
    case ExprOp::mul: return joined(" * ");
    case ExprOp::floordiv: return division("/", "floordiv");
    case ExprOp::mod: return division("%", "floormod");
    case ExprOp::min: return folded("imin");
    case ExprOp::max: return folded("imax");
    case ExprOp::eq: return joined(" == ");
    case ExprOp::ne: return joined(" != ");
    case ExprOp::lt: return joined(" < ");
    case ExprOp::le: return joined(" <= ");
    case ExprOp::and_: return joined(" && ");
    case ExprOp::or_: return joined(" || ");
    case ExprOp::not_: return "!" + cpp(operands[0], facts);
    case ExprOp::select:
      return fmt::format("({} ? {} : {})", cpp(operands[0], facts), cpp(operands[1], facts), cpp(operands[2], facts));
  }
  fail(Error::Kind::internal, "an expression of unknown kind");
}

}  // namespace nacre
