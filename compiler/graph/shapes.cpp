#include "compiler/graph/shapes.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "compiler/graph/node_args.h"
#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"

namespace nacre {

bool may_be_equal(const Expr& a, const Expr& b, const Facts& facts) {
  if (a == b) return true;
  if (a.constant() && b.constant()) return false;
  return !proves_lt(a, b, facts) && !proves_lt(b, a, facts);
}

bool may_be_equal(const std::vector<Expr>& a, const std::vector<Expr>& b, const Facts& facts) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Expr& x, const Expr& y) { return may_be_equal(x, y, facts); });
}

namespace {

using Shape = std::vector<Expr>;

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].str();
  return out + "]";
}

bool is_index(nacre_dtype dtype) { return dtype == NACRE_i64; }

// One primitive's arguments and the graph around it; every reader refuses what does not fit.
class Inference {
 public:
  Inference(const Graph& graph, const Node& node) : graph_(graph), node_(node), args_(graph, node) {}

  std::vector<Value> run();

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(ErrorKind::internal, where_text(node_.where), "{}: {}", print(graph_, node_),
            fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) refuse(format, std::forward<Args>(args)...);
  }

  bool has(std::string_view name) const { return args_.optional_value(name) != kNoValue; }
  const Value& value(ValueId id, std::string_view name) const {
    if (id < 0 || static_cast<size_t>(id) >= graph_.values.size())
      refuse("argument {} is no value of the graph", name);
    const Value& v = graph_[id];
    expect(v.kind == ValueKind::tensor, "argument {} is a number, not a tensor", name);
    return v;
  }
  const Value& tensor(std::string_view name) const { return value(args_.value(name), name); }
  // Absent entries are null.
  std::vector<const Value*> tensors(std::string_view name) const {
    std::vector<const Value*> list;
    for (ValueId v : args_.values(name)) list.push_back(v == kNoValue ? nullptr : &value(v, name));
    return list;
  }
  Expr size(std::string_view name) const { return args_.expr(name); }
  Shape sizes(std::string_view name) const { return args_.exprs(name); }
  Shape sizes(std::string_view name, size_t count) const {
    Shape list = sizes(name);
    expect(list.size() == count, "argument {} has {} entries, not {}", name, list.size(), count);
    return list;
  }
  size_t dim(std::string_view name, size_t rank) const {
    const int d = args_.integer(name);
    expect(d >= 0 && d < static_cast<int>(rank), "argument {} is no dim of {}", name, rank);
    return static_cast<size_t>(d);
  }
  std::vector<size_t> dims(std::string_view name, size_t rank, bool distinct = true) const {
    std::vector<size_t> list;
    for (int d : args_.integers(name)) {
      expect(d >= 0 && d < static_cast<int>(rank), "argument {} has {}, no dim of {}", name, d,
             rank);
      const auto at = static_cast<size_t>(d);
      expect(!distinct || std::find(list.begin(), list.end(), at) == list.end(),
             "argument {} has {} twice", name, d);
      list.push_back(at);
    }
    return list;
  }
  nacre_dtype dtype(std::string_view name) const { return args_.dtype(name); }
  void check_flag(std::string_view name) const {
    expect(std::holds_alternative<bool>(args_.get(name)), "argument {} is no bool", name);
  }
  void check_number(std::string_view name, nacre_dtype of) const {
    const Argument& a = args_.get(name);
    const auto* number = std::get_if<double>(&a);
    const bool fits = std::holds_alternative<Expr>(a) || std::holds_alternative<bool>(a) || number;
    expect(fits, "argument {} is no number", name);
    expect(!number || is_floating(of) || is_complex(of) ||
               *number == std::floor(*number),
           "argument {} is no number of type {}", name, nacre_dtype_name(of));
  }

  bool equal(const Expr& a, const Expr& b) const { return may_be_equal(a, b, graph_.symbols); }
  bool equal(const Shape& a, const Shape& b) const { return may_be_equal(a, b, graph_.symbols); }

  void expect_shape(const Value& v, std::string_view name, const Shape& shape) const {
    expect(equal(v.shape, shape), "argument {} has shape {}, not {}", name, shape_text(v.shape),
           shape_text(shape));
  }
  void expect_dtype(const Value& v, std::string_view name, nacre_dtype wanted) const {
    expect(v.dtype == wanted, "argument {} is {}, not {}", name, nacre_dtype_name(v.dtype),
           nacre_dtype_name(wanted));
  }
  void expect_index(const Value& v, std::string_view name) const {
    expect(is_index(v.dtype), "argument {} is {}, not i64", name, nacre_dtype_name(v.dtype));
  }

  std::vector<Value> one(nacre_dtype dtype, Shape shape) const {
    Value v;
    v.dtype = dtype;
    v.shape = std::move(shape);
    return {std::move(v)};
  }
  // How many windows of `size` taps fit into `n`.
  static Expr windows(const Expr& n, const Expr& size, const Expr& step, const Expr& dilation) {
    return floordiv(n - dilation * (size - Expr(1)) - Expr(1), step) + Expr(1);
  }

  std::vector<Value> view_as_real();
  std::vector<Value> view_as_complex();
  std::vector<Value> part();
  std::vector<Value> complex();
  std::vector<Value> bitcast();
  std::vector<Value> fft();
  std::vector<Value> lu();
  std::vector<Value> permutation();
  std::vector<Value> cholesky();
  std::vector<Value> triangular_solve();
  nacre_dtype part_type(const Value& x) const {
    expect(is_complex(x.dtype), "{} has no parts", nacre_dtype_name(x.dtype));
    return real_of(x.dtype);
  }
  nacre_dtype complex_type(const Value& x) const {
    expect(x.dtype == NACRE_f32 || x.dtype == NACRE_f64, "{} is no part of a complex number", nacre_dtype_name(x.dtype));
    return complex_of(x.dtype);
  }
  void expect_matrices(const Value& x) const {
    expect(x.shape.size() >= 2 && (x.dtype == NACRE_f32 || x.dtype == NACRE_f64), "no matrices of float32 or float64");
  }
  std::vector<Value> pointwise(const Primitive& prim);
  std::vector<Value> cast() { return one(dtype("dtype"), tensor("a").shape); }
  std::vector<Value> broadcast();
  std::vector<Value> reshape();
  std::vector<Value> permute();
  std::vector<Value> slice();
  std::vector<Value> flip();
  std::vector<Value> pad();
  std::vector<Value> concat();
  std::vector<Value> window();
  std::vector<Value> select_scatter_range();
  std::vector<Value> reduction(const Primitive& prim);
  std::vector<Value> scan();
  std::vector<Value> sort();
  std::vector<Value> full();
  std::vector<Value> iota();
  std::vector<Value> index();
  std::vector<Value> gather();
  std::vector<Value> index_put();
  std::vector<Value> scatter();
  std::vector<Value> matmul();
  std::vector<Value> conv();
  std::vector<Value> conv_transpose();
  std::vector<Value> attention();
  std::vector<Value> lstm() { return recurrent(4); }
  std::vector<Value> gru() { return recurrent(3); }

  std::vector<Value> cond();
  std::vector<Value> while_loop();
  std::vector<Value> for_loop();
  std::vector<Value> item();
  std::vector<Value> check_condition();
  std::vector<Value> import();

  Shape indexed_shape(const Value& x) const;
  const Graph& subgraph(std::string_view name, const std::vector<const Value*>& operands) const;
  std::vector<Value> results_of(const Graph& sub) const;
  std::vector<Value> recurrent(int64_t gates);

  const Graph& graph_;
  const Node& node_;
  const NodeArgs args_;
};

