// The C header of a static library.
#pragma once

#include <string>
#include <vector>

#include "compiler/firmware/entry.h"
#include "compiler/firmware/signature.h"
#include "targets/target.h"

namespace nacre {

struct HeaderFacts {
  std::string from;  // what was compiled
  const Target& target;
  std::vector<int64_t> stack_bytes;  // of each entry
};

std::string header_text(const formats::Artifact& artifact, const LibraryPlan& plan, const std::vector<Signature>& signatures,
                        const HeaderFacts& facts);

}  // namespace nacre
