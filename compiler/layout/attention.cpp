#include "compiler/layout/attention.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/device_rows.h"
#include "compiler/loops/code.h"

namespace nacre {

namespace {

using Names = std::map<std::string, std::string>;

// Variables of two accesses that stand in the same places.
bool pair_up(const std::vector<Expr>& from, const std::vector<Expr>& to, Names& names) {
  if (from.size() != to.size()) return false;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d] && from[d].constant()) continue;
    if (from[d].op() != ExprOp::symbol || to[d].op() != ExprOp::symbol) return false;
    const auto [known, added] = names.emplace(from[d].name(), to[d].name());
    if (known->second != to[d].name()) return false;
  }
  return true;
}

// Scores: the accumulator, perhaps times a number, and what is added to it.
struct Scores {
  BufferId buffer = -1;
  std::vector<Expr> at;
  double scale = 1;
  std::vector<Operand> added;
};

std::optional<Scores> scores_of(const Group& group) {
  if (!group.contraction || group.contraction->kind != ContractionKind::matmul || !group.outer.empty()) return std::nullopt;
  const Nest& nest = group.nests[0];
  if (nest.reduced > 0 || nest.stores.size() != 1 || nest.stores[0].mode != StoreMode::assign) return std::nullopt;
  Scores scores;
  int value = -1;  // the score so far
  for (size_t i = 0; i < nest.code.size(); ++i) {
    const Scalar& s = nest.code[i];
    if (s.op == ScalarOp::constant || (s.op == ScalarOp::load && s.when.empty())) continue;
    if (s.op == ScalarOp::accumulator && value < 0) {
      value = static_cast<int>(i);
      continue;
    }
    if (s.op != ScalarOp::pointwise || s.operands.size() != 2 || value < 0) return std::nullopt;
    const bool first = s.operands[0] == value;
    if (!first && s.operands[1] != value) return std::nullopt;
    const Scalar& other = nest.code[static_cast<size_t>(s.operands[first ? 1 : 0])];
    if (s.prim == "mul" && other.op == ScalarOp::constant && scores.added.empty())
      scores.scale *= other.number;
    else if (s.prim == "add" && other.op == ScalarOp::load)
      scores.added.push_back({other.buffer, other.at});
    else
      return std::nullopt;
    value = static_cast<int>(i);
  }
  if (nest.stores[0].value != value) return std::nullopt;
  scores.buffer = nest.stores[0].buffer;
  scores.at = nest.stores[0].at;
  return scores;
}

// Whether a nest of a softmax is so many loads, `prims` and one store.
bool does(const Nest& nest, size_t loads, const std::vector<std::string>& prims) {
  size_t seen = 0;
  for (size_t i = 0; i < nest.code.size(); ++i) {
    const Scalar& s = nest.code[i];
    if (i < loads ? s.op != ScalarOp::load || !s.when.empty() : seen == prims.size() || s.prim != prims[seen++]) return false;
    // Each takes what is before it; the first of two operands are both loads, in their order.
    if (i >= loads && s.operands != (i == loads && loads == 2 ? std::vector<int>{0, 1} : std::vector<int>{static_cast<int>(i) - 1})) return false;
  }
  return seen == prims.size() && nest.stores.size() == 1 && nest.stores[0].value == static_cast<int>(nest.code.size()) - 1 && nest.stores[0].mode == StoreMode::assign;
}

// Where a softmax over the last of its loops reads the scores, and where it leaves the weights.
struct Softmax {
  std::vector<Expr> from, to;
  BufferId buffer = -1;
  std::string row;  // the variable along it, the same in both
};

