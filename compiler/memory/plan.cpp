#include "compiler/memory/plan.h"

#include <algorithm>

#include "compiler/loops/address.h"


namespace nacre {

namespace {

constexpr int64_t kAlignment = 64;

// Every temporary with the groups between which it lives.
std::vector<Placement> lifetimes(const LoopProgram& program) {
  std::vector<Placement> result;
  std::vector<int> position(program.buffers.size(), -1);
  for (size_t g = 0; g < program.groups.size(); ++g) {
    const Group& group = program.groups[g];
    auto touch = [&](BufferId id) {
      if (id < 0 || program[id].kind != BufferKind::temporary) return;
      int& at = position[static_cast<size_t>(id)];
      if (at < 0) {
        at = static_cast<int>(result.size());
        Placement p;
        p.buffer = id;
        p.first = static_cast<int>(g);
        const Expr bytes = elements_of(program[id]) * static_cast<int64_t>(nacre_dtype_size_bytes(program[id].dtype));
        p.size_bytes = simplify(ceildiv(bytes, kAlignment) * kAlignment, program.symbols);
        result.push_back(p);
      }
      result[static_cast<size_t>(at)].last = static_cast<int>(g);
    };
    for (const Nest& nest : group.nests) {
      for (const Scalar& s : nest.code)
        if (s.op == ScalarOp::load) touch(s.buffer);
      for (const Store& s : nest.stores) touch(s.buffer);
    }
    if (group.contraction) {
      for (const Operand& o : group.contraction->operands) touch(o.buffer);
      for (BufferId id : group.contraction->results) touch(id);
    }
    if (group.sort) {
      touch(group.sort->input);
      touch(group.sort->values);
      touch(group.sort->indices);
    }
  }
  for (const LoopProgram::Mutation& m : program.input_mutations) {
    const int at = m.from >= 0 ? position[static_cast<size_t>(m.from)] : -1;
    if (at >= 0) result[static_cast<size_t>(at)].last = static_cast<int>(program.groups.size());
  }
  return result;
}

bool overlap(const Placement& a, const Placement& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan plan_memory(const LoopProgram& program) {
  MemoryPlan plan;
  std::vector<Placement> all = lifetimes(program);
  plan.constant = std::all_of(all.begin(), all.end(), [](const Placement& p) { return p.size_bytes.constant().has_value(); });
  // Large buffers first: they are the hardest to place.
  std::stable_sort(all.begin(), all.end(), [&](const Placement& a, const Placement& b) {
    return typical(a.size_bytes, program.symbols) > typical(b.size_bytes, program.symbols);
  });
  for (Placement& p : all) {
    std::vector<size_t> neighbours;
    for (size_t i = 0; i < plan.placements.size(); ++i)
      if (overlap(plan.placements[i], p)) neighbours.push_back(i);
    if (plan.constant) {
      std::sort(neighbours.begin(), neighbours.end(), [&](size_t a, size_t b) { return plan.placements[a].offset < plan.placements[b].offset; });
      const int64_t size = *p.size_bytes.constant();
      for (size_t i : neighbours) {
        const Placement& n = plan.placements[i];
        if (p.offset + size <= n.offset) break;
        p.offset = std::max(p.offset, n.offset + *n.size_bytes.constant());
      }
      plan.size_bytes = std::max(plan.size_bytes, p.offset + size);
    } else {
      p.below = neighbours;
    }
    plan.placements.push_back(p);
  }
  return plan;
}

}  // namespace nacre
