// Kernels of CUDA devices, compiled without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "compiler/codegen/kernel.h"
#include "compiler/graph/text.h"
#include "compiler/compile.h"
#include "compiler/support/error.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/nvrtc.h"
#include "formats/device_image.h"
#include "formats/expr.h"

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

class DeviceCode : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_compiler()) GTEST_SKIP() << "libnvrtc.so is not here, so that nothing can be compiled for CUDA devices";
  }
};

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

TEST_F(DeviceCode, CompilesForEveryDeviceAtOnceAndForLaterOnes) {
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

// What one row is multiplied with, a row in registers, and a recurrent layer.
constexpr const char* kStep = R"(graph forward functional {
  input %x: f32[1, 20, 64] user "x"
  input %h: f32[1, 1, 256] user "h"
  input %wi: f32[768, 64] parameter "wi"
  input %wh: f32[768, 256] parameter "wh"
  input %bi: f32[768] parameter "bi"
  input %bh: f32[768] parameter "bh"
  input %w: f32[512, 256] parameter "w"
  %y: f32[1, 20, 256], %n: f32[1, 1, 256] = aten.gru.input(input=%x, hx=%h, params=[%wi, %wh, %bi, %bh], has_biases=true, num_layers=1, dropout=0.0, train=false, bidirectional=false, batch_first=true)
  %last: f32[1, 256] = aten.select.int(self=%n, dim=0, index=0)
  %norm: f32[1, 256] = aten.layer_norm.default(input=%last, normalized_shape=[256])
  %z: f32[1, 512] = aten.linear.default(input=%norm, weight=%w)
  %s: f32[1, 20, 256] = aten.softmax.int(self=%y, dim=2)
  output %z user
  output %s user
}
)";

TEST_F(DeviceCode, StepsCompileForEveryDevice) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    Program program;
    program.graph = parse_graph(kStep);
    for (const auto& [name, shape] : std::map<std::string, std::vector<int64_t>>{{"wi", {768, 64}}, {"wh", {768, 256}}, {"bi", {768}}, {"bh", {768}}, {"w", {512, 256}}}) {
      std::byte* bytes = nullptr;
      program.weights.emplace(name, make_tensor(NACRE_f32, shape, &bytes));
    }
    CompileOptions options;
    options.target = "cuda-sm_87,cuda-sm_90,cuda-sm_110";
    options.precision = precision;
    const CompiledModel model = compile(std::move(program), options);
    EXPECT_EQ(model.artifact.images.size(), 3u);
  }
}

TEST(Device, APrecisionIsForDevices) {
  Program program;
  program.graph = parse_graph(kProgram);
  CompileOptions options;
  options.target = "x86-64-v3";
  options.precision = Precision::fp16;
  EXPECT_THROW(compile(std::move(program), options), Error);
}

// The kernels' text.
std::string kernels_in(Precision precision, const char* text, std::map<std::string, HostTensor> weights, const std::string& target = "cuda-sm_90") {
  Program program;
  program.graph = parse_graph(text);
  program.weights = std::move(weights);
  CompileOptions options;
  options.target = target;
  options.precision = precision;
  std::string kernels;
  options.dump = [&](const std::string& file, const std::string& layer) {
    if (file.starts_with("6-kernels")) kernels = layer;
  };
  compile(std::move(program), options);
  return kernels;
}

std::string half_kernels(const char* text, std::map<std::string, HostTensor> weights) { return kernels_in(Precision::fp16, text, std::move(weights)); }

HostTensor ones(std::vector<int64_t> shape) {
  std::byte* bytes = nullptr;
  HostTensor tensor = make_tensor(NACRE_f32, std::move(shape), &bytes);
  std::fill_n(reinterpret_cast<float*>(bytes), tensor.elements(), 1.f);
  return tensor;
}

size_t kernel_count(const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) ++count;
  return count;
}

