#include "compiler/codegen/cpp.h"

#include <fmt/format.h>

#include "compiler/support/error.h"

namespace nacre {

namespace {

std::string text(const Expr& e, const Facts& facts, bool wide) {
  if (auto number = e.constant()) return std::to_string(*number);
  const auto& operands = e.operands();
  auto joined = [&](const char* op) {
    std::string all = "(";
    for (size_t i = 0; i < operands.size(); ++i) all += (i ? op : "") + text(operands[i], facts, wide);
    return all + ")";
  };
  auto folded = [&](const char* function) {
    std::string all = text(operands[0], facts, wide);
    for (size_t i = 1; i < operands.size(); ++i) all = fmt::format("{}({}, {})", function, all, text(operands[i], facts, wide));
    return all;
  };
  auto division = [&](const char* op, const char* function) {
    const std::string a = text(operands[0], facts, wide), b = text(operands[1], facts, wide);
    if (interval(operands[0], facts).min >= 0 && interval(operands[1], facts).min > 0)
      return fmt::format("({} {} {})", a, op, b);
    return fmt::format("{}({}, {})", function, a, b);
  };
  switch (e.op()) {
    case ExprOp::constant: break;
    case ExprOp::symbol: return wide ? "i64(" + e.name() + ")" : e.name();
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
    case ExprOp::not_: return "!" + text(operands[0], facts, wide);
    case ExprOp::select:
      return fmt::format("({} ? {} : {})", text(operands[0], facts, wide), text(operands[1], facts, wide), text(operands[2], facts, wide));
  }
  fail(Error::Kind::internal, "an expression of unknown kind");
}

}  // namespace

std::string cpp(const Expr& e, const Facts& facts) { return text(e, facts, false); }
std::string cpp_value(const Expr& e, const Facts& facts) { return text(e, facts, true); }

}  // namespace nacre
