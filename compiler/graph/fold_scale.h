// A scale of the output channels moves into the constant weights of the convolution or matrix product before it, which is
// what folding a batch norm is.
//
//   %c = prim.conv(%x, %w)
//   %y = prim.mul(%c, prim.broadcast(%s, dims=[1]))
// becomes
//   %v = prim.mul(%w, prim.broadcast(%s, dims=[0]))     # constant: computed at compile time
//   %y = prim.conv(%x, %v)
// and the same through a constant added in between: (c + b) * s = conv(x, w * s) + b * s.
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

// Only where the contraction has no other use. Leaves the replaced nodes dead.
Graph fold_scale(Graph primitive);

}  // namespace nacre
