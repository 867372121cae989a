// Loop program + kernels + memory plan -> one variant of an entry: guard row, expression list, slots, commands.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/memory/plan.h"
#include "formats/writer.h"

namespace nacre {

// Builds the expression list of an entry. Equal expressions share a node; the symbols come first.
class NodeList {
 public:
  explicit NodeList(const Facts& symbols);
  formats::Size add(const Expr& e);  // constants need no node
  formats::Size add(nacre_expr_kind kind, formats::Size a, formats::Size b);
  formats::Size add_symbol(uint32_t number);  // one that guards bind beyond the program's own
  const std::vector<formats::Node>& nodes() const { return nodes_; }
  // The value with every symbol at its upper limit; nullopt without a limit, or on overflow.
  std::optional<int64_t> at_limits(formats::Size size) const;

 private:
  uint32_t node_of(formats::Size size);
  uint32_t push(formats::Node node);
  const Facts& symbols_;
  std::vector<formats::Node> nodes_;
  std::map<std::tuple<int, uint32_t, int64_t>, uint32_t> known_;
  std::map<std::string, uint32_t> numbers_;  // of symbols
};

// Weights and states are numbered as they occur here; the caller fills in their data.
struct ProgramTables {
  formats::Entry entry;
  std::vector<std::string> weights;  // targets, in the order of their numbers
  std::vector<std::string> states;
  std::vector<formats::Symbol> symbols;
  std::vector<formats::Provenance> provenances;
  std::vector<std::vector<uint32_t>> kernel_provenances;
  std::string arena_text;  // the size of the arena in bytes: a number, or an expression over the symbols
};

// `graph` gives the user inputs as the model declares them. `kernel_of[g]`: the number of group g's kernel; `kernels[g]` its source. `features`: what the code image needs.
ProgramTables make_program(const LoopProgram& program, const std::vector<KernelSource>& kernels, const std::vector<uint32_t>& kernel_of,
                           const MemoryPlan& plan, const Graph& graph, uint64_t features);

}  // namespace nacre
