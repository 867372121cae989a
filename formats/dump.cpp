#include "formats/dump.h"

#include <fmt/format.h>

#include <iterator>

#include "formats/dump_parts.h"
#include "formats/verify.h"

namespace nacre::formats {
namespace {

// Collects lines; `line(2, ...)` is indented by two spaces.
class Lines {
 public:
  template <typename... T>
  void line(int indent, fmt::format_string<T...> pattern, T&&... values) {
    text.append(static_cast<std::size_t>(indent), ' ');
    fmt::format_to(std::back_inserter(text), pattern, std::forward<T>(values)...);
    text += '\n';
  }
  std::string text;
};

std::string lines_words(const Artifact& a, const std::vector<uint32_t>& provenances) {
  std::string text;
  for (const uint32_t p : provenances) {
    text += text.empty() ? "  # " : "; ";
    text += line_words(a.provenances[p]);
  }
  return text;
}

void dump_command(const Artifact& a, const nacre_words& words, const Command& c, std::size_t number,
                  Lines& out) {
  std::string text = fmt::format("command {} {}", number, command_name(c.kind));
  if (c.kind == NACRE_COMMAND_call) text += fmt::format(" {}", a.kernels[c.target].name);
  if (c.kind == NACRE_COMMAND_import) text += " " + a.imports[c.target].name;
  if (!c.operands.empty()) {
    text += "(";
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      text += fmt::format("{}b{}", i ? ", " : "", c.operands[i]);
    }
    text += ")";
  }
  if (c.kind == NACRE_COMMAND_branch || c.kind == NACRE_COMMAND_jump) {
    text += fmt::format(" to {}", c.target);
  }
  if (c.kind == NACRE_COMMAND_bind) text += " to " + a.symbols[c.target].name;
  if (c.kind == NACRE_COMMAND_check) text += " " + size_words(words, Size::node(c.target));
  if (c.flags & NACRE_COMMAND_BARRIER) text += " barrier";
  if (c.flags & NACRE_COMMAND_TEAM) text += " team";
  if (c.grid) text += fmt::format(" blocks {}", size_words(words, Size::node(c.grid - 1)));
  if (c.threads) text += fmt::format(" threads {}", c.threads);
  if (c.scratch.raw) text += fmt::format(" scratch {}", size_words(words, c.scratch));
  out.line(4, "{}{}", text, lines_words(a, c.provenances));
}

void dump_variant(const Dump& dump, uint32_t entry, uint32_t number, Lines& out) {
  const Artifact& a = dump.artifact;
  const Variant& v = a.entries[entry].variants[number];
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, entry, number);
  out.line(2, "variant {} {}", number, v.name);
  const VariantCost& cost = dump.costs[entry][number];
  out.line(4, "cost {} bytes of code in {} kernels, {} bytes of weights, {} bytes of tables",
           cost.code_bytes, cost.kernels, cost.weight_bytes, cost.table_bytes);
  out.line(4, "own {} bytes of code in {} kernels, {} bytes of weights", cost.own_code_bytes,
           cost.own_kernels, cost.own_weight_bytes);
  for (const Guard& guard : v.guards) out.line(4, "guard {}", guard_words(words, guard));
  const std::size_t first = a.entries[entry].nodes.size();
  for (std::size_t i = 0; i < v.nodes.size(); ++i) {
    const auto node = static_cast<uint32_t>(first + i);
    out.line(4, "node n{} = {}", node, node_words(a, entry, number, node));
  }
  for (std::size_t i = 0; i < v.slots.size(); ++i) {
    const Slot& slot = v.slots[i];
    out.line(4, "buffer b{} {} offset {} size {}{}", i, slot_name(slot),
             size_words(words, slot.offset), size_words(words, slot.size),
             v.slot_tensors.empty()
                 ? ""
                 : "  " + v.slot_tensors[i].name + ": " + tensor_words(words, v.slot_tensors[i]));
  }
  constexpr size_t kFormula = 2000;  // what memory is needed is told in symbols as long as a person may read it
  out.line(4, "arena {} bytes{}", size_words(words, v.arena_size, kFormula),
           v.arena_bound ? fmt::format(", at most {}", v.arena_bound) : "");
  for (std::size_t i = 0; i < v.commands.size(); ++i) dump_command(a, words, v.commands[i], i, out);
}

