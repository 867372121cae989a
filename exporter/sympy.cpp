#include "exporter/sympy.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "compiler/support/error.h"

namespace nacre {
namespace {

// A parsed term: `name(children...)`, or a quoted string, or a bare word or number.
struct Term {
  std::string name;
  std::vector<Term> children;
  bool call = false;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  [[noreturn]] void bad(std::string_view what) const {
    fail(ErrorKind::user,
         "a symbolic expression of the program is malformed: {} at column {} of `{}`", what,
         position_ + 1, text_);
  }
  void skip_blanks() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n'))
      ++position_;
  }
  bool at_end() {
    skip_blanks();
    return position_ == text_.size();
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (text_.substr(position_, word.size()) != word) return false;
    size_t end = position_ + word.size();
    if (end < text_.size() &&
        (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_'))
      return false;
    position_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) bad(fmt::format("`{}` was expected", token));
  }
  // A name, a number or a quoted string; empty if there is none.
  std::string word() {
    skip_blanks();
    size_t start = position_;
    if (position_ < text_.size() && text_[position_] == '\'') {
      size_t end = text_.find('\'', position_ + 1);
      if (end == std::string_view::npos) bad("a quote is not closed");
      position_ = end + 1;
      return std::string(text_.substr(start + 1, end - start - 1));
    }
    if (position_ < text_.size() && text_[position_] == '-') ++position_;
    while (position_ < text_.size()) {
      char c = text_[position_];
      bool exponent_sign = (c == '+' || c == '-') && position_ > start &&
                           std::isdigit(static_cast<unsigned char>(text_[start])) &&
                           (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E');
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && !exponent_sign)
        break;
      ++position_;
    }
    return std::string(text_.substr(start, position_ - start));
  }
  size_t position() const { return position_; }
  void seek(size_t position) { position_ = position; }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  size_t position_ = 0;
};

Term parse_term(Lexer& lexer, int depth) {
  if (depth > 200) lexer.bad("it is nested too deeply");
  Term term;
  term.name = lexer.word();
  if (lexer.take("=")) {
    parse_term(lexer, depth + 1);
    return Term{"=", {}, false};
  }
  if (!lexer.take("(")) {
    if (term.name.empty()) lexer.bad("a term was expected");
    return term;
  }
  term.call = true;
  if (lexer.take(")")) return term;
  do {
    Term child = parse_term(lexer, depth + 1);
    if (child.name != "=")
      term.children.push_back(std::move(child));  // keyword arguments are sympy's own notes
  } while (lexer.take(","));
  lexer.expect(")");
  return term;
}

// Fractions, since sympy keeps `s/2` as `Mul(Rational(1, 2), s)`; `den` is positive for every
// assignment.
struct Ratio {
  Expr num;
  Expr den{1};
};

class Evaluator {
 public:
  using Meaning = std::function<std::optional<Expr>(std::string_view)>;
  Evaluator(std::vector<Expr>* assumptions, const Meaning* meaning)
      : assumptions_(assumptions), meaning_(meaning) {}

  std::optional<Ratio> ratio(const Term& t);
  std::optional<Expr> integer(const Term& t) {
    auto r = ratio(t);
    if (!r) return std::nullopt;
    return r->den.is(1) ? r->num
                        : floordiv(r->num, r->den);  // exact: sympy knows that it is an integer
  }

 private:
  std::optional<std::vector<Expr>> integers(const Term& t) {
    std::vector<Expr> result;
    for (const Term& child : t.children) {
      auto e = integer(child);
      if (!e) return std::nullopt;
      result.push_back(*e);
    }
    return result;
  }
  std::optional<Ratio> compare(const Term& t, ExprOp op, bool swapped) {
    if (t.children.size() != 2) return std::nullopt;
    auto a = ratio(t.children[swapped ? 1 : 0]), b = ratio(t.children[swapped ? 0 : 1]);
    if (!a || !b) return std::nullopt;
    return Ratio{Expr::make(op, {a->num * b->den, b->num * a->den})};
  }
  std::optional<Ratio> rounded_scale(const Term& t, std::string_view rounding);

