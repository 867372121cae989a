#include "compiler/loops/verify.h"

#include <algorithm>
#include <set>

#include "compiler/graph/ops.h"
#include "compiler/loops/code.h"
#include "compiler/loops/regions.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

class Verifier {
 public:
  explicit Verifier(const LoopProgram& program) : program_(program) {}

  void run() {
    std::set<std::string> names;
    for (const Buffer& b : program_.buffers) {
      require(names.insert(b.name).second, "two buffers named %{}", b.name);
      require(nacre_dtype_size_bytes(b.dtype) > 0, "buffer %{} has no scalar type", b.name);
      require(b.order.empty() || b.order.size() == b.shape.size(), "buffer %{} orders {} of {} dims", b.name,
              b.order.size(), b.shape.size());
      std::set<int> dims(b.order.begin(), b.order.end());
      require(b.order.empty() || (dims.size() == b.order.size() && *dims.begin() >= 0 &&
                                  *dims.rbegin() < static_cast<int>(dims.size())),
              "the order of buffer %{} is no permutation", b.name);
      if (b.kind != BufferKind::local)
        for (const Expr& e : b.shape) known(e, program_.symbols, {});
      if (b.kind == BufferKind::weight || b.kind == BufferKind::state)
        require(!b.target.empty(), "buffer %{} names no weight", b.name);
    }
    for (const auto& m : program_.input_mutations)
      require(m.input >= 0 && m.input < static_cast<int>(program_.inputs.size()) && valid(m.from), "a mutation of input {}",
              m.input);
    for (BufferId b : program_.inputs)
      require(b == -1 || (valid(b) && program_[b].kind == BufferKind::input), "an input is no input buffer");
    for (const auto& o : program_.outputs) {
      require(o.buffer == -1 || (valid(o.buffer) && program_[o.buffer].kind == BufferKind::output),
              "an output is no output buffer");
      if (o.number) known(*o.number, program_.symbols, {});
    }
    (void)regions_of(program_);
    std::set<std::string> group_names;
    for (const Group& g : program_.groups) {
      group_ = &g;
      require(group_names.insert(g.name).second, "two groups of this name");
      check_group(g);
      for (BufferId b : buffers_written(g))
        if (program_[b].kind != BufferKind::local) written_.insert(b);
    }
    group_ = nullptr;
    for (const auto& o : program_.outputs)
      require(o.buffer == -1 || is_empty(o.buffer) || written_.contains(o.buffer), "output %{} is never written",
              o.buffer < 0 ? "" : program_[o.buffer].name);
  }

