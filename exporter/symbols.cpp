#include "exporter/symbols.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "compiler/support/error.h"
#include "exporter/sympy.h"

namespace nacre {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Sizes are named s0, s1, ..., numbers that depend on data u0, u1, ...
SymbolFacts default_facts(const std::string& name) {
  SymbolFacts facts;
  if (name[0] == 'u' || name[0] == 'z') facts.range.min = -kUnbounded;
  return facts;
}

// A float: an integer that is made of it is no expression here.
bool has_float(const Expr& e) {
  const std::set<std::string> symbols = e.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with("zuf"); });
}

}  // namespace

void SymbolTable::read_ranges(const nlohmann::json& ranges) {
  for (const auto& [name, range] : ranges.items()) {
    if (!is_name(name)) continue;
    SymbolFacts known = default_facts(name);
    const auto& min = range.at("min_val");
    const auto& max = range.at("max_val");
    if (min.is_number_integer()) known.range.min = min.get<int64_t>();
    // export takes sizes for 2 or more unless told otherwise, and its own program does not insist on it.
    if (name[0] == 's' && known.range.min == 2) known.range.min = 0;
    if (max.is_number_integer()) known.range.max = max.get<int64_t>();
    if (known.range.min > known.range.max)
      fail(ErrorKind::user, "symbol {} has an empty range", name);
    facts[name] = known;
  }
  // `8*s0` of at least 8: what s0 itself is said to be of at least 2 hides.
  for (const auto& [name, range] : ranges.items()) {
    const size_t star = name.find('*');
    int64_t factor = 0;
    if (star == std::string::npos || std::from_chars(name.data(), name.data() + star, factor).ptr != name.data() + star || factor < 1) continue;
    const auto known = facts.find(name.substr(star + 1));
    const auto& min = range.at("min_val");
    if (known == facts.end() || !min.is_number_integer()) continue;
    int64_t& least = known->second.range.min;
    const int64_t whole = std::max<int64_t>(min.get<int64_t>(), 0);
    least = std::max(least, whole / factor + (whole % factor != 0));
    if (least > known->second.range.max) fail(ErrorKind::user, "symbol {} has an empty range", known->first);
  }
}

Expr SymbolTable::integer(const nlohmann::json& sym_int) {
  if (auto value = sym_int.find("as_int"); value != sym_int.end())
    return Expr(value->get<int64_t>());
  const nlohmann::json& e = sym_int.at("as_expr");
  std::string text = e.at("expr_str").get<std::string>();
  auto found = parsed_.find(text);
  if (found == parsed_.end()) {
    std::vector<Expr> limits;
    auto expression = parse_srepr(text, &limits);
    if (!expression || has_float(*expression)) {
      std::string name = "opaque" + std::to_string(opaque.size());
      opaque.insert(name);
      facts[name] = SymbolFacts{};
      if (text.find("zuf") != std::string::npos) facts[name].range.min = -kUnbounded;
      expression = Expr::symbol(name);
      limits.clear();
    }
    for (const std::string& s : expression->symbols())
      if (facts.count(s) == 0) facts[s] = default_facts(s);
    for (const Expr& limit : limits) assume(limit);
    found = parsed_.emplace(std::move(text), simplify(*expression, facts)).first;
  }
  const Expr& result = found->second;
  if (result.op() == ExprOp::symbol) {
    auto hint = e.find("hint");
    if (hint != e.end() && hint->is_object() && hint->contains("as_int"))
      facts[result.name()].hint = hint->at("as_int").get<int64_t>();
  }
  return canonical(result);
}

std::optional<Expr> SymbolTable::boolean(const nlohmann::json& sym_bool) {
  if (auto value = sym_bool.find("as_bool"); value != sym_bool.end())
    return Expr(value->get<bool>() ? 1 : 0);
  auto e = parse_srepr(sym_bool.at("as_expr").at("expr_str").get<std::string>(), nullptr);
  if (!e || has_float(*e)) return std::nullopt;
  for (const std::string& s : e->symbols())
    if (facts.count(s) == 0) facts[s] = default_facts(s);
  return canonical(*e);
}

bool SymbolTable::proves(const Expr& condition, const Facts& known) const {
  return simplify(condition, known).is(1);
}

void SymbolTable::assume(const Expr& condition) {
  Expr c = canonical(condition);
  if (c.is(1)) return;
  if (c.op() == ExprOp::and_) {
    for (const Expr& part : c.operands()) assume(part);
    return;
  }
  const auto& operands = c.operands();
  auto symbol = [](const Expr& e) { return e.op() == ExprOp::symbol; };
  if (c.op() == ExprOp::le && operands.size() == 2) {
    if (symbol(operands[0]) && operands[1].constant()) {
      Interval& range = facts[operands[0].name()].range;
      range.max = std::min(range.max, *operands[1].constant());
      return;
    }
    if (symbol(operands[1]) && operands[0].constant()) {
      Interval& range = facts[operands[1].name()].range;
      range.min = std::max(range.min, *operands[0].constant());
      return;
    }
  }
  if (c.op() == ExprOp::lt && operands.size() == 2) {
    if (symbol(operands[0]) && operands[1].constant())
      return assume(Expr::make(ExprOp::le, {operands[0], operands[1] - Expr(1)}));
    if (symbol(operands[1]) && operands[0].constant())
      return assume(Expr::make(ExprOp::le, {operands[0] + Expr(1), operands[1]}));
  }
  if (c.op() == ExprOp::eq && operands.size() == 2) {
    for (int side = 0; side < 2; ++side) {
      const Expr& a = operands[static_cast<size_t>(side)];
      const Expr& b = operands[static_cast<size_t>(1 - side)];
      if (a.op() == ExprOp::mod && b.is(0) && symbol(a.operands()[0]) &&
          a.operands()[1].constant().value_or(0) > 0) {
        int64_t& multiple = facts[a.operands()[0].name()].multiple;
        multiple = std::lcm(multiple, *a.operands()[1].constant());
        return;
      }
      if (symbol(a) && !b.constant() && !symbol(b) && b.symbols().count(a.name()) == 0 &&
          equal_.count(b) == 0) {
        equal_.emplace(b, a);
        break;
      }
    }
  }
  if (std::find(assumptions.begin(), assumptions.end(), c) == assumptions.end())
    assumptions.push_back(c);
}

Expr SymbolTable::replaced(const Expr& e) const {
  auto found = equal_.find(e);
  if (found != equal_.end()) return found->second;
  if (e.operands().empty()) return e;
  std::vector<Expr> operands;
  bool changed = false;
  for (const Expr& operand : e.operands()) {
    operands.push_back(replaced(operand));
    changed |= operands.back() != operand;
  }
  return changed ? Expr::make(e.op(), std::move(operands)) : e;
}

Expr SymbolTable::canonical(const Expr& e) const {
  Expr simple = simplify(e, facts);
  return equal_.empty() ? simple : simplify(replaced(simple), facts);
}

}  // namespace nacre
