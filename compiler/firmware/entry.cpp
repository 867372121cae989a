#include "compiler/firmware/entry.h"

#include <algorithm>
#include <set>

#include "compiler/codegen/writer.h"
#include "compiler/support/error.h"
#include "formats/container.h"
#include "formats/kinds.h"

namespace nacre {

using formats::Size;

namespace {

int64_t aligned(int64_t size) { return static_cast<int64_t>(nacre_align_data(static_cast<uint64_t>(size))); }

[[noreturn]] void unlimited(const formats::Entry& entry) {
  fail(ErrorKind::unsupported, "entry '{}' needs memory without an upper limit, for sizes that have none; torch.export.Dim(max=...) gives them one",
       entry.name);
}

// Bytes of the arena that an entry's buffers take at most. Behind them lies scratch.
int64_t buffer_bytes(const formats::Entry& entry) {
  const formats::Variant& v = only_variant(entry);
  const int64_t bytes = v.arena_size.is_constant() ? v.arena_size.raw : v.arena_bound;
  if (!v.arena_size.is_constant() && bytes == 0) unlimited(entry);
  return aligned(bytes);
}

int64_t scratch_bytes(const formats::Entry& entry) {
  const formats::Variant& v = only_variant(entry);
  int64_t most = v.scratch_bound;
  for (const formats::Command& c : v.commands) {
    if (c.scratch.is_constant()) most = std::max(most, c.scratch.raw);
    if (!c.scratch.is_constant() && v.scratch_bound == 0) unlimited(entry);
  }
  return aligned(most);
}

class EntryWriter {
 public:
  EntryWriter(const formats::Artifact& artifact, const formats::Entry& entry, const Signature& signature, const LibraryPlan& plan)
      : a_(artifact), entry_(entry), v_(only_variant(entry)), signature_(signature), plan_(plan), nodes_(entry.nodes) {
    // Whatever the model calls its inputs: nothing else here ends like this.
    for (Parameter& p : signature_.parameters) p.name += "_";
    nodes_.insert(nodes_.end(), v_.nodes.begin(), v_.nodes.end());
  }

  std::string text() {
    for (const formats::Command& c : v_.commands)
      if (c.kind == NACRE_COMMAND_branch || c.kind == NACRE_COMMAND_jump) labels_.insert(c.target);
    Writer body;
    std::swap(body, out_);
    guards();
    for (uint32_t i = 0; i < v_.commands.size(); ++i) command(i);
    std::swap(body, out_);  // by now it is known which nodes are asked for
    declarations();
    return fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) {} {{\n{}{}}}\n", signature_.text(), out_.text(), body.text());
  }

 private:
  const Parameter* parameter(Parameter::Kind kind, uint32_t index) const {
    for (const Parameter& p : signature_.parameters)
      if (p.kind == kind && p.index == index) return &p;
    return nullptr;
  }

  // The value of a node as an expression: a number, a symbol's place in `nodes`, or a variable that `evaluate` sets.
  std::string node(uint32_t number) {
    const formats::Node& n = nodes_.at(number);
    if (n.kind == NACRE_EXPR_constant) return number_text(n.b);
    if (n.kind == NACRE_EXPR_symbol) return fmt::format("nodes[{}]", number);
    if (used_.insert(number).second) {
      node(n.a);
      second(n);
    }
    return fmt::format("n{}", number);
  }
  std::string second(const formats::Node& n) {
    if (n.kind == NACRE_EXPR_not_) return "";
    return n.number ? number_text(n.b) : node(static_cast<uint32_t>(n.b));
  }
  std::string size(Size s) { return s.is_constant() ? number_text(s.raw) : node(s.node_number()); }
  static std::string number_text(int64_t value) {
    return value == INT64_MIN                        ? "(-9223372036854775807LL - 1)"
           : value > INT32_MAX || value < -INT32_MAX ? fmt::format("{}LL", value)
                                                     : std::to_string(value);
  }

