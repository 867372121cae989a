#include "compiler/fusion/rules.h"

#include <algorithm>

#include "compiler/fusion/cost.h"
#include "compiler/fusion/edit.h"
#include "compiler/fusion/index_map.h"

namespace nacre {
namespace {

constexpr size_t kMaxCode = 256;  // scalars of one nest; more would not stay in registers

bool has(const Nest& nest, ScalarOp op) {
  return std::any_of(nest.code.begin(), nest.code.end(), [&](const Scalar& s) { return s.op == op; });
}

// One nest with its own loops, each point for itself.
bool is_pointwise(const Group& g) {
  return !g.contraction && !g.rows && !g.serial && g.outer.empty() && g.nests.size() == 1 && g.nests[0].reduced == 0 &&
         !has(g.nests[0], ScalarOp::scan) &&
         std::all_of(g.nests[0].stores.begin(), g.nests[0].stores.end(),
                     [](const Store& s) { return s.mode == StoreMode::assign; });
}

bool is_free_of_scalars(const std::vector<Expr>& at) {
  return std::none_of(at.begin(), at.end(), [](const Expr& e) {
    if (e.constant()) return false;
    const std::set<std::string> symbols = e.symbols();
    return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return scalar_of_symbol(s).has_value(); });
  });
}

const Store* only_store(const Nest& nest, BufferId b) {
  const Store* found = nullptr;
  for (const Store& s : nest.stores) {
    if (s.buffer != b) continue;
    if (found) return nullptr;
    found = &s;
  }
  return found;
}

// An integer division traps on the 0 that a load out of range would give.
bool may_fail(const std::vector<Scalar>& code) {
  return std::any_of(code.begin(), code.end(), [](const Scalar& s) {
    return s.op == ScalarOp::check_index ||
           (s.op == ScalarOp::pointwise && kind_of(s.dtype) != 'f' &&
            (s.prim == "div_trunc" || s.prim == "div_floor" || s.prim == "fmod" || s.prim == "remainder"));
  });
}

}  // namespace

// ---- Copies of whole buffers.

bool rename_copy(FusionState& state, int copy) {
  const Group& g = state[copy];
  if (!is_pointwise(g) || g.nests[0].code.size() != 1 || g.nests[0].stores.size() != 1) return false;
  const Nest& nest = g.nests[0];
  const Scalar& load = nest.code[0];
  const Store& store = nest.stores[0];
  const BufferId from = load.buffer, to = store.buffer;
  if (load.op != ScalarOp::load || !load.when.empty() || load.at != store.at) return false;
  const Buffer &source = state.buffer(from), &target = state.buffer(to);
  if (source.kind != BufferKind::temporary || source.dtype != target.dtype || source.shape != target.shape ||
      !is_permutation(store.at, nest.loops, target.shape))
    return false;
  if (state.writers(from).empty() || *state.writers(from).rbegin() > copy) return false;
  // The copy must run whenever the source is made, and as often: where a loop makes the source over and over, an old value of
  // the target might be read the next time.
  const Regions& regions = state.regions();
  const int here = regions.of_group[static_cast<size_t>(copy)];
  const bool fresh = state.readers(to).empty() && state.writers(to).size() == 1 && target.kind != BufferKind::input && target.kind != BufferKind::state;
  for (int w : state.writers(from)) {
    const int there = regions.of_group[static_cast<size_t>(w)];
    if (!regions.encloses(here, there) || (!fresh && regions.loop_around(here) != regions.loop_around(there))) return false;
  }
  // From the first store to the source on, nobody else may look at the target: readers of its old value come before, and
  // writers of a later one would change what is read from the source after the copy.
  const int first = *state.writers(from).begin();
  for (int w : state.writers(to))
    if (w != copy && w >= first) return false;
  for (int r : state.readers(to)) {
    if (r < first) continue;
    if (r >= copy) {
      if (r == copy) return false;
      continue;  // reads the value that the copy left: the same
    }
    // Within the group that makes the source: an element's old value may be read by the point that replaces it.
    const Group& maker = state[r];
    if (!state.writes(r).contains(from) || maker.nests.size() != 1 || maker.contraction || !maker.outer.empty()) return false;
    Nest moved = maker.nests[0];
    for (Store& s : moved.stores)
      if (s.buffer == from) s.buffer = to;
    if (!points_are_independent(moved)) return false;
  }
  std::set<int> users = state.readers(from);
  users.insert(state.writers(from).begin(), state.writers(from).end());
  state.kill(copy);
  for (int u : users) {
    if (u == copy) continue;
    Group changed = state[u];
    for (Nest& n : changed.nests) {
      for (Scalar& s : n.code)
        if (s.buffer == from) s.buffer = to;
      for (Store& s : n.stores)
        if (s.buffer == from) s.buffer = to;
    }
    if (changed.contraction) {
      for (Operand& o : changed.contraction->operands)
        if (o.buffer == from) o.buffer = to;
      for (BufferId& b : changed.contraction->results)
        if (b == from) b = to;
    }
    if (changed.rows)
      for (std::vector<BufferId>* list : {&changed.rows->inputs, &changed.rows->outputs})
        std::replace(list->begin(), list->end(), from, to);
    if (changed.control && changed.control->buffer == from) changed.control->buffer = to;
    state.replace(u, std::move(changed));
  }
  for (auto& m : state.program.input_mutations)
    if (m.from == from) m.from = to;
  return true;
}

