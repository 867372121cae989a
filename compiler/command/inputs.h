// Where the inputs of a run come from: files, a folder, an archive, or made up from what the model
// accepts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/run.h"

namespace nacre {

// input_0.npy, input_1.npy, ... of a folder, `count` of them.
std::vector<HostTensor> read_inputs(const std::filesystem::path& folder, std::uint32_t count);

// The arrays of an .npz in its order.
std::vector<HostTensor> read_input_archive(const std::filesystem::path& path);

// Normally distributed values; 0 and 1 for integers and booleans. The same for the same `seed`.
HostTensor random_tensor(nacre_dtype dtype, std::vector<std::int64_t> shape, unsigned seed);

// Random values in shapes that the model's guards allow: fixed dimensions as they are, the same
// number for the same symbol. `shapes`: `1,3,224,224` or `I=1,3,224,224`, for inputs in order or by
// number; they win. Error{user} where a shape cannot be guessed.
std::vector<HostTensor> random_inputs(const RuntimeModel& model, std::uint32_t entry,
                                      const std::vector<std::string>& shapes);

}  // namespace nacre
