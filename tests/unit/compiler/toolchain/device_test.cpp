// Kernels of CUDA devices, compiled without one.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/codegen/kernel.h"
#include "compiler/graph/text.h"
#include "compiler/compile.h"
#include "compiler/support/error.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/nvrtc.h"
#include "formats/device_image.h"

namespace nacre {
namespace {

bool has_compiler() {
  try {
    device_compiler_version();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Of each kind of kernel one: pointwise, a row's reductions, a product, a sort.
constexpr const char* kProgram = R"(graph forward functional {
  symbol s0: [1, 512] hint 32
  input %x: f32[s0, 64] user "x"
  input %w: f32[48, 64] user "w"
  %y: f32[s0, 48] = aten.linear.default(input=%x, weight=%w)
  %z: f32[s0, 48] = aten.softmax.int(self=%y, dim=1)
  %v: f32[s0, 48], %i: i64[s0, 48] = aten.sort.default(self=%z, dim=1, descending=true)
  %e: f32[s0, 48] = aten.erf.default(self=%v)
  output %e user
  output %i user
}
)";

nacre_device_image head_of(const formats::Image& image) {
  nacre_device_image head{};
  EXPECT_GE(image.bytes.size(), sizeof head);
  std::memcpy(&head, image.bytes.data(), sizeof head);
  return head;
}

TEST(Device, CompilesForEveryDeviceAtOnceAndForLaterOnes) {
  if (!has_compiler()) GTEST_SKIP() << "libnvrtc.so is not here, so that nothing can be compiled for CUDA devices";
  Program program;
  program.graph = parse_graph(kProgram);
  CompileOptions options;
  options.target = "cuda-sm_87,cuda-sm_90,cuda-sm_110,x86-64-v3";
  const CompiledModel model = compile(std::move(program), options);
  ASSERT_EQ(model.artifact.images.size(), 4u);
  for (const formats::Image& image : model.artifact.images) {
    if (image.machine != NACRE_MACHINE_CUDA) continue;
    const nacre_device_image head = head_of(image);
    EXPECT_EQ(head.magic, NACRE_DEVICE_IMAGE_MAGIC);
    EXPECT_GE(head.kernel_count, 4u);
    nacre_device_kernel kernel;
    std::memcpy(&kernel, image.bytes.data() + sizeof head, sizeof kernel);
    EXPECT_GT(kernel.cubin_size, 0u);
    // Only the lowest has PTX.
    EXPECT_EQ(kernel.ptx_size > 0, head.compute_capability == 87);
  }
  // The rows for devices come first, from the latest on.
  const auto& variants = model.artifact.entries.at(0).variants;
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_NE(variants[0].name.find("sm_110"), std::string::npos);
  EXPECT_NE(variants[3].name.find("x86-64-v3"), std::string::npos);
}

TEST(Device, APrecisionIsForDevices) {
  Program program;
  program.graph = parse_graph(kProgram);
  CompileOptions options;
  options.target = "x86-64-v3";
  options.precision = NACRE_f16;
  EXPECT_THROW(compile(std::move(program), options), Error);
}

}  // namespace
}  // namespace nacre
