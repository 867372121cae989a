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
  if (c.kind == NACRE_COMMAND_import) text += fmt::format(" {}", a.imports[c.target]);
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
  if (c.flags & NACRE_COMMAND_BARRIER) text += " barrier";
  if (c.flags & NACRE_COMMAND_TEAM) text += " team";
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
  out.line(4, "arena {} bytes{}", size_words(words, v.arena_size),
           v.arena_bound ? fmt::format(", at most {}", v.arena_bound) : "");
  for (std::size_t i = 0; i < v.commands.size(); ++i) dump_command(a, words, v.commands[i], i, out);
}

void dump_entry(const Dump& dump, uint32_t number, Lines& out) {
  const Entry& entry = dump.artifact.entries[number];
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, number, 0);
  out.line(0, "entry {} {}", number, entry.name);
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const Tensor& t = entry.inputs[i];
    out.line(2, "input {} {}: {}{}{}", i, t.name, tensor_words(words, t),
             t.flags & NACRE_TENSOR_SCALAR ? " scalar" : "",
             t.flags & NACRE_TENSOR_MUTATED ? " mutated" : "");
  }
  for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
    out.line(2, "output {} {}: {}", i, entry.outputs[i].name,
             tensor_words(words, entry.outputs[i]));
  }
  for (uint32_t i = 0; i < entry.nodes.size(); ++i) {
    out.line(2, "node n{} = {}", i, node_words(dump.artifact, number, 0, i));
  }
  for (uint32_t i = 0; i < entry.variants.size(); ++i) dump_variant(dump, number, i, out);
}

}  // namespace

Dump open_dump(std::span<const uint8_t> bytes) {
  Dump dump{read_artifact(bytes), {}};
  char buffer[1024];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  nacre_verify(bytes.data(), bytes.size(), &dump.container, &why);
  return dump;
}

std::string command_name(nacre_command_kind kind) {
  switch (kind) {
#define NACRE_COMMAND(number, id, operands, text) \
  case NACRE_COMMAND_##id:                        \
    return #id;
#include "formats/commands.def"
#undef NACRE_COMMAND
    default:
      return "?";
  }
}

std::string slot_name(const Slot& slot) {
  static const char* const kNames[] = {"input", "output", "weight", "state", "arena"};
  const std::string name = kNames[slot.kind];
  return slot.kind == NACRE_SLOT_ARENA ? name : fmt::format("{} {}", name, slot.index);
}

// Words of any length: the buffer grows until the text fits.
template <typename Write>
static std::string grown(Write write) {
  std::string buffer(256, '\0');
  for (;;) {
    nacre_text text;
    nacre_text_start(&text, buffer.data(), buffer.size());
    write(&text);
    if (text.length + 1 < buffer.size() || buffer.size() > 65536) {
      buffer.resize(text.length);
      return buffer;
    }
    buffer.assign(buffer.size() * 4, '\0');
  }
}

std::string size_words(const nacre_words& words, Size size) {
  char buffer[64];
  nacre_text text;
  nacre_text_start(&text, buffer, sizeof buffer);
  nacre_words_size(&words, size.raw, &text);
  if (text.length + 1 == sizeof buffer) return fmt::format("n{}", size.node_number());
  return buffer;
}

std::string node_words(const Artifact& artifact, uint32_t entry, uint32_t variant,
                       uint32_t number) {
  const Entry& e = artifact.entries[entry];
  const auto at = [&](uint32_t i) -> const Node& {
    return i < e.nodes.size() ? e.nodes[i] : e.variants[variant].nodes[i - e.nodes.size()];
  };
  const auto leaf = [&](const Node& node) {
    return node.kind == NACRE_EXPR_constant ? std::to_string(node.b)
                                            : artifact.symbols[node.a].name;
  };
  const auto operand = [&](uint32_t i) {
    const Node& node = at(i);
    const bool is_leaf = node.kind == NACRE_EXPR_constant || node.kind == NACRE_EXPR_symbol;
    return is_leaf ? leaf(node) : fmt::format("n{}", i);
  };
  static const char* const kOperators[] = {
#define NACRE_EXPR(number, id, inputs, text) text,
#include "formats/exprs.def"
#undef NACRE_EXPR
  };
  const Node& node = at(number);
  switch (node.kind) {
    case NACRE_EXPR_constant:
    case NACRE_EXPR_symbol:
      return leaf(node);
    case NACRE_EXPR_not_:
      return "not " + operand(node.a);
    default:
      break;
  }
  const std::string a = operand(node.a), b = operand(static_cast<uint32_t>(node.b));
  const std::string op = kOperators[node.kind];
  const bool function = node.kind == NACRE_EXPR_min || node.kind == NACRE_EXPR_max ||
                        node.kind == NACRE_EXPR_round_up;
  return function ? op + "(" + a + ", " + b + ")" : a + " " + op + " " + b;
}

