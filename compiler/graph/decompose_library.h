// Operators of torch.library become imports, functions that the application has. Tensors are the inputs, in the order of the
// arguments; what is constant is written as JSON. A number that is known only at run time is an input, too, of no dims, and the
// JSON says which: `"length":"input 1"`. So it says of a list of tensors: `"parts":[0,1]`.
#pragma once

#include "compiler/graph/decompose_call.h"

namespace nacre {

// `functional` is the graph of the call.
Results import_of_library(Call& call, const Graph& functional);

}  // namespace nacre
