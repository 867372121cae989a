#include "compiler/graph/decompose_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/support/error.h"

namespace nacre {

// ---- Scalar types.

namespace {

int bits(nacre_dtype dtype) { return static_cast<int>(nacre_dtype_size_bytes(dtype)) * 8; }

// bool < integers < floating < complex, as type promotion orders them.
int category(nacre_dtype dtype) {
  switch (kind_of(dtype)) {
    case 'b':
      return 1;
    case 'u':
    case 'i':
      return 2;
    case 'f':
      return 3;
    case 'c':
      return 4;
    default:
      return 0;
  }
}

}  // namespace

nacre_dtype promote(nacre_dtype a, nacre_dtype b) {
  if (a == b) return a;
  if (category(a) > category(b)) std::swap(a, b);  // b is of the higher category
  if (category(a) != category(b)) {
    if (category(a) == 3 && category(b) == 4) return promote(complex_of(a), b);
    return b;
  }
  switch (category(a)) {
    case 2: {
      if (kind_of(a) == kind_of(b)) return bits(a) > bits(b) ? a : b;
      nacre_dtype u = kind_of(a) == 'u' ? a : b;
      nacre_dtype s = kind_of(a) == 'u' ? b : a;
      if (bits(s) > bits(u)) return s;
      if (u == NACRE_u8) return NACRE_i16;  // with int8
      fail(ErrorKind::user, "no common type for {} and {}", nacre_dtype_name(a),
           nacre_dtype_name(b));
    }
    case 3:
      if (bits(a) == 16 && bits(b) == 16) return NACRE_f32;
      return bits(a) > bits(b) ? a : b;
    default:
      return bits(a) > bits(b) ? a : b;
  }
}

nacre_dtype float_for(nacre_dtype dtype) { return is_integer_or_bool(dtype) ? NACRE_f32 : dtype; }

double largest(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_f16:
      return 65504.0;
    case NACRE_bf16:
      return 3.3895313892515355e38;
    case NACRE_f32:
      return static_cast<double>(std::numeric_limits<float>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

double epsilon(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_f16:
      return 0.0009765625;
    case NACRE_bf16:
      return 0.0078125;
    case NACRE_f32:
      return static_cast<double>(std::numeric_limits<float>::epsilon());
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

double padding_below(nacre_dtype dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  if (kind_of(dtype) != 'i') return 0;
  return -std::ldexp(1.0, bits(dtype) - 1);
}

double padding_above(nacre_dtype dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::infinity();
  if (dtype == NACRE_bool_) return 1;
  int width = kind_of(dtype) == 'i' ? bits(dtype) - 1 : bits(dtype);
  return width <= 53 ? std::ldexp(1.0, width) - 1
                     : std::ldexp(1.0, width) - std::ldexp(1.0, width - 53);
}

// ---- Numbers.

nacre_dtype Number::dtype() const {
  if (std::holds_alternative<Expr>(value)) return NACRE_i64;
  if (std::holds_alternative<std::complex<double>>(value)) return NACRE_c64;
  return std::holds_alternative<double>(value) ? NACRE_f32 : NACRE_bool_;
}

std::optional<double> Number::constant() const {
  if (auto* e = std::get_if<Expr>(&value)) {
    if (auto c = e->constant()) return static_cast<double>(*c);
    return std::nullopt;
  }
  if (auto* d = std::get_if<double>(&value)) return *d;
  if (auto* b = std::get_if<bool>(&value)) return *b ? 1.0 : 0.0;
  return std::nullopt;
}

Expr Number::integer() const {
  if (auto* e = std::get_if<Expr>(&value)) return *e;
  if (auto* d = std::get_if<double>(&value)) {
    if (!(std::abs(*d) < 9.3e18)) fail(ErrorKind::user, "{} does not fit in an integer", *d);
    return Expr(static_cast<int64_t>(*d));
  }
  if (auto* b = std::get_if<bool>(&value)) return Expr(*b ? 1 : 0);
  fail(ErrorKind::user, "a complex number is no integer");
}

// ---- Sizes.

int64_t normalized_dim(int64_t dim, int64_t rank) {
  int64_t limit = std::max<int64_t>(rank, 1);
  if (dim < -limit || dim >= limit)
    fail(ErrorKind::user, "dim {} is out of range for a tensor of rank {}", dim, rank);
  return dim < 0 ? dim + limit : dim;
}

Dims normalized_dims(const Dims& dims, int64_t rank) {
  Dims result;
  for (int64_t d : dims) result.push_back(normalized_dim(d, rank));
  std::sort(result.begin(), result.end());
  return result;
}

Dims all_dims(int64_t rank) {
  Dims dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return dims;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const Facts& facts) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t skip = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); i++) {
    Expr& r = result[skip + i];
    const Expr& s = shorter[i];
    if (r == s || s.is(1)) continue;
    if (r.is(1)) {
      r = s;
      continue;
    }
    if (r.constant() && s.constant())
      fail(ErrorKind::user, "sizes {} and {} do not broadcast", r.str(), s.str());
    // Export has made sure that they are equal: it guards on sizes that broadcasting compares.
    if (s.constant() && !proves_eq(r, s, facts)) r = s;
  }
  return result;
}

bool same_shape(const Shape& a, const Shape& b, const Facts& facts) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++)
    if (a[i] != b[i] && !proves_eq(a[i], b[i], facts)) return false;
  return true;
}

