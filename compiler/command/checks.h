// What `nacre compile` makes sure of before it writes: that each variant gives PyTorch's result.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/graph/graph.h"
#include "compiler/run.h"

namespace nacre {

// Runs each variant of entry number `entry` alone in the real runtime and compares. One line for
// each variant in the artifact's order; Error{internal} where one is not PyTorch's. Of a program with
// operators that only the application can compute, `imports` may have functions, which run.
std::vector<std::string> check_variants(const Program& captured, const CompiledModel& model,
                                        std::uint32_t entry, const std::string& path,
                                        const Imports& imports);

}  // namespace nacre
