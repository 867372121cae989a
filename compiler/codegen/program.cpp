#include "compiler/codegen/program.h"

#include <algorithm>
#include <bit>
#include <set>

#include "compiler/loops/address.h"
#include "compiler/support/error.h"

namespace nacre {

using formats::Size;

NodeList::NodeList(const Facts& symbols) : symbols_(symbols) {
  for (const auto& [name, facts] : symbols) {
    const uint32_t number = static_cast<uint32_t>(numbers_.size());
    numbers_[name] = number;
    push({NACRE_EXPR_symbol, number, 0});
  }
}

uint32_t NodeList::push(formats::Node node) {
  const auto key = std::make_tuple(static_cast<int>(node.kind), node.a, node.b);
  auto [place, added] = known_.try_emplace(key, static_cast<uint32_t>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return place->second;
}

uint32_t NodeList::node_of(Size size) {
  return size.is_constant() ? push({NACRE_EXPR_constant, 0, size.raw}) : size.node_number();
}

Size NodeList::add(nacre_expr_kind kind, Size a, Size b) {
  const uint32_t first = node_of(a);
  return Size::node(push({kind, first, static_cast<int64_t>(node_of(b))}));
}

Size NodeList::add_symbol(uint32_t number) { return Size::node(push({NACRE_EXPR_symbol, number, 0})); }

Size NodeList::add(const Expr& e) {
  if (auto n = e.constant()) return *n >= 0 ? Size::constant(*n) : Size::node(push({NACRE_EXPR_constant, 0, *n}));
  const auto& operands = e.operands();
  auto fold = [&](nacre_expr_kind kind) {
    Size result = add(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) result = add(kind, result, add(operands[i]));
    return result;
  };
  switch (e.op()) {
    case ExprOp::constant: break;
    case ExprOp::symbol: {
      auto found = numbers_.find(e.name());
      check(found != numbers_.end(), "size expression over unknown symbol {}", e.name());
      return Size::node(found->second);
    }
    case ExprOp::add: return fold(NACRE_EXPR_add);
    case ExprOp::mul: return fold(NACRE_EXPR_mul);
    case ExprOp::floordiv: return fold(NACRE_EXPR_floor_div);
    case ExprOp::mod: return fold(NACRE_EXPR_mod);
    case ExprOp::min: return fold(NACRE_EXPR_min);
    case ExprOp::max: return fold(NACRE_EXPR_max);
    case ExprOp::eq: return fold(NACRE_EXPR_eq);
    case ExprOp::ne: return fold(NACRE_EXPR_ne);
    case ExprOp::lt: return fold(NACRE_EXPR_lt);
    case ExprOp::le: return fold(NACRE_EXPR_le);
    case ExprOp::and_: return fold(NACRE_EXPR_and_);
    case ExprOp::or_: return fold(NACRE_EXPR_or_);
    case ExprOp::not_: return Size::node(push({NACRE_EXPR_not_, node_of(add(operands[0])), 0}));
    case ExprOp::select: {  // c * a + (1 - c) * b, with c 0 or 1
      const Expr c = Expr::make(ExprOp::ne, {operands[0], Expr(0)});
      return add(NACRE_EXPR_add, add(NACRE_EXPR_mul, add(c), add(operands[1])),
                 add(NACRE_EXPR_mul, add(Expr::make(ExprOp::eq, {operands[0], Expr(0)})), add(operands[2])));
    }
  }
  fail(ErrorKind::internal, "an expression of unknown kind");
}

std::optional<int64_t> NodeList::at_limits(Size size) const {
  if (size.is_constant()) return size.raw;
  std::vector<int64_t> limits;
  for (const auto& [name, facts] : symbols_) {
    if (facts.range.max == kUnbounded) return std::nullopt;
    limits.push_back(facts.range.max);
  }
  std::vector<int64_t> values;
  for (const formats::Node& node : nodes_) {
    auto a = [&] { return values[node.a]; };
    auto b = [&] { return values[static_cast<size_t>(node.b)]; };
    int64_t value = 0;
    bool overflow = false;
    switch (node.kind) {
      case NACRE_EXPR_constant: value = node.b; break;
      case NACRE_EXPR_symbol: value = node.a < limits.size() ? limits[node.a] : 0; break;  // beyond: for guards alone
      case NACRE_EXPR_add: overflow = __builtin_add_overflow(a(), b(), &value); break;
      case NACRE_EXPR_sub: overflow = __builtin_sub_overflow(a(), b(), &value); break;
      case NACRE_EXPR_mul: overflow = __builtin_mul_overflow(a(), b(), &value); break;
      case NACRE_EXPR_floor_div: value = b() > 0 && a() >= 0 ? a() / b() : 0; overflow = b() <= 0; break;
      case NACRE_EXPR_mod: value = b() > 0 ? b() - 1 : 0; overflow = b() <= 0; break;  // its own upper limit
      case NACRE_EXPR_min: value = std::min(a(), b()); break;
      case NACRE_EXPR_max: value = std::max(a(), b()); break;
      case NACRE_EXPR_round_up: value = (a() + b() - 1) / b() * b(); break;
      default: value = 1; break;  // truth values
    }
    if (overflow) return std::nullopt;
    values.push_back(value);
  }
  return values[size.node_number()];
}

namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const LoopProgram& program, const MemoryPlan& plan) : program_(program), plan_(plan), nodes_(program.symbols) {}

