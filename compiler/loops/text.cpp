#include "compiler/loops/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/graph/ops.h"
#include "compiler/graph/text_parts.h"
#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

using namespace text_parts;

constexpr std::pair<BufferKind, std::string_view> kBufferKinds[] = {
    {BufferKind::input, "input"},   {BufferKind::weight, "weight"},       {BufferKind::state, "state"},
    {BufferKind::output, "output"}, {BufferKind::temporary, "temporary"}, {BufferKind::local, "local"}};
constexpr std::pair<ContractionKind, std::string_view> kContractions[] = {
    {ContractionKind::matmul, "matmul"},
    {ContractionKind::conv, "conv"},
    {ContractionKind::conv_transpose, "conv_transpose"},
    {ContractionKind::attention, "attention"},
    {ContractionKind::lstm, "lstm"},
    {ContractionKind::gru, "gru"}};
constexpr std::pair<ControlKind, std::string_view> kControls[] = {
    {ControlKind::if_, "if"},   {ControlKind::else_, "else"}, {ControlKind::loop, "loop"},  {ControlKind::while_, "while"},
    {ControlKind::end, "end"},  {ControlKind::bind, "bind"},  {ControlKind::check, "check"}};
constexpr std::pair<StoreMode, std::string_view> kStoreModes[] = {{StoreMode::assign, ""},
                                                                  {StoreMode::add, "add"},
                                                                  {StoreMode::mul, "mul"},
                                                                  {StoreMode::amax, "amax"},
                                                                  {StoreMode::amin, "amin"}};

template <class Table, class Key>
std::string_view name_in(const Table& table, Key key) {
  for (const auto& [k, name] : table)
    if (k == key) return name;
  fail(ErrorKind::internal, "a value without a name in the text form");
}

class Printer {
 public:
  explicit Printer(const LoopProgram& program) : program_(program) {}

  std::string element(BufferId b, const std::vector<Expr>& at) const {
    return "%" + program_[b].name + list_text(at);
  }

  std::string loops_text(const std::vector<LoopVar>& loops, int reduced = 0) const {
    std::string text;
    for (size_t i = 0; i < loops.size(); ++i) {
      const bool bar = reduced > 0 && i == loops.size() - static_cast<size_t>(reduced);
      if (i) text += bar ? " | " : ", ";
      if (!i && bar) text += "| ";
      text += loops[i].name + ": " + loops[i].extent.str();
    }
    return text;
  }

  std::string scalar(const Scalar& s) const {
    const auto operands = [&] {
      std::string text;
      for (int o : s.operands) text += " " + scalar_symbol(o);
      return text;
    };
    switch (s.op) {
      case ScalarOp::load: {
        std::string text = "load " + element(s.buffer, s.at);
        if (!s.when.empty()) text += " when " + list_text(s.when) + " else" + operands();
        return text;
      }
      case ScalarOp::constant:
        return fmt::format("constant {} {}", number_text(s.number), nacre_dtype_name(s.dtype));
      case ScalarOp::index:
        return fmt::format("index {} {}", nacre_dtype_name(s.dtype), s.expr.str());
      case ScalarOp::pointwise:
        return s.prim + operands();
      case ScalarOp::cast:
        return fmt::format("cast {}{}", s.prim.empty() ? nacre_dtype_name(s.dtype) : s.prim, operands());
      case ScalarOp::check_index:
        return fmt::format("check_index{} {} {}", operands(), s.prim.empty() ? "in" : s.prim, s.expr.str());
      case ScalarOp::reduce:
        return "reduce " + s.prim + operands();
      case ScalarOp::scan:
        return "scan " + s.prim + operands();
      case ScalarOp::accumulator:
        return fmt::format("accumulator {} {}", s.number, nacre_dtype_name(s.dtype));
    }
    fail(ErrorKind::internal, "a scalar of unknown kind");
  }

