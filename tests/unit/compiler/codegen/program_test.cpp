#include "compiler/codegen/program.h"

#include <gtest/gtest.h>

#include <bit>

#include "compiler/graph/text.h"
#include "compiler/loops/lower.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

struct ProgramTables {
  formats::Entry entry;
  std::vector<formats::Symbol> symbols;
  std::string arena_text;
};

// The tables of a graph without kernels: its guards are what is asked for.
ProgramTables tables_of(const std::string& text) {
  const Graph graph = parse_graph(text);
  const LoopProgram program = lower(graph);
  Tables tables;
  EntryTables entry = make_entry(graph.name, graph, program, {}, tables);
  MadeVariant made = make_variant({"general", program, {}, {}, {}, {}}, plan_memory(program), graph,
                                  entry, tables, 0);
  entry.entry.variants.push_back(std::move(made.variant));
  return {entry.entry, tables.symbols, made.arena_text};
}

std::vector<formats::Guard> of_input(const ProgramTables& tables, uint16_t input) {
  std::vector<formats::Guard> found;
  for (const formats::Guard& guard : tables.entry.variants.at(0).guards)
    if (guard.input == input && guard.kind != NACRE_GUARD_features &&
        guard.kind != NACRE_GUARD_dtype && guard.kind != NACRE_GUARD_rank &&
        guard.kind != NACRE_GUARD_node)
      found.push_back(guard);
  return found;
}

// `a == b` of the row's stage of expressions, as a text: symbols by name, other nodes by kind.
std::vector<std::string> conditions(const ProgramTables& tables) {
  const formats::Variant& variant = tables.entry.variants.at(0);
  std::vector<formats::Node> nodes = tables.entry.nodes;  // the variant's go on where these end
  nodes.insert(nodes.end(), variant.nodes.begin(), variant.nodes.end());
  const auto operand = [&](uint32_t number, auto& self) -> std::string {
    const formats::Node& node = nodes.at(number);
    const auto both = [&](const char* between) {
      return "(" + self(node.a, self) + between + (node.number ? std::to_string(node.b) : self(static_cast<uint32_t>(node.b), self)) + ")";
    };
    switch (node.kind) {
      case NACRE_EXPR_constant:
        return std::to_string(node.b);
      case NACRE_EXPR_symbol:
        return tables.symbols.at(node.a).name;
      case NACRE_EXPR_mul:
        return both(" * ");
      case NACRE_EXPR_mod:
        return both(" % ");
      case NACRE_EXPR_eq:
        return both(" == ");
      default:
        return "?";
    }
  };
  std::vector<std::string> found;
  for (const formats::Guard& guard : variant.guards)
    if (guard.kind == NACRE_GUARD_node)
      found.push_back(operand(static_cast<uint32_t>(guard.ref), operand));
  return found;
}

TEST(Program, NumbersThatExportTookAsGivenMustBeThose) {
  const ProgramTables tables = tables_of(R"(graph forward primitive {
    input %x: f32[2] user "x"
    input %k: int(-3) user "k"
    input %a: float(0.1) user "a"
    input %yes: bool(true) user "yes"
    input %any: bool user "any"
    %y: f32[2] = prim.neg(%x)
    output %y user
  })");
  using formats::Guard;
  EXPECT_EQ(of_input(tables, 1), (std::vector<Guard>{{NACRE_GUARD_value_equal, 1, 0, 0, -3, 0}}));
  EXPECT_EQ(of_input(tables, 2), (std::vector<Guard>{{NACRE_GUARD_value_equal, 2, 0, 0,
                                                      std::bit_cast<int64_t>(0.1), 0}}));
  EXPECT_EQ(of_input(tables, 3), (std::vector<Guard>{{NACRE_GUARD_value_equal, 3, 0, 0, 1, 0}}));
  EXPECT_TRUE(of_input(tables, 4).empty());
}

TEST(Program, IntegersBindASymbolOrAgreeWithOne) {
  const ProgramTables tables = tables_of(R"(graph forward primitive {
    symbol n: [0, 100] multiple 4
    symbol s0: [1, 64]
    input %x: f32[s0] user "x"
    input %n: int(n) user "n"
    input %again: int(n) user "again"
    input %twice: int(2*s0) user "twice"
    %y: f32[s0] = prim.neg(%x)
    output %y user
  })");
  using formats::Guard;
  EXPECT_EQ(of_input(tables, 1), (std::vector<Guard>{{NACRE_GUARD_bind_value, 1, 0, 0, 0, 0},
                                                     {NACRE_GUARD_value_range, 1, 0, 0, 0, 100}}));
  EXPECT_EQ(of_input(tables, 2), (std::vector<Guard>{{NACRE_GUARD_bind_value, 2, 0, 2, 0, 0}}));
  EXPECT_EQ(of_input(tables, 3), (std::vector<Guard>{{NACRE_GUARD_bind_value, 3, 0, 3, 0, 0}}));
  EXPECT_EQ(conditions(tables), (std::vector<std::string>{"((n % 4) == 0)", "(again == n)",
                                                          "(twice == (s0 * 2))"}));
}

TEST(Program, RefusesMoreDimensionsThanAnArtifactHolds) {
  try {
    tables_of(R"(graph forward primitive {
    input %x: f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4] user "x"
    %y: f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4] = prim.neg(%x)
    output %y user
  })");
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::unsupported);
    EXPECT_NE(std::string(e.what()).find("'x' has 17 dimensions"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("at most 16"), std::string::npos) << e.what();
  }
}

