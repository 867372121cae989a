// Fourier transforms. Along one dim they are prim.fft; several dims are one after the other. A length with a large prime
// factor is a convolution (Bluestein) whose constant half is computed at compile time.
#include <cmath>
#include <numbers>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// ---- One dim, not scaled.

struct Table {
  Tensor cosine, sine;
};

// Of 2 pi k / n for whole numbers k (float64) in [0, n).
Table turns(const Tensor& k, const Expr& n, nacre_dtype dtype) {
  // From -half a turn to half a turn: the smaller the angle, the smaller its error.
  Tensor near = where(gt(k * 2, Operand(n)), k - Operand(n), k);
  Tensor angle = near * (2 * std::numbers::pi) / Operand(max(n, 1));
  return {cast(cos(angle), dtype), cast(sin(angle), dtype)};
}

int64_t largest_prime_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) largest = p;
  return std::max(largest, n);
}

enum class Form { c2c, r2c, c2r };

// The transform of the parts of x, of length n: see prim.fft. Absent `im` of the result: it is real.
struct Parts {
  Tensor re, im;
};

Parts by_primitive(const Parts& x, int64_t dim, const Expr& n, Form form, bool inverse) {
  Builder& b = x.re.builder();
  Table table = turns(cast(iota(b, n), NACRE_f64), n, x.re.dtype());
  Builder::Args args{{"re", ValueRef{x.re.id()}}};
  if (form != Form::r2c) args.emplace_back("im", ValueRef{x.im.id()});
  args.emplace_back("cos", ValueRef{table.cosine.id()});
  args.emplace_back("sin", ValueRef{table.sine.id()});
  args.emplace_back("dim", Expr(dim));
  args.emplace_back("length", n);
  args.emplace_back("inverse", inverse);
  args.emplace_back("form", std::string(form == Form::c2c ? "c2c" : form == Form::r2c ? "r2c" : "c2r"));
  std::vector<ValueId> results = b.make("prim.fft", std::move(args));
  return {{b, results[0]}, results.size() > 1 ? Tensor(b, results[1]) : Tensor()};
}