  std::vector<Expr>* assumptions_;
  const Meaning* meaning_;
};

std::optional<int64_t> to_integer(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || *end != 0) return std::nullopt;
  return value;
}

std::optional<Expr> truncated(const Ratio& r) {
  if (r.den.is(1)) return r.num;
  return Expr::make(ExprOp::select, {Expr::make(ExprOp::lt, {r.num, Expr(0)}),
                                     -floordiv(-r.num, r.den), floordiv(r.num, r.den)});
}

// A double that is a fraction with a small power of two below.
std::optional<Ratio> exact_fraction(double value) {
  int64_t den = 1;
  for (int i = 0; i <= 20; ++i, den *= 2) {
    double num = value * static_cast<double>(den);
    if (std::floor(num) == num && std::abs(num) < 1e12)
      return Ratio{Expr(static_cast<int64_t>(num)), Expr(den)};
  }
  return std::nullopt;
}

// The simplest fraction within rounding of `value`, by its continued fraction.
std::optional<std::pair<int64_t, int64_t>> simple_fraction(double value) {
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  double rest = value;
  for (int i = 0; i < 20; ++i) {
    double whole = std::floor(rest);
    if (whole > 1e6) return std::nullopt;
    int64_t a = static_cast<int64_t>(whole), p2 = a * p1 + p0, q2 = a * q1 + q0;
    if (q2 > 100000 || p2 > 1000000000) return std::nullopt;
    p0 = p1, q0 = q1, p1 = p2, q1 = q2;
    if (std::abs(static_cast<double>(p1) / static_cast<double>(q1) - value) <=
        std::abs(value) * 4e-16)
      return std::pair(p1, q1);
    rest = 1 / (rest - whole);
  }
  return std::nullopt;
}

// floor, trunc or ceil of `factor * e` in doubles, for a size e: a fraction of integers as far as
// both agree.
std::optional<Ratio> Evaluator::rounded_scale(const Term& t, std::string_view rounding) {
  if (t.name != "Mul" || t.children.size() != 2) return std::nullopt;
  const Term* number = &t.children[0];
  const Term* size = &t.children[1];
  if (size->name == "Float") std::swap(number, size);
  if (number->name != "Float" || number->children.empty() || size->name != "ToFloat" ||
      size->children.size() != 1)
    return std::nullopt;
  double factor = std::strtod(number->children[0].name.c_str(), nullptr);
  auto e = integer(size->children[0]);
  if (!e || !(factor > 0)) return std::nullopt;
  auto fraction = simple_fraction(factor);
  if (!fraction) return std::nullopt;
  auto [p, q] = *fraction;
  constexpr int64_t kLimit = 65536;
  bool up = rounding == "CeilToInt";
  int64_t agree = -1;
  for (int64_t n = 0; n <= kLimit; ++n) {
    double product = factor * static_cast<double>(n);
    int64_t in_doubles = static_cast<int64_t>(up ? std::ceil(product) : std::floor(product));
    int64_t in_integers = up ? (n * p + q - 1) / q : n * p / q;
    if (in_doubles != in_integers) break;
    agree = n;
  }
  if (agree < 1024) return std::nullopt;
  if (assumptions_) assumptions_->push_back(Expr::make(ExprOp::le, {*e, Expr(agree)}));
  return Ratio{up ? ceildiv(*e * Expr(p), Expr(q)) : floordiv(*e * Expr(p), Expr(q))};
}

std::optional<Ratio> Evaluator::ratio(const Term& t) {
  const std::string& f = t.name;
  if (!t.call) {
    if (f == "true" || f == "True") return Ratio{Expr(1)};
    if (f == "false" || f == "False") return Ratio{Expr(0)};
    if (auto value = to_integer(f)) return Ratio{Expr(*value)};
    return std::nullopt;
  }
  auto arity = [&](size_t n) {
    if (t.children.size() != n)
      fail(ErrorKind::user,
           "a symbolic expression of the program is malformed: `{}` with {} arguments", f,
           t.children.size());
  };
  if (f == "Symbol" || f == "Dummy") {
    arity(1);
    return Ratio{Expr::symbol(t.children[0].name)};
  }
  if (f == "Source" && meaning_ != nullptr) {
    auto e = (*meaning_)(t.children[0].name);
    return e ? std::optional(Ratio{*e}) : std::nullopt;
  }
  if (f == "Integer") {
    arity(1);
    auto value = to_integer(t.children[0].name);
    return value ? std::optional(Ratio{Expr(*value)}) : std::nullopt;
  }
  if (f == "Rational") {
    arity(2);
    auto p = to_integer(t.children[0].name), q = to_integer(t.children[1].name);
    if (!p || !q || *q <= 0) return std::nullopt;
    return Ratio{Expr(*p), Expr(*q)};
  }
  if (f == "Float") {
    if (t.children.empty()) return std::nullopt;
    return exact_fraction(std::strtod(t.children[0].name.c_str(), nullptr));
  }
  if (f == "ToFloat" || f == "Identity") {
    arity(1);
    return ratio(t.children[0]);
  }
  if (f == "Add") {
    Ratio sum{Expr(0)};
    for (const Term& child : t.children) {
      auto r = ratio(child);
      if (!r) return std::nullopt;
      if (r->den == sum.den) {
        sum.num += r->num;
      } else {
        sum = Ratio{sum.num * r->den + r->num * sum.den, sum.den * r->den};
      }
    }
    return sum;
  }
  if (f == "Mul") {
    Ratio result{Expr(1)};
    for (const Term& child : t.children) {
      auto r = ratio(child);
      if (!r) return std::nullopt;
      result.num *= r->num;
      result.den *= r->den;
    }
    return result;
  }
  if (f == "Pow" || f == "PowByNatural") {
    arity(2);
    auto base = ratio(t.children[0]), exponent = ratio(t.children[1]);
    if (!base || !exponent || !exponent->den.is(1) || !exponent->num.constant())
      return std::nullopt;
    int64_t n = *exponent->num.constant();
    if (n < -8 || n > 8) return std::nullopt;
    Ratio result{Expr(1)};
    for (int64_t i = 0; i < std::abs(n); ++i) {
      result.num *= n > 0 ? base->num : base->den;
      result.den *= n > 0 ? base->den : base->num;
    }
    return result;
  }
  if (f == "IntTrueDiv" || f == "FloatTrueDiv") {
    arity(2);
    auto a = ratio(t.children[0]), b = ratio(t.children[1]);
    if (!a || !b) return std::nullopt;
    return Ratio{a->num * b->den, a->den * b->num};
  }
  if (f == "FloorToInt" || f == "floor") {
    arity(1);
    if (auto scaled = rounded_scale(t.children[0], "FloorToInt")) return scaled;
    auto r = ratio(t.children[0]);
    return r ? std::optional(Ratio{floordiv(r->num, r->den)}) : std::nullopt;
  }
  if (f == "CeilToInt" || f == "ceiling") {
    arity(1);
    if (auto scaled = rounded_scale(t.children[0], f)) return scaled;
    auto r = ratio(t.children[0]);
    return r ? std::optional(Ratio{ceildiv(r->num, r->den)}) : std::nullopt;
  }
  if (f == "TruncToInt") {
    arity(1);
    if (auto scaled = rounded_scale(t.children[0], f)) return scaled;
    auto r = ratio(t.children[0]);
    return r ? std::optional(Ratio{*truncated(*r)}) : std::nullopt;
  }
  if (f == "Equality" || f == "Eq") return compare(t, ExprOp::eq, false);
  if (f == "Unequality" || f == "Ne") return compare(t, ExprOp::ne, false);
  if (f == "StrictLessThan" || f == "Lt") return compare(t, ExprOp::lt, false);
  if (f == "LessThan" || f == "Le") return compare(t, ExprOp::le, false);
  if (f == "StrictGreaterThan" || f == "Gt") return compare(t, ExprOp::lt, true);
  if (f == "GreaterThan" || f == "Ge") return compare(t, ExprOp::le, true);

  if (f == "Piecewise") {
    std::optional<Expr> result;
    for (size_t i = t.children.size(); i-- > 0;) {
      const Term& pair = t.children[i];
      if (pair.children.size() != 2) return std::nullopt;
      auto value = integer(pair.children[0]), condition = integer(pair.children[1]);
      if (!value || !condition) return std::nullopt;
      result = result ? Expr::make(ExprOp::select, {*condition, *value, *result}) : *value;
    }
    return result ? std::optional(Ratio{*result}) : std::nullopt;
  }

  auto e = integers(t);
  if (!e) return std::nullopt;
  if (f == "FloorDiv" || f == "CleanDiv") {
    arity(2);
    return Ratio{floordiv((*e)[0], (*e)[1])};
  }
  if (f == "CeilDiv") {
    arity(2);
    return Ratio{ceildiv((*e)[0], (*e)[1])};
  }
  if (f == "Mod" || f == "PythonMod") {
    arity(2);
    return Ratio{mod((*e)[0], (*e)[1])};
  }
  if (f == "ModularIndexing") {
    arity(3);
    return Ratio{mod(floordiv((*e)[0], (*e)[1]), (*e)[2])};
  }
  if (f == "LShift" || f == "RShift") {
    arity(2);
    auto shift = (*e)[1].constant();
    if (!shift || *shift < 0 || *shift > 62) return std::nullopt;
    Expr power(int64_t{1} << *shift);
    return Ratio{f == "LShift" ? (*e)[0] * power : floordiv((*e)[0], power)};
  }
  if (f == "Where") {
    arity(3);
    return Ratio{Expr::make(ExprOp::select, *e)};
  }
  if (!e->empty()) {
    if (f == "Max") return Ratio{Expr::make(ExprOp::max, *e)};
    if (f == "Min") return Ratio{Expr::make(ExprOp::min, *e)};
    if (f == "And") return Ratio{Expr::make(ExprOp::and_, *e)};
    if (f == "Or") return Ratio{Expr::make(ExprOp::or_, *e)};
    if (f == "Not") {
      arity(1);
      return Ratio{Expr::make(ExprOp::not_, *e)};
    }
    if (f == "Abs") {
      arity(1);
      return Ratio{max((*e)[0], -(*e)[0])};
    }
  }
  return std::nullopt;
}

// Python's expression grammar, as far as guards use it, read into the same terms.
class GuardParser {
 public:
  explicit GuardParser(std::string_view text) : lexer_(text) {}

