// Complex numbers as pairs: every value of complex dtype becomes two real ones, and every primitive on complex numbers what
// it means for the two parts.
//
//   %y: c64[4] = prim.mul(%a, %b)
// becomes
//   %re: f32[4] = prim.sub(prim.mul(%a_re, %b_re), prim.mul(%a_im, %b_im)), and %im alike
//
// What is left of complex dtype: inputs, which only prim.view_as_real reads, and results of prim.view_as_complex, which are
// outputs. Loops have both as the parts in a last dim.
#pragma once

#include "compiler/graph/graph.h"

namespace nacre {

Graph split_complex(Graph primitive);

}  // namespace nacre
