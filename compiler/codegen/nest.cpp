#include "compiler/codegen/nest.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/reduction.h"
#include "compiler/graph/ops.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// `expression` of ops.def with a, b, c replaced by the operands' names.
std::string with_operands(const std::string& expression, const std::vector<std::string>& operands) {
  std::string text;
  for (size_t i = 0; i < expression.size();) {
    if (!std::isalpha(static_cast<unsigned char>(expression[i])) && expression[i] != '_') {
      text += expression[i++];
      continue;
    }
    size_t end = i;
    while (end < expression.size() && (std::isalnum(static_cast<unsigned char>(expression[end])) || expression[end] == '_')) ++end;
    const std::string word = expression.substr(i, end - i);
    const size_t position = word.size() == 1 ? static_cast<size_t>(word[0] - 'a') : operands.size();
    text += position < operands.size() ? operands[position] : word;
    i = end;
  }
  return text;
}

// Sums in float32 lanes go in two levels, so that the error grows with the root of the length and not with it: as many
// steps go into a partial sum, which then goes into the total.
constexpr int64_t kPartialSteps = 64;
constexpr int64_t kShortestPartial = 8;
constexpr int64_t kMostLanes = 16;

bool is_logic(const std::string& prim) {
  return prim == "where" || prim == "eq" || prim == "ne" || prim == "logical_not" || prim.starts_with("bitwise_");
}

std::string v(int scalar) { return scalar_symbol(scalar); }

// Scalars that an expression names as `vN`.
std::set<int> scalars_in(const Expr& e) {
  std::set<int> found;
  for (const std::string& name : e.symbols())
    if (auto i = scalar_of_symbol(name)) found.insert(*i);
  return found;
}

}  // namespace

NestEmitter::NestEmitter(KernelContext& context, Nest nest, std::vector<LoopVar> outer)
    : context_(context), nest_(std::move(nest)), outer_(std::move(outer)) {
  Group scope = context_.group;
  scope.outer = outer_;
  facts_ = facts_in(context_.program, scope, nest_);
  const size_t kept = nest_.loops.size() - static_cast<size_t>(nest_.reduced);
  loops_.assign(nest_.loops.begin(), nest_.loops.begin() + static_cast<std::ptrdiff_t>(kept));
  reduced_.assign(nest_.loops.begin() + static_cast<std::ptrdiff_t>(kept), nest_.loops.end());
  for (const LoopVar& loop : outer_) open_.insert(loop.name);
  for (const std::vector<LoopVar>* loops : {&outer_, &nest_.loops})
    for (const LoopVar& loop : *loops) variables_.insert(loop.name);
  drop_unit_loops();
  analyse();
}

bool NestEmitter::scans() const {
  return std::any_of(nest_.code.begin(), nest_.code.end(), [](const Scalar& s) { return s.op == ScalarOp::scan; });
}