  std::string formula(const formats::Node& n) {
    const std::string a = node(n.a), b = second(n);
    switch (n.kind) {
      case NACRE_EXPR_add: return fmt::format("i64({}) + {}", a, b);
      case NACRE_EXPR_sub: return fmt::format("i64({}) - {}", a, b);
      case NACRE_EXPR_mul: return fmt::format("i64({}) * {}", a, b);
      case NACRE_EXPR_floor_div: return fmt::format("quotient({}, {}, bad)", a, b);
      case NACRE_EXPR_mod: return fmt::format("i64({0}) - quotient({0}, {1}, bad) * {1}", a, b);
      case NACRE_EXPR_min: return fmt::format("i64({0}) < {1} ? {0} : {1}", a, b);
      case NACRE_EXPR_max: return fmt::format("i64({0}) > {1} ? {0} : {1}", a, b);
      case NACRE_EXPR_eq: return fmt::format("{} == {}", a, b);
      case NACRE_EXPR_ne: return fmt::format("{} != {}", a, b);
      case NACRE_EXPR_lt: return fmt::format("{} < {}", a, b);
      case NACRE_EXPR_le: return fmt::format("{} <= {}", a, b);
      case NACRE_EXPR_and_: return fmt::format("{} && {}", a, b);
      case NACRE_EXPR_or_: return fmt::format("{} || {}", a, b);
      case NACRE_EXPR_not_: return fmt::format("!{}", a);
      case NACRE_EXPR_round_up: return fmt::format("quotient(i64({0}) + {1} - 1, {1}, bad) * {1}", a, b);
      default: fail(ErrorKind::internal, "node of unknown kind {}", static_cast<int>(n.kind));
    }
  }

  // Nodes, and the values of symbols that the call gives. All stands before the first label.
  void declarations() {
    uint32_t count = 0;
    for (uint32_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].kind == NACRE_EXPR_symbol) count = i + 1;
    out_.line("char* const memory = static_cast<char*>(arena_);");
    if (count) {
      out_.line("int64_t nodes[{}];", count);
      for (uint32_t i = 0; i < count; ++i) out_.line("nodes[{}] = {};", i, nodes_[i].kind == NACRE_EXPR_symbol ? symbol_value(nodes_[i].a) : "0");
      for (uint32_t i = 0; i < count; ++i)
        if (nodes_[i].kind == NACRE_EXPR_symbol && given(nodes_[i].a)) symbol_range(i, nodes_[i].a, 5);
    }
    if (!used_.empty() || binds_) {
      std::vector<std::string> names;
      for (uint32_t n : used_) names.push_back(fmt::format("n{} = 0", n));
      if (!names.empty()) out_.line("int64_t {};", fmt::join(names, ", "));
      out_.line("[[maybe_unused]] bool bad = false;");
      out_.open("const auto evaluate = [&] {{");
      for (uint32_t n : used_) out_.line("n{} = {};", n, formula(nodes_[n]));
      out_.close("};");
      out_.line("evaluate();");
      out_.line("if (bad) return 5;");
    }
    out_.line("nacre_kernel_args args = {{nullptr, {}, memory + {}, 0, 1, alone, nullptr}};", count ? "nodes" : "nullptr", buffer_bytes(entry_));
    out_.line("int32_t status = 0;");
  }

  // What the call says a symbol is; sizes that depend on data get their values later.
  std::string symbol_value(uint32_t symbol) const {
    if (const Parameter* p = parameter(Parameter::Kind::symbol, symbol)) return p->name;
    for (const Parameter& p : signature_.parameters)
      if (uint32_t bound; p.kind == Parameter::Kind::input && binds_number(v_, p.index, &bound) && bound == symbol) return p.name;
    return "1";
  }
  bool given(uint32_t symbol) const { return symbol_value(symbol) != "1"; }

  void symbol_range(uint32_t number, uint32_t symbol, int result) {
    const formats::Symbol& s = a_.symbols.at(symbol);
    std::vector<std::string> wrong;
    if (s.min != INT64_MIN) wrong.push_back(fmt::format("nodes[{}] < {}", number, number_text(s.min)));
    if (s.max != INT64_MAX) wrong.push_back(fmt::format("nodes[{}] > {}", number, number_text(s.max)));
    if (s.multiple > 1) wrong.push_back(fmt::format("nodes[{}] % {}", number, number_text(s.multiple)));
    if (!wrong.empty()) out_.line("if ({}) return {};", fmt::join(wrong, " || "), result);
  }

  // A condition on sizes that are numbers must hold here and now.
  void require(const std::string& condition, bool known, bool holds) {
    if (known && !holds) fail(ErrorKind::internal, "a guard of entry {} never holds: {}", entry_.name, condition);
    if (!known) out_.line("if (!({})) return 5;", condition);
  }

