#include "compiler/layout/merge.h"

#include <algorithm>

#include "compiler/codegen/device_rows.h"
#include "compiler/fusion/cost.h"
#include "compiler/fusion/edit.h"
#include "compiler/fusion/index_map.h"
#include "compiler/loops/address.h"

namespace nacre {
namespace {

constexpr double kMostRepeated = 32768;  // points that every block goes through before it multiplies
constexpr double kMostBeside = 1 << 17;  // of nests side by side, each
constexpr size_t kMostNests = 6;
constexpr int kHorizon = 8;              // groups

bool scans(const Nest& nest) {
  return std::any_of(nest.code.begin(), nest.code.end(), [](const Scalar& s) { return s.op == ScalarOp::scan; });
}

// ---- Vectors.

// Nests of which the last makes all of `b`, each element for itself, and the others what only it reads.
bool makes_vector(const FusionState& state, int p, BufferId b) {
  const Group& group = state[p];
  if (group.contraction || group.rows || group.control || group.serial || state.leaves(b) || state.buffer(b).kind != BufferKind::temporary) return false;
  if (std::any_of(group.outer.begin(), group.outer.end(), [](const LoopVar& loop) { return !loop.extent.is(1); })) return false;
  double points = 0;
  for (size_t i = 0; i < group.nests.size(); ++i) {
    const Nest& nest = group.nests[i];
    if (scans(nest)) return false;
    points += typical_points(nest.loops, state.program.symbols);
    const bool last = i + 1 == group.nests.size();
    if (last && (nest.reduced > 0 || nest.stores.size() != 1 || nest.stores[0].buffer != b || nest.stores[0].mode != StoreMode::assign)) return false;
    for (const Store& s : nest.stores)
      if (!last && state.buffer(s.buffer).kind != BufferKind::local) return false;
  }
  return points <= kMostRepeated;
}

// The group with what each iteration of its outer loops, which is one, does.
Group without_outer(const Group& group, const Facts& symbols) {
  Group result = group;
  std::map<std::string, Expr> zero;
  for (const LoopVar& loop : group.outer) zero.emplace(loop.name, Expr(0));
  Simplifier simplify(symbols);
  for (Nest& nest : result.nests) {
    for (Scalar& s : nest.code) substitute(s, zero, simplify);
    for (Store& s : nest.stores) substitute(s, zero, simplify);
  }
  result.outer.clear();
  return result;
}

// The nests before the last, with local buffers of their own.
std::vector<Nest> with_own_locals(FusionState& state, Group& group) {
  std::map<BufferId, BufferId> own;
  for (const Nest& nest : group.nests)
    for (const Store& s : nest.stores)
      if (state.buffer(s.buffer).kind == BufferKind::local && !own.contains(s.buffer)) own[s.buffer] = state.add_buffer(state.buffer(s.buffer));
  const auto edit = [&](auto& access) {
    if (const auto found = own.find(access.buffer); found != own.end()) access.buffer = found->second;
  };
  for (Nest& nest : group.nests) {
    for (Scalar& s : nest.code) edit(s);
    for (Store& s : nest.stores) edit(s);
  }
  return {group.nests.begin(), group.nests.end() - 1};
}

bool make_vector_in_place(FusionState& state, int p, const Target& target) {
  if (state.writes(p).empty()) return false;
  BufferId b = -1;
  for (BufferId written : state.writes(p))
    if (state.buffer(written).kind != BufferKind::local) b = b < 0 ? written : -2;
  if (b < 0 || state.producer(b) != p || !makes_vector(state, p, b)) return false;
  const Group producer = without_outer(state[p], state.program.symbols);
  const Nest& last = producer.nests.back();
  if (!is_permutation(last.stores[0].at, last.loops, state.buffer(b).shape)) return false;
  const std::set<int> readers = state.readers(b);
  std::vector<std::pair<int, Group>> changes;
  for (int r : readers) {
    if (r < p || !state.same_region(p, r)) return false;
    const Group& reader = state[r];
    if (!is_matrix_vector(state.program, reader, target)) return false;
    for (BufferId read : state.reads(p)) {
      const auto w = state.writers(read).upper_bound(p);
      if (w != state.writers(read).end() && *w <= r) return false;
    }
    Group own = producer;
    Group merged = reader;
    merged.nests = with_own_locals(state, own);
    merged.nests.push_back(inlined(state, reader, reader.nests[0], own.nests.back(), own.nests.back().stores[0]));
    clean(merged.nests.back());
    Group alone = reader;
    alone.nests = {merged.nests.back()};
    if (!is_matrix_vector(state.program, alone, target)) return false;
    changes.emplace_back(r, std::move(merged));
  }
  if (changes.empty()) return false;
  for (auto& [r, group] : changes) state.replace(r, std::move(group));
  state.kill(p);
  return true;
}

// ---- Side by side.

bool may_stand_beside(const FusionState& state, int g, const Target& target) {
  const Group& group = state[g];
  if (group.contraction || group.rows || group.control || group.serial || !group.outer.empty() || group.nests.size() > kMostNests) return false;
  for (const Nest& nest : group.nests) {
    if (scans(nest) || typical_points(nest.loops, state.program.symbols) > kMostBeside) return false;
    for (const Store& s : nest.stores)
      if (state.buffer(s.buffer).kind == BufferKind::local) return false;
  }
  return group.nests.size() > 1 || !is_matrix_vector(state.program, group, target);
}

bool write_apart(const FusionState& state, int a, int b) {
  for (const Nest& one : state[a].nests)
    for (const Nest& other : state[b].nests)
      for (const Store& s : one.stores)
        for (const Store& t : other.stores)
          if (s.buffer == t.buffer && !stores_are_apart(facts_in(state.program, state[a], one), s, facts_in(state.program, state[b], other), t)) return false;
  return true;
}

bool put_beside(FusionState& state, int a, int b) {
  if (state[a].nests.size() + state[b].nests.size() > kMostNests) return false;
  for (BufferId w : state.writes(a))
    if (state.reads(b).contains(w)) return false;
  if (!write_apart(state, a, b)) return false;
  for (BufferId w : state.writes(b))
    if (state.reads(a).contains(w)) return false;
  const int place = state.meeting_place(a, b);
  if (place < 0) return false;
  Group merged = state[a];
  merged.nests.insert(merged.nests.end(), state[b].nests.begin(), state[b].nests.end());
  state.kill(a == place ? b : a);
  state.replace(place, std::move(merged));
  return true;
}

}  // namespace

LoopProgram merge_kernels(LoopProgram program, const Target& target) {
  FusionState state(std::move(program));
  for (int g = state.count(); g-- > 0;)
    if (state.alive(g)) make_vector_in_place(state, g, target);
  std::vector<bool> fits;
  for (int g = 0; g < state.count(); ++g) fits.push_back(state.alive(g) && may_stand_beside(state, g, target));
  for (int a = 0; a < state.count(); ++a)
    for (int b = a + 1, seen = 0; b < state.count() && seen < kHorizon; ++b) {
      if (!state.alive(b)) continue;
      ++seen;
      if (!state.alive(a)) break;
      if (fits[static_cast<size_t>(a)] && fits[static_cast<size_t>(b)]) put_beside(state, a, b);
    }
  return state.finish();
}

}  // namespace nacre
