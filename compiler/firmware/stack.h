// The stack that a call needs at most, from what the compiler recorded of each function.
#pragma once

#include <string>
#include <vector>

#include "compiler/toolchain/module.h"
#include "targets/target.h"

namespace nacre {

// Of `function`, with all that it may call. memcpy and memset, which come from elsewhere, count as nothing. Error{internal} where
// functions call each other in a circle, or one is not recorded.
int64_t worst_stack(const std::vector<ObjectFacts>& objects, const std::string& function, const Target& target);

}  // namespace nacre
