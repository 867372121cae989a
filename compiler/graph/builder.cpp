#include "compiler/graph/builder.h"

#include <algorithm>
#include <cmath>

#include "compiler/graph/ops.h"
#include "compiler/graph/shapes.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

std::vector<Expr> exprs(const Builder::Dims& dims) { return {dims.begin(), dims.end()}; }

int64_t wrapped(int64_t dim, int64_t rank) {
  const int64_t d = dim < 0 ? dim + rank : dim;
  check(d >= 0 && d < rank, "dim {} of a tensor of rank {}", dim, rank);
  return d;
}

// Sorted, none negative.
Builder::Dims wrapped(Builder::Dims dims, int64_t rank) {
  for (int64_t& d : dims) d = wrapped(d, rank);
  std::sort(dims.begin(), dims.end());
  return dims;
}

std::vector<ValueRef> refs(const std::vector<ValueId>& ids) {
  std::vector<ValueRef> list;
  for (ValueId id : ids) list.push_back({id});
  return list;
}

Argument optional_ref(ValueId id) {
  if (id == kNoValue) return std::monostate();
  return ValueRef{id};
}

// A number as an argument of the kind that fits the dtype.
Argument number_of(double value, nacre_dtype dtype) {
  if (is_floating(dtype) || is_complex(dtype)) return value;
  if (dtype == NACRE_bool_) return value != 0;
  check(value == std::floor(value) && std::abs(value) < 9.3e18, "{} as {}", value,
        nacre_dtype_name(dtype));
  // 2^63 is what the largest int64 becomes as a double.
  if (value >= 9223372036854775808.0) return Expr(INT64_MAX);
  return Expr(static_cast<int64_t>(value));
}

}  // namespace

const Expr& Builder::size(ValueId v, int64_t dim) const {
  return shape(v)[static_cast<size_t>(wrapped(dim, rank(v)))];
}

