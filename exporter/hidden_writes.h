// Operators whose schema hides that they write: normalisations that update running statistics.
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

// The captured graph with such operators replaced by ones whose schema tells what they write.
Graph with_visible_writes(Graph graph);

}  // namespace nacre
