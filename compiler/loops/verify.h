// What a loop program must satisfy. Throws Error{internal} naming the group and the rule.
#pragma once

#include "compiler/loops/group.h"

namespace nacre {

void verify(const LoopProgram& program);

}  // namespace nacre