std::vector<ValueId> Builder::make(const std::string& op, Args args) {
  Node node;
  node.op = op;
  node.args = std::move(args);
  node.where = where_;
  for (Value& value : infer(graph_, node)) {
    value.name = op.substr(op.find('.') + 1);
    node.outputs.push_back(graph_.add_value(std::move(value)));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

ValueId Builder::make_one(const std::string& op, Args args) {
  const std::vector<ValueId> results = make(op, std::move(args));
  check(results.size() == 1, "{} has {} results", op, results.size());
  return results[0];
}

// ---- Pointwise.

ValueId Builder::pointwise(const std::string& name, const std::vector<ValueId>& operands) {
  check(!operands.empty(), "prim.{} without operands", name);
  // The common shape: of two sizes, the one that is not 1.
  Shape common = shape(operands[0]);
  for (size_t i = 1; i < operands.size(); ++i) {
    const Shape& other = shape(operands[i]);
    if (other.size() > common.size())
      common.insert(common.begin(), other.size() - common.size(), 1);
    for (size_t back = 1; back <= other.size(); ++back) {
      Expr& size = common[common.size() - back];
      if (size.is(1)) size = other[other.size() - back];
    }
  }
  static const char* const names[] = {"a", "b", "c"};
  Args args;
  for (size_t i = 0; i < operands.size(); ++i)
    args.emplace_back(names[i], ValueRef{broadcast_to(operands[i], common)});
  return make_one("prim." + name, std::move(args));
}

ValueId Builder::cast(ValueId x, nacre_dtype dtype) {
  if (this->dtype(x) == dtype) return x;
  return make_one("prim.cast", {{"a", ValueRef{x}}, {"dtype", dtype}});
}

// ---- Views.

ValueId Builder::broadcast(ValueId x, Shape shape, Dims dims) {
  if (this->shape(x) == shape) return x;
  return make_one("prim.broadcast",
                  {{"x", ValueRef{x}}, {"shape", std::move(shape)}, {"dims", exprs(dims)}});
}

ValueId Builder::broadcast_to(ValueId x, Shape shape) {
  const int64_t lead = static_cast<int64_t>(shape.size()) - rank(x);
  check(lead >= 0, "a tensor of rank {} cannot become rank {}", rank(x), shape.size());
  // What is only assumed to be equal is no reason for a node.
  bool same = lead == 0;
  for (size_t i = 0; same && i < shape.size(); ++i) {
    const Expr& mine = this->shape(x)[i];
    same = mine == shape[i] || (!mine.is(1) && may_be_equal(mine, shape[i], graph_.symbols));
  }
  if (same) return x;
  Dims dims;
  for (int64_t i = 0; i < rank(x); ++i) dims.push_back(i + lead);
  return broadcast(x, std::move(shape), std::move(dims));
}

ValueId Builder::unsqueeze(ValueId x, int64_t dim) {
  const int64_t at = wrapped(dim, rank(x) + 1);
  Shape shape = this->shape(x);
  shape.insert(shape.begin() + at, 1);
  Dims dims;
  for (int64_t i = 0; i < rank(x); ++i) dims.push_back(i < at ? i : i + 1);
  return broadcast(x, std::move(shape), std::move(dims));
}

ValueId Builder::squeeze(ValueId x, Dims dims) {
  dims = wrapped(std::move(dims), rank(x));
  Shape shape;
  for (int64_t i = 0; i < rank(x); ++i)
    if (!std::binary_search(dims.begin(), dims.end(), i)) shape.push_back(size(x, i));
  return reshape(x, std::move(shape));
}

ValueId Builder::reshape(ValueId x, Shape shape) {
  if (this->shape(x) == shape) return x;
  return make_one("prim.reshape", {{"x", ValueRef{x}}, {"shape", std::move(shape)}});
}

ValueId Builder::permute(ValueId x, Dims dims) {
  bool identity = static_cast<int64_t>(dims.size()) == rank(x);
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = wrapped(dims[i], rank(x));
    identity = identity && dims[i] == static_cast<int64_t>(i);
  }
  if (identity) return x;
  return make_one("prim.permute", {{"x", ValueRef{x}}, {"dims", exprs(dims)}});
}

ValueId Builder::transpose(ValueId x, int64_t dim0, int64_t dim1) {
  Dims dims;
  for (int64_t i = 0; i < rank(x); ++i) dims.push_back(i);
  std::swap(dims[static_cast<size_t>(wrapped(dim0, rank(x)))],
            dims[static_cast<size_t>(wrapped(dim1, rank(x)))]);
  return permute(x, std::move(dims));
}

ValueId Builder::slice(ValueId x, int64_t dim, Expr start, Expr end, Expr step) {
  dim = wrapped(dim, rank(x));
  if (start.is(0) && step.is(1) && end == size(x, dim)) return x;
  return make_one("prim.slice", {{"x", ValueRef{x}},
                                 {"dim", Expr(dim)},
                                 {"start", std::move(start)},
                                 {"end", std::move(end)},
                                 {"step", std::move(step)}});
}

ValueId Builder::select(ValueId x, int64_t dim, Expr index) {
  dim = wrapped(dim, rank(x));
  const Expr end = index + Expr(1);
  return squeeze(slice(x, dim, std::move(index), end), {dim});
}

ValueId Builder::flip(ValueId x, Dims dims) {
  dims = wrapped(std::move(dims), rank(x));
  if (dims.empty()) return x;
  return make_one("prim.flip", {{"x", ValueRef{x}}, {"dims", exprs(dims)}});
}

ValueId Builder::pad(ValueId x, Shape low, Shape high, double value) {
  const auto is_zero = [](const Expr& e) { return e.is(0); };
  if (std::all_of(low.begin(), low.end(), is_zero) &&
      std::all_of(high.begin(), high.end(), is_zero))
    return x;
  return make_one("prim.pad", {{"x", ValueRef{x}},
                               {"low", std::move(low)},
                               {"high", std::move(high)},
                               {"value", number_of(value, dtype(x))}});
}

ValueId Builder::concat(std::vector<ValueId> inputs, int64_t dim) {
  check(!inputs.empty(), "concat of nothing");
  dim = wrapped(dim, rank(inputs[0]));
  if (inputs.size() == 1) return inputs[0];
  return make_one("prim.concat", {{"inputs", refs(inputs)}, {"dim", Expr(dim)}});
}

ValueId Builder::window(ValueId x, int64_t dim, Expr size, Expr step, Expr dilation) {
  return make_one("prim.window", {{"x", ValueRef{x}},
                                  {"dim", Expr(wrapped(dim, rank(x)))},
                                  {"size", std::move(size)},
                                  {"step", std::move(step)},
                                  {"dilation", std::move(dilation)}});
}

ValueId Builder::select_scatter_range(ValueId x, ValueId src, int64_t dim, Expr start, Expr step) {
  return make_one("prim.select_scatter_range", {{"x", ValueRef{x}},
                                                {"src", ValueRef{src}},
                                                {"dim", Expr(wrapped(dim, rank(x)))},
                                                {"start", std::move(start)},
                                                {"step", std::move(step)}});
}

// ---- Reductions, scans, sorting.

ValueId Builder::reduce(const std::string& name, ValueId x, Dims dims, bool keepdim) {
  dims = wrapped(std::move(dims), rank(x));
  const Primitive* prim = find_primitive(name);
  check(prim && prim->kind == PrimClass::reduction, "{} is no reduction", name);
  if (dims.empty() && prim->result == PrimResult::same) return x;
  const ValueId y = make_one("prim." + name, {{"x", ValueRef{x}}, {"dims", exprs(dims)}});
  if (!keepdim) return y;
  Shape shape = this->shape(x);
  for (int64_t d : dims) shape[static_cast<size_t>(d)] = 1;
  Dims kept;
  for (int64_t i = 0; i < rank(x); ++i)
    if (!std::binary_search(dims.begin(), dims.end(), i)) kept.push_back(i);
  return broadcast(y, std::move(shape), std::move(kept));
}

ValueId Builder::scan(const std::string& name, ValueId x, int64_t dim) {
  return make_one("prim." + name, {{"x", ValueRef{x}}, {"dim", Expr(wrapped(dim, rank(x)))}});
}

std::pair<ValueId, ValueId> Builder::sort(ValueId x, int64_t dim, bool descending, bool stable) {
  const auto results = make("prim.sort", {{"x", ValueRef{x}},
                                          {"dim", Expr(wrapped(dim, rank(x)))},
                                          {"descending", descending},
                                          {"stable", stable}});
  return {results[0], results[1]};
}

// ---- Creation.

ValueId Builder::full(Shape shape, double value, nacre_dtype dtype) {
  return make_one(
      "prim.full",
      {{"shape", std::move(shape)}, {"value", number_of(value, dtype)}, {"dtype", dtype}});
}

ValueId Builder::full(Shape shape, Expr value, nacre_dtype dtype) {
  return make_one("prim.full",
                  {{"shape", std::move(shape)}, {"value", std::move(value)}, {"dtype", dtype}});
}

ValueId Builder::full_bool(Shape shape, bool value) {
  return make_one("prim.full",
                  {{"shape", std::move(shape)}, {"value", value}, {"dtype", NACRE_bool_}});
}

ValueId Builder::full_like(ValueId x, double value) { return full(shape(x), value, dtype(x)); }

ValueId Builder::iota(Expr length, Expr start, Expr step, nacre_dtype dtype) {
  return make_one("prim.iota", {{"length", std::move(length)},
                                {"start", std::move(start)},
                                {"step", std::move(step)},
                                {"dtype", dtype}});
}

ValueId Builder::iota(Expr length, double start, double step, nacre_dtype dtype) {
  return make_one("prim.iota", {{"length", std::move(length)},
                                {"start", number_of(start, dtype)},
                                {"step", number_of(step, dtype)},
                                {"dtype", dtype}});
}

// ---- Indexing.

ValueId Builder::index(ValueId x, std::vector<ValueId> indices, bool wrap) {
  Args args = {{"x", ValueRef{x}}, {"indices", refs(indices)}};
  if (!wrap) args.emplace_back("wrap", false);
  return make_one("prim.index", std::move(args));
}

ValueId Builder::gather(ValueId x, ValueId index, int64_t dim) {
  return make_one(
      "prim.gather",
      {{"x", ValueRef{x}}, {"index", ValueRef{index}}, {"dim", Expr(wrapped(dim, rank(x)))}});
}

ValueId Builder::index_put(ValueId x, ValueId values, std::vector<ValueId> indices,
                           bool accumulate, bool wrap) {
  Args args = {{"x", ValueRef{x}},
                    {"values", ValueRef{values}},
                    {"indices", refs(indices)},
                    {"accumulate", accumulate}};
  if (!wrap) args.emplace_back("wrap", false);
  return make_one("prim.index_put", std::move(args));
}

ValueId Builder::scatter(ValueId x, ValueId index, ValueId src, int64_t dim,
                         const std::string& reduce) {
  return make_one("prim.scatter", {{"x", ValueRef{x}},
                                   {"index", ValueRef{index}},
                                   {"src", ValueRef{src}},
                                   {"dim", Expr(wrapped(dim, rank(x)))},
                                   {"reduce", reduce}});
}

// ---- Contractions.

ValueId Builder::matmul(ValueId a, ValueId b) {
  return make_one("prim.matmul", {{"a", ValueRef{a}}, {"b", ValueRef{b}}});
}

ValueId Builder::conv(ValueId x, ValueId w, Dims stride, Dims padding, Dims dilation,
                      int64_t groups) {
  return make_one("prim.conv", {{"x", ValueRef{x}},
                                {"w", ValueRef{w}},
                                {"stride", exprs(stride)},
                                {"padding", exprs(padding)},
                                {"dilation", exprs(dilation)},
                                {"groups", Expr(groups)}});
}

ValueId Builder::conv_transpose(ValueId x, ValueId w, Dims stride, Dims padding,
                                Dims output_padding, Dims dilation, int64_t groups) {
  return make_one("prim.conv_transpose", {{"x", ValueRef{x}},
                                          {"w", ValueRef{w}},
                                          {"stride", exprs(stride)},
                                          {"padding", exprs(padding)},
                                          {"output_padding", exprs(output_padding)},
                                          {"dilation", exprs(dilation)},
                                          {"groups", Expr(groups)}});
}

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, ValueId mask_or_none, double scale,
                           bool is_causal) {
  return make_one("prim.attention", {{"q", ValueRef{q}},
                                     {"k", ValueRef{k}},
                                     {"v", ValueRef{v}},
                                     {"mask", optional_ref(mask_or_none)},
                                     {"scale", scale},
                                     {"is_causal", is_causal}});
}