std::optional<Softmax> softmax_of(const LoopProgram& program, const Group& group, BufferId scores) {
  const auto& n = group.nests;
  if (group.contraction || group.rows || group.serial || group.outer.empty() || n.size() != 4) return std::nullopt;
  if (!does(n[0], 1, {"amax"}) || !does(n[1], 2, {"sub", "exp"}) || !does(n[2], 1, {"sum"}) || !does(n[3], 2, {"div"})) return std::nullopt;
  if (n[0].reduced != 1 || n[1].reduced != 0 || n[2].reduced != 1 || n[3].reduced != 0) return std::nullopt;
  const BufferId greatest = n[0].stores[0].buffer, terms = n[1].stores[0].buffer, total = n[2].stores[0].buffer;
  for (BufferId local : {greatest, terms, total})
    if (program[local].kind != BufferKind::local) return std::nullopt;
  for (const Nest& nest : n)
    if (nest.loops.size() != 1 || nest.loops[0].extent != n[0].loops[0].extent) return std::nullopt;
  const auto reads = [&](const Nest& nest, size_t which, BufferId buffer) { return nest.code[which].buffer == buffer; };
  if (!reads(n[0], 0, scores) || !reads(n[1], 0, scores) || !reads(n[1], 1, greatest) || !reads(n[2], 0, terms) || !reads(n[3], 0, terms) || !reads(n[3], 1, total)) return std::nullopt;
  Softmax softmax{n[0].code[0].at, n[3].stores[0].at, n[3].stores[0].buffer, n[0].loops[0].name};
  // All nests go along the row under one name, or are given that.
  const auto renamed = [&](std::vector<Expr> at, const Nest& nest) {
    for (Expr& e : at) e = e.substitute({{nest.loops[0].name, Expr::symbol(softmax.row)}});
    return at;
  };
  softmax.to = renamed(softmax.to, n[3]);
  if (renamed(n[1].code[0].at, n[1]) != softmax.from || renamed(n[3].code[0].at, n[3]) != renamed(n[1].stores[0].at, n[1])) return std::nullopt;
  return softmax;
}

std::vector<Expr> with_names(const std::vector<Expr>& at, const Names& names) {
  std::map<std::string, Expr> values;
  for (const auto& [from, to] : names) values.emplace(from, Expr::symbol(to));
  std::vector<Expr> result;
  for (const Expr& e : at) result.push_back(e.substitute(values));
  return result;
}

