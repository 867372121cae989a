// What an ELF object says of itself.
#pragma once

#include "compiler/toolchain/module.h"

namespace nacre {

// `mark` makes the names of functions that only the object sees differ from those of other objects.
// Without the record of a function's stack (`-fstack-size-section`), its frame is -1.
ObjectFacts inspect_object(const std::string& bytes, const std::string& mark);

}  // namespace nacre
