// exporter/ as the command sees it: loaded when an input needs PyTorch.
#pragma once

#include "compiler/frontend.h"

namespace nacre {

// Error{environment} that says what to install or set, where libnacre_exporter.so or libtorch
// cannot be loaded.
const Frontend& frontend();

}  // namespace nacre
