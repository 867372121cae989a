// What `nacre compile` makes sure of before it writes: that each variant gives PyTorch's result.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/graph/graph.h"

namespace nacre {

// Runs each variant of entry number `entry` alone in the real runtime and compares. One line for
// each variant in the artifact's order; Error{internal} where one is not PyTorch's.
std::vector<std::string> check_variants(const Program& captured, const CompiledModel& model,
                                        std::uint32_t entry, const std::string& path);

}  // namespace nacre
