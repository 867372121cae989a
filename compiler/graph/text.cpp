// Printing is one walk. Reading goes line by line; a line is cut at its top level (outside quotes
// and brackets) into the parts that the grammar names, and each part is read by its first
// characters.
#include "compiler/graph/text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "compiler/graph/ops.h"
#include "compiler/graph/text_parts.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

using namespace text_parts;

constexpr const char* kLevels[] = {"captured", "functional", "primitive"};
constexpr const char* kInputKinds[] = {"user", "parameter", "buffer", "constant"};
constexpr const char* kOutputKinds[] = {"user", "buffer_mutation", "input_mutation"};

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

// The shortest text that reads back as the same double, never like an integer.
std::string double_text(double v) {
  std::string s = number_text(v);
  if (std::isfinite(v) && s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

template <class List, class Text>
std::string each_text(const List& list, Text text) {
  std::string out = "[";
  bool first = true;
  for (const auto& e : list) {
    if (!first) out += ", ";
    first = false;
    out += text(e);
  }
  return out + "]";
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
    std::string out = nacre_dtype_name(v.dtype) + list_text(v.shape);
    if (!v.strides.empty()) out += " strides " + list_text(v.strides);
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
                          return each_text(list, [&](ValueRef v) { return value_name(v.id); });
                        },
                        [&](const Expr& e) { return expression(e); },
                        [&](const std::vector<Expr>& list) {
                          return each_text(list, [&](const Expr& e) { return expression(e); });
                        },
                        [](double v) { return double_text(v); },
                        [](const std::vector<double>& list) -> std::string {
                          return list.empty() ? "floats[]" : each_text(list, double_text);
                        },
                        [](bool v) -> std::string { return v ? "true" : "false"; },
                        [](const std::vector<bool>& list) -> std::string {
                          if (list.empty()) return "bools[]";
                          return each_text(
                              list, [](bool v) { return std::string(v ? "true" : "false"); });
                        },
                        [](const std::string& s) { return quoted(s); },
                        [](nacre_dtype d) -> std::string { return nacre_dtype_name(d); },
                        [&](const Keyword& k) { return keyword(k.text); },
                        [](const SubgraphRef& s) { return "@" + name_text(s.name); },
                        [](const std::complex<double>& v) {
                          return "complex(" + double_text(v.real()) + ", " + double_text(v.imag()) + ")";
                        },
                    },
                    a);
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
  for (const auto& [name, facts] : graph_.symbols)
    out += blanks + "symbol " + symbol_text(name, facts) + "\n";
  for (const Expr& e : graph_.assumptions) out += blanks + "assume " + e.str() + "\n";
  for (const auto& [name, sub] : graph_.subgraphs) {
    out += blanks + "subgraph " + name_text(name) + " ";
    out += Printer(sub).whole(indent + 2);
  }
  for (const GraphInput& in : graph_.inputs) {
    out += blanks + "input " + typed(in.value) + " " + kInputKinds[static_cast<size_t>(in.kind)];
    if (!in.target.empty() || !in.path.empty()) out += " " + quoted(in.target);
    if (!in.path.empty()) out += " " + quoted(in.path);
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

class Reader {
 public:
  explicit Reader(std::string_view text) : lines_(text) {}

  Graph whole() {
    try {
      if (!lines_.next()) refuse(lines_.line(), "expected `graph NAME LEVEL {`");
      const std::vector<Part> words = split_words(lines_.line());
      if (words[0].text != "graph") refuse(words[0], "expected `graph NAME LEVEL {`");
      Graph graph = body(words, 0);
      if (lines_.next()) refuse(lines_.line(), "more text after the graph");
      return graph;
    } catch (const Malformed& malformed) {
      fail(ErrorKind::user, "line {}, column {}: {}", lines_.number(), malformed.column + 1,
           malformed.why);
    }
  }

 private:
  using Names = std::unordered_map<std::string, ValueId>;

  template <size_t N>
  std::optional<size_t> one_of(const char* const (&names)[N], std::string_view s) const {
    for (size_t i = 0; i < N; ++i)
      if (s == names[i]) return i;
    return std::nullopt;
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
    if (s.starts_with("complex(")) {
      size_t at = 7;
      const std::vector<Part> parts = split_top(bracketed(p, at, '(', ')'), ',');
      const auto re = parts.empty() ? std::nullopt : real(parts[0].text);
      const auto im = parts.size() != 2 ? std::nullopt : real(parts[1].text);
      if (!re || !im) refuse(p, "expected complex(REAL, IMAGINARY)");
      return std::complex<double>(*re, *im);
    }
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

  void input(const Part& p, Graph& graph, Names& names) const {
    GraphInput in;
    const std::vector<Part> words = split_words(definition(p, graph, names, in.value));
    const auto kind = words.empty() ? std::nullopt : one_of(kInputKinds, words[0].text);
    if (!kind || words.size() > 3) refuse(p, "expected `%name: type KIND \"target\" \"path\"`");
    in.kind = static_cast<InputKind>(*kind);
    if (words.size() >= 2) in.target = unquoted(words[1]);
    if (words.size() == 3) in.path = unquoted(words[2]);
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
    n.where = where_of(lines_.comment());
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
    while (lines_.next()) {
      const Part p = lines_.line();
      const size_t blank = std::min(p.text.find(' '), p.text.size());
      const std::string_view word = p.text.substr(0, blank);
      const Part rest = trimmed(sub(p, blank));
      if (word == "}") {
        if (!rest.text.empty()) refuse(rest, "text after '}'");
        return graph;
      }
      if (word == "symbol") {
        if (!graph.symbols.insert(symbol(rest)).second) refuse(rest, "a symbol is declared twice");
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
    refuse(lines_.line(), "the graph does not end with '}'");
  }

  Lines lines_;
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
