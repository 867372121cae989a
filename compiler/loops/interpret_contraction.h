// Contractions as plain loops: private to the interpreter.
#pragma once

#include <vector>

#include "compiler/loops/interpret_nest.h"

namespace nacre::interpreting {

// The result over the loops that are not reduced, in C order: f32, f64 or i64. lstm and gru write their results to `arrays`
// and return nothing.
struct ContractionResult {
  nacre_dtype dtype{};
  std::vector<std::byte> data;
};
ContractionResult contract(const Contraction& contraction, const Symbols& symbols, std::vector<Array>& arrays);

}  // namespace nacre::interpreting
