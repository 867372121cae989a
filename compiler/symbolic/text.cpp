// How expressions are written. Reading is by recursive descent, a function for each level of binding.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "compiler/support/error.h"
#include "compiler/symbolic/expr.h"

namespace nacre {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

bool is_identifier(std::string_view s) {
  return !s.empty() && (std::isalpha(static_cast<unsigned char>(s[0])) || s[0] == '_') &&
         std::all_of(s.begin(), s.end(), is_word);
}

bool is_keyword(std::string_view s) {
  return s == "floordiv" || s == "mod" || s == "and" || s == "or" || s == "not";
}

// ---- Printing.

// How tightly an operator binds, for parentheses.
int precedence(const Expr& e) {
  switch (e.op()) {
    case ExprOp::or_:
      return 1;
    case ExprOp::and_:
      return 2;
    case ExprOp::not_:
      return 3;
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return 4;
    case ExprOp::add:
      return 5;
    case ExprOp::mul:
    case ExprOp::floordiv:
    case ExprOp::mod:
      return 6;
    case ExprOp::constant:
      return *e.constant() < 0 ? 5 : 7;
    default:
      return 7;
  }
}

void write(const Expr& e, std::string& out);

void write_in(const Expr& e, int at_least, std::string& out) {
  const bool parentheses = precedence(e) < at_least;
  if (parentheses) out += '(';
  write(e, out);
  if (parentheses) out += ')';
}

void write_list(const std::vector<Expr>& list, std::string_view separator, int at_least,
                std::string& out) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out += separator;
    write_in(list[i], at_least, out);
  }
}

void write_call(std::string_view name, const Expr& e, std::string& out) {
  out += name;
  out += '(';
  write_list(e.operands(), ", ", 0, out);
  out += ')';
}

void write_infix(std::string_view op, const Expr& e, int at_least, std::string& out) {
  write_in(e.operands()[0], at_least, out);
  out += op;
  write_in(e.operands()[1], at_least, out);
}

void write(const Expr& e, std::string& out) {
  switch (e.op()) {
    case ExprOp::constant:
      out += std::to_string(*e.constant());
      return;
    case ExprOp::symbol:
      out += e.name();
      return;
    case ExprOp::add:
      for (size_t i = 0; i < e.operands().size(); ++i) {
        std::string term;
        write_in(e.operands()[i], e.operands()[i].constant() ? 0 : 6, term);
        if (i == 0)
          out += term;
        else if (term[0] == '-')
          out.append(" - ").append(term, 1);
        else
          out.append(" + ").append(term);
      }
      return;
    case ExprOp::mul:
      if (e.operands()[0].is(-1)) {
        out += '-';
        write_list({e.operands().begin() + 1, e.operands().end()}, "*", 7, out);
      } else {
        if (e.operands()[0].constant()) {
          out += std::to_string(*e.operands()[0].constant()) + "*";
          write_list({e.operands().begin() + 1, e.operands().end()}, "*", 7, out);
        } else {
          write_list(e.operands(), "*", 7, out);
        }
      }
      return;
    case ExprOp::floordiv:
      write_infix(" floordiv ", e, 7, out);
      return;
    case ExprOp::mod:
      write_infix(" mod ", e, 7, out);
      return;
    case ExprOp::min:
      write_call("min", e, out);
      return;
    case ExprOp::max:
      write_call("max", e, out);
      return;
    case ExprOp::eq:
      write_infix(" == ", e, 5, out);
      return;
    case ExprOp::ne:
      write_infix(" != ", e, 5, out);
      return;
    case ExprOp::lt:
      write_infix(" < ", e, 5, out);
      return;
    case ExprOp::le:
      write_infix(" <= ", e, 5, out);
      return;
    case ExprOp::and_:
      write_list(e.operands(), " and ", 3, out);
      return;
    case ExprOp::or_:
      write_list(e.operands(), " or ", 2, out);
      return;
    case ExprOp::not_:
      out += "not ";
      write_in(e.operands()[0], 3, out);
      return;
    case ExprOp::select:
      write_call("select", e, out);
      return;
  }
}

}  // namespace

std::string Expr::str() const {
  std::string out;
  write(*this, out);
  return out;
}

