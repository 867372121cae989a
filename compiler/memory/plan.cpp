#include "compiler/memory/plan.h"

#include <algorithm>
#include <numeric>

#include "compiler/loops/address.h"
#include "compiler/loops/regions.h"

namespace nacre {

namespace {

constexpr int64_t kAlignment = 64;

// Every temporary with the groups between which it lives.
std::vector<Placement> lifetimes(const LoopProgram& program) {
  std::vector<Placement> result;
  const std::set<std::string> bound = bound_symbols(program);
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
        p.size_bytes = simplify(ceildiv(capacity_bytes(program[id], bound, program.symbols), kAlignment) * kAlignment, program.symbols);
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
    if (group.control) touch(group.control->buffer);
    if (group.rows) {
      for (BufferId id : group.rows->inputs) touch(id);
      for (BufferId id : group.rows->outputs) touch(id);
    }
  }
  // What a loop shares with what is outside of it must last as long as the loop. Inner loops come after the outer ones.
  const Regions regions = regions_of(program);
  for (size_t r = regions.list.size(); r-- > 1;) {
    const Region& loop = regions.list[r];
    if (!loop.repeats) continue;
    for (Placement& p : result) {
      if (p.last < loop.first || p.first > loop.last || (p.first > loop.first && p.last < loop.last)) continue;
      p.first = std::min(p.first, loop.first);
      p.last = std::max(p.last, loop.last);
    }
  }
  for (const LoopProgram::Mutation& m : program.input_mutations) {
    const int at = m.from >= 0 ? position[static_cast<size_t>(m.from)] : -1;
    if (at >= 0) result[static_cast<size_t>(at)].last = static_cast<int>(program.groups.size());
  }
  return result;
}

bool overlap(const Placement& a, const Placement& b) { return a.first <= b.last && b.first <= a.last; }

// Offsets for given sizes: each buffer takes the lowest place that is free during its life. Large ones first: they are the
// hardest to place.
std::vector<int64_t> place(const std::vector<Placement>& all, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<int64_t> offsets(all.size(), 0);
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    for (size_t n : placed) {
      if (!overlap(all[n], all[i])) continue;
      if (offsets[i] + sizes[i] <= offsets[n]) break;
      offsets[i] = std::max(offsets[i], offsets[n] + sizes[n]);
    }
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }), i);
  }
  return offsets;
}

// In the order of the offsets, each with those below it. One that lies below another of them need not be named.
void order_by_offset(std::vector<Placement>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Placement& a, const Placement& b) { return a.offset < b.offset; });
  std::vector<std::vector<bool>> under(all.size(), std::vector<bool>(all.size()));  // of each, all that surely end below it
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t n = i; n-- > 0;) {
      if (!overlap(all[n], all[i]) || under[i][n]) continue;
      all[i].below.push_back(n);
      for (size_t k = 0; k < n; ++k)
        if (under[n][k]) under[i][k] = true;
      under[i][n] = true;
    }
    all[i].offset = 0;
  }
}

}  // namespace

MemoryPlan plan_memory(const LoopProgram& program) {
  MemoryPlan plan;
  plan.placements = lifetimes(program);
  std::vector<int64_t> sizes;
  for (const Placement& p : plan.placements) {
    plan.constant = plan.constant && p.size_bytes.constant();
    sizes.push_back(std::max<int64_t>(typical(p.size_bytes, program.symbols), 0));
  }
  const std::vector<int64_t> offsets = place(plan.placements, sizes);
  for (size_t i = 0; i < offsets.size(); ++i) {
    plan.placements[i].offset = offsets[i];
    plan.size_bytes = std::max(plan.size_bytes, offsets[i] + sizes[i]);
  }
  if (!plan.constant) order_by_offset(plan.placements);
  return plan;
}

}  // namespace nacre
