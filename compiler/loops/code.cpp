#include "compiler/loops/code.h"

#include <algorithm>
#include <bit>

#include "compiler/graph/ops.h"
#include "compiler/support/error.h"
#include "compiler/support/hash.h"

namespace nacre {
namespace {

// Sums and products of symbols and numbers are canonical already.
bool needs_facts(const Expr& e) {
  switch (e.op()) {
    case ExprOp::constant:
    case ExprOp::symbol:
      return false;
    case ExprOp::add:
    case ExprOp::mul:
      return std::any_of(e.operands().begin(), e.operands().end(), needs_facts);
    default:
      return true;
  }
}

void collect_symbols(const Expr& e, std::vector<int>& out) {
  if (e.op() == ExprOp::symbol) {
    if (auto i = scalar_of_symbol(e.name())) out.push_back(*i);
    return;
  }
  if (e.op() == ExprOp::constant) return;
  for (const Expr& o : e.operands()) collect_symbols(o, out);
}

Expr renumbered(const Expr& e, const std::vector<int>& numbers) {
  std::vector<int> used;
  collect_symbols(e, used);
  if (used.empty()) return e;
  std::map<std::string, Expr> values;
  for (int i : used)
    values[scalar_symbol(i)] = Expr::symbol(scalar_symbol(numbers[static_cast<size_t>(i)]));
  return e.substitute(values);
}

}  // namespace

// ---- Scalars as symbols.

std::string scalar_symbol(int index) { return "v" + std::to_string(index); }

std::optional<int> scalar_of_symbol(const std::string& symbol) {
  if (symbol.size() < 2 || symbol.size() > 9 || symbol[0] != 'v') return std::nullopt;
  int n = 0;
  for (size_t i = 1; i < symbol.size(); ++i) {
    if (symbol[i] < '0' || symbol[i] > '9') return std::nullopt;
    n = n * 10 + (symbol[i] - '0');
  }
  return n;
}

std::vector<int> inputs_of(const Scalar& scalar) {
  std::vector<int> result = scalar.operands;
  for_each_expr(scalar, [&](const Expr& e) { collect_symbols(e, result); });
  return result;
}

std::vector<int> inputs_of(const Store& store) {
  std::vector<int> result{store.value};
  for_each_expr(store, [&](const Expr& e) { collect_symbols(e, result); });
  return result;
}

// ---- Simplification.

Expr Simplifier::operator()(const Expr& e) {
  if (!needs_facts(e)) return e;
  auto found = known_.find(e);
  if (found == known_.end()) found = known_.emplace(e, simplify(e, facts_)).first;
  return found->second;
}

void add_loop_facts(Facts& facts, const std::vector<LoopVar>& loops) {
  for (const LoopVar& loop : loops) {
    SymbolFacts f;
    const Interval extent = interval(loop.extent, facts);
    f.range.min = 0;
    f.range.max = extent.max == kUnbounded ? kUnbounded : std::max<int64_t>(0, extent.max - 1);
    f.below = loop.extent;
    facts[loop.name] = std::move(f);
  }
}

Facts facts_in(const LoopProgram& program, const Group& group, const Nest& nest) {
  Facts facts = program.symbols;
  add_loop_facts(facts, group.outer);
  add_loop_facts(facts, nest.loops);
  for (size_t i = 0; i < nest.code.size(); ++i) {
    const Scalar& s = nest.code[i];
    if (s.op == ScalarOp::check_index) {
      SymbolFacts f;
      const Interval extent = interval(s.expr, facts);
      f.range.max = extent.max == kUnbounded ? kUnbounded : std::max<int64_t>(0, extent.max - 1);
      f.below = s.expr;
      facts[scalar_symbol(static_cast<int>(i))] = std::move(f);
    }
  }
  return facts;
}

// ---- Building code.

size_t hash_of(const Scalar& s) {
  size_t h = hash_combine(static_cast<size_t>(s.op), static_cast<size_t>(s.dtype));
  h = hash_combine(h, std::hash<std::string>()(s.prim));
  for (int o : s.operands) h = hash_combine(h, static_cast<size_t>(o));
  h = hash_combine(h, static_cast<size_t>(s.buffer));
  for_each_expr(s, [&](const Expr& e) { h = hash_combine(h, e.hash()); });
  return hash_combine(h, std::bit_cast<size_t>(s.number));
}

bool same_scalar(const Scalar& a, const Scalar& b) {
  return a.op == b.op && a.dtype == b.dtype && a.prim == b.prim && a.operands == b.operands && a.buffer == b.buffer &&
         a.at == b.at && a.when == b.when && a.expr == b.expr &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number);
}

int CodeBuilder::add(Scalar scalar) {
  const size_t h = hash_of(scalar);
  auto [first, last] = known_.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (same_scalar(code_[static_cast<size_t>(it->second)], scalar)) return it->second;
  const int id = static_cast<int>(code_.size());
  code_.push_back(std::move(scalar));
  known_.emplace(h, id);
  return id;
}

int CodeBuilder::constant(double number, nacre_dtype dtype) {
  Scalar s;
  s.op = ScalarOp::constant;
  s.dtype = compute_type(dtype);
  s.number = number;
  return add(std::move(s));
}

int CodeBuilder::index(Expr value, nacre_dtype dtype) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (auto c = value.constant(); c && *c >= -kExact && *c <= kExact) return constant(static_cast<double>(*c), dtype);
  Scalar s;
  s.op = ScalarOp::index;
  s.dtype = compute_type(dtype);
  s.expr = std::move(value);
  return add(std::move(s));
}

