#include "compiler/codegen/reduction.h"

#include <cmath>

#include "compiler/codegen/writer.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

std::string float_literal(double value, bool is_double) {
  const char* suffix = is_double ? "" : "f";
  if (std::isnan(value)) return fmt::format("__builtin_nan{}(\"\")", suffix);
  if (std::isinf(value)) return fmt::format("{}__builtin_inf{}()", value < 0 ? "-" : "", suffix);
  if (!is_double) value = static_cast<float>(value);
  std::string text = is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + suffix;
}

std::string integer_literal(int64_t value) {
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
  return std::to_string(value) + (value > INT32_MAX || value < INT32_MIN ? "LL" : "");
}

std::string identity(const std::string& prim, nacre_dtype dtype) {
  if (prim == "sum" || prim == "any" || prim == "cumsum") return "0";
  if (prim == "prod" || prim == "all" || prim == "cumprod") return "1";
  const bool greatest = prim == "amin" || prim == "cummin";
  if (is_floating(dtype)) return float_literal(greatest ? INFINITY : -INFINITY, dtype == NACRE_f64);
  switch (dtype) {
    case NACRE_bool_: return greatest ? "1" : "0";
    case NACRE_u8: return greatest ? "255" : "0";
    case NACRE_i8: return greatest ? "127" : "-128";
    case NACRE_i16: return greatest ? "32767" : "-32768";
    case NACRE_i32: return integer_literal(greatest ? INT32_MAX : INT32_MIN);
    default: return integer_literal(greatest ? INT64_MAX : INT64_MIN);
  }
}

std::string combined(const std::string& prim, const std::string& a, const std::string& b) {
  if (prim == "sum" || prim == "cumsum") return fmt::format("{} + {}", a, b);
  if (prim == "prod" || prim == "cumprod") return fmt::format("{} * {}", a, b);
  if (prim == "amax" || prim == "cummax") return fmt::format("maximum({}, {})", a, b);
  if (prim == "amin" || prim == "cummin") return fmt::format("minimum({}, {})", a, b);
  if (prim == "any") return fmt::format("{} || {}", a, b);
  if (prim == "all") return fmt::format("{} && {}", a, b);
  fail(ErrorKind::internal, "no such reduction: {}", prim);
}

std::string accumulator_type(const Scalar& s, const Target& target) {
  const bool sums = s.prim == "sum" || s.prim == "cumsum", products = s.prim == "prod" || s.prim == "cumprod";
  const bool narrow = s.dtype == NACRE_f32 || is_half(s.dtype);
  if (sums && narrow && target.compute_capability) return "Sum";
  if (s.prim == "sum" && s.dtype == NACRE_f64 && !target.compute_capability) return "Sum";
  return scalar_type((sums || products) && narrow ? NACRE_f64 : s.dtype);
}

bool is_arg(const Scalar& s) { return s.prim == "argmax" || s.prim == "argmin"; }

}  // namespace nacre
