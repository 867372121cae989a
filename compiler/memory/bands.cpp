#include "compiler/memory/bands.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/loops/code.h"
#include "compiler/symbolic/affine.h"

namespace nacre {

namespace {

bool all_constant(const std::vector<Expr>& list) {
  return std::all_of(list.begin(), list.end(), [](const Expr& e) { return e.constant().has_value(); });
}
bool all_constant(const std::vector<LoopVar>& loops) {
  return std::all_of(loops.begin(), loops.end(), [](const LoopVar& l) { return l.extent.constant().has_value(); });
}

bool occurs(const std::vector<LoopVar>& loops, const std::string& name) {
  return std::any_of(loops.begin(), loops.end(), [&](const LoopVar& l) { return l.name == name; });
}

size_t place_of(const std::vector<LoopVar>& loops, const std::string& name) {
  return static_cast<size_t>(std::find_if(loops.begin(), loops.end(), [&](const LoopVar& l) { return l.name == name; }) - loops.begin());
}

// The one element store of the group.
struct OnlyStore {
  const Nest* nest = nullptr;
  const Store* store = nullptr;
};
std::optional<OnlyStore> only_store(const LoopProgram& program, const Group& group) {
  OnlyStore found;
  for (const Nest& nest : group.nests)
    for (const Store& s : nest.stores) {
      if (program[s.buffer].kind == BufferKind::local) continue;
      if (found.store || s.mode != StoreMode::assign) return std::nullopt;
      found = {&nest, &s};
    }
  return found.store ? std::optional(found) : std::nullopt;
}

// Rows of `buffer` that an index moves over, as `variable` goes from 0 on.
RowUse use_of(BufferId buffer, const Expr& index, const std::string& variable, Facts facts) {
  RowUse use{buffer, false, 0, 0, 0};
  const auto stride = coefficient(index, variable, facts);
  const Interval at_first = interval(index.substitute({{variable, Expr(0)}}), facts);
  use.all = !stride || !stride->constant() || *stride->constant() < 0 || at_first.min == -kUnbounded || at_first.max == kUnbounded;
  if (use.all) return use;
  use.stride = *stride->constant();
  use.low = at_first.min;
  use.high = at_first.max;
  return use;
}

bool is_conv(const Contraction& c) { return c.kind == ContractionKind::conv; }

// The extents that tell which rows of the image a row of a convolution needs.
struct ConvRows {
  int64_t stride, padding, reach, height;  // reach: from the first tap to the last
  explicit ConvRows(const Contraction& c)
      : stride(*c.stride[0].constant()),
        padding(*c.padding[0].constant()),
        reach((*c.operand_loops[1][2].extent.constant() - 1) * *c.dilation[0].constant()),
        height(*c.operand_loops[0][2].extent.constant()) {}
  Rows of(Rows rows) const {
    return {std::max<int64_t>(0, rows.begin * stride - padding), std::min(height, (rows.end - 1) * stride - padding + reach + 1)};
  }
};

bool contraction_has_rows(const Contraction& c, const Nest& epilogue, const std::string& variable) {
  const size_t place = place_of(epilogue.loops, variable);
  if (!c.results.empty() || !all_constant(c.loops)) return false;
  // The panels of a packed operand do not follow its columns.
  if (c.kind == ContractionKind::matmul) return place + 3 <= c.loops.size();
  return is_conv(c) && place == 2 && all_constant(c.stride) && all_constant(c.padding) && all_constant(c.dilation) &&
         all_constant(c.operand_loops[0]) && all_constant(c.operand_loops[1]);
}

}  // namespace

int row_dim(const Buffer& buffer) {
  if (!all_constant(buffer.shape)) return -1;
  for (size_t i = 0; i < buffer.shape.size(); ++i) {
    const int d = buffer.order.empty() ? static_cast<int>(i) : buffer.order[i];
    if (!buffer.shape[static_cast<size_t>(d)].is(1)) return d;
  }
  return -1;
}

int64_t rows_of(const Buffer& buffer) { return *buffer.shape[static_cast<size_t>(row_dim(buffer))].constant(); }

std::optional<RowWise> row_wise(const LoopProgram& program, int number) {
  const Group& group = program.groups[static_cast<size_t>(number)];
  if (group.rows || group.control || group.serial) return std::nullopt;
  const auto only = only_store(program, group);
  if (!only) return std::nullopt;
  const Buffer& result = program[only->store->buffer];
  const int dim = row_dim(result);
  if ((result.kind != BufferKind::temporary && result.kind != BufferKind::output) || dim < 0) return std::nullopt;
  const Expr& row = only->store->at[static_cast<size_t>(dim)];
  if (row.op() != ExprOp::symbol) return std::nullopt;
  RowWise made{number, only->store->buffer, row.name(), {}};
  const bool outside = occurs(group.outer, made.variable);
  const size_t kept = only->nest->loops.size() - static_cast<size_t>(only->nest->reduced);
  const bool inside = place_of(only->nest->loops, made.variable) < kept;
  if (!outside && (!inside || group.nests.size() != 1)) return std::nullopt;
  if (!all_constant(group.outer) || (group.contraction && !contraction_has_rows(*group.contraction, *only->nest, made.variable))) return std::nullopt;

  for (const Nest& nest : group.nests) {
    if (!all_constant(nest.loops)) return std::nullopt;
    const Facts facts = facts_in(program, group, nest);
    for (const Scalar& s : nest.code) {
      if (s.op == ScalarOp::scan) return std::nullopt;
      if (s.op != ScalarOp::load || program[s.buffer].kind != BufferKind::temporary) continue;
      if (s.buffer == made.result) return std::nullopt;
      const int d = row_dim(program[s.buffer]);
      made.uses.push_back(d < 0 ? RowUse{s.buffer, true, 0, 0, 0} : use_of(s.buffer, s.at[static_cast<size_t>(d)], made.variable, facts));
    }
  }
  if (!group.contraction) return made;
  const Contraction& c = *group.contraction;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& o = c.operands[i];
    if (o.buffer < 0 || program[o.buffer].kind != BufferKind::temporary) continue;
    const int d = row_dim(program[o.buffer]);
    RowUse use{o.buffer, true, 0, 0, 0};
    if (d >= 0 && is_conv(c) && i == 0) {
      // Rows of the image, then of what the operand reads for them.
      Facts facts = program.symbols;
      add_loop_facts(facts, c.operand_loops[0]);
      const ConvRows rows(c);
      const RowUse of_image = use_of(o.buffer, o.at[static_cast<size_t>(d)], c.operand_loops[0][2].name, facts);
      use.all = of_image.all || of_image.stride != 1;
      use.stride = rows.stride;
      use.low = of_image.low - rows.padding;
      use.high = of_image.high - rows.padding + rows.reach;
    } else if (d >= 0 && c.kind == ContractionKind::matmul) {
      Facts facts = program.symbols;
      add_loop_facts(facts, c.loops);
      use = use_of(o.buffer, o.at[static_cast<size_t>(d)], c.loops[place_of(only->nest->loops, made.variable)].name, facts);
    }
    made.uses.push_back(use);
  }
  return made;
}