void NestEmitter::drop_unit_loops() {
  std::map<std::string, Expr> zero;
  const bool keep_last = scans();
  for (std::vector<LoopVar>* loops : {&loops_, &reduced_}) {
    for (size_t i = loops->size(); i-- > 0;) {
      if (!(*loops)[i].extent.is(1)) continue;
      if (loops == &reduced_ && loops->size() == 1) continue;  // a reduction keeps one loop
      if (loops == &loops_ && keep_last && i + 1 == loops->size()) continue;
      zero[(*loops)[i].name] = 0;
      loops->erase(loops->begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (zero.empty()) return;
  for (Scalar& s : nest_.code) {
    for (Expr& e : s.at) e = e.substitute(zero);
    for (Expr& e : s.when) e = e.substitute(zero);
    s.expr = s.expr.substitute(zero);
  }
  for (Store& s : nest_.stores)
    for (Expr& e : s.at) e = e.substitute(zero);
}

// From where the buffer's pointer points to.
Expr NestEmitter::address_of(BufferId buffer, const std::vector<Expr>& at) const {
  const Expr whole = address(context_.program[buffer], at, facts_);
  const int64_t start = context_.start(buffer);
  return start == 0 ? whole : simplify(whole - start, facts_);
}

// Addresses, and what each scalar changes with.
void NestEmitter::analyse() {
  address_.assign(nest_.code.size(), Expr(0));
  store_address_.clear();
  depends_.assign(nest_.code.size(), {});
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    Scalar& s = nest_.code[i];
    std::set<std::string>& mine = depends_[i];
    auto add_expr = [&](const Expr& e) {
      for (const std::string& name : e.symbols())
        if (variables_.contains(name)) mine.insert(name);
      for (int other : scalars_in(e)) mine.insert(depends_[static_cast<size_t>(other)].begin(), depends_[static_cast<size_t>(other)].end());
    };
    for (int other : s.operands) mine.insert(depends_[static_cast<size_t>(other)].begin(), depends_[static_cast<size_t>(other)].end());
    if (s.op == ScalarOp::load) {
      address_[i] = address_of(s.buffer, s.at);
      add_expr(address_[i]);
      std::vector<Expr> when;
      for (const Expr& e : s.when) {
        Expr condition = simplify(e, facts_);
        if (condition.constant().value_or(0) != 0) continue;
        add_expr(condition);
        when.push_back(condition);
      }
      s.when = when;
    }
    if (s.op == ScalarOp::index || s.op == ScalarOp::check_index || s.op == ScalarOp::constant) {
      s.expr = simplify(s.expr, facts_);
      add_expr(s.expr);
    }
    if (s.op == ScalarOp::accumulator)
      for (const LoopVar& loop : loops_) mine.insert(loop.name);
    if (s.op == ScalarOp::reduce)
      for (const LoopVar& loop : reduced_) mine.erase(loop.name);
    if (s.op == ScalarOp::scan) mine.insert(loops_.back().name);
  }
  for (const Store& s : nest_.stores) store_address_.push_back(address_of(s.buffer, s.at));
}

Expr NestEmitter::points() const {
  return points_of(loops_) * points_of(reduced_);
}

bool NestEmitter::splittable() const { return loops_.size() > (scans() ? 1u : 0u); }

// Loops in the order of memory: the loop with the longest stride of the first store (of the first load, for reduced loops)
// outermost.
void NestEmitter::order_loops() {
  auto by_stride = [&](std::vector<LoopVar>& loops, const Expr& address, size_t fixed) {
    if (loops.size() <= fixed) return;
    std::vector<std::pair<int64_t, LoopVar>> keyed;
    for (const LoopVar& loop : loops) {
      auto stride = coefficient(address, loop.name, facts_);
      const int64_t size = stride ? std::abs(typical(*stride, context_.program.symbols)) : 0;
      keyed.emplace_back(size ? size : INT64_MAX, loop);
    }
    std::stable_sort(keyed.begin(), keyed.end() - static_cast<std::ptrdiff_t>(fixed), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < loops.size(); ++i) loops[i] = keyed[i].second;
  };
  if (!store_address_.empty()) by_stride(loops_, store_address_[0], scans() ? 1 : 0);
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    if (nest_.code[i].op != ScalarOp::load) continue;
    const auto& d = depends_[i];
    if (!std::any_of(reduced_.begin(), reduced_.end(), [&](const LoopVar& l) { return d.contains(l.name); })) continue;
    if (std::any_of(nest_.code.begin(), nest_.code.end(), is_arg)) break;
    by_stride(reduced_, address_[i], 0);
    break;
  }
}

// Neighbouring loops that every address walks through as one become one.
void NestEmitter::collapse_loops() {
  std::set<std::string> pinned;  // variables that occur other than linearly in addresses
  auto pin = [&](const Expr& e) {
    for (const std::string& name : e.symbols()) pinned.insert(name);
  };
  for (const Scalar& s : nest_.code) {
    for (const Expr& e : s.when) pin(e);
    pin(s.expr);
  }
  if (scans()) pinned.insert(loops_.back().name);
  std::vector<Expr*> addresses;
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::load) addresses.push_back(&address_[i]);
  for (Expr& e : store_address_) addresses.push_back(&e);

  for (std::vector<LoopVar>* loops : {&loops_, &reduced_}) {
    for (size_t i = 0; i + 1 < loops->size();) {
      const LoopVar p = (*loops)[i], q = (*loops)[i + 1];
      bool merges = !pinned.contains(p.name) && !pinned.contains(q.name);
      for (const Expr* e : addresses) {
        if (!merges) break;
        auto cp = coefficient(*e, p.name, facts_), cq = coefficient(*e, q.name, facts_);
        merges = cp && cq && simplify(*cp - *cq * q.extent, facts_).is(0);
      }
      if (!merges) {
        ++i;
        continue;
      }
      for (Expr* e : addresses) *e = without(*e, p.name, facts_);
      (*loops)[i] = {q.name, simplify(p.extent * q.extent, facts_)};
      loops->erase(loops->begin() + static_cast<std::ptrdiff_t>(i) + 1);
      SymbolFacts& f = facts_[q.name];
      f.below = (*loops)[i].extent;
      f.range.max = kUnbounded;
      const Interval extent = interval((*loops)[i].extent, facts_);
      if (extent.max != kUnbounded) f.range.max = extent.max - 1;
      for (auto& d : depends_)
        if (d.erase(p.name)) d.insert(q.name);
      if (i > 0) --i;
    }
  }
}

