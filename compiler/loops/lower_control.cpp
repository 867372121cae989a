// Lowering of control flow: groups of the subgraphs between groups that say when they run.
//
//   %y: f32[4] = prim.cond(%p, operands=[%x], true_graph=@a, false_graph=@b)
// becomes
//   if %p[]
//     ... groups of @a, a copy of what it gives to %y
//   else
//     ... groups of @b, a copy of what it gives to %y
//   end
//
// A loop keeps each carried value in one buffer: copied there before the loop, replaced at the end of the body.
#include <algorithm>
#include <limits>

#include "compiler/graph/ops.h"
#include "compiler/loops/lowering.h"
#include "compiler/support/error.h"

namespace nacre {

void Lowering::control(ControlKind kind, const Provenance& where, BufferId buffer, const std::string& symbol) {
  static constexpr const char* kNames[] = {"if", "else", "loop", "while", "end", "bind", "check"};
  Control c;
  c.kind = kind;
  c.buffer = buffer;
  c.symbol = symbol;
  c.where = where;
  new_group(kNames[static_cast<size_t>(kind)]).control = std::move(c);
}

void Lowering::store_number(BufferId buffer, const Expr& value, const Provenance& where) {
  Scalar s;
  s.op = ScalarOp::index;
  s.dtype = program_[buffer].dtype;
  s.expr = value;
  s.where = where;
  copy(filled(std::move(s), {}, program_[buffer].dtype), buffer, "number", where);
}

BufferId Lowering::number_buffer(const std::string& name, const Expr& value, nacre_dtype dtype, const Provenance& where) {
  const BufferId b = new_buffer(name, BufferKind::temporary, dtype, {});
  store_number(b, value, where);
  return b;
}

void Lowering::bind(const std::string& symbol, const Expr& value, const Provenance& where) {
  control(ControlKind::bind, where, number_buffer(symbol + "_value", value, NACRE_i64, where), symbol);
  made_.bound.insert(symbol);
}

bool Lowering::lower_control(const Node& node, const NodeArgs& args) {
  if (primitive_class(node.op) != PrimClass::control) return false;
  if (node.op == "prim.cond") {
    lower_cond(node, args);
  } else if (node.op == "prim.while_loop") {
    lower_while(node, args);
  } else if (node.op == "prim.for_loop") {
    lower_for(node, args);
  } else if (node.op == "prim.item") {
    const std::string& symbol = graph_[node.outputs[0]].expr.name();
    control(ControlKind::bind, node.where, materialised(args.value("x")).buffer, symbol);
    made_.bound.insert(symbol);
  } else {
    control(ControlKind::check, node.where);
    program_.groups.back().control->condition = args.expr("condition");
    program_.groups.back().control->message = args.text("message", "assertion failed");
  }
  return true;
}

std::vector<View> Lowering::lower_subgraph(std::string_view argument, const Node& node, const std::vector<View>& inputs, size_t own) {
  const Graph& graph = graph_.subgraphs.at(std::get<SubgraphRef>(*node.find(argument)).name);
  // What the subgraph found out about symbols.
  for (const auto& [name, facts] : graph.symbols) {
    SymbolFacts& known = program_.symbols.emplace(name, facts).first->second;
    if (!known.below) known.below = facts.below;
  }
  Lowering inner(graph, made_);
  inner.analyse();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto value = static_cast<size_t>(graph.inputs[i].value);
    inner.views_[value] = inputs[i];
    // What others read, too, or again the next time, has no last read here.
    if (i >= own) inner.last_read_[value] = std::numeric_limits<int>::max();
  }
  inner.lower_nodes();
  std::vector<View> results;
  for (const GraphOutput& output : graph.outputs) {
    const ValueId v = std::get<ValueRef>(output.value).id;
    results.push_back(inner.view(v));
    results.back().shape = graph[v].shape;
  }
  return results;
}

void Lowering::lower_cond(const Node& node, const NodeArgs& args) {
  const BufferId predicate = materialised(args.value("predicate")).buffer;
  std::vector<View> operands;
  for (ValueId v : args.values("operands")) operands.push_back(view(v));
  std::vector<BufferId> results;
  for (ValueId v : node.outputs) results.push_back(v == kNoValue ? -1 : result_buffer(v));
  // Sizes that differ between the branches get their values there, before anything of this size is stored.
  std::set<std::string> unbound;
  for (BufferId b : results)
    if (b >= 0)
      for (const Expr& e : program_[b].shape)
        for (const std::string& s : e.symbols())
          if (!made_.bound.contains(s)) unbound.insert(s);
  const auto branch = [&](std::string_view argument) {
    std::vector<View> given = lower_subgraph(argument, node, operands, 0);
    std::set<std::string> missing = unbound;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] < 0) continue;
      const std::vector<Expr> shape = program_[results[i]].shape;
      for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d].op() == ExprOp::symbol && missing.erase(shape[d].name())) bind(shape[d].name(), given[i].shape[d], node.where);
    }
    check(missing.empty(), "{}: no branch tells the size {}", node.op, missing.empty() ? "" : *missing.begin());
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i] >= 0) copy(given[i], results[i], "copy", node.where);
  };
  control(ControlKind::if_, node.where, predicate);
  branch("true_graph");
  control(ControlKind::else_, node.where);
  branch("false_graph");
  control(ControlKind::end, node.where);
}

