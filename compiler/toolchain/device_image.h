// Kernels compiled for a CUDA device as objects (which the cache keeps), and the code image that they make (formats/device_image.h).
#pragma once

#include <span>

#include "compiler/toolchain/toolchain.h"

namespace nacre {

// A cubin and its PTX, if that is wanted, in one string.
std::string compile_device_object(const Source& source, const Target& target, bool ptx);
std::string device_cache_key(const Source& source, const Target& target, bool ptx);

CodeImage device_image(std::span<const Source> sources, const std::vector<std::string>& objects, const Target& target);

}  // namespace nacre