  ProgramTables build(const std::vector<KernelSource>& kernels, const std::vector<uint32_t>& kernel_of, const Graph& graph, uint64_t features) {
    for (const auto& [name, facts] : program_.symbols) {
      formats::Symbol symbol{name, facts.range.min, facts.range.max, facts.multiple};
      t_.symbols.push_back(symbol);
    }
    t_.entry.name = program_.name.empty() ? "forward" : program_.name;
    variant_.name = "general";
    variant_.guards.push_back({NACRE_GUARD_features, 0, 0, 0, static_cast<int64_t>(features), 0});
    inputs(graph);
    outputs();
    place();
    commands(kernels, kernel_of);
    if (auto bound = nodes_.at_limits(variant_.arena_size)) variant_.arena_bound = *bound;
    for (const formats::Command& c : variant_.commands) {
      auto bound = nodes_.at_limits(c.scratch);
      variant_.scratch_bound = bound && variant_.scratch_bound >= 0 ? std::max(variant_.scratch_bound, *bound) : -1;
    }
    if (variant_.scratch_bound < 0) variant_.scratch_bound = 0;
    t_.entry.nodes = nodes_.nodes();
    t_.entry.variants = {variant_};
    return std::move(t_);
  }

 private:
  formats::Tensor tensor(const std::string& name, nacre_dtype dtype, const std::vector<Expr>& shape) {
    formats::Tensor result;
    result.name = name;
    result.dtype = dtype;
    for (const Expr& e : shape) result.dims.push_back(nodes_.add(simplify(e, program_.symbols)));
    return result;
  }

  // `k * s + c` with k > 0: what one dimension can bind.
  struct Affine {
    std::string symbol;
    int64_t k, c;
  };
  std::optional<Affine> affine(const Expr& e) const {
    const auto symbols = e.symbols();
    if (symbols.size() != 1) return std::nullopt;
    auto k = coefficient(e, *symbols.begin(), program_.symbols);
    if (!k || !k->constant() || *k->constant() <= 0) return std::nullopt;
    auto c = without(e, *symbols.begin(), program_.symbols).constant();
    if (!c) return std::nullopt;
    return Affine{*symbols.begin(), *k->constant(), *c};
  }

  uint32_t symbol_number(const std::string& name) const {
    return static_cast<uint32_t>(std::distance(program_.symbols.begin(), program_.symbols.find(name)));
  }

  // The value of a node is not 0.
  formats::Guard holds(Size node) { return {NACRE_GUARD_node, 0, 0, static_cast<int64_t>(node.node_number()), 0, 0}; }
  formats::Guard divisible(const std::string& symbol, int64_t by) {
    const Size rest = nodes_.add(NACRE_EXPR_mod, nodes_.add(Expr::symbol(symbol)), Size::constant(by));
    return holds(nodes_.add(NACRE_EXPR_eq, rest, Size::constant(0)));
  }

