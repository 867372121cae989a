// Results that lie where an operand lay.
#pragma once

#include "compiler/loops/group.h"

namespace nacre {

// A temporary whose elements are read for the last time by the very points that make the elements of another one gives its
// memory to that: the other vanishes. It may have fewer rows (bands.h).
//   %y[i, j] = add (accumulator) %x[i, j]         ->  %x[i, j] = add (accumulator) %x[i, j]
//   %y[i, j] = add (accumulator) %x[i + 2, j]     ->  %x[i + 2, j] = add (accumulator) %x[i + 2, j]
// After the layout is chosen, since both must lie alike.
LoopProgram write_in_place(LoopProgram program);

}  // namespace nacre
