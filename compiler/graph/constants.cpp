#include "compiler/graph/constants.h"

#include <algorithm>
#include <set>

#include "compiler/graph/clean.h"
#include "compiler/graph/ops.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int64_t kSmallBytes = 1 << 20;

bool constant_shape(const Value& value) {
  return std::all_of(value.shape.begin(), value.shape.end(), [](const Expr& e) { return e.constant().has_value(); });
}

bool has_symbols(const Argument& argument) {
  if (auto* e = std::get_if<Expr>(&argument)) return !e->constant();
  if (auto* list = std::get_if<std::vector<Expr>>(&argument))
    return std::any_of(list->begin(), list->end(), [](const Expr& e) { return !e.constant(); });
  return false;
}

int64_t bytes_of(const Value& value) {
  int64_t n = static_cast<int64_t>(nacre_dtype_size_bytes(value.dtype));
  for (const Expr& e : value.shape) n *= *e.constant();
  return n;
}

bool is_view(const Node& node) { return primitive_class(node.op) == PrimClass::view; }
bool is_creation(const Node& node) { return primitive_class(node.op) == PrimClass::creation; }

class Folder {
 public:
  Folder(Program& program, const Evaluate& evaluate, const std::string& prefix)
      : program_(program), graph_(program.graph), evaluate_(evaluate), prefix_(prefix) {}

  void run() {
    constant_ = constant_values(graph_);
    producer_.assign(graph_.values.size(), -1);
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (ValueId v : graph_.nodes[n].outputs)
        if (v != kNoValue) producer_[static_cast<size_t>(v)] = static_cast<int>(n);
    for (const Node& node : graph_.nodes) {
      if (!node.outputs.empty() && constant_[static_cast<size_t>(node.outputs[0])]) continue;
      for (const auto& [name, argument] : node.args) for_each_value(argument, [&](ValueId v) { want(v); });
    }
    for (const GraphOutput& output : graph_.outputs) for_each_value(output.value, [&](ValueId v) { want(v); });
    if (!roots_.empty()) compute();
    drop_unused();
  }

 private:
  // `v` is read by something that stays: decides what of it is computed now.
  void want(ValueId v) {
    const int at = producer_[static_cast<size_t>(v)];
    if (!constant_[static_cast<size_t>(v)] || at < 0 || !seen_.insert(v).second) return;
    const Node& node = graph_.nodes[static_cast<size_t>(at)];
    const bool stays = is_creation(node) || is_view(node) || too_large(v);
    if (stays)
      for (const auto& [name, argument] : node.args) for_each_value(argument, [&](ValueId o) { want(o); });
    else
      roots_.push_back(v);
  }

  bool too_large(ValueId v) const {
    const int64_t size = bytes_of(graph_[v]);
    if (size <= kSmallBytes) return false;
    int64_t from = 0;
    std::set<ValueId> inputs;
    std::vector<ValueId> stack{v};
    std::set<ValueId> seen;
    while (!stack.empty()) {
      const ValueId x = stack.back();
      stack.pop_back();
      if (!seen.insert(x).second) continue;
      const int at = producer_[static_cast<size_t>(x)];
      if (at < 0) {
        if (inputs.insert(x).second) from += bytes_of(graph_[x]);
        continue;
      }
      for (const auto& [name, argument] : graph_.nodes[static_cast<size_t>(at)].args) for_each_value(argument, [&](ValueId o) { stack.push_back(o); });
    }
    return size > 2 * from;
  }

