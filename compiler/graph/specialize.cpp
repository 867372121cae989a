#include "compiler/graph/specialize.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "compiler/support/error.h"
#include "compiler/symbolic/affine.h"

namespace nacre {

namespace {

class RequestParser {
 public:
  explicit RequestParser(const std::string& text) : text_(text) {}

  VariantRequest parse() {
    VariantRequest request;
    request.name = text_;
    skip();
    if (const size_t slash = text_.find('/'); slash < text_.find(':')) {
      request.entry = word(true);
      if (!take("/")) refuse("'/' after the entry's name");
    }
    while (at_ < text_.size()) {
      request.inputs.push_back(input());
      if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ';') refuse("',' between inputs");
      if (at_ < text_.size()) ++at_;
      skip();
    }
    if (request.inputs.empty()) refuse("an input");
    return request;
  }

 private:
  [[noreturn]] void refuse(const std::string& wanted) const {
    fail(ErrorKind::user, "'{}' is no variant: expected {} at column {} (write 'x: [1, 3, 224, 224]', or 'x: [2..32, 3, H, 8*W], n: 5')", text_, wanted, at_ + 1);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    skip();
    return true;
  }
  static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  std::string word(bool dotted) {
    const size_t first = at_;
    while (at_ < text_.size() && in_word(text_[at_]) && (dotted || text_[at_] != '.')) ++at_;
    if (at_ == first) refuse("a name");
    const std::string result = text_.substr(first, at_ - first);
    skip();
    return result;
  }
  std::optional<int64_t> number() {
    if (at_ >= text_.size() || !digit(text_[at_])) return std::nullopt;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) refuse("a smaller number");
    at_ = static_cast<size_t>(end - text_.data());
    skip();
    return value;
  }
  int64_t need_number() {
    auto n = number();
    if (!n) refuse("a number");
    return *n;
  }

  DimRequest dim() {
    DimRequest d;
    const auto first = number();
    if (!first && (take("_") || take("*"))) return d;
    if (!first && at_ < text_.size() && text_[at_] != '.') {
      d.name = word(false);
      return d;
    }
    if (first && take("*")) {
      if (*first < 1) refuse("a factor from 1 on");
      d.multiple = *first;
      d.name = word(false);
      return d;
    }
    if (first) d.min = d.max = *first;
    if (take("..")) d.max = number().value_or(kUnbounded);
    if (!first && d.max == kUnbounded) refuse("a size");
    if (d.min > d.max) refuse("a range that is not empty");
    if (take("by ")) d.multiple = need_number();
    if (d.multiple < 1) refuse("a multiple from 1 on");
    return d;
  }

  InputRequest input() {
    InputRequest result;
    result.input = word(true);
    if (!take(":")) refuse("':' after the input's name");
    if (take("[")) {
      while (!take("]")) {
        if (!result.dims.empty() && !take(",")) refuse("',' or ']'");
        result.dims.push_back(dim());
      }
      result.channels_last = take("channels_last");
    } else {
      result.dims = {dim()};
      result.scalar = true;
    }
    return result;
  }

  const std::string& text_;
  size_t at_ = 0;
};

int64_t up_to(int64_t n, int64_t multiple) { return n + ((multiple - n % multiple) % multiple); }

// The range of a symbol ends at multiples, and the hint lies in it. False: nothing is left.
bool settle(SymbolFacts& facts) {
  if (facts.range.min > -kUnbounded) facts.range.min = up_to(facts.range.min, facts.multiple);
  if (facts.range.max != kUnbounded) facts.range.max -= (facts.range.max % facts.multiple + facts.multiple) % facts.multiple;
  if (facts.range.min > facts.range.max) return false;
  if (facts.hint) {
    facts.hint = std::clamp(facts.hint, facts.range.min, facts.range.max);
    facts.hint -= facts.hint % facts.multiple;
  }
  return true;
}

double volume_of(const Narrowing& narrowing) {
  double volume = 0;
  for (const auto& [name, facts] : narrowing.symbols) {
    if (narrowing.values.contains(name)) continue;
    const double room = facts.range.max == kUnbounded ? 1e18 : static_cast<double>(facts.range.max) - static_cast<double>(facts.range.min) + 1;
    volume += std::log2(std::max(1.0, room / static_cast<double>(facts.multiple)));
  }
  // A layout or a condition narrows, too: less than any range does.
  return volume - 0.001 * static_cast<double>(narrowing.channels_last.size() + narrowing.conditions.size());
}