// ---- Inlining.

Nest inlined(const FusionState& state, const Group& consumer, const Nest& nest, const Nest& producer, const Store& store) {
  Simplifier simplify = loop_facts(state.program, consumer.outer, nest.loops);
  Nest result;
  result.loops = nest.loops;
  result.reduced = nest.reduced;
  CodeBuilder code(result.code);

  const auto expand = [&](const Scalar& load, const Scalar&) -> int {
    if (load.op != ScalarOp::load || load.buffer != store.buffer) return -1;
    std::map<std::string, Expr> values;
    for (const LoopVar& loop : producer.loops) values[loop.name] = 0;
    for (size_t d = 0; d < store.at.size(); ++d)
      if (store.at[d].op() == ExprOp::symbol) values[store.at[d].name()] = load.at[d];
    if (load.when.empty()) {
      const Appended done = append(code, producer.code, values, simplify);
      return done.numbers[static_cast<size_t>(store.value)];
    }
    // A load under conditions: all that the producer loads is under them too.
    const Scalar& only = producer.code[static_cast<size_t>(store.value)];
    if (only.op == ScalarOp::load && only.when.empty() && only.operands.empty()) {
      Scalar s = only;
      substitute(s, values, simplify);
      if (is_free_of_scalars(s.at)) {
        s.when = load.when;
        s.operands = load.operands;
        return code.add(std::move(s));
      }
    }
    std::vector<Scalar> guarded;
    std::vector<int> numbers(producer.code.size(), -1);
    for (size_t i = 0; i < producer.code.size(); ++i) {
      Scalar s = producer.code[i];
      renumber(s, numbers);
      if (s.op == ScalarOp::load) {
        if (s.when.empty()) {
          Scalar zero;
          zero.op = ScalarOp::constant;
          zero.dtype = s.dtype;
          guarded.push_back(std::move(zero));
          s.operands = {static_cast<int>(guarded.size()) - 1};
        }
        s.when.push_back(Expr::symbol("_inside"));
      }
      numbers[i] = static_cast<int>(guarded.size());
      guarded.push_back(std::move(s));
    }
    Expr inside = load.when.size() == 1 ? load.when[0] : Expr::make(ExprOp::and_, load.when);
    values["_inside"] = inside;
    const Appended done = append(code, guarded, values, simplify);
    const int value = done.numbers[static_cast<size_t>(numbers[static_cast<size_t>(store.value)])];
    return code.pointwise("where", {code.index(simplify(inside), NACRE_bool_), value, load.operands[0]}, load.where);
  };
  const Appended done = append(code, nest.code, {}, simplify, expand);
  for (const Store& s : nest.stores) result.stores.push_back(rewritten(s, done, simplify));
  clean(result);
  return result;
}

