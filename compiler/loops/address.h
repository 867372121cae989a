// Where an element lies: index expressions and layouts -> one integer expression, in elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/loops/group.h"
#include "compiler/symbolic/affine.h"

namespace nacre {

// Strides in elements by logical dim.
std::vector<Expr> strides_of(const Buffer& buffer);

// Elements of the buffer.
Expr elements_of(const Buffer& buffer);

// The simplified address of buffer[at].
Expr address(const Buffer& buffer, const std::vector<Expr>& at, const Facts& facts);

// A typical value: symbols at their hints (16 where none is known), loop variables and what is not known at 0.
int64_t typical(const Expr& e, const Facts& symbols);

// How an operand of a contraction lies in memory: where it starts, and its stride along each of the named variables; nullopt
// if the address is not affine in them.
struct Strided {
  Expr base;
  std::vector<Expr> strides;
};
std::optional<Strided> strided(const LoopProgram& program, const Operand& operand, const std::vector<LoopVar>& all,
                               const std::vector<std::string>& along);

// Whether the places that one nest stores to and those of another are never the same: they differ in the range of an index.
bool stores_are_apart(const Facts& of_one, const Store& one, const Facts& of_other, const Store& other);

}  // namespace nacre
