#include "compiler/codegen/cpp.h"

#include <fmt/format.h>

#include "compiler/support/error.h"

namespace nacre {

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
