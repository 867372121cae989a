// Targets as a user names them.
#pragma once

#include <string>
#include <vector>

#include "targets/target.h"

namespace nacre {

// Error{user} lists the names that there are.
const Target& find_target(const std::string& name);

// `x86-64-v3,cortex-a78ae`: each once, of each family the most demanding first, which is the order in which a device tries them.
std::vector<const Target*> find_targets(const std::string& names);

}  // namespace nacre
