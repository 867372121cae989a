// The text form of a graph, which parses back to an equal graph.
//
// Arguments are named as in the schema; the leading tensors of a primitive and `self` of an ATen operator go without.
// An empty line and a line that starts with # or // say nothing; a comment behind a node is where it came from.
//
//   graph forward primitive {
//     symbol s0: [2, 64] multiple 2 hint 8
//     assume s0 + s1 <= 128
//     input %x: f32[s0, 64] user "x"
//     input %w: f32[10, 64] parameter "fc.weight"
//     %y: f32[s0, 10] = prim.matmul(%x, %wt)  # aten.linear.default model.py:41 fc
//     output %y user
//     output %b buffer_mutation "running_mean"
//   }
#pragma once

#include <string>
#include <string_view>

#include "compiler/graph/graph.h"

namespace nacre {

std::string print(const Graph& graph);
Graph parse_graph(std::string_view text);  // Error{user} names line and column

std::string print(const Graph& graph, const Node& node);  // one line, for messages
std::string where_text(const Provenance& where);          // `model.py:41, encoder.fc (aten.linear.default)`

}  // namespace nacre