bool inline_reader_of_stored(FusionState& state, int p) {
  if (!is_pointwise(state[p]) || code_cost(state[p].nests[0].code) > 4) return false;
  for (BufferId read : state.reads(p)) {
    const int a = state.producer(read);
    if (a < 0 || a >= p || state[a].rows) continue;
    const std::set<int>& readers = state.readers(read);
    const bool stays = readers.size() > 1 || state.leaves(read);
    if (stays && !is_pointwise(state[a]) && state.writes(p).size() == 1 &&
        state.readers(*state.writes(p).begin()).size() == 1)
      return inline_producer(state, p);
  }
  return false;
}

namespace {

// One value for each element of a temporary that nothing else writes: readers can have the code in its place.
bool makes_one_temporary(const FusionState& state, int p) {
  const Group& producer = state[p];
  if (!is_pointwise(producer) || producer.nests[0].stores.size() != 1) return false;
  const Nest& nest = producer.nests[0];
  const Store& store = nest.stores[0];
  const BufferId b = store.buffer;
  return state.buffer(b).kind == BufferKind::temporary && !state.leaves(b) && state.producer(b) == p &&
         is_permutation(store.at, nest.loops, state.buffer(b).shape);
}

}  // namespace

bool inline_producer(FusionState& state, int p) {
  if (!makes_one_temporary(state, p)) return false;
  const Nest& nest = state[p].nests[0];
  const Store& store = nest.stores[0];
  const BufferId b = store.buffer;
  const std::set<int> readers = state.readers(b);
  if (readers.empty()) return false;

  const double elements = typical_points(nest.loops, state.program.symbols);
  const double cost = code_cost(nest.code), loaded = elements_loaded(state.program, nest, elements);
  const bool is_copy = nest.code[static_cast<size_t>(store.value)].op == ScalarOp::load || loaded == 0;
  double reads = 0;
  for (int r : readers) {
    const Group& reader = state[r];
    if (reader.rows || reader.control || r < p || (reader.serial && cost > 1) || !state.same_region(p, r)) return false;
    if (reader.contraction)
      for (const Operand& o : reader.contraction->operands)
        if (o.buffer == b) return false;
    // What the producer reads must be the same where the reader runs.
    for (BufferId read : state.reads(p)) {
      auto w = state.writers(read).upper_bound(p);
      if (w != state.writers(read).end() && *w < r) return false;
    }
    for (const Nest& n : reader.nests) {
      size_t size = n.code.size();
      const double points = typical_points(n.loops, state.program.symbols);
      const double iterations = typical_points(reader.outer, state.program.symbols);
      for (const Scalar& s : n.code) {
        if (s.op != ScalarOp::load || s.buffer != b) continue;
        if (!s.when.empty() && may_fail(nest.code)) return false;
        double times = points * iterations;
        // What the load does not depend on is computed once, outside those loops.
        if (n.reduced == 0) {
          std::set<std::string> used;
          for (const Expr& e : s.at)
            for (const std::string& name : e.symbols()) used.insert(name);
          for (size_t l = n.loops.size(); l-- > 0 && !used.contains(n.loops[l].name);)
            times /= typical_size(n.loops[l].extent, state.program.symbols);
        }
        reads += times / elements;
        size += nest.code.size();
      }
      if (size > kMaxCode) return false;
    }
  }
  const bool free_copy = is_copy && cost == 0;
  if (!free_copy && !pays_to_recompute(reads, cost, loaded)) return false;

  std::vector<std::pair<int, Group>> changes;
  for (int r : readers) {
    Group changed = state[r];
    for (Nest& n : changed.nests) {
      const bool reads_it = std::any_of(n.code.begin(), n.code.end(),
                                        [&](const Scalar& s) { return s.op == ScalarOp::load && s.buffer == b; });
      if (!reads_it) continue;
      n = inlined(state, changed, n, nest, store);
      // The reader may write what the producer reads: an update in place.
      if (!points_are_independent(n)) return false;
    }
    for (BufferId read : state.reads(p))
      if (state.writes(r).contains(read) && changed.nests.size() > 1) return false;
    changes.emplace_back(r, std::move(changed));
  }
  for (auto& [r, group] : changes) state.replace(r, std::move(group));
  state.kill(p);
  return true;
}

