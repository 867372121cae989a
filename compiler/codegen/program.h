// Loop programs + kernels + memory plans -> an entry with its variants: guard rows, expression lists, slots, commands.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/guards.h"
#include "compiler/codegen/kernel.h"
#include "compiler/codegen/nodes.h"
#include "compiler/codegen/tables.h"
#include "compiler/memory/plan.h"
#include "formats/writer.h"

namespace nacre {

// What the variants of an entry have in common.
struct EntryTables {
  formats::Entry entry;  // its variants are added one by one, from special to general
  Facts symbols;
  NodeList nodes;        // of the entry
  Bindings bindings;
};

// `graph` gives the user inputs as the model declares them, `general` the outputs: of the variant that takes all of them.
// `shared`: the inputs of the variant for shared memory, if there is one.
EntryTables make_entry(const std::string& name, const Graph& graph, const LoopProgram& general, const std::vector<SharedInput>& shared,
                       Tables& tables);

// Where the kernels of a variant find their symbols.
SymbolNodes symbol_nodes(const EntryTables& entry, const std::vector<SharedInput>& shared);

// A kernel that a group could have instead: another choice of the question that its own asks.
struct OtherKernel {
  size_t group = 0;
  std::string choice;
  KernelSource kernel;
  uint32_t number = 0;
};

struct VariantSource {
  std::string name;
  const LoopProgram& program;
  const std::vector<KernelSource>& kernels;  // of each group
  const std::vector<uint32_t>& kernel_of;    // the number of each group's kernel
  const std::map<std::string, HostTensor>& weights;
  const std::vector<SharedInput>& shared;    // inputs that may share memory
  const std::vector<OtherKernel>& others = {};
};

struct MadeVariant {
  formats::Variant variant;
  std::string arena_text;  // the size of the arena in bytes: a number, or an expression over the symbols
};

// `features`: what the code image needs.
MadeVariant make_variant(const VariantSource& source, const MemoryPlan& plan, const Graph& graph, const EntryTables& entry, Tables& tables,
                         uint64_t features);

}  // namespace nacre
