// What pays on a GPU and not on a processor, where vectors want straight code and a kernel more costs next to nothing.
#pragma once

#include "compiler/loops/group.h"

namespace nacre {

// Of a fused program:
//   - what is cheap to compute from something else that is stored beside it is not stored
//       store %x[i] = v3; store %s[i] = mul v3 v3             ->  store %x[i] = v3, and readers of %s square %x
//   - a concatenation that is read at once is a choice among its parts
//       %c[i] = neg %x[i]; %c[i + 32] = %y[i]; ... load %c[j]  ->  load %x[j] where j < 32, else %y[j - 32]
LoopProgram fuse_for_device(LoopProgram program);

}  // namespace nacre
