#include "compiler/graph/decompose_loops.h"

#include "compiler/support/error.h"

namespace nacre {

std::vector<ValueId> ids(const Tensors& tensors) {
  std::vector<ValueId> result;
  for (const Tensor& t : tensors) result.push_back(t.id());
  return result;
}

Tensors tensors(Builder& b, const std::vector<ValueId>& values) {
  Tensors result;
  for (ValueId v : values) result.emplace_back(b, v);
  return result;
}

namespace {

// A subgraph that takes values like `carried` and `operands`.
std::string subgraph(Builder& b, const std::string& name, const Tensors& carried, const Tensors& operands,
                     const std::function<Tensors(const Tensors& carried, const Tensors& operands)>& write) {
  Graph& graph = b.graph();
  Graph body;
  body.level = Level::primitive;
  body.name = name;
  body.symbols = graph.symbols;
  Builder inside(body);
  inside.at(b.at());
  const auto taken = [&](const Tensors& outer, const char* prefix) {
    Tensors inner;
    for (const Tensor& t : outer) {
      Value value;
      value.name = prefix + std::to_string(inner.size());
      value.dtype = t.dtype();
      value.shape = t.shape();
      const std::string input = value.name;
      const ValueId id = body.add_value(std::move(value));
      body.inputs.push_back({id, InputKind::user, input});
      inner.emplace_back(inside, id);
    }
    return inner;
  };
  const Tensors mine = taken(carried, "carried"), others = taken(operands, "operand");
  for (const Tensor& t : write(mine, others)) body.outputs.push_back({ValueRef{t.id()}, OutputKind::user, {}});
  return graph.add_subgraph(std::move(body));
}

}  // namespace

Expr counter(Call& c, const Expr& length) {
  SymbolFacts facts;
  facts.below = length;
  return c.new_symbol("step", facts);
}

Tensors for_each_step(Call& c, const Expr& length, const Tensors& carried, const Tensors& operands,
                      const std::function<Tensors(const Expr& step, const Tensors& carried, const Tensors& operands)>& body) {
  Builder& b = c.builder();
  const Expr step = counter(c, length);
  const std::string name = subgraph(b, "step", carried, operands, [&](const Tensors& mine, const Tensors& others) { return body(step, mine, others); });
  return tensors(b, b.for_loop(ids(carried), ids(operands), name, step, length));
}

Tensors while_true(Builder& b, const Tensors& carried, const Tensors& operands, const std::function<Tensor(const Tensors& carried)>& go_on,
                   const std::function<Tensors(const Tensors& carried, const Tensors& operands)>& body) {
  const std::string condition = subgraph(b, "go_on", carried, operands, [&](const Tensors& mine, const Tensors&) { return Tensors{go_on(mine)}; });
  const std::string name = subgraph(b, "round", carried, operands, body);
  return tensors(b, b.while_loop(ids(carried), ids(operands), condition, name));
}

}  // namespace nacre
