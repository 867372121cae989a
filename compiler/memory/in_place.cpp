#include "compiler/memory/in_place.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/loops/code.h"
#include "compiler/loops/regions.h"
#include "compiler/memory/bands.h"
#include "compiler/memory/lifetimes.h"

namespace nacre {

namespace {

// Each point writes an element of its own.
bool is_one_to_one(const Group& group, const Nest& nest, const Store& store) {
  std::set<std::string> used;
  for (const Expr& e : store.at) {
    if (e.constant()) continue;
    if (e.op() != ExprOp::symbol || !used.insert(e.name()).second) return false;
  }
  const size_t kept = nest.loops.size() - static_cast<size_t>(nest.reduced);
  const auto occurs = [&](const LoopVar& loop) { return loop.extent.is(1) || used.contains(loop.name); };
  return std::all_of(group.outer.begin(), group.outer.end(), occurs) &&
         std::all_of(nest.loops.begin(), nest.loops.begin() + static_cast<std::ptrdiff_t>(kept), occurs);
}

// How far the row that is read lies behind the row that is written, where all other indices agree.
std::optional<int64_t> rows_between(const std::vector<Expr>& read, const std::vector<Expr>& written, int row, const Facts& facts) {
  int64_t shift = 0;
  for (size_t d = 0; d < written.size(); ++d) {
    if (read[d] == written[d]) continue;
    const auto difference = simplify(read[d] - written[d], facts).constant();
    if (static_cast<int>(d) != row || !difference) return std::nullopt;
    shift = *difference;
  }
  return shift;
}

// Reads no element but those that this iteration of the outer loops writes.
bool stays_in_iteration(const Group& group, const std::vector<Expr>& read, const std::vector<Expr>& written, int row, int64_t shift, const Facts& facts) {
  for (size_t d = 0; d < written.size(); ++d) {
    const bool outer = written[d].op() == ExprOp::symbol &&
                       std::any_of(group.outer.begin(), group.outer.end(), [&](const LoopVar& l) { return l.name == written[d].name(); });
    const Expr place = static_cast<int>(d) == row ? written[d] + shift : written[d];
    if (outer && !simplify(read[d] - place, facts).is(0)) return false;
  }
  return true;
}

// If `from` is read by no point after another point wrote the element of `to` that would take its place: the row of `from` that
// row 0 of `to` would take.
std::optional<int64_t> row_to_share(const LoopProgram& program, const Group& group, BufferId from, BufferId to) {
  if (group.rows || group.control || group.serial) return std::nullopt;
  if (group.contraction) {
    for (const Operand& o : group.contraction->operands)
      if (o.buffer == from) return std::nullopt;
    for (BufferId b : group.contraction->results)
      if (b == from || b == to) return std::nullopt;
  }
  const Store* store = nullptr;
  size_t writer = 0;
  for (size_t n = 0; n < group.nests.size(); ++n)
    for (const Store& s : group.nests[n].stores) {
      if (s.buffer == from) return std::nullopt;
      if (s.buffer != to) continue;
      if (store || s.mode != StoreMode::assign || !is_one_to_one(group, group.nests[n], s)) return std::nullopt;
      store = &s;
      writer = n;
    }
  if (!store) return std::nullopt;
  const int row = row_dim(program[from]);
  const auto for_each_read = [&](auto visit) {
    for (size_t n = 0; n < group.nests.size(); ++n)
      for (const Scalar& s : group.nests[n].code)
        if (s.op == ScalarOp::load && (s.buffer == from || s.buffer == to) && !visit(n, s)) return false;
    return true;
  };
  std::optional<int64_t> shift;
  const bool same = for_each_read([&](size_t n, const Scalar& s) {
    if (s.buffer == to || n > writer) return false;
    if (n < writer) return true;
    const auto between = rows_between(s.at, store->at, row, facts_in(program, group, group.nests[n]));
    if (!between || (shift && *shift != *between)) return false;
    shift = between;
    return true;
  });
  if (!same) return std::nullopt;
  if (!shift) shift = 0;  // read by other nests only
  // Without outer loops, every nest before this one has run to its end.
  const bool stays = for_each_read([&](size_t n, const Scalar& s) {
    return n == writer || stays_in_iteration(group, s.at, store->at, row, *shift, facts_in(program, group, group.nests[n]));
  });
  return stays ? shift : std::nullopt;
}

bool same_but_for_rows(const Buffer& a, const Buffer& b, int row) {
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (static_cast<int>(d) != row && a.shape[d] != b.shape[d]) return false;
  return true;
}

class InPlace {
 public:
  explicit InPlace(LoopProgram program) : program_(std::move(program)), regions_(regions_of(program_)), users_(program_.buffers.size()) {
    for (size_t g = 0; g < program_.groups.size(); ++g)
      for_each_buffer(program_.groups[g], [&](BufferId b) { users_[static_cast<size_t>(b)].insert(static_cast<int>(g)); });
    for (const LoopProgram::Mutation& m : program_.input_mutations)
      if (m.from >= 0) kept_.insert(m.from);
  }

