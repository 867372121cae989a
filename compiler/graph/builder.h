// Appends primitives to a graph: the hand tool of decompose, layout and packing. Every call infers the result's shape and
// dtype (shapes.h), simplifies the shape with the graph's facts, gives the node the current provenance and returns the new
// value. Wrong arguments are Error{internal}.
//
//   Builder b(graph);
//   b.at(node.where);
//   ValueId t = b.permute(w, {1, 0});
//   ValueId y = b.add(b.matmul(x, t), b.broadcast(bias, b.shape(x), {1}));
//
// A call that would change nothing (a permute that is the identity, a reshape or broadcast to the shape at hand, a cast to
// the dtype at hand, a slice of everything, a flip or a reduction over no dim, a concat of one) returns its operand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

class Builder {
 public:
  using Shape = std::vector<Expr>;
  using Dims = std::vector<int64_t>;
  using Args = std::vector<std::pair<std::string, Argument>>;

  // Edits `graph`, which must outlive the builder; nodes go to the end of graph.nodes.
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  // The provenance of the nodes made from now on.
  void at(Provenance where) { where_ = std::move(where); }
  const Provenance& at() const { return where_; }

  // References to values and shapes hold until the next node is made.
  const Value& operator[](ValueId v) const { return graph_[v]; }
  const Shape& shape(ValueId v) const { return graph_[v].shape; }
  // Dim `dim` of v's shape; a negative one counts from the end.
  const Expr& size(ValueId v, int64_t dim) const;
  int64_t rank(ValueId v) const { return static_cast<int64_t>(graph_[v].shape.size()); }
  nacre_dtype dtype(ValueId v) const { return graph_[v].dtype; }
  Expr elements(ValueId v) const { return product(graph_[v].shape); }

  // Any primitive by name (`prim.sort`), with its arguments as in ops.def.
  std::vector<ValueId> make(const std::string& op, Args args);
  ValueId make_one(const std::string& op, Args args);

