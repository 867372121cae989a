// Shapes and dtypes of what primitives give, from their arguments: the rules of ops.def as code. The builder makes values
// with it, the verifier compares with it.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// The results of a primitive, without names; shapes are simplified with the graph's facts. Error{internal} names the node
// and the argument that breaks a rule.
std::vector<Value> infer(const Graph& graph, const Node& node);

// Sizes that may be equal: all but those that are proved to differ. Sizes over symbols are often equal for reasons that
// only the exported program knows.
bool may_be_equal(const Expr& a, const Expr& b, const Facts& facts);
bool may_be_equal(const std::vector<Expr>& a, const std::vector<Expr>& b, const Facts& facts);

}  // namespace nacre
