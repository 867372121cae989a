// Printing is one walk. Reading goes line by line; a line is cut at its top level (outside quotes
// and brackets) into the parts that the grammar names, and each part is read by its first
// characters.
#include "compiler/graph/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "compiler/graph/ops.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

constexpr const char* kLevels[] = {"captured", "functional", "primitive"};
constexpr const char* kInputKinds[] = {"user", "parameter", "buffer", "constant"};
constexpr const char* kOutputKinds[] = {"user", "buffer_mutation", "input_mutation"};

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}
bool is_bare(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), is_word_char);
}
// `contiguous_format`, `cuda:0`
bool is_bare_keyword(std::string_view s) {
  return !s.empty() && (std::isalpha(static_cast<unsigned char>(s[0])) || s[0] == '_') &&
         std::all_of(s.begin(), s.end(), [](char c) { return is_word_char(c) || c == ':'; });
}

// Words that an argument's text may be and that are therefore no bare keywords.
bool is_reserved(std::string_view s) {
  static constexpr std::string_view words[] = {"none", "true", "false", "inf", "nan"};
  return std::find(std::begin(words), std::end(words), s) != std::end(words) ||
         dtype_named(s).has_value();
}

// ---- Printing.

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
          out += c;
    }
  }
  return out + "\"";
}

std::string name_text(std::string_view s) { return is_bare(s) ? std::string(s) : quoted(s); }

// The shortest text that reads back as the same double, never like an integer.
std::string double_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", v);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

template <class List, class Text>
std::string list_text(const List& list, Text text) {
  std::string out = "[";
  bool first = true;
  for (const auto& e : list) {
    if (!first) out += ", ";
    first = false;
    out += text(e);
  }
  return out + "]";
}

std::string shape_text(const std::vector<Expr>& shape) {
  return list_text(shape, [](const Expr& e) { return e.str(); });
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string whole(int indent) const;
  std::string node_line(const Node& node) const;

 private:
  std::string value_name(ValueId id) const {
    if (id == kNoValue) return "none";
    if (id < 0 || static_cast<size_t>(id) >= graph_.values.size()) return fmt::format("%<{}>", id);
    return "%" + name_text(graph_[id].name);
  }
  std::string value_type(const Value& v) const {
    switch (v.kind) {
      case ValueKind::integer:
        return "int(" + v.expr.str() + ")";
      case ValueKind::floating:
        return v.number ? "float(" + double_text(*v.number) + ")" : "float";
      case ValueKind::boolean:
        return !v.number ? "bool" : *v.number != 0 ? "bool(true)" : "bool(false)";
      case ValueKind::tensor:
        break;
    }
    std::string out = nacre_dtype_name(v.dtype) + shape_text(v.shape);
    if (!v.strides.empty()) out += " strides " + shape_text(v.strides);
    if (!v.offset.is(0)) out += " offset (" + v.offset.str() + ")";
    return out;
  }
  std::string typed(ValueId id) const {
    if (id == kNoValue) return "none";
    if (id < 0 || static_cast<size_t>(id) >= graph_.values.size()) return value_name(id);
    return value_name(id) + ": " + value_type(graph_[id]);
  }
  std::string keyword(const std::string& text) const {
    const bool plain =
        is_bare_keyword(text) && !is_reserved(text) && !graph_.symbols.contains(text);
    return plain ? text : "keyword(" + quoted(text) + ")";
  }
  // A lone symbol that is not declared would read back as a keyword.
  std::string expression(const Expr& e) const {
    if (e.op() == ExprOp::symbol && !graph_.symbols.contains(e.name())) return "(" + e.name() + ")";
    return e.str();
  }
  std::string argument(const Argument& a) const;

  const Graph& graph_;
};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string Printer::argument(const Argument& a) const {
  return std::visit(Overloaded{
                        [](std::monostate) -> std::string { return "none"; },
                        [&](ValueRef v) { return value_name(v.id); },
                        [&](const std::vector<ValueRef>& list) -> std::string {
                          if (list.empty()) return "tensors[]";
                          return list_text(list, [&](ValueRef v) { return value_name(v.id); });
                        },
                        [&](const Expr& e) { return expression(e); },
                        [&](const std::vector<Expr>& list) {
                          return list_text(list, [&](const Expr& e) { return expression(e); });
                        },
                        [](double v) { return double_text(v); },
                        [](const std::vector<double>& list) -> std::string {
                          return list.empty() ? "floats[]" : list_text(list, double_text);
                        },
                        [](bool v) -> std::string { return v ? "true" : "false"; },
                        [](const std::vector<bool>& list) -> std::string {
                          if (list.empty()) return "bools[]";
                          return list_text(
                              list, [](bool v) { return std::string(v ? "true" : "false"); });
                        },
                        [](const std::string& s) { return quoted(s); },
                        [](nacre_dtype d) -> std::string { return nacre_dtype_name(d); },
                        [&](const Keyword& k) { return keyword(k.text); },
                        [](const SubgraphRef& s) { return "@" + name_text(s.name); },
                    },
                    a);
}