  // ---- Pointwise, one method per line of ops.def: neg(a), add(a, b), where(c, a, b). Operands have one dtype.
#define NACRE_ARITY_1(op) \
  ValueId op(ValueId a) { return pointwise(#op, {a}); }
#define NACRE_ARITY_2(op) \
  ValueId op(ValueId a, ValueId b) { return pointwise(#op, {a, b}); }
#define NACRE_ARITY_3(op) \
  ValueId op(ValueId a, ValueId b, ValueId c) { return pointwise(#op, {a, b, c}); }
#define NACRE_POINTWISE(name, arity, result, cost, expression) NACRE_ARITY_##arity(name)
#include "compiler/graph/ops.def"
#undef NACRE_ARITY_1
#undef NACRE_ARITY_2
#undef NACRE_ARITY_3
  // By name without the `prim.`. Operands of unlike shapes are broadcast against each other first (as in NumPy, a rank-0
  // operand included); dtypes must agree already.
  ValueId pointwise(const std::string& name, const std::vector<ValueId>& operands);
  ValueId cast(ValueId x, nacre_dtype dtype);

  // ---- Views.
  ValueId broadcast(ValueId x, Shape shape, Dims dims);
  ValueId broadcast_to(ValueId x, Shape shape);  // aligned at the last dim, as expand
  ValueId unsqueeze(ValueId x, int64_t dim);     // 0 <= dim <= rank, or negative
  ValueId squeeze(ValueId x, Dims dims);         // each of size 1
  ValueId reshape(ValueId x, Shape shape);
  ValueId permute(ValueId x, Dims dims);
  ValueId transpose(ValueId x, int64_t dim0, int64_t dim1);
  ValueId slice(ValueId x, int64_t dim, Expr start, Expr end, Expr step = 1);
  ValueId select(ValueId x, int64_t dim, Expr index);  // slice of one, then squeeze; 0 <= index < size
  ValueId flip(ValueId x, Dims dims);
  ValueId pad(ValueId x, Shape low, Shape high, double value);  // a whole number for integers
  ValueId concat(std::vector<ValueId> inputs, int64_t dim);
  ValueId window(ValueId x, int64_t dim, Expr size, Expr step, Expr dilation = 1);
  ValueId select_scatter_range(ValueId x, ValueId src, int64_t dim, Expr start, Expr step = 1);

  // ---- Reductions over `dims` (negative ones count from the end); keepdim leaves them with size 1.
  ValueId sum(ValueId x, Dims dims, bool keepdim = false) { return reduce("sum", x, std::move(dims), keepdim); }
  ValueId prod(ValueId x, Dims dims, bool keepdim = false) { return reduce("prod", x, std::move(dims), keepdim); }
  ValueId amax(ValueId x, Dims dims, bool keepdim = false) { return reduce("amax", x, std::move(dims), keepdim); }
  ValueId amin(ValueId x, Dims dims, bool keepdim = false) { return reduce("amin", x, std::move(dims), keepdim); }
  ValueId any(ValueId x, Dims dims, bool keepdim = false) { return reduce("any", x, std::move(dims), keepdim); }
  ValueId all(ValueId x, Dims dims, bool keepdim = false) { return reduce("all", x, std::move(dims), keepdim); }
  ValueId argmax(ValueId x, int64_t dim, bool keepdim = false) { return reduce("argmax", x, {dim}, keepdim); }
  ValueId argmin(ValueId x, int64_t dim, bool keepdim = false) { return reduce("argmin", x, {dim}, keepdim); }
  ValueId reduce(const std::string& name, ValueId x, Dims dims, bool keepdim = false);

  // ---- Scans and sorting.
  ValueId scan(const std::string& name, ValueId x, int64_t dim);  // cumsum, cumprod, cummax, cummin
  std::pair<ValueId, ValueId> sort(ValueId x, int64_t dim, bool descending = false, bool stable = false);

  // ---- Creation.
  ValueId full(Shape shape, double value, nacre_dtype dtype);      // of a floating dtype
  ValueId full(Shape shape, Expr value, nacre_dtype dtype);        // of an integer or floating dtype
  ValueId full(Shape shape, int value, nacre_dtype dtype) { return full(std::move(shape), Expr(value), dtype); }
  ValueId full_bool(Shape shape, bool value);
  // `value` in x's shape and dtype; for an integer dtype it must be a whole number.
  ValueId full_like(ValueId x, double value);
  ValueId iota(Expr length, Expr start, Expr step, nacre_dtype dtype);
  ValueId iota(Expr length, double start, double step, nacre_dtype dtype);

  // ---- Indexing. kNoValue among `indices` is an absent one.
  // wrap: a negative index counts from the end; otherwise it is out of range.
  ValueId index(ValueId x, std::vector<ValueId> indices, bool wrap = true);
  ValueId gather(ValueId x, ValueId index, int64_t dim);
  ValueId index_put(ValueId x, ValueId values, std::vector<ValueId> indices, bool accumulate, bool wrap = true);
  ValueId scatter(ValueId x, ValueId index, ValueId src, int64_t dim, const std::string& reduce = "none");

  // ---- Contractions.
  ValueId matmul(ValueId a, ValueId b);
  ValueId conv(ValueId x, ValueId w, Dims stride, Dims padding, Dims dilation, int64_t groups);
  ValueId conv_transpose(ValueId x, ValueId w, Dims stride, Dims padding, Dims output_padding, Dims dilation,
                         int64_t groups);
  ValueId attention(ValueId q, ValueId k, ValueId v, ValueId mask_or_none, double scale, bool is_causal);
  struct Recurrent {
    ValueId y = kNoValue, h = kNoValue, c = kNoValue;
  };
  // b_ih and b_hh may be kNoValue.
  Recurrent lstm(ValueId x, ValueId h, ValueId c, ValueId w_ih, ValueId w_hh, ValueId b_ih, ValueId b_hh, bool reverse);
  Recurrent gru(ValueId x, ValueId h, ValueId w_ih, ValueId w_hh, ValueId b_ih, ValueId b_hh, bool reverse);

  // ---- Control flow. The graph must have the subgraphs that are named.
  std::vector<ValueId> cond(ValueId predicate, std::vector<ValueId> operands, const std::string& true_graph, const std::string& false_graph);
  std::vector<ValueId> while_loop(std::vector<ValueId> carried, std::vector<ValueId> operands, const std::string& cond_graph,
                                  const std::string& body_graph);
  std::vector<ValueId> for_loop(std::vector<ValueId> carried, std::vector<ValueId> operands, const std::string& body_graph,
                                const Expr& index, const Expr& length);
  void item(ValueId x, const Expr& symbol);  // `symbol` has the value of x from here on
  void require(const Expr& condition, const std::string& message);

 private:
  Graph& graph_;
  Provenance where_;
};

}  // namespace nacre
