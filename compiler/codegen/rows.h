// Kernels of work on whole rows (RowWork): calls of the kernel library, the rows divided among the threads.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

void emit_rows(KernelContext& k);

}  // namespace nacre
