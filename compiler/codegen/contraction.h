// A contraction group as a call of the kernel library with the epilogue as a lambda.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

// Writes the call. The group's form has been chosen and its operands' addresses are affine as the form needs.
void emit_contraction(KernelContext& context);

// True if the epilogue can work on vectors of results; otherwise the results must be stored first.
bool epilogue_fits(const LoopProgram& program, const Group& group, const Target& target);

}  // namespace nacre
