// A nest of a device's kernel: its points spread over teams of threads, or over the threads of one team.
#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/nest.h"
#include "compiler/codegen/reduction.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int64_t kPiece = 8;
constexpr int64_t kAhead = 100;   // elements of each operand that a thread has on their way
constexpr int64_t kUnrolled = 9;  // loops of so few rounds are written out

// How an expression moves over the 8 values of a variable from a multiple of 8 on: not at all, perhaps from a multiple of 8; or one
// by one with it, from a multiple of 8.
enum class Course { other, still, still_at_piece, steps };

Course course_of(const Expr& e, const std::string& variable) {
  if (!e.symbols().contains(variable)) {
    if (const auto number = e.constant()) return *number % kPiece == 0 ? Course::still_at_piece : Course::still;
    if (e.op() == ExprOp::mul)
      for (const Expr& factor : e.operands())
        if (course_of(factor, variable) == Course::still_at_piece) return Course::still_at_piece;
    if (e.op() == ExprOp::add) {
      bool all = true;
      for (const Expr& term : e.operands()) all = all && course_of(term, variable) == Course::still_at_piece;
      if (all) return Course::still_at_piece;
    }
    return Course::still;
  }
  switch (e.op()) {
    case ExprOp::symbol: return Course::steps;
    case ExprOp::add: {
      int steps = 0;
      for (const Expr& term : e.operands()) {
        const Course c = course_of(term, variable);
        if (c == Course::steps)
          ++steps;
        else if (c != Course::still_at_piece)
          return Course::other;
      }
      return steps == 1 ? Course::steps : steps == 0 ? Course::still_at_piece : Course::other;
    }
    case ExprOp::mul: {
      Course all = Course::still;
      for (const Expr& factor : e.operands()) {
        const Course c = course_of(factor, variable);
        if (c == Course::other || c == Course::steps) return Course::other;
        if (c == Course::still_at_piece) all = c;
      }
      return all;
    }
    case ExprOp::floordiv:
    case ExprOp::mod: {
      const auto by = e.operands()[1].constant();
      if (!by || *by % kPiece != 0 || *by <= 0 || course_of(e.operands()[0], variable) != Course::steps) return Course::other;
      return e.op() == ExprOp::mod ? Course::steps : Course::still;
    }
    default: return Course::other;
  }
}

}  // namespace

bool lies_in_pieces(const Expr& address, const std::string& variable) { return course_of(address, variable) == Course::steps; }

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
      out.line("{} r{} = {};", sum_type(i), i, identity(s.prim, s.dtype));
  }
  const auto outside = open_;
  const bool pieces = reduces_in_pieces();
  if (pieces) {
    const LoopVar& loop = reduced_[0];
    out.open("for (isize first = {0} * team.rank(); first < {1}; first += {0} * team.size()) {{", kPiece, cpp(loop.extent, facts_));
    closers_.push_back('s');
    pieces_ = loop.name;
    load_pieces("first");
    out.open("NACRE_UNROLL for (int lane = 0; lane < {}; ++lane) {{", kPiece);
    closers_.push_back('s');
    out.line("[[maybe_unused]] const isize {} = first + lane;", loop.name);
    open_.insert(loop.name);
  } else {
    open_points(reduced_, "term", "team.rank()", "team.size()");
  }
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
  if (pieces) close_loop();
  pieces_.clear();
  piece_loads_.clear();
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

// Whether 8 elements from a multiple of 8 of `pieces_` on lie side by side, at a multiple of 8.
bool NestEmitter::is_piece(BufferId buffer, const Expr& address) const {
  if (context_.program[buffer].kind == BufferKind::local || context_.start(buffer) % kPiece != 0) return false;
  return lies_in_pieces(address, pieces_);
}

std::string NestEmitter::piece_type(BufferId buffer) const {
  const std::string type = storage_type(context_.program[buffer].dtype);
  return lanes_ == kPiece ? fmt::format("Piece<{}>", type) : fmt::format("Piece<{}, {}>", type, lanes_);
}