  void nest(const Nest& n, std::string& out) const {
    out += "    nest";
    if (!n.loops.empty()) out += " " + loops_text(n.loops, n.reduced);
    out += "\n";
    for (size_t i = 0; i < n.code.size(); ++i)
      out += fmt::format("      v{} = {}{}\n", i, scalar(n.code[i]), where_comment(n.code[i].where));
    for (const Store& s : n.stores) {
      const std::string mode(name_in(kStoreModes, s.mode));
      out += fmt::format("      store {}{}{} = v{}\n", mode, mode.empty() ? "" : " ", element(s.buffer, s.at), s.value);
    }
  }

  void contraction(const Contraction& c, std::string& out) const {
    out += fmt::format("    {} {}", name_in(kContractions, c.kind), nacre_dtype_name(c.dtype));
    if (!c.stride.empty())
      out += fmt::format(" stride {} padding {} dilation {} output_padding {} groups {}", list_text(c.stride),
                         list_text(c.padding), list_text(c.dilation), list_text(c.output_padding), c.groups.str());
    if (c.kind == ContractionKind::attention) out += " scale " + number_text(c.scale);
    if (c.causal) out += " causal";
    if (c.reverse) out += " reverse";
    if (c.tf32) out += " tf32";
    out += where_comment(c.where) + "\n";
    out += "      loops " + loops_text(c.loops, c.reduced) + "\n";
    for (size_t i = 0; i < c.operands.size(); ++i) {
      const Operand& o = c.operands[i];
      if (o.buffer < 0) {
        out += "      operand none\n";
        continue;
      }
      out += "      operand " + element(o.buffer, o.at);
      if (i < c.operand_loops.size() && !c.operand_loops[i].empty()) out += " over " + loops_text(c.operand_loops[i]);
      out += "\n";
    }
    for (BufferId b : c.results) out += "      result %" + program_[b].name + "\n";
  }

  void control(const Control& c, std::string& out) const {
    out += "  " + std::string(name_in(kControls, c.kind));
    if (c.kind == ControlKind::bind) out += " " + c.symbol + " =";
    if (c.buffer >= 0) out += " %" + program_[c.buffer].name;
    if (c.kind == ControlKind::check) out += " " + quoted(c.message) + " " + c.condition.str();
    out += where_comment(c.where) + "\n";
  }

  void row_work(const RowWork& w, std::string& out) const {
    const auto names = [&](const std::vector<BufferId>& list) {
      for (BufferId b : list) out += b < 0 ? " none" : " %" + program_[b].name;
    };
    out += "    " + row_work_name(w.kind);
    names(w.inputs);
    out += " to";
    names(w.outputs);
    if (w.descending) out += " descending";
    if (w.inverse) out += " inverse";
    if (w.kind == RowKind::fft) out += " length " + w.length.str();
    if (w.kind == RowKind::import) out += " " + quoted(w.function) + " " + quoted(w.arguments) + where_comment(w.where);
    out += "\n";
  }

  void group(const Group& g, std::string& out) const {
    if (g.control) return control(*g.control, out);
    out += "  group " + g.name + (g.serial ? " serial" : "") + "\n";
    if (!g.outer.empty()) out += "    outer " + loops_text(g.outer) + "\n";
    if (g.contraction) contraction(*g.contraction, out);
    if (g.rows) row_work(*g.rows, out);
    for (const Nest& n : g.nests) nest(n, out);
  }

