// Pooling: windows over the padded input, reduced. Adaptive pooling whose regions differ in size
// reads them through index tensors that depend on the sizes only.
#include <algorithm>
#include <limits>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

struct Pool {
  Tensor x;
  size_t n;  // spatial dims, the last of x
  Dims kernel, stride, padding, dilation;
  bool ceil_mode;
  Shape input, output,
      high;  // high: what is padded at the end, so that exactly `output` windows fit

  int64_t dim(size_t d) const { return x.rank() - static_cast<int64_t>(n - d); }
};

Pool read_pool(Call& c, size_t n, const Tensor& x) {
  Pool p;
  p.x = x;
  p.n = n;
  p.kernel = c.integers("kernel_size", n, 1);
  p.stride = c.integers("stride").empty() ? p.kernel : c.integers("stride", n, 1);
  p.padding = c.integers("padding", n, 0);
  p.dilation = c.integers("dilation", n, 1);
  p.ceil_mode = c.flag("ceil_mode", false);
  const Facts& facts = c.facts();
  for (size_t d = 0; d < n; d++) {
    Expr in = p.x.size(p.dim(d));
    Expr extent(p.dilation[d] * (p.kernel[d] - 1) + 1), s(p.stride[d]), pad(p.padding[d]);
    Expr room = in + pad * 2 - extent;
    Expr out = floordiv(room + (p.ceil_mode ? s - 1 : Expr(0)), s) + 1;
    Expr high = pad;
    if (p.ceil_mode) {
      // The last window must start inside the input or its left padding.
      Expr starts_outside = Expr::make(ExprOp::le, {in + pad, (out - 1) * s});
      out = simplify(out - starts_outside, facts);
      high = max((out - 1) * s + extent - in - pad, 0);
    }
    p.input.push_back(in);
    p.output.push_back(simplify(out, facts));
    p.high.push_back(simplify(high, facts));
  }
  return p;
}

Pool read_pool(Call& c, size_t n) { return read_pool(c, n, c.self()); }

// [..., windows..., kernel...]
Tensor windows(const Pool& p, const Number& filler) {
  Shape low(static_cast<size_t>(p.x.rank()), Expr(0)), high = low;
  for (size_t d = 0; d < p.n; d++) {
    low[static_cast<size_t>(p.dim(d))] = p.padding[d];
    high[static_cast<size_t>(p.dim(d))] = p.high[d];
  }
  Tensor y = pad(p.x, low, high, filler);
  for (size_t d = 0; d < p.n; d++) y = window(y, p.dim(d), p.kernel[d], p.stride[d], p.dilation[d]);
  return y;
}

Dims last_dims(const Tensor& t, size_t n) {
  Dims dims;
  for (size_t i = 0; i < n; i++) dims.push_back(t.rank() - static_cast<int64_t>(n - i));
  return dims;
}

// Positions in the flattened input of the elements that `best` (numbers within the window) names.
Tensor flat_positions(const Pool& p, const Tensor& best) {
  Tensor rest = best, flat;
  Expr step(1);
  for (size_t d = p.n; d-- > 0;) {
    Tensor k = d == 0 ? rest : remainder(rest, p.kernel[d]);
    if (d > 0) rest = div_floor(rest, p.kernel[d]);
    Tensor window_number = iota_along(p.x.builder(), best.shape(), p.dim(d));
    Tensor at = window_number * p.stride[d] + k * p.dilation[d] - p.padding[d];
    // In a window of nothing but -inf the first padding wins; PyTorch names the first element.
    if (p.padding[d] > 0) at = where(lt(at, 0), remainder(at, p.dilation[d]), at);
    at = at * Operand(step);
    flat = flat ? flat + at : at;
    step *= p.input[d];
  }
  return flat;
}

// The number, along the last dim, of the element that max pooling names: the first of the largest, but the last NaN.
Tensor maximum_position(const Tensor& x) {
  Tensor largest = argmax(x, -1);
  if (!is_floating(x.dtype())) return largest;
  Tensor number = iota_along(x.builder(), x.shape(), -1);
  Tensor last_nan = amax(where(isnan(x), number, full_like(number, -1)), {-1});
  return where(ge(last_nan, 0), last_nan, largest);
}

