// The text form of a loop program (group.h shows it), which parses back to an equal program.
#pragma once

#include <string>
#include <string_view>

#include "compiler/loops/group.h"

namespace nacre {

std::string print(const LoopProgram& program);
std::string print(const LoopProgram& program, const Group& group);
LoopProgram parse_loops(std::string_view text);

}  // namespace nacre
