#include "compiler/memory/lifetimes.h"

#include <algorithm>
#include <map>

#include "compiler/loops/address.h"
#include "compiler/loops/regions.h"

namespace nacre {

namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

void for_each_buffer(const Group& group, const std::function<void(BufferId)>& visit) {
  const auto touch = [&](BufferId id) {
    if (id >= 0) visit(id);
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

std::vector<Lifetime> lifetimes(const LoopProgram& program) {
  std::vector<Lifetime> result;
  const std::set<std::string> bound = bound_symbols(program);
  std::vector<int> position(program.buffers.size(), -1);
  for (size_t g = 0; g < program.groups.size(); ++g)
    for_each_buffer(program.groups[g], [&](BufferId id) {
      if (program[id].kind != BufferKind::temporary) return;
      int& at = position[static_cast<size_t>(id)];
      if (at < 0) {
        at = static_cast<int>(result.size());
        const Expr bytes = ceildiv(capacity_bytes(program[id], bound, program.symbols), kAlignment) * kAlignment;
        result.push_back({id, static_cast<int>(g), static_cast<int>(g), simplify(bytes, program.symbols)});
      }
      result[static_cast<size_t>(at)].last = static_cast<int>(g);
    });
  // What a loop shares with what is outside of it must last as long as the loop. Inner loops come after the outer ones.
  const Regions regions = regions_of(program);
  for (size_t r = regions.list.size(); r-- > 1;) {
    const Region& loop = regions.list[r];
    if (!loop.repeats) continue;
    for (Lifetime& life : result) {
      if (life.last < loop.first || life.first > loop.last || (life.first > loop.first && life.last < loop.last)) continue;
      life.first = std::min(life.first, loop.first);
      life.last = std::max(life.last, loop.last);
    }
  }
  for (const LoopProgram::Mutation& m : program.input_mutations) {
    const int at = m.from >= 0 ? position[static_cast<size_t>(m.from)] : -1;
    if (at >= 0) result[static_cast<size_t>(at)].last = static_cast<int>(program.groups.size());
  }
  return result;
}

Peak peak_of(const std::vector<Lifetime>& lives, const Facts& symbols) {
  std::vector<int64_t> bytes;
  for (const Lifetime& life : lives) bytes.push_back(std::max<int64_t>(typical(life.size_bytes, symbols), 0));
  return peak_of_sizes(lives, bytes);
}

Peak peak_of_sizes(const std::vector<Lifetime>& lives, const std::vector<int64_t>& bytes) {
  std::map<int, int64_t> change;  // when what lives grows or shrinks
  for (size_t i = 0; i < lives.size(); ++i) {
    change[lives[i].first] += bytes[i];
    change[lives[i].last + 1] -= bytes[i];
  }
  Peak peak;
  int64_t live = 0;
  for (const auto& [group, by] : change) {
    live += by;
    if (live > peak.bytes) peak = {live, group};
  }
  return peak;
}

}  // namespace nacre
