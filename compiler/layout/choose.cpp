#include "compiler/layout/choose.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/codegen/contraction.h"
#include "compiler/layout/generic.h"
#include "compiler/layout/device.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/recurrent.h"
#include "compiler/loops/address.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

bool is_conv(const Contraction& c) { return c.kind == ContractionKind::conv || c.kind == ContractionKind::conv_transpose; }

bool all_constant(const std::vector<LoopVar>& loops) {
  return std::all_of(loops.begin(), loops.end(), [](const LoopVar& l) { return l.extent.constant().has_value(); });
}
bool all_constant(const std::vector<Expr>& list) {
  return std::all_of(list.begin(), list.end(), [](const Expr& e) { return e.constant().has_value(); });
}

// Can a tile of the kernel library compute this at all (whatever the layout)?
bool has_tile(const LoopProgram& program, const Contraction& c) {
  for (const Operand& o : c.operands)
    if (o.buffer >= 0 && program[o.buffer].dtype != NACRE_f32) return false;
  if (c.dtype != NACRE_f32) return false;
  switch (c.kind) {
    case ContractionKind::matmul:
    case ContractionKind::attention: return true;
    case ContractionKind::lstm:
    case ContractionKind::gru: return true;
    case ContractionKind::conv:
    case ContractionKind::conv_transpose: {
      const size_t spatial = c.operand_loops[0].size() - 2;
      if (spatial != 1 && spatial != 2) return false;
      if (program[c.operands[1].buffer].kind != BufferKind::weight || !all_constant(c.operand_loops[1])) return false;
      if (!c.groups.constant() || !c.operand_loops[0][1].extent.constant()) return false;
      if (c.kind == ContractionKind::conv_transpose)
        return all_constant(c.stride) && all_constant(c.padding) && std::all_of(c.dilation.begin(), c.dilation.end(), [](const Expr& e) { return e.is(1); });
      return true;
    }
  }
  return false;
}

// The loop variable that an index moves with most slowly-changing part aside: the first kept variable in it.
std::string main_variable(const Expr& index, const std::vector<std::string>& ranked) {
  const auto symbols = index.symbols();
  for (const std::string& name : ranked)
    if (symbols.contains(name)) return name;
  return {};
}

// Spreads orders of buffers from those that are decided.
class Orders {
 public:
  Orders(LoopProgram& program) : program_(program), decided_(program.buffers.size(), false) {
    for (size_t i = 0; i < decided_.size(); ++i) decided_[i] = !program.buffers[i].order.empty();  // an input that lies so
  }

  void decide(BufferId id, std::vector<int> order) {
    if (program_[id].kind != BufferKind::temporary || decided_[static_cast<size_t>(id)]) return;
    decided_[static_cast<size_t>(id)] = true;
    bool same = true;
    for (size_t i = 0; i < order.size(); ++i) same = same && order[i] == static_cast<int>(i);
    program_[id].order = same ? std::vector<int>{} : order;
  }

  // The buffer's dims sorted by the rank of the variable that moves them; dims that no variable moves stay outside.
  void decide_by(BufferId id, const std::vector<Expr>& at, const std::vector<std::string>& ranked) {
    if (program_[id].kind != BufferKind::temporary || decided_[static_cast<size_t>(id)] || at.size() < 3) return;
    std::vector<std::pair<int, int>> keyed;
    std::set<std::string> used;
    for (size_t d = 0; d < at.size(); ++d) {
      const std::string variable = main_variable(at[d], ranked);
      if (!variable.empty() && !used.insert(variable).second) return;  // two dims move together: leave it
      if (variable.empty() && !program_[id].shape[d].is(1) && !at[d].constant()) return;
      const auto rank = std::find(ranked.begin(), ranked.end(), variable) - ranked.begin();
      keyed.emplace_back(variable.empty() ? -1 : static_cast<int>(rank), static_cast<int>(d));
    }
    std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<int> order;
    for (const auto& [rank, d] : keyed) order.push_back(d);
    decide(id, order);
  }

  // Rows lie in memory as they are.
  void keep_rows() {
    for (const Group& group : program_.groups) {
      if (!group.rows) continue;
      for (const std::vector<BufferId>* list : {&group.rows->inputs, &group.rows->outputs})
        for (BufferId b : *list)
          if (b >= 0) decide(b, {});
    }
  }