TEST(Program, TellsTheArenaAsAFormulaOverTheSymbols) {
  const ProgramTables linear = tables_of(R"(graph forward primitive {
    symbol s0: [1, 64]
    input %x: f32[s0, 16] user "x"
    %a: f32[s0, 16] = prim.neg(%x)
    %b: f32[s0, 16] = prim.exp(%a)
    %y: f32[s0, 16] = prim.mul(%b, %a)
    output %y user
  })");
  EXPECT_EQ(linear.arena_text, "128*s0");
  EXPECT_EQ(linear.entry.variants.at(0).arena_bound, 128 * 64);
  const ProgramTables larger_of_two = tables_of(R"(graph forward primitive {
    symbol s0: [1, 64]
    symbol s1: [1, 64]
    input %x: f32[s0, 16] user "x"
    input %z: f32[s1, 16] user "z"
    %a: f32[s0, 16] = prim.neg(%x)
    %y: f32[s0, 16] = prim.exp(%a)
    %b: f32[s1, 16] = prim.neg(%z)
    %w: f32[s1, 16] = prim.exp(%b)
    output %y user
    output %w user
  })");
  EXPECT_EQ(larger_of_two.arena_text, "max(64*s0, 64*s1)");
  // An end that another is never below does not count, beside a maximum that only the sizes decide either.
  const ProgramTables covered = tables_of(R"(graph forward primitive {
    symbol s0: [1, 64]
    symbol s1: [1, 64]
    input %x: f32[s0, 16] user "x"
    input %z: f32[s1, 16] user "z"
    input %u: f32[s0, 32] user "u"
    %a: f32[s0, 16] = prim.neg(%x)
    %y: f32[s0, 16] = prim.exp(%a)
    %b: f32[s1, 16] = prim.neg(%z)
    %w: f32[s1, 16] = prim.exp(%b)
    %c: f32[s0, 32] = prim.neg(%u)
    %v: f32[s0, 32] = prim.exp(%c)
    output %y user
    output %w user
    output %v user
  })");
  EXPECT_EQ(covered.arena_text, "max(64*s1, 128*s0)");
}

TEST(Program, NumbersTakeNoNode) {
  NodeList list({{"s0", SymbolFacts{}}, {"s1", SymbolFacts{}}}, 0);
  const Expr s0 = Expr::symbol("s0"), s1 = Expr::symbol("s1");
  const formats::Size area = list.add(4 * s0 * s1), half = list.add(floordiv(s0 + 1, 2)), rest = list.add(NACRE_EXPR_sub, formats::Size::constant(9), half);
  // 4*s0*s1 + 8*s0*s1, and what is there already.
  const formats::Size both = list.add(NACRE_EXPR_add, area, list.add(8 * s0 * s1)), again = list.add(12 * s0 * s1),
                      twice = list.add(NACRE_EXPR_add, formats::Size::node(0), formats::Size::node(0));
  const std::vector<formats::Node> expected{{NACRE_EXPR_symbol, 0, 0},       {NACRE_EXPR_symbol, 1, 0},       {NACRE_EXPR_mul, 0, 1},
                                            {NACRE_EXPR_mul, 2, 4, true},    {NACRE_EXPR_add, 0, 1, true},    {NACRE_EXPR_floor_div, 4, 2, true},
                                            {NACRE_EXPR_constant, 0, 9},     {NACRE_EXPR_sub, 6, 5},          {NACRE_EXPR_mul, 2, 8, true},
                                            {NACRE_EXPR_mul, 2, 12, true},   {NACRE_EXPR_mul, 0, 2, true}};
  EXPECT_EQ(list.nodes(), expected);
  EXPECT_EQ(area, formats::Size::node(3));
  EXPECT_EQ(rest, formats::Size::node(7));
  EXPECT_EQ(both, formats::Size::node(9));
  EXPECT_EQ(again, both);
  EXPECT_EQ(twice, formats::Size::node(10));
}

TEST(Program, PutsLastWhatARunDoesNotLookAt) {
  formats::Variant v;
  v.nodes = {{NACRE_EXPR_constant, 0, 2}, {NACRE_EXPR_mul, 0, 2}, {NACRE_EXPR_constant, 0, 3}, {NACRE_EXPR_mul, 3, 4},
             {NACRE_EXPR_mul, 0, 4}, {NACRE_EXPR_add, 3, 0}, {NACRE_EXPR_add, 5, 3, true}};  // numbered after two of the entry's
  v.commands.resize(1);
  v.commands[0].kind = NACRE_COMMAND_call;
  v.commands[0].flops = formats::Size::node(8);    // (n0 * 2) * 3 + 3
  v.commands[0].scratch = formats::Size::node(7);  // n0 * 2 + n0
  settle_nodes(v, 2);
  const std::vector<formats::Node> expected{{NACRE_EXPR_constant, 0, 2}, {NACRE_EXPR_mul, 0, 2}, {NACRE_EXPR_add, 3, 0},
                                            {NACRE_EXPR_constant, 0, 3}, {NACRE_EXPR_mul, 3, 5}, {NACRE_EXPR_add, 6, 3, true}};
  EXPECT_EQ(v.nodes, expected);
  EXPECT_EQ(v.spare_nodes, 3u);
  EXPECT_EQ(v.commands[0].scratch, formats::Size::node(4));
  EXPECT_EQ(v.commands[0].flops, formats::Size::node(7));
  // The application is told shapes.
  v.commands.push_back(v.commands[0]);
  v.commands[1].kind = NACRE_COMMAND_import;
  settle_nodes(v, 2);
  EXPECT_EQ(v.nodes.size(), 6u);
  EXPECT_EQ(v.spare_nodes, 0u);
}

}  // namespace
}  // namespace nacre
