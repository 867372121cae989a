// PyTorch's own error, where one run of it beside a float64 reference does not tell what it is:
//
//   A float64 result has no wider reference. The error of float32 stands for it, on values that
//   float32 holds, 2^-29 times: the same operations round that much less.
//   One run can round luckily: where a program amplifies what is rounded in it, the errors of runs on
//   values next to each other differ by a factor of ten and more. So the largest of several counts,
//   each against a float64 reference on the same values.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compiler/command/cases.h"
#include "compiler/frontend.h"

namespace nacre {

class Runner;

// Measures in step with PyTorch's own runs of the sets of a sequence.
class OwnErrorEstimator {
 public:
  // Errors of `type` against `reference`, `scale` times, on the inputs times each factor.
  OwnErrorEstimator(const Program& captured, OracleType type, OracleType reference, double scale, std::span<const double> factors);
  ~OwnErrorEstimator();
  OwnErrorEstimator(OwnErrorEstimator&&) noexcept;
  OwnErrorEstimator& operator=(OwnErrorEstimator&&) noexcept;

  void reset();  // a sequence begins
  // Raises the set's own errors to those of its inputs. Throws what PyTorch does.
  void add(CaseSet& set);

 private:
  struct Draw {
    double factor;
    std::unique_ptr<Runner> runner, reference;
  };
  std::vector<Draw> draws_;
  double scale_;
};

// Of float64 results, on the inputs and two neighbours.
OwnErrorEstimator float64_estimator(const Program& captured);

// Raises the own errors of all sets to the largest on eight neighbours of each; `complete` was called.
void measure_neighbours(Case& the_case, const Program& captured);

bool is_double(nacre_dtype dtype);  // or pairs of them
bool has_float64(const CaseSet& set);

// The largest difference between a result and its reference; 0 where they have other shapes: values
// that decide a size can decide otherwise in another dtype.
double largest_error(const HostTensor& result, const HostTensor& reference);

}  // namespace nacre