// The three groups as one.
std::optional<Group> attention_of(const Group& first, const Group& second, const Scores& scores, const Softmax& softmax) {
  const Contraction &a = *first.contraction, &b = *second.contraction;
  const size_t batch = a.loops.size() - 3;
  if (b.loops.size() != a.loops.size() || batch < 1 || batch > 2 || b.operands[0].buffer != softmax.buffer) return std::nullopt;
  Names to_softmax, to_second;
  if (!pair_up(scores.at, softmax.from, to_softmax) || !pair_up(softmax.to, b.operands[0].at, to_second)) return std::nullopt;
  const std::string &m = a.loops[batch].name, &n = a.loops[batch + 1].name, &k = a.loops[batch + 2].name;
  const auto paired = [&](const std::string& name) {
    const auto there = to_softmax.find(name);
    const auto end = there == to_softmax.end() ? to_second.end() : to_second.find(there->second);
    return end == to_second.end() ? std::string() : end->second;
  };
  if (to_softmax[n] != softmax.row || paired(m) != b.loops[batch].name || paired(n) != b.loops[batch + 2].name) return std::nullopt;
  // Of some of the scores alone, it would be another softmax.
  if (a.loops[batch].extent != b.loops[batch].extent || a.loops[batch + 1].extent != b.loops[batch + 2].extent) return std::nullopt;
  // Batches, in the order that the second product has them.
  const std::vector<std::string> around = batch == 1 ? std::vector<std::string>{"h"} : std::vector<std::string>{"b", "h"};
  Names of_first{{m, "s"}, {n, "t"}, {k, "d"}}, of_second{{b.loops[batch].name, "s"}, {b.loops[batch + 1].name, "e"}, {b.loops[batch + 2].name, "t"}};
  for (size_t i = 0; i < batch; ++i) of_second[b.loops[i].name] = around[i];
  for (size_t i = 0; i < batch; ++i) {
    if (a.loops[i].extent.is(1) && b.loops[i].extent.is(1)) {  // in no index
      of_first[a.loops[i].name] = around[i];
      continue;
    }
    const std::string other = paired(a.loops[i].name);
    const auto known = of_second.find(other);
    if (other.empty() || known == of_second.end() || std::find(around.begin(), around.end(), known->second) == around.end()) return std::nullopt;
    of_first[a.loops[i].name] = known->second;
  }
  Group group = second;
  Contraction& c = *group.contraction;
  c.kind = ContractionKind::attention;
  c.loops.clear();
  if (batch == 1) c.loops.push_back({"b", 1});
  for (size_t i = 0; i < batch; ++i) c.loops.push_back({around[i], b.loops[i].extent});
  c.loops.push_back({"s", b.loops[batch].extent});
  c.loops.push_back({"e", b.loops[batch + 1].extent});
  c.loops.push_back({"t", a.loops[batch + 1].extent});
  c.loops.push_back({"d", a.loops[batch + 2].extent});
  c.reduced = 2;
  c.scale = scores.scale;
  c.written_out = true;
  c.operands = {{a.operands[0].buffer, with_names(a.operands[0].at, of_first)}, {a.operands[1].buffer, with_names(a.operands[1].at, of_first)},
                {b.operands[1].buffer, with_names(b.operands[1].at, of_second)}};
  Names of_scores;
  for (size_t i = 0; i < first.nests[0].loops.size(); ++i) of_scores[first.nests[0].loops[i].name] = of_first.at(a.loops[i].name);
  for (const Operand& added : scores.added) c.operands.push_back({added.buffer, with_names(added.at, of_scores)});
  if (scores.added.empty()) c.operands.push_back({});
  Nest& nest = group.nests[0];
  if (batch == 1) {
    std::set<std::string> taken;
    for (const LoopVar& loop : nest.loops) taken.insert(loop.name);
    nest.loops.insert(nest.loops.begin(), {unique_name("b", taken), 1});
  }
  return group;
}

}  // namespace

void find_attention(LoopProgram& program, const Target& target) {
  std::map<BufferId, std::vector<size_t>> users;
  for (size_t i = 0; i < program.groups.size(); ++i) {
    std::set<BufferId> all = buffers_read(program.groups[i]);
    all.merge(buffers_written(program.groups[i]));
    for (BufferId id : all) users[id].push_back(i);
  }
  const auto between = [&](BufferId id, size_t first, size_t second) {
    return program[id].kind == BufferKind::temporary && users[id] == std::vector<size_t>{first, second};
  };
  std::set<size_t> gone;
  for (size_t i = 0; i + 2 < program.groups.size(); ++i) {
    const Group &first = program.groups[i], &middle = program.groups[i + 1], &second = program.groups[i + 2];
    if (!second.contraction || second.contraction->kind != ContractionKind::matmul || second.nests[0].reduced > 0 || !second.outer.empty()) continue;
    const auto scores = scores_of(first);
    if (!scores || !between(scores->buffer, i, i + 1)) continue;
    const auto softmax = softmax_of(program, middle, scores->buffer);
    if (!softmax || !between(softmax->buffer, i + 1, i + 2)) continue;
    auto group = attention_of(first, second, *scores, *softmax);
    // The weights are not written then: the second product may read them as its first operand alone.
    if (!group || buffers_read(*group).contains(softmax->buffer) || !attention_fits(program, *group, target)) continue;
    program.groups[i + 2] = std::move(*group);
    gone.insert({i, i + 1});
  }
  std::vector<Group> groups;
  for (size_t i = 0; i < program.groups.size(); ++i)
    if (!gone.contains(i)) groups.push_back(std::move(program.groups[i]));
  program.groups = std::move(groups);
}

}  // namespace nacre
