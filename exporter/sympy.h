// Reads the two ways in which torch.export writes integer expressions: sympy's `srepr`, which sizes
// and strides have, and Python, which guards have.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/symbolic/expr.h"

namespace nacre {

// `Mul(Integer(2), Symbol('s77', positive=True, integer=True))` -> `2*s77`.
//
// Nullopt if the expression has no exact integer form (a logarithm, a square root). Where it has
// one only up to some size
// (`TruncToInt(Mul(Float('1.3'), ToFloat(s)))` is `13*s floordiv 10` as far as doubles agree), that
// is added to `assumptions`. Error{user} if the text is malformed.
std::optional<Expr> parse_srepr(std::string_view text, std::vector<Expr>* assumptions);

// `(L['x'].size()[0] % 2) == 0` -> `mod(s77, 2) == 0`. `source` gives the meaning of what begins
// with `L[`: `L['x'].size()[0]`; nullopt from it, or a function without an integer meaning, makes
// the result nullopt.
std::optional<Expr> parse_guard(
    std::string_view text,
    const std::function<std::optional<Expr>(std::string_view source)>& meaning);

}  // namespace nacre
