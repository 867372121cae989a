// The oracle: graphs of every level, run operator by operator on libtorch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/frontend.h"
#include "compiler/graph/graph.h"

namespace nacre {

// Runs `graph` on one thread, so that results do not depend on the machine's number of cores.
// `weights` by the target of each input that is no user input; `inputs` are the user inputs in
// order, numbers as tensors of one element. Inputs are laid out in memory with the strides that
// their values have in the graph. Outputs in the graph's order: an output that names an input gives
// what the input holds at the end.
std::vector<HostTensor> run_eager(const Graph& graph,
                                  const std::map<std::string, HostTensor>& weights,
                                  const std::vector<HostTensor>& inputs, OracleType oracle);

// See Frontend::body_calls.
std::vector<BodyCall> body_calls(const Graph& graph, const std::map<std::string, HostTensor>& weights,
                                 const std::vector<HostTensor>& inputs, size_t most);

}  // namespace nacre
