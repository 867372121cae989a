// An entry's program as straight-line C++: what the runtime's walk over expressions, guards, slots and commands does, with
// everything known at compile time in its place. Kernels are called directly, weights lie in read-only data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/firmware/signature.h"
#include "formats/writer.h"

namespace nacre {

// Where a library keeps what its entries share.
struct LibraryPlan {
  std::string name;
  std::vector<std::string> kernels;    // symbols, by number
  std::vector<int64_t> state_offsets;  // in the state's memory
  int64_t state_bytes = 0;
  int64_t arena_bytes = 0;  // of the entry that needs most, with what its kernels need beside their buffers
};

// `alignment`: of each state. Error{unsupported} names what a library cannot have: an arena without upper limit, a function of the
// application.
LibraryPlan plan_library(const formats::Artifact& artifact, const std::string& name, std::vector<std::string> kernels, int64_t alignment);

// The symbol of a weight's data.
std::string weight_symbol(const LibraryPlan& plan, uint32_t weight);

// A C++ function definition. What it returns is said in the header (header.cpp).
std::string entry_function(const formats::Artifact& artifact, const formats::Entry& entry, const Signature& signature, const LibraryPlan& plan);

}  // namespace nacre
