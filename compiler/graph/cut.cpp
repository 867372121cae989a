#include "compiler/graph/cut.h"

#include <algorithm>
#include <set>

namespace nacre {

namespace {

// Applies `change` to every expression of a graph.
template <class Change>
void change_exprs(Graph& graph, const Change& change) {
  const auto change_all = [&](std::vector<Expr>& list) {
    for (Expr& e : list) change(e);
  };
  const auto change_argument = [&](Argument& argument) {
    if (auto* e = std::get_if<Expr>(&argument)) change(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&argument)) change_all(*list);
  };
  for (Value& value : graph.values) {
    change_all(value.shape);
    change_all(value.strides);
    change(value.offset);
    change(value.expr);
  }
  for (Node& node : graph.nodes)
    for (auto& [name, argument] : node.args) change_argument(argument);
  for (GraphOutput& output : graph.outputs) change_argument(output.value);
  change_all(graph.assumptions);
  for (auto& [name, subgraph] : graph.subgraphs) change_exprs(subgraph, change);
}

void drop_symbols(Graph& graph, const std::map<std::string, int64_t>& symbols) {
  for (const auto& [name, value] : symbols) graph.symbols.erase(name);
  std::erase_if(graph.assumptions, [](const Expr& e) { return e.constant().has_value(); });
  for (auto& [name, subgraph] : graph.subgraphs) drop_symbols(subgraph, symbols);
}

class Search {
 public:
  Search(const Graph& whole, const std::function<bool(const Graph&)>& fails, int tries) : whole_(whole), fails_(fails), tries_(tries) {
    const size_t count = whole.nodes.size();
    made_by_.assign(whole.values.size(), count);
    for (size_t n = 0; n < count; ++n)
      for (ValueId v : whole.nodes[n].outputs)
        if (v != kNoValue) made_by_[static_cast<size_t>(v)] = n;
    best_.nodes.assign(count, true);
    for (const GraphOutput& output : whole.outputs) for_each_value(output.value, [&](ValueId v) { add_output(best_, v); });
  }

  Part run() {
    from_the_end();
    fewer_outputs();
    from_the_front();
    from_between();
    fewer_outputs();
    return without_unused(best_);
  }

 private:
  void add_output(Part& part, ValueId v) const {
    if (std::find(part.outputs.begin(), part.outputs.end(), v) == part.outputs.end()) part.outputs.push_back(v);
  }

  // A captured graph mutates what it reads: there all nodes stay that were not taken away.
  Part without_unused(const Part& part) const {
    if (whole_.level == Level::captured) return part;
    std::vector<bool> wanted(whole_.values.size());
    for (ValueId v : part.outputs) wanted[static_cast<size_t>(v)] = true;
    Part result = part;
    for (size_t n = whole_.nodes.size(); n-- > 0;) {
      if (!result.nodes[n]) continue;
      const auto& outputs = whole_.nodes[n].outputs;
      result.nodes[n] = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return v != kNoValue && wanted[static_cast<size_t>(v)]; });
      if (!result.nodes[n]) continue;
      for (const auto& [name, argument] : whole_.nodes[n].args)
        for_each_value(argument, [&](ValueId v) { wanted[static_cast<size_t>(v)] = true; });
    }
    return result;
  }

  bool try_part(Part part) {
    part = without_unused(part);
    if (part.outputs.empty() || std::find(part.nodes.begin(), part.nodes.end(), true) == part.nodes.end() || tries_ == 0) return false;
    const std::optional<Graph> graph = cut(whole_, part);
    if (!graph) return false;
    --tries_;
    if (!fails_(*graph)) return false;
    best_ = std::move(part);
    return true;
  }

  // The first nodes, which give all that the others read.
  Part first_nodes(size_t count) const {
    Part part;
    part.nodes.assign(whole_.nodes.size(), false);
    std::fill(part.nodes.begin(), part.nodes.begin() + static_cast<std::ptrdiff_t>(count), true);
    const auto read = [&](ValueId v) {
      if (made_by_[static_cast<size_t>(v)] < count && whole_[v].kind == ValueKind::tensor) add_output(part, v);
    };
    for (size_t n = count; n < whole_.nodes.size(); ++n)
      for (const auto& [name, argument] : whole_.nodes[n].args) for_each_value(argument, read);
    for (const GraphOutput& output : whole_.outputs) for_each_value(output.value, read);
    return part;
  }

  void from_the_end() {
    size_t passes = 0, fails = whole_.nodes.size();
    while (fails - passes > 1) {
      const size_t middle = passes + (fails - passes) / 2;
      (try_part(first_nodes(middle)) ? fails : passes) = middle;
    }
  }

  void fewer_outputs() {
    if (best_.outputs.size() < 2) return;
    // The last one is the likeliest.
    const std::vector<ValueId> outputs = best_.outputs;
    for (size_t i = outputs.size(); i-- > 0;) {
      Part part = best_;
      part.outputs = {outputs[i]};
      if (try_part(std::move(part))) return;
    }
    for (ValueId v : outputs) {
      if (best_.outputs.size() < 2) return;
      Part part = best_;
      std::erase(part.outputs, v);
      try_part(std::move(part));
    }
  }

  std::vector<size_t> kept() const {
    std::vector<size_t> result;
    for (size_t n = 0; n < best_.nodes.size(); ++n)
      if (best_.nodes[n]) result.push_back(n);
    return result;
  }
  Part without(const std::vector<size_t>& nodes, size_t begin, size_t end) const {
    Part part = best_;
    for (size_t i = begin; i < end; ++i) part.nodes[nodes[i]] = false;
    // An output that nothing makes any more says nothing.
    std::erase_if(part.outputs, [&](ValueId v) {
      const size_t n = made_by_[static_cast<size_t>(v)];
      return n == whole_.nodes.size() || !part.nodes[n];
    });
    return part;
  }

  void from_the_front() {
    const std::vector<size_t> nodes = kept();
    size_t fails = 0, passes = nodes.size();
    while (passes - fails > 1) {
      const size_t middle = fails + (passes - fails) / 2;
      (try_part(without(nodes, 0, middle)) ? fails : passes) = middle;
    }
  }

  void from_between() {
    for (size_t size = std::max<size_t>(kept().size() / 2, 1); size > 0 && tries_ > 0;) {
      bool smaller = false;
      const std::vector<size_t> nodes = kept();
      for (size_t begin = 0; begin < nodes.size(); begin += size)
        smaller = try_part(without(nodes, begin, std::min(begin + size, nodes.size()))) || smaller;
      if (!smaller || size > 1) size /= 2;
    }
  }

  const Graph& whole_;
  const std::function<bool(const Graph&)>& fails_;
  int tries_;
  std::vector<size_t> made_by_;  // the node; the number of nodes for an input
  Part best_;
};

}  // namespace

