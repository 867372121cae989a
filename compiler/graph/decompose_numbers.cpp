// Arithmetic on Python numbers that are known at run time only, from `item` and from sizes: tensors of no dims, of int64,
// float64 or bool. (An integer that is an expression over symbols needs no tensor.)
#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

bool any_floating(const std::vector<Tensor>& numbers) {
  for (const Tensor& t : numbers)
    if (is_floating(t.dtype())) return true;
  return false;
}

// A bool counts as an integer.
nacre_dtype common(const std::vector<Tensor>& numbers) { return any_floating(numbers) ? NACRE_f64 : NACRE_i64; }

std::vector<Tensor> numbers(Call& c, size_t count) {
  std::vector<Tensor> result = c.numbers();
  if (result.size() != count) c.unsupported(std::to_string(result.size()) + " numbers");
  return result;
}

template <Tensor (*f)(const Tensor&)>
Results unary(Call& c) {
  Tensor a = numbers(c, 1)[0];
  return f(cast(a, common({a})));
}

template <Tensor (*f)(const Tensor&)>
Results float_unary(Call& c) {
  return f(cast(numbers(c, 1)[0], NACRE_f64));
}

template <Tensor (*f)(const Operand&, const Operand&)>
Results binary(Call& c) {
  std::vector<Tensor> n = numbers(c, 2);
  return f(cast(n[0], common(n)), cast(n[1], common(n)));
}

// To an integer.
template <Tensor (*f)(const Tensor&)>
Results rounded(Call& c) {
  Tensor a = numbers(c, 1)[0];
  return cast(is_floating(a.dtype()) ? f(a) : a, NACRE_i64);
}

Results quotient(Call& c) {
  std::vector<Tensor> n = numbers(c, 2);
  return div(cast(n[0], NACRE_f64), cast(n[1], NACRE_f64));
}

Results to_float(Call& c) { return cast(numbers(c, 1)[0], NACRE_f64); }
Results same(Call& c) { return numbers(c, 1)[0]; }
Results negation(Call& c) { return logical_not(to_bool(numbers(c, 1)[0])); }

// `and` and `or` of bools, or of the bits of integers.
template <Tensor (*f)(const Operand&, const Operand&)>
Results logical(Call& c) {
  std::vector<Tensor> n = numbers(c, 2);
  if (any_floating(n)) c.unsupported("a float");
  if (n[0].dtype() == n[1].dtype()) return f(n[0], n[1]);
  return f(cast(n[0], NACRE_i64), cast(n[1], NACRE_i64));
}

Results choice(Call& c) {
  std::vector<Tensor> n = numbers(c, 3);
  nacre_dtype dtype = n[1].dtype() == n[2].dtype() ? n[1].dtype() : common({n[1], n[2]});
  return where(to_bool(n[0]), cast(n[1], dtype), cast(n[2], dtype));
}

constexpr Decomposition kTable[] = {
    {"sym.number", same},
    {"sym.pos", same},
    {"sym.float", to_float},
    {"sym.int", rounded<trunc>},
    {"sym.trunc", rounded<trunc>},
    {"sym.floor", rounded<floor>},
    {"sym.ceil", rounded<ceil>},
    {"sym.round", rounded<round>},
    {"sym.neg", unary<neg>},
    {"sym.abs", unary<abs>},
    {"sym.sqrt", float_unary<sqrt>},
    {"sym.exp", float_unary<exp>},
    {"sym.log2", float_unary<log2>},
    {"sym.sin", float_unary<sin>},
    {"sym.cos", float_unary<cos>},
    {"sym.tan", float_unary<tan>},
    {"sym.asin", float_unary<asin>},
    {"sym.acos", float_unary<acos>},
    {"sym.atan", float_unary<atan>},
    {"sym.sinh", float_unary<sinh>},
    {"sym.cosh", float_unary<cosh>},
    {"sym.tanh", float_unary<tanh>},
    {"sym.add", binary<add>},
    {"sym.sub", binary<sub>},
    {"sym.mul", binary<mul>},
    {"sym.truediv", quotient},
    {"sym.floordiv", binary<div_floor>},
    {"sym.mod", binary<remainder>},
    {"sym.pow", binary<pow>},
    {"sym.max", binary<maximum>},
    {"sym.min", binary<minimum>},
    {"sym.eq", binary<eq>},
    {"sym.ne", binary<ne>},
    {"sym.lt", binary<lt>},
    {"sym.le", binary<le>},
    {"sym.gt", binary<gt>},
    {"sym.ge", binary<ge>},
    {"sym.and_", logical<bitwise_and>},
    {"sym.or_", logical<bitwise_or>},
    {"sym.not", negation},
    {"sym.lshift", binary<shift_left>},
    {"sym.rshift", binary<shift_right>},
    {"sym.ite", choice},
};

}  // namespace

Decompositions number_decompositions() { return kTable; }

}  // namespace nacre
