// The text of the kernel library, which generated kernels include as `nacre/NAME`.
#pragma once

#include <vector>

namespace nacre {

struct KernelHeader {
  const char* name;  // `nacre/gemm.h`
  const char* text;
};

const std::vector<KernelHeader>& kernel_headers();

}  // namespace nacre
