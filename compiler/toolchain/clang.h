// Clang 19 in this process: C++ text -> ELF object, memory to memory. The compiler sees an
// in-memory file system that holds the kernel and the kernel library, nothing of the machine it
// runs on; so the same job gives the same bytes everywhere.
#pragma once

#include "compiler/toolchain/module.h"

namespace nacre {

ToolResult clang_compile(const CompileJob& job);

}  // namespace nacre
