#include "exporter/emitter.h"

#include <algorithm>

namespace nacre {

std::vector<ValueId> Emitter::emit(std::string op, Args args, const std::vector<Value>& results) {
  Node node;
  node.op = std::move(op);
  node.args = std::move(args);
  node.where = where;
  for (Value v : results) {
    v.strides.clear();
    v.offset = Expr(0);
    node.outputs.push_back(graph_.add_value(std::move(v)));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

ValueId Emitter::reshaped(ValueId v, const std::vector<Expr>& shape) {
  if (graph_[v].shape == shape) return v;
  Value result = graph_[v];
  result.shape = shape;
  return emit_one("aten.reshape.default", {{"self", ValueRef{v}}, {"shape", shape}}, result);
}

ValueId Emitter::permuted(ValueId v, const std::vector<int64_t>& dims) {
  if (std::is_sorted(dims.begin(), dims.end())) return v;
  Value result = graph_[v];
  std::vector<Expr> order;
  for (size_t i = 0; i < dims.size(); ++i) {
    result.shape[i] = graph_[v].shape[static_cast<size_t>(dims[i])];
    order.emplace_back(dims[i]);
  }
  return emit_one("aten.permute.default", {{"self", ValueRef{v}}, {"dims", order}}, result);
}

ValueId Emitter::converted(ValueId v, nacre_dtype dtype) {
  if (graph_[v].dtype == dtype) return v;
  Value result = graph_[v];
  result.dtype = dtype;
  return emit_one("aten.to.dtype", {{"self", ValueRef{v}}, {"dtype", dtype}}, result);
}

ValueId Emitter::expanded(ValueId v, const std::vector<Expr>& shape) {
  if (graph_[v].shape == shape) return v;
  Value result = graph_[v];
  result.shape = shape;
  return emit_one("aten.expand.default", {{"self", ValueRef{v}}, {"size", shape}}, result);
}

}  // namespace nacre
