// Targets as a user names them.
#pragma once

#include <string>

#include "targets/target.h"

namespace nacre {

// Error{user} lists the names that there are.
const Target& find_target(const std::string& name);

}  // namespace nacre
