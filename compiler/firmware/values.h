// The numbers that a call's sizes come to: what an entry function computes, on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/writer.h"

namespace nacre {

// By node of the entry, then of the variant. `symbols` by number in the artifact. Nothing where one cannot be computed.
std::optional<std::vector<int64_t>> node_values(const formats::Entry& entry, const std::vector<int64_t>& symbols);

inline int64_t value_of(formats::Size size, const std::vector<int64_t>& nodes) {
  return size.is_constant() ? size.raw : nodes.at(size.node_number());
}

}  // namespace nacre
