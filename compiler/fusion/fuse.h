// Fewer groups that compute the same: the stage between lowering and layout.
//   inline     a pointwise producer vanishes into its consumers' loads
//   epilogue   a pointwise consumer joins the contraction or reduction that feeds it
//   nests      groups that share outer loops become one kernel; what passes between them becomes local
// rules.h has one entry for each rule: when it is legal, what it gains, how it merges. fuse() is the search.
#pragma once

#include "compiler/loops/group.h"

namespace nacre {

// Local buffers have constant shapes, 64 KiB in all for a group at most; every iteration writes them before it reads them.
// Contractions never have outer loops. Group names come from the captured operators, or the primitives where none is known.
LoopProgram fuse(LoopProgram program);

}  // namespace nacre