int CodeBuilder::load(BufferId buffer, nacre_dtype stored, std::vector<Expr> at) {
  Scalar s;
  s.op = ScalarOp::load;
  s.dtype = compute_type(stored);
  s.buffer = buffer;
  s.at = std::move(at);
  return add(std::move(s));
}

int CodeBuilder::pointwise(const std::string& prim, std::vector<int> operands, const Provenance& where) {
  const Primitive* p = find_primitive(prim);
  check(p && p->kind == PrimClass::pointwise && p->arity == static_cast<int>(operands.size()), "no primitive {} of {} operands", prim, operands.size());
  Scalar s;
  s.op = ScalarOp::pointwise;
  s.prim = prim;
  s.dtype = result_dtype(*p, (*this)[operands.back()].dtype);
  s.operands = std::move(operands);
  s.where = where;
  return add(std::move(s));
}

int CodeBuilder::cast(int operand, nacre_dtype dtype, const Provenance& where) {
  Scalar s;
  s.op = ScalarOp::cast;
  s.dtype = compute_type(dtype);
  if (is_half(dtype)) s.prim = nacre_dtype_name(dtype);
  const Scalar& from = (*this)[operand];
  if (from.dtype == s.dtype && (s.prim.empty() || (from.op == ScalarOp::cast && from.prim == s.prim))) return operand;
  s.operands = {operand};
  s.where = where;
  return add(std::move(s));
}

void renumber(Scalar& scalar, const std::vector<int>& numbers) {
  for (int& o : scalar.operands) o = numbers[static_cast<size_t>(o)];
  for_each_expr(scalar, [&](Expr& e) { e = renumbered(e, numbers); });
}

void renumber(Store& store, const std::vector<int>& numbers) {
  store.value = numbers[static_cast<size_t>(store.value)];
  for_each_expr(store, [&](Expr& e) { e = renumbered(e, numbers); });
}

std::vector<bool> under_reduction(const Nest& nest) {
  std::vector<bool> under(nest.code.size(), false);
  for (size_t i = nest.code.size(); i-- > 0;) {
    const Scalar& s = nest.code[i];
    if (s.op == ScalarOp::reduce || under[i])
      for (int o : inputs_of(s)) under[static_cast<size_t>(o)] = true;
  }
  return under;
}

void clean(Nest& nest) {
  const std::vector<Scalar> old = std::move(nest.code);
  nest.code.clear();
  const size_t n = old.size();
  std::vector<bool> late(n, false), early(n, false);
  for (Store& s : nest.stores)
    for (int i : inputs_of(s)) late[static_cast<size_t>(i)] = true;
  for (size_t i = n; i-- > 0;) {
    const bool reduces = old[i].op == ScalarOp::reduce;
    if (late[i] && reduces)
      for (int o : inputs_of(old[i])) early[static_cast<size_t>(o)] = true;
    else if (late[i])
      for (int o : inputs_of(old[i])) late[static_cast<size_t>(o)] = true;
    if (early[i]) {
      check(!reduces, "a reduction of a reduction within one nest");
      for (int o : inputs_of(old[i])) early[static_cast<size_t>(o)] = true;
    }
  }
  std::vector<int> before(n, -1), after(n, -1);
  {
    CodeBuilder code(nest.code);
    for (size_t i = 0; i < n; ++i) {
      if (!early[i]) continue;
      Scalar s = old[i];
      renumber(s, before);
      before[i] = code.add(std::move(s));
    }
    for (size_t i = 0; i < n; ++i) {
      if (!late[i] || old[i].op != ScalarOp::reduce) continue;
      Scalar s = old[i];
      renumber(s, before);
      after[i] = code.add(std::move(s));
    }
  }
  // Its own builder: what runs after the reduction does not share scalars with what runs under it.
  CodeBuilder code(nest.code);
  for (size_t i = 0; i < n; ++i) {
    if (!late[i] || old[i].op == ScalarOp::reduce) continue;
    Scalar s = old[i];
    renumber(s, after);
    after[i] = code.add(std::move(s));
  }
  for (Store& s : nest.stores) renumber(s, after);
}

// ---- Accesses.

std::set<BufferId> buffers_read(const Group& group) {
  std::set<BufferId> result;
  for (const Nest& nest : group.nests)
    for (const Scalar& s : nest.code)
      if (s.op == ScalarOp::load) result.insert(s.buffer);
  if (group.contraction)
    for (const Operand& o : group.contraction->operands)
      if (o.buffer >= 0) result.insert(o.buffer);
  if (group.control && group.control->buffer >= 0) result.insert(group.control->buffer);
  if (group.rows)
    for (BufferId b : group.rows->inputs)
      if (b >= 0) result.insert(b);
  return result;
}

std::set<BufferId> buffers_written(const Group& group) {
  std::set<BufferId> result;
  for (const Nest& nest : group.nests)
    for (const Store& s : nest.stores) result.insert(s.buffer);
  if (group.contraction)
    for (BufferId b : group.contraction->results) result.insert(b);
  if (group.rows)
    for (BufferId b : group.rows->outputs)
      if (b >= 0) result.insert(b);
  return result;
}

std::string row_work_name(RowKind kind) {
  switch (kind) {
    case RowKind::sort: return "sort";
    case RowKind::fft: return "fft";
    case RowKind::bitcast: return "bitcast";
    case RowKind::import: return "import";
  }
  return "?";
}

std::string unique_name(const std::string& base, const std::set<std::string>& taken) {
  if (!taken.contains(base)) return base;
  for (int i = 1;; ++i)
    if (std::string name = base + "_" + std::to_string(i); !taken.contains(name)) return name;
}

}  // namespace nacre
