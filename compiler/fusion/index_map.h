// Index maps that are bijections, and their inverses: how a consumer's loops follow from its producer's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/loops/code.h"

namespace nacre {

// If `at` maps the points of `loops` one to one onto all elements of a tensor of `shape`, by digits (permutations, merged and
// split dims, and compositions of them): each loop variable as an expression over `element`, the index of the element.
std::optional<std::map<std::string, Expr>> inverse(const std::vector<Expr>& at, const std::vector<LoopVar>& loops,
                                                   const std::vector<Expr>& shape, const std::vector<Expr>& element,
                                                   Simplifier& simplify);

// True if each dim is one loop variable of its own, or 0 where the tensor has one element, and all loops occur.
bool is_permutation(const std::vector<Expr>& at, const std::vector<LoopVar>& loops, const std::vector<Expr>& shape);

}  // namespace nacre
