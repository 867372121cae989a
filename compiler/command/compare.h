// The rule by which a result counts as PyTorch's; the only place where it is written down as code.
//
//   A floating-point result passes when its error against the float64 reference is at most twice
//   PyTorch's own error in the same dtype plus 8 units of rounding at that output's largest
//   magnitude; integers and booleans are exact; NaN and infinities agree. What PyTorch's own error is
//   where one run does not tell, own_error.h says.
//
// The error is the largest absolute difference over the output. A unit of rounding is the spacing
// of the dtype at 1 (2^-23 for float32) times the largest finite magnitude of the reference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/support/tensor.h"

namespace nacre {

struct Comparison {
  bool passed = true;
  std::string reason;    // empty if passed
  double error = 0;      // ours against the reference, at the worst element
  double own_error = 0;  // PyTorch's, in the same dtype
  bool neighbours = false;  // that is the largest of those on values next to the inputs, too
  double magnitude = 0;  // of the reference
  double limit = 0;      // 0 for integers and booleans
};

// `expected`: PyTorch's result in the model's dtype; says dtype, shape, NaN and infinities.
// `reference`: the same in float64; null where there is none: then `expected` is its own reference.
// `own_error`: what is known of PyTorch's own error beside what the reference tells; `neighbours`: as in
// Comparison.
Comparison compare(const HostTensor& result, const HostTensor& expected,
                   const HostTensor* reference, double own_error = 0, bool neighbours = false);

// Shape and dtype only: for results that are random by design.
Comparison compare_shape(const HostTensor& result, const HostTensor& expected);

// One line in the terms of the rule: `error 1.2e-07, limit 3.1e-06 (PyTorch's own 4.8e-07,
// magnitude 1.7)`.
std::string describe(const Comparison& comparison);

// Adds `next` to a summary of several outputs: the one nearest to (or farthest beyond) its limit
// stays.
void merge(Comparison& worst, const Comparison& next);

// The real numbers of a floating-point tensor (two for each complex element); nothing for other
// dtypes.
std::optional<std::vector<double>> as_doubles(const HostTensor& tensor);

}  // namespace nacre
