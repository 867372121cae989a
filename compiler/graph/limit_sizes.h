// Memory is planned before a run, so that every size that depends on data needs an upper limit.
#pragma once

#include <cstdint>

#include "compiler/graph/graph.h"

namespace nacre {

// The limit of a size for which the program states none (`torch._check(u0 <= LIMIT)` states one). More is an error in
// data when the program runs.
inline constexpr int64_t kSizeLimit = 65536;

// Gives kSizeLimit to symbols of a primitive graph that sizes need and that get their values while it runs; marks them
// as `assumed`.
void limit_sizes(Graph& graph);

}  // namespace nacre