// `  # aten.linear.default model.py:41 encoder.fc`; `-` for what is not known.
std::string where_comment(const Provenance& where) {
  const bool placed = !where.file.empty() || where.line != 0;
  if (where.op.empty() && !placed && where.module.empty()) return "";
  const auto part = [](const std::string& s) { return s.empty() ? "-" : name_text(s); };
  std::string out = "  # " + part(where.op);
  if (placed)
    out += " " + part(where.file) + ":" + std::to_string(where.line);
  else if (!where.module.empty())
    out += " -";
  if (!where.module.empty()) out += " " + part(where.module);
  return out;
}

std::string Printer::node_line(const Node& node) const {
  std::string out;
  for (size_t i = 0; i < node.outputs.size(); ++i) out += (i ? ", " : "") + typed(node.outputs[i]);
  if (!node.outputs.empty()) out += " = ";
  out += name_text(node.op) + "(";
  const std::vector<std::string>& operands = operand_names(node.op);
  for (size_t i = 0; i < node.args.size(); ++i) {
    const auto& [name, value] = node.args[i];
    if (i) out += ", ";
    if (i >= operands.size() || name != operands[i]) out += name_text(name) + "=";
    out += argument(value);
  }
  return out + ")" + where_comment(node.where);
}

std::string Printer::whole(int indent) const {
  const std::string blanks(static_cast<size_t>(indent) + 2, ' ');
  std::string out = fmt::format("graph {} {} {{\n", name_text(graph_.name),
                                kLevels[static_cast<size_t>(graph_.level)]);
  const auto limit = [](int64_t v) -> std::string {
    return v == kUnbounded ? "inf" : v == -kUnbounded ? "-inf" : std::to_string(v);
  };
  for (const auto& [name, f] : graph_.symbols) {
    out +=
        fmt::format("{}symbol {}: [{}, {}]", blanks, name, limit(f.range.min), limit(f.range.max));
    if (f.multiple != 1) out += fmt::format(" multiple {}", f.multiple);
    if (f.hint != 0) out += fmt::format(" hint {}", f.hint);
    if (f.below) out += fmt::format(" below ({})", f.below->str());
    out += "\n";
  }
  for (const Expr& e : graph_.assumptions) out += blanks + "assume " + e.str() + "\n";
  for (const auto& [name, sub] : graph_.subgraphs) {
    out += blanks + "subgraph " + name_text(name) + " ";
    out += Printer(sub).whole(indent + 2);
  }
  for (const GraphInput& in : graph_.inputs) {
    out += blanks + "input " + typed(in.value) + " " + kInputKinds[static_cast<size_t>(in.kind)];
    if (!in.target.empty()) out += " " + quoted(in.target);
    out += "\n";
  }
  for (const Node& node : graph_.nodes) out += blanks + node_line(node) + "\n";
  for (const GraphOutput& o : graph_.outputs) {
    out += blanks + "output " + argument(o.value) + " " + kOutputKinds[static_cast<size_t>(o.kind)];
    if (!o.target.empty()) out += " " + quoted(o.target);
    out += "\n";
  }
  return out + std::string(static_cast<size_t>(indent), ' ') + "}\n";
}

// ---- Reading.