std::vector<BufferId> Lowering::carried_buffers(const Node& node, const NodeArgs& args) {
  std::vector<BufferId> result;
  const std::vector<ValueId> carried = args.values("carried");
  for (size_t i = 0; i < carried.size(); ++i) {
    const Value& v = graph_[carried[i]];
    const std::string name = node.outputs[i] == kNoValue ? v.name : graph_[node.outputs[i]].name;
    const BufferId b = new_buffer(name, BufferKind::temporary, v.dtype, v.shape);
    copy(view(carried[i]), b, "copy", node.where);
    result.push_back(b);
    if (node.outputs[i] != kNoValue) views_[static_cast<size_t>(node.outputs[i])] = whole(program_, b);
  }
  return result;
}

// The end of a body: carried values are replaced. A next value that shows a carried buffer, other than the whole of its own,
// is copied before any of them changes.
void Lowering::carry_on(const std::vector<BufferId>& carried, std::vector<View> next, const Node& node) {
  const auto stays = [&](size_t i) { return next[i].buffer == carried[i] && is_whole(program_, next[i]); };
  for (size_t i = 0; i < carried.size(); ++i)
    if (!stays(i) && std::find(carried.begin(), carried.end(), next[i].buffer) != carried.end())
      next[i] = whole(program_, materialised(next[i], program_[carried[i]].name + "_next", node.where));
  for (size_t i = 0; i < carried.size(); ++i)
    if (!stays(i)) copy(next[i], carried[i], "copy", node.where);
}

void Lowering::lower_while(const Node& node, const NodeArgs& args) {
  const std::vector<BufferId> carried = carried_buffers(node, args);
  std::vector<View> inputs;
  for (BufferId b : carried) inputs.push_back(whole(program_, b));
  for (ValueId v : args.values("operands")) inputs.push_back(view(v));
  control(ControlKind::loop, node.where);
  View more = lower_subgraph("cond_graph", node, inputs, 0)[0];
  if (!is_whole(program_, more)) more = whole(program_, materialised(more, "more", node.where));
  control(ControlKind::while_, node.where, more.buffer);
  carry_on(carried, lower_subgraph("body_graph", node, inputs, carried.size()), node);
  control(ControlKind::end, node.where);
}

void Lowering::lower_for(const Node& node, const NodeArgs& args) {
  const std::vector<BufferId> carried = carried_buffers(node, args);
  std::vector<View> inputs;
  for (BufferId b : carried) inputs.push_back(whole(program_, b));
  for (ValueId v : args.values("operands")) inputs.push_back(view(v));
  std::vector<BufferId> rows;
  for (size_t i = carried.size(); i < node.outputs.size(); ++i)
    rows.push_back(node.outputs[i] == kNoValue ? -1 : result_buffer(node.outputs[i]));
  const Expr index = args.expr("index"), length = args.expr("length");

  const BufferId count = number_buffer(index.name() + "_value", 0, NACRE_i64, node.where);
  const BufferId more = new_buffer(index.name() + "_more", BufferKind::temporary, NACRE_bool_, {});
  control(ControlKind::loop, node.where);
  {
    Nest nest;
    CodeBuilder code(nest.code);
    const int least = code.pointwise("lt", {code.load(count, NACRE_i64, {}), code.index(length, NACRE_i64)}, node.where);
    store_all(nest, more, {}, least);
    new_group("more").nests.push_back(std::move(nest));
  }
  control(ControlKind::while_, node.where, more);
  control(ControlKind::bind, node.where, count, index.name());
  made_.bound.insert(index.name());
  std::vector<View> next = lower_subgraph("body_graph", node, inputs, carried.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    // The row is one more dim in front, of one element.
    const View& row = next[carried.size() + i];
    std::vector<Expr> shape = row.shape, at;
    shape.insert(shape.begin(), Expr(1));
    for (size_t d = 1; d < shape.size(); ++d) at.push_back(dim_symbol(d));
    copy(reindexed(row, shape, at, symbols()), rows[i], "row", node.where, 0, index);
  }
  next.resize(carried.size());
  carry_on(carried, std::move(next), node);
  store_number(count, index + 1, node.where);
  control(ControlKind::end, node.where);
}

}  // namespace nacre
