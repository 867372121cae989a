// NumPy's .npy and .npz files: how tensors come in and go out of the command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/buffer.h"

namespace nacre {

// A dense array in C order, little-endian.
struct Array {
  std::string type;  // NumPy's kind and size: b1, i1..i8, u1..u8, f2, f4, f8, c8, c16
  std::vector<std::int64_t> shape;
  Buffer data;

  std::int64_t item_size() const;
  std::int64_t count() const;
};

// Versions 1 to 3 of the format; Fortran order and big-endian are brought into C order and
// little-endian. `name` is what errors call the file. Object arrays and records are refused.
Array parse_npy(std::span<const std::byte> bytes, std::string_view name);
Array read_npy(const std::filesystem::path& path);

// Version 1, C order. bfloat16 has no NumPy type: by convention its bits are written as u2.
std::string npy_bytes(std::string_view type, std::span<const std::int64_t> shape,
                      std::span<const std::byte> data);
void write_npy(const std::filesystem::path& path, const Array& array);

// The arrays of an .npz in the order in which the archive lists them, each with its name (no
// ".npy").
std::vector<std::pair<std::string, Array>> read_npz(const std::filesystem::path& path);

}  // namespace nacre