nacre_dtype result_type(const std::vector<Operand>& operands) {
  nacre_dtype dimensioned = NACRE_DTYPE_NONE, zero = NACRE_DTYPE_NONE, wrapped = NACRE_DTYPE_NONE;
  auto widen = [](nacre_dtype& state, nacre_dtype dtype) {
    state = state == NACRE_DTYPE_NONE ? dtype : promote(state, dtype);
  };
  for (const Operand& o : operands) {
    if (auto* t = o.tensor()) {
      if (*t && t->is_number())
        widen(wrapped, is_floating(t->dtype()) ? NACRE_f32 : t->dtype());
      else if (*t)
        widen(t->rank() > 0 ? dimensioned : zero, t->dtype());
    } else {
      widen(wrapped, o.number()->dtype());
    }
  }
  auto combine = [](nacre_dtype higher, nacre_dtype lower) {
    if (higher == NACRE_DTYPE_NONE) return lower;
    if (lower == NACRE_DTYPE_NONE || category(higher) >= category(lower)) {
      // A complex number with a floating tensor takes the tensor's precision, hence `>=` and not
      // `==`.
      return higher;
    }
    if (category(lower) == 4 && category(higher) == 3) return promote(complex_of(higher), lower);
    return promote(higher, lower);
  };
  return combine(dimensioned, combine(zero, wrapped));
}

// ---- Creation.

Tensor full(Builder& b, Shape shape, const Number& value, nacre_dtype dtype) {
  if (dtype == NACRE_bool_) {
    auto constant = value.constant();
    if (constant) return {b, b.full_bool(std::move(shape), *constant != 0)};
    return {b, b.cast(b.full(std::move(shape), value.integer(), NACRE_i64), NACRE_bool_)};
  }
  if (is_floating(dtype)) {
    if (auto constant = value.constant()) return {b, b.full(std::move(shape), *constant, dtype)};
    return {b, b.full(std::move(shape), value.integer(), dtype)};
  }
  if (is_complex(dtype)) {
    const nacre_dtype part = real_of(dtype);
    auto* c = std::get_if<std::complex<double>>(&value.value);
    return complex(full(b, shape, c ? Number(c->real()) : value, part),
                   full(b, shape, c ? c->imag() : 0.0, part));
  }
  if (!is_integer(dtype))
    fail(ErrorKind::unsupported, "a constant of type {}", nacre_dtype_name(dtype));
  Expr integer = value.integer();
  if (auto constant = integer.constant(); constant && bits(dtype) < 64) {  // wraps, as in C
    int shift = 64 - bits(dtype);
    uint64_t up = static_cast<uint64_t>(*constant) << shift;
    integer = kind_of(dtype) == 'i' ? static_cast<int64_t>(up) >> shift
                                    : static_cast<int64_t>(up >> shift);
  }
  return {b, b.full(std::move(shape), std::move(integer), dtype)};
}

Tensor full_like(const Tensor& x, const Number& value) {
  return full(x.builder(), x.shape(), value, x.dtype());
}

