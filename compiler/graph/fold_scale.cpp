#include "compiler/graph/fold_scale.h"

#include <optional>

#include "compiler/graph/builder.h"
#include "compiler/graph/constants.h"

namespace nacre {

namespace {

class ScaleFolder {
 public:
  explicit ScaleFolder(Graph graph) : constant_(constant_values(graph)), uses_(graph.values.size(), 0), producer_(graph.values.size(), -1) {
    nodes_ = std::move(graph.nodes);
    graph.nodes.clear();
    graph_ = std::move(graph);
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const auto& [name, argument] : nodes_[n].args) for_each_value(argument, [&](ValueId v) { ++uses_[static_cast<size_t>(v)]; });
      for (ValueId v : nodes_[n].outputs)
        if (v != kNoValue) producer_[static_cast<size_t>(v)] = static_cast<int>(n);
    }
    for (const GraphOutput& output : graph_.outputs) for_each_value(output.value, [&](ValueId v) { uses_[static_cast<size_t>(v)] += 2; });
  }

  Graph run() {
    for (const Node& node : nodes_) {
      Node copy = node;
      for (auto& [name, argument] : copy.args) rename(argument);
      if (copy.op == "prim.mul" && fold(copy)) continue;
      graph_.nodes.push_back(std::move(copy));
    }
    for (GraphOutput& output : graph_.outputs) rename(output.value);
    return std::move(graph_);
  }

 private:
  void rename(Argument& argument) {
    auto mend = [&](ValueRef& ref) {
      if (auto found = renamed_.find(ref.id); found != renamed_.end()) ref.id = found->second;
    };
    if (auto* one = std::get_if<ValueRef>(&argument)) mend(*one);
    if (auto* many = std::get_if<std::vector<ValueRef>>(&argument))
      for (ValueRef& ref : *many) mend(ref);
  }

  ValueId renamed(ValueId v) const {
    auto found = renamed_.find(v);
    return found == renamed_.end() ? v : found->second;
  }

  const Node* producer(ValueId v) const {
    const int at = static_cast<size_t>(v) < producer_.size() ? producer_[static_cast<size_t>(v)] : -1;
    return at < 0 ? nullptr : &nodes_[static_cast<size_t>(at)];
  }
  bool is_constant(ValueId v) const { return static_cast<size_t>(v) < constant_.size() && constant_[static_cast<size_t>(v)]; }
  static ValueId value(const Node& node, const char* name) {
    const Argument* argument = node.find(name);
    const ValueRef* ref = argument ? std::get_if<ValueRef>(argument) : nullptr;
    return ref ? ref->id : kNoValue;
  }

  // The constant vector along `channel` (rank 1, one element a channel) that `v` is a broadcast of.
  std::optional<ValueId> channel_vector(Builder& b, ValueId v, size_t channel) const {
    const Node* node = producer(v);
    if (!node || node->op != "prim.broadcast") return std::nullopt;
    const ValueId x = value(*node, "x");
    const Argument* dims = node->find("dims");
    const auto* list = dims ? std::get_if<std::vector<Expr>>(dims) : nullptr;
    if (!list || x == kNoValue || !is_constant(x)) return std::nullopt;
    const auto& shape = graph_[x].shape;
    bool found = false;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].is(1)) continue;
      if (!(*list)[i].is(static_cast<int64_t>(channel))) return std::nullopt;
      found = true;
    }
    if (!found) return std::nullopt;
    return b.reshape(renamed(x), {graph_[v].shape[channel]});
  }

  // y = mul(c or c + bias, scale), c a contraction with constant weights and no other use.
  bool fold(const Node& mul) {
    for (const bool swapped : {false, true}) {
      const ValueId product = value(mul, swapped ? "b" : "a"), scale = value(mul, swapped ? "a" : "b");
      ValueId result = product;
      ValueId bias = kNoValue;
      const Node* node = original(result);
      if (node && node->op == "prim.add" && uses_original(result) == 1) {
        for (const bool other : {false, true}) {
          const ValueId left = value(*node, other ? "b" : "a"), right = value(*node, other ? "a" : "b");
          const Node* contraction = producer(left);
          if (!contraction || !is_contraction(*contraction)) continue;
          bias = right;
          result = left;
          break;
        }
        node = producer(result);
      }
      if (!node || !is_contraction(*node) || uses_[static_cast<size_t>(result)] != 1) continue;
      if (apply(mul, *node, result, bias, scale)) return true;
    }
    return false;
  }

  const Node* original(ValueId v) const { return producer(v); }
  int uses_original(ValueId v) const { return static_cast<size_t>(v) < uses_.size() ? uses_[static_cast<size_t>(v)] : 2; }

  static bool is_contraction(const Node& node) { return node.op == "prim.conv" || node.op == "prim.conv_transpose" || node.op == "prim.matmul"; }

  bool apply(const Node& mul, const Node& contraction, ValueId result, ValueId bias, ValueId scale) {
    const bool matmul = contraction.op == "prim.matmul";
    const char* weight_name = matmul ? "b" : "w";
    const ValueId weight = value(contraction, weight_name);
    if (weight == kNoValue || !is_constant(weight)) return false;
    const size_t rank = graph_[result].shape.size(), weight_rank = graph_[weight].shape.size();
    const size_t channel = matmul ? rank - 1 : 1;
    size_t along = matmul ? weight_rank - 1 : 0;
    if (contraction.op == "prim.conv_transpose") {
      const Argument* groups = contraction.find("groups");
      const Expr* count = groups ? std::get_if<Expr>(groups) : nullptr;
      if (count && !count->is(1)) return false;
      along = 1;
    }
    Builder b(graph_);
    b.at(contraction.where);
    const size_t nodes_before = graph_.nodes.size();
    auto vector = channel_vector(b, scale, channel);
    std::optional<ValueId> bias_vector;
    if (vector && bias != kNoValue) bias_vector = channel_vector(b, bias, channel);
    if (!vector || (bias != kNoValue && !bias_vector)) {
      graph_.nodes.resize(nodes_before);
      return false;
    }
    const ValueId scaled = b.mul(renamed(weight), b.broadcast(*vector, graph_[weight].shape, {static_cast<int64_t>(along)}));
    Node folded = contraction;
    for (auto& [name, argument] : folded.args) {
      if (name == weight_name) argument = ValueRef{scaled};
      else rename(argument);
    }
    Value output = graph_[result];
    const ValueId fresh = graph_.add_value(output);
    folded.outputs = {fresh};
    graph_.nodes.push_back(folded);
    ValueId final = fresh;
    if (bias_vector) {
      b.at(mul.where);
      final = b.add(fresh, b.broadcast(b.mul(*bias_vector, *vector), output.shape, {static_cast<int64_t>(channel)}));
    }
    renamed_[mul.outputs[0]] = final;
    return true;
  }

  std::vector<bool> constant_;
  std::vector<int> uses_;
  std::vector<int> producer_;
  std::vector<Node> nodes_;  // of the graph as it was
  Graph graph_;              // as it becomes
  std::map<ValueId, ValueId> renamed_;
};

}  // namespace

Graph fold_scale(Graph primitive) { return ScaleFolder(std::move(primitive)).run(); }

}  // namespace nacre