Parts product_of(const Parts& a, const Parts& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// With w[k] = exp(-+ i pi k^2 / n): y[k] = w[k] * sum of (x[j] w[j]) conj(w[k - j]), a convolution, for which a transform of
// any length m >= 2n - 1 serves. In float64, since the sum is larger than its terms.
Parts by_convolution(const Parts& given, int64_t dim, int64_t n, bool inverse) {
  Builder& b = given.re.builder();
  const nacre_dtype dtype = given.re.dtype();
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  for (int64_t shorter : {m / 8 * 5, m / 4 * 3})
    if (shorter >= 2 * n - 1) {
      m = shorter;
      break;
    }
  Tensor k = iota(b, n);
  Table chirp = turns(cast(remainder(k * k, 2 * n), NACRE_f64), 2 * n, NACRE_f64);
  const Parts w{chirp.cosine, inverse ? chirp.sine : -chirp.sine};
  auto last = [&](const Tensor& t) { return cast(move_dim(t, dim, -1), NACRE_f64); };
  Parts x{last(given.re), last(given.im)};
  x = product_of(x, w);
  auto padded = [&](const Tensor& t) { return pad_dim(t, -1, 0, m - n, 0.0); };
  auto mirrored = [&](const Tensor& t) {
    Tensor gap = full(b, {m - 2 * n + 1}, 0.0, NACRE_f64);
    return concat({t, gap, flip(slice(t, 0, 1, n), {0})}, 0);
  };
  const int64_t at = x.re.rank() - 1;
  Parts kernel = by_primitive({mirrored(w.re), mirrored(-w.im)}, 0, m, Form::c2c, false);
  Parts spectrum = by_primitive({padded(x.re), padded(x.im)}, at, m, Form::c2c, false);
  Parts y = by_primitive(product_of(spectrum, kernel), at, m, Form::c2c, true);
  auto first = [&](const Tensor& t) { return narrow(t, -1, 0, n) * (1.0 / static_cast<double>(m)); };
  y = product_of({first(y.re), first(y.im)}, w);
  auto back = [&](const Tensor& t) { return cast(move_dim(t, -1, dim), dtype); };
  return {back(y.re), back(y.im)};
}

Parts transform(const Parts& x, int64_t dim, const Expr& n, Form form, bool inverse) {
  const auto length = n.constant();
  if (!length || largest_prime_factor(*length) <= 61) return by_primitive(x, dim, n, form, inverse);
  if (form == Form::c2c) return by_convolution(x, dim, *length, inverse);
  if (form == Form::r2c) {
    Parts y = by_convolution({x.re, full_like(x.re, 0)}, dim, *length, inverse);
    return {narrow(y.re, dim, 0, *length / 2 + 1), narrow(y.im, dim, 0, *length / 2 + 1)};
  }
  // The other half of the spectrum mirrors the first. What has no mirror image is real. (The length is odd or not.)
  auto whole = [&](const Tensor& half, bool negate) {
    Tensor rest = flip(slice(half, dim, 1, (*length + 1) / 2), {dim});
    if (!negate) return concat({half, rest}, dim);
    const Tensor k = iota_along(half.builder(), half.shape(), dim);
    const Tensor alone = eq(k, 0) | eq(k * 2, *length);
    return concat({where(alone, full_like(half, 0), half), -rest}, dim);
  };
  return {by_convolution({whole(x.re, false), whole(x.im, true)}, dim, *length, inverse).re, {}};
}

Tensor to_complex_input(const Tensor& x) {
  if (is_complex(x.dtype())) return x;
  Tensor real = to_float(x);
  return complex(real, full_like(real, 0));
}

Tensor c2c(const Tensor& x, int64_t dim, bool inverse) {
  Parts y = transform({real(x), imag(x)}, dim, x.size(dim), Form::c2c, inverse);
  return complex(y.re, y.im);
}

Tensor r2c(const Tensor& x, int64_t dim) {
  Parts y = transform({to_float(x), {}}, dim, x.size(dim), Form::r2c, false);
  return complex(y.re, y.im);
}

Tensor c2r(const Tensor& x, int64_t dim, const Expr& n) {
  return transform({real(x), imag(x)}, dim, n, Form::c2r, true).re;
}

// ---- Scaling: by what PyTorch calls modes 0 (none), 1 (1/sqrt(n)) and 2 (1/n).

Tensor scaled_real(const Tensor& x, const Expr& n, int64_t mode) {
  if (mode == 0) return x;
  if (auto count = n.constant()) {
    const auto size = static_cast<double>(*count);
    return x * (mode == 1 ? 1 / std::sqrt(size) : 1 / size);
  }
  Tensor size = full(x.builder(), {}, n, x.dtype());
  return x / (mode == 1 ? sqrt(size) : size);
}

Tensor scaled(const Tensor& x, const Expr& n, int64_t mode) {
  if (!is_complex(x.dtype())) return scaled_real(x, n, mode);
  return mode == 0 ? x : complex(scaled_real(real(x), n, mode), scaled_real(imag(x), n, mode));
}

// The mode of a direction under norm= "backward" (or none), "ortho" or "forward".
int64_t mode_of(const Call& c, bool forward) {
  const std::string norm = c.text("norm", "backward");
  if (norm == "ortho") return 1;
  if (norm != "backward" && norm != "forward") c.unsupported("norm " + norm);
  return (norm == "forward") == forward ? 2 : 0;
}

Expr lengths(const Tensor& x, const Dims& dims) {
  Expr n(1);
  for (int64_t d : dims) n *= x.size(d);
  return n;
}

// Cut or filled up with zeros to `n` along `dim`.
Tensor resized(const Tensor& x, int64_t dim, const Expr& n) {
  const Expr size = x.size(dim);
  if (size == n || proves_eq(size, n, x.facts())) return x;
  if (proves_le(n, size, x.facts())) return narrow(x, dim, 0, n);
  if (is_complex(x.dtype())) return complex(resized(real(x), dim, n), resized(imag(x), dim, n));
  Tensor longer = pad_dim(x, dim, 0, simplify(max(n - size, 0), x.facts()), 0.0);
  return proves_le(size, n, x.facts()) ? longer : narrow(longer, dim, 0, n);
}

// ---- torch.fft: which dims, of which lengths.

struct Request {
  Dims dims;
  std::vector<std::optional<Expr>> sizes;  // absent: as the input has it
};

Request request(const Call& c, const Tensor& x, const Dims& otherwise) {
  Request r;
  const bool one = c.has("n") || (c.node().op.find("fft2") == std::string::npos && c.node().op.find("fftn") == std::string::npos);
  if (one) {
    r.dims = {c.dim("dim", x.rank(), -1)};
    r.sizes = {c.optional_size("n")};
    return r;
  }
  const Shape sizes = c.sizes("s");
  if (c.has("dim")) {
    for (int64_t d : c.integers("dim")) r.dims.push_back(normalized_dim(d, x.rank()));
  } else if (!otherwise.empty()) {
    for (int64_t d : otherwise) r.dims.push_back(normalized_dim(d, x.rank()));
  } else {
    const int64_t count = sizes.empty() ? x.rank() : static_cast<int64_t>(sizes.size());
    for (int64_t d = x.rank() - count; d < x.rank(); ++d) r.dims.push_back(d);
  }
  for (size_t i = 0; i < r.dims.size(); ++i)
    r.sizes.push_back(sizes.empty() || sizes[i].is(-1) ? std::nullopt : std::optional(sizes[i]));
  return r;
}

Dims default_dims(const Call& c) { return c.op().find("fft2") != std::string::npos ? Dims{-2, -1} : Dims{}; }

Tensor resized(Tensor x, const Request& r, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (r.sizes[i]) x = resized(x, r.dims[i], *r.sizes[i]);
  return x;
}

Results complex_transform(Call& c, bool inverse) {  // fft, ifft
  Tensor x = to_complex_input(c.self());
  const Request r = request(c, x, default_dims(c));
  x = resized(x, r, r.dims.size());
  const Expr n = lengths(x, r.dims);
  for (int64_t d : r.dims) x = c2c(x, d, inverse);
  return scaled(x, n, mode_of(c, !inverse));
}

// rfft; ihfft is its conjugate with the other norm.
Results real_transform(Call& c, bool conjugate) {
  Tensor x = to_float(c.self());
  const Request r = request(c, x, default_dims(c));
  x = resized(x, r, r.dims.size());
  const Expr n = lengths(x, r.dims);
  Tensor y = r2c(x, r.dims.back());
  if (conjugate) y = conj(y);
  for (size_t i = 0; i + 1 < r.dims.size(); ++i) y = c2c(y, r.dims[i], conjugate);
  return scaled(y, n, mode_of(c, !conjugate));
}

// irfft; hfft takes the conjugate and the other norm.
Results to_real_transform(Call& c, bool conjugate) {
  Tensor x = to_complex_input(c.self());
  const Request r = request(c, x, default_dims(c));
  const int64_t last = r.dims.back();
  const Expr n = simplify(r.sizes.back().value_or((x.size(last) - 1) * 2), c.facts());
  x = resized(x, r, r.dims.size() - 1);
  x = resized(x, last, simplify(floordiv(n, 2) + 1, c.facts()));
  Expr total = n;
  for (size_t i = 0; i + 1 < r.dims.size(); ++i) {
    total *= x.size(r.dims[i]);
    x = c2c(x, r.dims[i], !conjugate);
  }
  if (conjugate) x = conj(x);
  return scaled(c2r(x, last, n), total, mode_of(c, conjugate));
}

// ---- The operators that those are made of.

Results fft_c2c(Call& c) {
  Tensor x = c.self();
  const Dims dims = c.dims("dim", x.rank());
  Tensor y = x;
  for (int64_t d : dims) y = c2c(y, d, !c.flag("forward", true));
  return scaled(y, lengths(x, dims), c.integer("normalization", 0));
}

Results fft_r2c(Call& c) {
  Tensor x = c.self();
  Dims dims;
  for (int64_t d : c.integers("dim")) dims.push_back(normalized_dim(d, x.rank()));
  const bool onesided = c.flag("onesided", true);
  Tensor y = onesided ? r2c(x, dims.back()) : c2c(to_complex_input(x), dims.back(), false);
  for (size_t i = 0; i + 1 < dims.size(); ++i) y = c2c(y, dims[i], false);
  return scaled(y, lengths(x, dims), c.integer("normalization", 0));
}

Results fft_c2r(Call& c) {
  Tensor x = c.self();
  Dims dims;
  for (int64_t d : c.integers("dim")) dims.push_back(normalized_dim(d, x.rank()));
  const Expr n = c.size("last_dim_size");
  Expr total = n;
  Tensor y = resized(x, dims.back(), simplify(floordiv(n, 2) + 1, c.facts()));
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    total *= x.size(dims[i]);
    y = c2c(y, dims[i], true);
  }
  return scaled(c2r(y, dims.back(), n), total, c.integer("normalization", 0));
}

