#include "tests/unit/runtime/fixture.h"

#include <fstream>
#include <iterator>

namespace nacre::test {

std::vector<uint8_t> kernel_image() {
  std::ifstream file(NACRE_TEST_KERNELS, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

fmt::Artifact parts() {
  fmt::Artifact a;
  a.producer = "test";
  a.provenances = {{"aten.mul.Tensor", "block.first", "model.py", 41},
                   {"aten.index.Tensor", "block.second", "model.py", 42}};
#if defined(__x86_64__)
  const uint16_t machine = 62;
#elif defined(__aarch64__)
  const uint16_t machine = 183;
#elif defined(__arm__)
  const uint16_t machine = 40;
#else
  const uint16_t machine = 243;
#endif
  a.images = {{"test-target", machine, 0, kernel_image()}};
  static const char* const kNames[] = {"scale", "sum",   "gather", "count",
                                       "less",  "clear", "mark",   "divide"};
  for (uint32_t i = 0; i < kKernelCount; ++i) a.kernels.push_back({kNames[i], 0, i, 0, {0, 1}});
  return a;
}

fmt::Slot slot(nacre_slot_kind kind, uint32_t index, Size offset, Size size) {
  return {kind, index, offset, size};
}

fmt::Command call(uint32_t kernel, std::vector<uint32_t> operands, uint16_t flags) {
  fmt::Command c;
  c.kind = NACRE_COMMAND_call;
  c.flags = flags;
  c.target = kernel;
  c.operands = std::move(operands);
  c.provenances = {0, 1};
  return c;
}

fmt::Command end() { return {}; }

std::vector<fmt::Guard> typed(uint16_t input, nacre_dtype dtype, int64_t rank) {
  return {{NACRE_GUARD_dtype, input, 0, 0, dtype, 0}, {NACRE_GUARD_rank, input, 0, 0, rank, 0}};
}

fmt::Entry empty_entry(const std::string& name) {
  fmt::Entry e;
  e.name = name;
  e.variants.resize(1);
  return e;
}

fmt::Artifact scale_artifact() {
  fmt::Artifact a = parts();
  a.symbols = {{"s0", 1, 32, 1}};
  fmt::Entry e = empty_entry("forward");
  e.nodes = {{NACRE_EXPR_symbol, 0, 0},
             {NACRE_EXPR_constant, 0, 8},
             {NACRE_EXPR_mul, 0, 1},
             {NACRE_EXPR_constant, 0, 2},
             {NACRE_EXPR_mul, 0, 3}};
  // Nodes: 0 s0, 1 8, 2 elements = 8*s0, 3 2, 4 rows = 2*s0.
  e.inputs = {{"x", NACRE_f32, 0, {Size::node(4), Size::constant(4)}, {}}};
  e.outputs = {{"y", NACRE_f32, 0, {Size::node(4), Size::constant(4)}, {}}};
  fmt::Variant& v = e.variants[0];
  v.name = "general";
  v.guards = typed(0, NACRE_f32, 2);
  v.guards.push_back({NACRE_GUARD_range, 0, 0, 0, 2, 64});
  v.guards.push_back({NACRE_GUARD_bind, 0, 0, 0, 2, 0});
  v.guards.push_back({NACRE_GUARD_equal, 0, 1, 0, 4, 0});
  v.nodes = {{NACRE_EXPR_constant, 0, 4}, {NACRE_EXPR_mul, 2, 5}};
  const Size bytes = Size::node(6);
  v.slots = {slot(NACRE_SLOT_INPUT, 0, {}, bytes), slot(NACRE_SLOT_ARENA, 0, {}, bytes),
             slot(NACRE_SLOT_OUTPUT, 0, {}, bytes)};
  v.arena_size = bytes;
  v.arena_bound = 64 * 4 * 4;
  v.commands = {call(kScale, {0, 1}, 0), call(kScale, {1, 2}), end()};
  a.entries.push_back(e);
  return a;
}

void write_file(const fmt::Artifact& artifact, const std::string& path) {
  const std::vector<uint8_t> bytes = fmt::artifact_bytes(artifact);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Opened::Opened(const fmt::Artifact& artifact, nacre_session_options options,
               nacre_open_options open)
    : bytes_(fmt::artifact_bytes(artifact)) {
  nacre_error error = {};
  EXPECT_EQ(nacre_model_open_memory(bytes_.data(), bytes_.size(), &open, &model, &error), NACRE_OK)
      << error.message;
  if (model) {
    EXPECT_EQ(nacre_session_make(model, &options, nullptr, 0, &session), NACRE_OK);
  }
}

Opened::~Opened() {
  nacre_session_destroy(session);
  nacre_model_close(model);
}

std::vector<fmt::Node> constant_count(int64_t count) {
  return {
      {NACRE_EXPR_constant, 0, 0}, {NACRE_EXPR_constant, 0, 0}, {NACRE_EXPR_constant, 0, count}};
}

nacre_tensor tensor(void* data, const std::vector<int64_t>& shape, nacre_dtype dtype) {
  return {data, shape.data(), nullptr, static_cast<uint32_t>(shape.size()),
          static_cast<uint32_t>(dtype)};
}

}  // namespace nacre::test
