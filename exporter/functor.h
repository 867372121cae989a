// A C++ function over at::Tensor -> captured graph, by running it once on example tensors: for programs that are
// written against libtorch's C++ API. Include it where you have libtorch; link nacre_exporter.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

using Functor = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Tensors that belong to the functor, by name: a torch::nn::Module's named_parameters() and named_buffers(). Buffers
// that the functor writes to are state, kept from call to call. Tensors that it uses and that are not named become
// constants.
struct FunctorTensors {
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers;
};

// The program has the shapes of the examples, which are its sample inputs; inputs that the functor writes to are
// written to when it runs. The examples and the owned buffers are as before afterwards. Only operators that this thread
// calls are seen. `name` is the entry's.
//
// Error{user} for what the functor throws from libtorch; Error{unsupported} where it reads a value of a tensor that
// depends on the inputs (`item()`, a comparison in an `if`): the graph could not follow such a decision.
Program trace(const std::string& name, const Functor& functor, const std::vector<at::Tensor>& examples,
              const FunctorTensors& owned = {});

}  // namespace nacre