bool NestEmitter::unit_stride(const Expr& e, const std::string& variable) const {
  auto c = coefficient(e, variable, facts_);
  return c && c->is(1);
}

// Everything that changes with `variable` must be float32 or a condition.
bool NestEmitter::vectors_fit(const std::string& variable) const {
  const bool over = std::any_of(reduced_.begin(), reduced_.end(), [&](const LoopVar& loop) { return loop.name == variable; });
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (s.op == ScalarOp::scan) return false;
    if (s.op == ScalarOp::reduce) {
      const bool simple = s.prim == "sum" || s.prim == "prod" || s.prim == "amax" || s.prim == "amin";
      const bool inside = depends_[static_cast<size_t>(s.operands[0])].contains(variable);
      if (inside && (!simple || s.dtype != NACRE_f32)) return false;
      // A vector stands for many rounds: what is the same in all of them would count once.
      if (!inside && over) return false;
    }
    if (!depends_[i].contains(variable)) continue;
    if (s.op == ScalarOp::check_index) return false;
    if (s.op == ScalarOp::load) {
      const nacre_dtype stored = context_.program[s.buffer].dtype;
      if (stored != s.dtype || (stored != NACRE_f32 && stored != NACRE_bool_)) return false;
    } else if (s.dtype != NACRE_f32 && s.dtype != NACRE_bool_) {
      return false;
    }
    if (s.op == ScalarOp::index && s.dtype != NACRE_bool_) return false;
    for (const Expr& e : s.at)
      for (int other : scalars_in(e))
        if (depends_[static_cast<size_t>(other)].contains(variable)) return false;
    if (s.op == ScalarOp::cast) {
      const nacre_dtype from = nest_.code[static_cast<size_t>(s.operands[0])].dtype;
      if (from != NACRE_f32 && from != NACRE_bool_) return false;
    }
    for (int o : s.operands) {
      const nacre_dtype from = nest_.code[static_cast<size_t>(o)].dtype;
      if (from != NACRE_f32 && from != NACRE_bool_) return false;
      // A lane that is true holds -1: logic works on such lanes, arithmetic and order do not.
      if (s.op == ScalarOp::pointwise && from == NACRE_bool_ && !is_logic(s.prim)) return false;
    }
  }
  for (const Store& s : nest_.stores) {
    if (s.value >= 0 && !depends_[static_cast<size_t>(s.value)].contains(variable)) continue;
    if (s.mode != StoreMode::assign || (context_.program[s.buffer].dtype != NACRE_f32 && context_.program[s.buffer].dtype != NACRE_bool_)) return false;
  }
  // A store that moves with the variable must hold lanes: the stored dtype has to be that of the lanes.
  for (size_t i = 0; i < nest_.stores.size(); ++i) {
    const Store& s = nest_.stores[i];
    const bool moves = store_address_[i].symbols().contains(variable);
    if (moves && (s.mode != StoreMode::assign || (context_.program[s.buffer].dtype != NACRE_f32 && context_.program[s.buffer].dtype != NACRE_bool_))) return false;
    for (int other : scalars_in(store_address_[i]))
      if (depends_[static_cast<size_t>(other)].contains(variable)) return false;
  }
  return true;
}

// Picks the vector loop among the innermost ones; false: none fits.
bool NestEmitter::choose_vector() {
  if (context_.target.compute_capability) return false;
  auto score = [&](const std::string& variable) {
    int unit = 0, other = 0;
    for (size_t i = 0; i < nest_.code.size(); ++i) {
      if (nest_.code[i].op != ScalarOp::load || !depends_[i].contains(variable)) continue;
      (unit_stride(address_[i], variable) ? unit : other)++;
    }
    for (const Expr& e : store_address_)
      if (e.symbols().contains(variable)) (unit_stride(e, variable) ? unit : other)++;
    return unit - 2 * other;
  };
  std::vector<std::pair<std::string, bool>> candidates;
  if (!loops_.empty()) candidates.emplace_back(loops_.back().name, false);
  if (!reduced_.empty()) candidates.emplace_back(reduced_.back().name, true);
  int best = INT32_MIN;
  for (const auto& [variable, is_reduced] : candidates) {
    if (!vectors_fit(variable)) continue;
    const int s = score(variable);
    if (s > best) {
      best = s;
      vector_ = variable;
      vector_reduced_ = is_reduced;
    }
  }
  return !vector_.empty();
}