// A grid is a whole number of clusters, of no rows, too.
TEST_F(DeviceCode, NoRowsAreAGridOfWholeClusters) {
  Program program;
  program.graph = parse_graph(R"(graph forward functional {
  symbol s0: [0, 64]
  input %x: f32[s0, 3072] user "x"
  input %w: f32[768, 3072] parameter "w"
  %t: f32[s0, 3072] = aten.cumsum.default(self=%x, dim=1)
  %y: f32[s0, 768] = aten.linear.default(input=%t, weight=%w)
  output %y user
}
)");
  program.weights = {{"w", ones({768, 3072})}};
  CompileOptions options;
  options.target = "cuda-sm_90";
  options.precision = Precision::fp16;
  std::string kernels;
  options.dump = [&](const std::string& file, const std::string& layer) {
    if (file.starts_with("6-kernels")) kernels = layer;
  };
  const CompiledModel model = compile(std::move(program), options);
  const size_t at = kernels.find("__cluster_dims__(");
  ASSERT_NE(at, std::string::npos) << kernels;
  const int64_t cluster = std::stoll(kernels.substr(at + std::strlen("__cluster_dims__(")));
  ASSERT_GT(cluster, 1);
  const formats::Entry& entry = model.artifact.entries.at(0);
  std::vector<nacre_node> nodes;
  for (const std::vector<formats::Node>* list : {&entry.nodes, &entry.variants.at(0).nodes})
    for (const formats::Node& n : *list) nodes.push_back(n.in_file());
  const int64_t rows = 0;
  std::vector<int64_t> values(nodes.size());
  ASSERT_TRUE(nacre_expr_evaluate(nodes.data(), static_cast<uint32_t>(nodes.size()), 0, &rows, values.data()));
  const formats::Command& product = entry.variants.at(0).commands.at(1);
  ASSERT_GT(product.grid, 0u);
  EXPECT_EQ(values.at(product.grid - 1), cluster);
}

TEST_F(DeviceCode, AttentionThatIsWrittenOutIsOneKernel) {
  const std::string kernels = half_kernels(R"(graph forward functional {
  input %x: f32[4, 49, 96] user "x"
  input %w: f32[96, 96] parameter "w"
  input %bias: f32[1, 49, 49] parameter "bias"
  %l: f32[4, 49, 96] = aten.linear.default(input=%x, weight=%w)
  %q: f32[4, 49, 32] = aten.slice.Tensor(self=%l, dim=2, start=0, end=32)
  %k: f32[4, 49, 32] = aten.slice.Tensor(self=%l, dim=2, start=32, end=64)
  %v: f32[4, 49, 32] = aten.slice.Tensor(self=%l, dim=2, start=64, end=96)
  %t: f32[4, 32, 49] = aten.transpose.int(self=%k, dim0=1, dim1=2)
  %s: f32[4, 49, 49] = aten.matmul.default(self=%q, other=%t)
  %a: f32[4, 49, 49] = aten.mul.Scalar(self=%s, other=0.25)
  %b: f32[4, 49, 49] = aten.add.Tensor(self=%a, other=%bias)
  %p: f32[4, 49, 49] = aten.softmax.int(self=%b, dim=2)
  %y: f32[4, 49, 32] = aten.matmul.default(self=%p, other=%v)
  output %y user
}
)", {{"w", ones({96, 96})}, {"bias", ones({1, 49, 49})}});
  EXPECT_EQ(kernel_count(kernels), 2u) << kernels;
  // With its scale; a row that sees nothing is NaN, as a softmax of nothing is.
  EXPECT_NE(kernels.find("attention_half<32, false, false,"), std::string::npos) << kernels;
  EXPECT_NE(kernels.find("2.500000000e-01f, __builtin_nanf(\"\"),"), std::string::npos) << kernels;
}

TEST_F(DeviceCode, AttentionOfOneImageIsOneKernelToo) {
  const std::string kernels = half_kernels(R"(graph forward functional {
  input %x: f32[1, 49, 192] user "x"
  input %w: f32[192, 192] parameter "w"
  %l: f32[1, 49, 192] = aten.linear.default(input=%x, weight=%w)
  %h: f32[1, 49, 3, 2, 32] = aten.view.default(self=%l, size=[1, 49, 3, 2, 32])
  %o: f32[3, 1, 2, 49, 32] = aten.permute.default(self=%h, dims=[2, 0, 3, 1, 4])
  %q: f32[1, 2, 49, 32] = aten.select.int(self=%o, dim=0, index=0)
  %k: f32[1, 2, 49, 32] = aten.select.int(self=%o, dim=0, index=1)
  %v: f32[1, 2, 49, 32] = aten.select.int(self=%o, dim=0, index=2)
  %t: f32[1, 2, 32, 49] = aten.transpose.int(self=%k, dim0=2, dim1=3)
  %s: f32[1, 2, 49, 49] = aten.matmul.default(self=%q, other=%t)
  %p: f32[1, 2, 49, 49] = aten.softmax.int(self=%s, dim=3)
  %y: f32[1, 2, 49, 32] = aten.matmul.default(self=%p, other=%v)
  output %y user
}
)", {{"w", ones({192, 192})}});
  EXPECT_EQ(kernel_count(kernels), 2u) << kernels;
  EXPECT_NE(kernels.find("attention_half<32, false, false,"), std::string::npos) << kernels;
}

