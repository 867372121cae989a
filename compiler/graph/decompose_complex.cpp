// Complex numbers, their parts, and bytes as another type. On complex values all other operators are what they are on real
// ones, until graph/split_complex.h makes pairs of them.
#include <cmath>
#include <numbers>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Results real_part(Call& c) { return real(c.self()); }
Results imag_part(Call& c) { return imag(c.self()); }
Results conjugate(Call& c) { return conj(c.self()); }
Results keep(Call& c) { return c.self(); }

Results parts(Call& c) { return view_as_real(c.self()); }
Results from_parts(Call& c) { return view_as_complex(c.self()); }

// Operands of one size, for prim.complex.
Results make_complex(Call& c) {
  const nacre_dtype dtype = real_of(c.output_dtype());
  const Shape shape = c.output_shape();
  return complex(expand(cast(c.tensor("real"), dtype), shape), expand(cast(c.tensor("imag"), dtype), shape));
}

Results polar(Call& c) {
  Tensor size = c.tensor("abs"), angle = c.tensor("angle");
  return complex(size * cos(angle), size * sin(angle));
}

Results angle(Call& c) {
  Tensor x = to_float(c.self());
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  return where(isnan(x), x, where(lt(x, 0), full_like(x, std::numbers::pi), full_like(x, 0)));
}

Results is_real(Call& c) {
  Tensor x = c.self();
  return is_complex(x.dtype()) ? eq(imag(x), 0) : c.full(x.shape(), Number(true), NACRE_bool_);
}

// z / |z|, and 0 for 0.
Results sgn(Call& c) {
  Tensor x = c.self();
  if (x.dtype() == NACRE_bool_) return x;
  if (!is_complex(x.dtype())) return sign(x);
  Tensor size = hypot(real(x), imag(x)), zero = eq(size, 0);
  auto part = [&](const Tensor& t) { return where(zero, full_like(t, 0), t / size); };
  return complex(part(real(x)), part(imag(x)));
}

Results view_dtype(Call& c) {
  Tensor x = c.self();
  const nacre_dtype dtype = c.output_dtype();
  if (x.dtype() == dtype) return x;
  // Complex numbers by way of their parts: [..., n] and [..., 2n] of them are the same bytes.
  if (is_complex(x.dtype())) {
    x = view_as_real(x);
    x = x.rank() == 1 ? x : flatten(x, -2, -1);
  }
  const nacre_dtype stored = real_of(dtype);
  if (x.dtype() != stored)
    x = {c.builder(), c.builder().make_one("prim.bitcast", {{"x", ValueRef{x.id()}}, {"dtype", stored}})};
  if (is_complex(dtype)) {
    Shape shape = c.output_shape();
    shape.emplace_back(2);
    return view_as_complex(reshape(x, shape));
  }
  return reshape(x, c.output_shape());
}

constexpr Decomposition kTable[] = {
    {"real.default", real_part},
    {"imag.default", imag_part},
    {"view_as_real.default", parts},
    {"view_as_complex.default", from_parts},
    {"complex.default", make_complex},
    {"polar.default", polar},
    {"conj.default", conjugate},
    {"_conj.default", conjugate},
    {"conj_physical.default", conjugate},
    {"_conj_physical.default", conjugate},
    {"resolve_conj.default", keep},
    {"resolve_neg.default", keep},
    {"_neg_view.default", [](Call& c) -> Results { return -c.self(); }},
    {"angle.default", angle},
    {"isreal.default", is_real},
    {"sgn.default", sgn},
    {"view.dtype", view_dtype},
};

}  // namespace

Decompositions complex_decompositions() { return kTable; }

}  // namespace nacre
