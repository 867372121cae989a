#include "compiler/codegen/program.h"

#include <algorithm>
#include <set>

#include "compiler/loops/address.h"
#include "compiler/loops/regions.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"
#include "formats/kinds.h"

namespace nacre {

using formats::Size;

namespace {

formats::Tensor tensor(const std::string& name, nacre_dtype dtype, const std::vector<Expr>& shape, const Facts& symbols, NodeList& nodes) {
  if (shape.size() > NACRE_MAX_RANK)
    fail(ErrorKind::unsupported, "'{}' has {} dimensions; a tensor that goes in or out, or that an artifact keeps, has at most {}", name,
         shape.size(), NACRE_MAX_RANK);
  formats::Tensor result;
  result.name = name;
  result.dtype = dtype;
  for (const Expr& e : shape) result.dims.push_back(nodes.add(simplify(e, symbols)));
  return result;
}

// In the order of their nodes.
std::vector<std::string> symbols_of(const SharedInput& input) {
  std::vector<std::string> symbols = input.strides;
  symbols.push_back(input.offset);
  return symbols;
}

class VariantBuilder {
 public:
  VariantBuilder(const VariantSource& source, const MemoryPlan& plan, const EntryTables& entry, Tables& tables)
      : source_(source), program_(source.program), plan_(plan), entry_(entry), nodes_(entry.nodes), t_(tables), later_(bound_symbols(program_)) {}

  MadeVariant build(const Graph& graph, uint64_t features) {
    variant_.name = source_.name;
    for (const SharedInput& s : source_.shared)
      for (const std::string& symbol : symbols_of(s)) nodes_.add_symbol(symbol, entry_.bindings.shared.at(symbol));
    variant_.guards = make_guards(graph, program_, entry_.bindings, nodes_, source_.shared, features);
    place();
    commands(source_.kernels, source_.kernel_of);
    others();
    const auto& nodes = nodes_.nodes();
    variant_.nodes.assign(nodes.begin() + static_cast<std::ptrdiff_t>(entry_.entry.nodes.size()), nodes.end());
    settle_nodes(variant_, static_cast<uint32_t>(entry_.entry.nodes.size()));
    return {std::move(variant_), std::move(arena_text_)};
  }

 private:
  void place() {
    place_.assign(program_.buffers.size(), Size::constant(0));
    if (plan_.constant) {
      for (const Placement& p : plan_.placements) {
        place_[static_cast<size_t>(p.buffer)] = Size::constant(p.offset);
        if (p.inside >= 0) inside_.emplace(p.buffer, p.inside);
      }
      variant_.arena_size = Size::constant(plan_.size_bytes);
      arena_text_ = std::to_string(plan_.size_bytes);
      if (plan_.size_bytes <= NACRE_MAX_BYTES) variant_.arena_bound = plan_.size_bytes;
      return;
    }
    std::vector<bool> covered(plan_.placements.size());  // by another that lies above
    for (const Placement& p : plan_.placements)
      for (size_t i : p.below) covered[i] = true;
    std::vector<Extent> ends, highest;
    for (const Placement& p : plan_.placements) {
      // No end is below 0, whatever intervals say.
      std::vector<Extent> below;
      for (size_t i : p.below) raise(below, ends[i]);
      const Extent offset = largest(below);
      const Size bytes = nodes_.add(p.size_bytes);
      ends.push_back({offset.expr + p.size_bytes, offset.size == Size::constant(0) ? bytes : nodes_.add(NACRE_EXPR_add, offset.size, bytes),
                      bounded(offset.bound, p.size_bytes)});
      place_[static_cast<size_t>(p.buffer)] = offset.size;
      if (!covered[ends.size() - 1]) raise(highest, ends.back());
    }
    const Extent total = largest(highest);
    variant_.arena_size = total.size;
    if (total.bound <= NACRE_MAX_BYTES) variant_.arena_bound = total.bound;
    arena_text_ = text_of(total.expr);
  }

  // A number of bytes: as an expression, in which maxima are symbols of their own, as the runtime computes it, and its upper
  // limit (kUnbounded: none).
  struct Extent {
    Expr expr = 0;
    Size size = Size::constant(0);
    int64_t bound = 0;
  };