  void from_convolutions() {
    for (Group& group : program_.groups) {
      if (!group.contraction || !is_conv(*group.contraction)) continue;
      const Contraction& c = *group.contraction;
      if (!has_tile(program_, c)) continue;
      auto last = [](const std::vector<LoopVar>& loops) {  // n, spatial..., channels
        std::vector<std::string> names{loops[0].name};
        for (size_t i = 2; i < loops.size(); ++i) names.push_back(loops[i].name);
        names.push_back(loops[1].name);
        return names;
      };
      decide_by(c.operands[0].buffer, c.operands[0].at, last(c.operand_loops[0]));
      const auto ranked = last(group.nests[0].loops);
      for (const Store& s : group.nests[0].stores) decide_by(s.buffer, s.at, ranked);
      for (const Scalar& s : group.nests[0].code)
        if (s.op == ScalarOp::load) decide_by(s.buffer, s.at, ranked);
    }
  }

  // What a nest gathers a result of the user's from, more than once, lies as the result does.
  void from_results() {
    for (const Group& group : program_.groups) {
      if (group.contraction) continue;
      for (const Nest& nest : group.nests) {
        const std::vector<std::string> names = loops_around(group, nest);
        for (const Store& s : nest.stores) {
          if (program_[s.buffer].kind != BufferKind::output || !program_[s.buffer].order.empty()) continue;
          for (const Scalar& load : nest.code)
            if (load.op == ScalarOp::load && gathers_along(load.at, s.at, names)) decide(load.buffer, identity(load.at.size()));
        }
      }
    }
  }

  void spread() {
    for (bool changed = true; changed;) {
      const size_t before = static_cast<size_t>(std::count(decided_.begin(), decided_.end(), true));
      for (const Group& group : program_.groups) {
        if (group.contraction) continue;
        for (const Nest& nest : group.nests) spread_in(group, nest);
      }
      changed = static_cast<size_t>(std::count(decided_.begin(), decided_.end(), true)) != before;
    }
  }

 private:
  static std::vector<std::string> loops_around(const Group& group, const Nest& nest) {
    std::vector<std::string> names;
    for (const LoopVar& loop : group.outer) names.push_back(loop.name);
    for (const LoopVar& loop : nest.loops) names.push_back(loop.name);
    return names;
  }
  static std::vector<int> identity(size_t rank) {
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  // Whether two buffers are walked along the same dims, but for some that one of them takes at indices that are computed.
  static bool gathers_along(const std::vector<Expr>& a, const std::vector<Expr>& b, const std::vector<std::string>& names) {
    if (a.size() != b.size()) return false;
    const auto computed = [&](const Expr& e) { return !e.constant() && main_variable(e, names).empty(); };
    bool any = false;
    for (size_t d = 0; d < a.size(); ++d) {
      if (a[d] == b[d]) continue;
      if (!computed(a[d]) && !computed(b[d])) return false;
      any = true;
    }
    return any;
  }

  void spread_in(const Group& group, const Nest& nest) {
    const std::vector<std::string> names = loops_around(group, nest);
    std::vector<std::pair<BufferId, const std::vector<Expr>*>> accesses;
    for (const Store& s : nest.stores) accesses.emplace_back(s.buffer, &s.at);
    for (const Scalar& s : nest.code)
      if (s.op == ScalarOp::load) accesses.emplace_back(s.buffer, &s.at);
    for (const auto& [id, at] : accesses) {
      if (!decided_[static_cast<size_t>(id)] || program_[id].order.empty()) continue;
      std::vector<std::string> ranked;
      for (int d : program_[id].order) {
        const std::string variable = main_variable((*at)[static_cast<size_t>(d)], names);
        if (!variable.empty() && std::find(ranked.begin(), ranked.end(), variable) == ranked.end()) ranked.push_back(variable);
      }
      for (const auto& [other, other_at] : accesses) {
        if (gathers_along(*at, *other_at, names)) decide(other, program_[id].order);
        std::vector<std::string> all = ranked;
        for (const std::string& name : names)
          if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
        bool covered = true;  // every dim of the other moves with a variable that the decided buffer ranks
        for (const Expr& e : *other_at) covered = covered && (e.constant() || !main_variable(e, ranked).empty());
        if (covered) decide_by(other, *other_at, ranked);
      }
      return;
    }
  }

  LoopProgram& program_;
  std::vector<bool> decided_;
};

// A group that copies an operand, as it is over its loop variables, into a new buffer with the given order.
Group copy_operand(LoopProgram& program, Operand& operand, const std::vector<LoopVar>& loops, std::vector<int> order, const Provenance& where) {
  const Buffer& source = program[operand.buffer];
  Buffer buffer;
  buffer.name = source.name + ".copy";
  buffer.dtype = source.dtype;
  buffer.order = std::move(order);
  Nest nest;
  nest.loops = loops;
  Scalar load;
  load.op = ScalarOp::load;
  load.dtype = source.dtype;
  load.buffer = operand.buffer;
  load.at = operand.at;
  load.where = where;
  nest.code = {load};
  std::vector<Expr> at;
  for (const LoopVar& loop : loops) {
    buffer.shape.push_back(loop.extent);
    at.push_back(Expr::symbol(loop.name));
  }
  program.buffers.push_back(buffer);
  const BufferId id = static_cast<BufferId>(program.buffers.size()) - 1;
  nest.stores = {{id, at, 0, StoreMode::assign}};
  operand.buffer = id;
  operand.at = at;
  Group group;
  group.name = "copy";
  group.nests = {nest};
  return group;
}

std::vector<std::string> names_of(const std::vector<LoopVar>& loops) {
  std::vector<std::string> names;
  for (const LoopVar& loop : loops) names.push_back(loop.name);
  return names;
}

class Tiles {
 public:
  Tiles(LoopProgram& program, const Target& target, Packer& packer) : program_(program), target_(target), packer_(packer) {}

