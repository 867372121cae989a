#include "compiler/memory/plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "compiler/loops/address.h"

namespace nacre {

namespace {

bool overlap(const Placement& a, const Placement& b) { return a.first <= b.last && b.first <= a.last; }

struct Places {
  std::vector<int64_t> offsets;
  int64_t size_bytes = 0;
};

// Offsets for given sizes: each buffer, in the given order, takes the lowest place that is free during its life.
Places place(const std::vector<Placement>& all, const std::vector<int64_t>& sizes, const std::vector<size_t>& order) {
  Places result{std::vector<int64_t>(all.size(), 0), 0};
  std::vector<int64_t>& offsets = result.offsets;
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    for (size_t n : placed) {
      if (!overlap(all[n], all[i])) continue;
      if (offsets[i] + sizes[i] <= offsets[n]) break;
      offsets[i] = std::max(offsets[i], offsets[n] + sizes[n]);
    }
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }), i);
    result.size_bytes = std::max(result.size_bytes, offsets[i] + sizes[i]);
  }
  return result;
}

// The best of several orders. Large ones first is best most of the time: they are the hardest to place.
Places best_places(const std::vector<Placement>& all, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t i) { return static_cast<int64_t>(all[i].last - all[i].first + 1); };
  const std::vector<std::function<int64_t(size_t)>> keys{
      [&](size_t i) { return sizes[i]; },
      [&](size_t i) { return sizes[i] * length(i); },
      [&](size_t i) { return length(i); },
      [&](size_t i) { return -int64_t{all[i].first}; },
      [&](size_t i) { return int64_t{all[i].last}; },
  };
  constexpr size_t kMostShuffled = 300;  // buffers
  constexpr int kShuffles = 200;
  const int64_t least = peak_of_sizes({all.begin(), all.end()}, sizes).bytes;
  Places best;
  std::vector<size_t> best_order;
  const auto attempt = [&](const std::vector<size_t>& by) {
    Places made = place(all, sizes, by);
    if (!best_order.empty() && made.size_bytes >= best.size_bytes) return;
    best = std::move(made);
    best_order = by;
  };
  for (const auto& key : keys) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
    attempt(order);
    if (best.size_bytes == least) return best;
  }
  if (all.size() > kMostShuffled) return best;
  std::mt19937 random(1);  // the same plan on every run
  for (int i = 0; i < kShuffles && best.size_bytes > least; ++i) {
    order = best_order;
    for (int swaps = 1 + i % 4; swaps-- > 0;) {
      const size_t from = random() % order.size(), to = random() % order.size();
      const size_t moved = order[from];
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), moved);
    }
    attempt(order);
  }
  return best;
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

// Outputs of constant size, and the group that first touches each.
std::vector<Lifetime> free_outputs(const LoopProgram& program) {
  std::vector<Lifetime> result;
  // Where groups run again and again, what comes before a store may also come after it.
  const bool straight = std::none_of(program.groups.begin(), program.groups.end(), [](const Group& g) { return g.control.has_value(); });
  if (!straight || !program.input_mutations.empty()) return result;
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& b = program.buffers[id];
    const Expr bytes = simplify(elements_of(b) * static_cast<int64_t>(nacre_dtype_size_bytes(b.dtype)), program.symbols);
    if (b.kind == BufferKind::output && bytes.constant()) result.push_back({static_cast<BufferId>(id), 0, static_cast<int>(program.groups.size()), bytes});
  }
  for (Lifetime& output : result)
    for (size_t g = program.groups.size(); g-- > 0;)
      for_each_buffer(program.groups[g], [&](BufferId id) {
        if (id == output.buffer) output.last = static_cast<int>(g) - 1;
      });
  return result;
}

// Moves what fits into outputs that are not written yet, large ones first.
void place_in_outputs(const LoopProgram& program, std::vector<Placement>& all, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  for (const Lifetime& output : free_outputs(program)) {
    std::vector<size_t> inside;
    for (size_t i : order) {
      if (all[i].inside >= 0 || all[i].last > output.last) continue;
      // A caller aligns an output for its own elements.
      if (nacre_dtype_size_bytes(program[all[i].buffer].dtype) > nacre_dtype_size_bytes(program[output.buffer].dtype)) continue;
      std::vector<Placement> tried;
      std::vector<int64_t> tried_sizes;
      inside.push_back(i);
      for (size_t n : inside) {
        tried.push_back(all[n]);
        tried_sizes.push_back(sizes[n]);
      }
      const Places places = best_places(tried, tried_sizes);
      if (places.size_bytes > *output.size_bytes.constant()) {
        inside.pop_back();
        continue;
      }
      for (size_t n = 0; n < inside.size(); ++n) {
        all[inside[n]].inside = output.buffer;
        all[inside[n]].offset = places.offsets[n];
      }
    }
  }
}

}  // namespace

MemoryPlan plan_memory(const LoopProgram& program, bool use_outputs) {
  MemoryPlan plan;
  std::vector<int64_t> sizes;
  for (const Lifetime& life : lifetimes(program)) {
    plan.placements.push_back({life, -1, 0, {}});
    plan.constant = plan.constant && life.size_bytes.constant();
    sizes.push_back(std::max<int64_t>(typical(life.size_bytes, program.symbols), 0));
  }
  if (plan.constant && use_outputs) place_in_outputs(program, plan.placements, sizes);
  std::vector<Placement> in_arena;
  std::vector<int64_t> arena_sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (plan.placements[i].inside >= 0) continue;
    in_arena.push_back(plan.placements[i]);
    arena_sizes.push_back(sizes[i]);
  }
  const Places places = best_places(in_arena, arena_sizes);
  plan.size_bytes = places.size_bytes;
  size_t next = 0;
  for (Placement& p : plan.placements)
    if (p.inside < 0) p.offset = places.offsets[next++];
  if (!plan.constant) order_by_offset(plan.placements);
  return plan;
}

}  // namespace nacre
