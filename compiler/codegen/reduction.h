// Literals, and reductions and scans as C++: what they start from, and how two values become one.
#pragma once

#include <string>

#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

std::string float_literal(double value, bool is_double);
std::string integer_literal(int64_t value);

// What a reduction starts from, as a scalar of `dtype`.
std::string identity(const std::string& prim, nacre_dtype dtype);
std::string combined(const std::string& prim, const std::string& a, const std::string& b);

// Sums keep more digits than their result where one scalar accumulates many: in double, or, where that is slow, as two floats.
std::string accumulator_type(const Scalar& s, const Target& target);

bool is_arg(const Scalar& s);

}  // namespace nacre
