#include "exporter/pt2_graph.h"

#include <algorithm>
#include <limits>

#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/alias.h"
#include "exporter/aten.h"

namespace nacre {

using nlohmann::json;

nacre_dtype read_dtype(const json& number) {
  switch (number.get<int>()) {  // the schema's own numbering
    case 1:
      return NACRE_u8;
    case 2:
      return NACRE_i8;
    case 3:
      return NACRE_i16;
    case 4:
      return NACRE_i32;
    case 5:
      return NACRE_i64;
    case 6:
      return NACRE_f16;
    case 7:
      return NACRE_f32;
    case 8:
      return NACRE_f64;
    case 10:
      return NACRE_c64;
    case 11:
      return NACRE_c128;
    case 12:
      return NACRE_bool_;
    case 13:
      return NACRE_bf16;
    case 28:
      return NACRE_u16;
    case 34:
      return NACRE_u32;
    case 35:
      return NACRE_u64;
    case 9:
      fail(ErrorKind::unsupported, "tensors of type complex32 are not supported");
    case 29:
    case 30:
    case 31:
    case 32:
    case 33:
      fail(ErrorKind::unsupported, "tensors of 8-bit floating types are not supported");
    default:
      fail(ErrorKind::user, "the program has a tensor of the unknown type {}", number.dump());
  }
}

namespace {

// The one member of a union of the schema.
std::pair<std::string, const json*> tagged(const json& u) {
  if (!u.is_object() || u.size() != 1)
    fail(ErrorKind::user, "the program is malformed: a union has {} members", u.size());
  return {u.begin().key(), &u.begin().value()};
}

double read_double(const json& j) {
  if (j.is_string()) {
    std::string text = j.get<std::string>();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return j.get<double>();
}

Expr contiguous_step(const std::vector<Expr>& shape, size_t dim) {
  Expr step(1);
  for (size_t i = dim + 1; i < shape.size(); ++i) step *= shape[i];
  return step;
}

// Whether strides say no more than the shape does, for the symbols' hints.
bool is_contiguous(const Value& v, const Facts& facts) {
  std::map<std::string, int64_t> hints;
  for (const auto& [name, known] : facts)
    hints[name] = known.hint != 0 ? known.hint : std::max<int64_t>(known.range.min, 3);
  for (size_t i = 0; i < v.shape.size(); ++i) {
    if (v.shape[i].is(1)) continue;
    Expr step = contiguous_step(v.shape, i);
    if (v.strides[i] == step) continue;
    // Steps of tensors with a size of 0 are written with max(1, size).
    auto actual = v.strides[i].evaluate(hints), expected = step.evaluate(hints);
    if (!actual || !expected || *actual != *expected) return false;
  }
  return true;
}

Value read_tensor(const json& meta, const std::string& name, SymbolTable& symbols) {
  Value v;
  v.name = name;
  v.dtype = read_dtype(meta.at("dtype"));
  if (meta.at("layout").get<int>() != 7)
    fail(ErrorKind::unsupported, "%{} is a sparse tensor", name);
  for (const json& size : meta.at("sizes")) {
    v.shape.push_back(symbols.integer(size));
    if (v.shape.back().constant().value_or(0) < 0)
      fail(ErrorKind::user, "%{} has a negative size", name);
  }
  for (const json& stride : meta.at("strides")) v.strides.push_back(symbols.integer(stride));
  v.offset = symbols.integer(meta.at("storage_offset"));
  if (v.strides.size() != v.shape.size())
    fail(ErrorKind::user, "%{} has {} sizes and {} strides", name, v.shape.size(),
         v.strides.size());
  if (is_contiguous(v, symbols.facts)) v.strides.clear();
  return v;
}

// `File "/home/me/model.py", line 41, in forward`: the innermost frame outside PyTorch.
void read_stack(const std::string& trace, Provenance& where) {
  bool user_frame = false;
  size_t at = 0;
  while ((at = trace.find("File \"", at)) != std::string::npos) {
    at += 6;
    size_t quote = trace.find('"', at);
    if (quote == std::string::npos) return;
    std::string path = trace.substr(at, quote - at);
    int line = 0;
    if (trace.compare(quote, 8, "\", line ") == 0) line = std::atoi(trace.c_str() + quote + 8);
    at = quote;
    bool internal = path.starts_with("torch/") ||
                    path.find("-packages/torch/") != std::string::npos ||
                    path.find("/torch/nn/") != std::string::npos ||
                    path.find("/torch/_") != std::string::npos || path.starts_with("<");
    if (internal && (user_frame || !where.file.empty())) continue;
    if (!internal) user_frame = true;
    size_t slash = path.find_last_of("/\\");
    where.file = slash == std::string::npos ? path : path.substr(slash + 1);
    where.line = line;
  }
}

Provenance read_provenance(const json& node, const std::string& op) {
  Provenance where;
  where.op = op;
  const json& metadata = node.at("metadata");
  if (auto trace = metadata.find("stack_trace"); trace != metadata.end())
    read_stack(trace->get<std::string>(), where);
  if (auto stack = metadata.find("nn_module_stack"); stack != metadata.end()) {
    // `key,path,type;key,path,type`: the innermost path.
    std::string text = stack->get<std::string>();
    size_t last = text.rfind(';');
    if (last != std::string::npos) text.erase(0, last + 1);
    size_t first = text.find(','),
           second = first == std::string::npos ? first : text.find(',', first + 1);
    if (second != std::string::npos) where.module = text.substr(first + 1, second - first - 1);
    if (where.module.starts_with("_empty_nn_module_stack")) where.module.clear();
    if (size_t call = where.module.rfind('@'); call != std::string::npos) where.module.erase(call);
  }
  return where;
}

constexpr std::string_view kOperator = "torch.ops.", kHigherOrder = "torch.ops.higher_order.";

struct Operators {
  const char* name;
  std::vector<const char*>
      arguments;  // of the positional arguments; a graph's name ends in `_graph`
};

const std::vector<Operators>& kept_higher_order() {
  static const std::vector<Operators> table = {
      {"cond", {"predicate", "true_graph", "false_graph", "operands"}},
      {"while_loop", {"cond_graph", "body_graph", "carried_inputs", "additional_inputs"}},
      {"scan", {"combine_graph", "init", "xs", "additional_inputs"}},
      {"associative_scan", {"combine_graph", "xs", "additional_inputs"}},
      {"map_impl", {"body_graph", "xs", "pos_args"}},
  };
  return table;
}

// Where the body and its operands stand among the arguments of wrappers that do not change what is
// computed.
struct Wrapper {
  const char* name;
  size_t graph;
  size_t first_operand;
};
constexpr Wrapper kWrappers[] = {
    {"wrap_with_set_grad_enabled", 1, 2},
    {"wrap_with_autocast", 4, 5},
    {"tag_activation_checkpoint", 0, 1},
    {"wrap_activation_checkpoint", 0, 1},
    {"invoke_subgraph", 0, 2},
    {"wrap", 0, 1},
    {"strict_mode", 0, 1},
};

class Reader {
 public:
  Reader(const json& file_graph, Graph& graph, Names& names, SymbolTable& symbols,
         std::set<std::string>& defined)
      : file_(file_graph), graph_(graph), names_(names), symbols_(symbols), defined_(defined) {}

  std::vector<Argument> run() {
    for (const json& node : file_.at("nodes")) read_node(node);
    std::vector<Argument> outputs;
    for (const json& output : file_.at("outputs")) outputs.push_back(argument(output));
    return outputs;
  }

  Argument argument(const json& j);

 private:
  [[noreturn]] void unsupported(std::string_view what) const {
    fail_at(ErrorKind::unsupported, where_text(where_), "{} has an argument of type {}", where_.op,
            what);
  }
  const Argument& lookup(const std::string& name) const {
    auto found = names_.find(name);
    if (found == names_.end())
      fail(ErrorKind::user, "the program is malformed: %{} is used before it is defined", name);
    return found->second;
  }
  Argument list(const json& names, bool optional);
  void read_node(const json& node);
  void read_size(const json& node, const std::string& target);
  void read_higher_order(const json& node, const std::string& name);
  void read_with_effects(const json& node);
  void read_functionalized(const json& node);
  void inline_body(const json& node, const Wrapper& wrapper);
  void add_node(Node node, const json& outputs);
  void add_library_node(Node node, const json& outputs);
  ValueId add_output(const json& output);
  ValueId define(const std::string& name, Value value);
  ValueId as_value(const Argument& a, const std::string& name);

  const json& file_;
  Graph& graph_;
  Names& names_;
  SymbolTable& symbols_;
  std::set<std::string>& defined_;
  Provenance where_;
};

// A list of values if all are; of numbers if all are.
Argument Reader::list(const json& items, bool optional) {
  std::vector<Argument> members;
  for (const json& item : items) {
    if (optional) {
      auto [tag, value] = tagged(item);
      members.push_back(tag == "as_none" ? Argument(ValueRef{})
                                         : lookup(value->at("name").get<std::string>()));
    } else {
      members.push_back(lookup(item.at("name").get<std::string>()));
    }
  }
  bool numbers = !members.empty() &&
                 std::all_of(members.begin(), members.end(),
                             [](const Argument& a) { return std::holds_alternative<Expr>(a); });
  if (numbers) {
    std::vector<Expr> result;
    for (const Argument& a : members) result.push_back(std::get<Expr>(a));
    return result;
  }
  std::vector<ValueRef> result;
  for (const Argument& a : members) {
    if (auto* v = std::get_if<ValueRef>(&a)) {
      result.push_back(*v);
    } else {
      result.push_back({as_value(a, "number")});
    }
  }
  return result;
}

// A number known at compile time as a value, for the few places that take only values.
ValueId Reader::as_value(const Argument& a, const std::string& name) {
  if (auto* v = std::get_if<ValueRef>(&a)) return v->id;
  Value value;
  value.name = name;
  if (auto* e = std::get_if<Expr>(&a)) {
    value.kind = ValueKind::integer;
    value.dtype = NACRE_i64;
    value.expr = *e;
  } else if (std::holds_alternative<double>(a)) {
    value.kind = ValueKind::floating;
    value.dtype = NACRE_f64;
  } else if (std::holds_alternative<bool>(a)) {
    value.kind = ValueKind::boolean;
    value.dtype = NACRE_bool_;
  } else {
    unsupported("list with None");
  }
  Node node;
  node.op = "sym.number";
  node.args.emplace_back("a", a);
  node.where = where_;
  node.outputs = {graph_.add_value(std::move(value))};
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs[0];
}

Argument Reader::argument(const json& j) {
  auto [tag, pointer] = tagged(j);
  const json& v = *pointer;
  auto number = [&](const json& u) -> Argument {  // SymIntArgument and its like
    auto [kind, value] = tagged(u);
    if (kind == "as_name") return lookup(value->get<std::string>());
    if (kind == "as_int") return Expr(value->get<int64_t>());
    if (kind == "as_bool") return value->get<bool>();
    return read_double(*value);
  };
  if (tag == "as_none") return std::monostate{};
  if (tag == "as_tensor") return lookup(v.at("name").get<std::string>());
  if (tag == "as_tensors") return list(v, false);
  if (tag == "as_optional_tensors") return list(v, true);
  if (tag == "as_optional_tensor") {
    auto [kind, value] = tagged(v);
    if (kind == "as_none") return std::monostate{};
    return lookup(value->at("name").get<std::string>());
  }
  if (tag == "as_int") return Expr(v.get<int64_t>());
  if (tag == "as_ints") {
    std::vector<Expr> result;
    for (const json& n : v) result.emplace_back(n.get<int64_t>());
    return result;
  }
  if (tag == "as_float") return read_double(v);
  if (tag == "as_complex") return std::complex<double>(read_double(v.at("real")), read_double(v.at("imag")));
  if (tag == "as_floats") {
    std::vector<double> result;
    for (const json& n : v) result.push_back(read_double(n));
    return result;
  }
  if (tag == "as_bool") return v.get<bool>();
  if (tag == "as_bools") return v.get<std::vector<bool>>();
  if (tag == "as_string") return v.get<std::string>();
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") return number(v);
  if (tag == "as_sym_ints" || tag == "as_sym_floats" || tag == "as_sym_bools") {
    std::vector<Argument> members;
    for (const json& n : v) members.push_back(number(n));
    auto all = [&](auto holds) { return std::all_of(members.begin(), members.end(), holds); };
    if (all([](const Argument& a) { return std::holds_alternative<Expr>(a); })) {
      std::vector<Expr> result;
      for (const Argument& a : members) result.push_back(std::get<Expr>(a));
      return result;
    }
    if (all([](const Argument& a) { return std::holds_alternative<double>(a); })) {
      std::vector<double> result;
      for (const Argument& a : members) result.push_back(std::get<double>(a));
      return result;
    }
    std::vector<ValueRef> result;
    for (const Argument& a : members) result.push_back({as_value(a, "number")});
    return result;
  }
  if (tag == "as_scalar_type") return read_dtype(v);
  if (tag == "as_memory_format") {
    static const char* const formats[] = {"", "contiguous_format", "channels_last",
                                          "channels_last_3d", "preserve_format"};
    int format = v.get<int>();
    if (format < 1 || format > 4) fail(ErrorKind::user, "the program has an unknown memory format");
    return Keyword{formats[format]};
  }
  if (tag == "as_layout") {
    if (v.get<int>() != 7)
      fail_at(ErrorKind::unsupported, where_text(where_), "{} makes a sparse tensor", where_.op);
    return Keyword{"strided"};
  }
  if (tag == "as_device")
    return Keyword{"cpu"};  // the artifact's own device, whatever the model was exported on
  unsupported(tag.starts_with("as_") ? tag.substr(3) : tag);
}

ValueId Reader::define(const std::string& name, Value value) {
  value.name = name;
  for (const Expr& e : value.shape) defined_.merge(e.symbols());
  if (value.kind == ValueKind::integer) defined_.merge(value.expr.symbols());
  ValueId id = graph_.add_value(std::move(value));
  names_[name] = ValueRef{id};
  return id;
}

// A number of a node that stays.
ValueId Reader::add_output(const json& output) {
  auto [tag, v] = tagged(output);
  if (tag == "as_none") return kNoValue;
  if (tag == "as_tensor") {
    std::string name = v->at("name").get<std::string>();
    return define(name, read_tensor(file_.at("tensor_values").at(name), name, symbols_));
  }
  if (tag == "as_optional_tensor") {
    auto [kind, value] = tagged(*v);
    if (kind == "as_none") return kNoValue;
    std::string name = value->at("name").get<std::string>();
    return define(name, read_tensor(file_.at("tensor_values").at(name), name, symbols_));
  }
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") {
    auto [kind, text] = tagged(*v);
    if (kind != "as_name") return kNoValue;  // a constant, which nothing refers to by name
    std::string name = text->get<std::string>();
    Value value;
    if (tag == "as_sym_int") {
      value.kind = ValueKind::integer;
      value.dtype = NACRE_i64;
      value.expr = symbols_.integer(file_.at("sym_int_values").at(name));
    } else {
      value.kind = tag == "as_sym_float" ? ValueKind::floating : ValueKind::boolean;
      value.dtype = tag == "as_sym_float" ? NACRE_f64 : NACRE_bool_;
    }
    return define(name, std::move(value));
  }
  if (tag == "as_int" || tag == "as_bool" || tag == "as_float") return kNoValue;
  fail_at(ErrorKind::unsupported, where_text(where_), "{} returns something of type {}", where_.op,
          tag.substr(3));
}

// An operator of torch.library. What it changes, its schema says, which the program does not hold.
void Reader::add_library_node(Node node, const json& outputs) {
  const std::string op = node.op;
  node.op = std::string(kLibrary) + op;
  for (size_t i = 0; i < node.args.size(); ++i)  // `with_effects` has no names
    if (node.args[i].first.empty()) node.args[i].first = std::to_string(i);
  add_node(std::move(node), outputs);
  const std::vector<ValueId>& made = graph_.nodes.back().outputs;
  if (std::all_of(made.begin(), made.end(), [](ValueId v) { return v == kNoValue; })) {
    fail_at(ErrorKind::unsupported, where_text(where_),
            "{} has no result, so it must change its arguments: save the program after "
            "run_decompositions(), which makes results of what it changes",
            op);
  }
}

// `auto_functionalized_v2(operator, factor=2.0, _x_base_index=0, _all_bases=[%a])` -> the operator's
// results, then the new contents of each base. The arguments that it changes come last.
void Reader::read_functionalized(const json& node) {
  Node result;
  std::vector<ValueRef> bases;
  std::vector<std::pair<std::string, int64_t>> written;
  for (const json& input : node.at("inputs")) {
    std::string name = input.at("name").get<std::string>();
    const json& arg = input.at("arg");
    if (arg.contains("as_operator")) {
      result.op = arg.at("as_operator").get<std::string>();
      if (result.op.starts_with(kOperator)) result.op.erase(0, kOperator.size());
      continue;
    }
    Argument given = argument(arg);
    if (name == "_all_bases") {
      if (auto* list = std::get_if<std::vector<ValueRef>>(&given)) bases = std::move(*list);
    } else if (name.starts_with("_") && name.ends_with("_base_index")) {
      auto* index = std::get_if<Expr>(&given);
      if (index != nullptr && index->constant())
        written.emplace_back(name.substr(1, name.size() - 12), *index->constant());
    } else {
      result.args.emplace_back(name, std::move(given));
    }
  }
  std::set<int64_t> seen;
  bool plain = !result.op.empty() && is_custom(result.op);
  for (const auto& [name, base] : written) {
    plain &= base >= 0 && base < static_cast<int64_t>(bases.size()) && seen.insert(base).second;
    const auto describes = [&](const auto& a) { return a.first.starts_with("_" + name + "_"); };
    plain &= std::none_of(result.args.begin(), result.args.end(), describes);
    if (plain) result.args.emplace_back(name, bases[static_cast<size_t>(base)]);
  }
  if (!plain || seen.size() != bases.size()) {
    fail_at(ErrorKind::unsupported, where_text(where_),
            "{} changes a part of a tensor, or one tensor twice", result.op);
  }
  where_.op = result.op;
  add_library_node(std::move(result), node.at("outputs"));
}

void Reader::add_node(Node node, const json& outputs) {
  node.where = where_;
  for (const json& output : outputs) {
    auto [tag, v] = tagged(output);
    if (tag == "as_tensors") {
      for (const json& t : *v) node.outputs.push_back(add_output(json::object({{"as_tensor", t}})));
    } else {
      node.outputs.push_back(add_output(output));
    }
  }
  graph_.nodes.push_back(std::move(node));
}

void Reader::read_node(const json& node) {
  std::string target = node.at("target").get<std::string>();
  bool is_operator = target.starts_with(kOperator);
  where_ = read_provenance(node, is_operator ? target.substr(kOperator.size()) : target);
  if (target.starts_with(kHigherOrder)) {
    read_higher_order(node, target.substr(kHigherOrder.size()));
    return;
  }
  const json& outputs = node.at("outputs");
  if (outputs.size() == 1) {
    std::string tag = tagged(outputs[0]).first;
    if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float") {
      read_size(node, target);
      return;
    }
  }
  if (!is_operator) {
    // `math.trunc` and its like of constants, and what torch.vmap leaves in a program until it is decomposed.
    fail_at(ErrorKind::unsupported, where_text(where_), "the function {}: call run_decompositions() before the program is saved", target);
  }
  Node result;
  result.op = target.substr(kOperator.size());
  for (const json& input : node.at("inputs"))
    result.args.emplace_back(input.at("name").get<std::string>(), argument(input.at("arg")));
  std::string_view op = result.op;
  if (op.starts_with("aten.sym_constrain_range")) {  // bounds of a number that depends on data
    const Argument* size = result.find("size");
    if (size == nullptr) size = result.find("self");
    auto* e = size == nullptr ? nullptr : std::get_if<Expr>(size);
    if (e == nullptr) return;
    std::vector<Expr> bounds;
    if (const Argument* min = result.find("min");
        min != nullptr && std::holds_alternative<Expr>(*min))
      bounds.push_back(Expr::make(ExprOp::le, {std::get<Expr>(*min), *e}));
    else if (op.starts_with("aten.sym_constrain_range_for_size"))
      bounds.push_back(Expr::make(ExprOp::le, {Expr(0), *e}));
    if (const Argument* max = result.find("max");
        max != nullptr && std::holds_alternative<Expr>(*max))
      bounds.push_back(Expr::make(ExprOp::le, {*e, std::get<Expr>(*max)}));
    if (bounds.empty()) return;
    std::string message = fmt::format("{} is out of its range", e->str());
    result.op = "aten._assert_scalar.default";
    result.args = {{"self", Expr::make(ExprOp::and_, bounds)}, {"assert_msg", std::move(message)}};
  }
  if (result.op == "aten._assert_scalar.default") {
    const Argument* condition = result.find("self");
    if (auto* e = condition == nullptr ? nullptr : std::get_if<Expr>(condition)) {
      // What is known without the ranges that such checks gave.
      Facts natural = symbols_.facts;
      bool of_inputs = true;
      for (const std::string& s : e->symbols()) {
        bool from_data = s[0] == 'u';
        of_inputs &= !from_data;
        if (from_data) natural[s].range = {-kUnbounded, kUnbounded};
      }
      if (symbols_.proves(*e, natural)) return;
      if (of_inputs) {
        symbols_.assume(*e);
        return;
      }
    }
  }
  if (is_custom(result.op)) return add_library_node(std::move(result), outputs);
  add_node(std::move(result), outputs);
}

// A node that makes a number: vanishes if the number is an expression of symbols that have values.
void Reader::read_size(const json& node, const std::string& target) {
  auto [tag, v] = tagged(node.at("outputs")[0]);
  auto [kind, text] = tagged(*v);
  if (kind != "as_name") return;
  std::string name = text->get<std::string>();
  std::optional<Argument> known;
  if (tag == "as_sym_int") {
    Expr e = symbols_.integer(file_.at("sym_int_values").at(name));
    bool defined = true;
    for (const std::string& s : e.symbols()) defined &= defined_.count(s) != 0;
    if (defined) known = e;
  } else if (tag == "as_sym_bool") {
    if (auto e = symbols_.boolean(file_.at("sym_bool_values").at(name))) {
      bool defined = true;
      for (const std::string& s : e->symbols()) defined &= defined_.count(s) != 0;
      if (defined) known = *e;
    }
  } else {
    const json& value = file_.at("sym_float_values").at(name);
    if (value.contains("as_float")) known = read_double(value.at("as_float"));
  }
  if (known) {
    names_[name] = *known;
    return;
  }
  Node result;
  if (target.starts_with("torch.ops.")) {
    result.op = target.substr(10);
  } else {  // `_operator.mul`, `torch.sym_float`, `math.trunc`
    std::string function = target.substr(target.rfind('.') + 1);
    for (std::string_view prefix : {"_sym_", "sym_"})
      if (function.starts_with(prefix)) function.erase(0, prefix.size());
    result.op = "sym." + function;
  }
  for (const json& input : node.at("inputs"))
    result.args.emplace_back(input.at("name").get<std::string>(), argument(input.at("arg")));
  add_node(std::move(result), node.at("outputs"));
}

void Reader::inline_body(const json& node, const Wrapper& wrapper) {
  const json& inputs = node.at("inputs");
  auto malformed = [&] {
    fail(ErrorKind::user, "the program is malformed: {} lacks its body or its arguments",
         where_.op);
  };
  std::vector<const json*> positional;
  for (const json& input : inputs) positional.push_back(&input.at("arg"));
  if (positional.size() <= wrapper.graph || !positional[wrapper.graph]->contains("as_graph"))
    malformed();
  const json& body = positional[wrapper.graph]->at("as_graph").at("graph");
  if (std::string_view(wrapper.name) == "wrap_with_autocast") {
    const json* enabled = positional[2];
    if (enabled->contains("as_bool") && enabled->at("as_bool").get<bool>())
      fail_at(ErrorKind::unsupported, where_text(where_),
              "automatic mixed precision: export the model without autocast, or convert it");
  }
  std::vector<Argument> operands;
  for (size_t i = wrapper.first_operand;
       i < positional.size() && operands.size() < body.at("inputs").size(); ++i) {
    Argument a = argument(*positional[i]);
    if (auto* many = std::get_if<std::vector<ValueRef>>(&a)) {
      for (ValueRef r : *many) operands.emplace_back(r);
    } else {
      operands.push_back(std::move(a));
    }
  }
  if (operands.size() != body.at("inputs").size()) malformed();
  Names inner;
  for (size_t i = 0; i < operands.size(); ++i) {
    auto [tag, v] = tagged(body.at("inputs")[i]);
    if (tag == "as_tensor") {
      inner[v->at("name").get<std::string>()] = operands[i];
    } else if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float") {
      auto [kind, text] = tagged(*v);
      if (kind == "as_name") inner[text->get<std::string>()] = operands[i];
    }
  }
  std::vector<Argument> results = read_nodes(body, graph_, inner, symbols_, defined_);
  size_t next = 0;
  auto bind = [&](const std::string& name) {
    if (next < results.size()) names_[name] = results[next];
    ++next;
  };
  for (const json& output : node.at("outputs")) {
    auto [tag, v] = tagged(output);
    if (tag == "as_tensor") {
      bind(v->at("name").get<std::string>());
    } else if (tag == "as_tensors") {
      for (const json& t : *v) bind(t.at("name").get<std::string>());
    } else if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float") {
      auto [kind, text] = tagged(*v);
      if (kind == "as_name") {
        bind(text->get<std::string>());
      } else {
        ++next;
      }
    } else {
      ++next;
    }
  }
  if (next > results.size()) malformed();
}

