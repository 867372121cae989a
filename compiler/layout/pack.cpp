#include "compiler/layout/pack.h"

#include <tuple>

#include <fmt/format.h>

#include "compiler/codegen/contraction.h"
#include "compiler/layout/winograd.h"
#include "compiler/support/error.h"
#include "compiler/support/hash.h"

namespace nacre {

namespace {

int64_t constant(const Expr& e) {
  auto n = e.constant();
  check(n.has_value(), "a packed weight has a size that is not constant: {}", e.str());
  return *n;
}

int64_t ceil_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

Expr var(const char* name) { return Expr::symbol(name); }

// `at` of an operand with its loop variables replaced.
std::vector<Expr> replaced(const Operand& operand, const std::vector<LoopVar>& loops, const std::vector<Expr>& values) {
  std::map<std::string, Expr> map;
  for (size_t i = 0; i < loops.size(); ++i) map[loops[i].name] = values[i];
  std::vector<Expr> at;
  for (const Expr& e : operand.at) at.push_back(e.substitute(map));
  return at;
}

Expr less(const Expr& a, const Expr& b) { return Expr::make(ExprOp::lt, {a, b}); }

}  // namespace

BufferId Packer::pack(const Operand& from, const std::string& form, const std::vector<Region>& regions, int64_t elements) {
  const Buffer source = program_[from.buffer];
  std::string key = form;
  for (const Region& r : regions)
    for (const Expr& e : r.at) key += "," + e.str();
  const std::string name = fmt::format("{}@{}.{}", source.target, form, hash_hex(key));
  if (auto found = made_.find(name); found != made_.end()) return found->second;

  Buffer raw = source;
  BufferId in = -1;
  for (size_t i = 0; i < packing_.buffers.size(); ++i)
    if (packing_.buffers[i].kind == BufferKind::weight && packing_.buffers[i].target == raw.target) in = static_cast<BufferId>(i);
  if (in < 0) {
    in = static_cast<BufferId>(packing_.buffers.size());
    packing_.buffers.push_back(raw);
  }
  Buffer packed;
  packed.name = name;
  packed.kind = BufferKind::output;
  packed.dtype = source.dtype;
  packed.shape = {Expr(elements)};
  packed.index = static_cast<int>(packing_.outputs.size());
  const BufferId out = static_cast<BufferId>(packing_.buffers.size());
  packing_.buffers.push_back(packed);
  packing_.outputs.push_back({out, std::nullopt});
  packed_.push_back({name, source.target});
  for (const Region& r : regions) {
    Nest nest;
    nest.loops = r.loops;
    Scalar zero;
    zero.op = ScalarOp::constant;
    zero.dtype = source.dtype;
    Scalar load;
    load.op = ScalarOp::load;
    load.dtype = source.dtype;
    load.buffer = in;
    load.at = r.at;
    load.when = r.when;
    load.operands = {0};
    nest.code = {zero, load};
    Expr offset = 0;
    for (const LoopVar& loop : r.loops) offset = offset * loop.extent + Expr::symbol(loop.name);
    nest.stores = {{out, {offset + r.offset}, 1, StoreMode::assign}};
    Group group;
    group.name = "pack_" + form.substr(0, form.find_first_of("0123456789."));
    group.nests = {nest};
    packing_.groups.push_back(group);
  }

  packed.kind = BufferKind::weight;
  packed.target = name;
  packed.index = -1;
  const BufferId id = static_cast<BufferId>(program_.buffers.size());
  program_.buffers.push_back(packed);
  made_[name] = id;
  return id;
}

int Packer::panel_vectors(const Contraction& c, int64_t columns) const {
  const std::vector<int> panels = panels_for(columns, target_);
  return panels[target_.choose(tile_question(c), panel_choices(panels))];
}

void Packer::choose_way(Contraction& c, int64_t oc) {
  const std::vector<int> direct = panels_for(oc, target_);
  std::vector<std::pair<int, int>> ways;  // outputs of Winograd's algorithm, vectors of a panel
  std::vector<std::string> names;
  for (int outputs : winograd_choices(c, target_)) {
    for (int vectors : outputs ? std::vector<int>{winograd_panel_vectors(oc, target_)} : direct) ways.emplace_back(outputs, vectors);
    for (const std::string& name : outputs ? std::vector<std::string>{fmt::format("winograd {}", outputs)} : panel_choices(direct)) names.push_back(name);
  }
  std::tie(c.winograd, c.panel_vectors) = ways[target_.choose(tile_question(c), names)];
}

void Packer::matmul(Contraction& c) {
  const LoopVar n = c.loops[c.loops.size() - 2], k = c.loops.back();
  c.panel_vectors = panel_vectors(c, constant(n.extent));
  const int64_t nr = c.panel_vectors * target_.vector_floats(), panels = ceil_to(constant(n.extent), nr) / nr;
  const Expr column = var("p") * nr + var("r");
  Region region{{{"p", Expr(panels)}, {"k", k.extent}, {"r", Expr(nr)}}, 0, {}, {less(column, n.extent)}};
  std::map<std::string, Expr> map{{n.name, column}, {k.name, var("k")}};
  for (const Expr& e : c.operands[1].at) region.at.push_back(e.substitute(map));
  c.operands[1].buffer = pack(c.operands[1], fmt::format("panels{}", nr), {region}, panels * nr * constant(k.extent));
  c.operands[1].at = {0};
}

void Packer::conv(Contraction& c) {
  const std::vector<LoopVar>& w = c.operand_loops[1];
  const int64_t groups = constant(c.groups), oc = constant(w[0].extent) / groups, ic = constant(w[1].extent);
  const int64_t kh = w.size() == 4 ? constant(w[2].extent) : 1, kw = constant(w.back().extent);
  choose_way(c, oc);
  const int64_t nr = c.panel_vectors * target_.vector_floats(), panels = ceil_to(oc, nr) / nr;
  const Expr channel = var("p") * nr + var("r");
  Region region{{{"g", Expr(groups)}, {"p", Expr(panels)}, {"y", Expr(kh)}, {"x", Expr(kw)}, {"c", Expr(ic)}, {"r", Expr(nr)}}, 0, {}, {less(channel, Expr(oc))}};
  std::vector<Expr> values{var("g") * oc + channel, var("c")};
  if (w.size() == 4) values.push_back(var("y"));
  values.push_back(var("x"));
  region.at = replaced(c.operands[1], w, values);
  c.operands[1].buffer = pack(c.operands[1], fmt::format("taps{}", nr), {region}, groups * panels * kh * kw * ic * nr);
  c.operands[1].at = {0};
}

void Packer::conv_transpose(Contraction& c) {
  const std::vector<LoopVar>& w = c.operand_loops[1];
  const bool flat = w.size() == 3;
  const int64_t groups = constant(c.groups), ic = constant(w[0].extent) / groups, oc = constant(w[1].extent);
  const int64_t kh = flat ? 1 : constant(w[2].extent), kw = constant(w.back().extent);
  const int64_t sy = flat ? 1 : constant(c.stride[0]), sx = constant(c.stride.back());
  c.panel_vectors = panel_vectors(c, oc);
  const int64_t nr = c.panel_vectors * target_.vector_floats(), panels = ceil_to(oc, nr) / nr;
  std::vector<Region> regions;
  int64_t offset = 0;
  for (int64_t ry = 0; ry < sy; ++ry)
    for (int64_t rx = 0; rx < sx; ++rx) {
      const int64_t ty = ry < kh ? (kh - ry + sy - 1) / sy : 0, tx = rx < kw ? (kw - rx + sx - 1) / sx : 0;
      const Expr channel = var("p") * nr + var("r");
      Region region{{{"g", Expr(groups)}, {"p", Expr(panels)}, {"y", Expr(ty)}, {"x", Expr(tx)}, {"c", Expr(ic)}, {"r", Expr(nr)}}, Expr(offset), {}, {less(channel, Expr(oc))}};
      std::vector<Expr> values{var("g") * ic + var("c"), channel};
      if (!flat) values.push_back((Expr(ty - 1) - var("y")) * sy + ry);
      values.push_back((Expr(tx - 1) - var("x")) * sx + rx);
      region.at = replaced(c.operands[1], w, values);
      const int64_t size = groups * panels * ty * tx * ic * nr;
      if (size > 0) regions.push_back(region);
      offset += size;
    }
  c.operands[1].buffer = pack(c.operands[1], fmt::format("phases{}.{}.{}", nr, sy, sx), regions, offset);
  c.operands[1].at = {0};
}

void Packer::depthwise(Contraction& c) {
  const std::vector<LoopVar>& w = c.operand_loops[1];
  const bool flat = w.size() == 3;
  const int64_t channels = constant(w[0].extent), padded = ceil_to(channels, target_.vector_floats());
  const int64_t kh = flat ? 1 : constant(w[2].extent), kw = constant(w.back().extent);
  Region region{{{"y", Expr(kh)}, {"x", Expr(kw)}, {"c", Expr(padded)}}, 0, {}, {less(var("c"), Expr(channels))}};
  std::vector<Expr> values{var("c"), Expr(0)};
  if (!flat) values.push_back(var("y"));
  values.push_back(var("x"));
  region.at = replaced(c.operands[1], w, values);
  c.operands[1].buffer = pack(c.operands[1], fmt::format("channels{}", padded), {region}, kh * kw * padded);
  c.operands[1].at = {0};
}

void Packer::recurrent(Contraction& c, size_t i, int64_t gates) {
  const std::vector<LoopVar>& w = c.operand_loops[i];
  const int64_t hidden = constant(w[1].extent), lanes = target_.vector_floats(), blocks = ceil_to(hidden, lanes) / lanes;
  const Expr unit = var("p") * lanes + var("r");
  Region region{{{"p", Expr(blocks)}, {"k", Expr(hidden)}, {"g", Expr(gates)}, {"r", Expr(lanes)}}, 0, {}, {less(unit, Expr(hidden))}};
  region.at = replaced(c.operands[i], w, {var("g") * hidden + unit, var("k")});
  c.operands[i].buffer = pack(c.operands[i], fmt::format("gates{}", lanes), {region}, blocks * hidden * gates * lanes);
  c.operands[i].at = {0};
}

}  // namespace nacre
