#include "compiler/fusion/device.h"

#include <algorithm>
#include <optional>

#include "compiler/fusion/cost.h"
#include "compiler/fusion/edit.h"
#include "compiler/fusion/rules.h"
#include "compiler/loops/address.h"

namespace nacre {
namespace {

constexpr size_t kMostParts = 4;
constexpr double kMostCost = 4;

bool is_lone_nest(const Group& g) { return !g.contraction && !g.rows && !g.control && !g.serial && g.outer.empty() && g.nests.size() == 1; }

// ---- Values that are cheap to compute from others.

// The code that makes scalar `to` of a load that stands for scalar `from`, or none.
std::optional<std::vector<Scalar>> code_between(const std::vector<Scalar>& code, int from, int to, const Scalar& load) {
  std::vector<Scalar> made{load};
  std::map<int, int> numbers{{from, 0}};
  double cost = 0;
  for (int i = from + 1; i <= to; ++i) {
    Scalar s = code[static_cast<size_t>(i)];
    if (s.op != ScalarOp::pointwise && s.op != ScalarOp::constant) continue;
    const bool known = std::all_of(s.operands.begin(), s.operands.end(), [&](int o) { return numbers.contains(o); });
    if (!known) continue;
    for (int& o : s.operands) o = numbers.at(o);
    cost += operation_cost(s);
    numbers[i] = static_cast<int>(made.size());
    made.push_back(std::move(s));
  }
  if (!numbers.contains(to) || cost > kMostCost) return std::nullopt;
  return made;
}

// Stores that only sums read become groups of their own, for the rules to compute where they are read. The numbers of such groups.
std::vector<size_t> part_recomputable(LoopProgram& program) {
  std::map<BufferId, int> writers;
  std::set<BufferId> summed, others;
  for (const Group& group : program.groups) {
    for (BufferId b : buffers_written(group)) ++writers[b];
    const bool sums = !group.contraction && !group.rows && !group.control;
    for (BufferId b : buffers_read(group)) (sums ? summed : others).insert(b);
    for (const Nest& nest : group.nests)
      if (nest.reduced == 0)
        for (const Scalar& s : nest.code)
          if (s.op == ScalarOp::load) others.insert(s.buffer);
  }
  for (const auto& m : program.input_mutations) others.insert(m.from);
  std::vector<size_t> parts;
  for (size_t g = 0; g < program.groups.size(); ++g) {
    if (!program.groups[g].outer.empty() || program.groups[g].nests.size() != 1 || program.groups[g].serial) continue;
    Nest& nest = program.groups[g].nests[0];
    for (size_t i = 0; i < nest.stores.size(); ++i) {
      const Store two = nest.stores[i];
      if (program[two.buffer].kind != BufferKind::temporary || two.mode != StoreMode::assign || writers[two.buffer] != 1 || others.contains(two.buffer) || !summed.contains(two.buffer)) continue;
      for (const Store& one : nest.stores) {
        if (one.buffer == two.buffer || one.at != two.at || one.mode != StoreMode::assign || one.value >= two.value || writers[one.buffer] != 1) continue;
        if (program[one.buffer].dtype != NACRE_f32 || program[two.buffer].dtype != NACRE_f32 || program[one.buffer].kind != BufferKind::temporary) continue;
        Scalar load;
        load.op = ScalarOp::load;
        load.dtype = NACRE_f32;
        load.buffer = one.buffer;
        load.at = one.at;
        auto code = code_between(nest.code, one.value, two.value, load);
        if (!code) continue;
        Group part;
        part.name = program.groups[g].name;
        Nest own;
        own.loops.assign(nest.loops.begin(), nest.loops.end() - nest.reduced);
        own.code = std::move(*code);
        own.stores = {{two.buffer, two.at, static_cast<int>(own.code.size()) - 1, StoreMode::assign}};
        clean(own);
        part.nests.push_back(std::move(own));
        nest.stores.erase(nest.stores.begin() + static_cast<std::ptrdiff_t>(i--));
        clean(nest);
        program.groups.insert(program.groups.begin() + static_cast<std::ptrdiff_t>(g) + 1, std::move(part));
        parts.push_back(g + 1);
        break;
      }
      if (!parts.empty() && parts.back() == g + 1) break;  // the list has moved
    }
  }
  return parts;
}

// ---- Concatenations.

struct Part {
  size_t group = 0;
  Expr begin, extent;  // along the dim of the concatenation
};

// The parts of a buffer along one dim, in order, each written by a nest of its own; none if it is not made so.
std::optional<std::pair<size_t, std::vector<Part>>> parts_of(const LoopProgram& program, BufferId b, const std::vector<size_t>& writers) {
  const std::vector<Expr>& shape = program[b].shape;
  std::optional<size_t> dim;
  std::vector<Part> parts;
  for (size_t g : writers) {
    const Group& group = program.groups[g];
    if (!is_lone_nest(group) || group.nests[0].reduced > 0 || group.nests[0].stores.size() != 1) return std::nullopt;
    const Nest& nest = group.nests[0];
    const Store& store = nest.stores[0];
    if (store.mode != StoreMode::assign || std::any_of(nest.code.begin(), nest.code.end(), [](const Scalar& s) { return s.op == ScalarOp::scan; })) return std::nullopt;
    std::set<std::string> used;
    Part part{g, 0, 0};
    bool is_part = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      Expr at = store.at[d];
      const std::set<std::string> symbols = at.symbols();
      if (symbols.empty() && at.constant() && shape[d].is(1)) continue;
      const LoopVar* loop = nullptr;
      for (const LoopVar& l : nest.loops)
        if (symbols.contains(l.name)) loop = &l;
      if (!loop || !used.insert(loop->name).second) return std::nullopt;
      const Expr begin = simplify(at - Expr::symbol(loop->name), program.symbols);
      if (!begin.constant()) return std::nullopt;
      if (begin.is(0) && loop->extent == shape[d]) continue;
      if (dim && *dim != d) return std::nullopt;
      dim = d;
      is_part = true;
      part.begin = begin;
      part.extent = loop->extent;
    }
    if (used.size() != static_cast<size_t>(std::count_if(nest.loops.begin(), nest.loops.end(), [](const LoopVar& l) { return !l.extent.is(1); })) && used.size() != nest.loops.size()) return std::nullopt;
    if (!is_part) return std::nullopt;  // all of it, which the others then write over
    parts.push_back(part);
  }
  if (!dim) return std::nullopt;
  std::sort(parts.begin(), parts.end(), [](const Part& one, const Part& two) { return *one.begin.constant() < *two.begin.constant(); });
  Expr end = 0;
  for (const Part& part : parts) {
    if (!part.extent.constant() || part.begin != end) return std::nullopt;
    end = simplify(end + part.extent, program.symbols);
  }
  if (end != simplify(shape[*dim], program.symbols)) return std::nullopt;
  return std::pair{*dim, parts};
}

// Reads of a concatenation become reads of its parts, which get buffers of their own.
bool choose_among_parts(LoopProgram& program, BufferId b) {
  if (program[b].kind != BufferKind::temporary || std::any_of(program.input_mutations.begin(), program.input_mutations.end(), [&](const auto& m) { return m.from == b; })) return false;
  std::vector<size_t> writers, readers;
  for (size_t g = 0; g < program.groups.size(); ++g) {
    if (buffers_written(program.groups[g]).contains(b)) writers.push_back(g);
    if (buffers_read(program.groups[g]).contains(b)) readers.push_back(g);
  }
  if (writers.size() < 2 || writers.size() > kMostParts || readers.size() != 1 || readers[0] < writers.back()) return false;
  const Group& reader = program.groups[readers[0]];
  if (reader.contraction || reader.rows || reader.control) return false;
  for (const Nest& nest : reader.nests)
    if (nest.reduced > 0)
      for (const Scalar& s : nest.code)
        if (s.op == ScalarOp::load && s.buffer == b) return false;
  const Regions regions = regions_of(program);
  for (size_t w : writers)
    if (regions.of_group[w] != regions.of_group[readers[0]]) return false;
  const auto found = parts_of(program, b, writers);
  if (!found) return false;
  const auto& [dim, parts] = *found;
  std::vector<BufferId> own;
  for (const Part& part : parts) {
    Buffer buffer = program[b];
    buffer.name += ".part";
    buffer.shape[dim] = part.extent;
    own.push_back(static_cast<BufferId>(program.buffers.size()));
    program.buffers.push_back(std::move(buffer));
    Store& store = program.groups[part.group].nests[0].stores[0];
    store.buffer = own.back();
    store.at[dim] = simplify(store.at[dim] - part.begin, program.symbols);
  }
  for (Nest& nest : program.groups[readers[0]].nests) {
    Simplifier simplify = loop_facts(program, program.groups[readers[0]].outer, nest.loops);
    std::vector<Scalar> code;
    std::vector<int> numbers;
    std::map<std::string, Expr> names;
    for (size_t i = 0; i < nest.code.size(); ++i) {
      Scalar s = nest.code[i];
      renumber(s, numbers);
      if (s.op == ScalarOp::load && s.buffer == b) {
        int otherwise = s.operands.empty() ? -1 : s.operands[0];
        if (otherwise < 0) {
          Scalar zero;
          zero.op = ScalarOp::constant;
          zero.dtype = s.dtype;
          zero.expr = Expr(0);
          otherwise = static_cast<int>(code.size());
          code.push_back(std::move(zero));
        }
        for (size_t p = parts.size(); p-- > 0;) {
          Scalar part = s;
          const Expr at = s.at[dim], end = simplify(parts[p].begin + parts[p].extent);
          part.buffer = own[p];
          part.at[dim] = simplify(at - parts[p].begin);
          if (p > 0) part.when.push_back(simplify(Expr::make(ExprOp::le, {parts[p].begin, at})));
          if (p + 1 < parts.size()) part.when.push_back(simplify(Expr::make(ExprOp::lt, {at, end})));
          part.operands = {otherwise};
          otherwise = static_cast<int>(code.size());
          code.push_back(std::move(part));
        }
      } else {
        code.push_back(std::move(s));
      }
      numbers.push_back(static_cast<int>(code.size()) - 1);
    }
    for (Store& store : nest.stores) renumber(store, numbers);
    nest.code = std::move(code);
  }
  return true;
}

}  // namespace

LoopProgram fuse_for_device(LoopProgram program) {
  const std::vector<size_t> recomputed = part_recomputable(program);
  for (size_t b = program.buffers.size(); b-- > 0;) choose_among_parts(program, static_cast<BufferId>(b));
  FusionState state(std::move(program));
  for (size_t g : recomputed)
    if (!inline_producer(state, static_cast<int>(g))) join_consumer(state, static_cast<int>(g), Joining::always);
  for (int round = 0; round < 8; ++round) {
    bool changed = false;
    for (int g = 0; g < state.count(); ++g)
      for (const auto& rule : {+[](FusionState& s, int at) { return join_consumer(s, at, Joining::to_results); }, +[](FusionState& s, int at) { return join_consumer(s, at, Joining::only_consumers); }, &inline_producer})
        while (state.alive(g) && rule(state, g)) changed = true;
    if (!changed) break;
  }
  return state.finish();
}

}  // namespace nacre