  std::vector<Group> choose() {
    std::vector<Group> result;
    for (Group& group : program_.groups) {
      if (!group.contraction) {
        result.push_back(group);
        continue;
      }
      before_.clear();
      std::vector<Group> parts{group};
      if (group.contraction->results.empty() && has_tile(program_, *group.contraction) && !epilogue_fits(program_, group, target_))
        parts = split_epilogue(program_, group);
      if (!has_tile(program_, *parts[0].contraction)) {
        parts[0].contraction->form = ContractionForm::generic;
        const std::vector<Group> loops = as_loops(program_, parts[0]);
        parts.erase(parts.begin());
        parts.insert(parts.begin(), loops.begin(), loops.end());
      } else {
        prepare(*parts[0].contraction);
      }
      result.insert(result.end(), before_.begin(), before_.end());
      result.insert(result.end(), parts.begin(), parts.end());
    }
    return result;
  }

 private:
  void prepare(Contraction& c) {
    switch (c.kind) {
      case ContractionKind::matmul: return matmul(c);
      case ContractionKind::conv:
      case ContractionKind::conv_transpose: return conv(c);
      case ContractionKind::attention: return attention(c);
      case ContractionKind::lstm:
      case ContractionKind::gru: return recurrent(c);
    }
  }

  void copy(Contraction& c, size_t operand, const std::vector<LoopVar>& loops, std::vector<int> order = {}) {
    before_.push_back(copy_operand(program_, c.operands[operand], loops, std::move(order), c.where));
  }

  // The contraction's loops that an operand moves with, in order.
  std::vector<LoopVar> loops_of(const Contraction& c, const Operand& operand) const {
    std::set<std::string> symbols;
    for (const Expr& e : operand.at)
      for (const std::string& s : e.symbols()) symbols.insert(s);
    std::vector<LoopVar> loops;
    for (const LoopVar& loop : c.loops)
      if (symbols.contains(loop.name)) loops.push_back(loop);
    return loops;
  }

  // The same with the loop `name` last: an operand that does not move with it is spread along it.
  static std::vector<LoopVar> with_innermost(const Contraction& c, std::vector<LoopVar> loops, const std::string& name) {
    std::erase_if(loops, [&](const LoopVar& loop) { return loop.name == name; });
    loops.push_back(*std::find_if(c.loops.begin(), c.loops.end(), [&](const LoopVar& loop) { return loop.name == name; }));
    return loops;
  }

  // An operand whose address is not affine in `along` is copied into one that is.
  void make_affine(Contraction& c, size_t operand, const std::vector<std::string>& along) {
    if (!strided(program_, c.operands[operand], c.loops, along)) copy(c, operand, loops_of(c, c.operands[operand]));
  }

  void matmul(Contraction& c) {
    const std::string m = c.loops[c.loops.size() - 3].name, n = c.loops[c.loops.size() - 2].name, k = c.loops.back().name;
    make_affine(c, 0, {m, k});
    const Operand& b = c.operands[1];
    const auto moving = loops_of(c, b);
    const bool shared = std::all_of(moving.begin(), moving.end(), [&](const LoopVar& l) { return l.name == n || l.name == k; });
    const bool sized = c.loops.back().extent.constant() && c.loops[c.loops.size() - 2].extent.constant();
    if (program_[b.buffer].kind == BufferKind::weight && shared && sized) {
      c.form = ContractionForm::packed;
      packer_.matmul(c);
    } else {
      c.form = ContractionForm::direct;
      make_affine(c, 1, {k, n});
    }
  }

