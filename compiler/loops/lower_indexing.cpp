// Lowering of what reads or writes at indices that are data, and of updates of a part.
#include <algorithm>

#include "compiler/loops/lowering.h"
#include "compiler/support/error.h"

namespace nacre {

BufferId Lowering::updatable(const Node& node, ValueId x) {
  const View& v = view(x);
  const ValueId y = node.outputs[0];
  const int root = root_[static_cast<size_t>(x)];
  bool in_place = is_whole(program_, v) && last_read_[static_cast<size_t>(root)] == position_ &&
                  (program_[v.buffer].kind == BufferKind::temporary || made_.updatable_inputs.contains(v.buffer));
  int reads = 0;
  for (const auto& [name, argument] : node.args)
    for_each_value(argument, [&](ValueId u) {
      const auto& other = views_[static_cast<size_t>(u)];
      if (root_[static_cast<size_t>(u)] == root || (other && other->buffer == v.buffer && v.buffer >= 0)) ++reads;
    });
  if (in_place && reads == 1) {
    const BufferId b = v.buffer;
    views_[static_cast<size_t>(y)] = whole(program_, b);
    return b;
  }
  const View from = v;
  const BufferId b = result_buffer(y);
  copy(from, b, "copy", node.where);
  return b;
}

void Lowering::lower_select_scatter(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x"), src = args.value("src"), y = node.outputs[0];
  const int dim = args.integer("dim");
  const Expr start = args.expr("start"), step = args.expr("step");
  BufferId b = -1;
  const size_t d = static_cast<size_t>(dim);
  const bool covers = start.is(0) && step.is(1) && graph_[src].shape[d] == graph_[x].shape[d];
  const View from = view(src);
  if (covers)
    b = result_buffer(y);
  else
    b = updatable(node, x);
  if (!product(from.shape).is(0)) copy(from, b, "select_scatter", node.where, dim, start, step);
}

std::vector<Expr> Lowering::indexed_at(CodeBuilder& code, const std::vector<Expr>& x_shape,
                                       const std::vector<ValueId>& indices, const std::vector<Expr>& index,
                                       Simplifier& simplify, bool wrap, const Provenance& where) {
  std::vector<size_t> present;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] != kNoValue) present.push_back(i);
  check(!present.empty(), "an index without index tensors");
  const size_t rank = graph_[indices[present[0]]].shape.size();
  // Index tensors side by side leave their dims in their place; otherwise those come first.
  const bool together = present.back() - present.front() + 1 == present.size();
  const size_t first = together ? present.front() : 0;
  const std::vector<Expr> data_index(index.begin() + static_cast<ptrdiff_t>(first),
                                     index.begin() + static_cast<ptrdiff_t>(first + rank));
  std::vector<Expr> at(x_shape.size());
  size_t next = 0;
  for (size_t i = 0; i < x_shape.size(); ++i) {
    if (i < indices.size() && indices[i] != kNoValue) {
      Scalar s;
      s.op = ScalarOp::check_index;
      s.operands = {code.cast(read_value(code, indices[i], data_index, simplify), NACRE_i64, where)};
      s.dtype = NACRE_i64;
      s.expr = x_shape[i];
      if (!wrap) s.prim = "below";
      s.where = where;
      at[i] = Expr::symbol(scalar_symbol(code.add(std::move(s))));
      continue;
    }
    if (next == first) next += rank;
    at[i] = index[next++];
  }
  return at;
}

void Lowering::lower_index(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x"), y = node.outputs[0];
  Nest nest;
  Domain d = domain(graph_[y].shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  const std::vector<Expr> at = indexed_at(code, graph_[x].shape, args.values("indices"), d.index, d.simplify, args.flag("wrap", true), node.where);
  const int value = read_value(code, x, at, d.simplify);
  nest.code[static_cast<size_t>(value)].where = node.where;
  store_all(nest, result_buffer(y), d.index, value);
  new_group("index").nests.push_back(std::move(nest));
}

void Lowering::lower_gather(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x"), y = node.outputs[0];
  const size_t dim = static_cast<size_t>(args.integer("dim"));
  Nest nest;
  Domain d = domain(graph_[y].shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  Scalar s;
  s.op = ScalarOp::check_index;
  s.operands = {code.cast(read_value(code, args.value("index"), d.index, d.simplify), NACRE_i64, node.where)};
  s.dtype = NACRE_i64;
  s.expr = graph_[x].shape[dim];
  s.prim = "below";  // no index counts from the end here
  s.where = node.where;
  std::vector<Expr> at = d.index;
  at[dim] = Expr::symbol(scalar_symbol(code.add(std::move(s))));
  const int value = read_value(code, x, at, d.simplify);
  nest.code[static_cast<size_t>(value)].where = node.where;
  store_all(nest, result_buffer(y), d.index, value);
  new_group("gather").nests.push_back(std::move(nest));
}

namespace {

// Whether no two points write to one place: each loop moves a dim of its own.
bool places_are_apart(const std::vector<Expr>& at, const std::vector<LoopVar>& loops) {
  return std::all_of(loops.begin(), loops.end(), [&](const LoopVar& loop) {
    return loop.extent.is(1) || std::find(at.begin(), at.end(), Expr::symbol(loop.name)) != at.end();
  });
}

}  // namespace

void Lowering::lower_index_put(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x"), values = args.value("values");
  const std::vector<ValueId> indices = args.values("indices");
  Nest nest;
  Domain d = domain(graph_[values].shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  Store store;
  store.value = read_value(code, values, d.index, d.simplify);
  store.at = indexed_at(code, graph_[x].shape, indices, d.index, d.simplify, args.flag("wrap", true), node.where);
  store.mode = args.flag("accumulate", false) ? StoreMode::add : StoreMode::assign;
  store.buffer = updatable(node, x);
  Group& group = new_group("index_put");
  group.serial = !places_are_apart(store.at, nest.loops);
  nest.stores.push_back(std::move(store));
  group.nests.push_back(std::move(nest));
}

void Lowering::lower_scatter(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x"), index = args.value("index"), src = args.value("src");
  const size_t dim = static_cast<size_t>(args.integer("dim"));
  const std::string reduce = args.text("reduce", "none");
  Nest nest;
  Domain d = domain(graph_[index].shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  Store store;
  store.value = read_value(code, src, d.index, d.simplify);
  Scalar s;
  s.op = ScalarOp::check_index;
  s.operands = {code.cast(read_value(code, index, d.index, d.simplify), NACRE_i64, node.where)};
  s.dtype = NACRE_i64;
  s.expr = graph_[x].shape[dim];
  s.prim = "below";
  s.where = node.where;
  store.at = d.index;
  store.at[dim] = Expr::symbol(scalar_symbol(code.add(std::move(s))));
  store.mode = reduce == "add"    ? StoreMode::add
               : reduce == "mul"  ? StoreMode::mul
               : reduce == "amax" ? StoreMode::amax
               : reduce == "amin" ? StoreMode::amin
                                  : StoreMode::assign;
  check(store.mode != StoreMode::assign || reduce == "none", "scatter with reduce {}", reduce);
  store.buffer = updatable(node, x);
  Group& group = new_group("scatter");
  group.serial = !places_are_apart(store.at, nest.loops);
  nest.stores.push_back(std::move(store));
  group.nests.push_back(std::move(nest));
}

}  // namespace nacre
