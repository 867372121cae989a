// Programs that write into inputs, on inputs that are views of one storage: what eager code does, step by step.
#include "exporter/overlap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "compiler/compile.h"
#include "compiler/graph/text.h"
#include "compiler/support/buffer.h"
#include "exporter/functionalize.h"
#include "formats/writer.h"
#include "nacre/nacre.h"

namespace nacre {
namespace {

// x += 1; z = 2 * y; y *= 3; return z + x
const char* const kGraph = R"(graph forward captured {
  symbol n: [1, 64]
  input %x: f32[n, 3] strides [3, 1] user "x"
  input %y: f32[n, 3] strides [3, 1] user "y"
  input %k: i64[2] strides [1] user "k"
  %a: f32[n, 3] strides [3, 1] = aten.add_.Tensor(%x, other=1)
  %z: f32[n, 3] strides [3, 1] = aten.mul.Tensor(%y, other=2)
  %b: f32[n, 3] strides [3, 1] = aten.mul_.Tensor(%y, other=3)
  %r: f32[n, 3] strides [3, 1] = aten.add.Tensor(%z, other=%a)
  output %r user
}
)";

TEST(Overlap, ConcernsTensorsOfADtypeThatIsWrittenTo) {
  const auto found = overlapping(parse_graph(kGraph));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->inputs.size(), 2u);
  EXPECT_EQ(found->inputs[0].input, 0u);
  EXPECT_EQ(found->inputs[1].input, 1u);
  EXPECT_EQ(found->inputs[1].strides.size(), 2u);
  EXPECT_FALSE(overlapping(parse_graph(R"(graph forward captured {
    input %x: f32[4] strides [1] user "x"
    input %y: f32[4] strides [1] user "y"
    %a: f32[4] strides [1] = aten.add.Tensor(%x, other=%y)
    output %a user
  })")));
  EXPECT_FALSE(overlapping(parse_graph(R"(graph forward captured {
    input %x: f32[4] strides [1] user "x"
    input %y: i64[4] strides [1] user "y"
    %a: f32[4] strides [1] = aten.add_.Tensor(%x, other=1)
    output %a user
  })")));
}

class Artifact {
 public:
  Artifact() {
    Graph captured = parse_graph(kGraph);
    std::vector<Method> methods(1);
    methods[0].name = "forward";
    methods[0].functional.graph = functionalize(captured);
    methods[0].overlap = overlapping(captured);
    methods[0].overlap->graph = functionalize(methods[0].overlap->graph);
    CompileOptions options;
    options.target = "x86-64-v3";
    const CompiledModel compiled = compile(std::move(methods), options);
    for (const std::uint8_t byte : formats::artifact_bytes(compiled.artifact))
      bytes_.push_back(static_cast<std::byte>(byte));
    nacre_error error{};
    EXPECT_EQ(nacre_model_open_memory(bytes_.data(), bytes_.size(), nullptr, &model_, &error), NACRE_OK) << error.message;
    EXPECT_EQ(nacre_session_make(model_, nullptr, nullptr, 0, &session), NACRE_OK);
  }
  ~Artifact() {
    nacre_session_destroy(session);
    nacre_model_close(model_);
  }
  nacre_session* session = nullptr;

 private:
  AlignedBytes bytes_;
  nacre_model* model_ = nullptr;
};

struct View {
  int64_t offset;
  std::int64_t strides[2];
  std::size_t at(int64_t i, int64_t j) const { return static_cast<std::size_t>(offset + i * strides[0] + j * strides[1]); }
};

TEST(Overlap, GivesWhatEagerCodeGives) {
  Artifact artifact;
  std::mt19937 random(7);
  const auto pick = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  int shared = 0, apart = 0;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t shape[2] = {pick(1, 5), 3}, two[1] = {2};
    // Views whose own elements are apart: rows, columns, with gaps.
    const std::int64_t kinds[4][2] = {{3, 1}, {1, 5}, {4, 1}, {6, 2}};
    const auto *sx = kinds[pick(0, 3)], *sy = kinds[pick(0, 3)];
    const View x{pick(0, 40), {sx[0], sx[1]}}, y{pick(0, 40), {sy[0], sy[1]}};
    std::vector<float> memory(100), eager, result(static_cast<std::size_t>(shape[0] * 3)), expected(result.size());
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    eager = memory;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < 3; ++j) eager[x.at(i, j)] += 1;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < 3; ++j) expected[static_cast<std::size_t>(i * 3 + j)] = 2 * eager[y.at(i, j)];
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < 3; ++j) eager[y.at(i, j)] *= 3;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < 3; ++j) expected[static_cast<std::size_t>(i * 3 + j)] += eager[x.at(i, j)];

    std::int64_t k[2] = {0, 0};
    const nacre_tensor inputs[3] = {{memory.data() + x.offset, shape, x.strides, 2, NACRE_f32},
                                    {memory.data() + y.offset, shape, y.strides, 2, NACRE_f32},
                                    {k, two, nullptr, 1, NACRE_i64}};
    const nacre_buffer output = {result.data(), result.size() * 4};
    ASSERT_EQ(nacre_run(artifact.session, 0, inputs, 3, &output, 1), NACRE_OK) << nacre_session_message(artifact.session);
    EXPECT_EQ(result, expected) << "round " << round;
    EXPECT_EQ(memory, eager) << "round " << round;
    (nacre_session_variant(artifact.session) == 0 ? apart : shared) += 1;
  }
  EXPECT_GT(shared, 50);
  EXPECT_GT(apart, 50);
}

TEST(Overlap, RefusesMemoryOfOtherElements) {
  Artifact artifact;
  alignas(64) float memory[32] = {};
  const std::int64_t shape[2] = {2, 3}, two[1] = {2};
  float result[6];
  const nacre_buffer output = {result, sizeof result};
  // The integers lie in what x writes to.
  const nacre_tensor inputs[3] = {{memory, shape, nullptr, 2, NACRE_f32}, {memory + 16, shape, nullptr, 2, NACRE_f32}, {memory + 2, two, nullptr, 1, NACRE_i64}};
  EXPECT_EQ(nacre_run(artifact.session, 0, inputs, 3, &output, 1), NACRE_GUARD_MISS);
  EXPECT_NE(std::string(nacre_session_message(artifact.session)).find("overlaps another"), std::string::npos);
}

}  // namespace
}  // namespace nacre