  Term parse() {
    Term t = disjunction();
    if (!lexer_.at_end()) lexer_.bad("an operator was expected");
    return t;
  }

 private:
  static Term call(std::string name, std::vector<Term> children) {
    return {std::move(name), std::move(children), true};
  }

  Term disjunction() {
    Term a = conjunction();
    while (lexer_.take_word("or")) a = call("Or", {a, conjunction()});
    return a;
  }
  Term conjunction() {
    Term a = negation();
    while (lexer_.take_word("and")) a = call("And", {a, negation()});
    return a;
  }
  Term negation() {
    if (lexer_.take_word("not")) return call("Not", {negation()});
    return comparison();
  }
  Term comparison() {  // `a < b < c` is `a < b and b < c`
    Term a = sum();
    std::vector<Term> all;
    for (;;) {
      const char* name = lexer_.take("==")   ? "Eq"
                         : lexer_.take("!=") ? "Ne"
                         : lexer_.take("<=") ? "Le"
                         : lexer_.take(">=") ? "Ge"
                         : lexer_.take("<")  ? "Lt"
                         : lexer_.take(">")  ? "Gt"
                                             : nullptr;
      if (name == nullptr) break;
      Term b = sum();
      all.push_back(call(name, {a, b}));
      a = b;
    }
    if (all.empty()) return a;
    return all.size() == 1 ? all[0] : call("And", all);
  }
  Term sum() {
    Term a = term();
    for (;;) {
      if (lexer_.take("+")) {
        a = call("Add", {a, term()});
      } else if (lexer_.take("-")) {
        a = call("Add", {a, negative(term())});
      } else {
        return a;
      }
    }
  }
  Term term() {
    Term a = factor();
    for (;;) {
      if (lexer_.take("//")) {
        a = call("FloorDiv", {a, factor()});
      } else if (lexer_.take("/")) {
        a = call("FloatTrueDiv", {a, factor()});
      } else if (lexer_.take("*")) {
        a = call("Mul", {a, factor()});
      } else if (lexer_.take("%")) {
        a = call("Mod", {a, factor()});
      } else {
        return a;
      }
    }
  }
  Term factor() {
    if (lexer_.take("-")) return negative(factor());
    Term a = atom();
    return lexer_.take("**") ? call("Pow", {a, factor()}) : a;
  }
  static Term negative(Term t) {
    return call("Mul", {call("Integer", {Term{"-1", {}, false}}), std::move(t)});
  }

