// Functional graph -> primitive graph: every ATen operator becomes primitives of ops.def, with shapes over the symbols.
//
//   %y: f32[s0, 10] = aten.linear.default(%x, %w, %b)
// becomes
//   %t: f32[64, 10] = prim.permute(%w, dims=[1, 0])
//   %m: f32[s0, 10] = prim.matmul(%x, %t)
//   %c: f32[s0, 10] = prim.broadcast(%b, shape=[s0, 10], dims=[1])
//   %y: f32[s0, 10] = prim.add(%m, %c)
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// Error{unsupported} lists every operator without a decomposition, each with its Python line.
Graph decompose(const Graph& functional);

}  // namespace nacre