Tensor filled(Builder& b, const Shape& shape, const Operand& value, nacre_dtype dtype) {
  if (auto* t = value.tensor()) return expand(cast(*t, dtype), shape);
  return full(b, shape, *value.number(), dtype);
}

Tensor iota(Builder& b, const Expr& length, const Expr& start, const Expr& step,
            nacre_dtype dtype) {
  return {b, b.iota(length, start, step, dtype)};
}

Tensor iota_along(Builder& b, const Shape& shape, int64_t dim) {
  dim = normalized_dim(dim, static_cast<int64_t>(shape.size()));
  return broadcast(iota(b, shape[static_cast<size_t>(dim)]), shape, {dim});
}

// ---- Types.

Tensor cast(const Tensor& x, nacre_dtype dtype) {
  if (x.dtype() == dtype) return x;
  if (is_complex(x.dtype()) && dtype == NACRE_bool_)
    return bitwise_or(cast(real(x), dtype), cast(imag(x), dtype));
  if (is_complex(x.dtype()) && !is_complex(dtype)) return cast(real(x), dtype);
  if (is_complex(dtype))
    return complex(cast(real(x), real_of(dtype)), cast(imag(x), real_of(dtype)));
  return {x.builder(), x.builder().cast(x.id(), dtype)};
}
Tensor to_float(const Tensor& x) { return cast(x, float_for(x.dtype())); }
Tensor to_bool(const Tensor& x) { return cast(x, NACRE_bool_); }
Tensor to_compute(const Tensor& x) { return cast(x, compute_type(float_for(x.dtype()))); }

Tensor as_tensor(Builder& b, const Operand& x, nacre_dtype dtype) {
  if (auto* t = x.tensor()) return cast(*t, dtype);
  return full(b, {}, *x.number(), dtype);
}

// ---- Complex numbers.

namespace {

Tensor made(const Tensor& x, const char* primitive) {
  return {x.builder(), x.builder().make_one(primitive, {{"x", ValueRef{x.id()}}})};
}

}  // namespace

Tensor real(const Tensor& x) { return is_complex(x.dtype()) ? made(x, "prim.real") : x; }
Tensor imag(const Tensor& x) { return is_complex(x.dtype()) ? made(x, "prim.imag") : full_like(x, 0); }
Tensor complex(const Tensor& re, const Tensor& im) {
  Builder& b = re.builder();
  return {b, b.make_one("prim.complex", {{"re", ValueRef{re.id()}}, {"im", ValueRef{im.id()}}})};
}
Tensor conj(const Tensor& x) { return is_complex(x.dtype()) ? complex(real(x), -imag(x)) : x; }
Tensor view_as_real(const Tensor& x) { return made(x, "prim.view_as_real"); }

Tensor hypot(const Operand& a, const Operand& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor x = abs(*a.tensor()), y = abs(*b.tensor());
  Tensor high = maximum(x, y), low = minimum(x, y);
  Tensor ratio = low / high;
  Tensor plain = high * sqrt(ratio * ratio + 1);
  Tensor infinite = eq(x, kInfinity) | eq(y, kInfinity);
  return where(infinite, full_like(plain, kInfinity), where(eq(high, 0), high, plain));
}
Tensor view_as_complex(const Tensor& x) { return made(x, "prim.view_as_complex"); }

// ---- Pointwise.

namespace {

Builder& builder_of(const Operand& a, const Operand& b) {
  if (auto* t = a.tensor()) return t->builder();
  check(b.tensor() != nullptr, "a pointwise primitive of two numbers");
  return b.tensor()->builder();
}

Tensor unary(const std::string& primitive, const Tensor& a) {
  return {a.builder(), a.builder().pointwise(primitive, {a.id()})};
}

Tensor materialize(const Operand& x, const Shape& shape, nacre_dtype dtype, Builder& b) {
  if (auto* t = x.tensor()) return expand(cast(*t, dtype), shape);
  return full(b, shape, *x.number(), dtype);
}

}  // namespace

namespace {

// ATen's kernels take the scalar of such an operation in float32, not rounded to the tensor's type.
bool keeps_scalar_wide(const std::string& primitive, const Operand& a, const Operand& b) {
  if (primitive != "add" && primitive != "sub" && primitive != "mul" && primitive != "div")
    return false;
  auto scalar = [](const Operand& x) { return !x.tensor() || x.tensor()->rank() == 0; };
  return scalar(a) != scalar(b);
}

}  // namespace

