// How decompositions are written: with `Tensor`, a value of the primitive graph under construction,
// and PyTorch's rules of broadcasting and type promotion.
//
//   Tensor x = call.tensor("self");
//   return x * sigmoid(x);          // prim.sigmoid, prim.mul
//   return clamp(x + 3, 0, 6) / 6;  // numbers become prim.full in the dtype that promotion gives
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/support/dtype.h"

namespace nacre {

using Shape = std::vector<Expr>;
using Dims = std::vector<int64_t>;

// ---- Scalar types.

nacre_dtype promote(nacre_dtype a, nacre_dtype b);  // torch.promote_types
nacre_dtype float_for(nacre_dtype dtype);           // float32 for integers and bool
double largest(nacre_dtype dtype);        // torch.finfo(dtype).max
double epsilon(nacre_dtype dtype);        // torch.finfo(dtype).eps
double padding_below(nacre_dtype dtype);  // -inf, or the least integer
double padding_above(nacre_dtype dtype);  // +inf, or the greatest integer that a double holds

// ---- Numbers.

// A Python number: an integer (perhaps over symbols), a float, a bool or a complex number.
struct Number {
  std::variant<Expr, double, bool, std::complex<double>> value;

  Number(Expr v) : value(std::move(v)) {}  // NOLINT(google-explicit-constructor)
  Number(int v) : value(Expr(v)) {}        // NOLINT(google-explicit-constructor)
  Number(int64_t v) : value(Expr(v)) {}    // NOLINT(google-explicit-constructor)
  Number(double v) : value(v) {}           // NOLINT(google-explicit-constructor)
  Number(bool v) : value(v) {}             // NOLINT(google-explicit-constructor)
  Number(std::complex<double> v) : value(v) {}  // NOLINT(google-explicit-constructor)

  nacre_dtype dtype() const;  // bool, int64, float32 or complex64: what it counts as in promotion
  std::optional<double> constant() const;  // absent for an expression over symbols
  bool is(double number) const { return constant() == number; }
  Expr integer() const;  // truncated
};

// ---- Tensors.

class Tensor {
 public:
  Tensor() = default;  // absent
  Tensor(Builder& builder, ValueId id)
      : builder_(&builder), id_(id), shape_(std::make_shared<const Shape>(builder.shape(id))) {}

  explicit operator bool() const { return id_ != kNoValue; }
  ValueId id() const { return id_; }
  Builder& builder() const { return *builder_; }
  const Facts& facts() const { return builder_->graph().symbols; }
  nacre_dtype dtype() const { return builder_->dtype(id_); }
  const Shape& shape() const { return *shape_; }
  int64_t rank() const { return builder_->rank(id_); }
  Expr size(int64_t dim) const {
    return builder_->size(id_, dim);
  }  // a negative dim counts from the end
  Expr elements() const { return builder_->elements(id_); }
  // Of no dims, and counts as a Python number where types are promoted.
  Tensor as_number() const {
    Tensor t = *this;
    t.number_ = true;
    return t;
  }
  bool is_number() const { return number_; }

 private:
  Builder* builder_ = nullptr;
  ValueId id_ = kNoValue;
  bool number_ = false;
  std::shared_ptr<const Shape> shape_;  // the graph's own moves when values are added
};

// A tensor or a number, as most binary operators of PyTorch take. (The loop IR has an Operand of
// its own.)
inline namespace decomposing {
struct Operand {
  std::variant<Tensor, Number> value;

  Operand(Tensor v) : value(std::move(v)) {}        // NOLINT(google-explicit-constructor)
  Operand(Number v) : value(std::move(v)) {}        // NOLINT(google-explicit-constructor)
  Operand(Expr v) : value(Number(std::move(v))) {}  // NOLINT(google-explicit-constructor)
  Operand(int v) : value(Number(v)) {}              // NOLINT(google-explicit-constructor)
  Operand(int64_t v) : value(Number(v)) {}          // NOLINT(google-explicit-constructor)
  Operand(double v) : value(Number(v)) {}           // NOLINT(google-explicit-constructor)

  const Tensor* tensor() const { return std::get_if<Tensor>(&value); }
  const Number* number() const { return std::get_if<Number>(&value); }
  bool is(double constant) const { return number() && number()->is(constant); }
};
}  // namespace decomposing

// torch.result_type: dimensioned tensors before 0-d tensors before numbers, within a category the
// widest.
nacre_dtype result_type(const std::vector<Operand>& operands);

// dims and sizes
int64_t normalized_dim(int64_t dim, int64_t rank);  // rank 0 counts as 1; Error{user} out of range
Dims normalized_dims(const Dims& dims, int64_t rank);  // sorted; empty stays empty
Dims all_dims(int64_t rank);
Shape broadcast_shapes(const Shape& a, const Shape& b, const Facts& facts);
bool same_shape(const Shape& a, const Shape& b, const Facts& facts);

// ---- Creation.
Tensor full(Builder& b, Shape shape, const Number& value, nacre_dtype dtype);
Tensor full_like(const Tensor& x, const Number& value);
Tensor filled(Builder& b, const Shape& shape, const Operand& value, nacre_dtype dtype);  // perhaps a tensor of no dims
Tensor iota(Builder& b, const Expr& length, const Expr& start = 0, const Expr& step = 1,
            nacre_dtype dtype = NACRE_i64);
// 0, 1, ... along `dim` of a tensor of this shape, broadcast to it.
Tensor iota_along(Builder& b, const Shape& shape, int64_t dim);

// ---- Types.
Tensor cast(const Tensor& x, nacre_dtype dtype);
Tensor to_float(const Tensor& x);  // integers and bool to float32
Tensor to_bool(const Tensor& x);
Tensor to_compute(const Tensor& x);  // to_float, then the 16-bit floats to float32
Tensor as_tensor(Builder& b, const Operand& x, nacre_dtype dtype);  // a number becomes a 0-d tensor

// ---- Complex numbers. The parts of a real tensor are itself and 0.
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);
Tensor complex(const Tensor& re, const Tensor& im);  // of one floating type
Tensor conj(const Tensor& x);
Tensor view_as_real(const Tensor& x);
Tensor view_as_complex(const Tensor& x);
Tensor hypot(const Operand& a, const Operand& b);  // of floating tensors, without overflow

