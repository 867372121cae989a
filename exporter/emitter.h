// Appends functional operators to a graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

class Emitter {
 public:
  using Args = std::vector<std::pair<std::string, Argument>>;

  explicit Emitter(Graph& graph) : graph_(graph) {}

  Provenance where;  // of the nodes made from now on

  // `results` as in the captured graph: their strides are dropped, names made unique.
  std::vector<ValueId> emit(std::string op, Args args, const std::vector<Value>& results);
  ValueId emit_one(std::string op, Args args, const Value& result) {
    return emit(std::move(op), std::move(args), {result})[0];
  }

  // These give back `v` where nothing would change.
  ValueId reshaped(ValueId v, const std::vector<Expr>& shape);
  ValueId permuted(ValueId v, const std::vector<int64_t>& dims);
  ValueId converted(ValueId v, nacre_dtype dtype);
  ValueId expanded(ValueId v, const std::vector<Expr>& shape);

  const Value& operator[](ValueId v) const { return graph_[v]; }

 private:
  Graph& graph_;
};

}  // namespace nacre
