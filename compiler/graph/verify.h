// What each level of the graph may contain. Called by the driver between stages.
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

// Throws Error{internal} that names the node and the rule it breaks: definitions before uses, unique names, every operator
// of the level, primitives with the shapes and dtypes that ops.def's rules give.
void verify(const Graph& graph);

}  // namespace nacre