namespace {

// Arithmetic of conditions is logic.
std::string of_bool(const std::string& primitive) {
  if (primitive == "add" || primitive == "maximum" || primitive == "fmax") return "bitwise_or";
  if (primitive == "mul" || primitive == "minimum" || primitive == "fmin") return "bitwise_and";
  return primitive;
}

}  // namespace

Tensor binary(const std::string& primitive, const Operand& a, const Operand& b, nacre_dtype dtype) {
  Builder& builder = builder_of(a, b);
  if (dtype == NACRE_bool_ && of_bool(primitive) != primitive)
    return binary(of_bool(primitive), a, b, dtype);
  if (nacre_dtype wide = compute_type(dtype); wide != dtype && keeps_scalar_wide(primitive, a, b))
    return cast(binary(primitive, a, b, wide), dtype);
  Shape shape;
  for (const Operand* o : {&a, &b})
    if (auto* t = o->tensor()) shape = broadcast_shapes(shape, t->shape(), builder.graph().symbols);
  Tensor x = materialize(a, shape, dtype, builder);
  Tensor y = materialize(b, shape, dtype, builder);
  return {builder, builder.pointwise(primitive, {x.id(), y.id()})};
}

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  Builder& builder = condition.builder();
  nacre_dtype dtype = result_type({a, b});
  Shape shape = condition.shape();
  for (const Operand* o : {&a, &b})
    if (auto* t = o->tensor()) shape = broadcast_shapes(shape, t->shape(), builder.graph().symbols);
  Tensor c = expand(to_bool(condition), shape);
  Tensor x = materialize(a, shape, dtype, builder);
  Tensor y = materialize(b, shape, dtype, builder);
  return {builder, builder.where(c.id(), x.id(), y.id())};
}