  void guards() {
    for (const formats::Guard& g : v_.guards) {
      const auto dim = [&] { return entry_.inputs.at(g.input).dims.at(g.dim); };
      switch (g.kind) {
        case NACRE_GUARD_features:
        case NACRE_GUARD_dtype:
        case NACRE_GUARD_rank:
        case NACRE_GUARD_bind_value:
        case NACRE_GUARD_value_equal:  // it is no parameter
        case NACRE_GUARD_disjoint:     // the header says so
          break;
        case NACRE_GUARD_bind:
          if (const Parameter* p = parameter(Parameter::Kind::symbol, static_cast<uint32_t>(g.ref))) require(p->name + " >= 0", false, false);
          break;
        case NACRE_GUARD_equal: require(fmt::format("{} == {}", size(dim()), g.lo), dim().is_constant(), dim().raw == g.lo); break;
        case NACRE_GUARD_range:
          require(fmt::format("{0} >= {1} && {0} <= {2}", size(dim()), number_text(g.lo), number_text(g.hi)), dim().is_constant(),
                  dim().raw >= g.lo && dim().raw <= g.hi);
          break;
        case NACRE_GUARD_multiple: require(fmt::format("{} % {} == 0", size(dim()), g.lo), dim().is_constant(), dim().raw % g.lo == 0); break;
        case NACRE_GUARD_value_range: {
          const Parameter* p = parameter(Parameter::Kind::input, g.input);
          check(p != nullptr, "a guard on input {}, which is no parameter", g.input);
          require(fmt::format("{0} >= {1} && {0} <= {2}", p->name, number_text(g.lo), number_text(g.hi)), false, false);
          break;
        }
        case NACRE_GUARD_equal_node:
          if (dim() != Size::node(static_cast<uint32_t>(g.ref)))
            require(fmt::format("{} == {}", size(dim()), node(static_cast<uint32_t>(g.ref))), false, false);
          break;
        case NACRE_GUARD_node: {
          const formats::Node& n = nodes_.at(static_cast<size_t>(g.ref));
          require(fmt::format("{} != 0", node(static_cast<uint32_t>(g.ref))), n.kind == NACRE_EXPR_constant, n.b != 0);
          break;
        }
        default: fail(ErrorKind::unsupported, "entry '{}' looks at how its inputs lie in memory, which a static library cannot do", entry_.name);
      }
    }
  }

  std::string address(uint32_t number) {
    const formats::Slot& slot = v_.slots.at(number);
    std::string base;
    switch (slot.kind) {
      case NACRE_SLOT_INPUT: {
        const Parameter* p = parameter(Parameter::Kind::input, slot.index);
        if (!p) fail(ErrorKind::unsupported, "entry '{}' computes with a number that is fixed", entry_.name);
        const bool scalar = (entry_.inputs[slot.index].flags & NACRE_TENSOR_SCALAR) != 0;
        base = fmt::format("address({}{})", scalar ? "&" : "", p->name);
        break;
      }
      case NACRE_SLOT_OUTPUT: base = fmt::format("address({})", parameter(Parameter::Kind::output, slot.index)->name); break;
      case NACRE_SLOT_WEIGHT: base = fmt::format("address({})", weight_symbol(plan_, slot.index)); break;
      case NACRE_SLOT_STATE: base = fmt::format("address(state_) + {}", plan_.state_offsets.at(slot.index)); break;
      case NACRE_SLOT_ARENA: base = "memory"; break;
      default: fail(ErrorKind::internal, "slot of unknown kind {}", static_cast<int>(slot.kind));
    }
    return slot.offset == Size::constant(0) ? base : fmt::format("{} + {}", base, size(slot.offset));
  }