// Fewer neighbours a thread, and more threads, where points are few and each has many terms.
int64_t NestEmitter::choose_lanes(int64_t threads) {
  const auto& symbols = context_.program.symbols;
  for (const Scalar& s : nest_.code)
    if (s.op == ScalarOp::load && nacre_dtype_size_bytes(context_.program[s.buffer].dtype) < 2) return lanes_;
  for (const Store& s : nest_.stores)
    if (nacre_dtype_size_bytes(context_.program[s.buffer].dtype) < 2) return lanes_;
  const int64_t points = typical(kept_points(), symbols), terms = typical(reduced_points(), symbols);
  while (lanes_ > 2 && terms >= kUnrolled && points / lanes_ < threads) lanes_ /= 2;
  return lanes_;
}

bool NestEmitter::fits_in_pieces(const std::string& along) const {
  NestEmitter with = *this;
  with.pieces_ = along;
  if (scans() || nest_.stores.empty()) return false;
  for (const Scalar& s : nest_.code)
    if (s.op == ScalarOp::check_index || (s.op == ScalarOp::reduce && is_arg(s))) return false;
  // Terms of a reduction that do not lie so are better off with more threads.
  const std::vector<bool> inside = under_reduction(nest_);
  for (size_t i = 0; i < nest_.code.size() && nest_.reduced > 0; ++i)
    if (inside[i] && nest_.code[i].op == ScalarOp::load && depends_[i].contains(along) && !with.is_piece(nest_.code[i].buffer, address_[i])) return false;
  return nest_.stores[0].mode == StoreMode::assign && with.is_piece(nest_.stores[0].buffer, store_address_[0]);
}

// Loads that can be made before the lanes are taken one by one.
// `at_once`: loops, for all of whose points; else for the point at which it stands.
void NestEmitter::load_pieces(const std::string& first, const std::vector<LoopVar>& at_once) {
  Writer& out = context_.out;
  const auto outside = open_;
  for (const LoopVar& loop : at_once) open_.insert(loop.name);
  std::string sizes, place_of_point;
  for (const LoopVar& loop : at_once) {
    sizes += fmt::format("[{}]", cpp(loop.extent, facts_));
    place_of_point += fmt::format("[{}]", loop.name);
  }
  std::vector<std::string> lines;
  const std::string lanes = lanes_ == kPiece ? "" : fmt::format("<{}>", lanes_);
  const std::map<std::string, Expr> begin{{pieces_, Expr::symbol(first)}};
  Facts facts = facts_;
  facts[first] = facts_.at(pieces_);
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (s.op != ScalarOp::load || emitted_[i] || (!held_.empty() && held_[i]) || piece_loads_.contains(static_cast<int>(i)) || !depends_[i].contains(pieces_)) continue;
    std::set<std::string> others = depends_[i];
    others.erase(pieces_);
    if (!std::includes(open_.begin(), open_.end(), others.begin(), others.end()) || !is_piece(s.buffer, address_[i])) continue;
    std::set<std::string> named = address_[i].symbols();
    bool ready = true;
    for (const Expr& e : s.when) {
      const auto more = e.symbols();
      ready = ready && !more.contains(pieces_);
      named.insert(more.begin(), more.end());
    }
    for (const std::string& name : named)
      if (const auto scalar = scalar_of_symbol(name)) ready = ready && emitted_[static_cast<size_t>(*scalar)] && !depends_[static_cast<size_t>(*scalar)].contains(pieces_);
    if (!ready) continue;
    const std::string name = fmt::format("p{}{}", i, place_of_point);
    piece_loads_[static_cast<int>(i)] = name;
    const std::string place = fmt::format("{} + {}", context_.pointer(s.buffer), cpp(address_[i].substitute(begin), facts)), condition = conditions(s.when);
    const std::string load = condition.empty() ? fmt::format("load_piece{}({})", lanes, place) : fmt::format("load_piece_if{}({}, {})", lanes, condition, place);
    if (at_once.empty())
      out.line("const auto {} = {};", name, load);
    else
      out.line("{} p{}{};", piece_type(s.buffer), i, sizes);
    lines.push_back(fmt::format("{} = {};", name, load));
  }
  open_ = outside;
  if (at_once.empty() || lines.empty()) return;
  for (const LoopVar& loop : at_once) out.open("NACRE_UNROLL for (isize {0} = 0; {0} < {1}; ++{0}) {{", loop.name, cpp(loop.extent, facts_));
  for (const std::string& line : lines) out.line("{}", line);
  for (size_t n = 0; n < at_once.size(); ++n) out.close();
  out.line("start_loads();");
}

