// Parts of a graph as graphs of their own, and the smallest part that still shows what is looked for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// Some nodes of a graph, and which of its values they are to give.
struct Part {
  std::vector<bool> nodes;  // of each node, whether it belongs to it
  std::vector<ValueId> outputs;
};

// Values that are made outside are user inputs under their own names, after the inputs that the graph has itself. Nullopt
// where such a value is a number: only tensors can be handed over.
std::optional<Graph> cut(const Graph& whole, const Part& part);

// The graph for one value of some symbols: no size depends on them any more.
Graph specialised(Graph graph, const std::map<std::string, int64_t>& symbols);

// Takes nodes away, from the end, from the front, then from between, as long as the part fails: nothing of the result can be
// left out alone. `whole` fails. At most `most_tries` calls of `fails`.
Part smallest_part(const Graph& whole, const std::function<bool(const Graph&)>& fails, int most_tries);

}  // namespace nacre