Results max_pool(Call& c, size_t n) {
  Pool p = read_pool(c, n);
  Tensor w = windows(p, padding_below(p.x.dtype()));
  Tensor values, positions;
  if (c.needs(0)) values = amax(w, last_dims(w, n));
  if (c.needs(1)) {
    Tensor best = maximum_position(n == 1 ? w : flatten(w, -static_cast<int64_t>(n), -1));
    positions = flat_positions(p, best);
  }
  return {values, positions};
}

// The number of elements of each window along one dim that count: those of the input, or also those
// of the padding (but never what lies beyond it, where ceil_mode lets a window hang over).
Tensor window_counts(const Pool& p, size_t d, bool include_padding) {
  Tensor start = iota(p.x.builder(), p.output[d], -p.padding[d], p.stride[d]);
  Expr limit = include_padding ? p.input[d] + Expr(p.padding[d]) : p.input[d];
  Tensor end = minimum(start + p.kernel[d], Operand(limit));
  if (!include_padding) start = maximum(start, 0);
  return end - start;
}

Results avg_pool(Call& c, size_t n) {
  Pool p = read_pool(c, n);
  nacre_dtype dtype = p.x.dtype();
  p.x = cast(p.x, is_floating(dtype) ? compute_type(dtype) : dtype);
  bool include_padding = c.flag("count_include_pad", true);
  Tensor w = windows(p, 0);
  Tensor total = cast(sum(w, last_dims(w, n)), p.x.dtype());
  auto divided = [&](const Operand& divisor) {
    return is_floating(dtype) ? total / divisor : div_trunc(total, divisor);
  };
  if (auto divisor = c.optional_integer("divisor_override")) return cast(divided(*divisor), dtype);
  bool padded = std::any_of(p.padding.begin(), p.padding.end(), [](int64_t e) { return e > 0; });
  if (!p.ceil_mode && (include_padding || !padded)) {
    int64_t size = 1;
    for (int64_t k : p.kernel) size *= k;
    return cast(divided(size), dtype);
  }
  Tensor counts;
  for (size_t d = 0; d < n; d++) {
    Tensor one = broadcast(window_counts(p, d, include_padding), total.shape(), {p.dim(d)});
    counts = counts ? counts * one : one;
  }
  return cast(divided(cast(counts, p.x.dtype())), dtype);
}

// ---- Adaptive pooling: output element i covers floor(i * in / out) up to ceil((i + 1) * in /
// out).

struct Regions {
  Tensor positions;  // [out, longest]: clamped to the input
  Tensor inside;     // [out, longest]
  Tensor lengths;    // [out]
};

Regions regions(Builder& b, const Expr& in, const Expr& out, const Facts& facts) {
  Expr longest = simplify(ceildiv(in, out) + 1, facts);
  if (in.constant() && out.constant()) {
    int64_t n = *in.constant(), m = *out.constant(), most = 0;
    for (int64_t i = 0; i < m; i++) most = std::max(most, ((i + 1) * n + m - 1) / m - i * n / m);
    longest = most;
  }
  Tensor i = iota(b, out);
  Tensor start = div_floor(i * Operand(in), Operand(out));
  Tensor end = div_floor((i + 1) * Operand(in) + Operand(out - 1), Operand(out));
  Regions r;
  r.lengths = end - start;
  Tensor k = iota(b, longest);
  r.inside = lt(unsqueeze(k, 0), unsqueeze(r.lengths, 1));
  r.positions = minimum(unsqueeze(start, 1) + unsqueeze(k, 0), Operand(in - 1));
  return r;
}

struct AdaptivePool {
  Tensor x;
  size_t n;
  Shape input, output;
  int64_t dim(size_t d) const { return x.rank() - static_cast<int64_t>(n - d); }
};

AdaptivePool read_adaptive(Call& c, size_t n) {
  AdaptivePool p{c.self(), n, {}, {}};
  Shape result = c.output_shape();
  for (size_t d = 0; d < n; d++) {
    p.input.push_back(p.x.size(p.dim(d)));
    p.output.push_back(result[static_cast<size_t>(p.dim(d))]);
  }
  return p;
}