  std::string whole() const {
    std::string out = "loops " + program_.name + " {\n";
    for (const auto& [name, facts] : program_.symbols) out += "  symbol " + symbol_text(name, facts) + "\n";
    for (const Expr& e : program_.assumptions) out += "  assume " + e.str() + "\n";
    for (const Buffer& b : program_.buffers) {
      out += fmt::format("  buffer %{}: {}{} {}", b.name, nacre_dtype_name(b.dtype), list_text(b.shape),
                         name_in(kBufferKinds, b.kind));
      if (b.index >= 0) out += fmt::format(" {}", b.index);
      if (!b.target.empty()) out += " " + quoted(b.target);
      if (b.complex) out += " complex";
      if (!b.order.empty()) out += fmt::format(" order [{}]", fmt::join(b.order, ", "));
      out += "\n";
    }
    // Groups of a region stand further in.
    std::string blanks;
    for (const Group& g : program_.groups) {
      const auto is = [&](ControlKind kind) { return g.control && g.control->kind == kind; };
      const bool parts = is(ControlKind::else_) || is(ControlKind::while_);
      if (parts || is(ControlKind::end)) blanks.resize(blanks.size() - 2);
      std::string text;
      group(g, text);
      for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at) + 1;
        out += blanks + text.substr(at, end - at);
        at = end;
      }
      if (parts || is(ControlKind::if_) || is(ControlKind::loop)) blanks += "  ";
    }
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      auto number = program_.input_numbers.find(static_cast<int>(i));
      if (program_.inputs[i] >= 0)
        out += "  input %" + program_[program_.inputs[i]].name + "\n";
      else
        out += "  input " + (number == program_.input_numbers.end() ? "none" : "number " + number->second.str()) + "\n";
    }
    for (const LoopProgram::Output& o : program_.outputs) {
      if (o.buffer >= 0)
        out += fmt::format("  output %{}\n", program_[o.buffer].name);
      else
        out += fmt::format("  output {}\n", o.number ? "number " + o.number->str() : std::string("none"));
    }
    for (const LoopProgram::Mutation& m : program_.input_mutations)
      out += fmt::format("  mutation {} from %{}\n", m.input, program_[m.from].name);
    return out + "}\n";
  }

 private:
  const LoopProgram& program_;
};

