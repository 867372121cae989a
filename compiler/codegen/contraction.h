// A contraction group as a call of the kernel library with the epilogue as a lambda.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

// Writes the call. The group's form has been chosen and its operands' addresses are affine as the form needs.
void emit_contraction(KernelContext& context);

// The tile of a contraction with a panel of weights or of a second activation, as a question to measurements: what it computes, in its form.
std::string tile_question(const Contraction& c);
// Vectors that a panel for so many columns may have, the best first as Target::panel_vectors() has it, without those that compute half as
// much again; and how they are called.
std::vector<int> panels_for(int64_t columns, const Target& target);
std::vector<std::string> panel_choices(const std::vector<int>& panels);

// True if the epilogue can work on vectors of results; otherwise the results must be stored first.
bool epilogue_fits(const LoopProgram& program, const Group& group, const Target& target);

}  // namespace nacre
