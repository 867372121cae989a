#include "compiler/memory/bands.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "compiler/codegen/kernel.h"
#include "compiler/layout/choose.h"
#include "compiler/loops/interpret.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/memory/in_place.h"
#include "compiler/memory/lifetimes.h"

namespace nacre {
namespace {

HostTensor random_tensor(unsigned seed, std::vector<int64_t> shape) {
  std::byte* bytes = nullptr;
  HostTensor t = make_tensor(NACRE_f32, std::move(shape), &bytes);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < t.elements(); ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(random() % 17) - 8;
  return t;
}

// A residual block between a strided convolution and the mean over its pixels. Sums of small integers are exact in any order.
LoopProgram residual_block() {
  LoopProgram program = parse_loops(R"(loops f {
  buffer %x: f32[1, 2, 24, 7] input 0
  buffer %w1: f32[3, 2, 4, 3] weight "w1"
  buffer %w2: f32[3, 1, 3, 3] weight "w2"
  buffer %a: f32[1, 3, 12, 4] temporary order [0, 2, 3, 1]
  buffer %b: f32[1, 3, 12, 4] temporary order [0, 2, 3, 1]
  buffer %c: f32[1, 3, 12, 4] temporary order [0, 2, 3, 1]
  buffer %p: f32[1, 3, 6, 4] temporary order [0, 2, 3, 1]
  buffer %y: f32[3] output 0
  group first
    conv f32 stride [2, 2] padding [1, 1] dilation [1, 1] output_padding [0, 0] groups 1
      loops n: 1, o: 3, y0: 12, y1: 4
      operand %x[0, x1, x2, x3] over x0: 1, x1: 2, x2: 24, x3: 7
      operand %w1[w0, w1, w2, w3] over w0: 3, w1: 2, w2: 4, w3: 3
    nest n: 1, o: 3, y0: 12, y1: 4
      v0 = accumulator 0 f32
      store %a[0, o, y0, y1] = v0
  group second
    conv f32 stride [1, 1] padding [1, 1] dilation [1, 1] output_padding [0, 0] groups 3
      loops n: 1, o: 3, y0: 12, y1: 4
      operand %a[0, x1, x2, x3] over x0: 1, x1: 3, x2: 12, x3: 4
      operand %w2[w0, w1, w2, w3] over w0: 3, w1: 1, w2: 3, w3: 3
    nest n: 1, o: 3, y0: 12, y1: 4
      v0 = accumulator 0 f32
      store %b[0, o, y0, y1] = v0
  group add
    nest o: 3, y0: 12, y1: 4
      v0 = load %a[0, o, y0, y1]
      v1 = load %b[0, o, y0, y1]
      v2 = add v0 v1
      store %c[0, o, y0, y1] = v2
  group pool
    nest o: 3, y0: 6, y1: 4 | k: 2
      v0 = load %c[0, o, 2*y0 + k, y1]
      v1 = reduce amax v0
      store %p[0, o, y0, y1] = v1
  group mean
    nest o: 3 | y0: 6, y1: 4
      v0 = load %p[0, o, y0, y1]
      v1 = reduce sum v0
      v2 = constant 2 f32
      v3 = mul v1 v2
      store %y[o] = v3
  input %x
  output %y
}
)");
  verify(program);
  return program;
}

std::vector<std::optional<RowWise>> all_row_wise(const LoopProgram& program) {
  std::vector<std::optional<RowWise>> result;
  for (int g = 0; g < static_cast<int>(program.groups.size()); ++g) result.push_back(row_wise(program, g));
  return result;
}

void expect_the_same(const LoopProgram& changed, const LoopProgram& original) {
  verify(changed);
  const std::map<std::string, HostTensor> weights{{"w1", random_tensor(1, {3, 2, 4, 3})}, {"w2", random_tensor(2, {3, 1, 3, 3})}};
  const std::vector<HostTensor> inputs{random_tensor(3, {1, 2, 24, 7})};
  const HostTensor want = interpret(original, weights, inputs).at(0), got = interpret(changed, weights, inputs).at(0);
  ASSERT_EQ(want.size_bytes, got.size_bytes);
  EXPECT_EQ(std::memcmp(want.data.get(), got.data.get(), want.size_bytes), 0);
}

TEST(Bands, RowsAreTheOutermostDimensionInMemory) {
  const LoopProgram program = residual_block();
  EXPECT_EQ(row_dim(program.buffers[3]), 2);  // %a
  EXPECT_EQ(row_dim(program.buffers[0]), 1);  // %x
  EXPECT_EQ(rows_of(program.buffers[6]), 6);  // %p
}

TEST(Bands, AConvolutionNeedsTheRowsOfItsTaps) {
  const LoopProgram program = residual_block();
  const auto rows = all_row_wise(program);
  const Chain chain = chain_to(program, rows, 0, 3);
  ASSERT_EQ(chain.groups.size(), 4u);
  const std::vector<Rows> needed = rows_needed(program, chain, {2, 4});
  EXPECT_EQ(needed[3].begin, 2);
  EXPECT_EQ(needed[2].begin, 4);  // pairs of rows
  EXPECT_EQ(needed[2].end, 8);
  EXPECT_EQ(needed[0].begin, 3);  // a halo of one row
  EXPECT_EQ(needed[0].end, 9);
}

TEST(Bands, GiveWhatTheWholeGives) {
  const LoopProgram program = residual_block();
  const auto rows = all_row_wise(program);
  for (int first = 0; first < 3; ++first)
    for (int64_t count = 2; count <= 6; ++count) {
      const Chain chain = chain_to(program, rows, first, 3);
      ASSERT_EQ(chain.groups.size(), static_cast<size_t>(first == 1 ? 3 : first == 2 ? 2 : 4)) << first;
      const auto banded = in_bands(program, chain, count);
      ASSERT_TRUE(banded.has_value());
      expect_the_same(*banded, program);
      expect_the_same(write_in_place(*banded), program);
    }
}

TEST(Bands, NeedLessThanTheWhole) {
  const LoopProgram program = residual_block();
  const Chain chain = chain_to(program, all_row_wise(program), 0, 3);
  const auto banded = in_bands(program, chain, 6);
  ASSERT_TRUE(banded.has_value());
  EXPECT_LT(peak_of(lifetimes(write_in_place(*banded)), {}).bytes, peak_of(lifetimes(write_in_place(program)), {}).bytes);
}

TEST(Bands, OfOneHeightShareTheirKernels) {
  const Target& target = *target_named("x86-64-v3");
  const LoopProgram program = choose_layout(residual_block(), target).program;
  const Chain chain = chain_to(program, all_row_wise(program), 0, 3);
  const auto banded = in_bands(program, chain, 6);
  ASSERT_TRUE(banded.has_value());
  const auto kernel = [&](const std::string& name) {
    for (const Group& group : banded->groups)
      if (group.name == name) return emit_kernel(*banded, group, target);
    return KernelSource{};
  };
  for (const char* layer : {"first", "second", "add", "pool"}) {
    const KernelSource a = kernel(layer + std::string("_b2")), b = kernel(layer + std::string("_b3"));
    ASSERT_FALSE(a.body.empty()) << layer;
    EXPECT_EQ(a.body, b.body);
  }
  EXPECT_NE(kernel("first_b0").body, kernel("first_b2").body);
}

TEST(Bands, WhatOthersReadExistsAsAWhole) {
  LoopProgram program = residual_block();
  program.groups[4].nests[0].code[0].buffer = 5;  // the mean of %c, in place of %p
  const Chain chain = chain_to(program, all_row_wise(program), 0, 3);
  EXPECT_LT(chain.groups.size(), 2u);
}

TEST(Bands, AReductionOverRowsGoesInParts) {
  const LoopProgram program = residual_block();
  EXPECT_EQ(reduced_rows(program, 4), 6);
  EXPECT_FALSE(split_reduction(program, 4, 4).has_value());
  EXPECT_FALSE(split_reduction(program, 3, 2).has_value());  // a window is no row
  for (const int64_t parts : {2, 3}) {
    const auto split = split_reduction(program, 4, parts);
    ASSERT_TRUE(split.has_value());
    expect_the_same(*split, program);
    const Chain chain = chain_to(*split, all_row_wise(*split), 0, 4);
    ASSERT_EQ(chain.groups.size(), 5u);
    const auto banded = in_bands(*split, chain, parts);
    ASSERT_TRUE(banded.has_value());
    expect_the_same(write_in_place(*banded), program);
  }
}

}  // namespace
}  // namespace nacre
