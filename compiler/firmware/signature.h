// An entry as a C function: what its parameters are called, and what each of them is for.
//
//   int keyword_run(void* arena, void* state, int64_t s0, const float* x, float* output);
#pragma once

#include <string>
#include <vector>

#include "formats/writer.h"

namespace nacre {

struct Parameter {
  enum class Kind {
    arena,   // working memory, whose contents nobody needs between calls
    state,   // what the model keeps between calls
    symbol,  // a size that the call chooses
    input,   // a tensor, or a number
    output,
    shape,  // receives the dimensions of an output whose size depends on data
  };
  Kind kind = Kind::input;
  std::string name;
  std::string type;    // `const float*`
  uint32_t index = 0;  // of the symbol, input or output
};

struct Signature {
  std::string function;
  std::vector<Parameter> parameters;
  std::string text() const;  // `int keyword_run(void* arena, const float* x)`
};

// `name` of the library, as a C identifier; a lone entry is `name_run`, of several each `name_entry`. Error{unsupported} for
// what has no place in it.
std::vector<Signature> signatures(const formats::Artifact& artifact, const std::string& name);

// Letters, digits and underscores, beginning with no digit.
std::string identifier(const std::string& text);
std::string upper(const std::string& text);

// As C has it in memory: float16 and bfloat16 as their 16 bits, complex numbers as pairs.
std::string c_type(nacre_dtype dtype);

// The one variant that a library has of an entry.
const formats::Variant& only_variant(const formats::Entry& entry);
// The symbol that an input's number or dimension gives its value, by the guards; the number of the symbol in the artifact.
bool binds_number(const formats::Variant& variant, uint32_t input, uint32_t* symbol);
// Whether an input is a number that must have the value that it had when the model was exported: it is no parameter.
bool fixed_number(const formats::Variant& variant, uint32_t input);

}  // namespace nacre
