// Recurrent layers as a matrix product over all time steps and what has to go step by step.
#pragma once

#include "compiler/loops/group.h"

namespace nacre {

// The groups that come before the layer: they compute what becomes its operand 0, the inputs' part of all gates
// [time, batch, gates * hidden]. Its operands for that part are absent afterwards.
std::vector<Group> project_inputs(LoopProgram& program, Contraction& c);

}  // namespace nacre
