// Where temporaries lie in the arena: lifetimes -> offsets.
//
// With constant sizes every buffer takes the lowest place that is free during its life, in that one of several orders which
// gives the smallest arena; where they all leave gaps, in orders drawn at random, too. Where sizes depend on symbols, one plan
// must hold for every shape: of two buffers that live at the same time, one lies above the other whatever the sizes are, and
// an offset is the largest end of those below, which the runtime computes. Which of the two is above is what the plan for
// typical sizes says: for these the arena is as small as with constant sizes, and it follows the actual ones.
// A chain of 40 layers takes turns between two places:
//
//   b0: 0   b1: end of max(b0, b2)   b2: 0   b3: end of max(b2, b4) ...
#pragma once

#include <vector>

#include "compiler/memory/lifetimes.h"

namespace nacre {

struct Placement : Lifetime {
  BufferId inside = -1;       // an output, which is free until it is written; -1: the arena
  int64_t offset = 0;         // if the plan is constant
  std::vector<size_t> below;  // otherwise: earlier placements whose ends bound the offset
};

struct MemoryPlan {
  bool constant = true;
  std::vector<Placement> placements;
  int64_t size_bytes = 0;     // if constant
};

// `use_outputs`: temporaries may lie in outputs, as long as these are not written yet.
MemoryPlan plan_memory(const LoopProgram& program, bool use_outputs = false);

}  // namespace nacre
