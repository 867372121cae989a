// Random numbers for decompositions: what one operator draws, one tensor after the other.
#pragma once

#include "compiler/graph/decompose_call.h"

namespace nacre {

class Draws {
 public:
  explicit Draws(Call& call) : state_(call.random_state()), stream_(call.random_stream()) {}
  // In a subgraph that takes the state.
  explicit Draws(Tensor state) : state_(std::move(state)) {}

  Tensor bits(const Shape& shape);                       // 64 for each element, as int64
  Tensor unit(const Shape& shape, nacre_dtype dtype);    // [0, 1), with as many digits as the type has
  Tensor normal(const Shape& shape, nacre_dtype dtype);  // of mean 0 and variance 1
  Tensor chance(const Shape& shape, const Operand& p);   // true with probability p (a tensor of this shape, or a number)
  // A state for a subgraph of the operator: a seed of its own, and no round so far.
  Tensor state();

 private:
  Tensor state_;
  int64_t stream_ = 0, draw_ = 0;
};

// Dropout in training: each element is kept with probability 1 - p, and what is kept makes up for the rest.
Tensor dropped(Draws& draws, const Tensor& x, double p);

}  // namespace nacre
