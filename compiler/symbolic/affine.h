// Expressions that a variable moves by the same step wherever it stands.
#pragma once

#include <optional>
#include <string>

#include "compiler/symbolic/simplify.h"

namespace nacre {

// e(var + 1) - e(var), if that does not depend on `var`: the stride of e in var; 0 if e does not contain it.
std::optional<Expr> coefficient(const Expr& e, const std::string& var, const Facts& facts);

// `e` with `var` = 0: the part of an affine expression that does not move with it.
Expr without(const Expr& e, const std::string& var, const Facts& facts);

// `k * symbol + c` with k > 0, of one symbol: what one dimension can bind.
struct Affine {
  std::string symbol;
  int64_t k, c;
};
std::optional<Affine> affine(const Expr& e, const Facts& facts);

}  // namespace nacre