bool divides(const Expr& out, const Expr& in, const Facts& facts) {
  if (out.is(1) || out == in) return true;
  auto m = out.constant();
  return m && *m > 0 && is_multiple(in, *m, facts);
}

// [..., out..., window...] where every region has one size.
Tensor even_windows(const AdaptivePool& p) {
  Tensor y = p.x;
  for (size_t d = 0; d < p.n; d++) {
    Expr size = simplify(floordiv(p.input[d], p.output[d]), p.x.facts());
    y = window(y, p.dim(d), size, size);
  }
  return y;
}

struct UnevenWindows {
  Tensor elements;  // [..., out..., longest...]
  Tensor inside;    // [out..., longest...]
  Tensor count;     // [out...]
  std::vector<Tensor> positions;
};

UnevenWindows uneven_windows(Call& c, const AdaptivePool& p) {
  UnevenWindows u;
  std::vector<Tensor> indices(static_cast<size_t>(p.dim(0)));
  std::vector<Regions> all;
  Shape common = p.output;
  for (size_t d = 0; d < p.n; d++) {
    all.push_back(regions(c.builder(), p.input[d], p.output[d], c.facts()));
    common.push_back(all[d].positions.size(1));
  }
  for (size_t d = 0; d < p.n; d++) {
    auto own = static_cast<int64_t>(d), k = static_cast<int64_t>(p.n + d);
    Tensor positions = broadcast(all[d].positions, common, {own, k});
    Tensor inside = broadcast(all[d].inside, common, {own, k});
    Tensor count = broadcast(all[d].lengths, p.output, {own});
    indices.push_back(positions);
    u.positions.push_back(positions);
    u.inside = u.inside ? u.inside & inside : inside;
    u.count = u.count ? u.count * count : count;
  }
  u.elements = index(p.x, indices);
  return u;
}

Results adaptive_avg_pool(Call& c, size_t n) {
  AdaptivePool p = read_adaptive(c, n);
  nacre_dtype dtype = p.x.dtype();
  p.x = to_compute(p.x);
  bool whole = true, even = true;
  for (size_t d = 0; d < n; d++) {
    whole = whole && p.output[d].is(1);
    even = even && divides(p.output[d], p.input[d], c.facts());
  }
  if (whole) return cast(mean(p.x, last_dims(p.x, n), true), dtype);
  if (even) {
    Tensor w = even_windows(p);
    return cast(mean(w, last_dims(w, n)), dtype);
  }
  UnevenWindows u = uneven_windows(c, p);
  Tensor total =
      sum(where(u.inside, u.elements, full_like(u.elements, 0)), last_dims(u.elements, n));
  return cast(total / cast(u.count, total.dtype()), dtype);
}

Results adaptive_max_pool(Call& c, size_t n) {
  AdaptivePool p = read_adaptive(c, n);
  UnevenWindows u = uneven_windows(c, p);
  Tensor elements = where(u.inside, u.elements, full_like(u.elements, padding_below(p.x.dtype())));
  Tensor values = amax(elements, last_dims(elements, n)), positions;
  if (c.needs(1)) {
    Tensor flat;
    Expr step(1);
    for (size_t d = n; d-- > 0;) {
      Tensor at = u.positions[d] * Operand(step);
      flat = flat ? flat + at : at;
      step *= p.input[d];
    }
    auto joined = [&](const Tensor& t) {
      return n == 1 ? t : flatten(t, -static_cast<int64_t>(n), -1);
    };
    Tensor best = unsqueeze(maximum_position(joined(elements)), -1);
    Tensor table = joined(expand(flat, elements.shape()));
    positions = squeeze(gather(table, best, -1), {-1});
  }
  return {values, positions};
}

// ---- Fractional max pooling: windows of one size, whose starts follow from a number in [0, 1) for each plane and dim.

// [N, C, out]: the last window ends where the input does.
Tensor fractional_starts(const Tensor& sample, const Expr& in, const Expr& out, int64_t kernel) {
  Builder& b = sample.builder();
  const Expr room = in - Expr(kernel);
  Shape shape = sample.shape();
  shape.push_back(out);
  Tensor last = full(b, shape, room, NACRE_i64);
  if (out.is(1)) return last;
  Tensor i = iota_along(b, shape, -1), number = unsqueeze(sample, -1);
  Tensor alpha = full(b, {}, room, sample.dtype()) / full(b, {}, max(out - 1, 1), sample.dtype());
  Tensor start = cast((cast(i, sample.dtype()) + number) * alpha, NACRE_i64) - cast(number * alpha, NACRE_i64);
  return where(eq(i, Operand(out - 1)), last, start);
}

