// The table of primitives (ops.def) as data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"

namespace nacre {

enum class PrimClass { none, pointwise, cast, view, reduction, scan, sorting, creation, indexing, contraction, whole, complex, control };
enum class PrimResult { same, boolean, index };

struct Primitive {
  std::string name;  // without the `prim.`
  PrimClass kind = PrimClass::none;
  int arity = 0;     // of a pointwise one
  PrimResult result = PrimResult::same;
  double cost = 0;         // of an element of a pointwise one
  std::string expression;  // idem: C++ over a, b, c
};

const std::vector<Primitive>& primitives();

// By name, with or without the `prim.`; null if there is none.
const Primitive* find_primitive(std::string_view name);

// PrimClass::none for what is no primitive.
PrimClass primitive_class(std::string_view name);

// Of a pointwise primitive or a reduction, from the dtype of its last operand.
nacre_dtype result_dtype(const Primitive& primitive, nacre_dtype operand);

// An operator of torch.library, which only the application can compute: `library.mylib.scale.default` at the captured and the
// functional level.
inline constexpr std::string_view kLibrary = "library.";
bool is_library_operator(std::string_view op);
// The function that the application has for it: `mylib::scale`, `mylib::scale.overload`.
std::string library_function(std::string_view op);

// True of what must stay although nothing reads a result: it gives a symbol its value, or checks data.
bool has_effect(std::string_view name);

// The arguments of a primitive that come first and are tensors, in order: textual IR leaves their names out. Of another
// operator: `self`.
const std::vector<std::string>& operand_names(std::string_view op);

// Of a pointwise primitive; Error{internal} for another.
const std::string& pointwise_expression(std::string_view name);

}  // namespace nacre