// ---- Short-time transforms.

// `window` in the middle of n_fft elements, or ones.
Tensor whole_window(Call& c, const Expr& n_fft, nacre_dtype dtype) {
  const Expr length = c.size("win_length", n_fft);
  Tensor window = c.optional("window");
  Tensor w = window ? cast(window, is_complex(window.dtype()) ? window.dtype() : dtype)
                    : c.full({length}, 1, dtype);
  const Expr left = simplify(floordiv(n_fft - length, 2), c.facts());
  return left.is(0) && length == n_fft ? w : pad_dim(w, 0, left, n_fft - length - left, 0.0);
}

Tensor padded_signal(Call& c, const Tensor& x, const Expr& each) {
  const std::string mode = c.text("pad_mode", "reflect");
  if (mode == "constant") return pad_dim(x, -1, each, each, 0.0);
  const Expr n = x.size(-1);
  if (mode == "reflect")
    return concat({flip(slice(x, -1, 1, each + 1), {-1}), x,
                   flip(slice(x, -1, n - each - 1, n - 1), {-1})}, -1);
  if (mode == "circular") return concat({slice(x, -1, n - each, n), x, slice(x, -1, 0, each)}, -1);
  if (mode == "replicate") {
    Shape shape = x.shape();
    shape.back() = each;
    return concat({expand(narrow(x, -1, 0, 1), shape), x, expand(narrow(x, -1, n - 1, 1), shape)}, -1);
  }
  c.unsupported("pad_mode " + mode);
}

