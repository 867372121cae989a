#include "compiler/fusion/state.h"

#include <algorithm>

#include "compiler/loops/code.h"

namespace nacre {

FusionState::FusionState(LoopProgram p) : program(std::move(p)) {
  regions_ = regions_of(program);
  alive_.assign(program.groups.size(), true);
  reads_.resize(program.groups.size());
  writes_.resize(program.groups.size());
  readers_.resize(program.buffers.size());
  writers_.resize(program.buffers.size());
  for (int g = 0; g < count(); ++g) index(g);
}

void FusionState::index(int group) {
  const auto g = static_cast<size_t>(group);
  reads_[g] = buffers_read(program.groups[g]);
  writes_[g] = buffers_written(program.groups[g]);
  for (BufferId b : reads_[g]) readers_[static_cast<size_t>(b)].insert(group);
  for (BufferId b : writes_[g]) writers_[static_cast<size_t>(b)].insert(group);
}

void FusionState::forget(int group) {
  const auto g = static_cast<size_t>(group);
  for (BufferId b : reads_[g]) readers_[static_cast<size_t>(b)].erase(group);
  for (BufferId b : writes_[g]) writers_[static_cast<size_t>(b)].erase(group);
  reads_[g].clear();
  writes_[g].clear();
}

BufferId FusionState::add_buffer(Buffer buffer) {
  program.buffers.push_back(std::move(buffer));
  readers_.emplace_back();
  writers_.emplace_back();
  return static_cast<BufferId>(program.buffers.size()) - 1;
}

void FusionState::replace(int group, Group with) {
  forget(group);
  program.groups[static_cast<size_t>(group)] = std::move(with);
  index(group);
}

void FusionState::kill(int group) {
  forget(group);
  alive_[static_cast<size_t>(group)] = false;
}

bool FusionState::leaves(BufferId b) const {
  const BufferKind kind = program[b].kind;
  return kind == BufferKind::output || kind == BufferKind::state || kind == BufferKind::input ||
         std::any_of(program.input_mutations.begin(), program.input_mutations.end(),
                     [&](const auto& m) { return m.from == b; });
}

bool FusionState::can_move(int from, int to) const {
  if (!same_region(from, to)) return false;
  const int low = std::min(from, to), high = std::max(from, to);
  // A symbol has its value, and is checked, from there on.
  std::set<std::string> symbols;
  for (int g = low + 1; g < high; ++g) {
    const auto& control = program.groups[static_cast<size_t>(g)].control;
    if (!control || (control->kind != ControlKind::bind && control->kind != ControlKind::check)) continue;
    if (symbols.empty()) symbols = symbols_of(program, program.groups[static_cast<size_t>(from)]);
    std::set<std::string> told{control->symbol};
    if (control->kind == ControlKind::check) told = control->condition.symbols();
    for (const std::string& s : told)
      if (symbols.contains(s)) return false;
  }
  const auto between = [&](const std::set<int>& groups) {
    auto it = groups.upper_bound(low);
    return it != groups.end() && *it < high;
  };
  for (BufferId b : reads(from))
    if (between(writers(b))) return false;
  for (BufferId b : writes(from))
    if (between(writers(b)) || between(readers(b))) return false;
  return true;
}

int FusionState::meeting_place(int a, int b) const {
  if (can_move(b, a)) return a;
  if (can_move(a, b)) return b;
  return -1;
}

LoopProgram FusionState::finish() {
  std::vector<Group> groups;
  std::vector<bool> used(program.buffers.size(), false);
  for (int g = 0; g < count(); ++g) {
    if (!alive(g)) continue;
    for (BufferId b : reads(g)) used[static_cast<size_t>(b)] = true;
    for (BufferId b : writes(g)) used[static_cast<size_t>(b)] = true;
    groups.push_back(std::move(program.groups[static_cast<size_t>(g)]));
  }
  for (const auto& o : program.outputs)
    if (o.buffer >= 0) used[static_cast<size_t>(o.buffer)] = true;
  for (const auto& m : program.input_mutations) used[static_cast<size_t>(m.from)] = true;
  for (size_t b = 0; b < used.size(); ++b)
    if (program.buffers[b].kind == BufferKind::input || program.buffers[b].kind == BufferKind::state) used[b] = true;

  std::vector<BufferId> number(used.size(), -1);
  std::vector<Buffer> buffers;
  for (size_t b = 0; b < used.size(); ++b) {
    if (!used[b]) continue;
    number[b] = static_cast<BufferId>(buffers.size());
    buffers.push_back(std::move(program.buffers[b]));
  }
  const auto renumber_buffer = [&](BufferId& b) {
    if (b >= 0) b = number[static_cast<size_t>(b)];
  };
  for (Group& g : groups) {
    for (Nest& n : g.nests) {
      for (Scalar& s : n.code) renumber_buffer(s.buffer);
      for (Store& s : n.stores) renumber_buffer(s.buffer);
    }
    if (g.contraction) {
      for (Operand& o : g.contraction->operands) renumber_buffer(o.buffer);
      for (BufferId& b : g.contraction->results) renumber_buffer(b);
    }
    if (g.control) renumber_buffer(g.control->buffer);
    if (g.rows)
      for (std::vector<BufferId>* list : {&g.rows->inputs, &g.rows->outputs})
        for (BufferId& b : *list) renumber_buffer(b);
  }
  for (BufferId& b : program.inputs) renumber_buffer(b);
  for (auto& o : program.outputs) renumber_buffer(o.buffer);
  for (auto& m : program.input_mutations) renumber_buffer(m.from);
  program.groups = std::move(groups);
  program.buffers = std::move(buffers);
  return std::move(program);
}

}  // namespace nacre
