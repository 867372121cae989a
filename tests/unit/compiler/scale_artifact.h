// A small artifact for tests, made without PyTorch: y[s] = 3 * (2 * x[s]) for s in 1 ... 1000, by
// two kernels with a buffer between them. An x below -100 is an error in the data, at model.py:12.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/support/buffer.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/toolchain.h"
#include "formats/writer.h"

namespace nacre {

inline constexpr const char* kScale =
    "#include \"nacre/kernel_abi.h\"\n"
    "extern \"C\" int NAME(const nacre_kernel_args* args) {\n"
    "  float* y = static_cast<float*>(args->buffers[0]);\n"
    "  const float* x = static_cast<const float*>(args->buffers[1]);\n"
    "  for (long i = 0; i < args->nodes[0]; ++i) {\n"
    "    if (x[i] < -100) return NACRE_DATA_ERROR(NACRE_DATA_INDEX, 0);\n"
    "    y[i] = x[i] * FACTOR;\n"
    "  }\n"
    "  return 0;\n"
    "}\n";

inline Source scale(const std::string& name, const std::string& factor) {
  std::string text = kScale;
  text.replace(text.find("NAME"), 4, name);
  text.replace(text.find("FACTOR"), 6, factor);
  return {name, text};
}

inline AlignedBytes scale_artifact(const Target& target) {
  ToolchainOptions options;
  options.use_cache = false;
  const CodeImage image = compile_image(
      std::vector<Source>{scale("twice", "2.0f"), scale("thrice", "3.0f")}, target, options);
  formats::Artifact artifact;
  artifact.producer = "test";
  artifact.symbols = {{"s", 1, 1000, 1}};
  artifact.provenances = {{"aten.mul.Tensor", "scale", "model.py", 12}};
  artifact.images = {{target.name, target.machine, target.feature_bits, image.bytes}};
  for (std::uint32_t i = 0; i < 2; ++i)
    artifact.kernels.push_back({i ? "thrice" : "twice", 0, i, image.kernel_sizes[i], {0}});
  formats::Entry entry;
  entry.name = "forward";
  const auto s = formats::Size::node(0);
  entry.inputs = {{"x", NACRE_f32, 0, {s}, {}}};
  entry.outputs = {{"y", NACRE_f32, 0, {s}, {}}};
  entry.nodes = {{NACRE_EXPR_symbol, 0, 0},
                 {NACRE_EXPR_constant, 0, 4},
                 {NACRE_EXPR_mul, 0, 1},
                 {NACRE_EXPR_constant, 0, 64},
                 {NACRE_EXPR_round_up, 2, 3}};
  formats::Variant variant;
  variant.name = "general";
  variant.guards = {
      {NACRE_GUARD_features, 0, 0, 0, static_cast<std::int64_t>(target.feature_bits), 0},
      {NACRE_GUARD_dtype, 0, 0, 0, NACRE_f32, 0},
      {NACRE_GUARD_rank, 0, 0, 0, 1, 0},
      {NACRE_GUARD_bind, 0, 0, 0, 1, 0},
      {NACRE_GUARD_range, 0, 0, 0, 1, 1000}};
  const auto bytes = formats::Size::node(2);
  const auto zero = formats::Size::constant(0);
  variant.slots = {{NACRE_SLOT_INPUT, 0, zero, bytes},
                   {NACRE_SLOT_OUTPUT, 0, zero, bytes},
                   {NACRE_SLOT_ARENA, 0, zero, bytes}};
  for (std::uint32_t i = 0; i < 2; ++i) {
    formats::Command command;
    command.kind = NACRE_COMMAND_call;
    command.flags = i ? NACRE_COMMAND_BARRIER : 0;
    command.threads = 1;
    command.target = i;
    command.operands = i ? std::vector<std::uint32_t>{1, 2} : std::vector<std::uint32_t>{2, 0};
    command.provenances = {0};
    variant.commands.push_back(command);
  }
  variant.commands.emplace_back();  // end
  variant.arena_size = formats::Size::node(4);
  variant.arena_bound = 4032;
  entry.variants = {variant};
  artifact.entries = {entry};
  AlignedBytes all;
  formats::write_artifact(artifact, [&](std::span<const std::uint8_t> part) {
    const auto* begin = reinterpret_cast<const std::byte*>(part.data());
    all.insert(all.end(), begin, begin + part.size());
  });
  return all;
}

}  // namespace nacre
