// Operators that packages of models define for PyTorch in Python, and that libtorch does not have therefore.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace nacre {
namespace {

// transformers, integrations/moe.py: rows of x [S, K] in groups, which end at `ends` [E], each by its group's
// weight [E, K, N]; rows behind the last group give zeros.
at::Tensor grouped_matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends) {
  at::Tensor y = at::zeros({x.size(0), weight.size(2)}, x.options());
  int64_t start = 0;
  for (int64_t i = 0; i < ends.size(0); ++i) {
    const int64_t end = ends[i].item<int64_t>();
    if (end > start) y.slice(0, start, end).copy_(at::mm(x.slice(0, start, end), weight[i]));
    start = end;
  }
  return y;
}

TORCH_LIBRARY_FRAGMENT(transformers, library) {
  library.def("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", grouped_matmul);
}

}  // namespace
}  // namespace nacre
