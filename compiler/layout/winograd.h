// Which convolutions Winograd's algorithm computes faster (targets/kernel/winograd.h).
#pragma once

#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

// Rows and columns of the result that may go together: 2 or 4; 0 is the direct sum. What is expected to take the least time comes first.
std::vector<int> winograd_choices(const Contraction& c, const Target& target);

// Vectors of a panel of its weights.
int winograd_panel_vectors(int64_t oc, const Target& target);

// Scratch of one thread, in bytes, at least.
Expr winograd_scratch(const Target& target, int outputs, int panel_vectors, int64_t ic, const Expr& tiles);

}  // namespace nacre
