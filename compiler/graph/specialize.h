// A graph for fewer shapes: what a specialised variant is compiled from.
//
//   symbol s0 from 1 to 64
//   %x: f32[s0, 10]
//   %y: f32[s0 floordiv 8, 80] = prim.reshape(%x, shape=[s0 floordiv 8, 80])
// specialised to `x: [16, 10]` becomes
//   symbol s0 from 16 to 16
//   %x: f32[16, 10]
//   %y: f32[2, 80] = prim.reshape(%x, shape=[2, 80])
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// What a variant wants of one dimension (or of the value of an integer input).
struct DimRequest {
  int64_t min = 0, max = kUnbounded;
  int64_t multiple = 1;
  std::string name;  // not empty: the dimension is `multiple` times this, wherever the name occurs
};

struct InputRequest {
  std::string input;  // its name, or its number
  std::vector<DimRequest> dims;
  bool scalar = false;         // dims[0] is the value of an integer input
  bool channels_last = false;  // in memory
};

struct VariantRequest {
  std::string name;   // as the user wrote it
  std::string entry;  // empty: every entry that has these inputs
  std::vector<InputRequest> inputs;
};

// Reads `x: [1, 3, 224, 224]`, `x: [2..32, 3, H, 8*W] channels_last, n: 5`, `decode/x: [1, _]` (of the entry `decode`). A dimension is a number, a range (`2..32`,
// `2..`, `8..64 by 8`), a name or a multiple of one (`8*W`), or `_` for any size; one name is one size. Error{user}.
VariantRequest parse_variant(const std::string& text);

// A request in terms of the graph's symbols.
struct Narrowing {
  Facts symbols;                       // all of the graph's, with what is known now
  std::map<std::string, Expr> values;  // symbols that are numbers now, or equal to other symbols
  std::vector<Expr> conditions;        // what facts and guards on single dimensions do not say, over the graph's symbols
  std::vector<size_t> channels_last;   // user inputs that lie so
  // How much is left, as a logarithm: a narrowing that lies within another has the smaller one.
  double volume = 0;
};

// Error{user} names the input and the dimension where the request and the graph's own ranges have nothing in common.
Narrowing narrow(const Graph& graph, const VariantRequest& request);

// The same by symbols (without names of sizes); nullopt where nothing is narrowed, or nothing is left.
std::optional<Narrowing> narrow(const Graph& graph, const std::map<std::string, DimRequest>& symbols);

// Of a functional or primitive graph. Keeps every symbol, so that their numbers are those of the general variant.
Graph specialize(Graph general, const Narrowing& narrowing);

}  // namespace nacre
