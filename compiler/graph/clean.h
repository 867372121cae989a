// Dead code and common subexpressions.
//
//   %a: f32[4] = prim.exp(%x)
//   %b: f32[4] = prim.exp(%x)
//   %c: f32[4] = prim.neg(%x)
//   %y: f32[4] = prim.add(%a, %b)
//   output %y user
// becomes
//   %a: f32[4] = prim.exp(%x)
//   %y: f32[4] = prim.add(%a, %a)
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

// Of a primitive graph, whose operators have no effects: nodes without a reader go, equal nodes become the first of them,
// views of views are left to lowering. Values that nothing names any more go, too, so ids change. Inputs and outputs stay as
// they are. Does not depend on other passes; run after each that leaves dead nodes.
Graph clean(Graph primitive);

}  // namespace nacre
