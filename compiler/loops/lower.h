// Primitive graph -> loop groups, one group a primitive: simple on purpose; fusion/fuse.h makes fewer of them.
//
//   %y: f32[s0, 10] = prim.add(%a, %b)
// becomes
//   group add
//     nest i0: s0, i1: 10
//       v0 = load %a[i0, i1]
//       v1 = load %b[i0, i1]
//       v2 = add v0 v1
//       store %y[i0, i1] = v2
#pragma once

#include "compiler/graph/graph.h"
#include "compiler/loops/group.h"

namespace nacre {

// Views become index maps of the loads (a chain of views costs nothing); concat and select_scatter_range become stores into
// parts of one buffer; a buffer whose old value is dead after index_put, scatter or select_scatter_range is updated in
// place, so that a mutated state needs no copy. half-precision scalars are loaded as float32 and rounded at the store.
LoopProgram lower(const Graph& primitive);

}  // namespace nacre
