#include "compiler/graph/limit_sizes.h"

#include <set>
#include <string>

#include "compiler/symbolic/limits.h"

namespace nacre {
namespace {

// `unknown`: symbols that the graphs around this one bind.
void limit(Graph& graph, std::set<std::string> unknown) {
  for (const Node& node : graph.nodes)
    if (node.op == "prim.item") unknown.merge(graph[node.outputs[0]].expr.symbols());
  for (const Value& value : graph.values) {
    for (const Expr& size : value.shape) {
      if (upper_limit(size, unknown, graph.symbols)) continue;
      for (const std::string& name : size.symbols()) {
        if (upper_limit(Expr::symbol(name), unknown, graph.symbols)) continue;
        graph.symbols[name].range.max = kSizeLimit;
        graph.symbols[name].assumed = true;
      }
    }
  }
  for (auto& [name, sub] : graph.subgraphs) {
    for (const auto& [symbol, facts] : graph.symbols)
      if (facts.assumed) sub.symbols[symbol] = facts;
    limit(sub, unknown);
  }
}

}  // namespace

void limit_sizes(Graph& graph) { limit(graph, {}); }

}  // namespace nacre
