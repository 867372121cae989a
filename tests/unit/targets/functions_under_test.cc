// The elementary functions, compiled by Clang for each instruction set, with the table's name in NACRE_TABLE.
#include <cstdint>

#define NACRE_SUPPORT [[maybe_unused]] static
#include "nacre/arithmetic.h"
#include "nacre/support.h"
#include "tests/unit/targets/kernel_table.h"

namespace nk {

// What LLVM may take for x where NaN is chosen by the side (see absolute()).
template <class V>
NACRE_INLINE V zero_or_magnitude(V x) {
  return maximum(V(0), abs(x));
}
template <class V>
NACRE_INLINE V magnitude_or_zero(V x) {
  const V a = abs(x);
  return select(a != a, a, select(a > V(0), a, V(0)));
}
template <class V>
NACRE_INLINE V zero_below_magnitude(V x) {
  return fmin(V(0), abs(x));
}

}  // namespace nk

namespace {

using namespace nk;

#define FUNCTION(f)                                                                                                   \
  FloatFunction {                                                                                                     \
    #f,                                                                                                               \
        [](const float* x, float* y, int64_t n) {                                                                     \
          for (i64 i = 0; i < n; ++i) y[i] = nk::f(x[i]);                                                             \
        },                                                                                                            \
        [](const float* x, float* y, int64_t n) {                                                                     \
          for (i64 i = 0; i < n; i += VL) store(y + i, nk::f(load(x + i)));                                           \
        },                                                                                                            \
        [](const double* x, double* y, int64_t n) {                                                                   \
          for (i64 i = 0; i < n; ++i) y[i] = nk::f(x[i]);                                                             \
        }                                                                                                             \
  }
#define FUNCTION2(f)                                                                                                  \
  FloatFunction2 {                                                                                                    \
    #f,                                                                                                               \
        [](const float* a, const float* b, float* y, int64_t n) {                                                     \
          for (i64 i = 0; i < n; ++i) y[i] = nk::f(a[i], b[i]);                                                       \
        },                                                                                                            \
        [](const float* a, const float* b, float* y, int64_t n) {                                                     \
          for (i64 i = 0; i < n; i += VL) store(y + i, nk::f(load(a + i), load(b + i)));                              \
        },                                                                                                            \
        [](const double* a, const double* b, double* y, int64_t n) {                                                  \
          for (i64 i = 0; i < n; ++i) y[i] = nk::f(a[i], b[i]);                                                       \
        }                                                                                                             \
  }
const FloatFunction kFunctions[] = {
    FUNCTION(exp),   FUNCTION(exp2),  FUNCTION(expm1), FUNCTION(log),   FUNCTION(log1p), FUNCTION(log2),
    FUNCTION(log10), FUNCTION(tanh),  FUNCTION(sigmoid), FUNCTION(erf), FUNCTION(erfc),  FUNCTION(sin),
    FUNCTION(cos),   FUNCTION(tan),   FUNCTION(asin),  FUNCTION(acos),  FUNCTION(atan),  FUNCTION(sinh),
    FUNCTION(cosh),  FUNCTION(asinh), FUNCTION(acosh), FUNCTION(atanh), FUNCTION(sqrt),  FUNCTION(rsqrt),
    FUNCTION(floor), FUNCTION(ceil),  FUNCTION(trunc), FUNCTION(round_even), FUNCTION(exp_negative),
    FUNCTION(gelu),  FUNCTION(gelu_tanh), FUNCTION(silu), FUNCTION(softplus), FUNCTION(mish), FUNCTION(relu),
    FUNCTION(relu6), FUNCTION(hardsigmoid), FUNCTION(hardswish), FUNCTION(zero_or_magnitude),
    FUNCTION(magnitude_or_zero), FUNCTION(zero_below_magnitude), {nullptr, nullptr, nullptr, nullptr}};
const FloatFunction2 kFunctions2[] = {FUNCTION2(pow),     FUNCTION2(atan2),   FUNCTION2(fmod), FUNCTION2(remainder),
                                      FUNCTION2(maximum), FUNCTION2(minimum), FUNCTION2(copysign), FUNCTION2(div_floor),
                                      {nullptr, nullptr, nullptr, nullptr}};

#ifdef __F16C__
constexpr auto kFromHalf = nullptr, kToHalf = nullptr;
#else
float from_half(uint16_t bits) { return __extendhfsf2(__builtin_bit_cast(_Float16, bits)); }
uint16_t to_half(float x) { return __builtin_bit_cast(uint16_t, __truncsfhf2(x)); }
constexpr auto kFromHalf = from_half;
constexpr auto kToHalf = to_half;
#endif

}  // namespace

extern "C" const FunctionTable NACRE_TABLE = {kFunctions, kFunctions2, fminf, fmaxf, kFromHalf, kToHalf};