  // What an input that is a number must be: the one that export took as given; or an integer, which becomes the value of
  // its symbol, or is compared with what the symbols bound before make of its expression.
  void number(const Value& value, uint16_t input, std::set<std::string>& bound, std::vector<formats::Guard>& late) {
    std::vector<formats::Guard>& guards = variant_.guards;
    auto equal = [&](int64_t wanted) { guards.push_back({NACRE_GUARD_value_equal, input, 0, 0, wanted, 0}); };
    if (value.kind == ValueKind::boolean) {
      if (value.number) equal(static_cast<int64_t>(*value.number));
    } else if (value.kind == ValueKind::floating) {
      if (!value.number) return;
      // As the input's type can hold it.
      const double wanted = value.dtype == NACRE_f32 ? static_cast<double>(static_cast<float>(*value.number)) : *value.number;
      equal(std::bit_cast<int64_t>(wanted));
    } else if (auto n = value.expr.constant()) {
      equal(*n);
    } else if (value.expr.op() == ExprOp::symbol && bound.insert(value.expr.name()).second) {
      const std::string& name = value.expr.name();
      const SymbolFacts& facts = program_.symbols.at(name);
      guards.push_back({NACRE_GUARD_bind_value, input, 0, static_cast<int64_t>(symbol_number(name)), 0, 0});
      if (facts.range.min > -kUnbounded || facts.range.max != kUnbounded)
        guards.push_back({NACRE_GUARD_value_range, input, 0, 0, facts.range.min, facts.range.max});
      if (facts.multiple > 1) late.push_back(divisible(name, facts.multiple));
    } else {
      const uint32_t symbol = static_cast<uint32_t>(t_.symbols.size());
      t_.symbols.push_back({value.name, -kUnbounded, kUnbounded, 1});
      guards.push_back({NACRE_GUARD_bind_value, input, 0, static_cast<int64_t>(symbol), 0, 0});
      late.push_back(holds(nodes_.add(NACRE_EXPR_eq, nodes_.add_symbol(symbol), nodes_.add(simplify(value.expr, program_.symbols)))));
    }
  }

