// Bounds of expressions as expressions: how large what depends on data may become, in terms of what is known before a run.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "compiler/symbolic/simplify.h"

namespace nacre {

// An expression without the symbols of `unknown` that `e` does not exceed, by their ranges and bounds; nullopt if there is none.
//   u0 in [0, 100], below s0:   3*u0 + s1  ->  3*min(100, s0 - 1) + s1
std::optional<Expr> upper_limit(const Expr& e, const std::set<std::string>& unknown, const Facts& facts);
std::optional<Expr> lower_limit(const Expr& e, const std::set<std::string>& unknown, const Facts& facts);

}  // namespace nacre
