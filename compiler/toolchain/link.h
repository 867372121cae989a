// lld in this process: ELF objects -> one shared image, or whatever else the flags say.
#pragma once

#include "compiler/toolchain/module.h"

namespace nacre {

// An image has no dynamic relocations and no undefined symbols; otherwise the result is an error
// that names the symbol.
ToolResult lld_link(const LinkJob& job);

}  // namespace nacre