// " at batch.image"
std::string at(const Tensor& t) { return t.path.empty() ? "" : " at " + t.path; }

void dump_entry(const Dump& dump, uint32_t number, Lines& out) {
  const Entry& entry = dump.artifact.entries[number];
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, number, 0);
  out.line(0, "entry {} {}", number, entry.name);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const Tensor& t = entry.inputs[i];
    out.line(2, "input {} {}{}: {}{}{}", i, t.name, at(t), tensor_words(words, t),
             t.flags & NACRE_TENSOR_SCALAR ? " scalar" : "",
             t.flags & NACRE_TENSOR_MUTATED ? " mutated" : "");
  }
  for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
    out.line(2, "output {} {}{}: {}", i, entry.outputs[i].name, at(entry.outputs[i]),
             tensor_words(words, entry.outputs[i]));
  }
  for (uint32_t i = 0; i < entry.nodes.size(); ++i) {
    out.line(2, "node n{} = {}", i, node_words(dump.artifact, number, 0, i));
  }
  for (uint32_t i = 0; i < entry.variants.size(); ++i) dump_variant(dump, number, i, out);
}

}  // namespace

std::string dump_text(const nacre_container& verified) {
  Dump dump{read_artifact(verified), verified, {}};
  dump.costs = variant_costs(dump.artifact);
  const Artifact& a = dump.artifact;
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, 0, 0);
  Lines out;
  out.line(0, "artifact {} bytes, format {}, made by {}", verified.size, format_version(verified), a.producer);
  for (std::size_t i = 0; i < a.symbols.size(); ++i) {
    const Symbol& s = a.symbols[i];
    const std::string limit = s.max == INT64_MAX ? "no limit" : std::to_string(s.max);
    out.line(0, "symbol {} {} from {} to {}{}", i, s.name, s.min, limit,
             s.multiple > 1 ? fmt::format(", a multiple of {}", s.multiple) : "");
  }
  for (uint32_t i = 0; i < a.entries.size(); ++i) dump_entry(dump, i, out);
  for (std::size_t i = 0; i < a.images.size(); ++i) {
    out.line(0, "image {} {} {} bytes, needs {}", i, a.images[i].target, a.images[i].bytes.size(),
             a.images[i].features ? features_words(a.images[i].features) : "nothing special");
  }
  for (std::size_t i = 0; i < a.kernels.size(); ++i) {
    const Kernel& k = a.kernels[i];
    out.line(0, "kernel {} {} in image {}{}{}", i, k.name, k.image,
             k.size_bytes ? fmt::format(", {} bytes", k.size_bytes) : "",
             lines_words(a, k.provenances));
  }
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    const Weight& w = a.weights[i];
    out.line(0, "weight {} {}: {}[{}] {} bytes at {}", i, w.name, nacre_dtype_name(w.dtype),
             fmt::join(w.dims, ", "), w.bytes.size(), w.bytes.data() - dump.container.data);
  }
  for (std::size_t i = 0; i < a.states.size(); ++i) {
    const State& s = a.states[i];
    out.line(0, "state {} {}: {}[{}] {} bytes, starts {}", i, s.name, nacre_dtype_name(s.dtype),
             fmt::join(s.dims, ", "), s.size_bytes,
             s.initial < 0 ? "as zeros" : fmt::format("as weight {}", s.initial));
  }
  for (std::size_t i = 0; i < a.imports.size(); ++i) {
    out.line(0, "import {} {}, {} inputs, with {}", i, a.imports[i].name, a.imports[i].input_count,
             a.imports[i].arguments);
  }
  return out.text;
}

}  // namespace nacre::formats