Builder::Recurrent Builder::lstm(ValueId x, ValueId h, ValueId c, ValueId w_ih, ValueId w_hh,
                                 ValueId b_ih, ValueId b_hh, bool reverse) {
  const auto results = make("prim.lstm", {{"x", ValueRef{x}},
                                          {"h", ValueRef{h}},
                                          {"c", ValueRef{c}},
                                          {"w_ih", ValueRef{w_ih}},
                                          {"w_hh", ValueRef{w_hh}},
                                          {"b_ih", optional_ref(b_ih)},
                                          {"b_hh", optional_ref(b_hh)},
                                          {"reverse", reverse}});
  return {results[0], results[1], results[2]};
}

Builder::Recurrent Builder::gru(ValueId x, ValueId h, ValueId w_ih, ValueId w_hh, ValueId b_ih,
                                ValueId b_hh, bool reverse) {
  const auto results = make("prim.gru", {{"x", ValueRef{x}},
                                         {"h", ValueRef{h}},
                                         {"w_ih", ValueRef{w_ih}},
                                         {"w_hh", ValueRef{w_hh}},
                                         {"b_ih", optional_ref(b_ih)},
                                         {"b_hh", optional_ref(b_hh)},
                                         {"reverse", reverse}});
  return {results[0], results[1], kNoValue};
}

