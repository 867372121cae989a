// Kernels of work on whole rows (RowWork): calls of the kernel library, the rows divided among the threads.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

// In place of a kernel: what is called, and with which buffers.
KernelSource import_of(KernelContext& k);
void emit_rows(KernelContext& k);

}  // namespace nacre