  void compute() {
    std::set<int> needed;
    std::vector<ValueId> stack = roots_;
    std::set<ValueId> used;
    while (!stack.empty()) {
      const ValueId x = stack.back();
      stack.pop_back();
      if (!used.insert(x).second) continue;
      const int at = producer_[static_cast<size_t>(x)];
      if (at < 0) continue;
      needed.insert(at);
      for (const auto& [name, argument] : graph_.nodes[static_cast<size_t>(at)].args) for_each_value(argument, [&](ValueId o) { stack.push_back(o); });
    }
    Graph part;
    part.level = graph_.level;
    part.name = "constants";
    part.values = graph_.values;
    for (const GraphInput& input : graph_.inputs)
      if (used.contains(input.value)) {
        part.inputs.push_back(input);
        part.inputs.back().kind = InputKind::constant;
      }
    for (int n : needed) part.nodes.push_back(graph_.nodes[static_cast<size_t>(n)]);
    for (ValueId v : roots_) part.outputs.push_back({ValueRef{v}, OutputKind::user, {}});
    const std::vector<HostTensor> results = evaluate_(part, program_.weights);
    check(results.size() == roots_.size(), "{} constants were computed, {} expected", results.size(), roots_.size());

    std::set<ValueId> replaced;
    for (size_t i = 0; i < roots_.size(); ++i) {
      const std::string name = prefix_ + "constant." + graph_[roots_[i]].name;
      graph_.inputs.push_back({roots_[i], InputKind::constant, name});
      program_.weights[name] = results[i];
      replaced.insert(roots_[i]);
    }
    std::erase_if(graph_.nodes, [&](const Node& node) {
      return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return replaced.contains(v); });
    });
  }

  // Nodes and weights that nothing reads; a node with one folded result among several keeps none of them, so its other
  // results must be unread, too.
  void drop_unused() {
    graph_ = clean(std::move(graph_));
    std::set<ValueId> live;
    auto mark = [&](const Argument& argument) { for_each_value(argument, [&](ValueId v) { live.insert(v); }); };
    for (const GraphOutput& output : graph_.outputs) mark(output.value);
    for (const Node& node : graph_.nodes)
      for (const auto& [name, argument] : node.args) mark(argument);
    std::set<std::string> mutated, names;
    for (const GraphOutput& output : graph_.outputs)
      if (output.kind == OutputKind::buffer_mutation) mutated.insert(output.target);
    std::erase_if(graph_.inputs, [&](const GraphInput& input) {
      return input.kind != InputKind::user && !live.contains(input.value) && !mutated.contains(input.target);
    });
    for (const GraphInput& input : graph_.inputs)
      if (input.kind != InputKind::user) names.insert(input.target);
    std::erase_if(program_.weights, [&](const auto& weight) { return !names.contains(weight.first) && !mutated.contains(weight.first); });
  }

  Program& program_;
  Graph& graph_;
  const Evaluate& evaluate_;
  const std::string& prefix_;
  std::vector<bool> constant_;
  std::vector<int> producer_;
  std::set<ValueId> seen_;
  std::vector<ValueId> roots_;
};

}  // namespace

std::vector<bool> constant_values(const Graph& graph) {
  std::vector<bool> constant(graph.values.size(), false);
  std::set<std::string> mutated;
  for (const GraphOutput& output : graph.outputs)
    if (output.kind == OutputKind::buffer_mutation) mutated.insert(output.target);
  for (const GraphInput& input : graph.inputs)
    constant[static_cast<size_t>(input.value)] = input.kind != InputKind::user && !(input.kind == InputKind::buffer && mutated.contains(input.target));
  for (const Node& node : graph.nodes) {
    bool all = node.op != "prim.import";  // only the application can compute it
    for (const auto& [name, argument] : node.args) {
      all = all && !has_symbols(argument) && !std::holds_alternative<SubgraphRef>(argument);
      for_each_value(argument, [&](ValueId v) { all = all && constant[static_cast<size_t>(v)]; });
    }
    for (ValueId v : node.outputs) all = all && v != kNoValue && graph[v].kind == ValueKind::tensor && constant_shape(graph[v]);
    for (ValueId v : node.outputs)
      if (v != kNoValue) constant[static_cast<size_t>(v)] = all;
  }
  return constant;
}

Program fold_constants(Program primitive, const Evaluate& evaluate, const std::string& prefix) {
  Folder(primitive, evaluate, prefix).run();
  return primitive;
}

}  // namespace nacre
