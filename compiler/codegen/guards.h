// The guard row of a variant: what it wants of the inputs, and where the symbols get their values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/nodes.h"
#include "compiler/graph/graph.h"
#include "compiler/loops/group.h"
#include "compiler/overlap.h"
#include "formats/writer.h"

namespace nacre {

// Where the guards of an entry bind what its inputs say. Symbol numbers are those of the artifact.
struct Bindings {
  uint32_t first_symbol = 0;           // of the graph's, in their order
  std::map<size_t, uint32_t> numbers;  // of integer inputs whose value is an expression: a symbol of their own
  std::vector<std::pair<size_t, size_t>> apart;  // inputs that must not share memory, since the call writes into one of them
  std::map<std::string, uint32_t> shared;        // symbols that only the variant for shared memory has
};

// `entry` gives the user inputs as the model declares them; `variant` may know more about its symbols, and how its inputs lie.
// All rows of an entry begin with the same records, up to the last binding: the runtime looks at those once for all rows.
// `nodes` are the variant's; `shared` the inputs that may share memory, in a variant for that.
std::vector<formats::Guard> make_guards(const Graph& entry, const LoopProgram& variant, const Bindings& bindings, NodeList& nodes,
                                        const std::vector<SharedInput>& shared, uint64_t features);

}  // namespace nacre