Results fractional_max_pool(Call& c, size_t n) {
  Tensor x = c.self(), samples = cast(c.tensor("random_samples"), x.dtype());
  const bool batched = x.rank() == static_cast<int64_t>(n) + 2;
  if (!batched) x = unsqueeze(x, 0);
  const Dims kernel = c.integers("kernel_size", n, 1);
  Shape result = c.output_shape(), common{x.size(0), x.size(1)};
  common.insert(common.end(), result.end() - static_cast<std::ptrdiff_t>(n), result.end());
  for (int64_t k : kernel) common.emplace_back(k);
  Tensor flat;
  for (size_t d = 0; d < n; d++) {
    const auto dim = static_cast<int64_t>(d) + 2, k = dim + static_cast<int64_t>(n);
    // The numbers of a plane are in the order of the dims in three dims, and the other way round in two.
    Tensor sample = select(samples, 2, static_cast<int64_t>(n == 2 ? 1 - d : d));
    Tensor start = fractional_starts(sample, x.size(dim), common[static_cast<size_t>(dim)], kernel[d]);
    Tensor at = broadcast(start, common, {0, 1, dim}) + broadcast(iota(c.builder(), kernel[d]), common, {k});
    flat = flat ? flat * Operand(x.size(dim)) + at : at;
  }
  const auto planes = [](const Tensor& t) { return flatten(t, 2, -1); };
  Tensor elements = reshape(gather(planes(x), planes(flat), 2), common);
  Tensor joined = flatten(elements, -static_cast<int64_t>(n), -1);
  Tensor values = amax(joined, {-1}), positions;
  if (c.needs(1)) {
    Tensor best = unsqueeze(maximum_position(joined), -1);
    positions = squeeze(gather(flatten(flat, -static_cast<int64_t>(n), -1), best, -1), {-1});
  }
  if (!batched) {
    values = squeeze(values, {0});
    if (positions) positions = squeeze(positions, {0});
  }
  return {values, positions};
}

// Every value goes to the flat position that max pooling named for it.
Results max_unpool(Call& c, size_t n) {
  Tensor x = c.self(), indices = c.tensor("indices");
  Shape shape = c.output_shape();
  int64_t spatial = -static_cast<int64_t>(n);
  Tensor zero = c.full(shape, 0, x.dtype());
  Tensor flat = flatten(zero, spatial, -1);
  Tensor y = scatter(flat, flatten(indices, spatial, -1), flatten(x, spatial, -1), -1);
  return reshape(y, shape);
}

// Every gradient is added where the maximum came from.
Results max_pool_backward(Call& c, size_t n) {
  Tensor x = c.tensor("self"), gradient = c.tensor("grad_output");
  int64_t spatial = -static_cast<int64_t>(n);
  Tensor flat = flatten(full_like(x, 0), spatial, -1);
  Tensor y = scatter(flat, flatten(c.tensor("indices"), spatial, -1),
                     flatten(gradient, spatial, -1), -1, "add");
  return reshape(y, x.shape());
}

// Which element of the input (the last dim) each window along a dim covers.
Tensor coverage(const Tensor& start, const Tensor& end, const Expr& input) {
  Tensor at = unsqueeze(iota(start.builder(), input), 0);
  return ge(at, unsqueeze(start, 1)) & lt(at, unsqueeze(end, 1));
}

// Each window's gradient, shared out already, added to all elements that it covers: the windows of the two dims are
// independent, so that is a matrix product from either side.
Tensor spread_back(const Tensor& share, const Tensor& rows, const Tensor& columns) {
  Tensor y = matmul(share, cast(columns, share.dtype()));
  return matmul(transpose(cast(rows, share.dtype()), 0, 1), y);
}