std::string NestEmitter::literal(const Scalar& s) const {
  if (is_floating(s.dtype)) return float_literal(s.number, s.dtype == NACRE_f64);
  if (s.dtype == NACRE_bool_) return s.number != 0 ? "true" : "false";
  return integer_literal(std::abs(s.number) < 0x1p63 ? static_cast<int64_t>(s.number) : INT64_MIN);
}

std::string NestEmitter::operand(int scalar, bool as_vector) const {
  const Scalar& s = nest_.code[static_cast<size_t>(scalar)];
  if (!as_vector || varies(scalar)) return v(scalar);
  return fmt::format("{}({})", s.dtype == NACRE_bool_ ? "mask" : "splat", v(scalar));
}

std::string NestEmitter::conditions(const std::vector<Expr>& when) const {
  std::string text;
  for (const Expr& e : when) text += (text.empty() ? "" : " && ") + cpp(e, facts_);
  return text;
}

bool NestEmitter::in_row(BufferId buffer, const std::vector<Expr>& at) const {
  return !row_element_.empty() && !at.empty() && context_.program[buffer].kind == BufferKind::local;
}

void NestEmitter::emit_load(int i) {
  const Scalar& s = nest_.code[static_cast<size_t>(i)];
  const Buffer& buffer = context_.program[s.buffer];
  const std::string p = context_.pointer(s.buffer), at = cpp(address_[static_cast<size_t>(i)], facts_);
  const std::string condition = conditions(s.when);
  Writer& out = context_.out;
  if (!varies(i)) {
    std::string element = piece_loads_.contains(i) ? piece_loads_.at(i) + "[lane]" : fmt::format("{}[{}]", p, in_row(s.buffer, s.at) ? row_element_ : at);
    if (buffer.dtype == NACRE_bf16) element = fmt::format("from_bfloat16({})", element);
    // Pieces are zeros where there is nothing.
    const bool zeros = piece_loads_.contains(i) && nest_.code[static_cast<size_t>(s.operands.empty() ? i : s.operands[0])].op == ScalarOp::constant &&
                       nest_.code[static_cast<size_t>(s.operands[0])].number == 0;
    if (condition.empty() || zeros)
      out.line("const {} {} = {};", scalar_type(s.dtype), v(i), element);
    else
      out.line("const {} {} = {} ? static_cast<{}>({}) : {};", scalar_type(s.dtype), v(i), condition, scalar_type(s.dtype), element, v(s.operands[0]));
    return;
  }
  const bool is_mask = s.dtype == NACRE_bool_;
  bool condition_varies = false;
  for (const Expr& e : s.when) {
    if (e.symbols().contains(vector_)) condition_varies = true;
    for (int other : scalars_in(e)) condition_varies |= varies(other);
  }
  const bool fill_varies = !s.operands.empty() && varies(s.operands[0]);
  if (condition_varies || is_mask) {
    const std::string fill = s.operands.empty() ? "0" : fill_varies ? (is_mask ? "false" : "0.f") : v(s.operands[0]);
    const std::string lane = condition.empty() ? fmt::format("{}[{}]", p, at)
                                               : fmt::format("{} ? {}[{}] : {}", condition, p, at, fill);
    const char* kind = is_mask ? "mask_lanes" : "load_lanes";
    std::string text = fmt::format("{}({}, lanes, [&](isize {}) NACRE_LAMBDA {{ return {}; }})", kind, vector_, vector_, lane);
    if (fill_varies)
      text = fmt::format("select(mask_lanes({}, lanes, [&](isize {}) NACRE_LAMBDA {{ return {}; }}), {}, {})", vector_, vector_, condition, text, v(s.operands[0]));
    out.line("const {} {} = {};", is_mask ? "vi" : "vf", v(i), text);
    return;
  }
  const auto stride = coefficient(address_[static_cast<size_t>(i)], vector_, facts_);
  std::string text;
  if (stride && stride->is(1))
    text = fmt::format("load({} + {}, lanes)", p, at);
  else if (stride)
    text = stride->is(0) ? fmt::format("splat({}[{}])", p, at)
                         : fmt::format("load_strided({} + {}, {}, lanes)", p, at, cpp(*stride, facts_));
  else
    text = fmt::format("load_lanes({}, lanes, [&](isize {}) NACRE_LAMBDA {{ return {}[{}]; }})", vector_, vector_, p, at);
  if (condition.empty()) {
    out.line("const vf {} = {};", v(i), text);
  } else {
    out.line("vf {} = {};", v(i), operand(s.operands[0], true));
    out.line("if ({}) {} = {};", condition, v(i), text);
  }
}

