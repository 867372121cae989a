// What a program looks like for a device: contractions that its kernels do not know are plain loops, and nests that are nothing to each
// other but neighbours are groups of their own, since a launch orders them as well as a barrier does.
#pragma once

#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

LoopProgram lay_out_for_device(LoopProgram program, const Target& target);

}  // namespace nacre
