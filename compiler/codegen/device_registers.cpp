// Nests over the rows of a group whose threads keep their parts of a row in registers: what several nests read is loaded once, and what
// one nest leaves for another never lies in memory.
#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/nest.h"
#include "compiler/codegen/reduction.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int64_t kPiece = 8;

}  // namespace

std::string NestEmitter::row_variable() const {
  if (loops_.size() == 1 && reduced_.empty()) return loops_[0].name;
  return loops_.empty() && reduced_.size() == 1 ? reduced_[0].name : "";
}

std::optional<int64_t> NestEmitter::row_length() const {
  if (row_variable().empty()) return std::nullopt;
  return (loops_.empty() ? reduced_ : loops_)[0].extent.constant();
}

bool NestEmitter::fits_in_registers() const {
  const std::string along = row_variable();
  if (along.empty() || scans()) return false;
  for (const Scalar& s : nest_.code) {
    if (s.op == ScalarOp::check_index || (s.op == ScalarOp::reduce && is_arg(s))) return false;
    if (s.op == ScalarOp::load && context_.program[s.buffer].kind == BufferKind::local && !s.at.empty() && (s.at != std::vector<Expr>{Expr::symbol(along)} || !s.when.empty())) return false;
  }
  for (const Store& s : nest_.stores) {
    if (s.mode != StoreMode::assign) return false;
    if (context_.program[s.buffer].kind == BufferKind::local && !s.at.empty() && s.at != std::vector<Expr>{Expr::symbol(along)}) return false;
  }
  return true;
}

// What a load along the row reads, whatever the row's variable is called.
std::string NestEmitter::row_key(size_t load) const {
  return fmt::format("{} {}", nest_.code[load].buffer, cpp(address_[load].substitute({{row_variable(), Expr::symbol("row")}}), facts_));
}

std::map<std::string, std::string> NestEmitter::row_keys() const {
  NestEmitter with = *this;
  with.pieces_ = row_variable();
  std::map<std::string, std::string> keys;
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (s.op == ScalarOp::load && s.when.empty() && context_.program[s.buffer].kind != BufferKind::local && depends_[i].contains(with.pieces_) && with.is_piece(s.buffer, address_[i])) keys.emplace(row_key(i), piece_type(s.buffer));
  }
  return keys;
}

void NestEmitter::emit_in_registers(int width, int64_t pieces, std::map<std::string, KeptRow>& kept) {
  Writer& out = context_.out;
  const std::string along = row_variable();
  const int64_t length = *row_length();
  std::vector<int> reduces;
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::reduce) reduces.push_back(static_cast<int>(i));
  emit_ready();
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    // Short sums in each thread, then a tree of them: their error needs no more than float.
    out.line("{} r{} = {};", scalar_type(s.dtype), i, identity(s.prim, s.dtype));
  }
  pieces_ = along;
  piece_loads_.clear();
  const std::vector<bool> inside = under_reduction(nest_);
  std::vector<std::pair<size_t, std::string>> fresh;  // loads into arrays
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (s.op != ScalarOp::load || !s.when.empty() || context_.program[s.buffer].kind == BufferKind::local || !depends_[i].contains(along) || !is_piece(s.buffer, address_[i])) continue;
    const auto known = kept.find(row_key(i));
    if (known == kept.end()) continue;
    piece_loads_[static_cast<int>(i)] = known->second.name + "[chunk]";
    if (!known->second.loaded) fresh.emplace_back(i, known->second.name);
    known->second.loaded = true;
  }
  const auto outside = open_;
  out.open("NACRE_UNROLL for (int chunk = 0; chunk < {}; ++chunk) {{", pieces);
  out.line("const isize first = {} * (team.rank() + {} * chunk);", kPiece, width);
  const bool guarded = width * pieces * kPiece != length;
  if (guarded) out.open("if (first < {}) {{", length);
  for (const auto& [i, name] : fresh)
    out.line("{}[chunk] = load_piece({} + {});", name, context_.pointer(nest_.code[i].buffer), cpp(address_[i].substitute({{along, Expr::symbol("first")}}), facts_));
  held_.assign(nest_.code.size(), false);
  if (!reduces.empty())
    for (size_t i = 0; i < inside.size(); ++i) held_[i] = !inside[i];
  load_pieces("first");
  const auto in_piece = [&](size_t i) { return nest_.stores[i].mode == StoreMode::assign && reduced_.empty() && is_piece(nest_.stores[i].buffer, store_address_[i]); };
  for (size_t i = 0; i < nest_.stores.size(); ++i)
    if (in_piece(i)) out.line("{} {};", piece_type(nest_.stores[i].buffer), stored_piece(i));
  out.open("NACRE_UNROLL for (int lane = 0; lane < {}; ++lane) {{", kPiece);
  out.line("[[maybe_unused]] const isize {} = first + lane;", along);
  open_.insert(along);
  row_element_ = fmt::format("{} * chunk + lane", kPiece);
  emit_ready();
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    out.line("r{0} = {1};", i, combined(s.prim, fmt::format("r{}", i), scalar_symbol(s.operands[0])));
  }
  if (reduced_.empty()) emit_stores();
  out.close();
  for (size_t i = 0; i < nest_.stores.size(); ++i)
    if (in_piece(i))
      out.line("store_piece({} + {}, {});", context_.pointer(nest_.stores[i].buffer), cpp(store_address_[i].substitute({{along, Expr::symbol("first")}}), facts_), stored_piece(i));
  if (guarded) out.close();
  out.close();
  open_ = outside;
  pieces_.clear();
  piece_loads_.clear();
  held_.clear();
  row_element_.clear();
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    emitted_[static_cast<size_t>(i)] = true;
    out.line("const {0} {1} = team.fold(r{2}, [](auto a, auto b) {{ return decltype(a)({3}); }});", scalar_type(s.dtype), scalar_symbol(i), i, combined(s.prim, "a", "b"));
  }
  if (!reduced_.empty()) {
    emit_ready();
    emit_team_stores(false);
  }
  for (size_t i = 0; i < nest_.code.size(); ++i) check(emitted_[i], "scalar v{} of {} has no place in its row", i, context_.group.name);
}

}  // namespace nacre