Chain chain_to(const LoopProgram& program, const std::vector<std::optional<RowWise>>& row_wise, int first, int last) {
  Chain chain;
  if (!row_wise[static_cast<size_t>(last)]) return chain;
  std::map<BufferId, std::vector<int>> readers, writers;
  for (int g = 0; g < static_cast<int>(program.groups.size()); ++g) {
    const Group& group = program.groups[static_cast<size_t>(g)];
    for (BufferId b : buffers_read(group)) readers[b].push_back(g);
    for (BufferId b : buffers_written(group)) writers[b].push_back(g);
  }
  for (const LoopProgram::Mutation& m : program.input_mutations)
    if (m.from >= 0) readers[m.from].push_back(-1);
  if (writers[row_wise[static_cast<size_t>(last)]->result].size() != 1) return chain;
  std::vector<int> members{last};
  const auto is_member = [&](int g) { return std::find(members.begin(), members.end(), g) != members.end(); };
  for (int g = last - 1; g >= first; --g) {
    const auto& candidate = row_wise[static_cast<size_t>(g)];
    if (!candidate || program[candidate->result].kind != BufferKind::temporary) continue;
    const std::vector<int>& users = readers[candidate->result];
    if (users.empty() || writers[candidate->result].size() != 1 || !std::all_of(users.begin(), users.end(), is_member)) continue;
    // What needs every row of it gains nothing.
    const bool in_rows = std::none_of(members.begin(), members.end(), [&](int m) {
      const std::vector<RowUse>& uses = row_wise[static_cast<size_t>(m)]->uses;
      return std::any_of(uses.begin(), uses.end(), [&](const RowUse& use) { return use.buffer == candidate->result && use.all; });
    });
    if (in_rows) members.push_back(g);
  }
  // What the first ones read must still be there when the last one's turn comes.
  for (int g : members)
    for (BufferId b : buffers_read(program.groups[static_cast<size_t>(g)]))
      for (int w : writers[b])
        if (w > g && w < last && !is_member(w)) return chain;
  std::sort(members.begin(), members.end());
  for (int g : members) chain.groups.push_back(*row_wise[static_cast<size_t>(g)]);
  return chain;
}

