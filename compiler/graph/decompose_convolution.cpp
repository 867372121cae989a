// Convolutions in 1, 2 and 3 dimensions, transposed ones, and their unrolled forms im2col and
// col2im.
#include <algorithm>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Tensor with_bias(const Tensor& y, const Tensor& bias) {
  if (!bias) return y;
  return y + broadcast(bias, y.shape(), {1});
}

// Runs f on a batch: a single sample gets a batch dim of 1, which the result loses again.
template <class F>
Tensor batched(const Tensor& x, int64_t spatial, F f) {
  if (x.rank() == spatial + 2) return f(x);
  return squeeze(f(unsqueeze(x, 0)), {0});
}

Tensor conv(Call& c, const Tensor& x, const Tensor& w, const Tensor& bias, const Dims& padding) {
  auto spatial = static_cast<size_t>(w.rank() - 2);
  Dims stride = c.integers("stride", spatial, 1), dilation = c.integers("dilation", spatial, 1);
  int64_t groups = c.integer("groups", 1);
  return batched(x, w.rank() - 2, [&](const Tensor& t) {
    Builder& b = c.builder();
    Tensor y(b, b.conv(t.id(), w.id(), stride, padding, dilation, groups));
    return with_bias(y, bias);
  });
}

Results conv(Call& c) {
  Tensor w = c.tensor("weight");
  auto spatial = static_cast<size_t>(w.rank() - 2);
  return conv(c, c.tensor("input"), w, c.optional("bias"), c.integers("padding", spatial, 0));
}

// padding="same" or "valid". What does not split evenly goes to the far side.
Results conv_padding_name(Call& c) {
  Tensor x = c.tensor("input"), w = c.tensor("weight");
  auto spatial = static_cast<size_t>(w.rank() - 2);
  std::string name = c.text("padding", "valid");
  Dims padding(spatial, 0);
  if (name == "same") {
    Dims dilation = c.integers("dilation", spatial, 1);
    for (size_t i = 0; i < spatial; i++) {
      auto kernel = simplify(w.size(static_cast<int64_t>(i) + 2), c.facts()).constant();
      if (!kernel) c.unsupported("a kernel whose size is not known at compile time");
      int64_t total = dilation[i] * (*kernel - 1);
      padding[i] = total / 2;
      if (total % 2 != 0)
        x = pad_dim(x, static_cast<int64_t>(i) - static_cast<int64_t>(spatial), 0, 1, 0);
    }
  } else if (name != "valid") {
    c.unsupported("padding=" + name);
  }
  return conv(c, x, w, c.optional("bias"), padding);
}

Results conv_transpose(Call& c) {
  Tensor x = c.tensor("input"), w = c.tensor("weight");
  auto spatial = static_cast<size_t>(w.rank() - 2);
  Dims stride = c.integers("stride", spatial, 1), padding = c.integers("padding", spatial, 0);
  Dims extra = c.integers("output_padding", spatial, 0);
  Dims dilation = c.integers("dilation", spatial, 1);
  int64_t groups = c.integer("groups", 1);
  return batched(x, w.rank() - 2, [&](const Tensor& t) {
    Builder& b = c.builder();
    Tensor y(b, b.conv_transpose(t.id(), w.id(), stride, padding, extra, dilation, groups));
    return with_bias(y, c.optional("bias"));
  });
}

Results convolution(Call& c) { return c.flag("transposed", false) ? conv_transpose(c) : conv(c); }

// A convolution over time whose input is [T, B, C] and whose weight is [k, C, O].
Results conv_tbc(Call& c) {
  Tensor x = permute(c.tensor("self"), {1, 2, 0}), w = permute(c.tensor("weight"), {2, 1, 0});
  Builder& b = c.builder();
  Tensor y(b, b.conv(x.id(), w.id(), {1}, {c.integer("pad", 0)}, {1}, 1));
  return permute(with_bias(y, c.tensor("bias")), {2, 0, 1});
}

