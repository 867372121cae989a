// Resizing and sampling of images. Positions and weights depend on sizes (or on a grid) only; every
// output element reads a few taps through index tensors. A whole-number factor of nearest-neighbour
// resizing is a view. Bytes are weighted in whole numbers, as PyTorch does.
#include <algorithm>
#include <cmath>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// ---- Sizes and scales.

struct Resize {
  Tensor x;
  size_t n;  // spatial dims, the last of x
  Shape input, output;
  std::vector<std::optional<double>> scales;  // what the caller gave
  bool align_corners;
  nacre_dtype dtype;  // in which positions and weights are computed

  int64_t dim(size_t d) const { return x.rank() - static_cast<int64_t>(n - d); }
};

Resize read_resize(Call& c, size_t n) {
  Resize r{c.self(), n, {}, {}, {}, c.flag("align_corners", false), NACRE_f32};
  const bool nearest = c.op().find("nearest") != std::string::npos, bytes = r.x.dtype() == NACRE_u8;
  if (!is_floating(r.x.dtype()) && !nearest && (!bytes || n != 2)) c.unsupported("interpolation of integers");
  r.dtype = is_floating(r.x.dtype()) ? compute_type(r.x.dtype()) : nearest ? NACRE_f32 : NACRE_f64;
  Shape result = c.output_shape();
  std::vector<double> factors = c.reals("scale_factors");
  static constexpr const char* kNames[3][3] = {
      {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
  for (size_t d = 0; d < n; d++) {
    r.input.push_back(r.x.size(r.dim(d)));
    r.output.push_back(result[static_cast<size_t>(r.dim(d))]);
    if (d < factors.size())
      r.scales.emplace_back(factors[d]);
    else
      r.scales.push_back(c.optional_real(kNames[n - 1][d]));
  }
  return r;
}

// Rounded as the kernels hold it: a float for float32 and less.
double rounded(double value, nacre_dtype dtype) {
  return dtype == NACRE_f64 ? value : static_cast<double>(static_cast<float>(value));
}

Tensor size_number(Builder& b, const Expr& size, nacre_dtype dtype) {
  return full(b, {}, size, dtype);
}

// How far the source moves for one step of the output.
Operand source_step(Call& c, const Resize& r, size_t d) {
  const Expr &in = r.input[d], &out = r.output[d];
  Builder& b = c.builder();
  auto ratio = [&](const Expr& p, const Expr& q) -> Operand {
    if (p.constant() && q.constant()) {
      auto x = static_cast<double>(*p.constant()), y = static_cast<double>(*q.constant());
      return r.dtype == NACRE_f64
                 ? x / y
                 : static_cast<double>(static_cast<float>(x) / static_cast<float>(y));
    }
    return size_number(b, p, r.dtype) / size_number(b, q, r.dtype);
  };
  if (r.align_corners) {
    if (out.is(1)) return 0.0;
    if (proves_lt(1, out, c.facts())) return ratio(in - 1, out - 1);
    Tensor last = size_number(b, out - 1, r.dtype);  // 0 for one output element
    return where(gt(last, 0), size_number(b, in - 1, r.dtype) / maximum(last, 1),
                 full_like(last, 0));
  }
  if (r.scales[d] && *r.scales[d] > 0) return rounded(1.0 / *r.scales[d], r.dtype);
  return ratio(in, out);
}

Tensor output_numbers(Call& c, const Resize& r, size_t d) {
  return cast(iota(c.builder(), r.output[d]), r.dtype);
}

// The place in the input, in elements, of each output element along dim d.
Tensor source_positions(Call& c, const Resize& r, size_t d, bool cubic) {
  Operand step = source_step(c, r, d);
  Tensor i = output_numbers(c, r, d);
  if (r.align_corners) return mul(i, step);
  Tensor s = mul(i + 0.5, step) - 0.5;
  return cubic ? s : maximum(s, 0);
}

// ---- Nearest neighbour.

// out = k * in with elements repeated k times, where the kernels' float arithmetic gives exactly
// that.
std::optional<int64_t> whole_factor(Call& c, const Resize& r, size_t d, bool exact) {
  const Expr &in = r.input[d], &out = r.output[d];
  if (in == out) return 1;
  Interval range = interval(out, c.facts());
  auto n = in.constant(), m = out.constant();
  std::optional<int64_t> k;
  if (n && m) {
    if (*n > 0 && *m % *n == 0) k = *m / *n;
  } else {
    for (int64_t factor = 2; factor <= 16 && !k; factor++)
      if (proves_eq(out, in * Expr(factor), c.facts())) k = factor;
  }
  if (!k) return std::nullopt;
  double factor = static_cast<double>(*k);
  if (r.scales[d] && *r.scales[d] > 0 && *r.scales[d] != factor) return std::nullopt;
  // 1/k rounded to float must not fall short, or a multiple of k would land one element too low.
  bool safe = exact || static_cast<double>(1.0f / static_cast<float>(*k)) * factor >= 1.0;
  bool small = range.max <= (int64_t{1} << 20);
  bool power = (*k & (*k - 1)) == 0;
  return power || (safe && small) ? k : std::nullopt;
}

Tensor repeated(const Tensor& x, int64_t dim, int64_t times) {
  if (times == 1) return x;
  Shape wide = x.shape(), joined = x.shape();
  wide.insert(wide.begin() + dim + 1, Expr(times));
  joined[static_cast<size_t>(dim)] *= Expr(times);
  Dims dims = all_dims(x.rank());
  for (int64_t& d : dims)
    if (d > dim) d++;
  return reshape(broadcast(x, wide, dims), joined);
}

Results upsample_nearest(Call& c, size_t n, bool exact) {
  Resize r = read_resize(c, n);
  Tensor y = r.x;
  for (size_t d = 0; d < n; d++) {
    if (auto k = whole_factor(c, r, d, exact)) {
      y = repeated(y, r.dim(d), *k);
      continue;
    }
    Tensor i = output_numbers(c, r, d);
    Tensor s = floor(mul(exact ? i + 0.5 : i, source_step(c, r, d)));
    Tensor at = minimum(cast(s, NACRE_i64), Operand(r.input[d] - 1));
    y = index_dim(y, r.dim(d), at);
  }
  return y;
}

// ---- Weighted taps.

struct Tap {
  Tensor position;  // [out]
  Tensor weight;    // [out]
};
using Taps = std::vector<std::vector<Tap>>;  // by dim

// One dim after the other, the last one first: what a row's taps sum up to serves all rows that it is a tap of.
Tensor interpolate(const Resize& r, const Taps& taps) {
  Tensor y = to_compute(r.x);
  for (size_t d = r.n; d-- > 0;) {
    Tensor total;
    for (const Tap& tap : taps[d]) {
      Tensor x = index_dim(y, r.dim(d), tap.position);
      x = x * broadcast(tap.weight, x.shape(), {r.dim(d)});
      total = total ? total + x : x;
    }
    y = total;
  }
  return y;
}

std::vector<Tap> linear_taps(Call& c, const Resize& r, size_t d) {
  if (r.input[d] == r.output[d] && !r.align_corners && (!r.scales[d] || *r.scales[d] == 1)) {
    Tensor i = iota(c.builder(), r.output[d]);
    return {{i, full(c.builder(), i.shape(), 1.0, r.dtype)}};
  }
  Tensor s = source_positions(c, r, d, false);
  Tensor low = minimum(cast(floor(s), NACRE_i64), Operand(r.input[d] - 1));
  Tensor high = minimum(low + 1, Operand(r.input[d] - 1));
  Tensor w = clamp(s - cast(low, r.dtype), 0, 1);
  return {{low, -w + 1}, {high, w}};
}

// Keys' kernel with A = -0.75 at distances t + 1, t, 1 - t and 2 - t.
std::vector<Tensor> cubic_weights(const Tensor& t) {
  constexpr double kA = -0.75;
  auto near = [](const Tensor& x) { return (x * (kA + 2) - (kA + 3)) * x * x + 1; };
  auto far = [](const Tensor& x) { return ((x * kA - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(t + 1), near(t), near(-t + 1), far(-t + 2)};
}

std::vector<Tap> cubic_taps(Call& c, const Resize& r, size_t d) {
  Tensor s = source_positions(c, r, d, true);
  Tensor base = floor(s);
  std::vector<Tensor> weights = cubic_weights(s - base);
  Tensor first = cast(base, NACRE_i64);
  std::vector<Tap> taps;
  for (int k = 0; k < 4; k++)
    taps.push_back(
        {clamp(first + (k - 1), 0, Operand(r.input[d] - 1)), weights[static_cast<size_t>(k)]});
  return taps;
}

// Keys' kernel with this A, at t >= 0.
Tensor keys(const Tensor& t, double a) {
  Tensor near = (t * (a + 2) - (a + 3)) * t * t + 1;
  Tensor far = ((t * a - 5 * a) * t + 8 * a) * t - 4 * a;
  return where(lt(t, 1), near, where(lt(t, 2), far, full_like(t, 0)));
}

// ---- Bytes: one dim after the other, the last one first, each rounded to bytes. The weights are 16-bit integers, in the finest
// unit in which the largest of them fits.

struct ByteTaps {
  Tensor first;    // [out]: the first element that counts
  Tensor weights;  // [out, taps], float64
  Tensor largest;  // no dims: of the weights, and of the sums on the way to them
};

// i * step of what is not negative, rounded before anything is added to it: where a filter begins may hang on the last bit, and a
// compiler may take a product and a sum as one. abs() keeps them apart.
Tensor rounded_product(const Tensor& i, const Operand& step) { return abs(mul(i, step)); }

// Taps beyond either end count for the element there.
ByteTaps byte_taps(Call& c, const Resize& r, size_t d, const Operand& step, bool cubic) {
  const int taps = cubic ? 4 : 2, reach = taps / 2;
  Tensor i = output_numbers(c, r, d);
  Tensor s = r.align_corners ? rounded_product(i, step) : rounded_product(i + 0.5, step) - 0.5;
  if (!cubic && !r.align_corners) s = maximum(s, 0);
  const Operand last(r.input[d] - 1);
  Tensor base = minimum(cast(floor(s), NACRE_i64), last);
  Tensor lambda = clamp(s - cast(base, r.dtype), 0, 1);
  ByteTaps t;
  t.first = maximum(base + (1 - reach), 0);
  Tensor slot = unsqueeze(t.first, 1) + unsqueeze(iota(c.builder(), taps), 0);
  t.weights = full(c.builder(), slot.shape(), 0.0, r.dtype);
  Tensor most = t.weights;
  for (int k = 0; k < taps; k++) {
    Tensor at = clamp(base + (k + 1 - reach), 0, last);
    Tensor distance = abs(-lambda + static_cast<double>(k + 1 - reach));
    Tensor w = cubic ? keys(distance, -0.75) : maximum(-distance + 1, 0);
    t.weights = t.weights + where(eq(unsqueeze(at, 1), slot), unsqueeze(w, 1), full_like(t.weights, 0));
    most = maximum(most, t.weights);
  }
  t.largest = amax(most, {0, 1});
  return t;
}

// How many elements a filter covers at most, where the source moves by `step`.
Expr byte_filter_width(Call& c, const Resize& r, size_t d, const Operand& step, int reach) {
  if (step.number()) {
    const double support = std::max(*step.number()->constant(), 1.0) * reach;
    return static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  }
  double given = r.scales[d] && *r.scales[d] > 0 && !r.align_corners ? std::max(1.0 / *r.scales[d], 1.0) * reach : 0;
  if (given > 0) return static_cast<int64_t>(std::ceil(given)) * 2 + 1;
  Expr in = r.input[d], out = r.output[d];
  if (r.align_corners) {
    in = in - 1;
    out = max(out - 1, 1);
  }
  return simplify(max(ceildiv(in * Expr(reach), out), reach) * 2 + 1, c.facts());
}

// A filter as wide as the step.
ByteTaps byte_filter(Call& c, const Resize& r, size_t d, const Operand& step, bool cubic) {
  Builder& b = c.builder();
  const int reach = cubic ? 2 : 1;
  Tensor moved = as_tensor(b, step, r.dtype), wide = maximum(moved, 1);
  Tensor centre = rounded_product(output_numbers(c, r, d) + 0.5, moved), support = wide * reach;
  ByteTaps t;
  t.first = maximum(cast(trunc(centre - support + 0.5), NACRE_i64), 0);
  Tensor end = minimum(cast(trunc(centre + support + 0.5), NACRE_i64), Operand(r.input[d]));
  Tensor at = unsqueeze(t.first, 1) + unsqueeze(iota(b, byte_filter_width(c, r, d, step, reach)), 0);
  Tensor distance = abs((cast(at, r.dtype) - unsqueeze(centre, 1) + 0.5) * reciprocal(wide));
  Tensor w = cubic ? keys(distance, -0.5) : maximum(-distance + 1, 0);
  w = where(lt(at, unsqueeze(end, 1)), w, full_like(w, 0));
  Tensor total = sum(w, {1}, true);
  t.weights = where(eq(total, 0), full_like(w, 0), w / where(eq(total, 0), full_like(total, 1), total));
  t.largest = maximum(amax(t.weights, {0, 1}), 0);
  return t;
}

Tensor weighted_bytes(Call& c, const Resize& r, size_t d, const Tensor& x, const ByteTaps& taps) {
  Builder& b = c.builder();
  Tensor unit = cast(shift_left(full(b, {22}, 2, NACRE_i64), iota(b, 22)), r.dtype);  // 2^1, 2^2, ...
  Tensor digits = sum(lt(taps.largest * unit + 0.5, 32768.0), {0});
  Tensor scaled = taps.weights * cast(shift_left(full(b, {}, 1, NACRE_i64), digits), r.dtype);
  Tensor whole = cast(where(lt(scaled, 0), scaled - 0.5, scaled + 0.5), NACRE_i32);
  const int64_t dim = r.dim(d);
  Tensor half = shift_left(full(b, {}, 1, NACRE_i64), digits - 1);
  Tensor total;
  const auto few = whole.size(1).constant();
  if (few && *few <= 4) {
    for (int64_t k = 0; k < *few; k++) {
      Tensor y = cast(index_dim(x, dim, minimum(taps.first + k, Operand(r.input[d] - 1))), NACRE_i32);
      y = y * broadcast(select(whole, 1, k), y.shape(), {dim});
      total = total ? total + y : y;
    }
  } else {
    Tensor at = unsqueeze(taps.first, 1) + unsqueeze(iota(b, whole.size(1)), 0);
    Tensor y = cast(index_dim(x, dim, minimum(at, Operand(r.input[d] - 1))), NACRE_i32);
    total = cast(sum(y * broadcast(whole, y.shape(), {dim, dim + 1}), {dim + 1}), NACRE_i32);
  }
  Tensor rounded = shift_right(total + cast(half, NACRE_i32), cast(digits, NACRE_i32));
  return cast(clamp(rounded, 0, 255), NACRE_u8);
}

Results resize_bytes(Call& c, const Resize& r, bool cubic, bool antialias) {
  Tensor y = r.x;
  for (size_t d = r.n; d-- > 0;) {
    const Expr &in = r.input[d], &out = r.output[d];
    if (in == out) continue;
    Operand step = source_step(c, r, d);
    // A dim that keeps its size stays as it is, whatever the scale.
    if (!(in.constant() && out.constant()) && step.number())
      step = where(eq(size_number(c.builder(), in, r.dtype), size_number(c.builder(), out, r.dtype)), full(c.builder(), {}, 1.0, r.dtype), step);
    y = weighted_bytes(c, r, d, y, antialias ? byte_filter(c, r, d, step, cubic) : byte_taps(c, r, d, step, cubic));
  }
  return y;
}

Results upsample_weighted(Call& c, size_t n, bool cubic) {
  Resize r = read_resize(c, n);
  if (r.x.dtype() == NACRE_u8) return resize_bytes(c, r, cubic, false);
  Taps taps;
  for (size_t d = 0; d < n; d++) taps.push_back(cubic ? cubic_taps(c, r, d) : linear_taps(c, r, d));
  return cast(interpolate(r, taps), r.x.dtype());
}

// ---- With antialiasing: a filter as wide as the step, one dim after the other as a product with a
// [out, in] matrix.

Tensor antialias_matrix(Call& c, const Resize& r, size_t d, bool cubic) {
  Builder& b = c.builder();
  Tensor step = as_tensor(b, source_step(c, r, d), r.dtype);
  Tensor wide = maximum(step, 1);
  double reach = cubic ? 2 : 1;
  Shape shape{r.output[d], r.input[d]};
  Tensor i = cast(iota_along(b, shape, 0), r.dtype), j = cast(iota_along(b, shape, 1), r.dtype);
  Tensor centre = (i + 0.5) * step;
  Tensor support = wide * reach;
  Tensor first = maximum(trunc(centre - support + 0.5), 0), end = trunc(centre + support + 0.5);
  Tensor inside = ge(j, first) & lt(j, minimum(end, Operand(r.input[d])));
  Tensor t = abs((j - centre + 0.5) / wide);
  Tensor w;
  if (cubic) {
    w = keys(t, -0.5);
  } else {
    w = maximum(-t + 1, 0);
  }
  w = where(inside, w, full_like(w, 0));
  return w / sum(w, {1}, true);
}

Results upsample_antialias(Call& c, bool cubic) {
  Resize r = read_resize(c, 2);
  if (r.x.dtype() == NACRE_u8) return resize_bytes(c, r, cubic, true);
  Tensor y = to_compute(r.x);
  for (size_t d = 2; d-- > 0;) {
    if (r.input[d] == r.output[d] && !r.scales[d]) continue;
    Tensor m = antialias_matrix(c, r, d, cubic);
    Tensor last = transpose(y, r.dim(d), -1);
    y = transpose(matmul(last, transpose(m, 0, 1)), r.dim(d), -1);
  }
  return cast(y, r.x.dtype());
}

// ---- Grids.

struct Grid {
  Tensor x;  // [N, C, spatial...]
  size_t n;
  int64_t mode;     // 0 linear, 1 nearest, 2 cubic
  int64_t padding;  // 0 zeros, 1 border, 2 reflection
  bool align_corners;
  nacre_dtype dtype;

  Expr size(size_t d) const { return x.size(static_cast<int64_t>(d) + 2); }
};

Tensor clip(const Grid& g, const Tensor& at, size_t d) {
  return fmin(fmax(at, 0), Operand(g.size(d) - 1));  // NaN goes to 0
}

Tensor reflect(const Grid& g, const Tensor& at, size_t d) {
  Expr twice_low = g.align_corners ? Expr(0) : Expr(-1);
  Expr twice_high = g.align_corners ? (g.size(d) - 1) * 2 : g.size(d) * 2 - 1;
  Builder& b = at.builder();
  Tensor low = full(b, {}, twice_low, g.dtype) / 2;
  Tensor span = full(b, {}, twice_high - twice_low, g.dtype) / 2;
  Tensor distance = abs(at - low);
  Tensor safe = where(gt(span, 0), span, full_like(span, 1));
  Tensor extra = fmod(distance, safe);
  Tensor flips = floor(distance / safe);
  Tensor even = eq(fmod(flips, 2), 0);
  Tensor y = where(even, extra + low, span - extra + low);
  return where(gt(span, 0), y, full_like(y, 0));
}

// From [-1, 1] to elements.
Tensor unnormalized(const Grid& g, const Tensor& t, size_t d) {
  if (g.align_corners) return (t + 1) / 2 * Operand(g.size(d) - 1);
  return ((t + 1) * Operand(g.size(d)) - 1) / 2;
}

Tensor padded_position(const Grid& g, const Tensor& at, size_t d) {
  if (g.padding == 1) return clip(g, at, d);
  if (g.padding == 2) return clip(g, reflect(g, at, d), d);
  return at;
}

// x at whole positions (floating, one tensor [N, spatial...] a dim); outside there is 0. -> [N, C,
// spatial...]
Tensor sample(const Grid& g, const std::vector<Tensor>& at) {
  Builder& b = g.x.builder();
  const Shape& common = at[0].shape();
  std::vector<Tensor> indices{iota_along(b, common, 0), Tensor()};
  Tensor inside;
  for (size_t d = 0; d < g.n; d++) {
    Expr last = g.size(d) - 1;
    Tensor in_range = ge(at[d], 0) & le(at[d], Operand(last));
    inside = inside ? inside & in_range : in_range;
    indices.push_back(
        cast(clamp(where(in_range, at[d], full_like(at[d], 0)), 0, Operand(last)), NACRE_i64));
  }
  Tensor taken = to_compute(index(g.x, indices));  // [N, spatial..., C]
  Tensor y = move_dim(taken, -1, 1);
  return where(unsqueeze(inside, 1), y, full_like(y, 0));
}

struct FloatTap {
  Tensor position, weight;
};

Tensor sample_weighted(const Grid& g, const std::vector<std::vector<FloatTap>>& taps, size_t d,
                       std::vector<Tensor> at, const Tensor& weight) {
  if (d == g.n) return sample(g, at) * unsqueeze(weight, 1);
  Tensor total;
  for (const FloatTap& tap : taps[d]) {
    std::vector<Tensor> next = at;
    next.push_back(tap.position);
    Tensor y = sample_weighted(g, taps, d + 1, next, weight ? weight * tap.weight : tap.weight);
    total = total ? total + y : y;
  }
  return total;
}

Results grid_sample(Call& c, size_t n) {
  Grid g{c.tensor("input"),
         n,
         c.integer("interpolation_mode", 0),
         c.integer("padding_mode", 0),
         c.flag("align_corners", false),
         NACRE_f32};
  g.dtype = compute_type(g.x.dtype());
  Tensor grid = cast(c.tensor("grid"), g.dtype);
  std::vector<std::vector<FloatTap>> taps;
  std::vector<Tensor> nearest;
  for (size_t d = 0; d < n; d++) {
    // The grid names the last dim first.
    Tensor t = select(grid, -1, static_cast<int64_t>(n - 1 - d));
    Tensor at = unnormalized(g, t, d);
    if (g.mode == 2) {
      Tensor base = floor(at);
      std::vector<Tensor> weights = cubic_weights(at - base);
      std::vector<FloatTap> four;
      for (int k = 0; k < 4; k++)
        four.push_back({padded_position(g, base + (k - 1), d), weights[static_cast<size_t>(k)]});
      taps.push_back(four);
      continue;
    }
    at = padded_position(g, at, d);
    if (g.mode == 1) {
      nearest.push_back(round(at));
    } else {
      Tensor base = floor(at);
      Tensor w = at - base;
      taps.push_back({{base, -w + 1}, {base + 1, w}});
    }
  }
  Tensor y = g.mode == 1 ? sample(g, nearest) : sample_weighted(g, taps, 0, {}, {});
  return cast(y, g.x.dtype());
}

Results affine_grid(Call& c) {
  Tensor theta = c.tensor("theta");  // [N, n, n + 1]
  Shape size = c.sizes("size");
  bool align = c.flag("align_corners", false);
  size_t n = size.size() - 2;
  nacre_dtype dtype = theta.dtype(), wide = compute_type(dtype);
  Builder& b = c.builder();
  Shape spatial(size.begin() + 2, size.end());
  std::vector<Tensor> coordinates;
  for (size_t d = n; d-- > 0;) {
    const Expr& s = spatial[d];
    Tensor i = cast(iota(b, s), wide);
    Tensor t;
    if (s.is(1))
      t = full_like(i, 0);
    else if (align)
      t = i * 2 / Operand(s - 1) - 1;
    else
      t = (i * 2 + 1) / Operand(s) - 1;
    coordinates.push_back(broadcast(t, spatial, {static_cast<int64_t>(d)}));
  }
  coordinates.push_back(full(b, spatial, 1, wide));
  Tensor base = flatten(stack(coordinates, -1), 0, -2);  // [spatial, n + 1]
  Tensor y = matmul(expand(base, {size[0], base.size(0), base.size(1)}),
                    transpose(cast(theta, wide), 1, 2));
  return cast(reshape(y, c.output_shape()), dtype);
}

#define NACRE_RESIZE(name, call)                  \
  {name ".vec", [](Call& c) { return call; }}, {  \
    name ".default", [](Call& c) { return call; } \
  }

constexpr Decomposition kTable[] = {
    NACRE_RESIZE("upsample_nearest1d", upsample_nearest(c, 1, false)),
    NACRE_RESIZE("upsample_nearest2d", upsample_nearest(c, 2, false)),
    NACRE_RESIZE("upsample_nearest3d", upsample_nearest(c, 3, false)),
    NACRE_RESIZE("_upsample_nearest_exact1d", upsample_nearest(c, 1, true)),
    NACRE_RESIZE("_upsample_nearest_exact2d", upsample_nearest(c, 2, true)),
    NACRE_RESIZE("_upsample_nearest_exact3d", upsample_nearest(c, 3, true)),
    NACRE_RESIZE("upsample_linear1d", upsample_weighted(c, 1, false)),
    NACRE_RESIZE("upsample_bilinear2d", upsample_weighted(c, 2, false)),
    NACRE_RESIZE("upsample_trilinear3d", upsample_weighted(c, 3, false)),
    NACRE_RESIZE("upsample_bicubic2d", upsample_weighted(c, 2, true)),
    NACRE_RESIZE("_upsample_bilinear2d_aa", upsample_antialias(c, false)),
    NACRE_RESIZE("_upsample_bicubic2d_aa", upsample_antialias(c, true)),
    {"grid_sampler.default",
     [](Call& c) { return grid_sample(c, c.tensor("input").rank() == 5 ? 3 : 2); }},
    {"grid_sampler_2d.default", [](Call& c) { return grid_sample(c, 2); }},
    {"grid_sampler_3d.default", [](Call& c) { return grid_sample(c, 3); }},
    {"affine_grid_generator.default", affine_grid},
};

}  // namespace

Decompositions resampling_decompositions() { return kTable; }

}  // namespace nacre