Results avg_pool2d_backward(Call& c) {
  Tensor gradient = to_compute(c.tensor("grad_output"));
  Pool p = read_pool(c, 2, c.tensor("self"));
  bool include_padding = c.flag("count_include_pad", true);
  auto divisor = c.optional_integer("divisor_override");
  Tensor covered[2];
  for (size_t d = 0; d < 2; d++) {
    Tensor start = iota(c.builder(), p.output[d], -p.padding[d], p.stride[d]);
    covered[d] = coverage(start, start + p.kernel[d], p.input[d]);
    if (divisor) continue;
    Tensor counts = window_counts(p, d, include_padding);
    gradient = gradient / broadcast(cast(counts, gradient.dtype()), gradient.shape(), {p.dim(d)});
  }
  if (divisor) gradient = gradient / Operand(*divisor);
  return cast(spread_back(gradient, covered[0], covered[1]), c.output_dtype());
}

Results adaptive_avg_pool2d_backward(Call& c) {
  Tensor gradient = to_compute(c.tensor("grad_output")), x = c.tensor("self");
  Tensor covered[2];
  for (int64_t d = 0; d < 2; d++) {
    int64_t dim = x.rank() - 2 + d;
    Expr in = x.size(dim), out = gradient.size(dim);
    Tensor i = iota(c.builder(), out);
    Tensor start = div_floor(i * Operand(in), Operand(out));
    Tensor end = div_floor((i + 1) * Operand(in) + Operand(out - 1), Operand(out));
    covered[d] = coverage(start, end, in);
    gradient = gradient / broadcast(cast(end - start, gradient.dtype()), gradient.shape(), {dim});
  }
  return cast(spread_back(gradient, covered[0], covered[1]), c.output_dtype());
}

constexpr Decomposition kTable[] = {
    {"max_pool1d.default", [](Call& c) { return max_pool(c, 1); }},
    {"max_pool2d.default", [](Call& c) { return max_pool(c, 2); }},
    {"max_pool3d.default", [](Call& c) { return max_pool(c, 3); }},
    {"max_pool1d_with_indices.default", [](Call& c) { return max_pool(c, 1); }},
    {"max_pool2d_with_indices.default", [](Call& c) { return max_pool(c, 2); }},
    {"max_pool3d_with_indices.default", [](Call& c) { return max_pool(c, 3); }},
    {"avg_pool1d.default", [](Call& c) { return avg_pool(c, 1); }},
    {"avg_pool2d.default", [](Call& c) { return avg_pool(c, 2); }},
    {"avg_pool3d.default", [](Call& c) { return avg_pool(c, 3); }},
    {"adaptive_avg_pool1d.default", [](Call& c) { return adaptive_avg_pool(c, 1); }},
    {"adaptive_avg_pool2d.default", [](Call& c) { return adaptive_avg_pool(c, 2); }},
    {"adaptive_avg_pool3d.default", [](Call& c) { return adaptive_avg_pool(c, 3); }},
    {"_adaptive_avg_pool2d.default", [](Call& c) { return adaptive_avg_pool(c, 2); }},
    {"_adaptive_avg_pool3d.default", [](Call& c) { return adaptive_avg_pool(c, 3); }},
    {"adaptive_max_pool1d.default", [](Call& c) { return adaptive_max_pool(c, 1); }},
    {"adaptive_max_pool2d.default", [](Call& c) { return adaptive_max_pool(c, 2); }},
    {"adaptive_max_pool3d.default", [](Call& c) { return adaptive_max_pool(c, 3); }},
    {"max_pool2d_with_indices_backward.default", [](Call& c) { return max_pool_backward(c, 2); }},
    {"max_pool3d_with_indices_backward.default", [](Call& c) { return max_pool_backward(c, 3); }},
    {"avg_pool2d_backward.default", avg_pool2d_backward},
    {"_adaptive_avg_pool2d_backward.default", adaptive_avg_pool2d_backward},
    {"fractional_max_pool2d.default", [](Call& c) { return fractional_max_pool(c, 2); }},
    {"fractional_max_pool3d.default", [](Call& c) { return fractional_max_pool(c, 3); }},
    {"max_unpool2d.default", [](Call& c) { return max_unpool(c, 2); }},
    {"max_unpool3d.default", [](Call& c) { return max_unpool(c, 3); }},
};

}  // namespace

Decompositions pooling_decompositions() { return kTable; }

}  // namespace nacre