std::vector<Rows> rows_needed(const LoopProgram& program, const Chain& chain, Rows rows) {
  std::vector<Rows> needed(chain.groups.size());
  needed.back() = rows;
  std::map<BufferId, size_t> maker;
  for (size_t i = 0; i < chain.groups.size(); ++i) maker[chain.groups[i].result] = i;
  for (size_t i = chain.groups.size(); i-- > 0;) {
    const Rows mine = needed[i];
    if (mine.count() <= 0) continue;
    for (const RowUse& use : chain.groups[i].uses) {
      const auto found = maker.find(use.buffer);
      if (found == maker.end()) continue;
      const int64_t height = rows_of(program[use.buffer]);
      const Rows want{std::max<int64_t>(0, use.stride * mine.begin + use.low), std::min(height, use.stride * (mine.end - 1) + use.high + 1)};
      if (want.count() <= 0) continue;
      Rows& all = needed[found->second];
      all = all.count() <= 0 ? want : Rows{std::min(all.begin, want.begin), std::max(all.end, want.end)};
    }
  }
  return needed;
}

std::vector<Rows> bands_of(const LoopProgram& program, const Chain& chain, int64_t count) {
  const int64_t height = rows_of(program[chain.result()]), step = (height + count - 1) / count;
  std::vector<Rows> result;
  for (int64_t begin = 0; begin < height; begin += step) result.push_back({begin, std::min(height, begin + step)});
  return result;
}

namespace {

// What a band has in place of a whole buffer.
struct Part {
  BufferId buffer = -1;
  int64_t first_row = 0;
};

class BandMaker {
 public:
  BandMaker(LoopProgram& program, const std::string& suffix) : program_(program), suffix_(suffix) {}

  // A buffer for some rows of `whole`.
  void add_part(BufferId whole, Rows rows) {
    Buffer part = program_[whole];
    part.name += suffix_;
    part.shape[static_cast<size_t>(row_dim(part))] = rows.count();
    parts_[whole] = {add(std::move(part)), rows.begin};
  }

  // The group for some rows of its result.
  bool make(const RowWise& from, Rows rows) {
    Group group = program_.groups[static_cast<size_t>(from.group)];
    group.name += suffix_;
    shorten(group.outer, from.variable, rows);
    const std::map<std::string, Expr> moved{{from.variable, Expr::symbol(from.variable) + rows.begin}};
    if (group.contraction && !cut(*group.contraction, group.nests[0], from.variable, rows)) return false;
    for (Nest& nest : group.nests) {
      shorten(nest.loops, from.variable, rows);
      Simplifier simplify(facts_in(program_, group, nest));
      for (Scalar& s : nest.code) {
        substitute(s, moved, simplify);
        if (s.op == ScalarOp::load) redirect(s.buffer, s.at, simplify);
      }
      for (Store& s : nest.stores) {
        substitute(s, moved, simplify);
        redirect(s.buffer, s.at, simplify);
      }
    }
    groups.push_back(std::move(group));
    return true;
  }

  std::vector<Group> groups;

 private:
  BufferId add(Buffer buffer) {
    program_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(program_.buffers.size()) - 1;
  }

  static void shorten(std::vector<LoopVar>& loops, const std::string& variable, Rows rows) {
    for (LoopVar& loop : loops)
      if (loop.name == variable) loop.extent = rows.count();
  }