  // What an expression with maxima may be, one for each choice of their operands; nothing where these are many.
  std::vector<Expr> choices(const Expr& e) const {
    constexpr size_t kMost = 4;
    std::vector<Expr> found{e};
    for (size_t i = 0; i < found.size();) {
      const std::set<std::string> symbols = found[i].symbols();
      const auto next = std::find_if(symbols.begin(), symbols.end(), [&](const std::string& name) { return meaning_.contains(name); });
      if (next == symbols.end()) {
        ++i;
        continue;
      }
      const std::vector<Expr> operands = meaning_.at(*next).operands();
      if (found.size() + operands.size() - 1 > kMost) return {};
      for (size_t k = 1; k < operands.size(); ++k) found.push_back(found[i].substitute({{*next, operands[k]}}));
      found[i] = found[i].substitute({{*next, operands[0]}});
    }
    return found;
  }

  // Whether `a` is at least `b`, whatever the symbols are.
  bool covers(const Extent& a, const Extent& b) const {
    if (a.expr == b.expr) return true;
    const std::vector<Expr> as = choices(a.expr), bs = choices(b.expr);
    return !bs.empty() && std::all_of(bs.begin(), bs.end(), [&](const Expr& low) {
      return std::any_of(as.begin(), as.end(), [&](const Expr& high) { return interval(high - low, program_.symbols).min >= 0; });
    });
  }

  // `ends` without those that another covers, and with one more.
  void raise(std::vector<Extent>& ends, const Extent& end) const {
    if (std::any_of(ends.begin(), ends.end(), [&](const Extent& e) { return covers(e, end); })) return;
    std::erase_if(ends, [&](const Extent& e) { return covers(end, e); });
    ends.push_back(end);
  }

  Extent largest(const std::vector<Extent>& ends) {
    Extent all;
    for (const Extent& e : ends) all = &e == &ends.front() ? e : larger(all, e);
    return all;
  }