// `with_effects(token, operator, arguments...)` -> token, results...: run_decompositions() strings calls that only check or
// print on a token. The graph has an order anyway, so the call stands for itself.
void Reader::read_with_effects(const json& node) {
  json call = node;
  json &inputs = call.at("inputs"), &outputs = call.at("outputs");
  if (inputs.size() < 2 || outputs.empty() || !inputs[1].at("arg").contains("as_operator"))
    fail(ErrorKind::user, "the program is malformed: {} lacks its operator", where_.op);
  const std::string target = inputs[1].at("arg").at("as_operator").get<std::string>();
  if (auto token = outputs[0].find("as_tensor"); token != outputs[0].end()) names_[token->at("name").get<std::string>()] = Argument();
  inputs.erase(inputs.begin(), inputs.begin() + 2);
  outputs.erase(outputs.begin());
  if (outputs.size() == 1 && outputs[0].contains("as_none")) outputs.clear();
  const auto known = target.starts_with(kOperator) ? aten::find_operator(target.substr(kOperator.size())) : std::nullopt;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].at("name").get<std::string>().empty() && known && i < known->schema().arguments().size())
      inputs[i]["name"] = known->schema().arguments()[i].name();
  call["target"] = target;
  read_node(call);
}

void Reader::read_higher_order(const json& node, const std::string& name) {
  if (name == "with_effects") return read_with_effects(node);
  for (const Wrapper& wrapper : kWrappers) {
    if (name == wrapper.name) {
      inline_body(node, wrapper);
      return;
    }
  }
  if (name == "auto_functionalized_v2") return read_functionalized(node);
  const auto& table = kept_higher_order();
  auto found =
      std::find_if(table.begin(), table.end(), [&](const Operators& o) { return name == o.name; });
  if (found == table.end())
    fail_at(ErrorKind::unsupported, where_text(where_), "the higher-order operator {}", name);

  Node result;
  result.op = "higher_order." + name;
  result.where = where_;
  std::vector<std::pair<std::string, const json*>> bodies;
  std::vector<Argument> operands;  // of the bodies, in order
  std::vector<std::pair<std::string, std::vector<Argument>>> lists;
  size_t position = 0;
  for (const json& input : node.at("inputs")) {
    std::string given = input.at("name").get<std::string>();
    std::string key = given;
    if (given.empty()) {
      if (position >= found->arguments.size())
        fail(ErrorKind::user, "the program is malformed: {} has too many arguments", where_.op);
      key = found->arguments[position++];
    } else if (std::find(found->arguments.begin(), found->arguments.end(), given) ==
               found->arguments.end()) {
      continue;  // hints for PyTorch's own compiler
    }
    const json& arg = input.at("arg");
    if (arg.contains("as_graph")) {
      std::string graph_name = arg.at("as_graph").at("name").get<std::string>();
      bodies.emplace_back(graph_name, &arg.at("as_graph").at("graph"));
      result.args.emplace_back(key, SubgraphRef{graph_name});
      continue;
    }
    if (key == "predicate") {
      result.args.emplace_back(key, argument(arg));
      continue;
    }
    std::vector<Argument> members;
    auto [tag, v] = tagged(arg);
    if (tag == "as_tensors") {
      for (const json& t : *v) members.push_back(lookup(t.at("name").get<std::string>()));
    } else if (tag == "as_sym_ints") {
      for (const json& n : *v) members.push_back(argument(json::object({{"as_sym_int", n}})));
    } else if (tag == "as_ints") {
      for (const json& n : *v) members.push_back(Expr(n.get<int64_t>()));
    } else {
      Argument a = argument(arg);
      if (!std::holds_alternative<std::monostate>(a)) members.push_back(std::move(a));
    }
    operands.insert(operands.end(), members.begin(), members.end());
    lists.emplace_back(key, std::move(members));
  }
  if (bodies.empty()) fail(ErrorKind::user, "the program is malformed: {} has no body", where_.op);

  // Numbers that the bodies name by the same expression need not be handed over, unless a loop
  // carries them.
  const bool loops = name == "while_loop" || name == "scan" || name == "associative_scan";
  const size_t carried = loops && !lists.empty() ? lists[0].second.size() : 0;
  // The body takes what is made so far before the next rows.
  const size_t before = name == "associative_scan" ? carried : 0;
  if (before > 0) {
    const std::vector<Argument> rows = lists[0].second;
    operands.insert(operands.begin(), rows.begin(), rows.end());
  }
  std::vector<bool> handed(operands.size(), true);
  for (size_t i = carried; i < operands.size(); ++i) {
    auto* e = std::get_if<Expr>(&operands[i]);
    if (e == nullptr) continue;
    bool same = true;
    for (const auto& [graph_name, body] : bodies) {
      const json& inputs = body->at("inputs");
      if (i >= inputs.size()) continue;
      auto [tag, v] = tagged(inputs[i]);
      if (tag == "as_int") continue;
      if (tag != "as_sym_int") {
        same = false;
        continue;
      }
      auto [kind, text] = tagged(*v);
      if (kind == "as_name")
        same &= symbols_.integer(body->at("sym_int_values").at(text->get<std::string>())) == *e;
    }
    handed[i] = !same;
  }
  size_t index = before;
  for (auto& [key, members] : lists) {
    std::vector<ValueRef> refs;
    for (const Argument& member : members) {
      if (handed[index++]) refs.push_back({as_value(member, "number")});
    }
    result.args.emplace_back(key, std::move(refs));
  }
  for (const auto& [graph_name, body] : bodies) {
    Graph sub;
    sub.level = Level::captured;
    sub.name = graph_name;
    Names inner;
    std::set<std::string> defined = defined_;
    const json& inputs = body->at("inputs");
    if (inputs.size() != operands.size())
      fail(ErrorKind::user, "the program is malformed: {} takes {} operands, not {}", graph_name,
           inputs.size(), operands.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto [tag, v] = tagged(inputs[i]);
      std::string input_name;
      if (tag == "as_tensor") {
        input_name = v->at("name").get<std::string>();
      } else if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") {
        auto [kind, text] = tagged(*v);
        if (kind == "as_name") input_name = text->get<std::string>();
      }
      if (input_name.empty()) input_name = "number" + std::to_string(i);
      if (!handed[i]) {
        inner[input_name] = operands[i];
        continue;
      }
      Value value;
      if (tag == "as_tensor" || tag == "as_sym_int" || tag == "as_sym_float" ||
          tag == "as_sym_bool") {
        value = read_input_value(*body, input_name, symbols_);
      } else {
        value.kind = ValueKind::integer;
        value.dtype = NACRE_i64;
      }
      value.name = input_name;
      for (const Expr& e : value.shape) defined.merge(e.symbols());
      if (value.kind == ValueKind::integer) defined.merge(value.expr.symbols());
      ValueId id = sub.add_value(std::move(value));
      inner[input_name] = ValueRef{id};
      sub.inputs.push_back({id, InputKind::user, input_name});
    }
    for (Argument& output : read_nodes(*body, sub, inner, symbols_, defined))
      sub.outputs.push_back({std::move(output), OutputKind::user, ""});
    graph_.subgraphs[graph_name] = std::move(sub);
  }
  // Only the operands' own arguments come before; numbers made for them stand before the node.
  add_node(std::move(result), node.at("outputs"));
}

}  // namespace