class Narrower {
 public:
  Narrower(const Graph& graph, const VariantRequest& request) : graph_(graph), request_(request) { result_.symbols = graph.symbols; }

  Narrowing run() {
    std::vector<const GraphInput*> users;
    for (const GraphInput& input : graph_.inputs)
      if (input.kind == InputKind::user) users.push_back(&input);
    for (const InputRequest& wanted : request_.inputs) {
      const size_t position = find(users, wanted.input);
      const Value& value = graph_[users[position]->value];
      if (wanted.scalar) {
        if (value.kind != ValueKind::integer) refuse("input '{}' is no integer: write its sizes in brackets", wanted.input);
        add(value.expr, wanted.dims[0], fmt::format("input '{}'", wanted.input));
        continue;
      }
      if (value.kind != ValueKind::tensor) refuse("input '{}' is a number: write its value without brackets", wanted.input);
      if (wanted.dims.size() != value.shape.size())
        refuse("input '{}' has {} dimensions, not {}", wanted.input, value.shape.size(), wanted.dims.size());
      if (wanted.channels_last) {
        if (value.shape.size() < 3) refuse("input '{}' has no channels that could lie last", wanted.input);
        result_.channels_last.push_back(position);
      }
      for (size_t d = 0; d < value.shape.size(); ++d) add(value.shape[d], wanted.dims[d], fmt::format("input '{}' dimension {}", wanted.input, d));
    }
    result_.volume = volume_of(result_);
    return std::move(result_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::user, "variant '{}': {}", request_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  size_t find(const std::vector<const GraphInput*>& users, const std::string& name) const {
    std::string names;
    for (size_t i = 0; i < users.size(); ++i) {
      const std::string& own = users[i]->target.empty() ? graph_[users[i]->value].name : users[i]->target;
      if (own == name) return i;
      names += (i ? ", " : "") + own;
    }
    size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size() && number < users.size()) return number;
    refuse("there is no input '{}'; there are {}", name, names);
  }

  void add(const Expr& general, const DimRequest& wanted, const std::string& what) {
    const Expr e = simplify(general.substitute(result_.values), result_.symbols);
    if (!wanted.name.empty()) return name(e, wanted, what);
    if (wanted.min == 0 && wanted.max == kUnbounded && wanted.multiple == 1) return;
    const Interval is = interval(e, result_.symbols);
    const auto number = e.constant();
    const bool apart = wanted.max < is.min || is.max < wanted.min || (number && *number % wanted.multiple != 0);
    if (apart && number) refuse("{} is always {}", what, *number);
    if (apart) refuse("{} is in [{}, {}]", what, is.min, is.max);
    if (number) return;
    if (auto a = affine(e, result_.symbols)) return narrow_symbol(*a, wanted, what);
    // Not of one symbol: the guard checks it, the code does not gain by it.
    if (wanted.min > is.min) condition(Expr::make(ExprOp::le, {Expr(wanted.min), e}));
    if (wanted.max < is.max) condition(Expr::make(ExprOp::le, {e, Expr(wanted.max)}));
    if (wanted.multiple > 1) condition(Expr::make(ExprOp::eq, {mod(e, wanted.multiple), Expr(0)}));
  }

  void condition(const Expr& e) {
    const Expr s = simplify(e, graph_.symbols);
    if (s.is(0)) refuse("{} never holds", e.str());
    if (!s.constant()) result_.conditions.push_back(s);
  }

  void narrow_symbol(const Affine& a, const DimRequest& wanted, const std::string& what) {
    SymbolFacts& facts = result_.symbols.at(a.symbol);
    // min <= k*s + c <= max, k*s + c = 0 mod multiple
    facts.range.min = std::max(facts.range.min, ceildiv(Expr(wanted.min - a.c), Expr(a.k)).constant().value_or(0));
    if (wanted.max != kUnbounded) facts.range.max = std::min(facts.range.max, floordiv(Expr(wanted.max - a.c), Expr(a.k)).constant().value_or(0));
    if (wanted.multiple > 1) {
      if (a.c % wanted.multiple == 0)
        facts.multiple = std::lcm(facts.multiple, wanted.multiple / std::gcd(wanted.multiple, a.k));
      else
        condition(Expr::make(ExprOp::eq, {mod(Expr::symbol(a.symbol) * a.k + a.c, wanted.multiple), Expr(0)}));
    }
    settle_symbol(a.symbol, what);
  }

  void settle_symbol(const std::string& symbol, const std::string& what) {
    SymbolFacts& facts = result_.symbols.at(symbol);
    if (!settle(facts)) refuse("{} cannot have such a size", what);
    if (facts.range.min == facts.range.max) replace(symbol, facts.range.min);
  }

  void replace(const std::string& symbol, const Expr& by) {
    for (auto& [name, value] : result_.values) value = value.substitute({{symbol, by}});
    result_.values[symbol] = by;
    for (auto& [name, first] : names_) first.first = first.first.substitute({{symbol, by}});
  }

  void name(const Expr& e, const DimRequest& wanted, const std::string& what) {
    const auto known = names_.find(wanted.name);
    if (known == names_.end()) {
      names_[wanted.name] = {e, wanted.multiple};
      if (wanted.multiple > 1) add(e, DimRequest{0, kUnbounded, wanted.multiple, {}}, what);
      return;
    }
    const auto [first, factor] = known->second;
    const Expr a = simplify(e * factor, result_.symbols), b = simplify(first * wanted.multiple, result_.symbols);
    if (a == b) return;
    const Expr equal = simplify(Expr::make(ExprOp::eq, {a, b}), result_.symbols);
    if (equal.is(0)) refuse("{} cannot be {}", what, wanted.multiple > 1 ? fmt::format("{}*{}", wanted.multiple, wanted.name) : wanted.name);
    // One symbol stands for the other where both do.
    for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
      if (x.op() != ExprOp::symbol) continue;
      if (auto number = y.constant()) {
        result_.symbols.at(x.name()).range = {*number, *number};
        return settle_symbol(x.name(), what);
      }
      if (y.op() == ExprOp::symbol) {
        SymbolFacts &one = result_.symbols.at(x.name()), &other = result_.symbols.at(y.name());
        other.range = {std::max(one.range.min, other.range.min), std::min(one.range.max, other.range.max)};
        other.multiple = std::lcm(one.multiple, other.multiple);
        result_.conditions.push_back(Expr::make(ExprOp::eq, {x, y}));
        settle_symbol(y.name(), what);
        one = other;
        replace(x.name(), y.substitute(result_.values));
        return;
      }
    }
    condition(equal);
  }

