// CUDA C++ -> cubin and PTX, by NVIDIA's run-time compiler: a library of the toolkit, or of PyPI's nvidia-cuda-nvrtc, which is
// opened when the first kernel has to be compiled. No GPU is needed.
#pragma once

#include <string>

namespace nacre {

struct DeviceCode {
  std::string cubin, ptx;
};

// Error{environment} where there is no such library; Error{internal} with the compiler's message if the source is wrong.
DeviceCode compile_device(const std::string& name, const std::string& source, int compute_capability, bool ptx);

// Its version, as a part of keys of caches: `13.0`.
std::string device_compiler_version();

}  // namespace nacre
