#include "compiler/layout/recurrent.h"

#include <algorithm>

namespace nacre {

// The products of the inputs with their weights do not wait for each other: one matrix product for all time steps, with the
// biases. What remains for the recurrent tile is h times w_hh, step by step; its operand 0 becomes the projected input.
std::vector<Group> project_inputs(LoopProgram& program, Contraction& c) {
  std::vector<Group> before;
  const bool lstm = c.kind == ContractionKind::lstm;
  const size_t w_ih = lstm ? 3 : 2, b_ih = w_ih + 2, b_hh = w_ih + 3;
  const std::vector<LoopVar>& x = c.operand_loops[0];  // t, b, i
  const std::vector<LoopVar>& w = c.operand_loops[w_ih];
  const LoopVar time{"t", x[0].extent}, batch{"b", x[1].extent}, gate{"g", w[0].extent}, in{"k", x[2].extent};
  const auto at = [](const Operand& operand, const std::vector<LoopVar>& from, const std::vector<LoopVar>& to) {
    std::map<std::string, Expr> map;
    for (size_t i = 0; i < from.size(); ++i) map[from[i].name] = Expr::symbol(to[i].name);
    Operand result = operand;
    for (Expr& e : result.at) e = e.substitute(map);
    return result;
  };
  Contraction product;
  product.kind = ContractionKind::matmul;
  product.loops = {batch, time, gate, in};
  product.reduced = 1;
  product.dtype = c.dtype;
  product.where = c.where;
  product.operands = {at(c.operands[0], x, {time, batch, in}), at(c.operands[w_ih], w, {gate, in})};

  Buffer projected;
  projected.name = program[c.operands[0].buffer].name + ".projected";
  projected.dtype = c.dtype;
  projected.shape = {time.extent, batch.extent, gate.extent};
  program.buffers.push_back(projected);
  const BufferId id = static_cast<BufferId>(program.buffers.size()) - 1;
  Nest epilogue;
  epilogue.loops = {batch, time, gate};
  Scalar sum;
  sum.op = ScalarOp::accumulator;
  sum.dtype = c.dtype;
  sum.where = c.where;
  epilogue.code = {sum};
  int value = 0;
  // The reset gate of a GRU scales h's part of the candidate, bias included, so that bias stays with h.
  for (size_t i : lstm ? std::vector<size_t>{b_ih, b_hh} : std::vector<size_t>{b_ih}) {
    if (i >= c.operands.size() || c.operands[i].buffer < 0) continue;
    Scalar load;
    load.op = ScalarOp::load;
    load.dtype = c.dtype;
    load.where = c.where;
    load.buffer = c.operands[i].buffer;
    load.at = at(c.operands[i], c.operand_loops[i], {gate}).at;
    epilogue.code.push_back(load);
    Scalar add;
    add.op = ScalarOp::pointwise;
    add.prim = "add";
    add.dtype = c.dtype;
    add.where = c.where;
    add.operands = {value, static_cast<int>(epilogue.code.size()) - 1};
    epilogue.code.push_back(add);
    value = static_cast<int>(epilogue.code.size()) - 1;
  }
  epilogue.stores = {{id, {Expr::symbol("t"), Expr::symbol("b"), Expr::symbol("g")}, value, StoreMode::assign}};
  Group group;
  group.name = lstm ? "lstm_inputs" : "gru_inputs";
  group.nests = {epilogue};
  group.contraction = product;
  before.push_back(group);

  c.operands[0] = {id, {Expr::symbol("t"), Expr::symbol("b"), Expr::symbol("g")}};
  c.operand_loops[0] = {time, batch, gate};
  c.operands[w_ih].buffer = -1;
  if (lstm && b_hh < c.operands.size()) c.operands[b_hh].buffer = -1;
  if (b_ih < c.operands.size()) c.operands[b_ih].buffer = -1;
  return before;
}

}  // namespace nacre
