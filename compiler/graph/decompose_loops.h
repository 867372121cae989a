// Loops that a decomposition writes itself: the subgraph is what a function makes of the values that it takes.
#pragma once

#include <functional>

#include "compiler/graph/decompose_call.h"

namespace nacre {

using Tensors = std::vector<Tensor>;

std::vector<ValueId> ids(const Tensors& tensors);
Tensors tensors(Builder& b, const std::vector<ValueId>& values);

// The symbol that counts from 0 to below `length`.
Expr counter(Call& c, const Expr& length);

// `body` runs for step = 0, 1, ... length - 1. It gives the next carried values, then an element of each rows; so does the whole.
Tensors for_each_step(Call& c, const Expr& length, const Tensors& carried, const Tensors& operands,
                      const std::function<Tensors(const Expr& step, const Tensors& carried, const Tensors& operands)>& body);

// `body` gives the next carried values, as long as `go_on` is true of them.
Tensors while_true(Builder& b, const Tensors& carried, const Tensors& operands, const std::function<Tensor(const Tensors& carried)>& go_on,
                   const std::function<Tensors(const Tensors& carried, const Tensors& operands)>& body);

}  // namespace nacre
