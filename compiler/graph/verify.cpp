#include "compiler/graph/verify.h"

#include <algorithm>
#include <set>

#include "compiler/graph/ops.h"
#include "compiler/graph/shapes.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

// `aten.add_.Tensor` writes its operand, `aten.__and__.Tensor` does not.
bool is_in_place(std::string_view op) {
  const size_t first = op.find('.');
  if (first == std::string_view::npos) return false;
  std::string_view name = op.substr(first + 1);
  name = name.substr(0, name.find('.'));
  return name.ends_with("_") && !name.ends_with("__");
}

bool writes_out(std::string_view op) { return op.ends_with(".out") || op.ends_with("_out"); }

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size()) {}

  void run() {
    verify_symbols();
    for (const GraphInput& input : graph_.inputs) verify_input(input);
    for (const Node& node : graph_.nodes) verify_node(node);
    for (const GraphOutput& output : graph_.outputs) verify_output(output);
    for (const auto& [name, sub] : graph_.subgraphs) {
      expect(sub.level == graph_.level, "subgraph {} is of another level", name);
      Verifier(sub).run();
    }
  }

 private:
  template <typename... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    if (!node_) fail(ErrorKind::internal, "graph {}: {}", graph_.name, what);
    fail_at(ErrorKind::internal, where_text(node_->where), "graph {}: {}: {}", graph_.name,
            print(graph_, *node_), what);
  }

  void verify_symbols() const {
    for (const auto& [name, facts] : graph_.symbols) {
      expect(facts.range.min <= facts.range.max, "symbol {} has an empty range", name);
      expect(facts.multiple >= 1, "symbol {} is a multiple of {}", name, facts.multiple);
      if (facts.below) expect_declared(*facts.below, "a bound");
    }
    for (const Expr& e : graph_.assumptions) expect_declared(e, "an assumption");
  }

  void expect_declared(const Expr& e, std::string_view what) const {
    if (e.constant()) return;
    for (const std::string& name : e.symbols())
      expect(graph_.symbols.contains(name), "{} uses symbol {}, which is not declared", what, name);
  }

  void define(ValueId id) {
    expect(id >= 0 && static_cast<size_t>(id) < graph_.values.size(), "value {} does not exist",
           id);
    expect(!defined_[static_cast<size_t>(id)], "%{} is defined twice", graph_[id].name);
    defined_[static_cast<size_t>(id)] = true;
    const Value& v = graph_[id];
    expect(!v.name.empty(), "a value without a name");
    expect(names_.insert(v.name).second, "two values have the name %{}", v.name);
    for (const Expr& size : v.shape) {
      expect_declared(size, "a shape");
      expect(size.constant().value_or(0) >= 0, "%{} has a size of {}", v.name, size.str());
    }
    for (const Expr& stride : v.strides) expect_declared(stride, "a stride");
    expect_declared(v.offset, "an offset");
    if (v.kind == ValueKind::tensor) {
      expect(nacre_dtype_size_bytes(v.dtype) != 0, "%{} has no scalar type", v.name);
      expect(v.strides.empty() || v.strides.size() == v.shape.size(),
             "%{} has {} strides for rank {}", v.name, v.strides.size(), v.shape.size());
      if (graph_.level == Level::primitive)
        expect(v.strides.empty() && v.offset.is(0), "%{} has strides", v.name);
    } else if (v.kind == ValueKind::integer) {
      expect_declared(v.expr, "a number");
    }
  }

  void expect_defined(ValueId id) const {
    expect(id >= 0 && static_cast<size_t>(id) < graph_.values.size(), "value {} does not exist",
           id);
    expect(defined_[static_cast<size_t>(id)], "%{} is used before it is defined", graph_[id].name);
  }

  void verify_argument(const Argument& argument) const {
    for_each_value(argument, [&](ValueId v) { expect_defined(v); });
    if (const auto* e = std::get_if<Expr>(&argument)) expect_declared(*e, "an argument");
    if (const auto* list = std::get_if<std::vector<Expr>>(&argument))
      for (const Expr& e : *list) expect_declared(e, "an argument");
    if (const auto* sub = std::get_if<SubgraphRef>(&argument))
      expect(graph_.subgraphs.contains(sub->name), "there is no subgraph {}", sub->name);
  }

  void verify_input(const GraphInput& input) {
    define(input.value);
    if (input.kind == InputKind::user) {
      user_inputs_.insert(input.target);
      return;
    }
    const std::string& name = graph_[input.value].name;
    expect(!input.target.empty(), "input %{} does not say what it is", name);
    expect(graph_[input.value].kind == ValueKind::tensor, "input %{} is no tensor", name);
    // One weight may be read through several inputs; two kinds of one name would be ambiguous.
    const auto [found, added] = weights_.emplace(input.target, input.kind);
    expect(added || found->second == input.kind, "'{}' is of two kinds", input.target);
  }

  void verify_output(const GraphOutput& output) const {
    verify_argument(output.value);
    if (output.kind == OutputKind::user) return;
    expect(std::holds_alternative<ValueRef>(output.value), "the new value of '{}' is no tensor",
           output.target);
    if (output.kind == OutputKind::buffer_mutation) {
      expect(weights_.contains(output.target), "mutated buffer '{}' is no input", output.target);
    } else {
      expect(user_inputs_.contains(output.target), "mutated input '{}' is no user input",
             output.target);
    }
  }

  void verify_node(const Node& node) {
    node_ = &node;
    std::set<std::string_view> arguments;
    for (const auto& [name, argument] : node.args) {
      expect(arguments.insert(name).second, "argument {} is given twice", name);
      verify_argument(argument);
    }
    switch (graph_.level) {
      case Level::captured:
        expect(!node.op.starts_with("prim."), "a primitive in a captured graph");
        break;
      case Level::functional:
        expect(!node.op.starts_with("prim."), "a primitive in a functional graph");
        expect(!is_in_place(node.op) && !writes_out(node.op), "it writes an operand");
        break;
      case Level::primitive:
        verify_primitive(node);
        break;
    }
    for (ValueId v : node.outputs)
      if (v != kNoValue) define(v);
    node_ = nullptr;
  }

  void verify_primitive(const Node& node) const {
    const std::vector<Value> results = infer(graph_, node);
    expect(results.size() == node.outputs.size(), "it has {} results, not {}", results.size(),
           node.outputs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const Value& v = graph_[node.outputs[i]];
      expect(v.dtype == results[i].dtype, "%{} is {}, not {}", v.name, nacre_dtype_name(v.dtype),
             nacre_dtype_name(results[i].dtype));
      expect(may_be_equal(v.shape, results[i].shape, graph_.symbols), "%{} should have shape [{}]",
             v.name, shape_of(results[i]));
    }
  }

  static std::string shape_of(const Value& v) {
    std::string out;
    for (const Expr& e : v.shape) out += (out.empty() ? "" : ", ") + e.str();
    return out;
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::set<std::string> names_;
  std::set<std::string> user_inputs_;
  std::map<std::string, InputKind> weights_;
  const Node* node_ = nullptr;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace nacre
