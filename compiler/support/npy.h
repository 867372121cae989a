// NumPy's .npy and .npz files: how tensors come in and go out of the command.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/tensor.h"

namespace nacre {

// Versions 1 to 3 of the format; Fortran order and big-endian are brought into C order and
// little-endian. `name` is what errors call the file. Object arrays and records are refused.
HostTensor parse_npy(std::span<const std::byte> bytes, std::string_view name);
HostTensor read_npy(const std::filesystem::path& path);

// Version 1, C order. bfloat16 has no NumPy type: by convention its bits are written as uint16, and
// what was read as uint16 may be bfloat16: whoever knows which changes the tensor's dtype.
std::string npy_bytes(const HostTensor& tensor);
void write_npy(const std::filesystem::path& path, const HostTensor& tensor);

// The arrays of an .npz in the order in which the archive lists them, each with its name (no
// ".npy").
std::vector<std::pair<std::string, HostTensor>> read_npz(const std::filesystem::path& path);

}  // namespace nacre
