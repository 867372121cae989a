// The order of groups that needs the least memory.
#pragma once

#include "compiler/loops/group.h"

namespace nacre {

// Groups that do not wait for each other change places where less lives at the worst moment then. All orders of a program of
// some twenty groups are seen; of a larger one the best few hundred beginnings of each length are followed. A program with
// control flow stays as it is.
LoopProgram order_for_memory(LoopProgram program);

}  // namespace nacre
