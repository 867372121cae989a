// The order, places and bands with which a program fits into a limit of memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/memory/plan.h"

namespace nacre {

// What the kernel of a group costs.
struct GroupCost {
  int64_t scratch_bytes = 0;  // of one thread, at the upper limits of the symbols; kUnbounded: no limit
  double flops = 0;
};
using CostOf = std::function<std::vector<GroupCost>(const LoopProgram&)>;

// What a session needs beside its own structure, weights and state: the arena and the scratch of one thread, at the upper limits
// of the symbols. kUnbounded: there is none.
struct Footprint {
  int64_t arena_bytes = 0, scratch_bytes = 0;
  int64_t total() const;
};

struct FitOptions {
  int64_t limit_bytes = 0;  // 0: as little as possible
  int64_t most_bands = 64;  // of a chain of layers; 1: no partial execution
};

struct Fitted {
  LoopProgram program;
  Footprint needs;
  double flops = 0, flops_before = 0;
};

// Tries, in this order, until the limit holds: results in the memory of operands and temporaries in outputs; other orders of
// groups; chains of layers in bands of rows, those first that compute the least rows twice. Where nothing holds it, the result
// is the smallest that was found.
Fitted fit_memory(const LoopProgram& program, const FitOptions& options, const CostOf& cost_of);

// What lives when most does, with the Python lines that made it, a line each.
std::string blame(const LoopProgram& program, const MemoryPlan& plan);

}  // namespace nacre