void NestEmitter::emit_pointwise(int i) {
  const Scalar& s = nest_.code[static_cast<size_t>(i)];
  const bool as_vector = varies(i);
  const nacre_dtype operand_dtype = nest_.code[static_cast<size_t>(s.operands.back())].dtype;
  const bool divides = s.prim == "div_trunc" || s.prim == "div_floor" || s.prim == "fmod" || s.prim == "remainder";
  std::vector<std::string> operands;
  for (int o : s.operands) operands.push_back(operand(o, as_vector));
  if (divides && !is_floating(operand_dtype))
    operands[1] = fmt::format("nonzero({}, status, {})", operands[1], 2 | context_.provenance(s.where) << 8);
  // Compilers do better with a divisor that they know.
  const bool by_number = s.prim == "div" && nest_.code[static_cast<size_t>(s.operands[1])].op == ScalarOp::constant;
  const bool may_be_rough = !as_vector && s.dtype == NACRE_f32 && !by_number;
  std::string text;
  if (as_vector && s.prim == "where")
    text = fmt::format("select({}, {}, {})", operands[0], operands[1], operands[2]);
  else
    text = with_operands(may_be_rough ? context_.expression(s.prim) : pointwise_expression(s.prim), operands);
  const char* type = as_vector ? (s.dtype == NACRE_bool_ ? "vi" : "vf") : nullptr;
  if (type)
    context_.out.line("const {} {} = {};", type, v(i), text);
  else
    context_.out.line("const {0} {1} = static_cast<{0}>({2});", scalar_type(s.dtype), v(i), text);
}

void NestEmitter::emit_scalar(int i) {
  const Scalar& s = nest_.code[static_cast<size_t>(i)];
  Writer& out = context_.out;
  const std::string type = scalar_type(s.dtype);
  switch (s.op) {
    case ScalarOp::load: emit_load(i); break;
    case ScalarOp::constant: out.line("const {} {} = {};", type, v(i), literal(s)); break;
    case ScalarOp::index:
      if (varies(i))
        out.line("const vi {} = mask_lanes({}, lanes, [&](isize {}) NACRE_LAMBDA {{ return {}; }});", v(i), vector_, vector_, cpp(s.expr, facts_));
      else
        out.line("const {0} {1} = static_cast<{0}>({2});", type, v(i), cpp_value(s.expr, facts_));
      break;
    case ScalarOp::pointwise: emit_pointwise(i); break;
    case ScalarOp::cast: {
      const Scalar& from = nest_.code[static_cast<size_t>(s.operands[0])];
      const std::string x = operand(s.operands[0], varies(i));
      if (!s.prim.empty()) {
        const std::string wide = varies(i) ? (from.dtype == NACRE_f32 ? x : fmt::format("as_float({})", x)) : fmt::format("static_cast<float>({})", x);
        out.line("const auto {} = {}({});", v(i), s.prim == "f16" ? "round_float16" : "round_bfloat16", wide);
      } else if (varies(i)) {
        if (from.dtype == s.dtype) out.line("const auto {} = {};", v(i), x);
        else if (s.dtype == NACRE_f32) out.line("const vf {} = as_float({});", v(i), x);
        else out.line("const vi {} = {} != splat(0.f);", v(i), x);
      } else if (s.dtype == NACRE_bool_) {
        out.line("const bool {} = {} != 0;", v(i), x);
      } else if (is_floating(from.dtype) && !is_floating(s.dtype)) {
        out.line("const {0} {1} = to_integer<{0}>({2});", type, v(i), x);
      } else {
        out.line("const {0} {1} = static_cast<{0}>({2});", type, v(i), x);
      }
      break;
    }
    case ScalarOp::check_index:
      out.line("const isize {} = index_{}({}, {}, status, {});", v(i), s.prim == "below" ? "below" : "in", v(s.operands[0]), cpp(s.expr, facts_), 1 | context_.provenance(s.where) << 8);
      break;
    case ScalarOp::accumulator: out.line("const {} {} = value;", varies(i) ? "vf" : "float", v(i)); break;
    case ScalarOp::scan: {
      const std::string sum = "scan" + std::to_string(i);
      out.line("{} = {};", sum, combined(s.prim, sum, v(s.operands[0])));
      out.line("const {0} {1} = static_cast<{0}>({2});", type, v(i), sum);
      break;
    }
    case ScalarOp::reduce: break;
  }
}

