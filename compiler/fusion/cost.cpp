#include "compiler/fusion/cost.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/graph/ops.h"
#include "compiler/loops/address.h"

namespace nacre {

double typical_size(const Expr& e, const Facts& symbols) {
  return static_cast<double>(std::max<int64_t>(1, typical(e, symbols)));
}

double typical_points(const std::vector<LoopVar>& loops, const Facts& symbols) {
  double n = 1;
  for (const LoopVar& loop : loops) n *= typical_size(loop.extent, symbols);
  return n;
}

double operation_cost(const Scalar& s) {
  switch (s.op) {
    case ScalarOp::pointwise:
      return find_primitive(s.prim)->cost;
    case ScalarOp::cast:
    case ScalarOp::check_index:
      return 1;
    default:
      return 0;
  }
}

double code_cost(const std::vector<Scalar>& code) {
  double cost = 0;
  for (const Scalar& s : code) cost += operation_cost(s);
  return cost;
}

double elements_loaded(const LoopProgram& program, const Nest& nest, double points) {
  double n = 0;
  for (const Scalar& s : nest.code) {
    if (s.op != ScalarOp::load) continue;
    double size = 1;
    for (const Expr& e : program[s.buffer].shape) size *= typical_size(e, program.symbols);
    n += std::min(1.0, size / std::max(1.0, points));
  }
  return n;
}

bool pays_to_recompute(double reads, double cost, double loaded) {
  if (reads <= 1.05) return true;
  const double moved_if_stored = loaded + 1 + reads, moved_if_not = loaded * reads;
  return kMove * (moved_if_stored - moved_if_not) >= cost * (reads - 1);
}

std::vector<int> contiguous_dims(const FusionState& state) {
  const LoopProgram& program = state.program;
  std::vector<int> dims;
  std::vector<bool> decided(program.buffers.size(), false);
  for (const Buffer& b : program.buffers) dims.push_back(static_cast<int>(b.shape.size()) - 1);
  const auto dim_of = [](const std::vector<Expr>& at, const std::string& name) {
    for (size_t d = 0; d < at.size(); ++d)
      if (at[d] == Expr::symbol(name)) return static_cast<int>(d);
    return -1;
  };
  const auto decide = [&](BufferId b, int dim) {
    if (dim < 0 || program[b].kind != BufferKind::temporary || decided[static_cast<size_t>(b)]) return false;
    dims[static_cast<size_t>(b)] = dim;
    decided[static_cast<size_t>(b)] = true;
    return true;
  };
  for (int g = 0; g < state.count(); ++g) {
    if (!state.alive(g) || !state[g].contraction) continue;
    const Contraction& c = *state[g].contraction;
    if (c.kind != ContractionKind::conv && c.kind != ContractionKind::conv_transpose) continue;
    decide(c.operands[0].buffer, dim_of(c.operands[0].at, c.operand_loops[0][1].name));
    for (const Store& s : state[g].nests[0].stores) decide(s.buffer, dim_of(s.at, c.loops[1].name));
  }
  // A nest that moves along one buffer's channels moves along those of the others.
  for (bool again = true; again;) {
    again = false;
    for (int g = 0; g < state.count(); ++g) {
      if (!state.alive(g)) continue;
      for (const Nest& n : state[g].nests) {
        std::string channel;
        const auto look = [&](BufferId b, const std::vector<Expr>& at) {
          if (decided[static_cast<size_t>(b)] && channel.empty() && !at.empty()) {
            const Expr& e = at[static_cast<size_t>(dims[static_cast<size_t>(b)])];
            if (e.op() == ExprOp::symbol) channel = e.name();
          }
        };
        for (const Scalar& s : n.code)
          if (s.op == ScalarOp::load) look(s.buffer, s.at);
        for (const Store& s : n.stores) look(s.buffer, s.at);
        if (channel.empty()) continue;
        for (const Scalar& s : n.code)
          if (s.op == ScalarOp::load) again |= decide(s.buffer, dim_of(s.at, channel));
        for (const Store& s : n.stores) again |= decide(s.buffer, dim_of(s.at, channel));
      }
    }
  }
  return dims;
}

bool pays_to_share_outer(double iterations, double elements) {
  // Fewer iterations than this leave threads without work; small kernels run on one anyway.
  return iterations >= 4 || iterations * elements <= 65536;
}

}  // namespace nacre
