// Layouts for the whole program, the tile of the kernel library for each contraction, and packed weights.
//
//   - Images between convolutions lie channels-last; the choice spreads from the convolutions through the groups that touch
//     the same buffers, so that no group has to change a layout. User inputs and outputs keep the order that PyTorch gives.
//   - Constant operands of contractions are packed as their tile wants them. Packing is itself a loop program, which the
//     driver compiles and runs on the host.
//   - A contraction that no tile fits becomes plain loop nests.
#pragma once

#include "compiler/layout/pack.h"
#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

struct LaidOut {
  LoopProgram program;
  LoopProgram packing;               // no inputs; each output is one packed weight
  std::vector<PackedWeight> packed;  // of the packing's outputs: what `program`'s buffers call them
};

LaidOut choose_layout(LoopProgram program, const Target& target);

// The first part of it: the order of the dims of temporaries in memory.
void choose_orders(LoopProgram& program);

// The given user input comes with its second dimension last in memory; what reads it follows.
void lie_channels_last(LoopProgram& program, size_t input);

}  // namespace nacre
