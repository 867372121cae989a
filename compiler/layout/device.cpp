#include "compiler/layout/device.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/codegen/device_rows.h"
#include "compiler/layout/attention.h"
#include "compiler/layout/generic.h"
#include "compiler/layout/merge.h"
#include "compiler/layout/recurrent.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"

namespace nacre {

namespace {

bool has_locals(const LoopProgram& program, const Group& group) {
  const std::set<BufferId> written = buffers_written(group);
  return std::any_of(written.begin(), written.end(), [&](BufferId id) { return program[id].kind == BufferKind::local; });
}

// Whether all operands are, or become as they are loaded, float32.
bool reads_float32(const LoopProgram& program, const Contraction& c) {
  return std::all_of(c.operands.begin(), c.operands.end(), [&](const Operand& o) { return o.buffer < 0 || compute_type(program[o.buffer].dtype) == NACRE_f32; });
}

// Does the tile of the kernel library pay? Where one side is short, a warp or a thread for each result is as good.
bool has_tile(const LoopProgram& program, const Contraction& c) {
  constexpr int64_t kShortSide = 8;
  if (c.kind == ContractionKind::attention || compute_type(c.dtype) != NACRE_f32) return false;
  if (!reads_float32(program, c)) return false;
  const nacre_dtype a = program[c.operands[0].buffer].dtype, b = program[c.operands[1].buffer].dtype;
  if (a != b && a != NACRE_f32 && b != NACRE_f32) return false;
  const auto size = [&](const Expr& e) { return typical(e, program.symbols); };
  if (c.kind == ContractionKind::matmul) return size(c.loops[c.loops.size() - 3].extent) >= kShortSide && size(c.loops[c.loops.size() - 2].extent) >= kShortSide;
  // Of single pixels it is a product, and as that.
  Expr places = c.loops[0].extent, taps = 1;
  for (size_t i = 2; i < c.operand_loops[1].size(); ++i) {
    places = places * c.loops[i].extent;
    taps = taps * c.operand_loops[1][i].extent;
  }
  return (size(places) >= kShortSide || !taps.is(1)) && size(floordiv(c.loops[1].extent, c.groups)) >= kShortSide;
}

// Do two products with the scores in memory pay? Where one side is short, or the scores are very many, rows by themselves are better.
bool has_products(const LoopProgram& program, const Group& group) {
  constexpr double kShortSide = 8, kMostScores = 1 << 26;
  const Contraction& c = *group.contraction;
  if (c.kind != ContractionKind::attention || c.written_out || c.operands.size() > 4 || !group.outer.empty() || group.nests[0].reduced > 0) return false;
  if (!reads_float32(program, c)) return false;
  const auto size = [&](size_t loop) { return static_cast<double>(typical(c.loops[loop].extent, program.symbols)); };
  return size(2) >= kShortSide && size(3) >= kShortSide && size(4) >= kShortSide && size(0) * size(1) * size(2) * size(4) <= kMostScores;
}

// An epilogue that reduces is a group of its own.
std::vector<Group> with_epilogue(LoopProgram& program, const Group& group) {
  if (group.nests[0].reduced == 0 && group.outer.empty()) return {group};
  return split_epilogue(program, group);
}

// Without contractions other than those that the kernel library has.
std::vector<Group> as_kernels(LoopProgram& program, const Group& group, const Target& target) {
  if (group.contraction && is_recurrent(group.contraction->kind)) {
    Group layer = group;
    std::vector<Group> parts;
    for (const Group& before : project_inputs(program, *layer.contraction))
      for (const Group& part : as_kernels(program, before, target)) parts.push_back(part);
    layer.contraction->form = ContractionForm::direct;
    parts.push_back(layer);
    return parts;
  }
  if (group.contraction && group.contraction->kind == ContractionKind::attention && attention_fits(program, group, target)) return {group};
  if (group.contraction && has_products(program, group)) return attention_as_products(program, group);
  if (group.contraction) return has_tile(program, *group.contraction) ? with_epilogue(program, group) : as_loops(program, group);
  if (group.nests.size() < 2 || !group.outer.empty() || group.serial || has_locals(program, group)) return {group};
  std::vector<Group> parts;
  for (const Nest& nest : group.nests) {
    parts.push_back(group);
    parts.back().nests = {nest};
  }
  return parts;
}

// Where every nest begins with a loop of one length, and each iteration of it is alone with its part of the local buffers, that loop
// may go around them all: more teams, with less to keep each. Rows of a normalisation fused over a batch of one are such.
bool deepen(LoopProgram& program, Group& group) {
  if (group.outer.empty() || group.contraction || group.rows || group.serial) return false;
  const std::set<BufferId> read = buffers_read(group), written = buffers_written(group);
  for (BufferId id : written)
    if (program[id].kind != BufferKind::local && read.contains(id)) return false;
  std::optional<Expr> extent;
  for (const Nest& nest : group.nests) {
    const bool scans = std::any_of(nest.code.begin(), nest.code.end(), [](const Scalar& s) { return s.op == ScalarOp::scan; });
    if (nest.loops.size() <= static_cast<size_t>(nest.reduced) + (scans ? 1 : 0)) return false;
    const Expr own = simplify(nest.loops[0].extent, program.symbols);
    if (extent && simplify(*extent - own, program.symbols) != Expr(0)) return false;
    extent = own;
    const std::string& variable = nest.loops[0].name;
    const auto alone = [&](BufferId id, const std::vector<Expr>& at) {
      if (id < 0 || program[id].kind != BufferKind::local) return true;
      if (at.empty() || !program[id].order.empty() || at[0] != Expr::symbol(variable)) return false;
      return std::none_of(at.begin() + 1, at.end(), [&](const Expr& e) { return e.symbols().contains(variable); });
    };
    for (const Scalar& s : nest.code)
      if (s.op == ScalarOp::load && !alone(s.buffer, s.at)) return false;
    for (const Store& s : nest.stores)
      if (!alone(s.buffer, s.at)) return false;
  }
  if (!extent) return false;
  std::set<std::string> taken;
  for (const LoopVar& loop : group.outer) taken.insert(loop.name);
  for (const Nest& nest : group.nests)
    for (const LoopVar& loop : nest.loops) taken.insert(loop.name);
  const std::string name = unique_name("row", taken);
  std::set<BufferId> shortened;
  for (Nest& nest : group.nests) {
    Simplifier simplify(program.symbols);
    const std::map<std::string, Expr> values{{nest.loops[0].name, Expr::symbol(name)}};
    const auto edit = [&](auto& access) {
      for_each_expr(access, [&](Expr& e) { e = e.substitute(values); });
      if (access.buffer < 0 || program[access.buffer].kind != BufferKind::local || access.at.empty()) return;
      access.at.erase(access.at.begin());
      shortened.insert(access.buffer);
    };
    for (Scalar& s : nest.code) edit(s);
    for (Store& s : nest.stores) edit(s);
    nest.loops.erase(nest.loops.begin());
  }
  for (BufferId id : shortened) program[id].shape.erase(program[id].shape.begin());
  group.outer.push_back({name, *extent});
  return true;
}

}  // namespace

LoopProgram lay_out_for_device(LoopProgram program, const Target& target) {
  find_attention(program, target);
  std::vector<Group> groups;
  for (const Group& group : std::vector<Group>(program.groups))
    for (Group& part : as_kernels(program, group, target)) groups.push_back(std::move(part));
  program.groups = std::move(groups);
  program = merge_kernels(std::move(program), target);
  for (Group& group : program.groups)
    while (deepen(program, group)) {
    }
  return program;
}

}  // namespace nacre
