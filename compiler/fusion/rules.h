// The ways in which groups merge. Each rule looks at a place, decides whether it is legal and pays, and edits the state; it
// answers whether it did. What a rule needs of the groups stands with it in rules.cpp (and rules_nests.cpp).
#pragma once

#include <string_view>

#include "compiler/fusion/state.h"

namespace nacre {

// A copy of a whole buffer into an output or a state vanishes: its source is computed there at once.
//   store %t[i] = ...;  store %out[i] = load %t[i]      ->  store %out[i] = ...
bool rename_copy(FusionState& state, int copy);

// A pointwise producer is computed where it is read.
//   %t[i] = exp %x[i];  %y[i, j] = add %t[i] %b[j]      ->  %y[i, j] = add (exp %x[i]) %b[j]
bool inline_producer(FusionState& state, int producer);

// A contraction reads through a copy to its source; a constant factor of an operand multiplies the result instead.
//   %t[i, k] = mul %x[i, k] 0.125;  %y = matmul %t %z   ->  %y = mul (matmul %x %z) 0.125
bool feed_contraction(FusionState& state, int producer);

// The same where joining (below) would only add a result to store: the producer is cheap, its one reader could compute it from
// what is stored for others anyway.
//   %t = matmul ...;  %s[i] = mul %t[i] %t[i];  %m = reduce sum %s[i]   ->  %m = reduce sum (mul %t[i] %t[i])
bool inline_reader_of_stored(FusionState& state, int producer);

// A pointwise consumer runs in the nest that makes what it reads, at the same point: the epilogue of a contraction, what
// follows a reduction, or more of a pointwise nest.
//   %t = matmul ...;  %y[i] = relu %t[i]                ->  %y = relu (accumulator)
enum class Joining {
  to_results,      // contractions and reductions
  only_consumers,  // and pointwise producers whose only consumer it is
  always,          // and those that have others, which then read what is stored
};
bool join_consumer(FusionState& state, int consumer, Joining joining);

// Two nests over equal loops that read the same become one.
//   %a[i] = sin %x[i];  %b[i] = cos %x[i]               ->  one nest with two stores
bool merge_sideways(FusionState& state, int first, int second);

// A producer and a consumer whose iterations correspond share outer loops; what passes between them stays local.
//   %m[i] = amax over j of %x[i, j];  %y[i, j] = sub %x[i, j] %m[i]     ->  outer i: two nests over j
// `contiguous`: of each buffer, the dim whose elements lie side by side (cost.h).
bool share_outer(FusionState& state, int producer, int consumer, const std::vector<int>& contiguous);

// Within a group: adjacent nests over equal loops become one.
bool merge_nests(FusionState& state, int group);

// Temporaries that only one group uses, an iteration of its outer loops at a time, become local.
void make_local(FusionState& state, int group);

}  // namespace nacre