#define NACRE_ARITY_1(op) \
  Tensor op(const Tensor& a) { return unary(#op, a); }
#define NACRE_ARITY_2(op) \
  Tensor op(const Operand& a, const Operand& b) { return binary(#op, a, b, result_type({a, b})); }
#define NACRE_ARITY_3(op)
#define NACRE_POINTWISE(name, arity, result, cost, expression) NACRE_ARITY_##arity(name)
#include "compiler/graph/ops.def"
#undef NACRE_ARITY_1
#undef NACRE_ARITY_2
#undef NACRE_ARITY_3

// ---- Views.

Tensor broadcast(const Tensor& x, const Shape& shape, const Dims& dims) {
  return {x.builder(), x.builder().broadcast(x.id(), shape, dims)};
}

Tensor expand(const Tensor& x, const Shape& shape) {
  int64_t skip = static_cast<int64_t>(shape.size()) - x.rank();
  if (skip < 0)
    fail(ErrorKind::user, "a tensor of rank {} does not expand to rank {}", x.rank(), shape.size());
  if (x.shape() == shape) return x;
  Dims dims = all_dims(x.rank());
  for (int64_t& d : dims) d += skip;
  return broadcast(x, shape, dims);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape result = shape;
  for (size_t i = 0; i < result.size(); i++) {
    if (!result[i].is(-1)) continue;
    Shape others = result;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    Expr rest = product(others);
    // Sizes that both shapes have cancel before the division.
    Shape own = x.shape();
    Shape left;
    for (const Expr& e : others) {
      auto it = std::find(own.begin(), own.end(), e);
      if (it == own.end())
        left.push_back(e);
      else if (!e.is(0))
        own.erase(it);
    }
    result[i] = rest.is(0) ? Expr(0) : simplify(floordiv(product(own), product(left)), x.facts());
  }
  return {x.builder(), x.builder().reshape(x.id(), std::move(result))};
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  if (x.rank() == 0) return reshape(x, {1});
  first = normalized_dim(first, x.rank());
  last = normalized_dim(last, x.rank());
  Shape shape(x.shape().begin(), x.shape().begin() + first);
  Shape middle(x.shape().begin() + first, x.shape().begin() + last + 1);
  shape.push_back(product(middle));
  shape.insert(shape.end(), x.shape().begin() + last + 1, x.shape().end());
  return reshape(x, shape);
}

Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes) {
  dim = normalized_dim(dim, x.rank());
  Shape shape = x.shape();
  shape.erase(shape.begin() + dim);
  Shape parts = sizes;
  for (Expr& part : parts) {
    if (!part.is(-1)) continue;
    Expr rest(1);
    for (const Expr& p : sizes)
      if (!p.is(-1)) rest *= p;
    part = rest.is(0) ? Expr(0) : simplify(floordiv(x.size(dim), rest), x.facts());
  }
  shape.insert(shape.begin() + dim, parts.begin(), parts.end());
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const Dims& dims) {
  Dims normal;
  for (int64_t d : dims) normal.push_back(normalized_dim(d, x.rank()));
  return {x.builder(), x.builder().permute(x.id(), std::move(normal))};
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  if (x.rank() == 0) return x;
  Dims dims = all_dims(x.rank());
  std::swap(dims[static_cast<size_t>(normalized_dim(dim0, x.rank()))],
            dims[static_cast<size_t>(normalized_dim(dim1, x.rank()))]);
  return permute(x, dims);
}

Tensor move_dim(const Tensor& x, int64_t from, int64_t to) {
  if (x.rank() == 0) return x;
  from = normalized_dim(from, x.rank());
  to = normalized_dim(to, x.rank());
  Dims dims = all_dims(x.rank());
  dims.erase(dims.begin() + from);
  dims.insert(dims.begin() + to, from);
  return permute(x, dims);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  dim = normalized_dim(dim, x.rank() + 1);
  Shape shape = x.shape();
  shape.insert(shape.begin() + dim, Expr(1));
  Dims dims = all_dims(x.rank());
  for (int64_t& d : dims)
    if (d >= dim) d++;
  return broadcast(x, shape, dims);
}

Tensor squeeze(const Tensor& x, const Dims& dims) {
  Shape shape;
  for (int64_t d = 0; d < x.rank(); d++) {
    bool named = std::any_of(dims.begin(), dims.end(),
                             [&](int64_t s) { return normalized_dim(s, x.rank()) == d; });
    if (!(named && x.size(d).is(1))) shape.push_back(x.size(d));
  }
  return reshape(x, shape);
}

Tensor slice(const Tensor& x, int64_t dim, const Expr& start, const Expr& end, const Expr& step) {
  dim = normalized_dim(dim, x.rank());
  return {x.builder(), x.builder().slice(x.id(), dim, start, end, step)};
}

Tensor narrow(const Tensor& x, int64_t dim, const Expr& start, const Expr& length) {
  return slice(x, dim, start, start + length);
}

Tensor select(const Tensor& x, int64_t dim, const Expr& index) {
  dim = normalized_dim(dim, x.rank());
  Tensor one = slice(x, dim, index, index + 1);
  Shape shape = one.shape();
  shape.erase(shape.begin() + dim);
  return reshape(one, shape);
}

Tensor flip(const Tensor& x, const Dims& dims) {
  if (x.rank() == 0) return x;
  return {x.builder(), x.builder().flip(x.id(), normalized_dims(dims, x.rank()))};
}

Tensor pad(const Tensor& x, const Shape& low, const Shape& high, const Number& value) {
  Tensor y = x;
  Shape pad_low, pad_high;
  for (int64_t d = 0; d < x.rank(); d++) {
    // A negative amount cuts; what is cut on both sides may not exceed the size, which export has
    // checked.
    auto i = static_cast<size_t>(d);
    Expr cut_low = simplify(max(-low[i], 0), x.facts());
    Expr cut_high = simplify(max(-high[i], 0), x.facts());
    if (!cut_low.is(0) || !cut_high.is(0)) y = slice(y, d, cut_low, x.size(d) - cut_high);
    pad_low.push_back(simplify(max(low[i], 0), x.facts()));
    pad_high.push_back(simplify(max(high[i], 0), x.facts()));
  }
  bool nothing = true;
  for (size_t i = 0; i < pad_low.size(); i++)
    nothing = nothing && pad_low[i].is(0) && pad_high[i].is(0);
  if (nothing) return y;
  auto constant = value.constant();
  if (!constant) fail(ErrorKind::unsupported, "padding with a value known at run time only");
  double filler = *constant;
  if (x.dtype() == NACRE_bool_)
    filler = filler != 0 ? 1 : 0;
  else if (is_integer(x.dtype()))
    filler = std::trunc(filler);
  return {x.builder(), x.builder().pad(y.id(), pad_low, pad_high, filler)};
}

Tensor pad_dim(const Tensor& x, int64_t dim, const Expr& low, const Expr& high,
               const Number& value) {
  Shape lows(static_cast<size_t>(x.rank()), Expr(0)), highs = lows;
  auto i = static_cast<size_t>(normalized_dim(dim, x.rank()));
  lows[i] = low;
  highs[i] = high;
  return pad(x, lows, highs, value);
}

Tensor concat(const std::vector<Tensor>& inputs, int64_t dim) {
  check(!inputs.empty(), "a concat of nothing");
  std::vector<ValueId> ids;
  for (const Tensor& t : inputs) ids.push_back(t.id());
  Builder& b = inputs[0].builder();
  return {b, b.concat(std::move(ids), normalized_dim(dim, inputs[0].rank()))};
}

Tensor stack(const std::vector<Tensor>& inputs, int64_t dim) {
  check(!inputs.empty(), "a stack of nothing");
  dim = normalized_dim(dim, inputs[0].rank() + 1);
  std::vector<Tensor> rows;
  for (const Tensor& t : inputs) rows.push_back(unsqueeze(t, dim));
  return concat(rows, dim);
}

Tensor window(const Tensor& x, int64_t dim, const Expr& size, const Expr& step,
              const Expr& dilation) {
  return {x.builder(),
          x.builder().window(x.id(), normalized_dim(dim, x.rank()), size, step, dilation)};
}

Tensor select_scatter_range(const Tensor& x, const Tensor& src, int64_t dim, const Expr& start,
                            const Expr& step) {
  return {x.builder(), x.builder().select_scatter_range(
                           x.id(), src.id(), normalized_dim(dim, x.rank()), start, step)};
}

// ---- Reductions.

namespace {

Tensor reduce(const std::string& primitive, const Tensor& x, const Dims& dims, bool keepdim) {
  if (x.rank() == 0 || dims.empty()) return x;
  return {x.builder(),
          x.builder().reduce(primitive, x.id(), normalized_dims(dims, x.rank()), keepdim)};
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  nacre_dtype dtype = is_integer_or_bool(x.dtype()) ? NACRE_i64 : compute_type(x.dtype());
  Tensor result = reduce("sum", cast(x, dtype), dims, keepdim);
  return is_floating(x.dtype()) ? cast(result, x.dtype()) : result;
}

Tensor prod(const Tensor& x, const Dims& dims, bool keepdim) {
  nacre_dtype dtype = is_integer_or_bool(x.dtype()) ? NACRE_i64 : compute_type(x.dtype());
  Tensor result = reduce("prod", cast(x, dtype), dims, keepdim);
  return is_floating(x.dtype()) ? cast(result, x.dtype()) : result;
}

Tensor amax(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduce(x.dtype() == NACRE_bool_ ? "any" : "amax", x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduce(x.dtype() == NACRE_bool_ ? "all" : "amin", x, dims, keepdim);
}
Tensor any(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduce("any", to_bool(x), dims, keepdim);
}
Tensor all(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduce("all", to_bool(x), dims, keepdim);
}

Tensor argmax(const Tensor& x, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return full(x.builder(), {}, 0, NACRE_i64);
  return reduce("argmax", x.dtype() == NACRE_bool_ ? cast(x, NACRE_u8) : x, {dim}, keepdim);
}
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return full(x.builder(), {}, 0, NACRE_i64);
  return reduce("argmin", x.dtype() == NACRE_bool_ ? cast(x, NACRE_u8) : x, {dim}, keepdim);
}

Expr count(const Tensor& x, const Dims& dims) {
  Expr n(1);
  if (x.rank() == 0) return n;
  for (int64_t d : normalized_dims(dims, x.rank())) n *= x.size(d);
  return n;
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  Tensor total = sum(to_compute(x), dims, keepdim);
  return cast(total / Operand(count(x, dims)), x.dtype());
}

Tensor scan(const std::string& primitive, const Tensor& x, int64_t dim) {
  if (x.rank() == 0) return x;
  return {x.builder(), x.builder().scan(primitive, x.id(), normalized_dim(dim, x.rank()))};
}

std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t dim, bool descending) {
  Builder& b = x.builder();
  if (x.rank() == 0) return {x, full(b, {}, 0, NACRE_i64)};
  auto [values, indices] = b.sort(x.id(), normalized_dim(dim, x.rank()), descending, true);
  return {Tensor(b, values), Tensor(b, indices)};
}

// ---- Indexing.

namespace {

// Integer index tensors in int64, broadcast to their common shape.
std::vector<ValueId> common_indices(const Tensor& x, const std::vector<Tensor>& indices) {
  Shape shape;
  for (const Tensor& i : indices)
    if (i) shape = broadcast_shapes(shape, i.shape(), x.facts());
  std::vector<ValueId> ids;
  for (const Tensor& i : indices)
    ids.push_back(i ? expand(cast(i, NACRE_i64), shape).id() : kNoValue);
  return ids;
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  return {x.builder(), x.builder().index(x.id(), common_indices(x, indices))};
}

Tensor index_dim(const Tensor& x, int64_t dim, const Tensor& indices) {
  std::vector<Tensor> all(static_cast<size_t>(normalized_dim(dim, x.rank())));
  all.push_back(indices);
  return {x.builder(), x.builder().index(x.id(), common_indices(x, all), false)};
}

Tensor gather(const Tensor& x, const Tensor& index, int64_t dim) {
  if (x.rank() > 0 && index.rank() > 0 && x.rank() != index.rank()) {  // only an empty index may have another rank
    if (!index.elements().is(0)) fail(ErrorKind::user, "an index of rank {} for a tensor of rank {}", index.rank(), x.rank());
    return full(x.builder(), index.shape(), 0, x.dtype());
  }
  if (x.rank() == 0) {
    if (index.rank() == 0) return reshape(gather(reshape(x, {1}), reshape(index, {1}), 0), {});
    return gather(reshape(x, {1}), index, 0);
  }
  if (index.rank() == 0) return reshape(gather(x, reshape(index, {1}), dim), {});
  return {x.builder(),
          x.builder().gather(x.id(), cast(index, NACRE_i64).id(), normalized_dim(dim, x.rank()))};
}

Tensor index_put(const Tensor& x, const Tensor& values, const std::vector<Tensor>& indices,
                 bool accumulate, bool wrap) {
  return {x.builder(),
          x.builder().index_put(x.id(), values.id(), common_indices(x, indices), accumulate, wrap)};
}

Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, int64_t dim,
               const std::string& reduce) {
  if (x.rank() == 0) {
    auto one = [](const Tensor& t) { return t.rank() == 0 ? reshape(t, {1}) : t; };
    return reshape(scatter(one(x), one(index), one(src), 0, reduce), {});
  }
  if (index.rank() == 0)
    return scatter(x, reshape(index, {1}), src.rank() == 0 ? reshape(src, {1}) : src, dim, reduce);
  return {x.builder(), x.builder().scatter(x.id(), cast(index, NACRE_i64).id(), src.id(),
                                           normalized_dim(dim, x.rank()), reduce)};
}

// ---- Contractions.

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() == 1 && b.rank() == 1)
    return reshape(matmul(reshape(a, {1, a.size(0)}), reshape(b, {b.size(0), 1})), {});
  if (a.rank() == 1) return squeeze(matmul(reshape(a, {1, a.size(0)}), b), {-2});
  if (b.rank() == 1) return squeeze(matmul(a, reshape(b, {b.size(0), 1})), {-1});
  Builder& builder = a.builder();
  if (b.rank() == 2 && a.rank() > 2) {  // one product over all rows
    Shape shape = a.shape();
    shape.back() = b.size(1);
    Tensor rows = reshape(a, {product(Shape(a.shape().begin(), a.shape().end() - 1)), a.size(-1)});
    return reshape(matmul(rows, b), shape);
  }
  Shape batch = broadcast_shapes(Shape(a.shape().begin(), a.shape().end() - 2),
                                 Shape(b.shape().begin(), b.shape().end() - 2), a.facts());
  auto batched = [&](const Tensor& t) {
    Shape shape = batch;
    shape.push_back(t.size(-2));
    shape.push_back(t.size(-1));
    return expand(t, shape);
  };
  return {builder, builder.matmul(batched(a).id(), batched(b).id())};
}

}  // namespace nacre
