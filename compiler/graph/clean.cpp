#include "compiler/graph/clean.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "compiler/graph/ops.h"
#include "compiler/support/error.h"
#include "compiler/support/hash.h"

namespace nacre {
namespace {

uint64_t bits_of(double v) {
  uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

template <class List, class Hash>
size_t hash_list(const List& list, Hash hash) {
  size_t h = list.size();
  for (const auto& e : list) h = hash_combine(h, hash(e));
  return h;
}

size_t hash_of(const Argument& a) {
  struct Visitor {
    size_t operator()(std::monostate) const { return 0; }
    size_t operator()(ValueRef v) const { return static_cast<size_t>(v.id); }
    size_t operator()(const std::vector<ValueRef>& v) const {
      return hash_list(v, [](ValueRef r) { return static_cast<size_t>(r.id); });
    }
    size_t operator()(const Expr& e) const { return e.hash(); }
    size_t operator()(const std::vector<Expr>& v) const {
      return hash_list(v, [](const Expr& e) { return e.hash(); });
    }
    size_t operator()(double v) const { return bits_of(v); }
    size_t operator()(const std::vector<double>& v) const { return hash_list(v, bits_of); }
    size_t operator()(bool v) const { return v ? 1 : 2; }
    size_t operator()(const std::vector<bool>& v) const {
      return hash_list(v, [](bool b) { return b ? size_t{1} : size_t{2}; });
    }
    size_t operator()(const std::string& s) const { return std::hash<std::string>()(s); }
    size_t operator()(nacre_dtype d) const { return static_cast<size_t>(d); }
    size_t operator()(const Keyword& k) const { return std::hash<std::string>()(k.text); }
    size_t operator()(const SubgraphRef& s) const { return std::hash<std::string>()(s.name); }
    size_t operator()(const std::complex<double>& v) const {
      return hash_combine(bits_of(v.real()), bits_of(v.imag()));
    }
  };
  return hash_combine(a.index(), std::visit(Visitor{}, a));
}

// Doubles by their bits: 0.0 is not -0.0, and a NaN is itself.
bool same(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) return bits_of(*x) == bits_of(std::get<double>(b));
  if (const auto* x = std::get_if<std::complex<double>>(&a)) {
    const auto& y = std::get<std::complex<double>>(b);
    return bits_of(x->real()) == bits_of(y.real()) && bits_of(x->imag()) == bits_of(y.imag());
  }
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(),
                      [](double u, double v) { return bits_of(u) == bits_of(v); });
  }
  return a == b;
}

size_t hash_of(const Node& node) {
  size_t h = std::hash<std::string>()(node.op);
  for (const auto& [name, argument] : node.args)
    h = hash_combine(hash_combine(h, std::hash<std::string>()(name)), hash_of(argument));
  return h;
}

bool same(const Node& a, const Node& b) {
  return a.op == b.op && a.outputs.size() == b.outputs.size() &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && same(x.second, y.second);
                    });
}

void rename(Argument& argument, const std::vector<ValueId>& to) {
  if (auto* one = std::get_if<ValueRef>(&argument)) {
    if (one->id != kNoValue) one->id = to[static_cast<size_t>(one->id)];
  } else if (auto* many = std::get_if<std::vector<ValueRef>>(&argument)) {
    for (ValueRef& v : *many)
      if (v.id != kNoValue) v.id = to[static_cast<size_t>(v.id)];
  }
}

// In order of execution, so that the operands of a node are merged before the node is looked up.
void merge_equal_nodes(Graph& graph) {
  std::vector<ValueId> to(graph.values.size());
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<ValueId>(i);
  std::unordered_multimap<size_t, size_t> known;  // hash -> index in `kept`
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    for (auto& [name, argument] : node.args) rename(argument, to);
    if (has_effect(node.op) || node.op == "prim.import") {  // which may give random numbers
      kept.push_back(std::move(node));
      continue;
    }
    const size_t hash = hash_of(node);
    const auto [first, last] = known.equal_range(hash);
    const auto found = std::find_if(
        first, last, [&](const auto& entry) { return same(kept[entry.second], node); });
    if (found == last) {
      known.emplace(hash, kept.size());
      kept.push_back(std::move(node));
      continue;
    }
    Node& earlier = kept[found->second];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      if (earlier.outputs[i] == kNoValue)
        earlier.outputs[i] = node.outputs[i];
      else
        to[static_cast<size_t>(node.outputs[i])] = earlier.outputs[i];
    }
  }
  graph.nodes = std::move(kept);
  for (GraphOutput& output : graph.outputs) rename(output.value, to);
}

// Backwards, so that what only a dead node reads is dead.
void remove_dead_nodes(Graph& graph) {
  std::vector<bool> live(graph.values.size());
  const auto use = [&](ValueId v) { live[static_cast<size_t>(v)] = true; };
  for (const GraphOutput& output : graph.outputs) for_each_value(output.value, use);
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    const bool needed = has_effect(node.op) || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
      return v != kNoValue && live[static_cast<size_t>(v)];
    });
    if (!needed) continue;
    for (const auto& [name, argument] : node.args) for_each_value(argument, use);
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

void remove_unnamed_values(Graph& graph) {
  std::vector<ValueId> to(graph.values.size(), kNoValue);
  std::vector<Value> values;
  const auto define = [&](ValueId& v) {
    if (v == kNoValue) return;
    to[static_cast<size_t>(v)] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph[v]));
    v = to[static_cast<size_t>(v)];
  };
  for (GraphInput& input : graph.inputs) define(input.value);
  for (Node& node : graph.nodes) {
    for (auto& [name, argument] : node.args) rename(argument, to);
    for (ValueId& v : node.outputs) define(v);
  }
  for (GraphOutput& output : graph.outputs) rename(output.value, to);
  graph.values = std::move(values);
  graph.names = {};
}

}  // namespace

Graph clean(Graph primitive) {
  check(primitive.level == Level::primitive, "clean() is for primitive graphs");
  for (auto& [name, sub] : primitive.subgraphs) sub = clean(std::move(sub));
  merge_equal_nodes(primitive);
  remove_dead_nodes(primitive);
  remove_unnamed_values(primitive);
  return primitive;
}

}  // namespace nacre
