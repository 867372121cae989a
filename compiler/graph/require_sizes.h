// What views take for granted of sizes that vary.
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

// A slice from 1 to 2 needs a size of 2 or more, and `x[:2]` that is known to have 2 rows needs them: what does not follow
// from the facts of a primitive graph becomes one, or an assumption. So no size in range leads outside of memory.
void require_sizes(Graph& graph);

}  // namespace nacre
