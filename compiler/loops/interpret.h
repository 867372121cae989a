// Runs a loop program on the host, slowly and obviously: the oracle for everything after it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/loops/group.h"

namespace nacre {

// `inputs` in the order of the program's inputs. Returns user outputs in order; `mutated` (if given) receives the value
// after the run of each mutated input and, by name, each state. Error{user} for an error in data.
struct Mutated {
  std::vector<HostTensor> inputs;                   // in the order of LoopProgram::input_mutations
  std::map<std::string, HostTensor> states;
};
std::vector<HostTensor> interpret(const LoopProgram& program, const std::map<std::string, HostTensor>& weights,
                                  const std::vector<HostTensor>& inputs, Mutated* mutated = nullptr);

}  // namespace nacre
