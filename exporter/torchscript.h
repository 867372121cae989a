// TorchScript -> captured graph, by running a method once on examples of its arguments.
//
// TorchScript has no shapes: what it computes with sizes, with numbers and with Python's containers is done while it
// runs, so that `if` on them takes one branch and a loop over them is unrolled; operators on tensors become nodes. The
// shapes of the examples are those of the program. `if` and loops that depend on a tensor's values become nodes with graphs
// of their own (higher_order.cond, higher_order.while_loop).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/frontend.h"

namespace nacre {

// Whether the file is an archive of torch.jit.save. False for one that cannot be read.
bool is_torchscript(const std::filesystem::path& path);

// `method` may name a method of a submodule: `encoder.forward`. Attributes that the method sets are state: the graph's
// buffers, mutated. A first call that is another computation than later ones (an empty tensor as "no state yet") is
// replaced by the later ones on zeros where both give the same results, to the bit, on several inputs.
//
// Error{user} for a damaged file, a method that is not there, examples that the method does not take or an exception
// that it raises; Error{unsupported} for a decision on data that has no graph, and for state that never
// settles.
Program load_torchscript(const std::filesystem::path& path, const std::string& method,
                         const std::vector<Example>& examples);

}  // namespace nacre