// ---- Into contractions.

namespace {

struct Scaled {
  Scalar load;
  std::optional<double> factor;
};

// The producer's code as a load, times a constant perhaps.
std::optional<Scaled> scaled_load(const Nest& nest, int value) {
  const Scalar& s = nest.code[static_cast<size_t>(value)];
  if (s.op == ScalarOp::load && s.when.empty() && is_free_of_scalars(s.at)) return Scaled{s, std::nullopt};
  if (s.op != ScalarOp::pointwise || s.prim != "mul" || kind_of(s.dtype) != 'f') return std::nullopt;
  for (size_t i : {0u, 1u}) {
    const Scalar &load = nest.code[static_cast<size_t>(s.operands[i])], &factor = nest.code[static_cast<size_t>(s.operands[1 - i])];
    if (load.op == ScalarOp::load && load.when.empty() && is_free_of_scalars(load.at) && factor.op == ScalarOp::constant)
      return Scaled{load, factor.number};
  }
  return std::nullopt;
}

bool operand_fits(const FusionState& state, const Contraction& c, size_t operand) {
  const Operand& o = c.operands[operand];
  switch (c.kind) {
    case ContractionKind::conv:
    case ContractionKind::conv_transpose:
      return dims_are_apart(o.at, c.operand_loops[operand]);
    case ContractionKind::matmul: {
      Simplifier simplify = loop_facts(state.program, {}, c.loops);
      const size_t batch = c.loops.size() - 3;
      return address_is_affine(state.buffer(o.buffer), o.at,
                               {c.loops[operand == 0 ? batch : batch + 1].name, c.loops[batch + 2].name}, c.loops, simplify);
    }
    default:
      return false;
  }
}

// The epilogue's accumulators, times `factor`.
void scale_accumulators(Nest& epilogue, double factor, const Provenance& where) {
  const std::vector<Scalar> old = std::move(epilogue.code);
  epilogue.code.clear();
  CodeBuilder code(epilogue.code);
  std::vector<int> numbers;
  for (const Scalar& s : old) {
    Scalar copy = s;
    renumber(copy, numbers);
    int id = code.add(std::move(copy));
    if (s.op == ScalarOp::accumulator) id = code.pointwise("mul", {id, code.constant(factor, s.dtype)}, where);
    numbers.push_back(id);
  }
  for (Store& s : epilogue.stores) renumber(s, numbers);
}

}  // namespace

