// A nest of a device's kernel: its points spread over teams of threads, or over the threads of one team.
#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/nest.h"
#include "compiler/codegen/reduction.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre {

// One loop that counts the points of several, the last fastest.
void NestEmitter::open_points(const std::vector<LoopVar>& loops, const std::string& counter, const std::string& begin, const std::string& step) {
  Writer& out = context_.out;
  const std::string name = loops.size() == 1 ? loops[0].name : counter;
  out.open("for (isize {0} = {1}; {0} < {2}; {0} += {3}) {{", name, begin, cpp(simplify(points_of(loops), facts_), facts_), step);
  closers_.push_back('s');
  for (const LoopVar& loop : loops) open_.insert(loop.name);
  if (loops.size() == 1) return;
  for (const auto& [variable, value] : values_of(loops, counter, facts_)) out.line("[[maybe_unused]] const isize {} = {};", variable, value);
}

// The team's threads take the points of the reduced loops in turns, and then have the result, all of them.
void NestEmitter::emit_team_reduced() {
  Writer& out = context_.out;
  std::vector<int> reduces;
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::reduce && !emitted_[i]) reduces.push_back(static_cast<int>(i));
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    if (is_arg(s))
      out.line("Best<{}> r{};", scalar_type(nest_.code[static_cast<size_t>(s.operands[0])].dtype), i);
    else
      out.line("{} r{} = {};", accumulator_type(s, context_.target), i, identity(s.prim, s.dtype));
  }
  const auto outside = open_;
  open_points(reduced_, "term", "team.rank()", "team.size()");
  emit_ready();
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    const std::string r = "r" + std::to_string(i), x = scalar_symbol(s.operands[0]);
    if (is_arg(s))
      out.line("{}.take<{}>({}, {});", r, s.prim == "argmax", x, reduced_.back().name);
    else
      out.line("{} = {};", r, combined(s.prim, r, x));
  }
  close_loop();
  open_ = outside;
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    emitted_[static_cast<size_t>(i)] = true;
    const std::string type = scalar_type(s.dtype), name = scalar_symbol(i);
    if (is_arg(s))
      out.line("const {0} {1} = static_cast<{0}>(team.fold(r{2}, [](auto a, auto b) {{ return a.template better<{3}>(b); }}).at);", type, name, i, s.prim == "argmax");
    else
      out.line("const {0} {1} = static_cast<{0}>(team.fold(r{2}, [](auto a, auto b) {{ return decltype(a)({3}); }}));", type, name, i, combined(s.prim, "a", "b"));
  }
}

// Stores of what all threads of the team have: one of them writes, but into registers all do.
void NestEmitter::emit_team_stores(bool alone) {
  const std::vector<Store> all = nest_.stores;
  const std::vector<Expr> addresses = store_address_;
  const auto emit_some = [&](bool registers) {
    nest_.stores.clear();
    store_address_.clear();
    for (size_t i = 0; i < all.size(); ++i)
      if (context_.in_register(all[i].buffer) == registers) {
        nest_.stores.push_back(all[i]);
        store_address_.push_back(addresses[i]);
      }
    const bool guarded = !registers && !alone && !nest_.stores.empty();
    if (guarded) context_.out.open("if (team.rank() == 0) {{");
    emit_stores();
    if (guarded) context_.out.close();
  };
  emit_some(true);
  emit_some(false);
  nest_.stores = all;
  store_address_ = addresses;
}

void NestEmitter::emit_body_in_team(bool alone) {
  emit_ready();
  if (!reduced_.empty()) {
    alone ? emit_reduced() : emit_team_reduced();
    emit_ready();
  }
  for (size_t i = 0; i < nest_.code.size(); ++i) check(emitted_[i] || nest_.code[i].op == ScalarOp::reduce, "scalar v{} of {} has no place in its loops", i, context_.group.name);
  emit_team_stores(alone);
}

bool NestEmitter::spreads(int width) const {
  constexpr int64_t kEnough = 32;
  return width > 1 && !loops_.empty() && (reduced_.empty() || typical(kept_points(), context_.program.symbols) >= kEnough);
}

bool NestEmitter::reads_in_rows() const {
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    if (nest_.code[i].op != ScalarOp::load || reduced_.empty()) continue;
    if (depends_[i].contains(reduced_.back().name) && !unit_stride(address_[i], reduced_.back().name)) return false;
  }
  return true;
}

Expr NestEmitter::kept_points() const { return simplify(points_of(loops_), facts_); }
Expr NestEmitter::reduced_points() const { return simplify(points_of(reduced_), facts_); }

void NestEmitter::prepare_device() {
  if (!scans()) {
    order_loops();
    collapse_loops();
  }
  emitted_.assign(nest_.code.size(), false);
}

void NestEmitter::emit_over_grid(int width) {
  if (std::any_of(loops_.begin(), loops_.end(), [](const LoopVar& loop) { return loop.extent.is(0); })) return;
  emit_ready();
  std::vector<LoopVar> spread = loops_;
  std::optional<LoopVar> scanned;
  if (scans()) {
    scanned = spread.back();
    spread.pop_back();
  }
  open_points(spread.empty() ? std::vector<LoopVar>{{"point", 1}} : spread, "point", "team.index()", "team.count()");
  emit_ready();
  if (scanned) {
    for (size_t i = 0; i < nest_.code.size(); ++i)
      if (const Scalar& s = nest_.code[i]; s.op == ScalarOp::scan) context_.out.line("{} scan{} = {};", accumulator_type(s, context_.target), i, identity(s.prim, s.dtype));
    open_loop(*scanned, "0", cpp(scanned->extent, facts_));
  }
  emit_body_in_team(width == 1);
  if (scanned) close_loop();
  close_loop();
}

void NestEmitter::emit_in_team(int width) {
  if (std::any_of(loops_.begin(), loops_.end(), [](const LoopVar& loop) { return loop.extent.is(0); })) return;
  check(!scans() || width == 1, "a scan by a team in {}", context_.group.name);
  emit_ready();
  const bool spread = spreads(width);
  size_t opened = 0;
  if (spread) {
    open_points(loops_, "point", "team.rank()", "team.size()");
    opened = 1;
  } else {
    for (size_t n = 0; n < loops_.size(); ++n, ++opened) {
      if (n + 1 == loops_.size())
        for (size_t i = 0; i < nest_.code.size(); ++i)
          if (const Scalar& s = nest_.code[i]; s.op == ScalarOp::scan) context_.out.line("{} scan{} = {};", accumulator_type(s, context_.target), i, identity(s.prim, s.dtype));
      open_loop(loops_[n], "0", cpp(loops_[n].extent, facts_));
      emit_ready();
    }
  }
  emit_body_in_team(spread || width == 1);
  while (opened-- > 0) close_loop();
}

}  // namespace nacre