// Scalars whose operands are there and whose variables are all open.
void NestEmitter::emit_ready() {
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (emitted_[i] || s.op == ScalarOp::reduce || (!held_.empty() && held_[i])) continue;
    const std::vector<int> inputs = inputs_of(s);
    const bool ready = std::all_of(inputs.begin(), inputs.end(), [&](int other) { return emitted_[static_cast<size_t>(other)]; }) &&
                       std::includes(open_.begin(), open_.end(), depends_[i].begin(), depends_[i].end());
    if (!ready) continue;
    emitted_[i] = true;
    emit_scalar(static_cast<int>(i));
  }
}

void NestEmitter::emit_stores() {
  Writer& out = context_.out;
  for (size_t i = 0; i < nest_.stores.size(); ++i) {
    const Store& s = nest_.stores[i];
    const Buffer& buffer = context_.program[s.buffer];
    const std::string p = context_.pointer(s.buffer), at = cpp(store_address_[i], facts_);
    const bool moves = !vector_.empty() && !vector_reduced_ && store_address_[i].symbols().contains(vector_);
    if (moves) {
      const auto stride = coefficient(store_address_[i], vector_, facts_);
      const std::string value = operand(s.value, true);
      if (buffer.dtype == NACRE_bool_)
        out.line("store_lanes({}, lanes, as_float({}), [&](isize {}, float x) NACRE_LAMBDA {{ {}[{}] = x != 0.f; }});", vector_, value, vector_, p, at);
      else if (stride && stride->is(1))
        out.line("store({} + {}, {}, lanes);", p, at, value);
      else if (stride)
        out.line("store_strided({} + {}, {}, {}, lanes);", p, at, cpp(*stride, facts_), value);
      else
        out.line("store_lanes({}, lanes, {}, [&](isize {}, float x) NACRE_LAMBDA {{ {}[{}] = x; }});", vector_, value, vector_, p, at);
      continue;
    }
    const Scalar& last = nest_.code[static_cast<size_t>(s.value)];
    // What is rounded for its buffer is so by the store.
    const bool rounded = s.mode == StoreMode::assign && last.op == ScalarOp::cast && last.prim == nacre_dtype_name(buffer.dtype);
    const int from = rounded && nest_.code[static_cast<size_t>(last.operands[0])].dtype == NACRE_f32 ? last.operands[0] : s.value;
    // Lanes go to one element only where there is but one lane.
    std::string value = varies(from) ? v(from) + "[0]" : v(from);
    const bool in_piece = !pieces_.empty() && s.mode == StoreMode::assign && is_piece(s.buffer, store_address_[i]);
    const std::string place = in_piece ? stored_piece(i) + "[lane]" : fmt::format("{}[{}]", p, in_row(s.buffer, s.at) ? row_element_ : at);
    const std::string old = buffer.dtype == NACRE_bf16 ? fmt::format("from_bfloat16({})", place) : place;
    switch (s.mode) {
      case StoreMode::assign: break;
      case StoreMode::add: value = combined("sum", old, value); break;
      case StoreMode::mul: value = combined("prod", old, value); break;
      case StoreMode::amax: value = combined("amax", old, value); break;
      case StoreMode::amin: value = combined("amin", old, value); break;
    }
    if (buffer.dtype == NACRE_bf16) value = fmt::format("to_bfloat16({})", value);
    out.line("{} = static_cast<{}>({});", place, storage_type(buffer.dtype), value);
  }
}

void NestEmitter::open_loop(const LoopVar& loop, const std::string& begin, const std::string& end) {
  Writer& out = context_.out;
  if (loop.name == vector_ && vector_reduced_) {
    out.open("for_vectors4({}, {}, [&](isize {}, auto lanes, auto u) NACRE_LAMBDA {{", begin, end, loop.name);
    closers_.push_back('v');
  } else if (loop.name == vector_) {
    out.open("for_vectors({}, {}, [&](isize {}, auto lanes) NACRE_LAMBDA {{", begin, end, loop.name);
    closers_.push_back('v');
  } else {
    out.open("for (isize {0} = {1}; {0} < {2}; ++{0}) {{", loop.name, begin, end);
    closers_.push_back('s');
  }
  open_.insert(loop.name);
}

void NestEmitter::close_loop() {
  context_.out.close(closers_.back() == 'v' ? "});" : "}");
  closers_.pop_back();
}