bool feed_contraction(FusionState& state, int p) {
  if (!makes_one_temporary(state, p)) return false;
  const Nest& nest = state[p].nests[0];
  const Store& store = nest.stores[0];
  const BufferId b = store.buffer;
  const std::optional<Scaled> scaled = scaled_load(nest, store.value);
  if (!scaled || state.buffer(scaled->load.buffer).dtype != state.buffer(b).dtype) return false;
  const std::set<int> readers = state.readers(b);
  std::vector<std::pair<int, Group>> changes;
  for (int r : readers) {
    if (r < p || !state[r].contraction || !state.same_region(p, r)) return false;
    auto w = state.writers(scaled->load.buffer).upper_bound(p);
    if (w != state.writers(scaled->load.buffer).end() && *w <= r) return false;
    Group changed = state[r];
    Contraction& c = *changed.contraction;
    double factor = 1;
    for (size_t i = 0; i < c.operands.size(); ++i) {
      Operand& o = c.operands[i];
      if (o.buffer != b) continue;
      if (c.kind != ContractionKind::matmul && c.kind != ContractionKind::conv && c.kind != ContractionKind::conv_transpose)
        return false;
      std::map<std::string, Expr> values;
      for (const LoopVar& loop : nest.loops) values[loop.name] = 0;
      for (size_t d = 0; d < store.at.size(); ++d)
        if (store.at[d].op() == ExprOp::symbol) values[store.at[d].name()] = o.at[d];
      Simplifier simplify = loop_facts(state.program, {}, c.operand_loops.empty() ? c.loops : c.operand_loops[i]);
      Operand direct;
      direct.buffer = scaled->load.buffer;
      for (const Expr& e : scaled->load.at) direct.at.push_back(simplify(e.substitute(values)));
      o = std::move(direct);
      if (!operand_fits(state, c, i)) return false;
      factor *= scaled->factor.value_or(1);
    }
    for (const Nest& n : changed.nests)
      for (const Scalar& s : n.code)
        if (s.op == ScalarOp::load && s.buffer == b) return false;
    if (scaled->factor) scale_accumulators(changed.nests[0], factor, nest.code[static_cast<size_t>(store.value)].where);
    changes.emplace_back(r, std::move(changed));
  }
  if (changes.empty()) return false;
  for (auto& [r, group] : changes) state.replace(r, std::move(group));
  state.kill(p);
  return true;
}

// ---- Joining.

namespace {

// The producer's group with the consumer's code in its (last) nest; none if their points do not correspond.
std::optional<Group> joined(const FusionState& state, const Group& a, const Group& b) {
  Group result = a;
  Nest& nest = result.nests.back();
  const Nest& more = b.nests[0];
  if (nest.code.size() + more.code.size() > kMaxCode) return std::nullopt;
  std::vector<LoopVar> loops(nest.loops.begin(), nest.loops.end() - nest.reduced);
  Simplifier simplify = loop_facts(state.program, a.outer, loops);

  std::map<std::string, Expr> values;
  bool found = false;
  Scalar matched;
  for (const Scalar& s : more.code) {
    if (s.op != ScalarOp::load || found) continue;
    const Store* store = only_store(nest, s.buffer);
    if (!store || store->mode != StoreMode::assign) continue;
    if (!s.when.empty() || !is_free_of_scalars(s.at) || !is_free_of_scalars(store->at)) return std::nullopt;
    const std::vector<Expr>& shape = state.buffer(s.buffer).shape;
    // The producer's points are all elements, once each; the consumer's likewise.
    if (!is_permutation(store->at, loops, shape) && !inverse(store->at, loops, shape, store->at, simplify)) return std::nullopt;
    auto inverted = inverse(s.at, more.loops, shape, store->at, simplify);
    if (!inverted) return std::nullopt;
    values = std::move(*inverted);
    matched = s;
    found = true;
  }
  if (!found) return std::nullopt;

  bool legal = true;
  std::vector<Scalar> code = nest.code;
  {
    CodeBuilder builder(nest.code);
    const auto forward = [&](const Scalar& s, const Scalar& source) -> int {
      if (s.op != ScalarOp::load) return -1;
      for (const Store& store : a.nests.back().stores) {
        if (store.buffer != s.buffer) continue;
        // The load that the loops were inverted by reads what is stored at this point, whatever its index looks like now.
        const bool same = (store.at == s.at || (source.buffer == matched.buffer && source.at == matched.at)) && s.when.empty() && store.mode == StoreMode::assign &&
                          only_store(a.nests.back(), s.buffer);
        if (!same) legal = false;
        return same ? store.value : -1;
      }
      return -1;
    };
    const Appended done = append(builder, more.code, values, simplify, forward);
    for (const Store& store : more.stores) {
      nest.stores.push_back(rewritten(store, done, simplify));
      if (only_store(nest, store.buffer) == nullptr) legal = false;
    }
  }
  if (!legal) return std::nullopt;
  if (!points_are_independent(nest)) return std::nullopt;
  if (a.contraction)
    for (const Operand& o : a.contraction->operands)
      for (const Store& store : nest.stores)
        if (o.buffer == store.buffer) return std::nullopt;
  return result;
}

}  // namespace

