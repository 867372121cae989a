#include "compiler/firmware/header.h"

#include <algorithm>

#include "compiler/support/print.h"
#include "formats/kinds.h"

namespace nacre {

using formats::Size;

namespace {

// `s0`, `8*s0 + 1`: a dimension in the words of the symbols.
std::string words(const formats::Artifact& artifact, const formats::Entry& entry, Size size) {
  if (size.is_constant()) return std::to_string(size.raw);
  std::vector<formats::Node> nodes = entry.nodes;
  const formats::Variant& v = only_variant(entry);
  nodes.insert(nodes.end(), v.nodes.begin(), v.nodes.end());
  const auto text = [&](const auto& self, uint32_t number) -> std::string {
    const formats::Node& n = nodes.at(number);
    if (n.kind == NACRE_EXPR_constant) return std::to_string(n.b);
    if (n.kind == NACRE_EXPR_symbol) return artifact.symbols.at(n.a).name;
    static const char* const texts[] = {
#define NACRE_EXPR(number, id, inputs, text) text,
#include "formats/exprs.def"
#undef NACRE_EXPR
    };
    const std::string a = self(self, n.a);
    if (n.kind == NACRE_EXPR_not_) return "not " + a;
    const std::string b = n.number ? std::to_string(n.b) : self(self, static_cast<uint32_t>(n.b)), op = texts[n.kind];
    if (n.number && n.kind == NACRE_EXPR_mul) return fmt::format("({} * {})", b, a);
    return std::isalpha(static_cast<unsigned char>(op[0])) && op != "and" && op != "or" ? fmt::format("{}({}, {})", op, a, b)
                                                                                        : fmt::format("({} {} {})", a, op, b);
  };
  return text(text, size.node_number());
}

std::string shape_words(const formats::Artifact& artifact, const formats::Entry& entry, const formats::Tensor& tensor) {
  std::vector<std::string> dims;
  for (const Size& d : tensor.dims) dims.push_back(words(artifact, entry, d));
  return fmt::format("{}[{}]", nacre_dtype_name(tensor.dtype), joined(dims));
}

bool fixed_shape(const formats::Tensor& tensor) {
  return std::all_of(tensor.dims.begin(), tensor.dims.end(), [](const Size& d) { return d.is_constant(); });
}

// `#define KEYWORD_X_BYTES 1960`, where the shape is fixed.
std::string tensor_constants(const std::string& prefix, const formats::Tensor& tensor) {
  if (!fixed_shape(tensor)) return {};
  int64_t elements = 1;
  std::vector<int64_t> dims;
  for (const Size& d : tensor.dims) {
    elements *= d.raw;
    dims.push_back(d.raw);
  }
  std::string text = fmt::format("#define {}_ELEMENTS {}\n", prefix, elements * (nacre_dtype_kind(tensor.dtype) == 'c' ? 2 : 1));
  text += fmt::format("#define {}_BYTES {}\n", prefix, elements * nacre_dtype_size_bytes(tensor.dtype));
  for (size_t d = 0; d < dims.size(); ++d) text += fmt::format("#define {}_DIM{} {}\n", prefix, d, dims[d]);
  return text;
}

std::string entry_text(const formats::Artifact& artifact, const formats::Entry& entry, const Signature& signature, const std::string& prefix) {
  std::string comment = fmt::format("// {}\n", entry.name), constants;
  for (const Parameter& p : signature.parameters) {
    std::string says;
    switch (p.kind) {
      case Parameter::Kind::arena: says = "working memory; what it holds between calls does not matter"; break;
      case Parameter::Kind::state: says = "what the model keeps between calls"; break;
      case Parameter::Kind::symbol: {
        const formats::Symbol& s = artifact.symbols.at(p.index);
        says = s.max == INT64_MAX ? fmt::format("a size, at least {}", s.min) : fmt::format("a size, {} to {}", s.min, s.max);
        if (s.multiple > 1) says += fmt::format(", a multiple of {}", s.multiple);
        break;
      }
      case Parameter::Kind::input:
      case Parameter::Kind::output: {
        const bool input = p.kind == Parameter::Kind::input;
        const formats::Tensor& t = input ? entry.inputs[p.index] : entry.outputs[p.index];
        says = (t.flags & NACRE_TENSOR_SCALAR) ? "a number" : shape_words(artifact, entry, t);
        if (t.flags & NACRE_TENSOR_MUTATED) says += ", which the call changes";
        if (!t.path.empty()) says += "; " + t.path;
        if (!(t.flags & NACRE_TENSOR_SCALAR)) constants += tensor_constants(prefix + "_" + upper(p.name), t);
        break;
      }
      case Parameter::Kind::shape: says = fmt::format("receives the {} dimensions of that output", entry.outputs[p.index].dims.size()); break;
    }
    comment += fmt::format("//   {}  {}\n", p.name, says);
  }
  const formats::Variant& v = only_variant(entry);
  for (uint32_t i = 0; i < entry.inputs.size(); ++i)
    if (entry.inputs[i].flags & NACRE_TENSOR_SCALAR && fixed_number(v, i))
      comment += fmt::format("//   ({} has the value that it had when the model was exported)\n", entry.inputs[i].name);
  return fmt::format("{}{}{};\n\n", constants, comment, signature.text());
}

}  // namespace

std::string header_text(const formats::Artifact& artifact, const LibraryPlan& plan, const std::vector<Signature>& signatures,
                        const HeaderFacts& facts) {
  const std::string name = upper(plan.name);
  const bool several = artifact.entries.size() > 1;
  std::string text = fmt::format("// {} for {} ({}), by nacre. Link {}.o.\n//\n", facts.from, facts.target.name, facts.target.description, plan.name);
  text +=
      "// Functions return 0, or why there is no result:\n"
      "//   1 an index in the data is out of range    2 an integer division by zero    3 an assertion of the model does not hold\n"
      "//   4 a size that depends on data is out of its range    5 the model does not take such sizes; nothing was touched\n"
      "// Tensors are dense, aligned as their elements, and share no memory with each other or with arena and state.\n"
      "// A function may run again before another call of it has returned, with other memory. Nothing is allocated; of the C library,\n"
      "// memcpy and memset may be called.\n";
  text += fmt::format("#ifndef NACRE_LIBRARY_{0}_H\n#define NACRE_LIBRARY_{0}_H\n\n#include <stdbool.h>\n#include <stdint.h>\n\n", name);
  text += fmt::format("#define {}_ALIGNMENT {}  // of arena and state, in bytes\n", name, facts.target.alignment);
  text += fmt::format("#define {}_ARENA_BYTES {}\n", name, plan.arena_bytes);
  text += fmt::format("#define {}_STATE_BYTES {}\n", name, plan.state_bytes);
  text += fmt::format("#define {}_STACK_BYTES {}  // of a call at most, from the compiler's records; without what interrupts, memcpy and memset take\n", name,
                      facts.stack_bytes.empty() ? 0 : *std::max_element(facts.stack_bytes.begin(), facts.stack_bytes.end()));
  if (several)
    for (size_t e = 0; e < signatures.size(); ++e)
      text += fmt::format("#define {}_STACK_BYTES {}\n", upper(signatures[e].function), facts.stack_bytes[e]);
  text += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  if (!artifact.states.empty()) {
    text += fmt::format("// Gives state its first contents: before the first call, and to start anew.\n//   {}\n", [&] {
      std::vector<std::string> parts;
      for (size_t i = 0; i < artifact.states.size(); ++i)
        parts.push_back(fmt::format("at {}: {} {}[{}]", plan.state_offsets[i], artifact.states[i].name, nacre_dtype_name(artifact.states[i].dtype),
                                    joined(artifact.states[i].dims)));
      return joined(parts, "\n//   ");
    }());
    text += fmt::format("void {}_init(void* state);\n\n", plan.name);
  }
  for (size_t e = 0; e < signatures.size(); ++e)
    text += entry_text(artifact, artifact.entries[e], signatures[e], several ? upper(signatures[e].function) : name);
  text += "#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return text;
}

}  // namespace nacre
