// A graph for inputs that share memory with each other.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// How a user input lies in the memory that it shares: symbols for its steps and for its distance from the first of its group,
// in elements.
struct SharedInput {
  size_t input = 0;  // among the user inputs
  int group = 0;     // inputs of one dtype
  std::vector<std::string> strides;
  std::string offset;
};

struct OverlapGraph {
  Graph graph;  // with those symbols beside its own
  std::vector<SharedInput> inputs;
};

}  // namespace nacre
