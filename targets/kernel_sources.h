// The text of the kernel library, which generated kernels include as `nacre/NAME`.
#pragma once

#include <vector>

namespace nacre {

struct KernelHeader {
  const char* name;  // `nacre/gemm.h`
  const char* text;
};

const std::vector<KernelHeader>& kernel_headers();
// The same of kernels for a CUDA device, which NVRTC compiles.
const std::vector<KernelHeader>& device_headers();
// The program that tries a static library (harness/harness.h), in the same way.
const std::vector<KernelHeader>& harness_headers();

}  // namespace nacre
