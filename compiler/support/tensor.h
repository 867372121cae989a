// Dense tensors on the host: weights, sample inputs, results, what is read from and written to .npy
// files.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/dtype.h"

namespace nacre {

// Elements in C order, shared and never changed once made. bfloat16 and float16 are stored as their
// 16 bits, complex as pairs.
struct HostTensor {
  nacre_dtype dtype{};
  std::vector<int64_t> shape;
  std::shared_ptr<const std::byte> data;  // aligned to 64 bytes when made by make_tensor
  size_t size_bytes = 0;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.get());
  }
};

// A new tensor whose bytes `*bytes` may be written until it is shared. Zero-filled.
HostTensor make_tensor(nacre_dtype dtype, std::vector<int64_t> shape, std::byte** bytes);

}  // namespace nacre
