// Expressions as C++.
#pragma once

#include <string>

#include "compiler/symbolic/simplify.h"

namespace nacre {

// Over variables named as the expression's symbols: a size or an index, which is as wide as addresses are.
std::string cpp(const Expr& e, const Facts& facts);
// The same as a number of the model's, in 64 bits.
std::string cpp_value(const Expr& e, const Facts& facts);

}  // namespace nacre
