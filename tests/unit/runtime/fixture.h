// Small artifacts around the kernels of kernels.c, and what tests need to run them.
#pragma once

#include <gtest/gtest.h>
#include <nacre/nacre.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "formats/writer.h"

namespace nacre::test {

namespace fmt = nacre::formats;
using fmt::Size;

enum KernelNumber { kScale, kSum, kGather, kCount, kLess, kClear, kMark, kDivide, kKernelCount };

// Bytes at a multiple of 64, as the runtime wants them. A test may write over them.
class Aligned {
 public:
  explicit Aligned(std::span<const uint8_t> bytes) : size_(bytes.size()) {
    data_ = static_cast<uint8_t*>(::operator new(size_ ? size_ : 1, std::align_val_t(64)));
    if (size_) std::memcpy(data_, bytes.data(), size_);
  }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  ~Aligned() { ::operator delete(data_, std::align_val_t(64)); }

  uint8_t* data() { return data_; }
  std::size_t size() const { return size_; }
  std::span<const uint8_t> span() const { return {data_, size_}; }

 private:
  uint8_t* data_;
  std::size_t size_;
};

// The image that kernels.c was compiled to.
std::vector<uint8_t> kernel_image();

// Images, kernels and origins, no entry yet.
fmt::Artifact parts();

// forward(x: f32[2*s0, 4]) -> 4 * x, by way of the arena; 2*s0 in [2, 64]. Kernels read the element
// count from node 2.
fmt::Artifact scale_artifact();

void write_file(const fmt::Artifact& artifact, const std::string& path);

fmt::Slot slot(nacre_slot_kind kind, uint32_t index, Size offset, Size size);
fmt::Command call(uint32_t kernel, std::vector<uint32_t> operands,
                  uint16_t flags = NACRE_COMMAND_BARRIER);
fmt::Command end();
// The dtype and rank records of an input.
std::vector<fmt::Guard> typed(uint16_t input, nacre_dtype dtype, int64_t rank);
// An entry with one variant and no input, output or node.
fmt::Entry empty_entry(const std::string& name);

// An opened artifact and a session of it, which the test expects to succeed.
class Opened {
 public:
  explicit Opened(const fmt::Artifact& artifact, nacre_session_options options = {},
                  nacre_open_options open = {});
  ~Opened();
  nacre_model* model = nullptr;
  nacre_session* session = nullptr;
  std::string message() const { return nacre_session_message(session); }

 private:
  Aligned bytes_;
};

// Nodes that are constants: node 2 is the count that kernels read.
std::vector<fmt::Node> constant_count(int64_t count);

// `shape` must outlive the result.
nacre_tensor tensor(void* data, const std::vector<int64_t>& shape, nacre_dtype dtype);

}  // namespace nacre::test
