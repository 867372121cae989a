// A model as one relocatable object and a header: for firmware, and wherever there is nothing to load.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/firmware/entry.h"
#include "compiler/firmware/signature.h"

namespace nacre {

struct StaticLibrary {
  std::string object;  // ELF, relocatable
  std::string header;
  LibraryPlan plan;
  std::vector<Signature> signatures;   // of each entry
  std::vector<int64_t> stack_bytes;    // of a call of each, at most
  std::vector<std::string> undefined;  // what the object takes from elsewhere
  std::vector<int64_t> kernel_bytes;   // of each kernel with its constants
  int64_t code_bytes = 0;              // of all of them
  int64_t runtime_bytes = 0;           // of all other code: entries, and helpers of the compiler
  int64_t data_bytes = 0;              // weights, and what state begins with
};

// `model` was compiled with CompileOptions::library set to `name`. `from` is for the header.
StaticLibrary make_library(const CompiledModel& model, const std::string& name, const std::string& from, const CompileOptions& options);

}  // namespace nacre