std::string guard_words(const nacre_words& words, const Guard& g) {
  return grown([&](nacre_text* text) {
    if (g.kind == NACRE_GUARD_features) {
      nacre_text_string(text, "the processor has ");
    } else if (g.kind != NACRE_GUARD_node) {
      nacre_words_input(&words, g.input, text);
      if (nacre_guard_of_dim(g.kind)) nacre_text_add(text, " dimension %d", static_cast<int64_t>(g.dim));
      nacre_text_string(text, ": ");
    }
    nacre_symbol_view symbol = {};
    const bool binds = g.kind == NACRE_GUARD_bind || g.kind == NACRE_GUARD_bind_value;
    if (binds) nacre_meta_symbol(words.meta, static_cast<uint32_t>(g.ref), &symbol);
    // Of a dimension, the runtime's words join all records; here each stands alone.
    switch (g.kind) {
      case NACRE_GUARD_bind:
        if (g.lo != 1) nacre_text_add(text, "%d*", g.lo);
        nacre_text_string(text, symbol.name);
        if (g.hi) nacre_text_add(text, g.hi > 0 ? " + %d" : " - %d", g.hi > 0 ? g.hi : -g.hi);
        break;
      case NACRE_GUARD_bind_value:
        nacre_text_add(text, "value %s", symbol.name);
        break;
      case NACRE_GUARD_equal:
        nacre_text_number(text, g.lo);
        break;
      case NACRE_GUARD_range:
        if (g.hi == INT64_MAX) {
          nacre_text_add(text, "%d or more", g.lo);
        } else {
          nacre_text_add(text, "in [%d, %d]", g.lo, g.hi);
        }
        break;
      case NACRE_GUARD_multiple:
        nacre_text_add(text, "a multiple of %d", g.lo);
        break;
      case NACRE_GUARD_equal_node:
        nacre_words_size(&words, ~g.ref, text);
        break;
      default: {
        const nacre_guard raw = {
            static_cast<uint16_t>(g.kind), g.input, g.dim, 0, g.ref, g.lo, g.hi};
        nacre_words_guard(&words, &raw, text);
      }
    }
  });
}

std::string features_words(uint64_t features) {
  return grown([&](nacre_text* text) { nacre_words_features(features, text); });
}

std::string tensor_words(const nacre_words& words, const Tensor& tensor) {
  std::string text = std::string(nacre_dtype_name(tensor.dtype)) + "[";
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    text += (i ? ", " : "") + size_words(words, tensor.dims[i]);
  }
  text += "]";
  if (tensor.layout.empty()) return text;
  text += " layout(";
  for (std::size_t i = 0; i < tensor.layout.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(tensor.layout[i]);
  }
  return text + ")";
}

std::string line_words(const Provenance& p) {
  std::string text;
  if (!p.file.empty()) text = fmt::format("{}:{}", p.file, p.line);
  for (const std::string& part : {p.module, p.op}) {
    if (!part.empty()) text += (text.empty() ? "" : " ") + part;
  }
  return text;
}

std::string dump_text(std::span<const uint8_t> bytes) {
  const Dump dump = open_dump(bytes);
  const Artifact& a = dump.artifact;
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, 0, 0);
  Lines out;
  out.line(0, "artifact {} bytes, format {}.{}, made by {}", bytes.size(), NACRE_FORMAT_MAJOR,
           NACRE_FORMAT_MINOR, a.producer);
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
  for (std::size_t i = 0; i < a.imports.size(); ++i) out.line(0, "import {} {}", i, a.imports[i]);
  return out.text;
}

}  // namespace nacre::formats