bool join_consumer(FusionState& state, int b, Joining joining) {
  if (!is_pointwise(state[b])) return false;
  // Its producers: contractions before reductions before others, later ones first.
  std::vector<std::pair<int, int>> producers;
  for (BufferId read : state.reads(b)) {
    const int a = state.producer(read);
    if (a < 0 || a >= b) continue;
    const Group& g = state[a];
    if (g.rows || g.serial || g.nests.size() != 1 || !g.outer.empty()) continue;
    const int rank = g.contraction ? 2 : g.nests[0].reduced > 0 || has(g.nests[0], ScalarOp::scan) ? 1 : 0;
    if (rank == 0 && (joining == Joining::to_results || (joining == Joining::only_consumers && state.readers(read).size() > 1)))
      continue;
    producers.emplace_back(rank, a);
  }
  std::sort(producers.begin(), producers.end(), std::greater<>());
  producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  for (auto [rank, a] : producers) {
    const int place = state.meeting_place(a, b);
    if (place < 0) continue;
    // Neither may write what the other writes, elsewhere than where it is read.
    bool apart = true;
    for (BufferId w : state.writes(b)) apart = apart && !state.writes(a).contains(w);
    if (!apart) continue;
    std::optional<Group> merged = joined(state, state[a], state[b]);
    if (!merged) continue;
    Nest& nest = merged->nests[0];
    std::erase_if(nest.stores, [&](const Store& s) {
      if (!state.writes(a).contains(s.buffer) || state.leaves(s.buffer)) return false;
      const std::set<int>& readers = state.readers(s.buffer);
      return std::all_of(readers.begin(), readers.end(), [&](int r) { return r == b; });
    });
    clean(nest);
    state.kill(a == place ? b : a);
    state.replace(place, std::move(*merged));
    return true;
  }
  return false;
}

// ---- Sideways.

bool merge_sideways(FusionState& state, int a, int b) {
  const Group &first = state[a], &second = state[b];
  for (const Group* g : {&first, &second})
    if (g->contraction || g->rows || g->serial || !g->outer.empty() || g->nests.size() != 1 ||
        has(g->nests[0], ScalarOp::scan))
      return false;
  const Nest &na = first.nests[0], &nb = second.nests[0];
  if (na.loops.size() != nb.loops.size() || na.reduced != nb.reduced || na.loops.empty() ||
      na.code.size() + nb.code.size() > kMaxCode)
    return false;
  for (size_t i = 0; i < na.loops.size(); ++i)
    if (na.loops[i].extent != nb.loops[i].extent) return false;
  for (BufferId w : state.writes(a))
    if (state.reads(b).contains(w) || state.writes(b).contains(w)) return false;
  for (BufferId w : state.writes(b))
    if (state.reads(a).contains(w)) return false;

  Simplifier simplify = loop_facts(state.program, {}, na.loops);
  std::map<std::string, Expr> values;
  for (size_t i = 0; i < na.loops.size(); ++i) values[nb.loops[i].name] = Expr::symbol(na.loops[i].name);
  Group merged = first;
  Nest& nest = merged.nests[0];
  bool shares = false;
  CodeBuilder code(nest.code);
  const auto shared = [&](const Scalar& s, const Scalar&) -> int {
    for (const Scalar& other : na.code)
      shares = shares || (s.op == ScalarOp::load && state.buffer(s.buffer).kind != BufferKind::weight && same_scalar(s, other));
    return -1;
  };
  const Appended done = append(code, nb.code, values, simplify, shared);
  if (!shares) return false;
  const int place = state.meeting_place(a, b);
  if (place < 0) return false;
  for (const Store& s : nb.stores) nest.stores.push_back(rewritten(s, done, simplify));
  clean(nest);
  state.kill(a == place ? b : a);
  state.replace(place, std::move(merged));
  return true;
}

}  // namespace nacre
