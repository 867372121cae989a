// Contradictions inside META. The writer applies the runtime's verifier, so what it refuses the
// runtime refuses.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

struct Case {
  const char* name;
  const char* message;
  std::function<void(fmt::Artifact&)> spoil;
};

fmt::Variant& variant(fmt::Artifact& a) { return a.entries[0].variants[0]; }

// Makes the first command an import.
void describe_import(fmt::Artifact& a) {
  a.imports = {{"f", "{}", 1}};
  variant(a).commands[0].kind = NACRE_COMMAND_import;
  variant(a).commands[0].target = 0;
  const fmt::Tensor t = {"t", NACRE_f32, 0, {Size::node(4), Size::constant(4)}, {}};
  variant(a).slot_tensors = {t, t, t};
  fmt::artifact_bytes(a);  // good as it is
}

// One more node, which has no value during a run.
Size spare_node(fmt::Artifact& a) {
  variant(a).nodes.push_back({NACRE_EXPR_add, 0, 0});
  variant(a).spare_nodes = 1;
  return Size::node(7);
}

class Verify : public testing::TestWithParam<Case> {};

TEST_P(Verify, Refuses) {
  fmt::Artifact a = scale_artifact();
  ASSERT_NO_THROW(fmt::artifact_bytes(a));
  GetParam().spoil(a);
  try {
    fmt::artifact_bytes(a);
    FAIL() << "accepted";
  } catch (const fmt::FormatError& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos)
        << error.what();
  }
}

