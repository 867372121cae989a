// Captured graph -> functional graph: in-place operators and views made pure, mutated buffers and
// inputs made outputs.
//
//   %v: f32[3] = aten.select.int(%x, dim=1, index=0)
//   %w: f32[3] = aten.add_.Tensor(%v, 1)
//   %y: f32[3, 4] = aten.mul.Tensor(%x, 2)
// becomes
//   %v: f32[3] = aten.select.int(%x, dim=1, index=0)
//   %w: f32[3] = aten.add.Tensor(%v, 1)
//   %x_1: f32[3, 4] = aten.select_scatter.default(%x, %w, dim=1, index=0)
//   %y: f32[3, 4] = aten.mul.Tensor(%x_1, 2)
#pragma once

#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// Error{unsupported} names an operator that writes memory in a way that has no functional form
// here.
Graph functionalize(const Graph& captured);

// Which of graph.inputs the graph writes to, through any view of them.
std::vector<size_t> written_inputs(const Graph& captured);

}  // namespace nacre
