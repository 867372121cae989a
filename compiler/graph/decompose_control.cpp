// Control flow, and numbers that data give. The bodies of PyTorch's higher-order operators become subgraphs of tensors;
// scan, map and associative_scan are loops that count. Where a body draws random numbers, their state is one more operand, and in
// a loop one more carried value: each round has its own.
#include <algorithm>

#include "compiler/graph/decompose_loops.h"
#include "compiler/graph/decompose_random.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Tensor truth(Call& c, std::string_view name) {
  if (Operand o = c.operand(name); o.tensor()) return reshape(to_bool(*o.tensor()), {});
  return c.full({}, c.number(name), NACRE_bool_);
}

bool draws(const Graph& body, size_t operands) { return body.inputs.size() > operands; }

// Makes the state of random numbers input `at` of a subgraph that has `operands` others, whether it draws some or not, and the
// next state output `at`, if `gives`.
void place_state(Graph& body, size_t operands, size_t at, bool gives) {
  if (!draws(body, operands)) {
    Builder builder(body);
    RandomSource source(true);
    source.state(builder);
    source.finish(builder);
  }
  const auto i = static_cast<std::ptrdiff_t>(at);
  std::rotate(body.inputs.begin() + i, body.inputs.end() - 1, body.inputs.end());
  if (gives)
    std::rotate(body.outputs.begin() + i, body.outputs.end() - 1, body.outputs.end());
  else
    body.outputs.pop_back();
}

Results cond(Call& c) {
  Builder& b = c.builder();
  Tensor predicate = truth(c, "predicate");
  std::vector<Tensor> operands = c.operands("operands");
  std::string yes = c.subgraph("true_graph"), no = c.subgraph("false_graph");
  Graph& graph = b.graph();
  Graph &yes_graph = graph.subgraphs.at(yes), &no_graph = graph.subgraphs.at(no);
  if (const size_t given = operands.size(); draws(yes_graph, given) || draws(no_graph, given)) {
    for (Graph* branch : {&yes_graph, &no_graph}) place_state(*branch, given, given, false);
    operands.push_back(Draws(c).state());
  }
  std::vector<ValueId> results = b.cond(predicate.id(), ids(operands), yes, no);
  // A size that differs between the branches is a symbol that each of them gives its value.
  auto shape_in = [&](const std::string& sub, size_t i) {
    const Graph& body = graph.subgraphs.at(sub);
    return body[std::get<ValueRef>(body.outputs[i].value).id].shape;
  };
  for (size_t i = 0; i < results.size() && i < c.outputs(); i++) {
    if (!c.is_given(i) || c.is_number(i)) continue;
    Shape shape = c.output_shape(i);
    for (size_t d = 0; d < shape.size(); d++) {
      if (c.is_bound(shape[d])) continue;
      if (shape[d].op() != ExprOp::symbol)
        c.unsupported("a size of " + shape[d].str() + ", which neither branch has");
      graph[results[i]].shape[d] = shape[d];
      Expr a = shape_in(yes, i)[d], other = shape_in(no, i)[d];
      if (c.is_bound(a) && c.is_bound(other)) c.bound_by(shape[d], max(a, other));
    }
  }
  return tensors(b, results);
}

Results while_loop(Call& c) {
  Builder& b = c.builder();
  std::vector<Tensor> carried = c.operands("carried_inputs"), operands = c.operands("additional_inputs");
  // The condition and the body draw from one state, but other numbers.
  constexpr int64_t kStreamsOfCondition = int64_t{1} << 32;
  std::string go_on = c.subgraph("cond_graph", {}, kStreamsOfCondition), body = c.subgraph("body_graph");
  const size_t n = carried.size(), given = n + operands.size();
  Graph &condition = b.graph().subgraphs.at(go_on), &rounds = b.graph().subgraphs.at(body);
  if (draws(condition, given) || draws(rounds, given)) {
    place_state(condition, given, n, false);
    place_state(rounds, given, n, true);
    carried.push_back(Draws(c).state());
  }
  std::vector<ValueId> results = b.while_loop(ids(carried), ids(operands), go_on, body);
  results.resize(n);
  return tensors(b, results);
}

