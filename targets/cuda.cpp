// NVIDIA's GPUs, by compute capability. Kernels are compiled by NVRTC, and the lowest of an artifact's targets also as PTX, which
// later devices run.
#include "targets/target.h"

namespace nacre {

using namespace feature;

std::vector<Target> cuda_targets() {
  Target orin;
  orin.name = "cuda-sm_87";
  orin.description = "Jetson Orin";
  orin.triple = "nvptx64-nvidia-cuda";
  orin.machine = 190;
  orin.compute_capability = 87;
  orin.feature_bits = cuda_sm87;
  orin.alignment = 256;
  orin.vector_bytes = 4;

  Target hopper = orin;
  hopper.name = "cuda-sm_90";
  hopper.description = "Hopper (H100, H200)";
  hopper.compute_capability = 90;
  hopper.feature_bits = cuda_sm90;

  Target thor = orin;
  thor.name = "cuda-sm_110";
  thor.description = "Jetson Thor";
  thor.compute_capability = 110;
  thor.feature_bits = cuda_sm110;
  return {orin, hopper, thor};
}

}  // namespace nacre