  void conv(Contraction& c) {
    const std::vector<LoopVar>& x = c.operand_loops[0];
    const int64_t groups = *c.groups.constant(), channels = *x[1].extent.constant();
    const std::vector<LoopVar> kept(c.loops.begin(), c.loops.end() - c.reduced);
    const bool transposed = c.kind == ContractionKind::conv_transpose;
    const bool depthwise = !transposed && groups == channels && kept[1].extent.is(channels) && groups > 1;
    auto lies = strided(program_, c.operands[0], x, names_of(x));
    const bool planar = !transposed && groups == 1 && channels <= 4 && lies && !(lies->strides[1].is(1));
    if (!planar && !(lies && (lies->strides[1].is(1) || channels == 1))) {
      std::vector<int> order{0};
      for (size_t i = 2; i < x.size(); ++i) order.push_back(static_cast<int>(i));
      order.push_back(1);
      copy(c, 0, x, order);
    }
    if (planar) {
      c.form = ContractionForm::planar;
      packer_.conv(c);
    } else if (depthwise) {
      c.form = ContractionForm::depthwise;
      packer_.depthwise(c);
    } else {
      c.form = ContractionForm::packed;
      transposed ? packer_.conv_transpose(c) : packer_.conv(c);
    }
  }

  void attention(Contraction& c) {
    c.form = ContractionForm::direct;
    const auto &s = c.loops[2].name, &e = c.loops[3].name, &t = c.loops[4].name, &d = c.loops[5].name;
    const std::vector<std::vector<std::string>> along{{s, d}, {t, d}, {t, e}};
    for (size_t i = 0; i < 3; ++i) {
      auto lies = strided(program_, c.operands[i], c.loops, along[i]);
      if (!lies || !lies->strides[1].is(1)) copy(c, i, with_innermost(c, loops_of(c, c.operands[i]), along[i][1]));
    }
    if (c.operands.size() > 3 && c.operands[3].buffer >= 0) make_affine(c, 3, {s, t});
  }

  void recurrent(Contraction& c);

  LoopProgram& program_;
  const Target& target_;
  Packer& packer_;
  std::vector<Group> before_;
};

void Tiles::recurrent(Contraction& c) {
  const bool lstm = c.kind == ContractionKind::lstm;
  const size_t w_ih = lstm ? 3 : 2, w_hh = w_ih + 1;
  for (size_t i : {w_ih, w_hh})
    if (program_[c.operands[i].buffer].kind != BufferKind::weight)
      throw Error(ErrorKind::unsupported, "a recurrent layer whose weights are not constant has no kernel",
                  fmt::format("{}:{}, {}", c.where.file, c.where.line, c.where.module));
  for (size_t i = 0; i < w_ih; ++i) {
    auto lies = strided(program_, c.operands[i], c.operand_loops[i], names_of(c.operand_loops[i]));
    if (!lies || (i > 0 && !lies->strides.back().is(1))) copy(c, i, c.operand_loops[i]);
  }

  for (Group& group : project_inputs(program_, c)) {
    matmul(*group.contraction);
    before_.push_back(std::move(group));
  }
  c.form = ContractionForm::packed;
  packer_.recurrent(c, w_hh, lstm ? 4 : 3);
}

}  // namespace

void choose_orders(LoopProgram& program) {
  Orders orders(program);
  orders.keep_rows();
  orders.from_convolutions();
  orders.from_results();
  orders.spread();
}

LaidOut choose_layout(LoopProgram program, const Target& target) {
  if (target.compute_capability) return {lay_out_for_device(std::move(program), target), {}, {}};
  choose_orders(program);
  Packer packer(program, target);
  program.groups = Tiles(program, target, packer).choose();
  LaidOut result;
  result.packed = packer.take_packed();
  result.packing = packer.take_packing();
  result.packing.symbols = {};
  result.program = std::move(program);
  return result;
}

void lie_channels_last(LoopProgram& program, size_t input) {
  for (const LoopProgram::Mutation& m : program.input_mutations)
    if (m.input == static_cast<int>(input))
      fail(ErrorKind::unsupported, "input {} is changed by the model, so it cannot be taken channels-last without a copy", input);
  Buffer& b = program[program.inputs[input]];
  b.order = {0};
  for (int d = 2; d < static_cast<int>(b.shape.size()); ++d) b.order.push_back(d);
  b.order.push_back(1);
}

}  // namespace nacre