Results stft(Call& c) {
  Tensor x = c.self();
  const bool single = x.rank() == 1;
  if (single) x = unsqueeze(x, 0);
  const Expr n_fft = c.size("n_fft");
  const Expr hop = c.size("hop_length", floordiv(n_fft, 4));
  if (c.op() == "aten.stft.center" && c.flag("center", true))
    x = padded_signal(c, x, simplify(floordiv(n_fft, 2), c.facts()));
  Tensor window_ = whole_window(c, n_fft, real_of(x.dtype()));
  Tensor frames = window(x, -1, n_fft, hop) * window_;
  const bool is_real = !is_complex(frames.dtype());
  Tensor y = is_real && c.flag("onesided", true) ? r2c(frames, 2) : c2c(to_complex_input(frames), 2, false);
  if (c.flag("normalized", false)) y = scaled(y, n_fft, 1);
  y = transpose(y, 1, 2);
  if (single) y = squeeze(y, {0});
  return c.flag("return_complex", false) ? y : view_as_real(y);
}

// Frames [..., F, n], each `hop` after the one before, added up: a frame is a row of blocks of `hop`, and block k of frame f
// belongs to block f + k of the sum.
Tensor overlap_add(const Tensor& frames, int64_t n, int64_t hop) {
  const int64_t blocks = (n + hop - 1) / hop;
  Tensor split = unflatten(pad_dim(frames, -1, 0, blocks * hop - n, 0.0), -1, {blocks, hop});
  Tensor total;
  for (int64_t k = 0; k < blocks; ++k) {
    Tensor part = pad_dim(select(split, -2, k), -2, k, blocks - 1 - k, 0.0);
    total = total ? total + part : part;
  }
  return flatten(total, -2, -1);
}

