// Tensors out of nothing, and conversions. Export recorded the dtype and the shape of every result,
// so that the many ways of saying them in the arguments need not be read.
#include <cmath>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

template <int value>
Results filled(Call& c) {
  return c.full(c.output_shape(), value, c.output_dtype());
}

Results full(Call& c) { return filled(c.builder(), c.output_shape(), c.operand("fill_value"), c.output_dtype()); }

Results fill(Call& c) {
  Tensor value = as_tensor(c.builder(), c.operand("value"), c.output_dtype());
  return expand(value, c.output_shape());
}

// In a graph where nothing aliases, a conversion, a copy and a change of memory format are a cast
// or nothing.
Results convert(Call& c) { return cast(c.self(), c.output_dtype()); }

Results keep(Call& c) { return c.self(); }

Results copy(Call& c) {
  Tensor src = cast(c.tensor("src"), c.output_dtype());
  return expand(src, c.output_shape());
}

Results arange(Call& c) {
  nacre_dtype dtype = c.output_dtype();
  Number start = c.number("start", Number(0)), step = c.number("step", Number(1));
  Expr length = c.output_shape()[0];
  bool whole = start.dtype() != NACRE_f32 && step.dtype() != NACRE_f32;
  if (is_floating(dtype) && start.constant() && step.constant()) {
    // Counted in float64 and rounded once, as ATen does.
    Tensor wide(c.builder(),
                c.builder().iota(length, *start.constant(), *step.constant(), NACRE_f64));
    return cast(wide, dtype);
  }
  if (is_floating(dtype) && !whole) c.unsupported("a float range whose bounds are sizes");
  return cast(iota(c.builder(), length, start.integer(), step.integer()), dtype);
}

// A bound of a range in float64; whole where the result is, before the steps are counted.
Tensor range_bound(Call& c, const char* name) {
  Tensor t = reshape(as_tensor(c.builder(), c.operand(name), NACRE_f64), {});
  return is_integer(c.output_dtype()) ? cast(cast(t, c.output_dtype()), NACRE_f64) : t;
}

// From both ends, so that the last is exact.
Results linspace(Call& c) {
  nacre_dtype dtype = c.output_dtype();
  Builder& b = c.builder();
  Expr steps = c.output_shape()[0];
  Tensor start = range_bound(c, "start"), end = range_bound(c, "end");
  if (steps.is(1)) return expand(cast(start, dtype), c.output_shape());
  Tensor i = cast(iota(b, steps), NACRE_f64);
  Tensor step = (end - start) / Operand(max(steps - 1, 1));
  Tensor forward = start + step * i;
  Tensor backward = end - step * (-i + Operand(steps - 1));
  return cast(where(lt(i, Operand(floordiv(steps, 2))), forward, backward), dtype);
}

Results logspace(Call& c) {
  nacre_dtype dtype = c.output_dtype();
  Builder& b = c.builder();
  Expr steps = c.output_shape()[0];
  Tensor start = range_bound(c, "start"), end = range_bound(c, "end");
  double base = c.real("base", 10.0);
  Tensor i = cast(iota(b, steps), NACRE_f64);
  Tensor step = (end - start) / Operand(max(steps - 1, 1));
  Tensor exponent = where(lt(i, Operand(floordiv(steps, 2))), start + step * i,
                          end - step * (-i + Operand(steps - 1)));
  if (steps.is(1)) exponent = expand(start, {steps});
  return cast(pow(full_like(exponent, base), exponent), dtype);
}

Tensor eye_mask(Call& c, const Shape& shape) {
  return eq(iota_along(c.builder(), shape, -2), iota_along(c.builder(), shape, -1));
}

Results eye(Call& c) { return cast(eye_mask(c, c.output_shape()), c.output_dtype()); }

// Row and column numbers of a triangle, row by row: for each flat position the row is found by
// counting the rows that end before it.
Results triangle_indices(Call& c, bool lower) {
  Expr rows = c.size("row"), columns = c.size("col"), offset = c.size("offset", Expr(0));
  Expr total = c.output_shape()[1];
  Builder& b = c.builder();
  Tensor row = iota(b, rows);
  Tensor width = lower ? clamp(row + Operand(offset + 1), 0, Operand(columns))
                       : clamp(-row + Operand(columns - offset), 0, Operand(columns));
  Tensor ends = scan("cumsum", width, 0);
  Tensor position = iota(b, total);
  Tensor r = sum(le(unsqueeze(ends, 0), unsqueeze(position, 1)), {1});
  Tensor before = index_dim(ends - width, 0, r);
  Tensor first = lower ? full_like(r, 0) : maximum(r + Operand(offset), 0);
  Tensor both = stack({r, position - before + first}, 0);
  return cast(both, c.output_dtype());
}