std::optional<Graph> cut(const Graph& whole, const Part& part) {
  Graph result;
  result.level = whole.level;
  result.name = whole.name;
  result.symbols = whole.symbols;
  result.subgraphs = whole.subgraphs;
  result.values = whole.values;
  std::vector<bool> made(whole.values.size());
  std::set<ValueId> taken;
  for (size_t n = 0; n < whole.nodes.size(); ++n) {
    if (!part.nodes[n]) continue;
    result.nodes.push_back(whole.nodes[n]);
    for (const auto& [name, argument] : whole.nodes[n].args)
      for_each_value(argument, [&](ValueId v) {
        if (!made[static_cast<size_t>(v)]) taken.insert(v);
      });
    for (ValueId v : whole.nodes[n].outputs)
      if (v != kNoValue) made[static_cast<size_t>(v)] = true;
  }
  for (ValueId v : part.outputs) {
    if (!made[static_cast<size_t>(v)]) taken.insert(v);
    result.outputs.push_back({ValueRef{v}, OutputKind::user, {}});
  }
  std::set<std::string> known;  // symbols that an input has as a size
  const auto add = [&](GraphInput input) {
    const Value& value = whole[input.value];
    for (const Expr& e : value.shape)
      if (e.op() == ExprOp::symbol) known.insert(e.name());
    if (value.expr.op() == ExprOp::symbol) known.insert(value.expr.name());
    result.inputs.push_back(std::move(input));
  };
  for (const GraphInput& input : whole.inputs)
    if (taken.erase(input.value)) add(input);
  for (ValueId v : taken) {
    if (whole[v].kind != ValueKind::tensor) return std::nullopt;
    add({v, InputKind::user, whole[v].name});
  }
  for (const Expr& e : whole.assumptions) {
    const std::set<std::string> symbols = e.symbols();
    if (std::includes(known.begin(), known.end(), symbols.begin(), symbols.end())) result.assumptions.push_back(e);
  }
  return result;
}

Graph specialised(Graph graph, const std::map<std::string, int64_t>& symbols) {
  std::map<std::string, Expr> values;
  for (const auto& [name, value] : symbols) values.emplace(name, Expr(value));
  change_exprs(graph, [&](Expr& e) { e = e.substitute(values); });
  drop_symbols(graph, symbols);
  return graph;
}

Part smallest_part(const Graph& whole, const std::function<bool(const Graph&)>& fails, int most_tries) {
  return Search(whole, fails, most_tries).run();
}

}  // namespace nacre