  void inputs(const Graph& graph) {
    std::vector<const Value*> values;
    for (const GraphInput& input : graph.inputs) {
      if (input.kind != InputKind::user) continue;
      const Value& value = graph[input.value];
      values.push_back(&value);
      formats::Tensor t = tensor(input.target.empty() ? value.name : input.target, value.dtype, value.shape);
      if (value.kind != ValueKind::tensor) t.flags |= NACRE_TENSOR_SCALAR;
      for (const LoopProgram::Mutation& m : program_.input_mutations)
        if (m.input == static_cast<int>(values.size()) - 1) t.flags |= NACRE_TENSOR_MUTATED;
      t_.entry.inputs.push_back(t);
    }
    std::vector<formats::Guard>& guards = variant_.guards;
    std::vector<formats::Guard> late;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t number = static_cast<uint16_t>(i);
      guards.push_back({NACRE_GUARD_dtype, number, 0, 0, static_cast<int64_t>(values[i]->dtype), 0});
      guards.push_back({NACRE_GUARD_rank, number, 0, 0, static_cast<int64_t>(values[i]->shape.size()), 0});
    }
    std::set<std::string> bound;
    auto each_dim = [&](auto visit) {
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t d = 0; d < values[i]->shape.size(); ++d)
          visit(static_cast<uint16_t>(i), static_cast<uint16_t>(d), simplify(values[i]->shape[d], program_.symbols));
    };
    auto bind = [&](uint16_t i, uint16_t d, const Affine& a) {
      const SymbolFacts& facts = program_.symbols.at(a.symbol);
      guards.push_back({NACRE_GUARD_bind, i, d, static_cast<int64_t>(symbol_number(a.symbol)), a.k, a.c});
      const int64_t lo = std::max<int64_t>(facts.range.min, 0) * a.k + a.c;
      int64_t hi = INT64_MAX;
      if (facts.range.max != kUnbounded && (__builtin_mul_overflow(facts.range.max, a.k, &hi) || __builtin_add_overflow(hi, a.c, &hi))) hi = INT64_MAX;
      if (lo > 0 || hi != INT64_MAX) guards.push_back({NACRE_GUARD_range, i, d, 0, lo, hi});
      if (facts.multiple > 1 && a.c == 0) guards.push_back({NACRE_GUARD_multiple, i, d, 0, facts.multiple * a.k, 0});
      if (facts.multiple > 1 && a.c != 0) late.push_back(divisible(a.symbol, facts.multiple));
      bound.insert(a.symbol);
    };
    std::set<std::pair<uint16_t, uint16_t>> done;
    for (const bool plain : {true, false})
      each_dim([&](uint16_t i, uint16_t d, const Expr& e) {
        if (done.contains({i, d}) || e.constant()) return;
        auto a = affine(e);
        if (!a || bound.contains(a->symbol) || (plain && (a->k != 1 || a->c != 0))) return;
        bind(i, d, *a);
        done.insert({i, d});
      });
    each_dim([&](uint16_t i, uint16_t d, const Expr& e) {
      if (done.contains({i, d})) return;
      if (auto n = e.constant())
        guards.push_back({NACRE_GUARD_equal, i, d, 0, *n, 0});
      else
        late.push_back({NACRE_GUARD_equal_node, i, d, static_cast<int64_t>(nodes_.add(e).node_number()), 0, 0});
    });
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i]->kind != ValueKind::tensor) number(*values[i], static_cast<uint16_t>(i), bound, late);
    for (const auto& [name, facts] : program_.symbols)
      if (!bound.contains(name))
        fail(ErrorKind::unsupported, "the size {} depends on data, or on no input: no guard can bind it", name);
    for (const Expr& e : program_.assumptions) {
      const Expr s = simplify(e, program_.symbols);
      if (s.constant()) continue;
      late.push_back(holds(nodes_.add(s)));
    }
    guards.insert(guards.end(), late.begin(), late.end());
  }

  void outputs() {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const LoopProgram::Output& output = program_.outputs[i];
      check(output.buffer >= 0, "output {} is a number without a buffer", i);
      const Buffer& b = program_[output.buffer];
      t_.entry.outputs.push_back(tensor(b.name, b.dtype, b.shape));
    }
  }

  void place() {
    place_.assign(program_.buffers.size(), Size::constant(0));
    if (plan_.constant) {
      for (const Placement& p : plan_.placements) place_[static_cast<size_t>(p.buffer)] = Size::constant(p.offset);
      variant_.arena_size = Size::constant(plan_.size_bytes);
      t_.arena_text = std::to_string(plan_.size_bytes);
      return;
    }
    std::vector<Extent> ends;
    Extent total;
    for (const Placement& p : plan_.placements) {
      // An end below another's is covered by it only by chance, so all of them count.
      Extent offset;
      for (size_t i : p.below) offset = larger(offset, ends[i]);
      const Size bytes = nodes_.add(p.size_bytes);
      ends.push_back({offset.expr + p.size_bytes, offset.size == Size::constant(0) ? bytes : nodes_.add(NACRE_EXPR_add, offset.size, bytes)});
      place_[static_cast<size_t>(p.buffer)] = offset.size;
      total = larger(total, ends.back());
    }
    variant_.arena_size = total.size;
    t_.arena_text = text_of(total.expr);
  }

  // A number of bytes: as an expression, in which maxima are symbols of their own, and as the runtime computes it.
  struct Extent {
    Expr expr = 0;
    Size size = Size::constant(0);
  };

  // A maximum is computed only where ranges do not decide it.
  Extent larger(const Extent& a, const Extent& b) {
    const Interval difference = interval(b.expr - a.expr, program_.symbols);
    if (difference.min >= 0) return b;
    if (difference.max <= 0) return a;
    const Expr both = max(a.expr, b.expr);
    auto [known, added] = maxima_.try_emplace(both, Expr::symbol("max." + std::to_string(maxima_.size())));
    if (added) meaning_.emplace(known->second.name(), both);
    return {known->second, nodes_.add(NACRE_EXPR_max, a.size, b.size)};
  }

  // With the maxima in their places, unless that is too long to be read.
  std::string text_of(Expr e) const {
    constexpr size_t kReadable = 400;
    for (;;) {
      const std::string text = e.str();
      if (text.size() > kReadable) return "an expression that is long; nacre inspect shows its steps";
      const std::set<std::string> symbols = e.symbols();
      const auto next = std::find_if(symbols.begin(), symbols.end(), [&](const std::string& name) { return meaning_.contains(name); });
      if (next == symbols.end()) return text;
      e = e.substitute({{*next, meaning_.at(*next)}});
    }
  }

  uint32_t slot(BufferId id) {
    if (auto found = slots_.find(id); found != slots_.end()) return found->second;
    const Buffer& b = program_[id];
    formats::Slot s;
    const Expr bytes = elements_of(b) * static_cast<int64_t>(nacre_dtype_size_bytes(b.dtype));
    s.size = nodes_.add(simplify(bytes, program_.symbols));
    auto number = [](std::vector<std::string>& list, const std::string& name) {
      auto found = std::find(list.begin(), list.end(), name);
      if (found == list.end()) found = list.insert(list.end(), name);
      return static_cast<uint32_t>(found - list.begin());
    };
    switch (b.kind) {
      case BufferKind::input: s.kind = NACRE_SLOT_INPUT; s.index = static_cast<uint32_t>(b.index); break;
      case BufferKind::output: s.kind = NACRE_SLOT_OUTPUT; s.index = static_cast<uint32_t>(b.index); break;
      case BufferKind::weight: s.kind = NACRE_SLOT_WEIGHT; s.index = number(t_.weights, b.target); break;
      case BufferKind::state: s.kind = NACRE_SLOT_STATE; s.index = number(t_.states, b.target); break;
      case BufferKind::temporary: s.kind = NACRE_SLOT_ARENA; s.offset = place_[static_cast<size_t>(id)]; break;
      case BufferKind::local: fail(ErrorKind::internal, "local buffer {} outside its group", b.name);
    }
    formats::Tensor t = tensor(b.name, b.dtype, b.shape);
    for (int d : b.order) t.layout.push_back(static_cast<uint8_t>(d));
    variant_.slot_tensors.push_back(t);
    variant_.slots.push_back(s);
    return slots_[id] = static_cast<uint32_t>(variant_.slots.size()) - 1;
  }

  uint32_t provenance(const Provenance& p) {
    const formats::Provenance f{p.op, p.module, p.file, static_cast<uint32_t>(std::max(0, p.line))};
    auto found = std::find(t_.provenances.begin(), t_.provenances.end(), f);
    if (found == t_.provenances.end()) found = t_.provenances.insert(t_.provenances.end(), f);
    return static_cast<uint32_t>(found - t_.provenances.begin());
  }

  void commands(const std::vector<KernelSource>& kernels, const std::vector<uint32_t>& kernel_of) {
    bool pending = false, pending_parallel = false;  // commands since the last barrier
    auto needs_barrier = [&](bool serial) {
      const bool barrier = pending && (!serial || pending_parallel);
      if (barrier) pending = pending_parallel = false;
      pending = true;
      pending_parallel = pending_parallel || !serial;
      return barrier;
    };
    uint32_t most = 0;
    for (uint32_t k : kernel_of) most = std::max(most, k + 1);
    t_.kernel_provenances.resize(most);
    for (size_t g = 0; g < kernels.size(); ++g) {
      const KernelSource& kernel = kernels[g];
      formats::Command c;
      c.kind = NACRE_COMMAND_call;
      if (needs_barrier(kernel.serial)) c.flags |= NACRE_COMMAND_BARRIER;
      if (kernel.team) c.flags |= NACRE_COMMAND_TEAM;
      c.threads = kernel.serial ? 1 : 0;
      c.target = kernel_of[g];
      for (BufferId id : kernel.buffers) c.operands.push_back(slot(id));
      for (const Provenance& p : kernel.where) c.provenances.push_back(provenance(p));
      if (t_.kernel_provenances[c.target].empty()) t_.kernel_provenances[c.target] = c.provenances;
      c.scratch = nodes_.add(kernel.scratch_bytes);
      c.flops = nodes_.add(kernel.flops);
      c.bytes = nodes_.add(kernel.bytes);
      variant_.commands.push_back(c);
    }
    for (const LoopProgram::Mutation& m : program_.input_mutations) {
      const BufferId to = program_.inputs[static_cast<size_t>(m.input)];
      if (to == m.from) continue;
      formats::Command c;
      c.kind = NACRE_COMMAND_copy;
      if (needs_barrier(true)) c.flags |= NACRE_COMMAND_BARRIER;
      c.threads = 1;
      c.operands = {slot(to), slot(m.from)};
      variant_.commands.push_back(c);
    }
    formats::Command end;
    end.kind = NACRE_COMMAND_end;
    variant_.commands.push_back(end);
  }

  const LoopProgram& program_;
  const MemoryPlan& plan_;
  NodeList nodes_;
  ProgramTables t_;
  formats::Variant variant_;
  std::vector<Size> place_;
  std::map<Expr, Expr> maxima_;          // a maximum -> its symbol
  std::map<std::string, Expr> meaning_;  // and back
  std::map<BufferId, uint32_t> slots_;
};

}  // namespace

ProgramTables make_program(const LoopProgram& program, const std::vector<KernelSource>& kernels, const std::vector<uint32_t>& kernel_of,
                           const MemoryPlan& plan, const Graph& graph, uint64_t features) {
  return ProgramBuilder(program, plan).build(kernels, kernel_of, graph, features);
}

}  // namespace nacre