std::vector<Argument> read_nodes(const json& file_graph, Graph& graph, Names& names,
                                 SymbolTable& symbols, std::set<std::string>& defined) {
  return Reader(file_graph, graph, names, symbols, defined).run();
}

Value read_input_value(const json& file_graph, const std::string& name, SymbolTable& symbols) {
  const json& tensors = file_graph.at("tensor_values");
  if (auto meta = tensors.find(name); meta != tensors.end())
    return read_tensor(*meta, name, symbols);
  Value v;
  v.name = name;
  const json& integers = file_graph.at("sym_int_values");
  if (auto number = integers.find(name); number != integers.end()) {
    v.kind = ValueKind::integer;
    v.dtype = NACRE_i64;
    v.expr = symbols.integer(*number);
    return v;
  }
  if (auto floats = file_graph.find("sym_float_values");
      floats != file_graph.end() && floats->contains(name)) {
    v.kind = ValueKind::floating;
    v.dtype = NACRE_f32;
    return v;
  }
  if (auto booleans = file_graph.find("sym_bool_values");
      booleans != file_graph.end() && booleans->contains(name)) {
    v.kind = ValueKind::boolean;
    v.dtype = NACRE_bool_;
    return v;
  }
  fail(ErrorKind::user, "the program is malformed: nothing is said about %{}", name);
}

Argument read_argument(const json& argument, const Names& names) {
  static const json none = json::object();
  Graph graph;
  SymbolTable symbols;
  std::set<std::string> defined;
  Names copy;  // only what the argument names
  auto [tag, v] = tagged(argument);
  if (tag == "as_tensor") {
    auto found = names.find(v->at("name").get<std::string>());
    if (found == names.end())
      fail(ErrorKind::user, "the program is malformed: %{} does not exist",
           v->at("name").get<std::string>());
    return found->second;
  }
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") {
    auto [kind, text] = tagged(*v);
    if (kind == "as_name") {
      auto found = names.find(text->get<std::string>());
      if (found == names.end())
        fail(ErrorKind::user, "the program is malformed: %{} does not exist",
             text->get<std::string>());
      return found->second;
    }
  }
  return Reader(none, graph, copy, symbols, defined).argument(argument);
}

}  // namespace nacre
