// Expressions as C++.
#pragma once

#include <string>

#include "compiler/symbolic/simplify.h"

namespace nacre {

// Over i64 variables named as the expression's symbols.
std::string cpp(const Expr& e, const Facts& facts);

}  // namespace nacre