// A part of a line, and where it stands.
struct Part {
  std::string_view text;
  size_t column = 0;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Graph whole() {
    if (!next_line()) refuse({line_, 0}, "expected `graph NAME LEVEL {`");
    const std::vector<Part> words = split_words({line_, 0});
    if (words[0].text != "graph") refuse(words[0], "expected `graph NAME LEVEL {`");
    Graph graph = body(words, 0);
    if (next_line()) refuse({line_, 0}, "more text after the graph");
    return graph;
  }

 private:
  using Names = std::unordered_map<std::string, ValueId>;

  [[noreturn]] void refuse(const Part& at, const std::string& why) const {
    fail(ErrorKind::user, "line {}, column {}: {}", number_, at.column + 1, why);
  }

  // The next line that is neither empty nor a comment; its trailing comment goes to comment_.
  bool next_line() {
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      line_ = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++number_;
      comment_ = {};
      if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
      if (const size_t hash = find_top(line_, "#"); hash != std::string_view::npos) {
        comment_ = {line_.substr(hash + 1), hash + 1};
        line_ = line_.substr(0, hash);
      }
      const Part content = trimmed({line_, 0});
      if (content.text.empty() || content.text.starts_with("//")) continue;
      return true;
    }
    return false;
  }

  static Part trimmed(Part p) {
    const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (!p.text.empty() && blank(p.text.front())) {
      p.text.remove_prefix(1);
      ++p.column;
    }
    while (!p.text.empty() && blank(p.text.back())) p.text.remove_suffix(1);
    return p;
  }
  static Part sub(const Part& p, size_t from, size_t count = std::string_view::npos) {
    return {p.text.substr(from, count), p.column + from};
  }

  // The first of `stops` outside quotes and brackets.
  static size_t find_top(std::string_view s, std::string_view stops, size_t from = 0) {
    int depth = 0;
    for (size_t i = from; i < s.size(); ++i) {
      const char c = s[i];
      if (depth == 0 && stops.find(c) != std::string_view::npos) return i;
      if (c == '"') {
        for (++i; i < s.size() && s[i] != '"'; ++i)
          if (s[i] == '\\') ++i;
      } else if (c == '(' || c == '[') {
        ++depth;
      } else if (c == ')' || c == ']') {
        depth = std::max(0, depth - 1);
      }
    }
    return std::string_view::npos;
  }

  static std::vector<Part> split_top(const Part& p, char separator) {
    std::vector<Part> parts;
    if (trimmed(p).text.empty()) return parts;
    size_t from = 0;
    for (;;) {
      const size_t end = find_top(p.text, std::string_view(&separator, 1), from);
      const size_t stop = end == std::string_view::npos ? p.text.size() : end;
      parts.push_back(trimmed(sub(p, from, stop - from)));
      if (end == std::string_view::npos) return parts;
      from = end + 1;
    }
  }

  // Cut at blanks.
  static std::vector<Part> split_words(const Part& p) {
    std::vector<Part> words;
    for (const Part& word : split_top(trimmed(p), ' '))
      if (!word.text.empty()) words.push_back(word);
    return words;
  }

  std::string unquoted(const Part& p) const {
    if (p.text.empty() || p.text[0] != '"') {
      if (!is_bare(p.text)) refuse(p, fmt::format("expected a name, not '{}'", p.text));
      return std::string(p.text);
    }
    if (p.text.size() < 2 || p.text.back() != '"') refuse(p, "a quote that does not end");
    std::string out;
    for (size_t i = 1; i + 1 < p.text.size(); ++i) {
      const char c = p.text[i];
      if (c == '"') refuse(sub(p, i), "text after the end of a quote");
      if (c != '\\') {
        out += c;
        continue;
      }
      if (i + 2 >= p.text.size()) refuse(sub(p, i), "a quote that does not end");
      switch (p.text[++i]) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case 'x': {
          unsigned code = 0;
          const char* first = p.text.data() + i + 1;
          const bool room = i + 3 < p.text.size();
          if (!room || std::from_chars(first, first + 2, code, 16).ptr != first + 2)
            refuse(sub(p, i), "expected two hexadecimal digits");
          out += static_cast<char>(code);
          i += 2;
          break;
        }
        default:
          out += p.text[i];
      }
    }
    return out;
  }

  Expr expression(const Part& p) const {
    try {
      return parse_expr(p.text);
    } catch (const Error& e) {
      if (e.kind != ErrorKind::user) throw;
      refuse(p, e.message);
    }
  }

  int64_t integer(const Part& p) const {
    if (p.text == "inf") return kUnbounded;
    if (p.text == "-inf") return -kUnbounded;
    int64_t v = 0;
    const char* end = p.text.data() + p.text.size();
    if (p.text.empty() || std::from_chars(p.text.data(), end, v).ptr != end)
      refuse(p, fmt::format("expected an integer, not '{}'", p.text));
    return v;
  }

  template <size_t N>
  std::optional<size_t> one_of(const char* const (&names)[N], std::string_view s) const {
    for (size_t i = 0; i < N; ++i)
      if (s == names[i]) return i;
    return std::nullopt;
  }

  // The content of `[...]` that starts at `from`; `from` moves behind it.
  Part bracketed(const Part& p, size_t& from, char open, char close) const {
    if (from >= p.text.size() || p.text[from] != open)
      refuse(sub(p, std::min(from, p.text.size())), fmt::format("expected '{}'", open));
    const size_t end = find_top(p.text, std::string_view(&close, 1), from + 1);
    if (end == std::string_view::npos) refuse(sub(p, from), fmt::format("no '{}' for this", close));
    const Part inside = sub(p, from + 1, end - from - 1);
    from = end + 1;
    return inside;
  }

  std::vector<Expr> expressions(const Part& p) const {
    std::vector<Expr> list;
    for (const Part& part : split_top(p, ',')) list.push_back(expression(part));
    return list;
  }

  // `int(s0)`, `float`, `bool(true)`, `f32[2, s0] strides [s0, 1] offset (4)`; from the start of `p`, gives what follows.
  Part value_type(const Part& whole, Value& value) const {
    const Part p = trimmed(whole);
    size_t at = 0;
    while (at < p.text.size() && is_word_char(p.text[at])) ++at;
    const std::string_view name = p.text.substr(0, at);
    if (at < p.text.size() && p.text[at] == '[') {
      const auto dtype = dtype_named(name);
      if (!dtype) refuse(p, fmt::format("no scalar type '{}'", name));
      value.dtype = *dtype;
      value.shape = expressions(bracketed(p, at, '[', ']'));
      if (p.text.substr(at).starts_with(" strides ")) {
        at += 9;
        const Part list = bracketed(p, at, '[', ']');
        value.strides = expressions(list);
        if (value.strides.size() != value.shape.size())
          refuse(list, fmt::format("{} strides for a tensor of rank {}", value.strides.size(),
                                   value.shape.size()));
      }
      if (p.text.substr(at).starts_with(" offset ")) {
        at += 8;
        value.offset = expression(bracketed(p, at, '(', ')'));
      }
      return sub(p, at);
    }
    if (name == "int") {
      value.kind = ValueKind::integer;
      value.dtype = NACRE_i64;
      value.expr = expression(bracketed(p, at, '(', ')'));
    } else if (name == "float") {
      value.kind = ValueKind::floating;
      value.dtype = NACRE_f64;
      if (p.text.substr(at).starts_with("(")) {
        const Part number = trimmed(bracketed(p, at, '(', ')'));
        value.number = real(number.text);
        if (!value.number)
          refuse(number, fmt::format("expected a floating-point number, not '{}'", number.text));
      }
    } else if (name == "bool") {
      value.kind = ValueKind::boolean;
      value.dtype = NACRE_bool_;
      if (p.text.substr(at).starts_with("(")) {
        const Part truth = trimmed(bracketed(p, at, '(', ')'));
        if (truth.text != "true" && truth.text != "false") refuse(truth, "expected true or false");
        value.number = truth.text == "true";
      }
    } else {
      refuse(p, fmt::format("expected a type, not '{}'", name));
    }
    return sub(p, at);
  }

  // `%x: f32[2]`, adds the value; gives what follows.
  Part definition(const Part& whole, Graph& graph, Names& names, ValueId& id) const {
    const Part p = trimmed(whole);
    const size_t colon = find_top(p.text, ":");
    if (!p.text.starts_with("%") || colon == std::string_view::npos)
      refuse(p, "expected `%name: type`");
    Value value;
    value.name = unquoted(trimmed(sub(p, 1, colon - 1)));
    const Part rest = value_type(sub(p, colon + 1), value);
    if (names.contains(value.name)) refuse(p, fmt::format("%{} is defined twice", value.name));
    const std::string name = value.name;
    id = graph.add_value(std::move(value));
    names[name] = id;
    return rest;
  }

  ValueId use(const Part& p, const Names& names) const {
    if (p.text == "none") return kNoValue;
    if (!p.text.starts_with("%")) refuse(p, fmt::format("expected a value, not '{}'", p.text));
    const std::string name = unquoted(sub(p, 1));
    const auto found = names.find(name);
    if (found == names.end()) refuse(p, fmt::format("%{} is not defined", name));
    return found->second;
  }

  std::optional<double> real(std::string_view s) const {
    if (s == "inf") return INFINITY;
    if (s == "-inf") return -INFINITY;
    if (s == "nan") return NAN;
    const size_t digits = s.starts_with("-") ? 1 : 0;
    if (s.size() <= digits || !std::isdigit(static_cast<unsigned char>(s[digits])) ||
        s.find_first_of(".e") == std::string_view::npos)
      return std::nullopt;
    double v = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (end != s.data() + s.size()) return std::nullopt;
    // Too small for a double is what from_chars reports as out of range, too; the printer writes
    // neither.
    if (error != std::errc()) return std::nullopt;
    return v;
  }

  Argument argument(const Part& whole, const Graph& graph, const Names& names) const {
    const Part p = trimmed(whole);
    const std::string_view s = p.text;
    if (s.empty()) refuse(p, "expected an argument");
    if (s == "none") return std::monostate();
    if (s == "true") return true;
    if (s == "false") return false;
    if (s == "tensors[]") return std::vector<ValueRef>();
    if (s == "floats[]") return std::vector<double>();
    if (s == "bools[]") return std::vector<bool>();
    if (s[0] == '%') return ValueRef{use(p, names)};
    if (s[0] == '@') return SubgraphRef{unquoted(sub(p, 1))};
    if (s[0] == '"') return unquoted(p);
    if (s[0] == '[') return list(p, names);
    if (auto v = real(s)) return *v;
    if (auto dtype = dtype_named(s)) return *dtype;
    if (s.starts_with("keyword(")) {
      size_t at = 7;
      return Keyword{unquoted(trimmed(bracketed(p, at, '(', ')')))};
    }
    if (is_bare_keyword(s) && !graph.symbols.contains(std::string(s)))
      return Keyword{std::string(s)};
    return expression(p);
  }

  Argument list(const Part& p, const Names& names) const {
    size_t at = 0;
    const std::vector<Part> parts = split_top(bracketed(p, at, '[', ']'), ',');
    if (at != p.text.size()) refuse(sub(p, at), "text after a list");
    if (parts.empty()) return std::vector<Expr>();
    const std::string_view first = parts[0].text;
    if (first.starts_with("%") || first == "none") {
      std::vector<ValueRef> values;
      for (const Part& part : parts) values.push_back({use(part, names)});
      return values;
    }
    if (first == "true" || first == "false") {
      std::vector<bool> flags;
      for (const Part& part : parts) {
        if (part.text != "true" && part.text != "false") refuse(part, "expected true or false");
        flags.push_back(part.text == "true");
      }
      return flags;
    }
    if (real(first)) {
      std::vector<double> numbers;
      for (const Part& part : parts) {
        const auto v = real(part.text);
        if (!v) refuse(part, fmt::format("expected a floating-point number, not '{}'", part.text));
        numbers.push_back(*v);
      }
      return numbers;
    }
    std::vector<Expr> sizes;
    for (const Part& part : parts) sizes.push_back(expression(part));
    return sizes;
  }

  // `# OP [FILE:LINE [MODULE]]`; a comment of another form is just a comment.
  Provenance provenance() const {
    const std::vector<Part> words = split_words(comment_);
    if (words.empty() || words.size() > 3) return {};
    const auto is_name = [](const Part& w) {
      return w.text == "-" || w.text[0] == '"' || is_bare(w.text);
    };
    const auto name = [&](const Part& w) { return w.text == "-" ? std::string() : unquoted(w); };
    Provenance where;
    if (!is_name(words[0])) return {};
    where.op = name(words[0]);
    if (words.size() > 1 && words[1].text != "-") {
      const size_t colon = words[1].text.rfind(':');
      if (colon == std::string_view::npos || colon == 0) return {};
      const Part file = sub(words[1], 0, colon), line = sub(words[1], colon + 1);
      const char* end = line.text.data() + line.text.size();
      if (!is_name(file) || line.text.empty() ||
          std::from_chars(line.text.data(), end, where.line).ptr != end)
        return {};
      where.file = name(file);
    }
    if (words.size() > 2) {
      if (!is_name(words[2])) return {};
      where.module = name(words[2]);
    }
    return where;
  }

  void symbol(const Part& p, Graph& graph) const {
    const size_t colon = find_top(p.text, ":");
    if (colon == std::string_view::npos) refuse(p, "expected `symbol NAME: [MIN, MAX]`");
    const Part name = trimmed(sub(p, 0, colon));
    (void)expression(name);
    SymbolFacts facts;
    const Part rest = trimmed(sub(p, colon + 1));
    size_t at = 0;
    const std::vector<Part> limits = split_top(bracketed(rest, at, '[', ']'), ',');
    if (limits.size() != 2) refuse(rest, "expected [MIN, MAX]");
    facts.range = {integer(limits[0]), integer(limits[1])};
    const std::vector<Part> words = split_words(sub(rest, at));
    for (size_t i = 0; i < words.size(); i += 2) {
      if (i + 1 == words.size()) refuse(words[i], "a fact without a value");
      if (words[i].text == "multiple")
        facts.multiple = integer(words[i + 1]);
      else if (words[i].text == "hint")
        facts.hint = integer(words[i + 1]);
      else if (words[i].text == "below")
        facts.below = expression(words[i + 1]);
      else
        refuse(words[i], fmt::format("no fact '{}'", words[i].text));
    }
    if (facts.multiple < 1) refuse(rest, "a multiple below 1");
    if (!graph.symbols.emplace(std::string(name.text), std::move(facts)).second)
      refuse(name, fmt::format("symbol {} is declared twice", name.text));
  }

  void input(const Part& p, Graph& graph, Names& names) const {
    GraphInput in;
    const std::vector<Part> words = split_words(definition(p, graph, names, in.value));
    const auto kind = words.empty() ? std::nullopt : one_of(kInputKinds, words[0].text);
    if (!kind || words.size() > 2) refuse(p, "expected `%name: type KIND \"target\"`");
    in.kind = static_cast<InputKind>(*kind);
    if (words.size() == 2) in.target = unquoted(words[1]);
    graph.inputs.push_back(std::move(in));
  }

  void output(const Part& p, Graph& graph, const Names& names) const {
    const std::vector<Part> words = split_words(p);
    GraphOutput out;
    size_t kind_at = words.empty() ? 0 : words.size() - 1;
    if (words.size() >= 3 && words[kind_at].text[0] == '"') --kind_at;
    const auto kind = words.empty() ? std::nullopt : one_of(kOutputKinds, words[kind_at].text);
    if (!kind || kind_at == 0) refuse(p, "expected `output VALUE KIND \"target\"`");
    out.kind = static_cast<OutputKind>(*kind);
    if (kind_at + 1 < words.size()) out.target = unquoted(words[kind_at + 1]);
    out.value = argument(sub(p, 0, words[kind_at].column - p.column), graph, names);
    graph.outputs.push_back(std::move(out));
  }

  void node(const Part& p, Graph& graph, Names& names) const {
    Node n;
    n.where = provenance();
    // `=` ends the results; one inside the arguments' brackets is not at the top level.
    const size_t equals = find_top(p.text, "=");
    Part call = p;
    std::vector<Part> results;
    if (equals != std::string_view::npos) {
      results = split_top(sub(p, 0, equals), ',');
      if (results.empty()) refuse(p, "no result before '='");
      call = trimmed(sub(p, equals + 1));
    }
    const size_t open = call.text.starts_with("\"")
                            ? call.text.find('(', call.text.find('"', 1) + 1)
                            : call.text.find('(');
    if (open == std::string_view::npos) refuse(call, "expected `OPERATOR(ARGUMENTS)`");
    n.op = unquoted(trimmed(sub(call, 0, open)));
    size_t at = open;
    const std::vector<Part> parts = split_top(bracketed(call, at, '(', ')'), ',');
    if (!trimmed(sub(call, at)).text.empty()) refuse(sub(call, at), "text after the arguments");
    const std::vector<std::string>& operands = operand_names(n.op);
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      const size_t name_end = argument_name_end(part.text);
      if (name_end == 0) {
        if (i >= operands.size())
          refuse(part, fmt::format("argument {} of {} needs a name", i, n.op));
        n.args.emplace_back(operands[i], argument(part, graph, names));
      } else {
        n.args.emplace_back(unquoted(trimmed(sub(part, 0, name_end))),
                            argument(sub(part, name_end + 1), graph, names));
      }
    }
    // Results are defined after the arguments are read: a node cannot use its own.
    for (const Part& part : results) {
      ValueId id = kNoValue;
      if (part.text != "none") {
        const Part rest = definition(part, graph, names, id);
        if (!trimmed(rest).text.empty()) refuse(rest, "text after a type");
      }
      n.outputs.push_back(id);
    }
    graph.nodes.push_back(std::move(n));
  }

  // Where `name=` ends, 0 if there is none. `==`, `<=`, `!=` and `>=` belong to an expression.
  static size_t argument_name_end(std::string_view s) {
    const size_t e = find_top(s, "=");
    if (e == std::string_view::npos || e == 0) return 0;
    if (e + 1 < s.size() && s[e + 1] == '=') return 0;
    if (s[e - 1] == '<' || s[e - 1] == '>' || s[e - 1] == '!') return 0;
    return e;
  }

  // The lines up to the closing brace. `words` is the header: graph NAME LEVEL {
  Graph body(const std::vector<Part>& words, int depth) {
    if (depth > 64) refuse(words[0], "graphs nested too deeply");
    Graph graph;
    if (words.size() != 4 || words[3].text != "{")
      refuse(words[0], "expected `graph NAME LEVEL {`");
    graph.name = unquoted(words[1]);
    const auto level = one_of(kLevels, words[2].text);
    if (!level) refuse(words[2], fmt::format("no level '{}'", words[2].text));
    graph.level = static_cast<Level>(*level);
    Names names;
    while (next_line()) {
      const Part p = trimmed({line_, 0});
      const size_t blank = std::min(p.text.find(' '), p.text.size());
      const std::string_view word = p.text.substr(0, blank);
      const Part rest = trimmed(sub(p, blank));
      if (word == "}") {
        if (!rest.text.empty()) refuse(rest, "text after '}'");
        return graph;
      }
      if (word == "symbol") {
        symbol(rest, graph);
      } else if (word == "assume") {
        graph.assumptions.push_back(expression(rest));
      } else if (word == "input") {
        input(rest, graph, names);
      } else if (word == "output") {
        output(rest, graph, names);
      } else if (word == "subgraph") {
        const std::vector<Part> header = split_words(rest);
        if (header.size() != 5 || header[1].text != "graph")
          refuse(p, "expected `subgraph NAME graph NAME LEVEL {`");
        const std::string name = unquoted(header[0]);
        Graph sub_graph = body({header.begin() + 1, header.end()}, depth + 1);
        if (!graph.subgraphs.emplace(name, std::move(sub_graph)).second)
          refuse(p, fmt::format("subgraph {} is defined twice", name));
      } else {
        node(p, graph, names);
      }
    }
    refuse({line_, line_.size()}, "the graph does not end with '}'");
  }

  std::string_view text_;
  size_t at_ = 0;
  int number_ = 0;
  std::string_view line_;
  Part comment_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).whole(0); }

std::string print(const Graph& graph, const Node& node) { return Printer(graph).node_line(node); }

std::string where_text(const Provenance& where) {
  std::string out = where.file;
  if (!out.empty() && where.line > 0) out += ":" + std::to_string(where.line);
  if (!where.module.empty()) out += (out.empty() ? "" : ", ") + where.module;
  if (where.op.empty()) return out;
  return out.empty() ? where.op : out + " (" + where.op + ")";
}

Graph parse_graph(std::string_view text) { return Reader(text).whole(); }

}  // namespace nacre