// Accumulators, the reduced loops around what they reduce, the results.
void NestEmitter::emit_reduced() {
  Writer& out = context_.out;
  std::vector<int> reduces;
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::reduce && !emitted_[i]) reduces.push_back(static_cast<int>(i));
  auto in_vectors = [&](int i) { return !vector_.empty() && varies(nest_.code[static_cast<size_t>(i)].operands[0]); };
  // The innermost loop makes partial sums where it is long enough: whole, or in blocks.
  const LoopVar last = reduced_.back();
  const int64_t length = last.extent.constant().value_or(INT64_MAX);
  const int64_t block = kPartialSteps * (vector_reduced_ ? 4 * kMostLanes : 1);
  const bool blocks = length > 2 * block;
  const auto has_total = [&](int i) {
    return in_vectors(i) && nest_.code[static_cast<size_t>(i)].prim == "sum" && (blocks || (reduced_.size() > 1 && length >= kShortestPartial));
  };
  const bool totals = std::any_of(reduces.begin(), reduces.end(), has_total);
  const auto zero_lanes = [&](const std::string& name, int i) { out.line("vf {}{}{} = {{}};", name, i, vector_reduced_ ? "[4]" : ""); };
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    if (has_total(i)) {
      zero_lanes("total", i);
    } else if (is_arg(s)) {
      const nacre_dtype of = nest_.code[static_cast<size_t>(s.operands[0])].dtype;
      out.line("{} best{} = 0;", scalar_type(of), i);
      out.line("i64 r{} = 0;", i);
    } else if (in_vectors(i) && vector_reduced_) {
      const std::string zero = fmt::format("splat({})", identity(s.prim, s.dtype));
      out.line("vf r{0}[4] = {{{1}, {1}, {1}, {1}}};", i, zero);
    } else if (in_vectors(i)) {
      out.line("vf r{} = splat({});", i, identity(s.prim, s.dtype));
    } else {
      out.line("{} r{} = {};", accumulator_type(s, context_.target), i, identity(s.prim, s.dtype));
    }
  }
  const auto before = emitted_;
  const auto outside = open_;
  for (size_t n = 0; n + 1 < reduced_.size(); ++n) {
    open_loop(reduced_[n], "0", cpp(reduced_[n].extent, facts_));
    emit_ready();
  }
  const std::string end = cpp(last.extent, facts_);
  if (totals && blocks) out.open("for (isize block = 0; block < {}; block += {}) {{", end, block);
  if (totals)
    for (int i : reduces)
      if (has_total(i)) zero_lanes("r", i);
  if (totals && blocks)
    open_loop(last, "block", fmt::format("(block + {0} < {1} ? block + {0} : {1})", block, end));
  else
    open_loop(last, "0", end);
  emit_ready();
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    const int x = s.operands[0];
    if (is_arg(s)) {
      const std::string at = reduced_.back().name;
      out.line("if ({0} == 0 || {1}_first({2}, best{3})) best{3} = {2}, r{3} = {0};", at, s.prim == "argmax" ? "greater" : "less", v(x), i);
    } else if (in_vectors(i) && vector_reduced_) {
      const std::string kept = fmt::format("keep(lanes, {}, splat({}))", v(x), identity(s.prim, s.dtype));
      out.line("r{0}[u] = {1};", i, combined(s.prim, fmt::format("r{}[u]", i), kept));
    } else {
      const std::string r = "r" + std::to_string(i);
      out.line("{} = {};", r, combined(s.prim, r, operand(x, in_vectors(i))));
    }
  }
  close_loop();
  for (int i : reduces) {
    if (!has_total(i)) continue;
    if (vector_reduced_)
      out.line("for (int u = 0; u < 4; ++u) total{0}[u] += r{0}[u];", i);
    else
      out.line("total{0} += r{0};", i);
  }
  if (totals && blocks) out.close("}");
  for (size_t n = 0; n + 1 < reduced_.size(); ++n) close_loop();
  open_ = outside;
  for (int i : reduces) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    emitted_[static_cast<size_t>(i)] = true;
    const std::string r = (has_total(i) ? "total" : "r") + std::to_string(i);
    if (in_vectors(i) && vector_reduced_) {
      const std::string all = combined(s.prim, combined(s.prim, r + "[0]", r + "[1]"), combined(s.prim, r + "[2]", r + "[3]"));
      const std::string whole = s.prim == "prod" ? fmt::format("({0}[0] * {0}[1]) * ({0}[2] * {0}[3])", r) : all;
      const std::string fold = s.prim == "sum" ? "reduce_sum" : s.prim == "amax" ? "reduce_max" : s.prim == "amin" ? "reduce_min" : "reduce_prod";
      out.line("const float {} = {}({});", v(i), fold, whole);
    } else if (in_vectors(i)) {
      out.line("const vf {} = {};", v(i), r);
    } else {
      out.line("const {0} {1} = static_cast<{0}>({2});", scalar_type(s.dtype), v(i), r);
    }
  }
}

