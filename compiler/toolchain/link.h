// lld in this process: ELF objects -> one shared image.
#pragma once

#include "compiler/toolchain/module.h"

namespace nacre {

// The image has no dynamic relocations and no undefined symbols; otherwise the result is an error
// that names the symbol.
ToolResult lld_link(const LinkJob& job);

}  // namespace nacre
