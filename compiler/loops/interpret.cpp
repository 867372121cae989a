#include "compiler/loops/interpret.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/graph/text.h"
#include "compiler/loops/code.h"
#include "compiler/loops/interpret_contraction.h"
#include "compiler/loops/interpret_half.h"
#include "compiler/loops/interpret_nest.h"
#include "compiler/loops/interpret_rows.h"
#include "compiler/loops/regions.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {
namespace interpreting {
namespace {

// Complex numbers as the loops have them: their parts in a last dim.
HostTensor as_parts(HostTensor t) {
  if (!is_complex(t.dtype)) return t;
  t.dtype = real_of(t.dtype);
  t.shape.push_back(2);
  return t;
}

// Finds the symbols from the shapes of the inputs: each dim that has one unknown symbol, affinely, gives it.
Symbols bind(const LoopProgram& program, const std::vector<HostTensor>& inputs) {
  check(inputs.size() == program.inputs.size(), "{} inputs for a program of {}", inputs.size(), program.inputs.size());
  Symbols symbols;
  for (const auto& [name, f] : program.symbols)
    if (f.range.min == f.range.max) symbols[name] = f.range.min;
  for (const auto& [position, e] : program.input_numbers) {
    const HostTensor& t = inputs[static_cast<size_t>(position)];
    if (e.op() != ExprOp::symbol) continue;
    if (t.dtype == NACRE_i64)
      symbols[e.name()] = *t.as<int64_t>();
    else if (t.dtype == NACRE_i32)
      symbols[e.name()] = *t.as<int32_t>();
    else if (t.dtype == NACRE_bool_)
      symbols[e.name()] = *t.as<bool>();
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (program.inputs[i] < 0) continue;
      const Buffer& b = program[program.inputs[i]];
      if (inputs[i].dtype != b.dtype || inputs[i].shape.size() != b.shape.size())
        fail(ErrorKind::user, "input {} is {} of {} dims, not {} of {}", i, nacre_dtype_name(inputs[i].dtype),
             inputs[i].shape.size(), nacre_dtype_name(b.dtype), b.shape.size());
      for (size_t d = 0; d < b.shape.size(); ++d) {
        std::string unknown;
        int count = 0;
        for (const std::string& s : b.shape[d].symbols())
          if (!symbols.contains(s)) unknown = s, ++count;
        if (count != 1) continue;
        Symbols zero = symbols, one = symbols;
        zero[unknown] = 0;
        one[unknown] = 1;
        const auto at0 = b.shape[d].evaluate(zero), at1 = b.shape[d].evaluate(one);
        if (!at0 || !at1 || *at0 == *at1 || (inputs[i].shape[d] - *at0) % (*at1 - *at0) != 0) continue;
        symbols[unknown] = (inputs[i].shape[d] - *at0) / (*at1 - *at0);
        changed = true;
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program.inputs[i] < 0) continue;
    const Buffer& b = program[program.inputs[i]];
    for (size_t d = 0; d < b.shape.size(); ++d)
      if (evaluated(b.shape[d], symbols) != inputs[i].shape[d])
        fail(ErrorKind::user, "dim {} of input {} is {}, not {} = {}", d, i, inputs[i].shape[d], b.shape[d].str(),
             evaluated(b.shape[d], symbols));
  }
  const std::set<std::string> later = bound_symbols(program);
  for (const auto& [name, f] : program.symbols)
    check(symbols.contains(name) || later.contains(name), "no input gives the value of {}", name);
  return symbols;
}

class Run {
 public:
  Run(const LoopProgram& program, const std::map<std::string, HostTensor>& weights, const std::vector<HostTensor>& inputs)
      : program_(program), symbols_(bind(program, inputs)), arrays_(program.buffers.size()) {
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& b = program.buffers[i];
      Array& a = arrays_[i];
      a.dtype = b.dtype;
      a.name = b.name;
      set_shape(i);
      if (b.kind == BufferKind::weight || b.kind == BufferKind::state) {
        auto found = weights.find(b.target);
        if (found == weights.end()) fail(ErrorKind::user, "no weight '{}'", b.target);
        take(a, as_parts(found->second), b.kind == BufferKind::state);
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (program.inputs[i] >= 0) take(arrays_[static_cast<size_t>(program.inputs[i])], inputs[i], true);
    for (size_t g = 0; g < program.groups.size(); ++g) {
      for (BufferId b : touched(program.groups[g])) last_use_[b] = g;
      free_early_ = free_early_ && !program.groups[g].control;
    }
  }

  void run() {
    const Regions regions = regions_of(program_);
    for (size_t g = 0; g < program_.groups.size(); ++g) {
      const Group& group = program_.groups[g];
      if (group.control) {
        g = static_cast<size_t>(run_control(regions, static_cast<int>(g)));
        continue;
      }
      for (BufferId b : touched(group)) allocate(b);
      run_group(group);
      for (BufferId b : touched(group))
        if (free_early_ && last_use_[b] == g && program_[b].kind == BufferKind::temporary && !kept(b))
          arrays_[static_cast<size_t>(b)].data.reset();
    }
  }

  HostTensor tensor(BufferId b) { return tensor(b, program_[b].complex); }
  HostTensor tensor(BufferId b, bool complex) {
    allocate(b);
    const Array& a = arrays_[static_cast<size_t>(b)];
    std::byte* bytes = nullptr;
    HostTensor t = make_tensor(a.dtype, a.shape, &bytes);
    if (t.size_bytes) std::memcpy(bytes, a.data.get(), t.size_bytes);
    if (complex) {
      t.dtype = complex_of(t.dtype);
      t.shape.pop_back();
    }
    return t;
  }
  const Symbols& symbols() const { return symbols_; }

 private:
  static std::set<BufferId> touched(const Group& group) {
    std::set<BufferId> all = buffers_read(group);
    all.merge(buffers_written(group));
    return all;
  }
  bool kept(BufferId b) const {
    return std::any_of(program_.input_mutations.begin(), program_.input_mutations.end(),
                       [&](const auto& m) { return m.from == b; });
  }
  void allocate(BufferId b) {
    Array& a = arrays_[static_cast<size_t>(b)];
    if (a.data) return;
    const size_t bytes = static_cast<size_t>(a.elements()) * nacre_dtype_size_bytes(a.dtype);
    a.data = std::shared_ptr<std::byte>(new std::byte[bytes + 1](), std::default_delete<std::byte[]>());
    // What nobody stores shows: NaN, or a large number.
    std::memset(a.data.get(), a.dtype == NACRE_bool_ ? 0 : 0xff, bytes);
  }
  void take(Array& a, const HostTensor& t, bool own) {
    check(t.dtype == a.dtype && t.shape == a.shape, "%{}: a tensor of another shape or type", a.name);
    if (!own) {
      a.data = std::shared_ptr<std::byte>(const_cast<std::byte*>(t.data.get()), [keep = t.data](std::byte*) {});
      return;
    }
    a.data = std::shared_ptr<std::byte>(new std::byte[t.size_bytes + 1], std::default_delete<std::byte[]>());
    if (t.size_bytes) std::memcpy(a.data.get(), t.data.get(), t.size_bytes);
  }

  // Shapes of symbols that have no value yet are set when they get one.
  void set_shape(size_t i) {
    std::vector<int64_t> shape;
    for (const Expr& e : program_.buffers[i].shape) {
      for (const std::string& s : e.symbols())
        if (!symbols_.contains(s)) return;
      shape.push_back(std::max<int64_t>(0, evaluated(e, symbols_)));
    }
    arrays_[i].shape = std::move(shape);
  }

  // The group to go on behind.
  int run_control(const Regions& regions, int g) {
    const Control& c = *program_.groups[static_cast<size_t>(g)].control;
    const auto value = [&](auto tag) {
      using T = decltype(tag);
      return *reinterpret_cast<const T*>(arrays_[static_cast<size_t>(c.buffer)].data.get());
    };
    const auto region_from = [&](bool repeats) {
      return *std::find_if(regions.list.begin() + 1, regions.list.end(), [&](const Region& r) { return r.first == g && r.repeats == repeats; });
    };
    const std::string where = where_text(c.where);
    switch (c.kind) {
      case ControlKind::if_:
        return value(bool{}) ? g : region_from(false).last;
      case ControlKind::while_:
        return value(bool{}) ? g : region_from(false).last;
      case ControlKind::else_:  // the end of the other side
        return region_from(false).last;
      case ControlKind::loop:
        return g;
      case ControlKind::end:
        for (const Region& r : regions.list)
          if (r.repeats && r.last == g) return r.first;
        return g;
      case ControlKind::bind: {
        const int64_t n = value(int64_t{});
        const SymbolFacts& facts = program_.symbols.at(c.symbol);
        if (n < facts.range.min || n > facts.range.max)
          fail_at(ErrorKind::user, where, "{} is {}, out of its range", c.symbol, n);
        symbols_[c.symbol] = n;
        for (size_t i = 0; i < arrays_.size(); ++i) {
          const auto& shape = program_.buffers[i].shape;
          if (std::none_of(shape.begin(), shape.end(), [&](const Expr& e) { return e.symbols().contains(c.symbol); })) continue;
          set_shape(i);
          arrays_[i].data.reset();
        }
        return g;
      }
      case ControlKind::check:
        if (evaluated(c.condition, symbols_) == 0) fail_at(ErrorKind::user, where, "{}", c.message);
        return g;
    }
    return g;
  }

  void run_group(const Group& group) {
    if (group.rows) return run_rows(*group.rows, symbols_, arrays_);
    ContractionResult result;
    Accumulated accumulated;
    if (group.contraction) {
      result = contract(*group.contraction, symbols_, arrays_);
      accumulated = {result.dtype, result.data.data()};
    }
    std::vector<std::unique_ptr<NestRunner>> nests;
    for (const Nest& nest : group.nests)
      nests.push_back(std::make_unique<NestRunner>(program_, group, nest, symbols_, arrays_));
    std::vector<int64_t> sizes, outer(group.outer.size(), 0);
    int64_t iterations = 1;
    for (const LoopVar& loop : group.outer) {
      sizes.push_back(evaluated(loop.extent, symbols_));
      iterations *= std::max<int64_t>(0, sizes.back());
    }
    for (int64_t i = 0; i < iterations; ++i) {
      for (auto& nest : nests) nest->run(outer, group.contraction ? &accumulated : nullptr);
      for (size_t d = outer.size(); d-- > 0;) {
        if (++outer[d] < sizes[d]) break;
        outer[d] = 0;
      }
    }
  }

  const LoopProgram& program_;
  Symbols symbols_;
  bool free_early_ = true;  // where nothing runs again
  std::vector<Array> arrays_;
  std::map<BufferId, size_t> last_use_;
};

}  // namespace
}  // namespace interpreting

std::vector<HostTensor> interpret(const LoopProgram& program, const std::map<std::string, HostTensor>& weights,
                                  const std::vector<HostTensor>& inputs, Mutated* mutated) {
  std::vector<HostTensor> parts;
  for (const HostTensor& input : inputs) parts.push_back(interpreting::as_parts(input));
  interpreting::Run run(program, weights, parts);
  run.run();
  std::vector<HostTensor> outputs;
  for (const LoopProgram::Output& o : program.outputs) {
    if (o.buffer >= 0) {
      outputs.push_back(run.tensor(o.buffer));
      continue;
    }
    std::byte* bytes = nullptr;
    HostTensor t = make_tensor(NACRE_i64, {}, &bytes);
    const int64_t value = o.number ? interpreting::evaluated(*o.number, run.symbols()) : 0;
    std::memcpy(bytes, &value, sizeof value);
    outputs.push_back(t);
  }
  if (mutated) {
    for (const auto& m : program.input_mutations) mutated->inputs.push_back(run.tensor(m.from, program[program.inputs[static_cast<size_t>(m.input)]].complex));
    for (size_t b = 0; b < program.buffers.size(); ++b)
      if (program.buffers[b].kind == BufferKind::state)
        mutated->states[program.buffers[b].target] = run.tensor(static_cast<BufferId>(b));
  }
  return outputs;
}

}  // namespace nacre
