// Contractions as plain loop nests: what remains when no tile of the kernel library fits (other dtypes, three spatial
// dimensions, weights that are not constant). Slow, and always right.
#pragma once

#include <vector>

#include "compiler/loops/group.h"

namespace nacre {

// The groups that compute what `group` (a contraction) does. Error{unsupported} for recurrent layers.
std::vector<Group> as_loops(LoopProgram& program, const Group& group);

// Attention as two products and the softmax between them, its scores in memory; its epilogue reduces nothing.
std::vector<Group> attention_as_products(LoopProgram& program, const Group& group);

// The contraction's result as it is into a new buffer, and its epilogue as a group of its own.
std::vector<Group> split_epilogue(LoopProgram& program, const Group& group);

}  // namespace nacre