// ---- Control flow.

std::vector<ValueId> Builder::cond(ValueId predicate, std::vector<ValueId> operands, const std::string& true_graph,
                                   const std::string& false_graph) {
  return make("prim.cond", {{"predicate", ValueRef{predicate}},
                            {"operands", refs(operands)},
                            {"true_graph", SubgraphRef{true_graph}},
                            {"false_graph", SubgraphRef{false_graph}}});
}

std::vector<ValueId> Builder::while_loop(std::vector<ValueId> carried, std::vector<ValueId> operands,
                                         const std::string& cond_graph, const std::string& body_graph) {
  return make("prim.while_loop", {{"carried", refs(carried)},
                                  {"operands", refs(operands)},
                                  {"cond_graph", SubgraphRef{cond_graph}},
                                  {"body_graph", SubgraphRef{body_graph}}});
}

std::vector<ValueId> Builder::for_loop(std::vector<ValueId> carried, std::vector<ValueId> operands,
                                       const std::string& body_graph, const Expr& index, const Expr& length) {
  return make("prim.for_loop", {{"carried", refs(carried)},
                                {"operands", refs(operands)},
                                {"body_graph", SubgraphRef{body_graph}},
                                {"index", index},
                                {"length", length}});
}

void Builder::item(ValueId x, const Expr& symbol) {
  graph_[make_one("prim.item", {{"x", ValueRef{x}}})].expr = symbol;
}

void Builder::require(const Expr& condition, const std::string& message) {
  make("prim.check", {{"condition", condition}, {"message", message}});
}

}  // namespace nacre
