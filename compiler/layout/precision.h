// Buffers between kernels, and matrices of weights, as 16-bit floats: what is computed stays float32 in registers, so sums,
// statistics and softmax keep their digits; what is stored has half the bytes, and products of it run on tensor cores. With TF32
// all that is stored stays float32, and products run on tensor cores all the same.
//
//   - User inputs, outputs and state keep their types, and so do vectors of weights (biases, scales) that 16 bits do not hold as they are.
//   - Temporaries become 16-bit, but for results of reductions that no contraction reads, and for what sin and cos are taken of.
//   - Weights of convolutions lie channels-last.
//   - With TF32, weights that products alone read are rounded to 11 bits here, and not as often as they are read.
#pragma once

#include <map>
#include <string>

#include "compiler/loops/group.h"
#include "compiler/support/precision.h"
#include "compiler/support/tensor.h"

namespace nacre {

void lower_precision(LoopProgram& program, std::map<std::string, HostTensor>& weights, Precision precision);

}  // namespace nacre
