// Groups of several nests under shared outer loops.
#include <algorithm>
#include <optional>

#include "compiler/fusion/cost.h"
#include "compiler/fusion/edit.h"
#include "compiler/fusion/rules.h"

namespace nacre {
namespace {

constexpr int64_t kMinInner = 16;  // fewer inner points would not fill vectors
constexpr size_t kMaxNests = 24;

bool has_scan(const Nest& nest) {
  return std::any_of(nest.code.begin(), nest.code.end(), [](const Scalar& s) { return s.op == ScalarOp::scan; });
}

bool is_loops(const Group& g) { return !g.contraction && !g.rows && !g.serial && !g.nests.empty(); }

// The loops of a group that can be shared: its outer ones, or those of its only nest that are neither reduced nor scanned.
std::vector<LoopVar> shareable(const Group& g) {
  if (!g.outer.empty()) return g.outer;
  if (g.nests.size() != 1) return {};
  const Nest& nest = g.nests[0];
  const size_t kept = nest.loops.size() - static_cast<size_t>(nest.reduced) - (has_scan(nest) ? 1 : 0);
  return {nest.loops.begin(), nest.loops.begin() + static_cast<ptrdiff_t>(kept)};
}

const LoopVar* find(const std::vector<LoopVar>& loops, const std::string& name) {
  for (const LoopVar& l : loops)
    if (l.name == name) return &l;
  return nullptr;
}

bool contains(const Expr& e, const std::string& name) { return !e.constant() && e.symbols().contains(name); }

// A consumer's loop that corresponds to a producer's: the same, or `producer * factor + rest` of it.
struct Partner {
  std::string loop;
  Expr factor = 1;
  bool operator==(const Partner&) const = default;
};

std::optional<Partner> partner_of(const Expr& at, const LoopVar& producer, const std::vector<LoopVar>& consumer, bool may_split) {
  if (at.op() == ExprOp::symbol) {
    const LoopVar* l = find(consumer, at.name());
    if (l && l->extent == producer.extent) return Partner{l->name, 1};
    return std::nullopt;
  }
  if (at.op() != ExprOp::floordiv || !may_split) return std::nullopt;
  const Expr numerator = at.operands()[0], factor = at.operands()[1];
  if (numerator.op() != ExprOp::symbol) return std::nullopt;
  const LoopVar* l = find(consumer, numerator.name());
  if (!l || l->extent != factor * producer.extent) return std::nullopt;
  return Partner{l->name, factor};
}

struct Access {
  const std::vector<Expr>*store, *load;
};

// Everything that passes from a to b.
std::vector<Access> passed(const Group& a, const Group& b) {
  std::vector<Access> result;
  for (const Nest& from : a.nests)
    for (const Store& s : from.stores)
      for (const Nest& to : b.nests)
        for (const Scalar& l : to.code)
          if (l.op == ScalarOp::load && l.buffer == s.buffer) result.push_back({&s.at, &l.at});
  return result;
}

std::map<std::string, Partner> partners(const std::vector<Access>& accesses, const std::vector<LoopVar>& a,
                                        const std::vector<LoopVar>& b, bool may_split) {
  std::map<std::string, Partner> result;
  for (const LoopVar& loop : a) {
    std::optional<Partner> partner;
    bool valid = true;
    for (const Access& access : accesses) {
      bool here = false;
      for (size_t d = 0; d < access.store->size() && valid; ++d) {
        const Expr& s = (*access.store)[d];
        if (!contains(s, loop.name)) continue;
        if (here || s.op() != ExprOp::symbol) {
          valid = false;
          break;
        }
        here = true;
        auto p = partner_of((*access.load)[d], loop, b, may_split);
        if (!p || (partner && *partner != *p)) valid = false;
        partner = p;
      }
      valid = valid && here;
      if (!valid) break;
    }
    if (!valid || !partner) continue;
    const bool taken = std::any_of(result.begin(), result.end(), [&](const auto& r) { return r.second.loop == partner->loop; });
    if (!taken) result[loop.name] = *partner;
  }
  return result;
}

std::set<std::string> names(const std::vector<LoopVar>& loops) {
  std::set<std::string> result;
  for (const LoopVar& l : loops) result.insert(l.name);
  return result;
}

// The nest under `outer`, with `values` for those of its loops that vanish, and its other loops named apart from them.
Nest moved_under(const LoopProgram& program, const std::vector<LoopVar>& outer, const Nest& nest,
                 std::map<std::string, Expr> values, const std::vector<LoopVar>& added) {
  Nest result;
  result.reduced = nest.reduced;
  std::set<std::string> taken = names(outer);
  for (const LoopVar& l : added) taken.insert(l.name);
  result.loops = added;
  for (const LoopVar& l : nest.loops) {
    if (values.contains(l.name)) continue;
    LoopVar renamed{unique_name(l.name, taken), l.extent};
    taken.insert(renamed.name);
    if (renamed.name != l.name) values[l.name] = Expr::symbol(renamed.name);
    result.loops.push_back(std::move(renamed));
  }
  Simplifier simplify = loop_facts(program, outer, result.loops);
  CodeBuilder code(result.code);
  const Appended done = append(code, nest.code, values, simplify);
  for (const Store& s : nest.stores) result.stores.push_back(rewritten(s, done, simplify));
  clean(result);
  return result;
}

// True if sharing `outer` would leave the group's inner loops striding: an access whose contiguous dim moves with the outer loop
// `name` only, while an inner loop moves along another of its dims.
bool strides(const Group& g, const std::string& name, const std::set<std::string>& outer, const std::vector<int>& contiguous) {
  const auto bad = [&](const Nest& n, BufferId b, const std::vector<Expr>& at) {
    if (at.size() < 2) return false;
    const size_t last = static_cast<size_t>(contiguous[static_cast<size_t>(b)]);
    if (!contains(at[last], name)) return false;
    bool elsewhere = false;
    for (const LoopVar& l : n.loops) {
      if (outer.contains(l.name) || l.extent.is(1)) continue;
      if (contains(at[last], l.name)) return false;
      for (const Expr& e : at) elsewhere = elsewhere || contains(e, l.name);
    }
    return elsewhere;
  };
  for (const Nest& n : g.nests) {
    for (const Scalar& s : n.code)
      if (s.op == ScalarOp::load && bad(n, s.buffer, s.at)) return true;
    for (const Store& s : n.stores)
      if (bad(n, s.buffer, s.at)) return true;
  }
  return false;
}

double inner_points(const Group& g, const std::set<std::string>& without, const Facts& symbols) {
  double most = 1;
  for (const Nest& n : g.nests) {
    double points = 1;
    for (const LoopVar& l : n.loops)
      if (!without.contains(l.name)) points *= typical_size(l.extent, symbols);
    most = std::max(most, points);
  }
  return most;
}

}  // namespace

bool share_outer(FusionState& state, int a, int b, const std::vector<int>& contiguous) {
  const Group &producer = state[a], &consumer = state[b];
  if (!is_loops(producer) || !is_loops(consumer) || producer.nests.size() + consumer.nests.size() > kMaxNests) return false;
  const auto many = [](const Group& g) { return g.nests.size() > 1 || g.nests[0].reduced > 0 || has_scan(g.nests[0]); };
  if (!many(producer) && !many(consumer)) return false;
  for (BufferId w : state.writes(b))
    if (state.reads(a).contains(w) || state.writes(a).contains(w)) return false;
  for (BufferId w : state.writes(a))
    if (state.reads(b).contains(w) && state.producer(w) != a) return false;
  const int place = state.meeting_place(a, b);
  if (place < 0) return false;

  const Facts& symbols = state.program.symbols;
  const std::vector<LoopVar> la = shareable(producer), lb = shareable(consumer);
  const std::vector<Access> accesses = passed(producer, consumer);
  if (accesses.empty()) return false;
  // Pooling keeps its producer apart: windows and rows share no more than channels, whose order is the layout's to choose.
  if (!many(producer))
    for (const Access& access : accesses)
      for (const Expr& e : *access.load)
        if (!e.constant() && e.op() != ExprOp::symbol) return false;
  std::map<std::string, Partner> matched = partners(accesses, la, lb, consumer.outer.empty());
  std::vector<LoopVar> outer;
  for (const LoopVar& l : la)
    if (matched.contains(l.name)) outer.push_back(l);
  // The loop over what lies side by side stays inside, where it can be vectors.
  for (bool again = true; again;) {
    again = false;
    std::set<std::string> in_a = names(outer), in_b;
    for (const LoopVar& l : outer) in_b.insert(matched.at(l.name).loop);
    for (size_t i = 0; i < outer.size() && !again; ++i) {
      if (!strides(producer, outer[i].name, in_a, contiguous) &&
          !strides(consumer, matched.at(outer[i].name).loop, in_b, contiguous))
        continue;
      matched.erase(outer[i].name);
      outer.erase(outer.begin() + static_cast<ptrdiff_t>(i));
      again = true;
    }
  }
  const auto all_matched = [&](const std::vector<LoopVar>& loops, bool of_producer) {
    return std::all_of(loops.begin(), loops.end(), [&](const LoopVar& l) {
      if (l.extent.is(1)) return true;
      return of_producer ? matched.contains(l.name)
                         : std::any_of(matched.begin(), matched.end(), [&](const auto& m) { return m.second.loop == l.name; });
    });
  };
  const bool fixed = !producer.outer.empty() || !consumer.outer.empty();
  if (!producer.outer.empty() && !all_matched(producer.outer, true)) return false;
  if (!consumer.outer.empty() && !all_matched(consumer.outer, false)) return false;

  // Inner loops of a few points would leave vectors empty: then the innermost outer loops stay inside.
  const auto inner = [&] {
    std::set<std::string> in_a = names(outer), in_b;
    double split = 1;
    for (const LoopVar& l : outer) {
      in_b.insert(matched.at(l.name).loop);
      split *= typical_size(matched.at(l.name).factor, symbols);
    }
    return std::max(inner_points(producer, in_a, symbols), split * inner_points(consumer, in_b, symbols));
  };
  while (!fixed && outer.size() > 1 && inner() < kMinInner) outer.pop_back();
  const double iterations = typical_points(outer, symbols);
  if (!pays_to_share_outer(iterations, inner())) return false;
  if (!fixed && inner() < kMinInner && iterations * inner() > 4096) return false;

  Group merged;
  merged.name = consumer.name;
  std::map<std::string, Expr> keep_a, values_b;
  std::vector<LoopVar> added_b;
  std::set<std::string> taken = names(outer);
  for (const Nest& n : consumer.nests)
    for (const LoopVar& l : n.loops) taken.insert(l.name);
  for (const LoopVar& l : outer) {
    const Partner& p = matched.at(l.name);
    keep_a[l.name] = Expr::symbol(l.name);
    if (p.factor.is(1)) {
      values_b[p.loop] = Expr::symbol(l.name);
      continue;
    }
    LoopVar rest{unique_name(p.loop + "r", taken), p.factor};
    taken.insert(rest.name);
    values_b[p.loop] = Expr::symbol(l.name) * p.factor + Expr::symbol(rest.name);
    added_b.push_back(std::move(rest));
  }
  // Loops of one iteration that nothing corresponds to.
  for (const LoopVar& l : producer.outer)
    if (!keep_a.contains(l.name)) keep_a[l.name] = 0;
  for (const LoopVar& l : consumer.outer)
    if (!values_b.contains(l.name)) values_b[l.name] = 0;
  if (outer.empty()) outer.push_back({unique_name("once", taken), Expr(1)});
  merged.outer = outer;
  for (const Nest& n : producer.nests) merged.nests.push_back(moved_under(state.program, outer, n, keep_a, {}));
  for (const Nest& n : consumer.nests) merged.nests.push_back(moved_under(state.program, outer, n, values_b, added_b));
  state.kill(a == place ? b : a);
  state.replace(place, std::move(merged));
  return true;
}

bool merge_nests(FusionState& state, int g) {
  if (state[g].outer.empty() || state[g].nests.size() < 2) return false;
  Group group = state[g];
  bool changed = false;
  for (size_t i = 0; i + 1 < group.nests.size();) {
    const Nest &a = group.nests[i], &b = group.nests[i + 1];
    bool fits = a.loops.size() == b.loops.size() && a.reduced == b.reduced && !has_scan(a) && !has_scan(b);
    for (size_t l = 0; fits && l < a.loops.size(); ++l) fits = a.loops[l].extent == b.loops[l].extent;
    if (!fits) {
      ++i;
      continue;
    }
    Simplifier simplify = loop_facts(state.program, group.outer, a.loops);
    std::map<std::string, Expr> values;
    for (size_t l = 0; l < a.loops.size(); ++l) values[b.loops[l].name] = Expr::symbol(a.loops[l].name);
    Nest merged = a;
    {
      CodeBuilder code(merged.code);
      const auto forward = [&](const Scalar& s, const Scalar&) -> int {
        if (s.op != ScalarOp::load) return -1;
        for (const Store& store : a.stores) {
          if (store.buffer != s.buffer) continue;
          if (a.reduced > 0 || store.at != s.at || !s.when.empty() || store.mode != StoreMode::assign) fits = false;
          return store.value;
        }
        return -1;
      };
      const Appended done = append(code, b.code, values, simplify, forward);
      for (const Store& s : b.stores) {
        for (const Store& earlier : a.stores) fits = fits && earlier.buffer != s.buffer;
        merged.stores.push_back(rewritten(s, done, simplify));
      }
    }
    if (fits) fits = points_are_independent(merged);
    if (!fits) {
      ++i;
      continue;
    }
    clean(merged);
    group.nests[i] = std::move(merged);
    group.nests.erase(group.nests.begin() + static_cast<ptrdiff_t>(i) + 1);
    changed = true;
  }
  if (changed) state.replace(g, std::move(group));
  return changed;
}

void make_local(FusionState& state, int g) {
  if (state[g].outer.empty()) return;
  Group group = state[g];
  const std::set<std::string> outer = names(group.outer);
  double bytes = 0;
  bool changed = false;
  for (BufferId b : state.writes(g)) {
    Buffer& buffer = state.program[b];
    if (buffer.kind != BufferKind::temporary || state.leaves(b)) continue;
    if (state.writers(b) != std::set<int>{g}) continue;
    const std::set<int>& readers = state.readers(b);
    // What nobody reads any more is not stored at all.
    if (readers.empty()) {
      for (Nest& n : group.nests) std::erase_if(n.stores, [&](const Store& s) { return s.buffer == b; });
      changed = true;
      continue;
    }
    if (readers != std::set<int>{g}) continue;
    // A dim that every access indexes by the same outer loop is the same element all through an iteration.
    const size_t rank = buffer.shape.size();
    std::vector<std::optional<Expr>> index(rank);
    std::vector<bool> drops(rank, true);
    bool fits = true;
    const auto look = [&](const std::vector<Expr>& at) {
      for (size_t d = 0; d < rank; ++d) {
        const bool simple = at[d].is(0) || (at[d].op() == ExprOp::symbol && outer.contains(at[d].name()));
        if (!simple || (index[d] && *index[d] != at[d])) drops[d] = false;
        index[d] = at[d];
      }
    };
    const auto inside = [&](const std::vector<Expr>& at) {
      for (size_t d = 0; d < rank; ++d)
        if (!drops[d])
          for (const std::string& s : outer) fits = fits && !contains(at[d], s);
    };
    const auto each_access = [&](auto visit) {
      for (Nest& n : group.nests) {
        for (Scalar& s : n.code)
          if (s.op == ScalarOp::load && s.buffer == b) visit(s.at);
        for (Store& s : n.stores)
          if (s.buffer == b) visit(s.at);
      }
    };
    each_access(look);
    for (size_t d = 0; d < rank; ++d)  // a dim of one element may stay or go
      if (buffer.shape[d].is(1)) drops[d] = true;
    each_access(inside);
    double size = nacre_dtype_size_bytes(buffer.dtype);
    for (size_t d = 0; d < rank && fits; ++d) {
      if (drops[d]) continue;
      if (auto c = buffer.shape[d].constant())
        size *= static_cast<double>(*c);
      else
        fits = false;  // a row of unknown length stays in the arena
    }
    if (!fits || bytes + size > kLocalBytes) continue;
    bytes += size;
    std::vector<Expr> shape;
    for (size_t d = 0; d < rank; ++d)
      if (!drops[d]) shape.push_back(buffer.shape[d]);
    each_access([&](std::vector<Expr>& at) {
      std::vector<Expr> kept;
      for (size_t d = 0; d < rank; ++d)
        if (!drops[d]) kept.push_back(at[d]);
      at = std::move(kept);
    });
    buffer.shape = std::move(shape);
    buffer.kind = BufferKind::local;
    changed = true;
  }
  std::erase_if(group.nests, [](const Nest& n) { return n.stores.empty(); });
  for (Nest& n : group.nests) clean(n);
  if (changed) state.replace(g, std::move(group));
}

}  // namespace nacre