// ---- Pointwise primitives: operands are promoted and broadcast against each other. `where`: the
// last two.
#define NACRE_ARITY_1(op) Tensor op(const Tensor& a);
#define NACRE_ARITY_2(op) Tensor op(const Operand& a, const Operand& b);
#define NACRE_ARITY_3(op) Tensor op(const Tensor& a, const Operand& b, const Operand& c);
#define NACRE_POINTWISE(name, arity, result, cost, expression) NACRE_ARITY_##arity(name)
#include "compiler/graph/ops.def"
#undef NACRE_ARITY_1
#undef NACRE_ARITY_2
#undef NACRE_ARITY_3
Tensor binary(const std::string& primitive, const Operand& a, const Operand& b, nacre_dtype dtype);

inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator+(const Tensor& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Operand& b) { return div(a, b); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor clamp(const Tensor& x, const Operand& low, const Operand& high) {
  return minimum(maximum(x, low), high);
}

// ---- Views. Negative dims count from the end.
Tensor expand(const Tensor& x, const Shape& shape);  // aligned at the last dim
Tensor broadcast(const Tensor& x, const Shape& shape,
                 const Dims& dims);                   // dim i of x becomes dims[i]
Tensor reshape(const Tensor& x, const Shape& shape);  // one entry may be -1
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes);
Tensor permute(const Tensor& x, const Dims& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor move_dim(const Tensor& x, int64_t from, int64_t to);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x, const Dims& dims);  // those of them that are 1
Tensor slice(const Tensor& x, int64_t dim, const Expr& start, const Expr& end,
             const Expr& step = 1);  // in range
Tensor narrow(const Tensor& x, int64_t dim, const Expr& start, const Expr& length);
Tensor select(const Tensor& x, int64_t dim, const Expr& index);  // 0 <= index < size
Tensor flip(const Tensor& x, const Dims& dims);
Tensor pad(const Tensor& x, const Shape& low, const Shape& high,
           const Number& value);  // negative: cut
Tensor pad_dim(const Tensor& x, int64_t dim, const Expr& low, const Expr& high,
               const Number& value);
Tensor concat(const std::vector<Tensor>& inputs, int64_t dim);  // of one dtype
Tensor stack(const std::vector<Tensor>& inputs, int64_t dim);
Tensor window(const Tensor& x, int64_t dim, const Expr& size, const Expr& step,
              const Expr& dilation = 1);
Tensor select_scatter_range(const Tensor& x, const Tensor& src, int64_t dim, const Expr& start,
                            const Expr& step = 1);

// ---- Reductions over dims (of rank 0: over nothing). `sum` and `prod` of integers and bool give
// int64; the 16-bit floats are summed in float32.
Tensor sum(const Tensor& x, const Dims& dims, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& dims, bool keepdim = false);
Tensor amax(const Tensor& x, const Dims& dims, bool keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim = false);
Tensor any(const Tensor& x, const Dims& dims, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& dims, bool keepdim = false);
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim = false);  // of a floating tensor
Expr count(const Tensor& x, const Dims& dims);  // elements that one result is made of

// ---- Scans, sorting. Rank 0 is let through.
Tensor scan(const std::string& primitive, const Tensor& x, int64_t dim);
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t dim, bool descending);  // stable

// ---- Indexing.
Tensor index(const Tensor& x,
             const std::vector<Tensor>& indices);  // absent ones; broadcast against each other here
// The indices' dims replace dim; none may be negative.
Tensor index_dim(const Tensor& x, int64_t dim, const Tensor& indices);
Tensor gather(const Tensor& x, const Tensor& index, int64_t dim);
Tensor index_put(const Tensor& x, const Tensor& values, const std::vector<Tensor>& indices,
                 bool accumulate, bool wrap = true);
Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, int64_t dim,
               const std::string& reduce = "none");

// ---- Contractions.
Tensor matmul(const Tensor& a, const Tensor& b);  // torch.matmul: any ranks, batch dims broadcast

}  // namespace nacre