std::vector<Value> Inference::pointwise(const Primitive& prim) {
  static const char* const names[] = {"a", "b", "c"};
  const auto arity = static_cast<size_t>(prim.arity);
  const Value& last = tensor(names[arity - 1]);
  for (size_t i = 0; i + 1 < arity; ++i) {
    const Value& v = tensor(names[i]);
    expect_shape(v, names[i], last.shape);
    expect_dtype(v, names[i], prim.name == "where" && i == 0 ? NACRE_bool_ : last.dtype);
  }
  const Value& first = tensor(names[0]);
  return one(result_dtype(prim, last.dtype), first.shape);
}

std::vector<Value> Inference::broadcast() {
  const Value& x = tensor("x");
  Shape shape = sizes("shape");
  const auto to = dims("dims", shape.size());
  expect(to.size() == x.shape.size(), "{} dims for a tensor of rank {}", to.size(), x.shape.size());
  for (size_t i = 0; i < to.size(); ++i) {
    expect(i == 0 || to[i - 1] < to[i], "dims are not ascending");
    expect(x.shape[i].is(1) || equal(x.shape[i], shape[to[i]]), "size {} cannot stretch to {}",
           x.shape[i].str(), shape[to[i]].str());
  }
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::reshape() {
  const Value& x = tensor("x");
  Shape shape = sizes("shape");
  expect(equal(product(x.shape), product(shape)), "{} elements cannot have the shape {}",
         product(x.shape).str(), shape_text(shape));
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::permute() {
  const Value& x = tensor("x");
  const auto order = dims("dims", x.shape.size());
  expect(order.size() == x.shape.size(), "{} dims for a tensor of rank {}", order.size(),
         x.shape.size());
  Shape shape;
  for (size_t d : order) shape.push_back(x.shape[d]);
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::slice() {
  const Value& x = tensor("x");
  const size_t d = dim("dim", x.shape.size());
  const Expr start = size("start"), end = size("end"), step = size("step");
  const Facts& facts = graph_.symbols;
  expect(!proves_le(step, 0, facts), "step {}", step.str());
  expect(!proves_lt(start, 0, facts) && !proves_lt(end, start, facts) &&
             !proves_lt(x.shape[d], end, facts),
         "from {} to {} of {}", start.str(), end.str(), x.shape[d].str());
  Shape shape = x.shape;
  shape[d] = ceildiv(end - start, step);
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::flip() {
  const Value& x = tensor("x");
  (void)dims("dims", x.shape.size());
  return one(x.dtype, x.shape);
}

std::vector<Value> Inference::pad() {
  const Value& x = tensor("x");
  const Shape low = sizes("low", x.shape.size()), high = sizes("high", x.shape.size());
  check_number("value", x.dtype);
  Shape shape = x.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    expect(!proves_lt(low[i], 0, graph_.symbols) && !proves_lt(high[i], 0, graph_.symbols),
           "negative padding");
    shape[i] = shape[i] + low[i] + high[i];
  }
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::concat() {
  const auto inputs = tensors("inputs");
  expect(!inputs.empty(), "nothing to join");
  for (const Value* v : inputs) expect(v != nullptr, "an input is absent");
  Shape shape = inputs[0]->shape;
  const size_t d = dim("dim", shape.size());
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Value& v = *inputs[i];
    expect_dtype(v, "inputs", inputs[0]->dtype);
    expect(v.shape.size() == shape.size(), "inputs of unlike rank");
    for (size_t j = 0; j < shape.size(); ++j)
      expect(j == d || equal(v.shape[j], shape[j]), "inputs of shape {} and {}",
             shape_text(inputs[0]->shape), shape_text(v.shape));
    shape[d] = shape[d] + v.shape[d];
  }
  return one(inputs[0]->dtype, std::move(shape));
}

std::vector<Value> Inference::window() {
  const Value& x = tensor("x");
  const size_t d = dim("dim", x.shape.size());
  const Expr taps = size("size");
  Shape shape = x.shape;
  shape[d] = windows(x.shape[d], taps, size("step"), size("dilation"));
  shape.push_back(taps);
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::select_scatter_range() {
  const Value &x = tensor("x"), &src = tensor("src");
  const size_t d = dim("dim", x.shape.size());
  (void)size("start");
  (void)size("step");
  expect_dtype(src, "src", x.dtype);
  Shape shape = x.shape;
  expect(src.shape.size() == shape.size(), "src has rank {}, not {}", src.shape.size(),
         shape.size());
  shape[d] = src.shape[d];
  expect_shape(src, "src", shape);
  return one(x.dtype, x.shape);
}

std::vector<Value> Inference::reduction(const Primitive& prim) {
  const Value& x = tensor("x");
  const auto reduced = dims("dims", x.shape.size());
  expect(!reduced.empty(), "no dim to reduce");
  if (prim.result == PrimResult::index) expect(reduced.size() == 1, "more than one dim");
  if (prim.name == "sum" || prim.name == "prod")
    expect(
        is_floating(x.dtype) || is_index(x.dtype) || is_complex(x.dtype),
        "{} must be cast to i64 first", nacre_dtype_name(x.dtype));
  Shape shape;
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) shape.push_back(x.shape[i]);
  return one(result_dtype(prim, x.dtype), std::move(shape));
}

std::vector<Value> Inference::scan() {
  const Value& x = tensor("x");
  (void)dim("dim", x.shape.size());
  return one(x.dtype, x.shape);
}

std::vector<Value> Inference::sort() {
  const Value& x = tensor("x");
  (void)dim("dim", x.shape.size());
  check_flag("descending");
  check_flag("stable");
  std::vector<Value> results = one(x.dtype, x.shape);
  results.push_back(one(NACRE_i64, x.shape)[0]);
  return results;
}

std::vector<Value> Inference::view_as_real() {
  const Value& x = tensor("x");
  Shape shape = x.shape;
  shape.push_back(2);
  return one(part_type(x), std::move(shape));
}

std::vector<Value> Inference::view_as_complex() {
  const Value& x = tensor("x");
  expect(!x.shape.empty() && equal(x.shape.back(), Expr(2)), "the last dim is not the two parts");
  Shape shape = x.shape;
  shape.pop_back();
  return one(complex_type(x), std::move(shape));
}

std::vector<Value> Inference::part() {
  const Value& x = tensor("x");
  return one(part_type(x), x.shape);
}

std::vector<Value> Inference::complex() {
  const Value &re = tensor("re"), &im = tensor("im");
  expect_dtype(im, "im", re.dtype);
  expect_shape(im, "im", re.shape);
  return one(complex_type(re), re.shape);
}

std::vector<Value> Inference::bitcast() {
  const Value& x = tensor("x");
  const nacre_dtype to = dtype("dtype");
  const auto from_size = static_cast<int64_t>(nacre_dtype_size_bytes(x.dtype));
  const auto to_size = static_cast<int64_t>(nacre_dtype_size_bytes(to));
  Shape shape = x.shape;
  if (from_size != to_size) {
    expect(!shape.empty(), "a scalar cannot change its size");
    shape.back() = from_size > to_size ? shape.back() * Expr(from_size / to_size)
                                       : floordiv(shape.back(), Expr(to_size / from_size));
  }
  return one(to, std::move(shape));
}

std::vector<Value> Inference::fft() {
  const Value &re = tensor("re"), &cosine = tensor("cos"), &sine = tensor("sin");
  const size_t d = dim("dim", re.shape.size());
  const Expr length = size("length"), half = floordiv(length, 2) + 1;
  check_flag("inverse");
  expect(re.dtype == NACRE_f32 || re.dtype == NACRE_f64, "a transform of {}", nacre_dtype_name(re.dtype));
  for (const Value* table : {&cosine, &sine}) {
    expect_dtype(*table, "table", re.dtype);
    expect_shape(*table, "table", {length});
  }
  const std::string form = args_.text("form", "");
  expect(form == "c2c" || form == "r2c" || form == "c2r", "argument form is not one of c2c, r2c, c2r");
  expect(has("im") == (form != "r2c"), "{} with or without im", form);
  if (has("im")) {
    expect_dtype(tensor("im"), "im", re.dtype);
    expect_shape(tensor("im"), "im", re.shape);
  }
  expect(equal(re.shape[d], form == "c2r" ? half : length), "{} elements for a length of {}", re.shape[d].str(), length.str());
  Shape shape = re.shape;
  shape[d] = form == "r2c" ? half : length;
  std::vector<Value> results = one(re.dtype, shape);
  if (form != "c2r") results.push_back(one(re.dtype, shape)[0]);
  return results;
}

std::vector<Value> Inference::lu() {
  const Value& x = tensor("x");
  const size_t rank = x.shape.size();
  expect_matrices(x);
  std::vector<Value> results = one(x.dtype, x.shape);
  Shape pivots = x.shape;
  pivots.pop_back();
  if (!equal(x.shape[rank - 2], x.shape[rank - 1])) pivots.back() = min(x.shape[rank - 2], x.shape[rank - 1]);
  results.push_back(one(NACRE_i64, std::move(pivots))[0]);
  return results;
}

std::vector<Value> Inference::permutation() {
  const Value& pivots = tensor("pivots");
  expect_index(pivots, "pivots");
  expect(!pivots.shape.empty(), "one pivot");
  Shape shape = pivots.shape;
  shape.back() = size("size");
  return one(NACRE_i64, std::move(shape));
}

std::vector<Value> Inference::cholesky() {
  const Value& x = tensor("x");
  const size_t rank = x.shape.size();
  expect_matrices(x);
  expect(equal(x.shape[rank - 2], x.shape[rank - 1]), "the matrices are not square");
  return one(x.dtype, x.shape);
}

std::vector<Value> Inference::triangular_solve() {
  const Value &a = tensor("a"), &b = tensor("b");
  const size_t rank = a.shape.size();
  expect_dtype(b, "b", a.dtype);
  expect_matrices(a);
  Shape shape = b.shape;
  expect(shape.size() == rank, "ranks {} and {}", rank, shape.size());
  expect_shape(a, "a", [&] {
    Shape square = shape;
    square[rank - 1] = shape[rank - 2];
    return square;
  }());
  check_flag("upper");
  check_flag("unit");
  return one(b.dtype, b.shape);
}

std::vector<Value> Inference::full() {
  const nacre_dtype type = dtype("dtype");
  check_number("value", type);
  return one(type, sizes("shape"));
}

std::vector<Value> Inference::iota() {
  const nacre_dtype type = dtype("dtype");
  check_number("start", type);
  check_number("step", type);
  return one(type, {size("length")});
}

// aten.index.Tensor: the indexed dims become the indices' common shape, at the first of them if
// they are neighbours, else in front.
Shape Inference::indexed_shape(const Value& x) const {
  const auto indices = tensors("indices");
  expect(indices.size() <= x.shape.size(), "{} indices for rank {}", indices.size(),
         x.shape.size());
  const Value* common = nullptr;
  size_t first = 0, last = 0, count = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    expect_index(*indices[i], "indices");
    if (!common) {
      common = indices[i];
      first = i;
    }
    expect_shape(*indices[i], "indices", common->shape);
    last = i;
    ++count;
  }
  expect(common != nullptr, "no index");
  Shape shape;
  const bool neighbours = last - first + 1 == count;
  const size_t place = neighbours ? first : 0;
  for (size_t i = 0; i <= x.shape.size(); ++i) {
    if (i == place) shape.insert(shape.end(), common->shape.begin(), common->shape.end());
    if (i < x.shape.size() && (i >= indices.size() || !indices[i])) shape.push_back(x.shape[i]);
  }
  return shape;
}

std::vector<Value> Inference::index() {
  const Value& x = tensor("x");
  if (node_.find("wrap")) check_flag("wrap");
  return one(x.dtype, indexed_shape(x));
}

std::vector<Value> Inference::index_put() {
  const Value &x = tensor("x"), &values = tensor("values");
  expect_dtype(values, "values", x.dtype);
  expect_shape(values, "values", indexed_shape(x));
  check_flag("accumulate");
  if (node_.find("wrap")) check_flag("wrap");
  return one(x.dtype, x.shape);
}

std::vector<Value> Inference::gather() {
  const Value &x = tensor("x"), &at = tensor("index");
  expect_index(at, "index");
  expect(at.shape.size() == x.shape.size(), "x and index of unlike rank");
  (void)dim("dim", x.shape.size());
  return one(x.dtype, at.shape);
}

std::vector<Value> Inference::scatter() {
  const Value &x = tensor("x"), &at = tensor("index"), &src = tensor("src");
  expect_index(at, "index");
  expect_dtype(src, "src", x.dtype);
  expect(at.shape.size() == x.shape.size(), "x and index of unlike rank");
  expect_shape(src, "src", at.shape);
  (void)dim("dim", x.shape.size());
  const auto* how = std::get_if<std::string>(&args_.get("reduce"));
  static const std::initializer_list<std::string_view> known = {"none", "add", "mul", "amax",
                                                                "amin"};
  expect(how && std::find(known.begin(), known.end(), *how) != known.end(),
         "argument reduce is not one of {}", joined(known));
  return one(x.dtype, x.shape);
}

std::vector<Value> Inference::matmul() {
  const Value &a = tensor("a"), &b = tensor("b");
  expect_dtype(b, "b", a.dtype);
  const size_t rank = a.shape.size();
  expect(rank >= 2 && b.shape.size() == rank, "ranks {} and {}", rank, b.shape.size());
  for (size_t i = 0; i + 2 < rank; ++i)
    expect(equal(a.shape[i], b.shape[i]), "batch sizes {} and {}", a.shape[i].str(),
           b.shape[i].str());
  expect(equal(a.shape[rank - 1], b.shape[rank - 2]), "inner sizes {} and {}",
         a.shape[rank - 1].str(), b.shape[rank - 2].str());
  Shape shape = a.shape;
  shape[rank - 1] = b.shape[rank - 1];
  return one(a.dtype, std::move(shape));
}

std::vector<Value> Inference::conv() {
  const Value &x = tensor("x"), &w = tensor("w");
  expect_dtype(w, "w", x.dtype);
  const size_t rank = x.shape.size();
  expect(rank >= 3 && w.shape.size() == rank, "ranks {} and {}", rank, w.shape.size());
  const size_t n = rank - 2;
  const Shape stride = sizes("stride", n), padding = sizes("padding", n),
              dilation = sizes("dilation", n);
  const Expr groups = size("groups");
  expect(equal(x.shape[1], w.shape[1] * groups), "{} channels for weights of {} in {} groups",
         x.shape[1].str(), w.shape[1].str(), groups.str());
  expect(is_multiple(w.shape[0], groups.constant().value_or(1), graph_.symbols),
         "{} output channels in {} groups", w.shape[0].str(), groups.str());
  Shape shape{x.shape[0], w.shape[0]};
  for (size_t i = 0; i < n; ++i)
    shape.push_back(
        windows(x.shape[i + 2] + Expr(2) * padding[i], w.shape[i + 2], stride[i], dilation[i]));
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::conv_transpose() {
  const Value &x = tensor("x"), &w = tensor("w");
  expect_dtype(w, "w", x.dtype);
  const size_t rank = x.shape.size();
  expect(rank >= 3 && w.shape.size() == rank, "ranks {} and {}", rank, w.shape.size());
  const size_t n = rank - 2;
  const Shape stride = sizes("stride", n), padding = sizes("padding", n),
              extra = sizes("output_padding", n), dilation = sizes("dilation", n);
  expect(equal(x.shape[1], w.shape[0]), "{} channels for weights of {}", x.shape[1].str(),
         w.shape[0].str());
  Shape shape{x.shape[0], w.shape[1] * size("groups")};
  for (size_t i = 0; i < n; ++i)
    shape.push_back((x.shape[i + 2] - Expr(1)) * stride[i] - Expr(2) * padding[i] +
                    dilation[i] * (w.shape[i + 2] - Expr(1)) + extra[i] + Expr(1));
  return one(x.dtype, std::move(shape));
}

std::vector<Value> Inference::attention() {
  const Value &q = tensor("q"), &k = tensor("k"), &v = tensor("v");
  for (const auto& [operand, name] : {std::pair{&q, "q"}, std::pair{&k, "k"}, std::pair{&v, "v"}}) {
    expect_dtype(*operand, name, q.dtype);
    expect(operand->shape.size() == 4, "argument {} has rank {}, not 4", name,
           operand->shape.size());
  }
  expect_shape(k, "k", {q.shape[0], q.shape[1], k.shape[2], q.shape[3]});
  expect_shape(v, "v", {q.shape[0], q.shape[1], k.shape[2], v.shape[3]});
  if (has("mask")) {
    const Value& mask = tensor("mask");
    expect(is_floating(mask.dtype), "argument mask is {}", nacre_dtype_name(mask.dtype));
    expect_shape(mask, "mask", {q.shape[0], q.shape[1], q.shape[2], k.shape[2]});
  }
  check_number("scale", NACRE_f64);
  check_flag("is_causal");
  return one(q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]});
}

std::vector<Value> Inference::recurrent(int64_t gates) {
  const Value &x = tensor("x"), &h = tensor("h");
  expect(x.shape.size() == 3, "argument x has rank {}, not 3", x.shape.size());
  expect(h.shape.size() == 2, "argument h has rank {}, not 2", h.shape.size());
  const Expr hidden = h.shape[1];
  const Shape state{x.shape[1], hidden};
  expect_shape(h, "h", state);
  if (gates == 4) expect_shape(tensor("c"), "c", state);
  expect_shape(tensor("w_ih"), "w_ih", {Expr(gates) * hidden, x.shape[2]});
  expect_shape(tensor("w_hh"), "w_hh", {Expr(gates) * hidden, hidden});
  for (const char* bias : {"b_ih", "b_hh"})
    if (has(bias)) expect_shape(tensor(bias), bias, {Expr(gates) * hidden});
  check_flag("reverse");
  std::vector<Value> results = one(x.dtype, {x.shape[0], x.shape[1], hidden});
  for (int i = gates == 4 ? 0 : 1; i < 2; ++i) results.push_back(one(x.dtype, state)[0]);
  return results;
}

// The subgraph that an argument names, which must take these operands.
const Graph& Inference::subgraph(std::string_view name, const std::vector<const Value*>& operands) const {
  const auto* ref = std::get_if<SubgraphRef>(&args_.get(name));
  if (!ref) refuse("argument {} is no subgraph", name);
  const auto found = graph_.subgraphs.find(ref->name);
  if (found == graph_.subgraphs.end()) refuse("there is no subgraph {}", ref->name);
  const Graph& sub = found->second;
  expect(sub.inputs.size() == operands.size(), "{} takes {} operands, not {}", ref->name, sub.inputs.size(),
         operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    expect(operands[i] != nullptr, "operand {} is absent", i);
    const Value& v = sub[sub.inputs[i].value];
    expect(v.kind == ValueKind::tensor, "{} takes a number", ref->name);
    expect_dtype(*operands[i], sub.inputs[i].target, v.dtype);
    expect_shape(*operands[i], sub.inputs[i].target, v.shape);
  }
  return sub;
}

std::vector<Value> Inference::results_of(const Graph& sub) const {
  std::vector<Value> results;
  for (const GraphOutput& output : sub.outputs) {
    const auto* v = std::get_if<ValueRef>(&output.value);
    if (!v || v->id == kNoValue || sub[v->id].kind != ValueKind::tensor) refuse("{} gives something that is no tensor", sub.name);
    results.push_back(one(sub[v->id].dtype, sub[v->id].shape)[0]);
  }
  return results;
}

std::vector<Value> Inference::cond() {
  expect_dtype(tensor("predicate"), "predicate", NACRE_bool_);
  const auto operands = tensors("operands");
  std::vector<Value> results = results_of(subgraph("true_graph", operands));
  const std::vector<Value> others = results_of(subgraph("false_graph", operands));
  expect(results.size() == others.size(), "branches of {} and {} results", results.size(), others.size());
  for (size_t i = 0; i < results.size(); ++i)
    expect(results[i].dtype == others[i].dtype && results[i].shape.size() == others[i].shape.size(),
           "result {} differs between the branches", i);
  return results;
}

std::vector<Value> Inference::while_loop() {
  auto operands = tensors("carried");
  const size_t carried = operands.size();
  for (const Value* v : tensors("operands")) operands.push_back(v);
  const std::vector<Value> flag = results_of(subgraph("cond_graph", operands));
  expect(flag.size() == 1 && flag[0].dtype == NACRE_bool_, "the condition is no bool");
  std::vector<Value> results = results_of(subgraph("body_graph", operands));
  expect(results.size() == carried, "{} of {} carried values", results.size(), carried);
  for (size_t i = 0; i < carried; ++i) {
    expect_dtype(*operands[i], "carried", results[i].dtype);
    expect_shape(*operands[i], "carried", results[i].shape);
    results[i].shape = operands[i]->shape;
  }
  return results;
}

std::vector<Value> Inference::for_loop() {
  auto operands = tensors("carried");
  const size_t carried = operands.size();
  for (const Value* v : tensors("operands")) operands.push_back(v);
  expect(args_.expr("index").op() == ExprOp::symbol, "the index is no symbol");
  std::vector<Value> results = results_of(subgraph("body_graph", operands));
  expect(results.size() >= carried, "{} of {} carried values", results.size(), carried);
  for (size_t i = 0; i < results.size(); ++i) {
    Shape& shape = results[i].shape;
    if (i >= carried) {
      shape.insert(shape.begin(), args_.expr("length"));
      continue;
    }
    expect_dtype(*operands[i], "carried", results[i].dtype);
    expect_shape(*operands[i], "carried", shape);
    shape = operands[i]->shape;
  }
  return results;
}

std::vector<Value> Inference::item() {
  const Value& x = tensor("x");
  expect_index(x, "x");
  expect_shape(x, "x", {});
  Value v;
  v.kind = ValueKind::integer;
  v.dtype = NACRE_i64;
  return {v};
}

std::vector<Value> Inference::check_condition() {
  (void)args_.expr("condition");
  return {};
}

// What it gives, only the exported program knows.
std::vector<Value> Inference::import() {
  (void)args_.values("inputs");
  std::vector<Value> results;
  for (ValueId v : node_.outputs) {
    expect(v != kNoValue, "an import without one of its results");
    expect(graph_[v].kind == ValueKind::tensor, "an import gives a number");
    results.push_back(graph_[v]);
  }
  return results;
}

std::vector<Value> Inference::run() {
  const Primitive* prim = find_primitive(node_.op);
  if (!prim || !node_.op.starts_with("prim.")) refuse("{} is no primitive", node_.op);
  switch (prim->kind) {
    case PrimClass::pointwise:
      return pointwise(*prim);
    case PrimClass::cast:
      return cast();
    case PrimClass::reduction:
      return reduction(*prim);
    case PrimClass::scan:
      return scan();
    case PrimClass::sorting:
      return sort();
    default:
      break;
  }
  using Rule = std::vector<Value> (Inference::*)();
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"broadcast", &Inference::broadcast},
      {"reshape", &Inference::reshape},
      {"permute", &Inference::permute},
      {"slice", &Inference::slice},
      {"flip", &Inference::flip},
      {"pad", &Inference::pad},
      {"concat", &Inference::concat},
      {"window", &Inference::window},
      {"select_scatter_range", &Inference::select_scatter_range},
      {"view_as_real", &Inference::view_as_real},
      {"view_as_complex", &Inference::view_as_complex},
      {"real", &Inference::part},
      {"imag", &Inference::part},
      {"complex", &Inference::complex},
      {"bitcast", &Inference::bitcast},
      {"fft", &Inference::fft},
      {"lu", &Inference::lu},
      {"permutation", &Inference::permutation},
      {"cholesky", &Inference::cholesky},
      {"triangular_solve", &Inference::triangular_solve},
      {"full", &Inference::full},
      {"iota", &Inference::iota},
      {"index", &Inference::index},
      {"gather", &Inference::gather},
      {"index_put", &Inference::index_put},
      {"scatter", &Inference::scatter},
      {"matmul", &Inference::matmul},
      {"conv", &Inference::conv},
      {"conv_transpose", &Inference::conv_transpose},
      {"attention", &Inference::attention},
      {"lstm", &Inference::lstm},
      {"gru", &Inference::gru},
      {"cond", &Inference::cond},
      {"while_loop", &Inference::while_loop},
      {"for_loop", &Inference::for_loop},
      {"item", &Inference::item},
      {"check", &Inference::check_condition},
      {"import", &Inference::import},
  };
  const auto rule = rules.find(prim->name);
  check(rule != rules.end(), "no shape rule for prim.{}", prim->name);
  return (this->*rule->second)();
}

}  // namespace

std::vector<Value> infer(const Graph& graph, const Node& node) {
  std::vector<Value> results = Inference(graph, node).run();
  for (Value& v : results)
    for (Expr& size : v.shape)
      if (!size.constant()) size = simplify(size, graph.symbols);
  return results;
}

}  // namespace nacre