const Case kCases[] = {
    {"NoEntry", "there is no entry", [](auto& a) { a.entries.clear(); }},
    {"NoVariant", "entry 0 has no variant", [](auto& a) { a.entries[0].variants.clear(); }},
    {"KernelWithoutImage", "kernel 0 refers", [](auto& a) { a.kernels[0].image = 1; }},
    {"KernelWithoutLine", "kernel 0 refers", [](auto& a) { a.kernels[0].provenances = {7}; }},
    {"EmptySymbolRange", "symbol 0 has an impossible range",
     [](auto& a) { a.symbols[0].min = 40; }},
    {"StateFromNothing", "state 0 starts from",
     [](auto& a) {
       a.states = {{"s", NACRE_f32, {1}, 4, 3}};
     }},
    {"StateOfOtherSize", "state 0 is not as large",
     [](auto& a) {
       static const uint8_t bytes[8] = {};
       a.weights = {{"w", NACRE_f32, {2}, bytes}};
       a.states = {{"s", NACRE_f32, {1}, 4, 0}};
     }},
    {"StateTooLarge", "state 0 is too large",
     [](auto& a) {
       a.states = {{"s", NACRE_f32, {1}, 1ull << 60, -1}};
     }},
    {"InputDtype", "input 0 has an invalid",
     [](auto& a) { a.entries[0].inputs[0].dtype = static_cast<nacre_dtype>(31); }},
    {"InputRank", "input 0 has an invalid",
     [](auto& a) { a.entries[0].inputs[0].dims.resize(17); }},
    {"OutputDimNode", "output 0 has an invalid",
     [](auto& a) { a.entries[0].outputs[0].dims[0] = Size::node(5); }},
    {"LayoutTwice", "input 0 has an invalid",
     [](auto& a) {
       a.entries[0].inputs[0].layout = {0, 0};
     }},
    {"NodeOfLater", "node 2 reads a node", [](auto& a) { a.entries[0].nodes[2].b = 2; }},
    {"NodeNegative", "node 2 reads a node", [](auto& a) { a.entries[0].nodes[2].b = -1; }},
    {"NodeSymbol", "node 0 reads a symbol", [](auto& a) { a.entries[0].nodes[0].a = 1; }},
    {"NodeKind", "node 1 is of kind 31",
     [](auto& a) { a.entries[0].nodes[1].kind = static_cast<nacre_expr_kind>(31); }},
    {"NodeWithNumberOfLater", "node 4 reads a node",
     [](auto& a) {
       a.entries[0].nodes[4] = {NACRE_EXPR_mul, 4, 2, true};
     }},
    {"SymbolWithNumber", "node 0 is of kind 257", [](auto& a) { a.entries[0].nodes[0].number = true; }},
    {"NotWithNumber", "node 4 is of kind 271",
     [](auto& a) {
       a.entries[0].nodes[4] = {NACRE_EXPR_not_, 0, 2, true};
     }},
    {"GuardKind", "guard record 2 is of kind 17",
     [](auto& a) { variant(a).guards[2].kind = NACRE_GUARD_KINDS; }},
    {"GuardInput", "guard record 2 names an input",
     [](auto& a) { variant(a).guards[2].input = 1; }},
    {"GuardDim", "guard record 2 is invalid", [](auto& a) { variant(a).guards[2].dim = 2; }},
    {"GuardRange", "guard record 2 is invalid", [](auto& a) { variant(a).guards[2].hi = 1; }},
    {"GuardNegativeSize", "guard record 2 is invalid",
     [](auto& a) {
       variant(a).guards[2] = {NACRE_GUARD_equal, 0, 0, 0, -1, 0};
     }},
    {"GuardCoefficient", "guard record 3 is invalid", [](auto& a) { variant(a).guards[3].lo = 0; }},
    {"GuardSymbol", "guard record 3 is invalid", [](auto& a) { variant(a).guards[3].ref = 1; }},
    {"GuardBindsTwice", "guard record 4 binds a symbol again",
     [](auto& a) { variant(a).guards[4] = variant(a).guards[3]; }},
    {"GuardBeforeRank", "comes before the rank",
     [](auto& a) { std::swap(variant(a).guards[1], variant(a).guards[2]); }},
    {"GuardOrder", "guard record 5 is out of order",
     [](auto& a) {
       variant(a).guards.push_back({NACRE_GUARD_features, 0, 0, 0, 0, 0});
     }},
    {"GuardNode", "guard record 5 is invalid",
     [](auto& a) {
       variant(a).guards.push_back({NACRE_GUARD_node, 0, 0, 7, 0, 0});
     }},
    {"GuardValueOfTensor", "guard record 5 is invalid",
     [](auto& a) {
       variant(a).guards.push_back({NACRE_GUARD_value_equal, 0, 0, 0, 1, 0});
     }},
    {"NoRank", "input 0 has no guard",
     [](auto& a) {
       variant(a).guards.clear();
       variant(a).commands = {end()};
     }},
    {"Unbound", "symbol 0 is read, but nothing binds it",
     [](auto& a) { variant(a).guards.erase(variant(a).guards.begin() + 3); }},
    {"SlotKind", "slot 0 does not lie",
     [](auto& a) { variant(a).slots[0].kind = static_cast<nacre_slot_kind>(7); }},
    {"SlotIndex", "slot 0 does not lie", [](auto& a) { variant(a).slots[0].index = 1; }},
    {"SlotNode", "slot 0 does not lie", [](auto& a) { variant(a).slots[0].size = Size::node(7); }},
    {"SlotOutsideArena", "slot 1 does not lie",
     [](auto& a) {
       variant(a).arena_size = Size::constant(64);
       variant(a).slots[1] = slot(NACRE_SLOT_ARENA, 0, Size::constant(32), Size::constant(33));
     }},
    {"SlotOverflow", "slot 1 does not lie",
     [](auto& a) {
       variant(a).arena_size = Size::constant(64);
       variant(a).slots[1] =
           slot(NACRE_SLOT_ARENA, 0, Size::constant(INT64_MAX), Size::constant(INT64_MAX));
     }},
    {"ArenaSize", "the arena's size is invalid",
     [](auto& a) { variant(a).arena_size = Size::node(7); }},
    {"ArenaBound", "the arena's size is invalid", [](auto& a) { variant(a).arena_bound = -1; }},
    {"Descriptions", "1 descriptions for 3 slots",
     [](auto& a) { variant(a).slot_tensors.resize(1); }},
    {"Description", "the description of slot 1 has an invalid",
     [](auto& a) {
       variant(a).slot_tensors.resize(3);
       variant(a).slot_tensors[1].dims = {Size::node(7)};
     }},
    {"MoreSpareNodesThanNodes", "too many nodes", [](auto& a) { variant(a).spare_nodes = 3; }},
    {"SlotReadsASpareNode", "slot 1 does not lie",
     [](auto& a) { variant(a).slots[1].size = spare_node(a); }},
    {"ScratchReadsASpareNode", "command 0 has an invalid size",
     [](auto& a) { variant(a).commands[0].scratch = spare_node(a); }},
    {"ArenaReadsASpareNode", "the arena's size is invalid",
     [](auto& a) { variant(a).arena_size = spare_node(a); }},
    {"CheckReadsASpareNode", "command 0 has a target",
     [](auto& a) {
       const uint32_t node = spare_node(a).node_number();
       variant(a).commands[0] = {};
       variant(a).commands[0].kind = NACRE_COMMAND_check;
       variant(a).commands[0].target = node;
     }},
    {"GuardReadsASpareNode", "record",
     [](auto& a) {
       const auto node = static_cast<int64_t>(spare_node(a).node_number());
       variant(a).guards.push_back({NACRE_GUARD_node, 0, 0, node, 0, 0});
     }},
    {"ImportWithSpareNodes", "command 0 has operands of the wrong kind",
     [](auto& a) {
       describe_import(a);
       spare_node(a);
     }},
    {"Operand", "operand 1 is a slot", [](auto& a) { variant(a).commands[0].operands[1] = 3; }},
    {"Origin", "origin 0 is not there", [](auto& a) { variant(a).commands[0].provenances = {2}; }},
    {"NoEnd", "the program does not end", [](auto& a) { variant(a).commands.pop_back(); }},
    {"NoCommands", "the program does not end", [](auto& a) { variant(a).commands.clear(); }},
    {"CommandKind", "command 0 is of kind 9",
     [](auto& a) { variant(a).commands[0].kind = NACRE_COMMAND_KINDS; }},
    {"CommandFlags", "command 0 has unknown flags",
     [](auto& a) { variant(a).commands[0].flags = 8; }},
    {"CommandKernel", "command 0 has a target",
     [](auto& a) { variant(a).commands[0].target = kKernelCount; }},
    {"CommandScratch", "command 0 has an invalid size",
     [](auto& a) { variant(a).commands[0].scratch = Size::node(7); }},
    {"CopyOfThree", "command 0 has the wrong number",
     [](auto& a) {
       variant(a).commands[0].kind = NACRE_COMMAND_copy;
       variant(a).commands[0].operands = {1, 0, 2};
     }},
    {"CopyToInput", "command 0 has operands of the wrong kind",
     [](auto& a) {
       variant(a).commands[0].kind = NACRE_COMMAND_copy;
       variant(a).commands[0].operands = {0, 1};
     }},
    {"BranchBack", "command 1 has a target",
     [](auto& a) {
       variant(a).slots[1].size = Size::constant(1);
       variant(a).commands[1].kind = NACRE_COMMAND_branch;
       variant(a).commands[1].operands = {1};
       variant(a).commands[1].target = 0;
     }},
    {"BranchOnLarge", "command 0 has operands of the wrong kind",
     [](auto& a) {
       variant(a).commands[0].kind = NACRE_COMMAND_branch;
       variant(a).commands[0].operands = {1};
       variant(a).commands[0].target = 2;
     }},
    {"JumpBackToNoLoop", "command 1 has a target",
     [](auto& a) {
       variant(a).commands[1].kind = NACRE_COMMAND_jump;
       variant(a).commands[1].operands = {};
       variant(a).commands[1].target = 0;
     }},
    {"LoopWithoutExit", "command 1 has a target",
     [](auto& a) {
       fmt::Command loop, jump;
       loop.kind = NACRE_COMMAND_loop;
       jump.kind = NACRE_COMMAND_jump;
       variant(a).commands = {loop, jump, end()};
     }},
    {"BindOfNoSymbol", "command 0 has a target",
     [](auto& a) {
       variant(a).slots[1].size = Size::constant(8);
       variant(a).commands[0].kind = NACRE_COMMAND_bind;
       variant(a).commands[0].target = 1;
       variant(a).commands[0].operands = {1};
     }},
    {"BindOfBoundSymbol", "command 0 binds a symbol that a guard has bound",
     [](auto& a) {
       variant(a).slots[1].size = Size::constant(8);
       variant(a).commands[0].kind = NACRE_COMMAND_bind;
       variant(a).commands[0].target = 0;
       variant(a).commands[0].operands = {1};
     }},
    {"BindToLarge", "command 0 has operands of the wrong kind",
     [](auto& a) {
       a.symbols.push_back({"u0", 0, 8, 1});
       variant(a).commands[0].kind = NACRE_COMMAND_bind;
       variant(a).commands[0].target = 1;
       variant(a).commands[0].operands = {1};
     }},
    {"CheckOfNoNode", "command 0 has a target",
     [](auto& a) {
       variant(a).commands[0].kind = NACRE_COMMAND_check;
       variant(a).commands[0].target = 7;
       variant(a).commands[0].operands = {};
     }},
    {"OutputBounds", "output 0 has an invalid",
     [](auto& a) { a.entries[0].outputs[0].bounds = {Size::constant(4)}; }},
    {"Import", "command 0 has a target",
     [](auto& a) { variant(a).commands[0].kind = NACRE_COMMAND_import; }},
    {"ImportWithoutDescriptions", "command 0 has operands of the wrong kind",
     [](auto& a) {
       a.imports = {{"f", "{}", 1}};
       variant(a).commands[0].kind = NACRE_COMMAND_import;
     }},
    {"ImportOfMoreInputs", "command 0 has operands of the wrong kind",
     [](auto& a) {
       describe_import(a);
       a.imports[0].input_count = 3;
     }},
    {"ImportThatWritesAnInput", "command 0 has operands of the wrong kind",
     [](auto& a) {
       describe_import(a);
       variant(a).commands[0].operands = {1, 0};
     }},
    {"ImportOfAnotherLayout", "command 0 has operands of the wrong kind",
     [](auto& a) {
       describe_import(a);
       variant(a).slot_tensors[0].layout = {1, 0};
     }},
    {"ImportOfNoNode", "the description of slot",
     [](auto& a) {
       describe_import(a);
       variant(a).slot_tensors[0].dims[0] = Size::node(7);
     }},
};

INSTANTIATE_TEST_SUITE_P(Meta, Verify, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace nacre::test
