#include "compiler/layout/patches.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "compiler/loops/code.h"

namespace nacre {

namespace {

constexpr int64_t kPiece = 8;

bool has_few_channels(const LoopProgram& program, const Group& group, const std::map<std::string, HostTensor>& weights) {
  if (!group.contraction || group.contraction->kind != ContractionKind::conv) return false;
  const Contraction& c = *group.contraction;
  const std::vector<LoopVar>&x = c.operand_loops[0], &w = c.operand_loops[1];
  const Buffer& filters = program[c.operands[1].buffer];
  const auto channels = x[1].extent.constant();
  if (!c.groups.is(1) || !channels || *channels >= kPiece || program[c.operands[0].buffer].dtype != NACRE_f32) return false;
  if (filters.kind != BufferKind::weight || filters.dtype != NACRE_f32 || !filters.order.empty() || filters.shape.size() != w.size()) return false;
  int64_t terms = 1;
  for (size_t i = 0; i < w.size(); ++i) {
    if (!w[i].extent.constant() || filters.shape[i] != w[i].extent || c.operands[1].at[i] != Expr::symbol(w[i].name)) return false;
    if (i > 0) terms *= *w[i].extent.constant();
  }
  const auto data = weights.find(filters.target);
  return terms >= 2 * kPiece && data != weights.end() && data->second.dtype == NACRE_f32;
}

// Each filter's terms, and zeros behind them.
HostTensor padded(const HostTensor& from, int64_t filters, int64_t terms, int64_t length, const std::vector<int64_t>& shape) {
  std::byte* bytes = nullptr;
  HostTensor result = make_tensor(NACRE_f32, shape, &bytes);
  std::memset(bytes, 0, result.size_bytes);
  for (int64_t i = 0; i < filters; ++i) std::memcpy(bytes + i * length * 4, from.data.get() + i * terms * 4, static_cast<size_t>(terms) * 4);
  return result;
}

// The group that copies patches, after which `conv` reads them.
Group copy_patches(LoopProgram& program, Group& conv, std::map<std::string, HostTensor>& weights) {
  Contraction& c = *conv.contraction;
  std::vector<LoopVar>&x = c.operand_loops[0], &w = c.operand_loops[1];
  const size_t spatial = x.size() - 2;
  const std::vector<LoopVar> kept = conv.nests[0].loops;
  int64_t terms = 1;
  for (size_t i = 1; i < w.size(); ++i) terms *= *w[i].extent.constant();
  const int64_t length = (terms + kPiece - 1) / kPiece * kPiece, filters = *w[0].extent.constant();

  Buffer patches;
  patches.name = conv.name + ".patches";
  patches.dtype = NACRE_f32;
  patches.shape = {kept[0].extent, Expr(length)};
  patches.order = {0};
  Nest nest;
  nest.loops = {{"image", kept[0].extent}};
  std::vector<Expr> at{Expr::symbol("image"), Expr::symbol("term")};
  for (size_t i = 0; i < spatial; ++i) {
    const std::string name = "place" + std::to_string(i);
    patches.shape.push_back(kept[i + 2].extent);
    patches.order.push_back(static_cast<int>(i + 2));
    nest.loops.push_back({name, kept[i + 2].extent});
    at.push_back(Expr::symbol(name));
  }
  patches.order.push_back(1);
  nest.loops.push_back({"term", Expr(length)});

  Scalar zero;
  zero.op = ScalarOp::constant;
  zero.dtype = NACRE_f32;
  zero.where = c.where;
  Scalar load;
  load.op = ScalarOp::load;
  load.dtype = NACRE_f32;
  load.buffer = c.operands[0].buffer;
  load.operands = {0};
  load.where = c.where;
  const Expr term = Expr::symbol("term");
  std::map<std::string, Expr> values{{x[0].name, Expr::symbol("image")}};
  Expr rest = term;
  for (size_t i = spatial; i-- > 0;) {
    const Expr tap = mod(rest, w[i + 2].extent), from = Expr::symbol("place" + std::to_string(i)) * c.stride[i] - c.padding[i] + tap * c.dilation[i];
    rest = floordiv(rest, w[i + 2].extent);
    values[x[i + 2].name] = from;
    load.when.push_back(Expr::make(ExprOp::le, {Expr(0), from}));
    load.when.push_back(Expr::make(ExprOp::lt, {from, x[i + 2].extent}));
  }
  values[x[1].name] = rest;
  if (length > terms) load.when.push_back(Expr::make(ExprOp::lt, {term, Expr(terms)}));
  for (const Expr& e : c.operands[0].at) load.at.push_back(e.substitute(values));
  nest.code = {zero, load};
  program.buffers.push_back(patches);
  const auto id = static_cast<BufferId>(program.buffers.size()) - 1;
  nest.stores = {{id, at, 1, StoreMode::assign}};
  Facts facts = program.symbols;
  add_loop_facts(facts, nest.loops);
  for (Expr& e : nest.code[1].at) e = simplify(e, facts);

  Buffer folded = program[c.operands[1].buffer];
  std::vector<int64_t> shape{filters, length};
  folded.name += ".patches";
  folded.shape = {Expr(filters), Expr(length)};
  for (size_t i = 0; i < spatial; ++i) {
    shape.push_back(1);
    folded.shape.push_back(1);
    w[i + 2].extent = 1;
    x[i + 2].extent = kept[i + 2].extent;
    c.stride[i] = 1;
    c.padding[i] = 0;
    c.dilation[i] = 1;
  }
  w[1].extent = x[1].extent = length;
  const std::string name = folded.target + ".patches";
  if (!weights.contains(name)) weights.emplace(name, padded(weights.at(folded.target), filters, terms, length, shape));
  folded.target = name;
  program.buffers.push_back(folded);
  c.operands[0] = {id, {}};
  c.operands[1].buffer = static_cast<BufferId>(program.buffers.size()) - 1;
  for (const LoopVar& loop : x) c.operands[0].at.push_back(Expr::symbol(loop.name));

  Group group;
  group.name = "patches";
  group.nests = {nest};
  return group;
}

}  // namespace

void take_patches(LoopProgram& program, std::map<std::string, HostTensor>& weights) {
  std::vector<Group> groups;
  for (Group& group : program.groups) {
    if (has_few_channels(program, group, weights)) groups.push_back(copy_patches(program, group, weights));
    groups.push_back(std::move(group));
  }
  program.groups = std::move(groups);
}

}  // namespace nacre
