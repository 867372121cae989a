// What a program takes of memory that is only read, and how it is made to fit into a limit of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/firmware/library.h"

namespace nacre {

struct FlashUse {
  int64_t code_bytes = 0, weight_bytes = 0, other_bytes = 0;
  std::string other;                   // what the others are: `tables`
  std::vector<int64_t> kernel_bytes;   // of code_bytes, by kernel
  int64_t total() const { return code_bytes + weight_bytes + other_bytes; }
};
FlashUse flash_of_artifact(const formats::Artifact& artifact);
FlashUse flash_of_library(const StaticLibrary& library);

// Compiles until `use` of the result is within options.flash_limit: as it is; with code compiled for size; and, where there is a
// limit of memory as well, with fewer bands of layers (bands of different heights have kernels of their own: fewer need less
// flash, and more memory). Error{user} says what is over and what takes the most, of the smallest that was found.
CompiledModel compile_into_flash(const std::vector<Method>& methods, const CompileOptions& options,
                                 const std::function<FlashUse(const CompiledModel&, const CompileOptions&)>& use);

}  // namespace nacre
