// A device's kernels that call the kernel library: whole rows, and contractions, most of which are no loop nests.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

KernelSource::Launch emit_device_rows(KernelContext& k);
KernelSource::Launch emit_device_product(KernelContext& k);
KernelSource::Launch emit_device_recurrent(KernelContext& k);

// Whether attention runs on tensor cores; otherwise it has to be loops.
bool attention_fits(const LoopProgram& program, const Group& group, const Target& target);

// Of a block's shared memory, what sums over its threads take (nacre/cuda_team.h), at most.
constexpr int kFoldBytes = 2048;

// Whether a lone nest multiplies a matrix with one vector, in the way that has a tile.
bool is_matrix_vector(const LoopProgram& program, const Group& group, const Target& target);

}  // namespace nacre