Results windowed_cosine(Call& c) {  // hann_window and its kin: a sum of cosines
  nacre_dtype dtype = c.output_dtype();
  Expr n = c.output_shape()[0];
  bool periodic = c.flag("periodic", true);
  double a = 0.5, b = 0.5;
  if (c.op().find("hamming") != std::string::npos) {
    a = c.real("alpha", 0.54);
    b = c.real("beta", 0.46);
  }
  if (n.is(1)) return c.full({n}, 1.0, dtype);
  Tensor i = cast(iota(c.builder(), n), NACRE_f64);
  Tensor angle = i * (2 * M_PI) / Operand(periodic ? n : n - 1);
  if (c.op().find("blackman") != std::string::npos)
    return cast(cos(angle) * -0.5 + cos(angle * 2) * 0.08 + 0.42, dtype);
  if (c.op().find("bartlett") != std::string::npos) {
    Tensor t = i * 2 / Operand(periodic ? n : n - 1);
    return cast(where(gt(t, 1.0), -t + 2, t), dtype);
  }
  return cast(cos(angle) * -b + a, dtype);
}

Results kaiser_window(Call& c) {
  const nacre_dtype dtype = c.output_dtype();
  const Expr n = c.output_shape()[0];
  const double beta = c.real("beta", 12.0);
  if (n.is(1)) return c.full({n}, 1.0, dtype);
  Tensor i = cast(iota(c.builder(), n), NACRE_f64);
  Tensor middle = c.full({}, max(c.flag("periodic", true) ? n : n - 1, 1), NACRE_f64) / 2;
  Tensor distance = (i - middle) / middle;
  Tensor y = bessel_i0(sqrt(-(distance * distance) + 1) * beta, false) / bessel_i0(c.full({}, beta, NACRE_f64), false);
  return cast(where(eq(c.full({}, n, NACRE_i64), 1), full_like(y, 1.0), y), dtype);
}

constexpr Decomposition kTable[] = {
    {"full.default", full},
    {"full_like.default", full},
    {"new_full.default", full},
    {"zeros.default", filled<0>},
    {"zeros_like.default", filled<0>},
    {"new_zeros.default", filled<0>},
    {"ones.default", filled<1>},
    {"ones_like.default", filled<1>},
    {"new_ones.default", filled<1>},
    {"zero.default", filled<0>},
    // Their contents are not defined in PyTorch.
    {"empty.memory_format", filled<0>},
    {"empty_like.default", filled<0>},
    {"new_empty.default", filled<0>},
    {"empty_strided.default", filled<0>},
    {"new_empty_strided.default", filled<0>},
    {"empty_permuted.default", filled<0>},
    {"scalar_tensor.default",
     [](Call& c) -> Results { return filled(c.builder(), {}, c.operand("s"), c.output_dtype()); }},
    {"fill.Scalar", fill},
    {"fill.Tensor", fill},
    {"arange.default", arange},
    {"arange.start", arange},
    {"arange.start_step", arange},
    {"range.step", arange},
    {"range.default", arange},
    {"linspace.default", linspace},
    {"linspace.Tensor_Tensor", linspace},
    {"linspace.Tensor_Scalar", linspace},
    {"linspace.Scalar_Tensor", linspace},
    {"logspace.default", logspace},
    {"logspace.Tensor_Tensor", logspace},
    {"logspace.Tensor_Scalar", logspace},
    {"logspace.Scalar_Tensor", logspace},
    {"eye.default", eye},
    {"eye.m", eye},
    {"tril_indices.default", [](Call& c) { return triangle_indices(c, true); }},
    {"triu_indices.default", [](Call& c) { return triangle_indices(c, false); }},
    {"kaiser_window.default", kaiser_window},
    {"kaiser_window.periodic", kaiser_window},
    {"kaiser_window.beta", kaiser_window},
    {"hann_window.default", windowed_cosine},
    {"hann_window.periodic", windowed_cosine},
    {"hamming_window.default", windowed_cosine},
    {"hamming_window.periodic", windowed_cosine},
    {"hamming_window.periodic_alpha", windowed_cosine},
    {"hamming_window.periodic_alpha_beta", windowed_cosine},
    {"blackman_window.default", windowed_cosine},
    {"blackman_window.periodic", windowed_cosine},
    {"bartlett_window.default", windowed_cosine},
    {"bartlett_window.periodic", windowed_cosine},

    {"to.dtype", convert},
    {"to.dtype_layout", convert},
    {"to.device", convert},
    {"to.other", convert},
    {"to.prim_Device", convert},
    {"to.prim_dtype", convert},
    {"to.prim_other", convert},
    {"_to_copy.default", convert},
    {"type_as.default", convert},
    {"prims.convert_element_type.default", convert},
    {"_autocast_to_full_precision.default", convert},
    {"_autocast_to_reduced_precision.default", convert},
    {"clone.default", keep},
    {"contiguous.default", keep},
    {"detach.default", keep},
    {"detach_.default", keep},
    {"alias.default", keep},
    {"lift.default", keep},
    {"lift_fresh.default", keep},
    {"lift_fresh_copy.default", keep},
    {"cpu.default", keep},
    {"requires_grad_.default", keep},
    {"copy.default", copy},
};

}  // namespace

Decompositions creation_decompositions() { return kTable; }

}  // namespace nacre