  Term atom() {
    if (++depth_ > 2000) lexer_.bad("it is nested too deeply");
    if (lexer_.take("(")) {
      Term a = disjunction();
      lexer_.expect(")");
      return a;
    }
    lexer_.skip_blanks();
    size_t start = lexer_.position();
    std::string word = lexer_.word();
    if (word.empty()) lexer_.bad("a term was expected");
    if (word == "L") {
      size_t end = source_end(start + 1);
      lexer_.seek(end);
      return call("Source",
                  {Term{std::string(lexer_.text().substr(start, end - start)), {}, false}});
    }
    if (std::isdigit(static_cast<unsigned char>(word[0])))
      return call(word.find_first_of(".e") == std::string::npos ? "Integer" : "Float",
                  {Term{word, {}, false}});
    if (!lexer_.take("(")) return Term{word, {}, false};
    std::vector<Term> arguments;
    if (!lexer_.take(")")) {
      do arguments.push_back(disjunction());
      while (lexer_.take(","));
      lexer_.expect(")");
    }
    size_t dot = word.rfind('.');
    return call(function(dot == std::string::npos ? word : word.substr(dot + 1)),
                std::move(arguments));
  }
  static std::string function(const std::string& python) {
    static const std::pair<const char*, const char*> names[] = {
        {"max", "Max"},          {"sym_max", "Max"},    {"min", "Min"},
        {"sym_min", "Min"},      {"sym_not", "Not"},    {"sym_ite", "Where"},
        {"abs", "Abs"},          {"float", "ToFloat"},  {"sym_float", "ToFloat"},
        {"trunc", "TruncToInt"}, {"int", "TruncToInt"}, {"floor", "FloorToInt"},
        {"ceil", "CeilToInt"},
    };
    for (auto [from, to] : names)
      if (python == from) return to;
    return python;
  }
  // The end of a chain of subscripts, attributes and empty calls.
  size_t source_end(size_t at) const {
    std::string_view text = lexer_.text();
    while (at < text.size()) {
      if (text[at] == '[') {
        size_t close = text.find(']', at);
        if (close == std::string_view::npos) return text.size();
        at = close + 1;
      } else if (text[at] == '.') {
        ++at;
        while (at < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_'))
          ++at;
      } else if (text.substr(at, 2) == "()") {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  Lexer lexer_;
  int depth_ = 0;
};

}  // namespace

std::optional<Expr> parse_srepr(std::string_view text, std::vector<Expr>* assumptions) {
  Lexer lexer(text);
  Term term = parse_term(lexer, 0);
  if (!lexer.at_end()) lexer.bad("more text follows");
  return Evaluator(assumptions, nullptr).integer(term);
}

std::optional<Expr> parse_guard(
    std::string_view text,
    const std::function<std::optional<Expr>(std::string_view source)>& meaning) {
  Term term = GuardParser(text).parse();
  std::vector<Expr> limits;
  auto e = Evaluator(&limits, &meaning).integer(term);
  if (e && !limits.empty()) {
    limits.push_back(*e);
    e = Expr::make(ExprOp::and_, limits);
  }
  return e;
}

}  // namespace nacre
