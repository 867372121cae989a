#include "compiler/layout/precision.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/loops/text.h"

namespace nacre {
namespace {

constexpr float kFine = 1 + 0x1p-12f;  // 1 in 11 bits

HostTensor filled(std::vector<int64_t> shape, float value) {
  std::byte* bytes = nullptr;
  HostTensor tensor = make_tensor(NACRE_f32, std::move(shape), &bytes);
  std::fill_n(reinterpret_cast<float*>(bytes), tensor.elements(), value);
  return tensor;
}

// What is read of a weight of the program.
float value_of(const LoopProgram& program, const std::map<std::string, HostTensor>& weights, size_t buffer) {
  return weights.at(program.buffers[buffer].target).as<float>()[0];
}

// A group that multiplies %x by a weight.
std::string product(const std::string& name, const std::string& weight, const std::string& result) {
  return "  group " + name + R"(
    matmul f32
      loops m: 16, n: 48 | k: 64
      operand %x[m, k]
      operand %)" + weight + R"([n, k]
    nest m: 16, n: 48
      v0 = accumulator 0 f32
      store %)" + result + R"([m, n] = v0
)";
}

TEST(Precision, WeightsThatProductsAloneReadAreRoundedTo11Bits) {
  LoopProgram program = parse_loops(std::string(R"(loops forward {
  buffer %x: f32[16, 64] input 0
  buffer %w: f32[48, 64] weight "w"
  buffer %u: f32[48, 64] weight "u"
  buffer %z: f32[16, 48] output 0
  buffer %y: f32[16, 48] output 1
  buffer %s: f32[48, 64] output 2
)") + product("alone", "w", "z") + product("also", "u", "y") + R"(  group copy
    nest i0: 48, i1: 64
      v0 = load %u[i0, i1]
      store %s[i0, i1] = v0
  input %x
  output %z
  output %y
  output %s
}
)");
  std::map<std::string, HostTensor> weights;
  weights.emplace("w", filled({48, 64}, kFine));
  weights.emplace("u", filled({48, 64}, kFine));
  lower_precision(program, weights, Precision::tf32);
  EXPECT_EQ(value_of(program, weights, 1), 1.f);
  EXPECT_EQ(value_of(program, weights, 2), kFine) << "its copy is a result";
  EXPECT_EQ(weights.at("w").as<float>()[0], kFine) << "other programs may read it";
}

}  // namespace
}  // namespace nacre
