// Fewer kernels for a device, once it is known what each group becomes.
//   - who multiplies a matrix with a vector makes the vector as well, in every block: a normalisation, an activation
//   - small nests that are nothing to each other run side by side
#pragma once

#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

LoopProgram merge_kernels(LoopProgram program, const Target& target);

}  // namespace nacre
