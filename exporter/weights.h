// Parameters, buffers and constants of a .pt2: raw storages with the shape and strides of each
// tensor in them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/tensor.h"
#include "exporter/archive.h"

namespace nacre {

struct Weight {
  HostTensor tensor;   // in C order; tensors of the same storage, sizes and strides share it
  std::string record;  // the storage
  std::vector<int64_t> strides;
  int64_t offset = 0;
  size_t storage_bytes = 0;

  bool same_memory(const Weight& other) const {
    return record == other.record && tensor.dtype == other.tensor.dtype &&
           tensor.shape == other.tensor.shape && strides == other.strides && offset == other.offset;
  }
  // The whole of its storage, in C order.
  bool complete() const;
  // Whether a tensor of its type and shape, seen with these strides and this offset (in elements),
  // lies inside its storage.
  bool storage_holds(const std::vector<int64_t>& seen_strides, int64_t seen_offset) const;
};

// Adds the tensors of `config` (weights or constants), whose records lie under `folder`.
void read_weights(const Archive& archive, const nlohmann::json& config, const std::string& folder,
                  std::map<std::string, Weight>& weights);

}  // namespace nacre