// ---- Unrolled windows.

Results im2col(Call& c) {  // [N, C, H, W] -> [N, C * kh * kw, windows]
  Tensor x = c.self();
  Dims kernel = c.integers("kernel_size", 2, 1), dilation = c.integers("dilation", 2, 1);
  Dims padding = c.integers("padding", 2, 0), stride = c.integers("stride", 2, 1);
  return batched(x, 2, [&](const Tensor& t) {
    Tensor y = pad(t, {0, 0, padding[0], padding[1]}, {0, 0, padding[0], padding[1]}, 0);
    y = window(y, 2, kernel[0], stride[0], dilation[0]);
    y = window(y, 3, kernel[1], stride[1], dilation[1]);  // [N, C, oh, ow, kh, kw]
    Tensor order = permute(y, {0, 1, 4, 5, 2, 3});
    return reshape(order,
                   {t.size(0), t.size(1) * Expr(kernel[0] * kernel[1]), y.size(2) * y.size(3)});
  });
}

// The adjoint: every window is added back where it came from, one kernel offset after the other.
Results col2im(Call& c) {
  Tensor x = c.self();
  Shape output = c.sizes("output_size");
  Dims kernel = c.integers("kernel_size", 2, 1), dilation = c.integers("dilation", 2, 1);
  Dims padding = c.integers("padding", 2, 0), stride = c.integers("stride", 2, 1);
  Expr taps(kernel[0] * kernel[1]);
  Shape windows;
  for (size_t d = 0; d < 2; d++)
    windows.push_back(simplify(
        floordiv(output[d] + Expr(2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1), stride[d]) +
            1,
        c.facts()));
  bool batch = x.rank() == 3;
  Tensor t = batch ? x : unsqueeze(x, 0);
  Expr n = t.size(0), channels = simplify(floordiv(t.size(1), taps), c.facts());
  Tensor columns = reshape(t, {n, channels, kernel[0], kernel[1], windows[0], windows[1]});
  Builder& b = c.builder();
  Shape padded{output[0] + Expr(2 * padding[0]), output[1] + Expr(2 * padding[1])};
  auto positions = [&](size_t d) {  // [k, windows]
    Tensor offset = iota(b, kernel[d], 0, dilation[d]);
    Tensor start = iota(b, windows[d], 0, stride[d]);
    return unsqueeze(offset, 1) + unsqueeze(start, 0);
  };
  Tensor rows = positions(0), cols = positions(1);
  Shape common{kernel[0], kernel[1], windows[0], windows[1]};
  Tensor zero = full(b, {n, channels, padded[0], padded[1]}, 0, x.dtype());
  Tensor y = index_put(
      zero, columns,
      {Tensor(), Tensor(), broadcast(rows, common, {0, 2}), broadcast(cols, common, {1, 3})}, true);
  y = narrow(narrow(y, 2, padding[0], output[0]), 3, padding[1], output[1]);
  return batch ? y : squeeze(y, {0});
}

constexpr Decomposition kTable[] = {
    {"conv1d.default", conv},
    {"conv2d.default", conv},
    {"conv3d.default", conv},
    {"conv1d.padding", conv_padding_name},
    {"conv2d.padding", conv_padding_name},
    {"conv3d.padding", conv_padding_name},
    {"convolution.default", convolution},
    {"_convolution.default", convolution},
    {"_convolution.deprecated", convolution},
    {"convolution_overrideable.default", convolution},
    {"conv_transpose1d.default", conv_transpose},
    {"conv_transpose2d.input", conv_transpose},
    {"conv_transpose3d.input", conv_transpose},
    {"conv_tbc.default", conv_tbc},
    {"im2col.default", im2col},
    {"col2im.default", col2im},
};

}  // namespace

Decompositions convolution_decompositions() { return kTable; }

}  // namespace nacre