  Extent larger(const Extent& a, const Extent& b) {
    const Expr both = max(a.expr, b.expr);
    auto [known, added] = maxima_.try_emplace(both, Expr::symbol("max." + std::to_string(maxima_.size())));
    if (added) meaning_.emplace(known->second.name(), both);
    return {known->second, nodes_.add(NACRE_EXPR_max, a.size, b.size), std::max(a.bound, b.bound)};
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

  // The upper limit of `from + bytes`; kUnbounded without one.
  int64_t bounded(int64_t from, const Expr& bytes) const {
    const int64_t most = interval(bytes, program_.symbols).max;
    int64_t sum = 0;
    return from == kUnbounded || most == kUnbounded || __builtin_add_overflow(from, most, &sum) ? kUnbounded : sum;
  }

  // The buffer from its element `start` on.
  uint32_t slot(BufferId id, int64_t start = 0) {
    if (auto found = slots_.find({id, start}); found != slots_.end()) return found->second;
    const Buffer& b = program_[id];
    formats::Slot s;
    const int64_t skipped = start * static_cast<int64_t>(nacre_dtype_size_bytes(b.dtype));
    s.size = nodes_.add(simplify(capacity_bytes(b, later_, program_.symbols) - skipped, program_.symbols));
    auto data = [&]() -> const HostTensor& {
      auto found = source_.weights.find(b.target);
      check(found != source_.weights.end(), "no data for weight {}", b.target);
      return found->second;
    };
    switch (b.kind) {
      case BufferKind::input: s.kind = NACRE_SLOT_INPUT; s.index = static_cast<uint32_t>(b.index); break;
      case BufferKind::output: s.kind = NACRE_SLOT_OUTPUT; s.index = static_cast<uint32_t>(b.index); break;
      case BufferKind::weight: s.kind = NACRE_SLOT_WEIGHT; s.index = t_.weight(b.target, data()); break;
      case BufferKind::state: s.kind = NACRE_SLOT_STATE; s.index = t_.state(b.target, data()); break;
      case BufferKind::temporary:
        s.kind = NACRE_SLOT_ARENA;
        s.offset = place_[static_cast<size_t>(id)];
        if (const auto output = inside_.find(id); output != inside_.end()) {
          s.kind = NACRE_SLOT_OUTPUT;
          s.index = static_cast<uint32_t>(program_[output->second].index);
        }
        break;
      case BufferKind::local: fail(ErrorKind::internal, "local buffer {} outside its group", b.name);
    }
    if (skipped > 0)
      s.offset = s.offset.is_constant() ? Size::constant(s.offset.raw + skipped) : nodes_.add(NACRE_EXPR_add, s.offset, Size::constant(skipped));
    formats::Tensor t = tensor(b.name, b.dtype, b.shape, program_.symbols, nodes_);
    for (int d : b.order) t.layout.push_back(static_cast<uint8_t>(d));
    variant_.slot_tensors.push_back(t);
    variant_.slots.push_back(s);
    return slots_[{id, start}] = static_cast<uint32_t>(variant_.slots.size()) - 1;
  }

  uint32_t symbol_number(const std::string& name) const {
    const auto found = entry_.symbols.find(name);
    check(found != entry_.symbols.end(), "the entry does not know the symbol {}", name);
    return entry_.bindings.first_symbol + static_cast<uint32_t>(std::distance(entry_.symbols.begin(), found));
  }

  // Whether a command must wait for those since the last barrier: one thread alone knows what it did itself.
  bool needs_barrier(bool serial) {
    const bool barrier = pending_ && (!serial || pending_parallel_);
    if (barrier) pending_ = pending_parallel_ = false;
    pending_ = true;
    pending_parallel_ = pending_parallel_ || !serial;
    return barrier;
  }

  // Regions become branches and jumps. Every thread takes a branch on its own, so that commands that write the bool wait for all.
  void control(const Control& control) {
    const auto number = [&] { return static_cast<uint32_t>(variant_.commands.size()); };
    const auto add = [&](nacre_command_kind kind, uint32_t target, bool serial) {
      formats::Command c;
      c.kind = kind;
      c.target = target;
      if (kind == NACRE_COMMAND_loop)
        c.flags = NACRE_COMMAND_BARRIER;
      else if (kind != NACRE_COMMAND_jump && needs_barrier(serial))
        c.flags = NACRE_COMMAND_BARRIER;
      if (control.buffer >= 0 && (kind == NACRE_COMMAND_branch || kind == NACRE_COMMAND_bind)) c.operands = {slot(control.buffer)};
      if (!control.where.op.empty()) c.provenances = {t_.provenance(control.where)};
      variant_.commands.push_back(std::move(c));
    };
    // What comes next may follow on one command or on another.
    const auto meet = [&] { pending_ = pending_parallel_ = true; };
    const auto come_here = [&](const std::vector<uint32_t>& commands) {
      for (uint32_t c : commands) variant_.commands[c].target = number();
    };
    switch (control.kind) {
      case ControlKind::if_:
        open_.push_back({number(), {number()}});
        add(NACRE_COMMAND_branch, 0, false);
        break;
      case ControlKind::else_: {
        const std::vector<uint32_t> branch = open_.back().leave;
        open_.back().leave = {number()};
        add(NACRE_COMMAND_jump, 0, false);
        come_here(branch);
        meet();
        break;
      }
      case ControlKind::loop:
        open_.push_back({number(), {}});
        add(NACRE_COMMAND_loop, 0, false);
        pending_ = pending_parallel_ = false;
        break;
      case ControlKind::while_:
        open_.back().leave.push_back(number());
        add(NACRE_COMMAND_branch, 0, false);
        break;
      case ControlKind::end: {
        const Open open = open_.back();
        open_.pop_back();
        if (variant_.commands[open.head].kind == NACRE_COMMAND_loop) add(NACRE_COMMAND_jump, open.head, false);
        come_here(open.leave);
        meet();
        break;
      }
      case ControlKind::bind: {
        add(NACRE_COMMAND_bind, symbol_number(control.symbol), false);
        // What it counts must not outgrow the memory that is kept for it.
        const SymbolFacts& facts = program_.symbols.at(control.symbol);
        if (facts.below) check_that(Expr::make(ExprOp::lt, {Expr::symbol(control.symbol), *facts.below}), add);
        break;
      }
      case ControlKind::check:
        check_that(control.condition, add);
        break;
    }
  }
  template <class Add>
  void check_that(const Expr& condition, Add add) {
    const Size node = nodes_.add(condition);
    add(NACRE_COMMAND_check, node.is_constant() ? nodes_.constant_node(node.raw) : node.node_number(), true);
  }

  struct Open {
    uint32_t head;
    std::vector<uint32_t> leave;  // commands that go on behind it
  };

  void call_import(const KernelSource& kernel) {
    formats::Command c;
    c.kind = NACRE_COMMAND_import;
    if (needs_barrier(true)) c.flags |= NACRE_COMMAND_BARRIER;
    c.threads = 1;
    c.target = t_.import({kernel.import->function, kernel.import->arguments, static_cast<uint32_t>(kernel.import->input_count)});
    for (BufferId id : kernel.buffers) c.operands.push_back(slot(id));
    for (const Provenance& p : kernel.where) c.provenances.push_back(t_.provenance(p));
    variant_.commands.push_back(std::move(c));
  }

  uint32_t grid_of(const KernelSource& kernel) {
    const Size blocks = nodes_.add(simplify(capacity(kernel.launch->blocks, later_, program_.symbols), program_.symbols));
    return 1 + (blocks.is_constant() ? nodes_.constant_node(blocks.raw) : blocks.node_number());
  }

  Size scratch_of(const KernelSource& kernel) {
    const Expr bytes = capacity(kernel.scratch_bytes, later_, program_.symbols);
    scratch_ = std::max(scratch_, bounded(0, bytes));
    return nodes_.add(bytes);
  }

  void others() {
    for (const OtherKernel& other : source_.others) {
      const formats::Command& command = variant_.commands[command_of_.at(other.group)];
      t_.kernel_provenances.resize(std::max<size_t>(t_.kernel_provenances.size(), other.number + 1));
      if (t_.kernel_provenances[other.number].empty()) t_.kernel_provenances[other.number] = command.provenances;
      variant_.candidates.push_back({command_of_.at(other.group), other.number, static_cast<uint32_t>(other.kernel.launch->threads), grid_of(other.kernel), scratch_of(other.kernel),
                                     other.kernel.question, other.choice});
    }
    if (scratch_ <= NACRE_MAX_BYTES) variant_.scratch_bound = scratch_;
  }

  void commands(const std::vector<KernelSource>& kernels, const std::vector<uint32_t>& kernel_of) {
    for (size_t g = 0; g < kernels.size(); ++g) {
      if (program_.groups[g].control) {
        control(*program_.groups[g].control);
        continue;
      }
      const KernelSource& kernel = kernels[g];
      if (kernel.import) {
        call_import(kernel);
        continue;
      }
      t_.kernel_provenances.resize(std::max<size_t>(t_.kernel_provenances.size(), kernel_of[g] + 1));
      formats::Command c;
      c.kind = NACRE_COMMAND_call;
      if (needs_barrier(kernel.serial)) c.flags |= NACRE_COMMAND_BARRIER;
      if (kernel.team) c.flags |= NACRE_COMMAND_TEAM;
      c.threads = kernel.serial ? 1 : 0;
      if (kernel.launch) {
        c.grid = grid_of(kernel);
        c.threads = static_cast<uint32_t>(kernel.launch->threads);
      }
      c.target = kernel_of[g];
      for (size_t i = 0; i < kernel.buffers.size(); ++i) c.operands.push_back(slot(kernel.buffers[i], i < kernel.starts.size() ? kernel.starts[i] : 0));
      for (const Provenance& p : kernel.where) c.provenances.push_back(t_.provenance(p));
      if (t_.kernel_provenances[c.target].empty()) t_.kernel_provenances[c.target] = c.provenances;
      c.scratch = scratch_of(kernel);
      command_of_[g] = static_cast<uint32_t>(variant_.commands.size());
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

  const VariantSource& source_;
  const LoopProgram& program_;
  const MemoryPlan& plan_;
  const EntryTables& entry_;
  NodeList nodes_;
  Tables& t_;
  formats::Variant variant_;
  std::vector<Size> place_;
  std::map<Expr, Expr> maxima_;          // a maximum -> its symbol
  std::map<std::string, Expr> meaning_;  // and back
  std::map<std::pair<BufferId, int64_t>, uint32_t> slots_;  // by buffer and first element
  std::map<BufferId, BufferId> inside_;  // temporaries in the memory of an output
  std::string arena_text_;
  int64_t scratch_ = 0;  // the largest that a command may come to
  std::map<size_t, uint32_t> command_of_;  // by group
  const std::set<std::string> later_;  // symbols that get their values during the run
  std::vector<Open> open_;
  bool pending_ = false, pending_parallel_ = false;  // commands since the last barrier
};

}  // namespace

SymbolNodes symbol_nodes(const EntryTables& entry, const std::vector<SharedInput>& shared) {
  SymbolNodes result;
  for (const auto& [name, facts] : entry.symbols) result.emplace(name, static_cast<uint32_t>(result.size()));
  for (const SharedInput& s : shared)
    for (const std::string& symbol : symbols_of(s)) result.emplace(symbol, static_cast<uint32_t>(entry.entry.nodes.size() + result.size() - entry.symbols.size()));
  return result;
}

EntryTables make_entry(const std::string& name, const Graph& graph, const LoopProgram& general, const std::vector<SharedInput>& shared, Tables& tables) {
  EntryTables result{{}, graph.symbols, NodeList(graph.symbols, static_cast<uint32_t>(tables.symbols.size())), {}};
  result.bindings.first_symbol = static_cast<uint32_t>(tables.symbols.size());
  for (const auto& [symbol, facts] : graph.symbols) tables.symbols.push_back({symbol, facts.range.min, facts.range.max, facts.multiple});
  formats::Entry& entry = result.entry;
  entry.name = name;
  std::set<std::string> named;
  for (const GraphInput& input : graph.inputs)
    if (input.kind == InputKind::user)
      for (const Expr& e : graph[input.value].shape)
        for (const std::string& symbol : e.symbols()) named.insert(symbol);
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != InputKind::user) continue;
    const Value& value = graph[input.value];
    const size_t number = entry.inputs.size();
    formats::Tensor t = tensor(input.target.empty() ? value.name : input.target, value.dtype, value.shape, graph.symbols, result.nodes);
    t.path = input.path;
    if (value.kind != ValueKind::tensor) t.flags |= NACRE_TENSOR_SCALAR;
    for (const LoopProgram::Mutation& m : general.input_mutations)
      if (m.input == static_cast<int>(number)) t.flags |= NACRE_TENSOR_MUTATED;
    entry.inputs.push_back(t);
    // The symbol itself may have its value from elsewhere; then this is compared with it.
    if (value.kind != ValueKind::integer || value.expr.constant()) continue;
    if (value.expr.op() == ExprOp::symbol && named.insert(value.expr.name()).second) continue;
    result.bindings.numbers[number] = static_cast<uint32_t>(tables.symbols.size());
    tables.symbols.push_back({value.name, -kUnbounded, kUnbounded, 1});
  }
  const std::set<std::string> later = bound_symbols(general);
  std::vector<std::string> paths;
  for (const GraphOutput& output : graph.outputs)
    if (output.kind == OutputKind::user && !std::holds_alternative<std::monostate>(output.value)) paths.push_back(output.target);
  for (size_t i = 0; i < general.outputs.size(); ++i) {
    const LoopProgram::Output& output = general.outputs[i];
    check(output.buffer >= 0, "output {} is a number without a buffer", i);
    const Buffer& b = general[output.buffer];
    std::vector<Expr> shape = b.shape;
    if (b.complex) shape.pop_back();
    const nacre_dtype dtype = b.complex ? complex_of(b.dtype) : b.dtype;
    formats::Tensor t = tensor(b.name, dtype, shape, graph.symbols, result.nodes);
    if (std::any_of(shape.begin(), shape.end(), [&](const Expr& e) { return has_symbol_of(e, later); }))
      for (const Expr& e : shape) t.bounds.push_back(result.nodes.add(capacity(e, later, general.symbols)));
    entry.outputs.push_back(std::move(t));
    if (i < paths.size()) entry.outputs.back().path = paths[i];
  }
  entry.nodes = result.nodes.nodes();
  for (const LoopProgram::Mutation& m : general.input_mutations)
    for (size_t other = 0; other < entry.inputs.size(); ++other) {
      const std::pair<size_t, size_t> pair = std::minmax(static_cast<size_t>(m.input), other);
      auto& apart = result.bindings.apart;
      const bool scalar = (entry.inputs[other].flags & NACRE_TENSOR_SCALAR) != 0;
      if (pair.first != pair.second && !scalar && std::find(apart.begin(), apart.end(), pair) == apart.end()) apart.push_back(pair);
    }
  for (const SharedInput& s : shared)
    for (const std::string& symbol : symbols_of(s)) {
      result.bindings.shared[symbol] = static_cast<uint32_t>(tables.symbols.size());
      tables.symbols.push_back({symbol, 0, kUnbounded, 1});
    }
  return result;
}

MadeVariant make_variant(const VariantSource& source, const MemoryPlan& plan, const Graph& graph, const EntryTables& entry, Tables& tables,
                         uint64_t features) {
  return VariantBuilder(source, plan, entry, tables).build(graph, features);
}

}  // namespace nacre
