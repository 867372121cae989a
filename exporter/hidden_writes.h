// Operators whose schema hides that they write, normalisations that update running statistics, and fill_diagonal_, which has no
// functional form.
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

// The captured graph with such operators replaced by ones whose schema tells what they write, and that have one.
Graph with_visible_writes(Graph graph);

}  // namespace nacre