  const Graph& graph_;
  const VariantRequest& request_;
  Narrowing result_;
  std::map<std::string, std::pair<Expr, int64_t>> names_;  // first occurrence, and its factor
};

}  // namespace

VariantRequest parse_variant(const std::string& text) { return RequestParser(text).parse(); }

Narrowing narrow(const Graph& graph, const VariantRequest& request) { return Narrower(graph, request).run(); }

std::optional<Narrowing> narrow(const Graph& graph, const std::map<std::string, DimRequest>& symbols) {
  Narrowing result = narrow(graph, VariantRequest{});
  const double before = result.volume;
  for (const auto& [name, size] : symbols) {
    SymbolFacts& facts = result.symbols.at(name);
    facts.range = {std::max(facts.range.min, size.min), std::min(facts.range.max, size.max)};
    facts.multiple = std::lcm(facts.multiple, size.multiple);
    if (!settle(facts)) return std::nullopt;
    if (facts.range.min == facts.range.max) result.values[name] = facts.range.min;
  }
  result.volume = volume_of(result);
  if (result.volume >= before) return std::nullopt;
  return result;
}

Graph specialize(Graph general, const Narrowing& narrowing) {
  for (const auto& [name, facts] : narrowing.symbols) general.symbols[name] = facts;
  auto narrowed = [&](Expr& e) {
    if (!e.constant()) e = simplify(e.substitute(narrowing.values), narrowing.symbols);
  };
  for (Value& v : general.values) {
    for (Expr& e : v.shape) narrowed(e);
    for (Expr& e : v.strides) narrowed(e);
    narrowed(v.offset);
    narrowed(v.expr);
  }
  for (Node& node : general.nodes)
    for (auto& [name, argument] : node.args) {
      if (auto* e = std::get_if<Expr>(&argument)) narrowed(*e);
      if (auto* list = std::get_if<std::vector<Expr>>(&argument))
        for (Expr& e : *list) narrowed(e);
    }
  for (GraphOutput& output : general.outputs)
    if (auto* e = std::get_if<Expr>(&output.value)) narrowed(*e);
  std::vector<Expr> assumptions = narrowing.conditions;
  for (Expr e : general.assumptions) {
    narrowed(e);
    if (!e.constant()) assumptions.push_back(e);
  }
  general.assumptions = std::move(assumptions);
  for (auto& [name, graph] : general.subgraphs) graph = specialize(std::move(graph), narrowing);
  return general;
}

}  // namespace nacre