namespace {

// ---- Reading.

// Deeper nesting than this is refused, so that hostile text cannot exhaust the stack.
constexpr int kMaxDepth = 400;

class ExprParser {
 public:
  explicit ExprParser(std::string_view text) : text_(text) {}

  Expr whole() {
    Expr e = junction();
    if (!at_end()) refuse("expected an operator or the end");
    return e;
  }

 private:
  Expr junction() {
    const Deeper deeper(*this);
    std::vector<Expr> either{conjunction()};
    while (take("or")) either.push_back(conjunction());
    return either.size() == 1 ? either[0] : Expr::make(ExprOp::or_, either);
  }
  Expr conjunction() {
    std::vector<Expr> all{negation()};
    while (take("and")) all.push_back(negation());
    return all.size() == 1 ? all[0] : Expr::make(ExprOp::and_, all);
  }
  Expr negation() {
    const Deeper deeper(*this);
    if (take("not")) return Expr::make(ExprOp::not_, {negation()});
    const Expr a = sum();
    if (take("==")) return Expr::make(ExprOp::eq, {a, sum()});
    if (take("!=")) return Expr::make(ExprOp::ne, {a, sum()});
    if (take("<=")) return Expr::make(ExprOp::le, {a, sum()});
    if (take("<")) return Expr::make(ExprOp::lt, {a, sum()});
    if (take(">=")) return Expr::make(ExprOp::le, {sum(), a});
    if (take(">")) return Expr::make(ExprOp::lt, {sum(), a});
    return a;
  }
  Expr sum() {
    std::vector<Expr> terms{term()};
    for (;;) {
      if (take("+"))
        terms.push_back(term());
      else if (take("-"))
        terms.push_back(-term());
      else
        return terms.size() == 1 ? terms[0] : Expr::make(ExprOp::add, std::move(terms));
    }
  }
  Expr term() {
    Expr e = unary();
    for (;;) {
      if (take("*"))
        e = e * unary();
      else if (take("floordiv"))
        e = floordiv(e, unary());
      else if (take("mod"))
        e = mod(e, unary());
      else
        return e;
    }
  }
  Expr unary() {
    const Deeper deeper(*this);
    if (take("-")) return next_is_digit() ? Expr(integer(true)) : -unary();
    if (next_is_digit()) return integer(false);
    if (take("(")) {
      Expr e = junction();
      expect(")");
      return e;
    }
    const std::string_view name = word();
    if (is_keyword(name)) refuse(fmt::format("'{}' where a value belongs", name));
    if (!take("(")) return Expr::symbol(std::string(name));
    std::vector<Expr> args{junction()};
    while (take(",")) args.push_back(junction());
    expect(")");
    if (name == "min") return Expr::make(ExprOp::min, args);
    if (name == "max") return Expr::make(ExprOp::max, args);
    if (name == "select" && args.size() == 3) return Expr::make(ExprOp::select, args);
    refuse(fmt::format("no function {} of {} operands", name, args.size()));
  }

  // ---- Characters, names and numbers.

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  // Takes `token` if it is next; a word only as a whole.
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    const size_t end = at_ + token.size();
    if (is_identifier(token) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse(fmt::format("expected '{}'", token));
  }
  bool next_is_digit() {
    skip_blanks();
    return at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]));
  }
  std::string_view word() {
    skip_blanks();
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    const std::string_view w = text_.substr(at_, end - at_);
    if (!is_identifier(w)) refuse("expected a number, a symbol or '('");
    at_ = end;
    return w;
  }
  int64_t integer(bool negative) {
    skip_blanks();
    size_t after = at_;
    while (after < text_.size() && std::isdigit(static_cast<unsigned char>(text_[after]))) ++after;
    const std::string digits = (negative ? "-" : "") + std::string(text_.substr(at_, after - at_));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      refuse("a number that exceeds 64 bits");
    at_ = after;
    return value;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::user, "expression '{}', column {}: {}", text_, at_ + 1, why);
  }
  struct Deeper {
    explicit Deeper(ExprParser& p) : parser(p) {
      if (++parser.depth_ > kMaxDepth) parser.refuse("nested too deeply");
    }
    ~Deeper() { --parser.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ExprParser& parser;
  };

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

bool is_symbol_name(std::string_view text) { return is_identifier(text) && !is_keyword(text); }

Expr parse_expr(std::string_view text) { return ExprParser(text).whole(); }

}  // namespace nacre
