#include "formats/dump_parts.h"

#include <fmt/format.h>

#include <utility>

namespace nacre::formats {

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

std::string size_words(const nacre_words& words, Size size, size_t limit) {
  std::string buffer(limit + 1, '\0');
  nacre_text text;
  nacre_text_start(&text, buffer.data(), buffer.size());
  nacre_words_size(&words, size.raw, &text);
  if (text.length == limit) return fmt::format("n{}", size.node_number());
  buffer.resize(text.length);
  return buffer;
}

std::string format_version(const nacre_container& container) {
  const auto* header = reinterpret_cast<const nacre_file_header*>(container.bytes);
  return fmt::format("{}.{}", header->major, header->minor);
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
  std::string a = operand(node.a), b = node.number ? std::to_string(node.b) : operand(static_cast<uint32_t>(node.b));
  if (node.number && node.kind == NACRE_EXPR_mul) std::swap(a, b);  // 4 * s0
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
    const bool binds = g.kind == NACRE_GUARD_bind || g.kind == NACRE_GUARD_bind_value ||
                       g.kind == NACRE_GUARD_bind_stride || g.kind == NACRE_GUARD_bind_offset;
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
      case NACRE_GUARD_bind_stride:
        nacre_text_add(text, "step of dimension %d in memory %s", static_cast<int64_t>(g.dim),
                       symbol.name);
        break;
      case NACRE_GUARD_bind_offset:
        nacre_text_add(text, "may overlap others, from whose lowest address it is %s elements away; "
                       "copied", symbol.name);
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
      case NACRE_GUARD_features:
        nacre_words_features(static_cast<uint64_t>(g.lo), text);
        if (g.hi) nacre_text_add(text, " and %d bytes of memory", g.hi);
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
  for (std::size_t i = 0; i < tensor.bounds.size(); ++i)
    text += (i ? ", " : " at most [") + size_words(words, tensor.bounds[i]);
  if (!tensor.bounds.empty()) text += "]";
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

}  // namespace nacre::formats
