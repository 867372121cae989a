// What operators do with the memory of their arguments: from the alias annotations of their schemas
// (`add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)`), and, where those only say "may" or nothing
// at all (reshape, to, contiguous, dropout, einsum), from running the operator on tensors that have
// no memory. Plain data: no torch types.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// Whether libtorch has nothing of the operator's namespace: one that a program made with torch.library.
bool is_custom(const std::string& op);

struct NodeEffects {
  std::vector<ValueId> written;  // arguments whose memory the node changes, in the schema's order
  std::vector<ValueId> shares;   // for each output: the argument whose memory it has, or kNoValue
};

// Error{unsupported} for an operator that this libtorch does not have. Nothing for `sym.*` and
// `higher_order.*`.
NodeEffects effects_of(const Graph& graph, const Node& node);

// The operator that computes what `op` writes instead of writing it: `aten.add_.Tensor` ->
// `aten.add.Tensor`.
struct FunctionalVariant {
  std::string op;
  // For each parameter of `op`, what the variant calls it; empty for those that it does not have
  // (`out`).
  std::map<std::string, std::string> parameters;
  std::vector<int> written;  // which of its results is the new value of each written parameter
  std::vector<int> results;  // which of its results is each result of `op` that is not a written
                             // parameter; -1: one is
};
std::optional<FunctionalVariant> functional_variant(const std::string& op);

// Dtype and sizes of the results of `node` for the symbols' hints, found without computing; nullopt
// where that fails.
struct ResultType {
  nacre_dtype dtype{};
  std::vector<int64_t> shape;
};
std::optional<std::vector<ResultType>> result_types(const Graph& graph, const Node& node);

// Values of the symbols to try things with: the hints where there are any.
std::map<std::string, int64_t> hints(const Graph& graph);

}  // namespace nacre