// The nest's points along one loop, 8 at a time from `first` on, with all others open.
// `width` threads share the terms of a reduction, and one of them stores.
void NestEmitter::emit_pieces(const std::string& along, const std::string& first, bool epilogue, int width) {
  Writer& out = context_.out;
  pieces_ = along;
  piece_loads_.clear();
  std::vector<int> reduces;
  const auto lanes = [&] {
    out.open("NACRE_UNROLL for (int lane = 0; lane < {}; ++lane) {{", lanes_);
    out.line("[[maybe_unused]] const isize {} = {} + lane;", along, first);
    if (epilogue) out.line("[[maybe_unused]] const float value = values[lane];");
    open_.insert(along);
  };
  const auto end_lanes = [&] {
    open_.erase(along);
    out.close();
  };
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::reduce) reduces.push_back(static_cast<int>(i));
  emit_ready();
  if (!reduces.empty()) {
    for (int i : reduces) {
      const Scalar& s = nest_.code[static_cast<size_t>(i)];
      out.line("{} r{}[{}];", sum_type(i), i, lanes_);
      out.line("NACRE_UNROLL for (int lane = 0; lane < {}; ++lane) r{}[lane] = {};", lanes_, i, identity(s.prim, s.dtype));
    }
    const auto outside = open_;
    // What follows the reduction has no place in its loops.
    const std::vector<bool> inside = under_reduction(nest_);
    held_.resize(inside.size());
    for (size_t i = 0; i < inside.size(); ++i) held_[i] = !inside[i];
    if (width > 1) {
      open_points(reduced_, "term", "team.rank()", "team.size()");
      emit_ready();
    }
    // Of the innermost loops, if they are short, all is on its way before any is used.
    size_t ahead = reduced_.size();
    int64_t points = 1;
    while (width == 1 && ahead > 0) {
      const auto length = reduced_[ahead - 1].extent.constant();
      if (!length || points * *length > kAhead / lanes_) break;
      points *= *length;
      --ahead;
    }
    for (size_t n = 0; n < reduced_.size() && width == 1; ++n) {
      if (n == ahead) load_pieces(first, {reduced_.begin() + static_cast<std::ptrdiff_t>(ahead), reduced_.end()});
      if (const auto length = reduced_[n].extent.constant(); length && *length <= kUnrolled) out.line("NACRE_UNROLL");
      open_loop(reduced_[n], "0", cpp(reduced_[n].extent, facts_));
      emit_ready();
    }
    load_pieces(first);
    lanes();
    emit_ready();
    for (int i : reduces) {
      const std::string r = fmt::format("r{}[lane]", i);
      out.line("{} = {};", r, combined(nest_.code[static_cast<size_t>(i)].prim, r, scalar_symbol(nest_.code[static_cast<size_t>(i)].operands[0])));
    }
    end_lanes();
    for (size_t n = 0; n < (width > 1 ? 1 : reduced_.size()); ++n) close_loop();
    open_ = outside;
    held_.clear();
    for (int i : reduces)
      if (width > 1)
        out.line("NACRE_UNROLL for (int lane = 0; lane < {0}; ++lane) r{1}[lane] = team.fold(r{1}[lane], [](auto a, auto b) {{ return decltype(a)({2}); }});", lanes_, i,
                 combined(nest_.code[static_cast<size_t>(i)].prim, "a", "b"));
  }
  if (width > 1) out.open("if (team.rank() == 0) {{");
  load_pieces(first);
  if (epilogue) out.open("return [=](const float (&values)[8]) {{");
  for (size_t i = 0; i < nest_.stores.size(); ++i)
    if (nest_.stores[i].mode == StoreMode::assign && is_piece(nest_.stores[i].buffer, store_address_[i])) out.line("{} {};", piece_type(nest_.stores[i].buffer), stored_piece(i));
  lanes();
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    emitted_[static_cast<size_t>(i)] = true;
    out.line("const {0} {1} = static_cast<{0}>(r{2}[lane]);", scalar_type(s.dtype), scalar_symbol(i), i);
  }
  emit_ready();
  for (size_t i = 0; i < nest_.code.size(); ++i) check(emitted_[i] || nest_.code[i].op == ScalarOp::reduce, "scalar v{} of {} has no place in its pieces", i, context_.group.name);
  emit_stores();
  end_lanes();
  Facts facts = facts_;
  facts[first] = facts_.at(along);
  for (size_t i = 0; i < nest_.stores.size(); ++i)
    if (nest_.stores[i].mode == StoreMode::assign && is_piece(nest_.stores[i].buffer, store_address_[i]))
      out.line("store_piece({} + {}, {});", context_.pointer(nest_.stores[i].buffer), cpp(store_address_[i].substitute({{along, Expr::symbol(first)}}), facts), stored_piece(i));
  if (width > 1) out.close();
  if (epilogue) out.close("};");
  pieces_.clear();
  piece_loads_.clear();
}

