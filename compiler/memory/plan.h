// Where temporaries lie in the arena: lifetimes -> offsets.
//
// With constant sizes every buffer takes the lowest place that is free during its life. Where sizes depend on symbols, one
// plan must hold for every shape: a buffer lies behind the ends of all buffers placed before it that live at the same time,
// which is a maximum that the runtime computes; memory then follows the actual sizes.
#pragma once

#include <vector>

#include "compiler/loops/group.h"

namespace nacre {

struct Placement {
  BufferId buffer = -1;
  int first = 0, last = 0;    // groups, inclusive
  Expr size_bytes;            // a multiple of 64
  int64_t offset = 0;         // if the plan is constant
  std::vector<size_t> below;  // otherwise: placements whose ends bound the offset
};

struct MemoryPlan {
  bool constant = true;
  std::vector<Placement> placements;
  int64_t size_bytes = 0;     // if constant
};

MemoryPlan plan_memory(const LoopProgram& program);

}  // namespace nacre