  LoopProgram run() {
    for (int g = 0; g < static_cast<int>(program_.groups.size()); ++g) {
      const std::set<BufferId> reads = buffers_read(program_.groups[static_cast<size_t>(g)]);
      for (BufferId to : buffers_written(program_.groups[static_cast<size_t>(g)]))
        for (BufferId from : reads)
          if (const auto row = can_share(g, from, to)) {
            share(from, to, *row);
            break;
          }
    }
    return std::move(program_);
  }

 private:
  std::optional<int64_t> can_share(int g, BufferId from, BufferId to) const {
    const Buffer &a = program_[from], &b = program_[to];
    if (a.kind != BufferKind::temporary || b.kind != BufferKind::temporary || a.dtype != b.dtype || a.shape.size() != b.shape.size() || a.order != b.order) return std::nullopt;
    const bool alike = a.shape == b.shape;
    const int row = row_dim(a);
    if (!alike && (row < 0 || !b.shape[static_cast<size_t>(row)].constant() || !same_but_for_rows(a, b, row))) return std::nullopt;
    if (kept_.contains(from) || kept_.contains(to)) return std::nullopt;
    const std::set<int> &old = users_[static_cast<size_t>(from)], &made = users_[static_cast<size_t>(to)];
    if (*old.rbegin() != g || *made.begin() != g) return std::nullopt;
    for (const std::set<int>* users : {&old, &made})
      for (int user : *users)
        if (regions_.of_group[static_cast<size_t>(user)] != regions_.of_group[static_cast<size_t>(g)]) return std::nullopt;
    // A value that goes round a loop is read before it is written.
    if (!buffers_written(program_.groups[static_cast<size_t>(*old.begin())]).contains(from)) return std::nullopt;
    const auto at = row_to_share(program_, program_.groups[static_cast<size_t>(g)], from, to);
    if (!at || (alike && *at == 0)) return at;
    // The other's rows are some of these.
    const int64_t rows = *b.shape[static_cast<size_t>(row)].constant();
    if (*at < 0 || *at + rows > rows_of(a)) return std::nullopt;
    for (int user : made) {
      const Group& group = program_.groups[static_cast<size_t>(user)];
      if (group.rows || group.control || (group.contraction && !group.contraction->results.empty())) return std::nullopt;
    }
    return at;
  }

  void share(BufferId from, BufferId to, int64_t first_row) {
    const auto row = static_cast<size_t>(row_dim(program_[from]));
    const auto move = [&](BufferId& b, std::vector<Expr>& at) {
      if (b != to) return;
      b = from;
      if (first_row != 0) at[row] = at[row] + first_row;
    };
    const auto replace = [&](BufferId& b) {
      if (b == to) b = from;
    };
    for (int g : users_[static_cast<size_t>(to)]) {
      Group& group = program_.groups[static_cast<size_t>(g)];
      for (Nest& nest : group.nests) {
        for (Scalar& s : nest.code)
          if (s.op == ScalarOp::load) move(s.buffer, s.at);
        for (Store& s : nest.stores) move(s.buffer, s.at);
      }
      if (group.contraction) {
        for (Operand& o : group.contraction->operands) move(o.buffer, o.at);
        for (BufferId& b : group.contraction->results) replace(b);
      }
      if (group.control) replace(group.control->buffer);
      if (group.rows)
        for (std::vector<BufferId>* list : {&group.rows->inputs, &group.rows->outputs})
          for (BufferId& b : *list) replace(b);
    }
    users_[static_cast<size_t>(from)].merge(users_[static_cast<size_t>(to)]);
    users_[static_cast<size_t>(to)].clear();
  }

  LoopProgram program_;
  const Regions regions_;
  std::vector<std::set<int>> users_;  // of each buffer: groups
  std::set<BufferId> kept_;           // what the program reads at its end
};

}  // namespace

LoopProgram write_in_place(LoopProgram program) { return InPlace(std::move(program)).run(); }

}  // namespace nacre