TEST_F(DeviceCode, WhatOnlyLooksLikeAttentionStaysProducts) {
  // The softmax is of some of the scores.
  const std::string some = half_kernels(R"(graph forward functional {
  input %x: f32[4, 48, 96] user "x"
  input %w: f32[96, 96] parameter "w"
  %l: f32[4, 48, 96] = aten.linear.default(input=%x, weight=%w)
  %q: f32[4, 48, 32] = aten.slice.Tensor(self=%l, dim=2, start=0, end=32)
  %k: f32[4, 48, 32] = aten.slice.Tensor(self=%l, dim=2, start=32, end=64)
  %all: f32[4, 48, 32] = aten.slice.Tensor(self=%l, dim=2, start=64, end=96)
  %v: f32[4, 40, 32] = aten.slice.Tensor(self=%all, dim=1, start=0, end=40)
  %t: f32[4, 32, 48] = aten.transpose.int(self=%k, dim0=1, dim1=2)
  %s: f32[4, 48, 48] = aten.matmul.default(self=%q, other=%t)
  %c: f32[4, 48, 40] = aten.slice.Tensor(self=%s, dim=2, start=0, end=40)
  %p: f32[4, 48, 40] = aten.softmax.int(self=%c, dim=2)
  %y: f32[4, 48, 32] = aten.matmul.default(self=%p, other=%v)
  output %y user
}
)", {{"w", ones({96, 96})}});
  EXPECT_EQ(some.find("attention_half"), std::string::npos) << some;
  // The weights are read once more.
  const std::string again = half_kernels(R"(graph forward functional {
  input %x: f32[4, 32, 96] user "x"
  input %w: f32[96, 96] parameter "w"
  %l: f32[4, 32, 96] = aten.linear.default(input=%x, weight=%w)
  %q: f32[4, 32, 32] = aten.slice.Tensor(self=%l, dim=2, start=0, end=32)
  %k: f32[4, 32, 32] = aten.slice.Tensor(self=%l, dim=2, start=32, end=64)
  %v: f32[4, 32, 32] = aten.slice.Tensor(self=%l, dim=2, start=64, end=96)
  %t: f32[4, 32, 32] = aten.transpose.int(self=%k, dim0=1, dim1=2)
  %s: f32[4, 32, 32] = aten.matmul.default(self=%q, other=%t)
  %p: f32[4, 32, 32] = aten.softmax.int(self=%s, dim=2)
  %m: f32[4, 32, 32] = aten.matmul.default(self=%p, other=%v)
  %y: f32[4, 32, 32] = aten.add.Tensor(self=%m, other=%p)
  output %y user
}
)", {{"w", ones({96, 96})}});
  EXPECT_EQ(again.find("attention_half"), std::string::npos) << again;
}

