// Kernels for a CUDA device.
//
// Threads work in teams of 1, 32 or as many as a block has: a team takes one iteration of a group's outer loops (of a lone nest's
// own loops), its threads share the work inside. Where a nest reduces what lies side by side, a team shares a sum; otherwise
// each thread has its own. Local buffers of one element are registers; longer ones lie in shared memory or in scratch.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

KernelSource emit_device_kernel(KernelContext& k, const SymbolNodes& nodes);

}  // namespace nacre
