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
//
// What later stages may rely on, here and after fusion:
//   - Index expressions are simplified for the ranges of the loops. They are affine in the loop variables but for floordiv
//     and mod by loop-free expressions (reshapes, rolls), and `vN`. Within `at` they are in range wherever the load is
//     executed; with `when` only where every condition holds.
//   - Loops of one iteration are left out and indexed by 0. They occur only as loops of a contraction (their variable is not
//     used), as the only reduced loop of a reduction over one element, and as a lone outer loop.
//   - A nest's code is in SSA order and free of duplicates and of what is not needed. With reduced loops, what a reduction
//     needs comes first, then the reductions, then the rest, which shares no scalar with the first part.
//   - The points of a nest's loops (those not reduced or scanned) and the iterations of outer loops are independent unless
//     the group is serial: each stores elements of its own, and reads what the nest stores only at the point that stores it.
//   - Several groups may write one buffer: the parts of a concat, or a copy and updates of it in place; also a state.
//   - matmul and attention: the address of an operand in the order of the logical dims is affine in m, n, k (s, t, d, e), with
//     strides free of loop variables; single dims need not be (`m floordiv s0`, `m mod s0` where rows of a batch are one
//     dim), so a layout must keep such dims side by side. Other loop variables occur in any way.
//   - conv, conv_transpose, lstm, gru: each dim of an operand is affine in one variable of its own (permuted, sliced, strided),
//     or constant, and all variables occur.
//   - matmul, conv, conv_transpose and attention have one nest, over the contraction's loops that are not reduced, by the same
//     names; lstm and gru have none and write `results` themselves. The operands of lstm and gru come in the order of
//     prim.lstm's arguments.
//   - sort sorts the last dim, stably, NaN as the largest.
LoopProgram lower(const Graph& primitive);

}  // namespace nacre
