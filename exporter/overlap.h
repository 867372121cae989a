// A program that writes into an input, called with inputs that are views of one storage: eager code sees each write through
// every one of them. As a graph: all of them become views of one base,
//
//   %y: f32[4] = aten.add_.Tensor(%x, 1)         # where %z overlaps %x
// becomes
//   %base: f32[max(...)] = aten.zeros.default(...)
//   %base_1 = aten.as_strided_scatter.default(%base, %x, size=[4], stride=[stride_x_0], storage_offset=offset_x)
//   %base_2 = aten.as_strided_scatter.default(%base_1, %z, ...)
//   %x_1: f32[4] = aten.as_strided.default(%base_2, size=[4], stride=[stride_x_0], storage_offset=offset_x)
//   %z_1: f32[4] = aten.as_strided.default(%base_2, ...)
//   %y: f32[4] = aten.add_.Tensor(%x_1, 1)
//   %x_2 = aten.copy_.default(%x, %x_1)
//
// which functionalization handles as it does any view. Strides and offsets are symbols that a guard binds to where the inputs
// of a call lie.
#pragma once

#include <optional>

#include "compiler/graph/graph.h"
#include "compiler/overlap.h"

namespace nacre {

// nullopt where no input that is written to could share memory with another: of one dtype, two tensors at least.
std::optional<OverlapGraph> overlapping(const Graph& captured);

}  // namespace nacre
