// Convolutions of few channels as products.
#pragma once

#include <map>
#include <string>

#include "compiler/graph/graph.h"
#include "compiler/loops/group.h"

namespace nacre {

// Where a pixel has fewer channels than tensor cores read at once, the patch that a filter sees is copied, padded to a multiple of 8
// terms, and the convolution is one of single pixels over it; `weights` gets the padded filters.
//   %y = conv x[1, 3, 224, 224] w[64, 3, 7, 7]   ->   %p[1, 152, 112, 112] = ...; %y = conv p w'[64, 152, 1, 1]
void take_patches(LoopProgram& program, std::map<std::string, HostTensor>& weights);

}  // namespace nacre
