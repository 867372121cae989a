// What depends on weights alone is computed once, at compile time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// Runs a graph that has no user inputs; results in the order of its outputs.
using Evaluate = std::function<std::vector<HostTensor>(const Graph&, const std::map<std::string, HostTensor>&)>;

// The values that are known at compile time: parameters, constants, buffers that the model does not mutate, and what is
// computed from them alone with constant shapes. One flag for each value of the graph.
std::vector<bool> constant_values(const Graph& primitive);

// Constant subgraphs become new weights. Views stay in the graph (they cost nothing), so do lone fills and ranges, and what
// would take much more room than what it is made from. Weights that nothing reads any more are dropped.
// `prefix` goes before the names of the new weights, where one name must not stand for two of them.
Program fold_constants(Program primitive, const Evaluate& evaluate, const std::string& prefix = {});

}  // namespace nacre
