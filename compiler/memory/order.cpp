#include "compiler/memory/order.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/memory/lifetimes.h"

namespace nacre {

namespace {

// Beginnings that are followed.
size_t width_for(size_t groups) { return groups <= 64 ? 512 : 16; }

struct Beginning {
  std::vector<bool> done;
  std::vector<int> order;
  int64_t live = 0, peak = 0;
};

class Search {
 public:
  explicit Search(const LoopProgram& program) : program_(program), size_(program.buffers.size(), 0), users_(program.buffers.size()) {
    const int count = static_cast<int>(program.groups.size());
    before_.resize(static_cast<size_t>(count));
    uses_.resize(static_cast<size_t>(count));
    for (const Lifetime& life : lifetimes(program))
      size_[static_cast<size_t>(life.buffer)] = std::max<int64_t>(typical(life.size_bytes, program.symbols), 0);
    std::map<BufferId, std::set<int>> readers, writers;
    for (int g = 0; g < count; ++g) {
      const Group& group = program.groups[static_cast<size_t>(g)];
      for_each_buffer(group, [&](BufferId b) {
        if (program[b].kind == BufferKind::temporary) uses_[static_cast<size_t>(g)].insert(b);
      });
      for (BufferId b : uses_[static_cast<size_t>(g)]) users_[static_cast<size_t>(b)].insert(g);
      const std::set<BufferId> reads = buffers_read(group), writes = buffers_written(group);
      std::set<int>& waits_for = before_[static_cast<size_t>(g)];
      for (BufferId b : reads) waits_for.insert(writers[b].begin(), writers[b].end());
      for (BufferId b : writes) {
        waits_for.insert(writers[b].begin(), writers[b].end());
        waits_for.insert(readers[b].begin(), readers[b].end());
      }
      for (BufferId b : reads) readers[b].insert(g);
      for (BufferId b : writes) writers[b].insert(g);
    }
    for (const LoopProgram::Mutation& m : program.input_mutations)
      if (m.from >= 0) users_[static_cast<size_t>(m.from)].insert(count);  // lives to the end
  }

  std::vector<int> best() const {
    const size_t count = program_.groups.size();
    std::vector<Beginning> list{{std::vector<bool>(count), {}, 0, 0}};
    for (size_t step = 0; step < count; ++step) {
      std::map<std::vector<bool>, Beginning> next;  // of those that did the same, one
      for (const Beginning& b : list)
        for (int g = 0; g < static_cast<int>(count); ++g) {
          if (!ready(b, g)) continue;
          Beginning longer = with(b, g);
          auto [known, added] = next.try_emplace(longer.done, longer);
          if (!added && longer.peak < known->second.peak) known->second = std::move(longer);
        }
      list.clear();
      for (auto& [done, b] : next) list.push_back(std::move(b));
      std::stable_sort(list.begin(), list.end(), [](const Beginning& a, const Beginning& b) {
        return a.peak != b.peak ? a.peak < b.peak : a.live != b.live ? a.live < b.live : a.order < b.order;
      });
      if (list.size() > width_for(count)) list.resize(width_for(count));
    }
    return list[0].order;
  }

 private:
  bool ready(const Beginning& b, int g) const {
    const std::set<int>& waits_for = before_[static_cast<size_t>(g)];
    return !b.done[static_cast<size_t>(g)] && std::all_of(waits_for.begin(), waits_for.end(), [&](int w) { return b.done[static_cast<size_t>(w)]; });
  }

  Beginning with(const Beginning& b, int g) const {
    Beginning result = b;
    result.done[static_cast<size_t>(g)] = true;
    result.order.push_back(g);
    const auto is_done = [&](const std::vector<bool>& done, int user) { return user < static_cast<int>(done.size()) && done[static_cast<size_t>(user)]; };
    for (BufferId buffer : uses_[static_cast<size_t>(g)]) {
      const std::set<int>& users = users_[static_cast<size_t>(buffer)];
      if (std::none_of(users.begin(), users.end(), [&](int u) { return is_done(b.done, u); })) result.live += size_[static_cast<size_t>(buffer)];
    }
    result.peak = std::max(result.peak, result.live);
    for (BufferId buffer : uses_[static_cast<size_t>(g)]) {
      const std::set<int>& users = users_[static_cast<size_t>(buffer)];
      if (std::all_of(users.begin(), users.end(), [&](int u) { return is_done(result.done, u); })) result.live -= size_[static_cast<size_t>(buffer)];
    }
    return result;
  }

  const LoopProgram& program_;
  std::vector<int64_t> size_;
  std::vector<std::set<int>> users_;       // of each buffer: groups
  std::vector<std::set<BufferId>> uses_;   // of each group: temporaries
  std::vector<std::set<int>> before_;      // of each group: groups that must come before it
};

}  // namespace

LoopProgram order_for_memory(LoopProgram program) {
  if (std::any_of(program.groups.begin(), program.groups.end(), [](const Group& g) { return g.control.has_value(); })) return program;
  const std::vector<int> order = Search(program).best();
  LoopProgram result = program;
  for (size_t i = 0; i < order.size(); ++i) result.groups[i] = program.groups[static_cast<size_t>(order[i])];
  if (peak_of(lifetimes(result), result.symbols).bytes < peak_of(lifetimes(program), program.symbols).bytes) return result;
  return program;
}

}  // namespace nacre
