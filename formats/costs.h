// What each variant of an artifact costs in bytes: in total, and what would not be there without it.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/writer.h"

namespace nacre::formats {

struct VariantCost {
  uint32_t kernels = 0, own_kernels = 0;          // that it calls; that no other variant calls
  uint64_t code_bytes = 0, own_code_bytes = 0;    // of those kernels
  uint64_t weight_bytes = 0, own_weight_bytes = 0;  // that it reads; equal bytes count once
  uint64_t table_bytes = 0;                       // guards, nodes, buffers and commands
};

// By entry, then by variant.
std::vector<std::vector<VariantCost>> variant_costs(const Artifact& artifact);

}  // namespace nacre::formats