 private:
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    fail(ErrorKind::internal, "loop program {}, {}{}", program_.name, group_ ? "group " + group_->name + ": " : "",
         fmt::format(format, std::forward<Args>(args)...));
  }
  bool valid(BufferId b) const { return b >= 0 && b < static_cast<int>(program_.buffers.size()); }
  bool is_empty(BufferId b) const { return product(program_[b].shape).is(0); }

  void known(const Expr& e, const Facts& facts, const std::set<std::string>& scalars) const {
    for (const std::string& s : e.symbols())
      require(facts.contains(s) || scalars.contains(s), "unknown symbol {} in {}", s, e.str());
  }

  void access(BufferId b, const std::vector<Expr>& at, const Facts& facts, const std::set<std::string>& scalars,
              bool conditional) const {
    require(valid(b), "buffer {}", b);
    const Buffer& buffer = program_[b];
    // Loops over nothing reach no element.
    conditional |= std::any_of(facts.begin(), facts.end(), [](const auto& f) { return f.second.below && f.second.below->is(0); });
    require(at.size() == buffer.shape.size(), "%{} has {} dims and is indexed by {}", buffer.name, buffer.shape.size(),
            at.size());
    for (size_t i = 0; i < at.size(); ++i) {
      known(at[i], facts, scalars);
      if (conditional || buffer.kind == BufferKind::local) continue;
      // Certainly out of range, whenever the element is reached at all.
      const Interval index = interval(at[i], facts), size = interval(buffer.shape[i], facts);
      require(index.min == -kUnbounded || size.max == kUnbounded || size.max == 0 || index.min < size.max,
              "index {} of dim {} of %{} is out of range", at[i].str(), i, buffer.name);
    }
  }

  // Something was stored there before: by an earlier group, or an earlier nest of this one.
  void readable(BufferId b, const std::set<BufferId>& here) const {
    const BufferKind kind = program_[b].kind;
    if (kind == BufferKind::input || kind == BufferKind::weight || kind == BufferKind::state) return;
    require(written_.contains(b) || here.contains(b) || is_empty(b), "%{} is read before it is written", program_[b].name);
  }
  void writable(BufferId b) const {
    const BufferKind kind = program_[b].kind;
    bool may = kind != BufferKind::weight && kind != BufferKind::input;
    for (const auto& m : program_.input_mutations)
      may = may || program_.inputs[static_cast<size_t>(m.input)] == b;
    require(may, "%{} is written", program_[b].name);
  }

  void check_loops(const std::vector<LoopVar>& loops, std::set<std::string>& taken) const {
    for (const LoopVar& loop : loops) {
      require(taken.insert(loop.name).second, "two loops over {}", loop.name);
      require(!program_.symbols.contains(loop.name) && !scalar_of_symbol(loop.name), "a loop variable named {}", loop.name);
      known(loop.extent, program_.symbols, {});
    }
  }

  void check_control(const Group& g) const {
    const Control& c = *g.control;
    require(g.nests.empty() && !g.contraction && !g.rows && g.outer.empty(), "control with work");
    const bool flag = c.kind == ControlKind::if_ || c.kind == ControlKind::while_, number = c.kind == ControlKind::bind;
    require((c.buffer >= 0) == (flag || number), "control of buffer {}", c.buffer);
    if (c.buffer >= 0) {
      require(valid(c.buffer), "buffer {}", c.buffer);
      const Buffer& b = program_[c.buffer];
      require(b.dtype == (flag ? NACRE_bool_ : NACRE_i64) && product(b.shape).is(1) && b.kind != BufferKind::local,
              "%{} decides, and is no {} of one element", b.name, flag ? "bool" : "int64");
      readable(c.buffer, {});
    }
    if (number) require(program_.symbols.contains(c.symbol), "unknown symbol {}", c.symbol);
    known(c.condition, program_.symbols, {});
  }

  void check_group(const Group& g) {
    if (g.control) return check_control(g);
    std::set<std::string> outer;
    check_loops(g.outer, outer);
    std::set<BufferId> here;
    if (g.contraction) {
      check_contraction(g);
      here.insert(g.contraction->results.begin(), g.contraction->results.end());
    }
    if (g.rows) check_row_work(g);
    for (const Nest& nest : g.nests) check_nest(g, nest, outer, here);
    for (const Buffer& b : program_.buffers) {
      if (b.kind != BufferKind::local) continue;
      const BufferId id = static_cast<BufferId>(&b - program_.buffers.data());
      if (!buffers_written(g).contains(id) && !buffers_read(g).contains(id)) continue;
      require(locals_.insert(id).second, "local %{} is used by two groups", b.name);
    }
  }

  void check_row_work(const Group& g) const {
    const RowWork& w = *g.rows;
    require(g.nests.empty() && !g.contraction, "{} is the only work of its group", row_work_name(w.kind));
    const bool import = w.kind == RowKind::import;
    const size_t inputs = import ? w.inputs.size() : w.kind == RowKind::fft ? 4 : 1;
    const size_t outputs = import ? w.outputs.size() : w.kind == RowKind::bitcast ? 1 : 2;
    require(import == !w.function.empty(), "{} calls '{}'", row_work_name(w.kind), w.function);
    require(w.inputs.size() == inputs && w.outputs.size() == outputs, "{} of {} buffers to {}", row_work_name(w.kind),
            w.inputs.size(), w.outputs.size());
    for (size_t i = 0; i < inputs; ++i) {
      const bool optional = w.kind == RowKind::fft && i == 1;
      require(valid(w.inputs[i]) || (optional && w.inputs[i] == -1), "input {} is buffer {}", i, w.inputs[i]);
      if (w.inputs[i] >= 0) readable(w.inputs[i], {});
    }
    for (size_t i = 0; i < outputs; ++i) {
      const bool optional = w.kind == RowKind::fft && i == 1;
      require(valid(w.outputs[i]) || (optional && w.outputs[i] == -1), "output {} is buffer {}", i, w.outputs[i]);
      if (w.outputs[i] < 0) continue;
      writable(w.outputs[i]);
      if (w.kind == RowKind::sort)
        require(program_[w.inputs[0]].shape == program_[w.outputs[i]].shape, "the results of sort have another shape");
    }
    if (w.kind == RowKind::fft) {
      known(w.length, program_.symbols, {});
      for (const std::vector<BufferId>* list : {&w.inputs, &w.outputs})
        for (BufferId b : *list)
          require(b < 0 || (program_[b].dtype == program_[w.inputs[0]].dtype && !program_[b].shape.empty()),
                  "fft over buffers of unlike types, or without rows");
    }
  }

  void check_nest(const Group& g, const Nest& nest, std::set<std::string> taken, std::set<BufferId>& here) const {
    check_loops(nest.loops, taken);
    const int rank = static_cast<int>(nest.loops.size());
    require(nest.reduced >= 0 && nest.reduced <= rank, "{} of {} loops are reduced", nest.reduced, rank);
    const Facts facts = facts_in(program_, g, nest);
    const std::vector<bool> under = under_reduction(nest);
    std::set<std::string> scalars;
    for (size_t i = 0; i < nest.code.size(); ++i) {
      const Scalar& s = nest.code[i];
      for (int o : s.operands) require(o >= 0 && o < static_cast<int>(i), "v{} needs v{}", i, o);
      for_each_expr(s, [&](const Expr& e) { known(e, facts, scalars); });
      const auto operand = [&](size_t k) -> const Scalar& { return nest.code[static_cast<size_t>(s.operands[k])]; };
      const auto arity = [&](size_t n) { require(s.operands.size() == n, "v{} has {} operands", i, s.operands.size()); };
      switch (s.op) {
        case ScalarOp::load:
          access(s.buffer, s.at, facts, scalars, !s.when.empty());
          readable(s.buffer, here);
          arity(s.when.empty() ? 0 : 1);
          require(s.dtype == compute_type(program_[s.buffer].dtype), "v{} is not of the type of %{}", i,
                  program_[s.buffer].name);
          if (!s.when.empty()) require(operand(0).dtype == s.dtype, "v{}: the other value has another type", i);
          break;
        case ScalarOp::constant:
        case ScalarOp::index:
          arity(0);
          break;
        case ScalarOp::pointwise: {
          const Primitive* p = find_primitive(s.prim);
          require(p && p->kind == PrimClass::pointwise, "no primitive {}", s.prim);
          arity(static_cast<size_t>(p->arity));
          for (size_t k = 0; k + 1 < s.operands.size(); ++k) {
            const bool condition = s.prim == "where" && k == 0;
            require(operand(k).dtype == (condition ? NACRE_bool_ : operand(s.operands.size() - 1).dtype),
                    "the operands of v{} ({}) differ in type", i, s.prim);
          }
          require(s.dtype == result_dtype(*p, operand(s.operands.size() - 1).dtype), "the type of v{}", i);
          break;
        }
        case ScalarOp::cast:
          arity(1);
          require(s.prim.empty() || (s.dtype == NACRE_f32 && (s.prim == "f16" || s.prim == "bf16")), "v{} is rounded to {}", i, s.prim);
          break;
        case ScalarOp::check_index:
          arity(1);
          require(s.dtype == NACRE_i64 && operand(0).dtype == NACRE_i64, "v{} is no index", i);
          require(s.prim.empty() || s.prim == "below", "v{}: an index {} an extent", i, s.prim);
          break;
        case ScalarOp::reduce: {
          arity(1);
          const Primitive* p = find_primitive(s.prim);
          require(p && p->kind == PrimClass::reduction, "no reduction {}", s.prim);
          require(nest.reduced > 0, "a reduction without reduced loops");
          require(!under[i], "a reduction of a reduction within one nest");
          require(s.dtype == result_dtype(*p, operand(0).dtype), "the type of v{}", i);
          if (p->result == PrimResult::index) require(nest.reduced == 1, "{} over several loops", s.prim);
          break;
        }
        case ScalarOp::scan:
          arity(1);
          require(primitive_class(s.prim) == PrimClass::scan && nest.reduced == 0 && rank > 0, "scan {}", s.prim);
          require(s.dtype == operand(0).dtype, "the type of v{}", i);
          break;
        case ScalarOp::accumulator:
          arity(0);
          require(g.contraction.has_value(), "an accumulator outside a contraction");
          break;
      }
      require(nacre_dtype_size_bytes(s.dtype) > 0 && s.dtype == compute_type(s.dtype), "the type of v{}", i);
      if (is_integer(s.dtype)) scalars.insert(scalar_symbol(static_cast<int>(i)));
      if (s.op != ScalarOp::reduce && !under[i])
        for (int o : inputs_of(s))
          require(!under[static_cast<size_t>(o)], "v{} is needed by a reduction and by v{}, after it", o, i);
      if (!under[i] && nest.reduced > 0 && s.op != ScalarOp::reduce)
        for_each_expr(s, [&](const Expr& e) { outside_reduction(nest, e); });
    }
    for (const Store& s : nest.stores) {
      require(s.value >= 0 && s.value < static_cast<int>(nest.code.size()), "a store of v{}", s.value);
      require(!under[static_cast<size_t>(s.value)], "v{} is stored and under a reduction", s.value);
      access(s.buffer, s.at, facts, scalars, false);
      writable(s.buffer);
      for (const Expr& e : s.at) outside_reduction(nest, e);
      require(nest.code[static_cast<size_t>(s.value)].dtype == compute_type(program_[s.buffer].dtype),
              "v{} stored to %{} has another type", s.value, program_[s.buffer].name);
      here.insert(s.buffer);
    }
    require(!nest.stores.empty(), "a nest without a store");
  }

  void outside_reduction(const Nest& nest, const Expr& e) const {
    if (nest.reduced == 0 || e.constant()) return;
    const std::set<std::string> used = e.symbols();
    for (size_t i = nest.loops.size() - static_cast<size_t>(nest.reduced); i < nest.loops.size(); ++i)
      require(!used.contains(nest.loops[i].name), "{} is used outside the reduction over it", nest.loops[i].name);
  }

  void check_contraction(const Group& g) const {
    const Contraction& c = *g.contraction;
    std::set<std::string> taken;
    check_loops(c.loops, taken);
    const bool recurrent = is_recurrent(c.kind);
    const size_t operands = c.kind == ContractionKind::attention ? 4
                            : c.kind == ContractionKind::lstm    ? 7
                            : c.kind == ContractionKind::gru     ? 6
                                                                 : 2;
    require(c.operands.size() == operands, "a contraction of {} operands", c.operands.size());
    require(g.nests.size() == (recurrent ? 0u : 1u), "a contraction with {} nests", g.nests.size());
    require(g.outer.empty(), "a contraction under outer loops");
    const bool own = recurrent || c.kind == ContractionKind::conv || c.kind == ContractionKind::conv_transpose;
    require(c.operand_loops.size() == (own ? operands : 0u), "a contraction with {} lists of operand loops",
            c.operand_loops.size());
    for (size_t i = 0; i < operands; ++i) {
      const Operand& o = c.operands[i];
      if (o.buffer < 0) continue;
      Facts facts = program_.symbols;
      add_loop_facts(facts, own ? c.operand_loops[i] : c.loops);
      access(o.buffer, o.at, facts, {}, false);
      readable(o.buffer, {});
    }
    for (BufferId b : c.results) {
      require(valid(b), "result buffer {}", b);
      writable(b);
    }
    if (!recurrent) {
      const Nest& nest = g.nests[0];
      require(nest.reduced == 0 && nest.loops.size() + static_cast<size_t>(c.reduced) == c.loops.size(),
              "an epilogue of {} loops", nest.loops.size());
      for (size_t i = 0; i < nest.loops.size(); ++i)
        require(nest.loops[i].name == c.loops[i].name && nest.loops[i].extent == c.loops[i].extent,
                "the epilogue loops over {}", nest.loops[i].name);
    }
  }

  const LoopProgram& program_;
  const Group* group_ = nullptr;
  std::set<BufferId> written_;
  std::set<BufferId> locals_;
};

}  // namespace

void verify(const LoopProgram& program) { Verifier(program).run(); }

}  // namespace nacre
