// Quantisation: real values to a grid of integers and back.
#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

struct Grid {
  Tensor scale, zero_point;  // 0-d, or one a channel shaped to meet x
  double low, high;
};

// The parameters may be numbers, or tensors of one element or of one a channel.
Tensor parameter(Call& c, const char* name, const Tensor& x, nacre_dtype dtype) {
  Operand given = c.operand(name);
  Tensor t = as_tensor(c.builder(), given, dtype);
  if (t.rank() == 0 || t.size(0).is(1)) return reshape(t, {});
  return broadcast(t, x.shape(), {c.dim("axis", x.rank(), 0)});
}

Grid read_grid(Call& c, const Tensor& x, const char* scale, const char* zero_point) {
  return {parameter(c, scale, x, x.dtype()), parameter(c, zero_point, x, x.dtype()),
          c.real("quant_min"), c.real("quant_max")};
}

// The position on the grid, not yet clamped: an int64, as the kernels hold it.
Tensor grid_position(const Tensor& x, const Grid& g) {
  return cast(round(x * reciprocal(g.scale)) + g.zero_point, NACRE_i64);
}

Results fake_quantize(Call& c) {
  Tensor input = c.self(), x = to_compute(input);
  Grid g = read_grid(c, x, "scale", "zero_point");
  Tensor position = grid_position(x, g);
  Tensor low = c.full({}, static_cast<int64_t>(g.low), NACRE_i64);
  Tensor high = c.full({}, static_cast<int64_t>(g.high), NACRE_i64);
  Tensor y = (cast(clamp(position, low, high), x.dtype()) - g.zero_point) * g.scale;
  Tensor inside = ge(position, low) & le(position, high);
  if (Tensor enabled = c.optional("fake_quant_enabled")) {
    Tensor on = ne(reshape(enabled, {}), 0);
    y = where(on, y, x);
    inside = inside | expand(logical_not(on), inside.shape());
  }
  return {cast(y, input.dtype()), inside};
}

Results quantize(Call& c, const char* scale, const char* zero_point) {
  Tensor x = to_compute(c.self());
  Grid g = read_grid(c, x, scale, zero_point);
  Tensor position = round(x * reciprocal(g.scale)) + g.zero_point;
  return cast(clamp(position, g.low, g.high), c.output_dtype());
}

Results dequantize(Call& c, const char* scale, const char* zero_point) {
  Tensor q = c.self();
  Tensor x = cast(q, compute_type(c.output_dtype()));
  Tensor y = x;
  if (c.has(zero_point)) y = y - parameter(c, zero_point, x, x.dtype());
  return cast(y * parameter(c, scale, x, x.dtype()), c.output_dtype());
}

Results quantize_tensor(Call& c) { return quantize(c, "scale", "zero_point"); }
Results dequantize_tensor(Call& c) { return dequantize(c, "scale", "zero_point"); }
Results quantize_channel(Call& c) { return quantize(c, "scales", "zero_points"); }
Results dequantize_channel(Call& c) { return dequantize(c, "scales", "zero_points"); }

constexpr Decomposition kTable[] = {
    {"fake_quantize_per_tensor_affine.default", fake_quantize},
    {"fake_quantize_per_tensor_affine.tensor_qparams", fake_quantize},
    {"fake_quantize_per_tensor_affine_cachemask.default", fake_quantize},
    {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default", fake_quantize},
    {"fake_quantize_per_channel_affine.default", fake_quantize},
    {"fake_quantize_per_channel_affine_cachemask.default", fake_quantize},
    {"quantized_decomposed.quantize_per_tensor.default", quantize_tensor},
    {"quantized_decomposed.quantize_per_tensor.tensor", quantize_tensor},
    {"quantized_decomposed.quantize_per_tensor.tensor2", quantize_tensor},
    {"quantized_decomposed.dequantize_per_tensor.default", dequantize_tensor},
    {"quantized_decomposed.dequantize_per_tensor.tensor", dequantize_tensor},
    {"quantized_decomposed.dequantize_per_tensor.tensor2", dequantize_tensor},
    {"quantized_decomposed.quantize_per_channel.default", quantize_channel},
    {"quantized_decomposed.dequantize_per_channel.default", dequantize_channel},
};

}  // namespace

Decompositions quantization_decompositions() { return kTable; }

}  // namespace nacre
