// The search: rules in a fixed order until none applies. Joins come before inlining, so that a producer is not computed twice
// where its consumer could run beside it; groups share outer loops last, since the other rules look at single nests.
#include "compiler/fusion/fuse.h"

#include <algorithm>
#include <cctype>

#include "compiler/fusion/cost.h"
#include "compiler/fusion/rules.h"
#include "compiler/fusion/state.h"
#include "compiler/loops/code.h"

namespace nacre {
namespace {

template <class Rule>
bool each_group(FusionState& state, Rule rule) {
  bool changed = false;
  for (int g = 0; g < state.count(); ++g)
    while (state.alive(g) && rule(g)) changed = true;
  return changed;
}

// A group whose results nothing reads.
bool remove_dead(FusionState& state) {
  bool changed = false;
  for (int g = state.count(); g-- > 0;) {
    if (!state.alive(g) || state[g].control) continue;
    const bool used = std::any_of(state.writes(g).begin(), state.writes(g).end(), [&](BufferId b) {
      if (state.leaves(b)) return true;
      const std::set<int>& readers = state.readers(b);
      return std::any_of(readers.begin(), readers.end(), [&](int r) { return r != g; });
    });
    if (used) continue;
    state.kill(g);
    changed = true;
  }
  return changed;
}

bool merge_all_sideways(FusionState& state) {
  bool changed = false;
  for (int a = 0; a < state.count(); ++a) {
    if (!state.alive(a)) continue;
    std::set<int> others;
    for (BufferId b : state.reads(a))
      if (state.buffer(b).kind != BufferKind::weight)
        for (int r : state.readers(b))
          if (r > a) others.insert(r);
    for (int b : others) {
      if (!state.alive(a)) break;
      if (state.alive(b) && merge_sideways(state, a, b)) changed = true;
    }
  }
  return changed;
}

bool share_all_outer(FusionState& state, const std::vector<int>& contiguous) {
  bool changed = false;
  for (int b = 0; b < state.count(); ++b) {
    for (bool again = true; again && state.alive(b);) {
      again = false;
      std::vector<int> producers;
      for (BufferId read : state.reads(b))
        for (int w : state.writers(read))
          if (w < b) producers.push_back(w);
      std::sort(producers.begin(), producers.end(), std::greater<>());
      producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
      for (int a : producers) {
        if (!share_outer(state, a, b, contiguous)) continue;
        changed = again = true;
        // The merged group stands at one of the two places; from the earlier one the search comes by again.
        break;
      }
    }
  }
  return changed;
}

// ---- Names.

std::string short_name(const Provenance& where, const std::string& otherwise) {
  std::string name = where.op;
  if (name.empty()) return otherwise;
  if (const size_t dot = name.find('.'); dot != std::string::npos) name = name.substr(dot + 1);
  if (const size_t dot = name.find('.'); dot != std::string::npos) name = name.substr(0, dot);
  while (!name.empty() && (name.back() == '_' || name.front() == '_')) {
    if (name.back() == '_')
      name.pop_back();
    else
      name.erase(0, 1);
  }
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name.empty() ? otherwise : name;
}

std::string contraction_name(ContractionKind kind) {
  switch (kind) {
    case ContractionKind::matmul: return "matmul";
    case ContractionKind::conv: return "conv";
    case ContractionKind::conv_transpose: return "conv_transpose";
    case ContractionKind::attention: return "attention";
    case ContractionKind::lstm: return "lstm";
    case ContractionKind::gru: return "gru";
  }
  return "contraction";
}

// From the operators in order of their work, each once, as many as fit.
std::string name_of(const Group& group) {
  if (group.rows) return group.rows->kind == RowKind::import ? short_name(group.rows->where, "import") : row_work_name(group.rows->kind);
  std::vector<std::string> parts;
  const auto add = [&](const std::string& part) {
    if (!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  };
  if (group.contraction) add(short_name(group.contraction->where, contraction_name(group.contraction->kind)));
  for (const Nest& nest : group.nests)
    for (const Scalar& s : nest.code) {
      const bool work = s.op == ScalarOp::pointwise || s.op == ScalarOp::reduce || s.op == ScalarOp::scan ||
                        s.op == ScalarOp::cast || s.op == ScalarOp::check_index;
      if (!work && s.where.op.empty()) continue;
      add(short_name(s.where, s.op == ScalarOp::cast ? "cast" : s.op == ScalarOp::check_index ? "index" : s.prim));
    }
  if (parts.empty()) {
    // Only data moves: the name that lowering gave, less its number.
    std::string base = group.name;
    while (!base.empty() && std::isdigit(static_cast<unsigned char>(base.back()))) base.pop_back();
    while (!base.empty() && base.back() == '_') base.pop_back();
    parts.push_back(base.empty() ? "copy" : base);
  }
  std::string name;
  for (const std::string& part : parts) {
    if (!name.empty() && name.size() + part.size() > 40) break;
    name += (name.empty() ? "" : "_") + part;
  }
  return name.substr(0, 40);
}

}  // namespace

LoopProgram fuse(LoopProgram program) {
  FusionState state(std::move(program));
  remove_dead(state);
  each_group(state, [&](int g) { return rename_copy(state, g); });
  for (int round = 0; round < 8; ++round) {
    bool changed = each_group(state, [&](int g) { return inline_reader_of_stored(state, g); });
    changed |= each_group(state, [&](int g) { return join_consumer(state, g, Joining::to_results); });
    changed |= each_group(state, [&](int g) { return join_consumer(state, g, Joining::only_consumers); });
    changed |= each_group(state, [&](int g) { return inline_producer(state, g); });
    changed |= each_group(state, [&](int g) { return feed_contraction(state, g); });
    if (changed) continue;
    if (each_group(state, [&](int g) { return join_consumer(state, g, Joining::always); })) continue;
    if (!merge_all_sideways(state)) break;
  }
  each_group(state, [&](int g) { return rename_copy(state, g); });
  const std::vector<int> contiguous = contiguous_dims(state);
  while (share_all_outer(state, contiguous)) {
  }
  remove_dead(state);
  for (int g = 0; g < state.count(); ++g) {
    if (!state.alive(g)) continue;
    merge_nests(state, g);
    make_local(state, g);
  }
  LoopProgram result = state.finish();
  std::set<std::string> names;
  for (Group& g : result.groups) {
    g.name = unique_name(name_of(g), names);
    names.insert(g.name);
  }
  return result;
}

}  // namespace nacre
