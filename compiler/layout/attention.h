// Attention that a model writes out.
#pragma once

#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

// A product, the softmax of its rows and the product with that become one group where a device has a kernel for it. What is added to
// scores, such as a bias by position and a mask, becomes operands behind the third.
//   %s = matmul %q %k * 0.125 + %bias; %p = softmax %s; %y = matmul %p %v   ->   %y = attention %q %k %v %bias scale 0.125
void find_attention(LoopProgram& program, const Target& target);

}  // namespace nacre