  void command(uint32_t number) {
    const formats::Command& c = v_.commands[number];
    if (labels_.contains(number)) out_.line("c{}:;", number);
    switch (c.kind) {
      case NACRE_COMMAND_end:
        for (const Parameter& p : signature_.parameters) {
          if (p.kind != Parameter::Kind::shape) continue;
          const std::vector<Size>& dims = entry_.outputs[p.index].dims;
          for (size_t d = 0; d < dims.size(); ++d) out_.line("{}[{}] = {};", p.name, d, size(dims[d]));
        }
        out_.line("return 0;");
        break;
      case NACRE_COMMAND_call: {
        std::vector<std::string> buffers;
        for (uint32_t operand : c.operands) buffers.push_back(address(operand));
        for (uint32_t p : c.provenances) {
          const formats::Provenance& where = a_.provenances.at(p);
          if (!where.op.empty())
            out_.line("// {}{}{}", where.op, where.file.empty() ? "" : fmt::format("  {}:{}", where.file, where.line),
                      where.module.empty() ? "" : "  " + where.module);
        }
        out_.open("{{");
        out_.line("void* const buffers[] = {{{}}};", buffers.empty() ? "nullptr" : fmt::format("{}", fmt::join(buffers, ", ")));
        out_.line("args.buffers = buffers;");
        out_.line("status = {}(&args);", plan_.kernels.at(c.target));
        out_.line("if (status) return NACRE_DATA_ERROR_KIND(status);");
        out_.close();
        break;
      }
      case NACRE_COMMAND_copy: {
        const Size to = v_.slots.at(c.operands[0]).size, from = v_.slots.at(c.operands[1]).size;
        const std::string bytes = to == from ? size(to) : fmt::format("({0} < {1} ? {0} : {1})", size(to), size(from));
        out_.line("__builtin_memcpy({}, {}, static_cast<size_t>({}));", address(c.operands[0]), address(c.operands[1]), bytes);
        break;
      }
      case NACRE_COMMAND_branch: out_.line("if (!*reinterpret_cast<const uint8_t*>({})) goto c{};", address(c.operands[0]), c.target); break;
      case NACRE_COMMAND_jump: out_.line("goto c{};", c.target); break;
      case NACRE_COMMAND_loop: break;
      case NACRE_COMMAND_bind: {
        const auto place =
            std::find_if(nodes_.begin(), nodes_.end(), [&](const formats::Node& n) { return n.kind == NACRE_EXPR_symbol && n.a == c.target; });
        if (place == nodes_.end()) break;  // nothing depends on it
        const auto node_number = static_cast<uint32_t>(place - nodes_.begin());
        out_.line("__builtin_memcpy(&nodes[{}], {}, 8);", node_number, address(c.operands[0]));
        symbol_range(node_number, c.target, 4);
        binds_ = true;
        out_.line("evaluate();");
        out_.line("if (bad) return 4;");
        break;
      }
      case NACRE_COMMAND_check: out_.line("if (!{}) return 3;", node(c.target)); break;
      default: fail(ErrorKind::internal, "command of unknown kind {}", static_cast<int>(c.kind));
    }
  }

  const formats::Artifact& a_;
  const formats::Entry& entry_;
  const formats::Variant& v_;
  Signature signature_;
  const LibraryPlan& plan_;
  std::vector<formats::Node> nodes_;  // of the entry, then of the variant
  std::set<uint32_t> used_;           // nodes with a variable
  std::set<uint32_t> labels_;         // commands that others go to
  bool binds_ = false;                // symbols get values during the run
  Writer out_;
};

}  // namespace

LibraryPlan plan_library(const formats::Artifact& artifact, const std::string& name, std::vector<std::string> kernels, int64_t alignment) {
  LibraryPlan plan{name, std::move(kernels), {}, 0, 0};
  for (const formats::Import& import : artifact.imports)
    fail(ErrorKind::unsupported, "the model calls {}, which only an application can compute: a static library has no place for that yet",
         import.name);
  for (const formats::State& state : artifact.states) {
    plan.state_offsets.push_back(plan.state_bytes);
    plan.state_bytes += (static_cast<int64_t>(state.size_bytes) + alignment - 1) / alignment * alignment;
  }
  for (const formats::Entry& entry : artifact.entries) plan.arena_bytes = std::max(plan.arena_bytes, buffer_bytes(entry) + scratch_bytes(entry));
  return plan;
}

std::string weight_symbol(const LibraryPlan& plan, uint32_t weight) { return fmt::format("{}_w{}", plan.name, weight); }

std::string entry_function(const formats::Artifact& artifact, const formats::Entry& entry, const Signature& signature, const LibraryPlan& plan) {
  return EntryWriter(artifact, entry, signature, plan).text();
}

}  // namespace nacre