  void redirect(BufferId& buffer, std::vector<Expr>& at, Simplifier& simplify) {
    if (program_[buffer].kind == BufferKind::local) {  // one for each group
      auto [known, added] = parts_.try_emplace(buffer);
      if (added) {
        Buffer own = program_[buffer];
        own.name += suffix_;
        known->second.buffer = add(std::move(own));
      }
      buffer = known->second.buffer;
      return;
    }
    const auto found = parts_.find(buffer);
    if (found == parts_.end()) return;
    Expr& row = at[static_cast<size_t>(row_dim(program_[buffer]))];
    row = simplify(row - found->second.first_row);
    buffer = found->second.buffer;
  }

  bool cut(Contraction& c, const Nest& epilogue, const std::string& variable, Rows rows) {
    const size_t place = place_of(epilogue.loops, variable);
    LoopVar& loop = c.loops[place];
    loop.extent = rows.count();
    if (!is_conv(c)) {
      Facts facts = program_.symbols;
      add_loop_facts(facts, c.loops);
      Simplifier simplify(facts);
      for (Operand& o : c.operands) {
        if (o.buffer < 0) continue;
        for (Expr& e : o.at) e = simplify(e.substitute({{loop.name, Expr::symbol(loop.name) + rows.begin}}));
        redirect(o.buffer, o.at, simplify);
      }
      return true;
    }
    const ConvRows all(c);
    const Rows image = all.of(rows);
    if (image.count() <= 0) return false;
    LoopVar& row = c.operand_loops[0][2];
    row.extent = image.count();
    c.padding[0] = all.padding - rows.begin * all.stride + image.begin;
    Facts facts = program_.symbols;
    add_loop_facts(facts, c.operand_loops[0]);
    Simplifier simplify(facts);
    Operand& o = c.operands[0];
    for (Expr& e : o.at) e = simplify(e.substitute({{row.name, Expr::symbol(row.name) + image.begin}}));
    redirect(o.buffer, o.at, simplify);
    return true;
  }

  LoopProgram& program_;
  const std::string suffix_;
  std::map<BufferId, Part> parts_;
};

}  // namespace

namespace {

// The loop of a reduction that goes over the rows of what it reduces.
struct RowReduction {
  size_t loop = 0;    // of the nest's loops
  size_t scalar = 0;  // the reduction
  int64_t rows = 0;
};

std::optional<RowReduction> row_reduction(const LoopProgram& program, const Group& group) {
  if (group.rows || group.control || group.contraction || group.serial || !group.outer.empty() || group.nests.size() != 1) return std::nullopt;
  const Nest& nest = group.nests[0];
  if (nest.reduced == 0 || !all_constant(nest.loops)) return std::nullopt;
  RowReduction found;
  int reductions = 0;
  const std::vector<bool> under = under_reduction(nest);
  for (size_t i = 0; i < nest.code.size(); ++i) {
    const Scalar& s = nest.code[i];
    if (s.op == ScalarOp::scan) return std::nullopt;
    if (s.op == ScalarOp::reduce) {
      if (s.dtype != NACRE_f32 || (s.prim != "sum" && s.prim != "amax" && s.prim != "amin")) return std::nullopt;
      found.scalar = i;
      ++reductions;
    }
    if (s.op != ScalarOp::load || !under[i] || program[s.buffer].kind != BufferKind::temporary) continue;
    const int d = row_dim(program[s.buffer]);
    if (d < 0 || s.at[static_cast<size_t>(d)].op() != ExprOp::symbol) continue;
    const size_t loop = place_of(nest.loops, s.at[static_cast<size_t>(d)].name());
    if (loop + static_cast<size_t>(nest.reduced) < nest.loops.size() || loop >= nest.loops.size()) continue;
    found.loop = loop;
    found.rows = *nest.loops[loop].extent.constant();
  }
  return reductions == 1 && found.rows > 1 ? std::optional(found) : std::nullopt;
}

}  // namespace

int64_t reduced_rows(const LoopProgram& program, int group) {
  const auto found = row_reduction(program, program.groups[static_cast<size_t>(group)]);
  return found ? found->rows : 0;
}

