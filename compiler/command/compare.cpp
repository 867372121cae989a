#include "compiler/command/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/dtype.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"

namespace nacre {
namespace {

double half_to_double(std::uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31)
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

double bfloat_to_double(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

// Floating-point numbers, or pairs of them.
bool has_rounding(nacre_dtype dtype) { return is_floating(dtype) || is_complex(dtype); }

double spacing_at_one(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_f16:
      return 0x1p-10;
    case NACRE_bf16:
      return 0x1p-7;
    case NACRE_f32:
    case NACRE_c64:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

// The real numbers of a floating-point tensor: a complex one has two an element.
std::int64_t number_count(const HostTensor& tensor) {
  return tensor.elements() * (is_complex(tensor.dtype) ? 2 : 1);
}

double number_at(const HostTensor& tensor, std::int64_t index) {
  switch (tensor.dtype) {
    case NACRE_f16:
      return half_to_double(tensor.as<std::uint16_t>()[index]);
    case NACRE_bf16:
      return bfloat_to_double(tensor.as<std::uint16_t>()[index]);
    case NACRE_f32:
    case NACRE_c64:
      return static_cast<double>(tensor.as<float>()[index]);
    default:
      return tensor.as<double>()[index];
  }
}

std::string index_text(const HostTensor& tensor, std::int64_t number) {
  std::int64_t rest = number / (number_count(tensor) / tensor.elements());
  std::vector<std::int64_t> index(tensor.shape.size());
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = rest % tensor.shape[d];
    rest /= tensor.shape[d];
  }
  return "[" + joined(index) + "]";
}

std::string type_text(const HostTensor& tensor) {
  return fmt::format("{}[{}]", nacre_dtype_name(tensor.dtype), joined(tensor.shape));
}

Comparison failed(std::string reason) {
  Comparison result;
  result.passed = false;
  result.reason = std::move(reason);
  result.error = std::numeric_limits<double>::infinity();
  return result;
}

Comparison compare_exactly(const HostTensor& result, const HostTensor& expected) {
  const std::size_t size = nacre_dtype_size_bytes(expected.dtype);
  std::int64_t different = 0;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < expected.elements(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(result.data.get() + at, expected.data.get() + at, size) == 0) continue;
    if (different++ == 0) first = i;
  }
  if (different == 0) return {};
  return failed(fmt::format("{} of {} elements of {} differ, the first at {}", different,
                            expected.elements(), type_text(expected), index_text(expected, first)));
}

}  // namespace

Comparison compare_shape(const HostTensor& result, const HostTensor& expected) {
  if (result.dtype != expected.dtype || result.shape != expected.shape)
    return failed(fmt::format("it is {}, PyTorch's is {}", type_text(result), type_text(expected)));
  return {};
}

Comparison compare(const HostTensor& result, const HostTensor& expected,
                   const HostTensor* reference, double own_error, bool neighbours) {
  if (Comparison shape = compare_shape(result, expected); !shape.passed) return shape;
  if (!has_rounding(expected.dtype)) return compare_exactly(result, expected);

  const HostTensor& exact = reference ? *reference : expected;
  check(exact.shape == expected.shape && number_count(exact) == number_count(expected) &&
            has_rounding(exact.dtype),
        "the reference is {}, the result {}", type_text(exact), type_text(expected));
  Comparison out;
  out.own_error = own_error;
  out.neighbours = neighbours;
  std::int64_t worst = 0;
  for (std::int64_t i = 0; i < number_count(expected); ++i) {
    const double ours = number_at(result, i);
    const double torch = number_at(expected, i);
    if (!std::isfinite(torch) || !std::isfinite(ours)) {
      if (std::isnan(torch) ? std::isnan(ours) : ours == torch) continue;
      return failed(fmt::format("element {} of {} is {}, PyTorch's is {}", index_text(expected, i),
                                type_text(expected), ours, torch));
    }
    // Where float64 overflows or is NaN and the dtype itself is not, the dtype's result is the only
    // one to go by.
    const double wide = number_at(exact, i);
    const double truth = std::isfinite(wide) ? wide : torch;
    out.magnitude = std::max(out.magnitude, std::abs(truth));
    out.own_error = std::max(out.own_error, std::abs(torch - truth));
    if (const double error = std::abs(ours - truth); error > out.error) {
      out.error = error;
      worst = i;
    }
  }
  out.limit = 2 * out.own_error + 8 * spacing_at_one(expected.dtype) * out.magnitude;
  out.passed = out.error <= out.limit;
  if (!out.passed)
    out.reason = fmt::format("element {} of {} is {:.9g}, PyTorch's is {:.9g}: {}",
                             index_text(expected, worst), type_text(expected),
                             number_at(result, worst), number_at(expected, worst), describe(out));
  return out;
}

std::string describe(const Comparison& comparison) {
  if (std::isinf(comparison.error)) return comparison.reason;
  if (comparison.limit == 0 && comparison.error == 0) return "exact";
  return fmt::format("error {:.2g}, limit {:.2g} (PyTorch's own {:.2g}{}, magnitude {:.3g})",
                     comparison.error, comparison.limit, comparison.own_error,
                     comparison.neighbours ? ", on these and values next to them" : "", comparison.magnitude);
}

std::optional<std::vector<double>> as_doubles(const HostTensor& tensor) {
  if (!has_rounding(tensor.dtype)) return std::nullopt;
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < number_count(tensor); ++i) numbers.push_back(number_at(tensor, i));
  return numbers;
}

void merge(Comparison& worst, const Comparison& next) {
  const auto rank = [](const Comparison& c) {
    if (!c.passed && std::isinf(c.error)) return std::numeric_limits<double>::infinity();
    if (c.limit == 0) return c.error == 0 ? 0.0 : std::numeric_limits<double>::max();
    return c.error / c.limit;
  };
  if (rank(next) > rank(worst)) worst = next;
}

}  // namespace nacre