// ---- Parsing, a line at a time.

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(text) {}

  LoopProgram run() {
    try {
      return whole();
    } catch (const Malformed& malformed) {
      fail(ErrorKind::user, "loop program, line {}, column {}: {}", lines_.number(), malformed.column + 1, malformed.why);
    }
  }

 private:
  LoopProgram whole() {
    if (!next_line() || !take("loops")) refuse("expected `loops NAME {`");
    program_.name = word();
    expect("{");
    end_line();
    while (next_line()) {
      if (take("}")) {
        end_line();
        if (next_line()) refuse("text after the closing brace");
        return std::move(program_);
      }
      line();
    }
    refuse("the closing brace is missing");
  }

  [[noreturn]] void refuse(std::string why) const { text_parts::refuse(here(), std::move(why)); }
  // The rest of the line.
  Part here() const { return text_parts::sub(lines_.line(), std::min(at_, line_.size())); }

  bool next_line() {
    if (!lines_.next()) return false;
    line_ = lines_.line().text;
    at_ = 0;
    where_ = where_of(lines_.comment());  // where a scalar came from
    return true;
  }

  void blanks() {
    while (at_ < line_.size() && line_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    blanks();
    if (line_.substr(at_, token.size()) != token) return false;
    const size_t end = at_ + token.size();
    if (is_word_char(token.back()) && end < line_.size() && is_word_char(line_[end])) return false;
    at_ = end;
    blanks();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse(fmt::format("expected '{}'", token));
  }
  std::string word() {
    blanks();
    const size_t begin = at_;
    while (at_ < line_.size() && is_word_char(line_[at_])) ++at_;
    if (begin == at_) refuse("expected a name");
    std::string w(line_.substr(begin, at_ - begin));
    blanks();
    return w;
  }
  std::string raw_token() {
    blanks();
    const size_t begin = at_;
    while (at_ < line_.size() && line_[at_] != ' ' && line_[at_] != ',' && line_[at_] != ']') ++at_;
    std::string w(line_.substr(begin, at_ - begin));
    blanks();
    return w;
  }
  int64_t integer() {
    const std::string w = raw_token();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), value);
    if (error != std::errc() || end != w.data() + w.size()) refuse("expected an integer");
    return value;
  }
  double real() {
    const std::string w = raw_token();
    char* end = nullptr;
    const double value = std::strtod(w.c_str(), &end);
    if (w.empty() || *end) refuse("expected a number");
    return value;
  }
  void end_line() {
    blanks();
    if (at_ < line_.size()) refuse("unexpected text");
  }
  // The text up to one of `stops` outside parentheses and brackets.
  std::string_view balanced(std::string_view stops) {
    int depth = 0;
    const size_t begin = at_;
    while (at_ < line_.size()) {
      const char c = line_[at_];
      if (depth == 0 && stops.find(c) != std::string_view::npos) break;
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      ++at_;
    }
    return line_.substr(begin, at_ - begin);
  }
  Expr expr(std::string_view text) const { return expression({text, here().column}); }
  std::vector<Expr> exprs() {
    expect("[");
    std::vector<Expr> result;
    if (take("]")) return result;
    do result.push_back(expr(balanced(",]")));
    while (take(","));
    expect("]");
    return result;
  }
  Expr rest() {
    const std::string_view text = line_.substr(at_);
    at_ = line_.size();
    return expr(text);
  }
  nacre_dtype dtype() {
    const std::string name = word();
    if (const auto d = dtype_named(name)) return *d;
    refuse(fmt::format("no scalar type '{}'", name));
  }
  BufferId buffer() {
    expect("%");
    const std::string name = word();
    auto found = buffers_.find(name);
    if (found == buffers_.end()) refuse(fmt::format("no buffer %{}", name));
    return found->second;
  }
  int scalar_ref() {
    const std::string name = word();
    auto i = scalar_of_symbol(name);
    if (!i || *i >= static_cast<int>(nest().code.size())) refuse(fmt::format("no scalar {}", name));
    return *i;
  }
  std::string quoted_text() {
    const Part left = here();
    // It ends at the first blank outside of its quotes.
    const size_t end = std::min(find_top(left.text, " "), left.text.size());
    at_ += end;
    blanks();
    return unquoted(text_parts::sub(left, 0, end));
  }
  // `i0: s0, i1: 10 | i2: 4`: the loops after the bar are reduced.
  std::vector<LoopVar> loops(int* reduced) {
    std::vector<LoopVar> result;
    bool after_bar = false;
    if (take("|")) after_bar = true;
    while (at_ < line_.size()) {
      LoopVar loop;
      loop.name = word();
      expect(":");
      loop.extent = expr(balanced(",|"));
      result.push_back(std::move(loop));
      if (after_bar && reduced) ++*reduced;
      if (take(",")) continue;
      if (reduced && !after_bar && take("|")) {
        after_bar = true;
        continue;
      }
      break;
    }
    return result;
  }

  Group& group() {
    if (program_.groups.empty()) refuse("outside a group");
    return program_.groups.back();
  }
  Nest& nest() {
    if (group().nests.empty()) refuse("outside a nest");
    return group().nests.back();
  }
  Contraction& contraction() {
    if (!group().contraction) refuse("outside a contraction");
    return *group().contraction;
  }

  void line() {
    if (take("symbol")) return symbol();
    if (take("assume")) {
      program_.assumptions.push_back(rest());
      return;
    }
    if (take("buffer")) return declare_buffer();
    if (take("group")) {
      Group g;
      g.name = word();
      g.serial = take("serial");
      end_line();
      program_.groups.push_back(std::move(g));
      return;
    }
    if (take("outer")) {
      group().outer = loops(nullptr);
      return end_line();
    }
    if (take("nest")) {
      group().nests.emplace_back();
      nest().loops = loops(&nest().reduced);
      return end_line();
    }
    if (take("loops")) {
      contraction().loops = loops(&contraction().reduced);
      return end_line();
    }
    if (take("operand")) return operand();
    if (take("result")) {
      contraction().results.push_back(buffer());
      return end_line();
    }
    if (take("store")) return store();
    if (take("input")) {
      if (take("number")) {
        program_.input_numbers[static_cast<int>(program_.inputs.size())] = rest();
        program_.inputs.push_back(-1);
      } else {
        program_.inputs.push_back(take("none") ? -1 : buffer());
      }
      return end_line();
    }
    if (take("output")) {
      LoopProgram::Output o;
      if (take("number"))
        o.number = rest();
      else if (!take("none"))
        o.buffer = buffer();
      program_.outputs.push_back(std::move(o));
      return end_line();
    }
    if (take("mutation")) {
      LoopProgram::Mutation m;
      m.input = static_cast<int>(integer());
      expect("from");
      m.from = buffer();
      program_.input_mutations.push_back(m);
      return end_line();
    }
    for (RowKind kind : {RowKind::sort, RowKind::fft, RowKind::bitcast, RowKind::import})
      if (take(row_work_name(kind))) return row_work(kind);
    for (const auto& [kind, name] : kContractions)
      if (take(name)) return start_contraction(kind);
    for (const auto& [kind, name] : kControls)
      if (take(name)) return control(kind);
    scalar();
  }

  void control(ControlKind kind) {
    Control c;
    c.kind = kind;
    c.where = where_;
    if (kind == ControlKind::bind) {
      c.symbol = word();
      expect("=");
    }
    if (kind == ControlKind::if_ || kind == ControlKind::while_ || kind == ControlKind::bind) c.buffer = buffer();
    if (kind == ControlKind::check) {
      c.message = quoted_text();
      c.condition = rest();
    }
    end_line();
    Group g;
    g.name = unique_name(std::string(name_in(kControls, kind)), control_names_);
    control_names_.insert(g.name);
    g.control = std::move(c);
    program_.groups.push_back(std::move(g));
  }

  void row_work(RowKind kind) {
    RowWork w;
    w.kind = kind;
    const auto buffers = [&](std::vector<BufferId>& list) {
      while (at_ < line_.size() && (line_[at_] == '%' || line_.compare(at_, 4, "none") == 0))
        list.push_back(take("none") ? -1 : buffer());
    };
    buffers(w.inputs);
    expect("to");
    buffers(w.outputs);
    w.descending = take("descending");
    w.inverse = take("inverse");
    if (take("length")) w.length = rest();
    if (kind == RowKind::import) {
      w.function = quoted_text();
      w.arguments = quoted_text();
      w.where = where_;
    }
    group().rows = std::move(w);
    end_line();
  }

  void symbol() {
    if (!program_.symbols.insert(text_parts::symbol(here())).second) refuse("a symbol is declared twice");
    at_ = line_.size();
  }

  void declare_buffer() {
    Buffer b;
    expect("%");
    b.name = word();
    expect(":");
    b.dtype = dtype();
    b.shape = exprs();
    const std::string kind = word();
    bool known = false;
    for (const auto& [k, name] : kBufferKinds)
      if (kind == name) b.kind = k, known = true;
    if (!known) refuse(fmt::format("no kind of buffer '{}'", kind));
    if (at_ < line_.size() && std::isdigit(static_cast<unsigned char>(line_[at_]))) b.index = static_cast<int>(integer());
    if (at_ < line_.size() && line_[at_] == '"') b.target = quoted_text();
    b.complex = take("complex");
    if (take("order")) {
      for (const Expr& e : exprs()) {
        if (!e.constant()) refuse("the order of dims is numbers");
        b.order.push_back(static_cast<int>(*e.constant()));
      }
    }
    end_line();
    if (!buffers_.emplace(b.name, static_cast<BufferId>(program_.buffers.size())).second)
      refuse(fmt::format("two buffers %{}", b.name));
    program_.buffers.push_back(std::move(b));
  }

  void start_contraction(ContractionKind kind) {
    Contraction c;
    c.kind = kind;
    c.dtype = dtype();
    if (take("stride")) {
      c.stride = exprs();
      expect("padding");
      c.padding = exprs();
      expect("dilation");
      c.dilation = exprs();
      expect("output_padding");
      c.output_padding = exprs();
      expect("groups");
      c.groups = rest();
    }
    if (take("scale")) c.scale = real();
    c.causal = take("causal");
    c.reverse = take("reverse");
    c.tf32 = take("tf32");
    c.where = where_;
    end_line();
    group().contraction = std::move(c);
  }

  void operand() {
    Contraction& c = contraction();
    const bool own_loops = c.kind != ContractionKind::matmul && c.kind != ContractionKind::attention;
    Operand o;
    std::vector<LoopVar> over;
    if (!take("none")) {
      o.buffer = buffer();
      o.at = exprs();
      if (take("over")) over = loops(nullptr);
    }
    c.operands.push_back(std::move(o));
    if (own_loops) c.operand_loops.push_back(std::move(over));
    end_line();
  }

  void store() {
    Store s;
    for (const auto& [mode, name] : kStoreModes)
      if (!name.empty() && take(name)) s.mode = mode;
    s.buffer = buffer();
    s.at = exprs();
    expect("=");
    s.value = scalar_ref();
    end_line();
    nest().stores.push_back(std::move(s));
  }

  void operands(Scalar& s) {
    while (at_ < line_.size()) s.operands.push_back(scalar_ref());
  }
  nacre_dtype type_of(int i) { return nest().code[static_cast<size_t>(i)].dtype; }

  void scalar() {
    const std::string name = word();
    if (scalar_of_symbol(name) != static_cast<int>(nest().code.size()))
      refuse(fmt::format("expected v{} or the start of something else", nest().code.size()));
    expect("=");
    Scalar s;
    s.where = where_;
    const std::string op = word();
    if (op == "load") {
      s.op = ScalarOp::load;
      s.buffer = buffer();
      s.dtype = compute_type(program_[s.buffer].dtype);
      s.at = exprs();
      if (take("when")) {
        s.when = exprs();
        expect("else");
        s.operands.push_back(scalar_ref());
      }
    } else if (op == "constant") {
      s.op = ScalarOp::constant;
      s.number = real();
      s.dtype = dtype();
    } else if (op == "index") {
      s.op = ScalarOp::index;
      s.dtype = dtype();
      s.expr = rest();
    } else if (op == "cast") {
      s.op = ScalarOp::cast;
      const nacre_dtype to = dtype();
      s.dtype = compute_type(to);
      if (is_half(to)) s.prim = nacre_dtype_name(to);
      operands(s);
    } else if (op == "check_index") {
      s.op = ScalarOp::check_index;
      s.operands.push_back(scalar_ref());
      s.prim = word();
      if (s.prim == "in") s.prim.clear();
      else if (s.prim != "below") refuse("an index is in an extent, or below it");
      s.expr = rest();
      s.dtype = NACRE_i64;
    } else if (op == "reduce" || op == "scan") {
      s.op = op == "reduce" ? ScalarOp::reduce : ScalarOp::scan;
      s.prim = word();
      const Primitive* p = find_primitive(s.prim);
      if (!p || p->kind != (op == "reduce" ? PrimClass::reduction : PrimClass::scan)) refuse(fmt::format("no {} '{}'", op, s.prim));
      operands(s);
      if (s.operands.size() != 1) refuse(fmt::format("a {} has one operand", op));
      s.dtype = result_dtype(*p, type_of(s.operands[0]));
    } else if (op == "accumulator") {
      s.op = ScalarOp::accumulator;
      s.number = real();
      s.dtype = dtype();
    } else {
      const Primitive* p = find_primitive(op);
      if (!p || p->kind != PrimClass::pointwise) refuse(fmt::format("no scalar operation '{}'", op));
      s.op = ScalarOp::pointwise;
      s.prim = op;
      operands(s);
      if (static_cast<int>(s.operands.size()) != p->arity) refuse(fmt::format("{} has {} operands", op, p->arity));
      s.dtype = result_dtype(*p, type_of(s.operands.back()));
    }
    end_line();
    nest().code.push_back(std::move(s));
  }

  Lines lines_;
  std::string_view line_;
  size_t at_ = 0;
  Provenance where_;
  LoopProgram program_;
  std::map<std::string, BufferId> buffers_;
  std::set<std::string> control_names_;
};

}  // namespace

std::string print(const LoopProgram& program) { return Printer(program).whole(); }

std::string print(const LoopProgram& program, const Group& group) {
  std::string out;
  Printer(program).group(group, out);
  return out;
}

LoopProgram parse_loops(std::string_view text) { return Parser(text).run(); }

}  // namespace nacre