// Sums of what was rounded to 16 bits need no more than float32.
std::string NestEmitter::sum_type(int reduce) const {
  const Scalar& s = nest_.code[static_cast<size_t>(reduce)];
  const std::string type = accumulator_type(s, context_.target);
  if (type != "Sum") return type;
  std::vector<int> from{s.operands[0]};
  for (size_t n = 0; n < from.size(); ++n) {
    const Scalar& x = nest_.code[static_cast<size_t>(from[n])];
    if (x.op == ScalarOp::load && context_.program[x.buffer].kind != BufferKind::local && is_half(context_.program[x.buffer].dtype)) return "float";
    for (int other : x.operands) from.push_back(other);
  }
  return type;
}

std::string NestEmitter::piece_loop() const {
  if (loops_.empty() || scans() || reduces_in_pieces()) return {};
  const LoopVar& last = loops_.back();
  const auto extent = last.extent.constant();
  return extent && *extent % kPiece == 0 && *extent > 0 && fits_in_pieces(last.name) ? last.name : "";
}

bool NestEmitter::reduces_in_pieces() const {
  if (reduced_.size() != 1 || scans()) return false;
  const auto extent = reduced_[0].extent.constant();
  if (!extent || *extent % kPiece != 0 || *extent < 2 * kPiece) return false;
  NestEmitter with = *this;
  with.pieces_ = reduced_[0].name;
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (s.op == ScalarOp::check_index || is_arg(s)) return false;
    if (s.op == ScalarOp::load && depends_[i].contains(with.pieces_) && !with.is_piece(s.buffer, address_[i])) return false;
  }
  return true;
}

int64_t NestEmitter::work() const {
  const auto& symbols = context_.program.symbols;
  NestEmitter prepared = *this;
  prepared.prepare_device();
  if (prepared.spreads(32)) return prepared.piece_loop().empty() ? typical(kept_points(), symbols) : typical(kept_points(), symbols) / kPiece;
  return typical(kept_points() * reduced_points(), symbols) / (prepared.reduces_in_pieces() ? kPiece : 1);
}

// The points of all own loops, those along one of them in pieces that begin at `first`.
void NestEmitter::open_pieces(const std::string& along, const std::string& begin, const std::string& step) {
  std::vector<LoopVar> spread = loops_;
  spread.back() = {"piece", simplify(floordiv(spread.back().extent, lanes_), facts_)};
  facts_["piece"] = facts_.at(along);
  open_points(spread, "point", begin, step);
  context_.out.line("const isize first = {} * piece;", lanes_);
}

void NestEmitter::emit_epilogue_in_pieces(const std::string& along) {
  emitted_.assign(nest_.code.size(), false);
  for (const LoopVar& loop : nest_.loops)
    if (loop.name != along) open_.insert(loop.name);
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::accumulator) depend_on_result(along);
  emit_pieces(along, "first", true, 1);
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

void NestEmitter::emit_over_grid(int width, bool pieces) {
  if (std::any_of(loops_.begin(), loops_.end(), [](const LoopVar& loop) { return loop.extent.is(0); })) return;
  emit_ready();
  if (const std::string along = pieces ? piece_loop() : ""; !along.empty()) {
    open_pieces(along, "team.index()", "team.count()");
    emit_pieces(along, "first", false, width);
    close_loop();
    return;
  }
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
  if (const std::string along = spread ? piece_loop() : ""; !along.empty()) {
    open_pieces(along, "team.rank()", "team.size()");
    emit_pieces(along, "first", false, 1);
    close_loop();
    return;
  }
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