TEST_F(DeviceCode, FactorsOfFloat32AreRoundedWhereAskedFor) {
  // Rows of both, of one along the columns, and one by one; a convolution and one that is transposed.
  constexpr const char* kProducts = R"(graph forward functional {
  input %x: f32[2, 3, 32, 32] user "x"
  input %w: f32[64, 3, 3, 3] parameter "w"
  input %u: f32[64, 32, 2, 2] parameter "u"
  input %l: f32[67, 32] parameter "l"
  %a: f32[2, 64, 16, 16] = aten.conv2d.default(input=%x, weight=%w, stride=[2, 2], padding=[1, 1])
  %b: f32[2, 32, 32, 32] = aten.conv_transpose2d.input(input=%a, weight=%u, stride=[2, 2])
  %c: f32[2, 32, 1024] = aten.view.default(self=%b, size=[2, 32, 1024])
  %d: f32[2, 1024, 32] = aten.transpose.int(self=%c, dim0=1, dim1=2)
  %e: f32[2, 32, 32] = aten.matmul.default(self=%c, other=%d)
  %f: f32[2, 1024, 67] = aten.linear.default(input=%d, weight=%l)
  output %e user
  output %f user
}
)";
  const auto weights = [] { return std::map<std::string, HostTensor>{{"w", ones({64, 3, 3, 3})}, {"u", ones({64, 32, 2, 2})}, {"l", ones({67, 32})}}; };
  for (const char* target : {"cuda-sm_87", "cuda-sm_90", "cuda-sm_110"}) {
    const std::string rounded = kernels_in(Precision::tf32, kProducts, weights(), target);
    EXPECT_NE(rounded.find("Factors::tf32>>("), std::string::npos) << rounded;
    EXPECT_EQ(rounded.find("Factors::exact"), std::string::npos) << rounded;
    const std::string exact = kernels_in(Precision::fp32, kProducts, weights(), target);
    EXPECT_NE(exact.find("Factors::exact>>("), std::string::npos) << exact;
    EXPECT_EQ(exact.find("Factors::tf32"), std::string::npos) << exact;
  }
}

TEST_F(DeviceCode, AnImageOfFewChannelsIsTakenInPatches) {
  const std::string kernels = half_kernels(R"(graph forward functional {
  input %x: f32[1, 3, 32, 32] user "x"
  input %w: f32[16, 3, 3, 3] parameter "w"
  %y: f32[1, 16, 16, 16] = aten.conv2d.default(input=%x, weight=%w, stride=[2, 2], padding=[1, 1])
  output %y user
}
)", {{"w", ones({16, 3, 3, 3})}});
  EXPECT_EQ(kernel_count(kernels), 2u) << kernels;
  // 27 terms, padded to 32.
  EXPECT_NE(kernels.find("(isize(1), isize(256), isize(16), isize(32),"), std::string::npos) << kernels;
}

TEST_F(DeviceCode, EveryChoiceOfAProductIsInTheArtifactThatADeviceTunes) {
  const auto compiled = [](std::shared_ptr<Decisions> decisions, bool candidates) {
    CompileOptions options;
    options.target = "cuda-sm_90";
    options.decisions = std::move(decisions);
    options.candidates = candidates;
    Program program;
    program.graph = parse_graph(R"(graph forward functional {
      input %x: f32[300, 64] user "x"
      input %w: f32[64, 96] user "w"
      %y: f32[300, 96] = aten.mm.default(self=%x, mat2=%w)
      output %y user
    })");
    return compile(std::move(program), options).artifact;
  };
  const auto asked = std::make_shared<Decisions>();
  const formats::Artifact artifact = compiled(asked, true);
  ASSERT_EQ(asked->open.size(), 1u);
  const auto& [question, choices] = *asked->open.begin();
  const formats::Variant& variant = artifact.entries[0].variants[0];
  ASSERT_EQ(variant.candidates.size(), choices.size());
  ASSERT_GT(choices.size(), 1u);
  for (size_t i = 0; i < choices.size(); ++i) {
    const formats::Candidate& c = variant.candidates[i];
    EXPECT_EQ(c.question, question);
    EXPECT_EQ(c.choice, choices[i]);
    const formats::Command& command = variant.commands[c.command];
    EXPECT_EQ(c.kernel == command.target && c.grid == command.grid && c.scratch == command.scratch, i == 0);
    // What the device decides is what a compiler makes of the decision.
    const auto decided = std::make_shared<Decisions>();
    decided->made[question].choice = choices[i];
    const formats::Artifact alone = compiled(decided, false);
    EXPECT_TRUE(decided->open.empty());
    EXPECT_TRUE(alone.entries[0].variants[0].candidates.empty());
    const formats::Command& made = alone.entries[0].variants[0].commands[c.command];
    const auto blocks = [](const formats::Artifact& a, uint32_t grid) { return a.entries[0].variants[0].nodes.at(grid - 1 - a.entries[0].nodes.size()).b; };
    EXPECT_EQ(blocks(alone, made.grid), blocks(artifact, c.grid));
    EXPECT_EQ(made.threads, c.threads);
    EXPECT_EQ(made.scratch, c.scratch);
  }
  EXPECT_NO_THROW(formats::artifact_bytes(artifact));
}

}  // namespace
}  // namespace nacre
