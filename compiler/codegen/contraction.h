// A contraction group as a call of the kernel library with the epilogue as a lambda.
#pragma once

#include "compiler/codegen/writer.h"

namespace nacre {

// Writes the call. The group's form has been chosen and its operands' addresses are affine as the form needs.
void emit_contraction(KernelContext& context);

// True if the epilogue can work on vectors of results; otherwise the results must be stored first.
bool epilogue_fits(const LoopProgram& program, const Group& group, const Target& target);

// How an operand lies in memory: where it starts, and its stride along each of the named variables; nullopt if the address
// is not affine in them.
struct Strided {
  Expr base;
  std::vector<Expr> strides;
};
std::optional<Strided> strided(const LoopProgram& program, const Operand& operand, const std::vector<LoopVar>& all,
                               const std::vector<std::string>& along);

}  // namespace nacre