std::optional<LoopProgram> split_reduction(const LoopProgram& program, int number, int64_t parts) {
  const Group& group = program.groups[static_cast<size_t>(number)];
  const auto found = row_reduction(program, group);
  if (!found || parts < 2 || found->rows % parts != 0 || parts == found->rows) return std::nullopt;
  const Nest& nest = group.nests[0];
  const int64_t rows = found->rows / parts;
  const size_t kept = nest.loops.size() - static_cast<size_t>(nest.reduced);
  std::set<std::string> names;
  for (const LoopVar& loop : nest.loops) names.insert(loop.name);
  const LoopVar part{unique_name("p", names), parts};

  LoopProgram result = program;
  Buffer partial;
  std::set<std::string> buffers;
  for (const Buffer& b : program.buffers) buffers.insert(b.name);
  partial.name = unique_name(group.name + "_parts", buffers);
  partial.dtype = nest.code[found->scalar].dtype;
  partial.shape = {parts};
  std::vector<Expr> at{Expr::symbol(part.name)};
  for (size_t i = 0; i < kept; ++i) {
    partial.shape.push_back(nest.loops[i].extent);
    at.push_back(Expr::symbol(nest.loops[i].name));
  }
  result.buffers.push_back(partial);
  const BufferId id = static_cast<BufferId>(result.buffers.size()) - 1;

  Group first = group, second = group;
  first.name += "_parts";
  Nest& inner = first.nests[0];
  inner.loops.insert(inner.loops.begin(), part);
  inner.loops[found->loop + 1].extent = rows;
  inner.code.resize(found->scalar + 1);
  inner.stores = {{id, at, static_cast<int>(found->scalar), StoreMode::assign}};
  const std::string& row = nest.loops[found->loop].name;
  Simplifier simplify(facts_in(result, first, inner));
  for (Scalar& s : inner.code) substitute(s, {{row, Expr::symbol(part.name) * rows + Expr::symbol(row)}}, simplify);
  clean(inner);

  Nest& outer = second.nests[0];
  outer.loops.resize(kept);
  outer.loops.push_back(part);
  outer.reduced = 1;
  Scalar load;
  load.op = ScalarOp::load;
  load.dtype = partial.dtype;
  load.buffer = id;
  load.at = at;
  const std::vector<bool> under = under_reduction(nest);
  outer.code = {load};
  std::vector<int> numbers(nest.code.size(), 0);
  for (size_t i = 0; i < nest.code.size(); ++i) {
    if (under[i]) continue;
    Scalar s = nest.code[i];
    if (i == found->scalar)
      s.operands = {0};
    else
      renumber(s, numbers);
    numbers[i] = static_cast<int>(outer.code.size());
    outer.code.push_back(std::move(s));
  }
  for (Store& s : outer.stores) renumber(s, numbers);
  clean(outer);
  result.groups[static_cast<size_t>(number)] = std::move(first);
  result.groups.insert(result.groups.begin() + number + 1, std::move(second));
  return result;
}

std::optional<LoopProgram> in_bands(const LoopProgram& program, const Chain& chain, int64_t count) {
  LoopProgram result = program;
  std::vector<Group> groups;
  const std::vector<Rows> bands = bands_of(program, chain, count);
  for (size_t k = 0; k < bands.size(); ++k) {
    BandMaker band(result, fmt::format("_b{}", k));
    const std::vector<Rows> needed = rows_needed(program, chain, bands[k]);
    for (size_t i = 0; i + 1 < chain.groups.size(); ++i) {
      if (needed[i].count() <= 0) return std::nullopt;
      band.add_part(chain.groups[i].result, needed[i]);
    }
    for (size_t i = 0; i < chain.groups.size(); ++i)
      if (!band.make(chain.groups[i], needed[i])) return std::nullopt;
    groups.insert(groups.end(), band.groups.begin(), band.groups.end());
  }
  result.groups.clear();
  for (int g = 0; g < static_cast<int>(program.groups.size()); ++g) {
    const bool member = std::any_of(chain.groups.begin(), chain.groups.end(), [&](const RowWise& r) { return r.group == g; });
    if (!member) result.groups.push_back(program.groups[static_cast<size_t>(g)]);
    if (g == chain.groups.back().group) result.groups.insert(result.groups.end(), groups.begin(), groups.end());
  }
  return result;
}

}  // namespace nacre
