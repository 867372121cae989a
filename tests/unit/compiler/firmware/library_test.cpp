// Static libraries: names, numbers and stacks. tests/command/library.py has whole ones.
#include <gtest/gtest.h>

#include "compiler/firmware/entry.h"
#include "compiler/firmware/signature.h"
#include "compiler/firmware/stack.h"
#include "compiler/firmware/values.h"
#include "compiler/support/error.h"
#include "compiler/toolchain/toolchain.h"

namespace nacre::test {
namespace {

using formats::Size;

formats::Guard guard(nacre_guard_kind kind, uint16_t input, uint16_t dim, int64_t ref, int64_t lo, int64_t hi) {
  return {kind, input, dim, ref, lo, hi};
}

// x: f32[2 * s + 1], and a number that is fixed -> y: f32[s]
formats::Artifact sized() {
  formats::Artifact artifact;
  artifact.symbols.push_back({"s", 1, 8, 1});
  formats::Entry entry;
  entry.name = "forward";
  entry.nodes = {{NACRE_EXPR_symbol, 0, 0}, {NACRE_EXPR_constant, 0, 2}, {NACRE_EXPR_mul, 0, 1}, {NACRE_EXPR_constant, 0, 1}, {NACRE_EXPR_add, 2, 3}};
  entry.inputs = {{"float", NACRE_f32, 0, {Size::node(4)}, {}}, {"k", NACRE_i64, NACRE_TENSOR_SCALAR, {}, {}}};
  entry.outputs = {{"y", NACRE_f32, 0, {Size::node(0)}, {}}};
  formats::Variant variant;
  variant.guards = {guard(NACRE_GUARD_bind, 0, 0, 0, 2, 1), guard(NACRE_GUARD_range, 0, 0, 0, 3, 17), guard(NACRE_GUARD_value_equal, 1, 0, 0, 5, 0)};
  variant.slots = {{NACRE_SLOT_INPUT, 0, Size::constant(0), Size::constant(4)}, {NACRE_SLOT_OUTPUT, 0, Size::constant(0), Size::constant(4)}};
  formats::Command copy, end;
  copy.kind = NACRE_COMMAND_copy;
  copy.operands = {1, 0};
  end.kind = NACRE_COMMAND_end;
  variant.commands = {copy, end};
  entry.variants.push_back(variant);
  artifact.entries.push_back(entry);
  return artifact;
}

TEST(Signature, SizesAreArgumentsAndFixedNumbersAreNot) {
  const formats::Artifact artifact = sized();
  EXPECT_EQ(signatures(artifact, "net")[0].text(), "int net_run(void* arena, int64_t s, const float* float_, float* output)");
}

TEST(Signature, NamesAreOnceEach) {
  formats::Artifact artifact = sized();
  artifact.entries[0].inputs[0].name = "output";
  artifact.entries.push_back(artifact.entries[0]);
  const std::vector<Signature> all = signatures(artifact, "net");
  EXPECT_EQ(all[0].text(), "int net_forward(void* arena, int64_t s, const float* output, float* output_2)");
  EXPECT_EQ(all[1].function, "net_forward_2");
}

// Constants are made of names in upper case, beside those of arena, state and stack.
TEST(Signature, NamesDifferInMoreThanTheirCase) {
  formats::Artifact artifact = sized();
  artifact.entries[0].inputs[0].name = "Stack";
  artifact.entries[0].outputs.push_back({"z", NACRE_f32, 0, {Size::node(0)}, {}});
  artifact.entries[0].inputs.push_back({"OUTPUT_1", NACRE_f32, 0, {Size::node(0)}, {}});
  artifact.entries.push_back(artifact.entries[0]);
  artifact.entries[1].name = "Forward";
  const std::vector<Signature> all = signatures(artifact, "net");
  EXPECT_EQ(all[0].text(), "int net_forward(void* arena, int64_t s, const float* Stack_2, const float* OUTPUT_1, float* output_0, float* output_1_2)");
  EXPECT_EQ(all[1].function, "net_Forward_2");
}

TEST(Signature, NamesAreNoWordsOfCOrCpp) {
  for (const char* word : {"int", "alignas", "typeof", "requires", "int64_t", "uint_fast8_t", "INT32_MAX", "NULL", "_Bool"}) {
    formats::Artifact artifact = sized();
    artifact.entries[0].inputs[0].name = word;
    EXPECT_EQ(signatures(artifact, "net")[0].parameters[2].name, std::string(word) + "_");
  }
}

TEST(Signature, IdentifiersAreThoseOfC) {
  EXPECT_EQ(identifier("3 models.v2"), "_3_models_v2");
  EXPECT_EQ(upper("net_x1"), "NET_X1");
}

TEST(EntryFunction, ChecksSizesThatTheCallChooses) {
  const formats::Artifact artifact = sized();
  const LibraryPlan plan = plan_library(artifact, "net", {}, 64);
  const std::string text = entry_function(artifact, artifact.entries[0], signatures(artifact, "net")[0], plan);
  EXPECT_NE(text.find("if (nodes[0] < 1 || nodes[0] > 8) return 5;"), std::string::npos) << text;
  EXPECT_NE(text.find("if (!(n4 >= 3 && n4 <= 17)) return 5;"), std::string::npos) << text;
  EXPECT_NE(text.find("__builtin_memcpy(address(output_), address(float__), static_cast<size_t>(4));"), std::string::npos) << text;
}

TEST(EntryFunction, RefusesMemoryWithoutALimit) {
  formats::Artifact artifact = sized();
  artifact.entries[0].variants[0].arena_size = Size::node(4);
  EXPECT_THROW(plan_library(artifact, "net", {}, 64), Error);
  artifact.entries[0].variants[0].arena_bound = 100;
  EXPECT_EQ(plan_library(artifact, "net", {}, 64).arena_bytes, 128);
}

TEST(EntryFunction, StatesLieAsCloseAsTheTargetAligns) {
  formats::Artifact artifact = sized();
  artifact.states = {{"a", NACRE_u8, {3}, 3, -1}, {"b", NACRE_i64, {2}, 16, -1}, {"c", NACRE_f32, {}, 4, -1}};
  const LibraryPlan small = plan_library(artifact, "net", {}, 8), large = plan_library(artifact, "net", {}, 64);
  EXPECT_EQ(small.state_offsets, (std::vector<int64_t>{0, 8, 24}));
  EXPECT_EQ(small.state_bytes, 32);
  EXPECT_EQ(large.state_offsets, (std::vector<int64_t>{0, 64, 128}));
  EXPECT_EQ(large.state_bytes, 192);
}

TEST(EntryFunction, RefusesFunctionsOfTheApplication) {
  formats::Artifact artifact = sized();
  artifact.imports.push_back({"mylib::scale", "{}", 1});
  EXPECT_THROW(plan_library(artifact, "net", {}, 64), Error);
}

TEST(NodeValues, AreTheRuntimes) {
  formats::Artifact artifact = sized();
  formats::Entry& entry = artifact.entries[0];
  entry.variants[0].nodes = {{NACRE_EXPR_constant, 0, -7}, {NACRE_EXPR_floor_div, 5, 1}, {NACRE_EXPR_mod, 5, 1}, {NACRE_EXPR_round_up, 0, 1}, {NACRE_EXPR_mul, 4, -3, true}};
  const auto values = node_values(entry, {3});
  ASSERT_TRUE(values.has_value());
  EXPECT_EQ(*values, (std::vector<int64_t>{3, 2, 6, 1, 7, -7, -4, 1, 4, -21}));
  entry.variants[0].nodes = {{NACRE_EXPR_constant, 0, 0}, {NACRE_EXPR_mod, 0, 5}};
  EXPECT_FALSE(node_values(entry, {3}).has_value());
}

const Target& m55() { return *target_named("cortex-m55"); }

TEST(Stack, IsThatOfTheDeepestCalls) {
  ObjectFacts a, b;
  a.functions = {{"run", 100, {"small", "large", "memcpy"}}, {"small", 10, {}}};
  b.functions = {{"large", 50, {"small"}}};
  const int64_t beside = worst_stack({a}, "small", m55()) - 10;
  EXPECT_GE(beside, 0);
  EXPECT_EQ(worst_stack({a, b}, "run", m55()), 160 + 3 * beside);
}

TEST(Stack, RefusesWhatHasNoLimit) {
  ObjectFacts a;
  a.functions = {{"run", 8, {"again"}}, {"again", 8, {"run"}}, {"unknown", -1, {}}};
  EXPECT_THROW(worst_stack({a}, "run", m55()), Error);
  EXPECT_THROW(worst_stack({a}, "unknown", m55()), Error);
}

// What Clang records, for every family.
TEST(Stack, IsReadFromObjects) {
  const Source source{"calls",
                      "extern \"C\" int other(volatile char*);\n"
                      "extern \"C\" __attribute__((noinline)) int inner(int n) { volatile char room[400]; room[n] = 1; return other(room); }\n"
                      "extern \"C\" int outer(int n) { return inner(n) + 1; }\n"};
  for (const char* name : {"cortex-m4", "cortex-m7", "cortex-m55", "x86-64-v3", "aarch64", "rv64gc"}) {
    const Target& target = *target_named(name);
    ToolchainOptions options;
    options.use_cache = false;
    const ObjectFacts facts = object_facts(compile_objects({&source, 1}, target, options)[0], "0");
    EXPECT_EQ(facts.undefined, std::vector<std::string>{"other"}) << name;
    const int64_t inner = worst_stack({facts}, "inner", target), outer = worst_stack({facts}, "outer", target);
    EXPECT_GE(inner, 400) << name;
    EXPECT_LE(inner, 600) << name;
    EXPECT_GT(outer, inner) << name;
  }
}

}  // namespace
}  // namespace nacre::test