Results istft(Call& c) {
  Tensor x = c.self();
  if (!is_complex(x.dtype())) x = view_as_complex(x);
  const bool single = x.rank() == 2;
  if (single) x = unsqueeze(x, 0);
  const int64_t n_fft = c.integer("n_fft"), hop = c.integer("hop_length", n_fft / 4);
  const nacre_dtype dtype = real_of(x.dtype());
  const bool to_complex = c.flag("return_complex", false);
  Tensor spectra = transpose(x, 1, 2);
  const bool onesided = c.flag("onesided", !to_complex && !(x.size(1) == Expr(n_fft)));
  Tensor frames = onesided ? c2r(spectra, 2, n_fft) : c2c(spectra, 2, true);
  frames = scaled(frames, n_fft, c.flag("normalized", false) ? 1 : 2);
  if (!onesided && !to_complex) frames = real(frames);
  Tensor window_ = whole_window(c, n_fft, dtype);
  Tensor weighted = frames * window_;
  Shape frame_shape{frames.size(1), Expr(n_fft)};
  Tensor envelope = overlap_add(expand(window_ * window_, frame_shape), n_fft, hop);
  Tensor y = is_complex(weighted.dtype())
                 ? complex(overlap_add(real(weighted), n_fft, hop), overlap_add(imag(weighted), n_fft, hop))
                 : overlap_add(weighted, n_fft, hop);
  const Expr available = (frames.size(1) - 1) * hop + n_fft;
  const Expr start = c.flag("center", true) ? Expr(n_fft / 2) : Expr(0);
  Expr end = simplify(c.flag("center", true) ? available - n_fft / 2 : available, c.facts());
  const auto length = c.optional_size("length");
  if (length) end = simplify(min(start + *length, available), c.facts());
  y = slice(y, -1, start, end) / slice(envelope, -1, start, end);
  if (length) y = resized(y, y.rank() - 1, *length);
  return single ? squeeze(y, {0}) : y;
}

// ---- Frequencies.

Results frequencies(Call& c) {
  const nacre_dtype dtype = c.output_dtype();
  const Expr n = c.size("n"), count = c.output_shape()[0];
  Tensor k = iota(c.builder(), count);
  if (c.op().find("rfftfreq") == std::string::npos)
    k = where(lt(k, Operand(floordiv(n + 1, 2))), k, k - Operand(n));
  Tensor wide = cast(k, dtype);
  return wide * full(c.builder(), {}, 1.0 / (c.real("d", 1.0) * static_cast<double>(c.integer("n"))), dtype);
}

Results fft(Call& c) { return complex_transform(c, false); }
Results ifft(Call& c) { return complex_transform(c, true); }
Results rfft(Call& c) { return real_transform(c, false); }
Results ihfft(Call& c) { return real_transform(c, true); }
Results irfft(Call& c) { return to_real_transform(c, false); }
Results hfft(Call& c) { return to_real_transform(c, true); }

constexpr Decomposition kTable[] = {
    {"_fft_c2c.default", fft_c2c},
    {"_fft_r2c.default", fft_r2c},
    {"_fft_c2r.default", fft_c2r},
    {"fft_fft.default", fft},
    {"fft_fft2.default", fft},
    {"fft_fftn.default", fft},
    {"fft_ifft.default", ifft},
    {"fft_ifft2.default", ifft},
    {"fft_ifftn.default", ifft},
    {"fft_rfft.default", rfft},
    {"fft_rfft2.default", rfft},
    {"fft_rfftn.default", rfft},
    {"fft_irfft.default", irfft},
    {"fft_irfft2.default", irfft},
    {"fft_irfftn.default", irfft},
    {"fft_hfft.default", hfft},
    {"fft_hfft2.default", hfft},
    {"fft_hfftn.default", hfft},
    {"fft_ihfft.default", ihfft},
    {"fft_ihfft2.default", ihfft},
    {"fft_ihfftn.default", ihfft},
    {"fft_fftfreq.default", frequencies},
    {"fft_rfftfreq.default", frequencies},
    {"stft.default", stft},
    {"stft.center", stft},
    {"istft.default", istft},
};

}  // namespace

Decompositions fourier_decompositions() { return kTable; }

}  // namespace nacre
