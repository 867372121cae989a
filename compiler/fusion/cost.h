// What a merge costs and gains, in rough units: a cheap operation on a vector element is 1, an element moved is kMove.
#pragma once

#include "compiler/fusion/state.h"
#include "compiler/loops/group.h"

namespace nacre {

inline constexpr double kMove = 4;
inline constexpr double kLocalBytes = 64 * 1024;  // of rows that stay in a group: they should lie in a first or second level cache

double typical_size(const Expr& e, const Facts& symbols);  // at least 1
double typical_points(const std::vector<LoopVar>& loops, const Facts& symbols);
double operation_cost(const Scalar& scalar);
double code_cost(const std::vector<Scalar>& code);                 // of one pass, loads not counted

// Elements of its inputs that one element of the nest's result needs from memory: a broadcast counts for what it is.
double elements_loaded(const LoopProgram& program, const Nest& nest, double points);

// True if computing the elements of a buffer anew at every read is better than storing them: each is read `reads` times, has
// code of `cost`, and needs `loaded` elements.
bool pays_to_recompute(double reads, double cost, double loaded);

// True if a kernel whose outer loops have that many iterations of that many elements each should be one group.
bool pays_to_share_outer(double iterations, double elements);

// Of each buffer, the dim whose elements will lie side by side: the last, or the channels of images between convolutions, which
// the layout puts last (layout/choose.h).
std::vector<int> contiguous_dims(const FusionState& state);

}  // namespace nacre
