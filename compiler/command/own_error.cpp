#include "compiler/command/own_error.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/command/compare.h"
#include "compiler/command/stages.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

// Far enough that everything rounds anew, and near enough that the program amplifies as it does here.
constexpr double kStep = 0x1p-20;
constexpr double kFloat64Scale = 0x1p-29;  // of float32's spacing to float64's

// The numbers times `factor`, but for the whole ones, which often count something.
template <typename T>
HostTensor scaled(const HostTensor& tensor, double factor) {
  std::byte* bytes;
  HostTensor result = make_tensor(tensor.dtype, tensor.shape, &bytes);
  for (std::size_t i = 0; i < tensor.size_bytes / sizeof(T); ++i) {
    const T x = tensor.as<T>()[i];
    reinterpret_cast<T*>(bytes)[i] = x == std::trunc(x) ? x : static_cast<T>(x * factor);
  }
  return result;
}

std::vector<HostTensor> scaled(const std::vector<HostTensor>& inputs, double factor) {
  if (factor == 1) return inputs;
  std::vector<HostTensor> result;
  for (const HostTensor& t : inputs)
    result.push_back(t.dtype == NACRE_f32 || t.dtype == NACRE_c64 ? scaled<float>(t, factor) : is_double(t.dtype) ? scaled<double>(t, factor) : t);
  return result;
}

}  // namespace

bool is_double(nacre_dtype dtype) { return dtype == NACRE_f64 || dtype == NACRE_c128; }

bool has_float64(const CaseSet& set) {
  const auto is_wide = [](const HostTensor& t) { return is_double(t.dtype); };
  return std::any_of(set.outputs.begin(), set.outputs.end(), is_wide) ||
         std::any_of(set.inputs.begin(), set.inputs.end(), is_wide);
}

double largest_error(const HostTensor& result, const HostTensor& reference) {
  return result.shape == reference.shape ? compare(result, result, &reference).own_error : 0;
}

OwnErrorEstimator::OwnErrorEstimator(const Program& captured, OracleType type, OracleType reference, double scale, std::span<const double> factors) : scale_(scale) {
  for (const double factor : factors) draws_.push_back({factor, make_graph_runner(captured, type), make_graph_runner(captured, reference)});
}

OwnErrorEstimator::~OwnErrorEstimator() = default;
OwnErrorEstimator::OwnErrorEstimator(OwnErrorEstimator&&) noexcept = default;
OwnErrorEstimator& OwnErrorEstimator::operator=(OwnErrorEstimator&&) noexcept = default;

void OwnErrorEstimator::reset() {
  for (Draw& draw : draws_) {
    draw.runner->reset();
    draw.reference->reset();
  }
}

void OwnErrorEstimator::add(CaseSet& set) {
  OwnErrors& errors = set.own_errors;
  const auto raise = [&](double& error, const HostTensor& result, const HostTensor& reference) { error = std::max(error, scale_ * largest_error(result, reference)); };
  for (Draw& draw : draws_) {
    const std::vector<HostTensor> inputs = scaled(set.inputs, draw.factor);
    const CallResult result = draw.runner->call(inputs);
    const CallResult reference = draw.reference->call(inputs);
    errors.outputs.resize(result.outputs.size());
    for (std::size_t i = 0; i < result.outputs.size(); ++i) raise(errors.outputs[i], result.outputs[i], reference.outputs[i]);
    for (const auto& [position, after] : result.after_inputs) raise(errors.after_inputs[position], after, reference.after_inputs.at(position));
    for (const auto& [name, after] : result.after_buffers) raise(errors.after_buffers[name], after, reference.after_buffers.at(name));
  }
}

OwnErrorEstimator float64_estimator(const Program& captured) {
  constexpr double kFactors[] = {1, 1 + kStep, 1 - kStep};
  return {captured, OracleType::narrow, OracleType::rounded, kFloat64Scale, kFactors};
}

void measure_neighbours(Case& the_case, const Program& captured) {
  constexpr double kFactors[] = {1 + kStep, 1 - kStep, 1 + 2 * kStep, 1 - 2 * kStep, 1 + 3 * kStep, 1 - 3 * kStep, 1 + 4 * kStep, 1 - 4 * kStep};
  OwnErrorEstimator own(captured, OracleType::own, OracleType::wide, 1, kFactors);
  std::optional<OwnErrorEstimator> float64;
  bool in_step = true;  // false: an earlier set of the sequence did not run
  for (CaseSet& set : the_case.sets) {
    if (set.refuse || !set.shared.empty()) continue;
    if (!set.continues) {
      own.reset();
      if (float64) float64->reset();
      in_step = true;
    }
    if (!in_step) continue;
    try {
      own.add(set);
      if (!has_float64(set)) continue;
      if (!float64) float64.emplace(captured, OracleType::narrow, OracleType::rounded, kFloat64Scale, kFactors);
      float64->add(set);
    } catch (const Error& error) {
      // Other values, or an operator without a float64 kernel.
      if (error.kind == ErrorKind::internal) throw;
      in_step = false;
    }
  }
  the_case.neighbours = true;
}

}  // namespace nacre
