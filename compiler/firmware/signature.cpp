#include "compiler/firmware/signature.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "compiler/codegen/writer.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"
#include "formats/kinds.h"

namespace nacre {

namespace {

// Each name once, in whatever case, since constants are made of them in upper case: a second `x`, and an `X`, is `x_2`.
class Names {
 public:
  explicit Names(std::initializer_list<std::string> taken) {
    for (const std::string& name : taken) unique(name);
  }
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int n = 2; !taken_.insert(upper(name)).second; ++n) name = fmt::format("{}_{}", wanted, n);
    return name;
  }

 private:
  std::set<std::string> taken_;
};

// What no parameter can be called: the keywords of C (to C23) and C++ (to C++20), and the names of the headers that come before.
bool is_c_word(const std::string& name) {
  static const std::set<std::string> words{
      "alignas",      "alignof",       "and",       "and_eq",     "asm",         "auto",         "bitand",        "bitor",            "bool",
      "break",        "case",          "catch",     "char",       "char16_t",    "char32_t",     "char8_t",       "class",            "co_await",
      "co_return",    "co_yield",      "compl",     "concept",    "const",       "const_cast",   "consteval",     "constexpr",        "constinit",
      "continue",     "decltype",      "default",   "delete",     "do",          "double",       "dynamic_cast",  "else",             "enum",
      "explicit",     "export",        "extern",    "false",      "float",       "for",          "friend",        "goto",             "if",
      "inline",       "int",           "long",      "mutable",    "namespace",   "new",          "noexcept",      "not",              "not_eq",
      "nullptr",      "operator",      "or",        "or_eq",      "private",     "protected",    "public",        "register",         "reinterpret_cast",
      "requires",     "restrict",      "return",    "short",      "signed",      "sizeof",       "static",        "static_assert",    "static_cast",
      "struct",       "switch",        "template",  "this",       "thread_local", "throw",       "true",          "try",              "typedef",
      "typeid",       "typename",      "typeof",    "typeof_unqual", "union",    "unsigned",     "using",         "virtual",          "void",
      "volatile",     "wchar_t",       "while",     "xor",        "xor_eq",      "linux",        "unix",          "NULL"};
  static const std::regex of_headers("_[A-Z_].*|u?int(_fast|_least)?(8|16|32|64)_t|u?int(ptr|max)_t|"
                                     "U?INT((_FAST|_LEAST)?(8|16|32|64)|PTR|MAX)(_MIN|_MAX|_C)|(SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MIN|MAX)");
  return words.contains(name) || std::regex_match(name, of_headers);
}

Signature signature_of(const formats::Artifact& artifact, const formats::Entry& entry, const std::string& function) {
  const formats::Variant& variant = only_variant(entry);
  Signature result{function, {}};
  Names names{"arena", "state", "stack"};  // of which the header has sizes
  const auto add = [&](Parameter::Kind kind, const std::string& wanted, const std::string& type, uint32_t index) {
    std::string name = identifier(wanted);
    if (is_c_word(name)) name += "_";
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