// What stands inside the loops that are not reduced.
void NestEmitter::emit_body() {
  emit_ready();
  if (!reduced_.empty()) {
    emit_reduced();
    emit_ready();
  }
  for (size_t i = 0; i < nest_.code.size(); ++i) check(emitted_[i] || nest_.code[i].op == ScalarOp::reduce, "scalar v{} of {} has no place in its loops", i, context_.group.name);
  emit_stores();
}

void NestEmitter::emit(bool split) {
  // Nothing is stored: what is the same at every point must not be read or checked either, as there may be no such element.
  if (std::any_of(loops_.begin(), loops_.end(), [](const LoopVar& loop) { return loop.extent.is(0); })) return;
  if (!scans()) {
    order_loops();
    collapse_loops();
  }
  choose_vector();
  emitted_.assign(nest_.code.size(), false);
  Writer& out = context_.out;

  // The loops around the innermost one are counted by one variable where they are divided among threads.
  std::vector<LoopVar> around(loops_.begin(), loops_.end());
  std::optional<LoopVar> inner;
  const bool keep_inner = scans() || !(reduced_.size() && (vector_.empty() || vector_reduced_));
  if (keep_inner && !around.empty()) {
    inner = around.back();
    around.pop_back();
  }
  emit_ready();
  size_t opened = 0;
  auto open = [&](const LoopVar& loop, const std::string& begin, const std::string& end) {
    open_loop(loop, begin, end);
    ++opened;
    emit_ready();
  };
  bool inner_split = false;
  if (split && !around.empty()) {
    out.line("const Range range = split({}, thread, threads);", cpp(simplify(points_of(around), facts_), facts_));
    if (around.size() == 1) {
      open(around[0], "range.begin", "range.end");
    } else {
      out.open("for (isize flat = range.begin; flat < range.end; ++flat) {{");
      closers_.push_back('s');
      ++opened;
      for (const auto& [name, value] : values_of(around, "flat", facts_)) out.line("const isize {} = {};", name, value);
      for (const LoopVar& loop : around) open_.insert(loop.name);
      emit_ready();
    }
  } else if (split && inner && !scans()) {
    inner_split = true;
    out.line("const Range range = split_vectors({}, thread, threads);", cpp(inner->extent, facts_));
  } else {
    for (const LoopVar& loop : around) open(loop, "0", cpp(loop.extent, facts_));
  }
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    if (s.op == ScalarOp::scan) out.line("{} scan{} = {};", accumulator_type(s, context_.target), i, identity(s.prim, s.dtype));
  }
  if (inner) open(*inner, inner_split ? "range.begin" : "0", inner_split ? "range.end" : cpp(inner->extent, facts_));
  emit_body();
  for (size_t i = 0; i < opened; ++i) close_loop();
}

// What a contraction hands over are lanes along `vector`, also where that loop has one iteration and no index mentions it.
void NestEmitter::depend_on_result(const std::string& vector) {
  for (size_t i = 0; i < nest_.code.size(); ++i) {
    const Scalar& s = nest_.code[i];
    bool lanes = s.op == ScalarOp::accumulator;
    for (int o : s.operands) lanes = lanes || depends_[static_cast<size_t>(o)].contains(vector);
    if (lanes) depends_[i].insert(vector);
  }
}

bool NestEmitter::epilogue_fits(const std::string& vector) {
  depend_on_result(vector);
  return reduced_.empty() && vectors_fit(vector);
}

void NestEmitter::emit_scalar_epilogue() {
  emitted_.assign(nest_.code.size(), false);
  for (const LoopVar& loop : nest_.loops) open_.insert(loop.name);
  emit_body();
}

void NestEmitter::emit_epilogue(const std::string& vector) {
  vector_ = vector;
  vector_reduced_ = false;
  depend_on_result(vector);
  emitted_.assign(nest_.code.size(), false);
  for (const LoopVar& loop : loops_) open_.insert(loop.name);
  open_.insert(vector);
  emit_body();
}

}  // namespace nacre