// Carried values, rows of xs, and operands: the arguments of the body in this order.
std::vector<Tensor> loop_over_rows(Call& c, std::string_view body_name, std::vector<Tensor> carried,
                                   const std::vector<Tensor>& xs, const std::vector<Tensor>& operands,
                                   const Expr& first_row, const Expr& length) {
  Builder& b = c.builder();
  Expr step = counter(c, length);
  std::vector<Tensor> others = xs;
  others.insert(others.end(), operands.begin(), operands.end());
  const size_t n = carried.size(), given = n + others.size();
  std::string body = c.subgraph(body_name, {n, xs.size(), step + first_row, xs.at(0).size(0)});
  const bool random = draws(b.graph().subgraphs.at(body), given);
  if (random) {
    place_state(b.graph().subgraphs.at(body), given, n, true);
    carried.push_back(Draws(c).state());
  }
  std::vector<ValueId> results = b.for_loop(ids(carried), ids(others), body, step, length);
  if (random) results.erase(results.begin() + static_cast<std::ptrdiff_t>(n));
  return tensors(b, results);
}

Results scan(Call& c) {
  std::vector<Tensor> xs = c.operands("xs");
  if (xs.empty()) c.unsupported("a scan over nothing");
  return loop_over_rows(c, "combine_graph", c.operands("init"), xs, c.operands("additional_inputs"), 0, xs[0].size(0));
}

Results map(Call& c) {
  std::vector<Tensor> xs = c.operands("xs");
  if (xs.empty()) c.unsupported("a map over nothing");
  return loop_over_rows(c, "body_graph", {}, xs, c.operands("pos_args"), 0, xs[0].size(0));
}

// One after the other: the first row, then what the body makes of the last result and the next row.
Results associative_scan(Call& c) {
  std::vector<Tensor> xs = c.operands("xs");
  if (xs.empty()) c.unsupported("a scan over nothing");
  Expr n = xs[0].size(0);
  if (n.is(0)) return xs;
  std::vector<Tensor> first, rows;
  for (const Tensor& x : xs) first.push_back(select(x, 0, 0));
  Expr length = simplify(n - 1, c.facts());
  // The body gives the next values; they are rows as well.
  Builder& b = c.builder();
  Expr step = counter(c, length);
  std::vector<Tensor> others = xs, operands = c.operands("additional_inputs");
  others.insert(others.end(), operands.begin(), operands.end());
  std::string body = c.subgraph("combine_graph", {xs.size(), xs.size(), step + 1, n});
  Graph& graph = b.graph().subgraphs.at(body);
  const size_t count = xs.size(), given = count + others.size();
  if (draws(graph, given)) {
    place_state(graph, given, count, true);
    first.push_back(Draws(c).state());
  }
  const std::vector<GraphOutput> results(graph.outputs.begin(), graph.outputs.begin() + static_cast<std::ptrdiff_t>(count));
  graph.outputs.insert(graph.outputs.end(), results.begin(), results.end());
  std::vector<Tensor> made = tensors(b, b.for_loop(ids(first), ids(others), body, step, length));
  for (size_t i = 0; i < count; i++)
    rows.push_back(concat({slice(xs[i], 0, 0, 1), made.at(first.size() + i)}, 0));
  return rows;
}

Results item(Call& c) {
  Tensor x = reshape(c.self(), {});
  if (c.outputs() && c.is_given(0)) {
    if (is_floating(c.output_dtype())) return cast(x, NACRE_f64);
    if (c.output_dtype() == NACRE_bool_) return to_bool(x);
  }
  return cast(x, NACRE_i64);
}

constexpr Decomposition kTable[] = {
    {"higher_order.cond", cond},
    {"higher_order.while_loop", while_loop},
    {"higher_order.scan", scan},
    {"higher_order.map_impl", map},
    {"higher_order.associative_scan", associative_scan},
    {"item.default", item},
    {"_local_scalar_dense.default", item},
};

}  // namespace

Decompositions control_decompositions() { return kTable; }

}  // namespace nacre
