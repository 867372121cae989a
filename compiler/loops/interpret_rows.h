// Work on whole rows: sorting, Fourier transforms, bytes as another type. Private to the interpreter.
#pragma once

#include <vector>

#include "compiler/loops/interpret_nest.h"

namespace nacre::interpreting {

void run_rows(const RowWork& work, const Symbols& symbols, std::vector<Array>& arrays);

}  // namespace nacre::interpreting
