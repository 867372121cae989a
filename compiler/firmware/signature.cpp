#include "compiler/firmware/signature.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "compiler/codegen/writer.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"
#include "formats/kinds.h"

namespace nacre {

namespace {

// Each name once: a second `x` is `x_2`.
class Names {
 public:
  explicit Names(std::initializer_list<std::string> taken) : taken_(taken) {}
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int n = 2; !taken_.insert(name).second; ++n) name = fmt::format("{}_{}", wanted, n);
    return name;
  }

 private:
  std::set<std::string> taken_;
};

const std::set<std::string>& c_words() {
  static const std::set<std::string> words{"auto",    "bool",      "break",  "case",     "catch",    "char",      "class",    "const",    "continue",
                                           "default", "delete",    "do",     "double",   "else",     "enum",      "explicit", "export",   "extern",
                                           "false",   "float",     "for",    "friend",   "goto",     "if",        "inline",   "int",      "long",
                                           "mutable", "namespace", "new",    "operator", "private",  "protected", "public",   "register", "restrict",
                                           "return",  "short",     "signed", "sizeof",   "static",   "struct",    "switch",   "template", "this",
                                           "throw",   "true",      "try",    "typedef",  "typename", "union",     "unsigned", "using",    "virtual",
                                           "void",    "volatile",  "while",  "asm",      "and",      "or",        "not",      "xor"};
  return words;
}

Signature signature_of(const formats::Artifact& artifact, const formats::Entry& entry, const std::string& function) {
  const formats::Variant& variant = only_variant(entry);
  Signature result{function, {}};
  Names names{"arena", "state"};
  const auto add = [&](Parameter::Kind kind, const std::string& wanted, const std::string& type, uint32_t index) {
    std::string name = identifier(wanted);
    if (c_words().contains(name)) name += "_";
    result.parameters.push_back({kind, names.unique(name), type, index});
  };
  result.parameters.push_back({Parameter::Kind::arena, "arena", "void*", 0});
  if (!artifact.states.empty()) result.parameters.push_back({Parameter::Kind::state, "state", "void*", 0});
  for (const formats::Guard& guard : variant.guards)
    if (guard.kind == NACRE_GUARD_bind)
      add(Parameter::Kind::symbol, artifact.symbols.at(static_cast<size_t>(guard.ref)).name, "int64_t", static_cast<uint32_t>(guard.ref));
  for (uint32_t i = 0; i < entry.inputs.size(); ++i) {
    const formats::Tensor& input = entry.inputs[i];
    if (input.flags & NACRE_TENSOR_SCALAR) {
      if (!fixed_number(variant, i)) add(Parameter::Kind::input, input.name, c_type(input.dtype), i);
      continue;
    }
    add(Parameter::Kind::input, input.name, (input.flags & NACRE_TENSOR_MUTATED ? "" : "const ") + c_type(input.dtype) + "*", i);
  }
  for (uint32_t i = 0; i < entry.outputs.size(); ++i) {
    const std::string name = entry.outputs.size() == 1 ? "output" : fmt::format("output_{}", i);
    add(Parameter::Kind::output, name, c_type(entry.outputs[i].dtype) + "*", i);
    if (!entry.outputs[i].bounds.empty()) add(Parameter::Kind::shape, name + "_shape", "int64_t*", i);
  }
  return result;
}

}  // namespace

std::string Signature::text() const {
  std::vector<std::string> parts;
  for (const Parameter& p : parameters) parts.push_back(p.type + " " + p.name);
  return fmt::format("int {}({})", function, joined(parts));
}

std::vector<Signature> signatures(const formats::Artifact& artifact, const std::string& name) {
  std::vector<Signature> result;
  Names names{name + "_init"};
  for (const formats::Entry& entry : artifact.entries)
    result.push_back(signature_of(artifact, entry, artifact.entries.size() == 1 ? name + "_run" : names.unique(name + "_" + identifier(entry.name))));
  return result;
}

std::string identifier(const std::string& text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "_");
  return name;
}

std::string upper(const std::string& text) {
  std::string result = text;
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string c_type(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_i64: return "int64_t";
    case NACRE_f16: return "uint16_t";
    case NACRE_c64: return "float";
    case NACRE_c128: return "double";
    default: return storage_type(dtype);
  }
}

const formats::Variant& only_variant(const formats::Entry& entry) {
  check(entry.variants.size() == 1, "entry {} has {} variants", entry.name, entry.variants.size());
  return entry.variants[0];
}

bool binds_number(const formats::Variant& variant, uint32_t input, uint32_t* symbol) {
  for (const formats::Guard& guard : variant.guards)
    if (guard.kind == NACRE_GUARD_bind_value && guard.input == input) {
      *symbol = static_cast<uint32_t>(guard.ref);
      return true;
    }
  return false;
}

bool fixed_number(const formats::Variant& variant, uint32_t input) {
  return std::any_of(variant.guards.begin(), variant.guards.end(),
                     [&](const formats::Guard& guard) { return guard.kind == NACRE_GUARD_value_equal && guard.input == input; });
}

}  // namespace nacre
