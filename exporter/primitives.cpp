#include "exporter/primitives.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <limits>
#include <map>
#include <string>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

using at::Tensor;
using Operands = std::vector<Tensor>;
using Pointwise = Tensor (*)(const Operands&);

// Philox 4x32-10 over int64 tensors: words of 32 bits in int64.
Tensor philox(const Tensor& counter, const Tensor& key) {
  constexpr int64_t kMask = 0xFFFFFFFF;
  auto low = [&](const Tensor& t) { return at::bitwise_and(t, kMask); };
  auto high = [&](const Tensor& t) { return low(at::bitwise_right_shift(t, 32)); };
  Tensor c0 = low(counter), c1 = high(counter), c2 = at::zeros_like(c0), c3 = c2, k0 = low(key), k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const Tensor p = c0 * int64_t{0xD2511F53}, q = c2 * int64_t{0xCD9E8D57};
    c0 = at::bitwise_xor(at::bitwise_xor(high(q), c1), k0);
    c2 = at::bitwise_xor(at::bitwise_xor(high(p), c3), k1);
    c1 = low(q);
    c3 = low(p);
    k0 = low(k0 + int64_t{0x9E3779B9});
    k1 = low(k1 + int64_t{0xBB67AE85});
  }
  return at::bitwise_or(at::bitwise_left_shift(c1, 32), c0);
}

// One line for each NACRE_POINTWISE line of ops.def.
const std::map<std::string, Pointwise>& pointwise_table() {
#define UNARY(name)                                                   \
  {                                                                   \
#name, [](const Operands& x) -> Tensor { return at::name(x[0]); } \
  }
#define BINARY(name)                                                        \
  {                                                                         \
#name, [](const Operands& x) -> Tensor { return at::name(x[0], x[1]); } \
  }
#define AS(name, expression)                                      \
  {                                                               \
#name, [](const Operands& x) -> Tensor { return expression; } \
  }
  static const std::map<std::string, Pointwise> table = {
      UNARY(neg),
      UNARY(abs),
      UNARY(sign),
      UNARY(ceil),
      UNARY(floor),
      UNARY(trunc),
      UNARY(round),
      UNARY(sqrt),
      UNARY(rsqrt),
      UNARY(reciprocal),
      UNARY(exp),
      UNARY(exp2),
      UNARY(expm1),
      UNARY(log),
      UNARY(log2),
      UNARY(log10),
      UNARY(log1p),
      UNARY(sin),
      UNARY(cos),
      UNARY(tan),
      UNARY(asin),
      UNARY(acos),
      UNARY(atan),
      UNARY(sinh),
      UNARY(cosh),
      UNARY(tanh),
      UNARY(asinh),
      UNARY(acosh),
      UNARY(atanh),
      UNARY(erf),
      UNARY(erfc),
      UNARY(sigmoid),
      UNARY(isnan),
      UNARY(bitwise_not),
      UNARY(logical_not),
      BINARY(add),
      BINARY(sub),
      BINARY(mul),
      BINARY(div),
      AS(div_trunc, at::div(x[0], x[1], "trunc")),
      AS(div_floor, at::div(x[0], x[1], "floor")),
      BINARY(fmod),
      BINARY(remainder),
      BINARY(pow),
      BINARY(atan2),
      // at::maximum takes one zero or the other, by whether a vector holds the element.
      AS(maximum, at::where((x[1] > x[0]).logical_or_(x[1].isnan()), x[1], x[0])),
      AS(minimum, at::where((x[1] < x[0]).logical_or_(x[1].isnan()), x[1], x[0])),
      BINARY(fmax),
      BINARY(fmin),
      BINARY(copysign),
      BINARY(nextafter),
      BINARY(gcd),
      BINARY(eq),
      BINARY(ne),
      BINARY(lt),
      BINARY(le),
      BINARY(gt),
      BINARY(ge),
      BINARY(bitwise_and),
      BINARY(bitwise_or),
      BINARY(bitwise_xor),
      AS(shift_left, at::bitwise_left_shift(x[0], x[1])),
      AS(shift_right, at::bitwise_right_shift(x[0], x[1])),
      AS(philox, philox(x[0], x[1])),
      AS(where, at::where(x[0], x[1], x[2])),
  };
#undef UNARY
#undef BINARY
#undef AS
  return table;
}

// The arguments of one node.
struct Call {
  const Node& node;
  const aten::Environment& env;

  [[noreturn]] void lacks(std::string_view name) const {
    fail(ErrorKind::internal, "{} without {}, or of another type", node.op, name);
  }
  const Argument& at_name(std::string_view name) const {
    const Argument* a = node.find(name);
    if (a == nullptr) lacks(name);
    return *a;
  }
  // The n-th argument that is a tensor.
  Tensor tensor(size_t n) const {
    for (const auto& [name, argument] : node.args) {
      auto* v = std::get_if<ValueRef>(&argument);
      if (v != nullptr && n-- == 0) return env.value(v->id).toTensor();
    }
    lacks("its operands");
  }
  std::optional<Tensor> maybe_tensor(std::string_view name) const {
    const Argument* a = node.find(name);
    auto* v = a == nullptr ? nullptr : std::get_if<ValueRef>(a);
    if (v == nullptr || v->id == kNoValue) return std::nullopt;
    return env.value(v->id).toTensor();
  }
  int64_t integer(std::string_view name) const {
    if (auto* e = std::get_if<Expr>(&at_name(name))) return env.integer(*e);
    lacks(name);
  }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    return node.find(name) == nullptr ? otherwise : integer(name);
  }
  std::vector<int64_t> integers(std::string_view name) const {
    const Argument& a = at_name(name);
    std::vector<int64_t> result;
    if (auto* many = std::get_if<std::vector<Expr>>(&a)) {
      for (const Expr& e : *many) result.push_back(env.integer(e));
    } else if (auto* refs = std::get_if<std::vector<ValueRef>>(&a);
               refs == nullptr || !refs->empty()) {
      lacks(name);
    }
    return result;
  }
  bool flag(std::string_view name) const {
    const Argument* a = node.find(name);
    if (a == nullptr) return false;
    if (auto* b = std::get_if<bool>(a)) return *b;
    lacks(name);
  }
  at::Scalar scalar(std::string_view name) const {
    const Argument& a = at_name(name);
    if (auto* d = std::get_if<double>(&a)) return *d;
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* e = std::get_if<Expr>(&a)) return env.integer(*e);
    if (auto* v = std::get_if<ValueRef>(&a)) {
      c10::IValue value = env.value(v->id);
      return value.isTensor() ? value.toTensor().item() : value.toScalar();
    }
    lacks(name);
  }
  std::string text(std::string_view name, std::string otherwise) const {
    const Argument* a = node.find(name);
    if (a == nullptr) return otherwise;
    if (auto* s = std::get_if<std::string>(a)) return *s;
    lacks(name);
  }
  c10::ScalarType dtype() const {
    if (auto* t = std::get_if<nacre_dtype>(&at_name("dtype"))) {
      return aten::oracle_type(aten::to_torch(*t), env.oracle);
    }
    lacks("dtype");
  }
  std::vector<std::optional<Tensor>> tensors(std::string_view name) const {
    auto* refs = std::get_if<std::vector<ValueRef>>(&at_name(name));
    if (refs == nullptr) lacks(name);
    std::vector<std::optional<Tensor>> result;
    for (ValueRef v : *refs)
      result.push_back(v.id == kNoValue ? std::optional<Tensor>()
                                        : std::optional(env.value(v.id).toTensor()));
    return result;
  }
  c10::List<std::optional<Tensor>> indices() const {
    const bool wrap = node.find("wrap") == nullptr || flag("wrap");
    c10::List<std::optional<Tensor>> result;
    for (auto& t : tensors("indices")) {
      if (!wrap && t && at::any(t->lt(0)).item<bool>())
        fail(ErrorKind::user, "{}: an index is negative", node.op);
      result.push_back(t);
    }
    return result;
  }
};

Tensor broadcast(const Call& c) {
  Tensor x = c.tensor(0);
  std::vector<int64_t> shape = c.integers("shape"), dims = c.integers("dims"),
                       sizes(shape.size(), 1);
  for (size_t i = 0; i < dims.size(); ++i)
    sizes.at(static_cast<size_t>(dims[i])) = x.size(static_cast<int64_t>(i));
  return x.reshape(sizes).expand(shape);
}

Tensor window(const Call& c) {
  int64_t dim = c.integer("dim"), size = c.integer("size"), step = c.integer("step"),
          dilation = c.integer("dilation", 1);
  Tensor spans = c.tensor(0).unfold(dim, (size - 1) * dilation + 1, step);
  return spans.slice(-1, 0, spans.size(-1), dilation);
}

Tensor pad(const Call& c) {
  std::vector<int64_t> low = c.integers("low"), high = c.integers("high"), pairs;
  for (size_t i = low.size(); i-- > 0;) {
    pairs.push_back(low[i]);
    pairs.push_back(high[i]);
  }
  return at::constant_pad_nd(c.tensor(0), pairs, c.scalar("value"));
}

// Of nothing, unlike in ATen: what every number is greater (less) than. So sizes that depend on data may come to 0 where
// ATen decides by the size.
Tensor extreme(const Tensor& x, at::IntArrayRef dims, bool greatest) {
  if (x.numel() > 0) return greatest ? at::amax(x, dims) : at::amin(x, dims);
  const std::vector<int64_t> shape = at::sum(x, dims).sizes().vec();
  if (x.is_floating_point()) {
    const double infinity = std::numeric_limits<double>::infinity();
    return at::full(shape, greatest ? -infinity : infinity, x.options());
  }
  if (x.scalar_type() == at::kBool) return at::full(shape, !greatest, x.options());
  int64_t low = 0, high = 0;
  AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "extreme", [&] {
    low = static_cast<int64_t>(std::numeric_limits<scalar_t>::lowest());
    high = static_cast<int64_t>(std::numeric_limits<scalar_t>::max());
  });
  return at::full(shape, greatest ? low : high, x.options());
}

Tensor prod(const Call& c) {
  Tensor x = c.tensor(0);
  std::vector<int64_t> dims = c.integers("dims");
  std::sort(dims.rbegin(), dims.rend());
  for (int64_t d : dims) x = at::prod(x, d, false, x.scalar_type());
  return x;
}

Tensor iota(const Call& c) {
  at::Scalar start = c.scalar("start"), step = c.scalar("step");
  bool whole = start.isIntegral(true) && step.isIntegral(true);
  Tensor positions =
      at::arange(c.integer("length"), at::TensorOptions().dtype(whole ? at::kLong : at::kDouble));
  return (positions * step + start).to(c.dtype());
}

Tensor scatter(const Call& c) {
  Tensor x = c.tensor(0), src = c.tensor(2);
  int64_t dim = c.integer("dim");
  Tensor index = c.tensor(1);
  std::string reduce = c.text("reduce", "none");
  if (reduce == "none") return at::scatter(x, dim, index, src);
  if (reduce == "add") return at::scatter_add(x, dim, index, src);
  return at::scatter_reduce(x, dim, index, src, reduce == "mul" ? "prod" : reduce, true);
}

Tensor convolution(const Call& c, bool transposed) {
  std::vector<int64_t> stride = c.integers("stride");
  std::vector<int64_t> output_padding = transposed && c.node.find("output_padding") != nullptr
                                            ? c.integers("output_padding")
                                            : std::vector<int64_t>(stride.size(), 0);
  return at::convolution(c.tensor(0), c.tensor(1), {}, stride, c.integers("padding"),
                         c.integers("dilation"), transposed, output_padding,
                         c.integer("groups", 1));
}

// One layer, one direction, by PyTorch's own recurrent operators; `states` are h, or h and c.
std::vector<c10::IValue> recurrent(const Call& c, size_t states) {
  bool reverse = c.flag("reverse");
  Tensor x = c.tensor(0);
  if (reverse) x = x.flip(0);
  std::vector<Tensor> initial, weights;
  for (size_t i = 0; i < states; ++i) initial.push_back(c.tensor(1 + i).unsqueeze(0));
  weights = {c.tensor(1 + states), c.tensor(2 + states)};
  std::optional<Tensor> b_ih = c.maybe_tensor("b_ih"), b_hh = c.maybe_tensor("b_hh");
  bool biases = b_ih || b_hh;
  if (biases) {
    Tensor none = at::zeros({weights[0].size(0)}, weights[0].options());
    weights.push_back(b_ih ? *b_ih : none);
    weights.push_back(b_hh ? *b_hh : none);
  }
  std::vector<c10::IValue> results;
  auto give = [&](const Tensor& y) { results.emplace_back(reverse ? y.flip(0) : y); };
  if (states == 2) {
    auto [y, h, cell] = at::lstm(x, initial, weights, biases, 1, 0.0, false, false, false);
    give(y);
    results.emplace_back(h.squeeze(0));
    results.emplace_back(cell.squeeze(0));
  } else {
    auto [y, h] = at::gru(x, initial[0], weights, biases, 1, 0.0, false, false, false);
    give(y);
    results.emplace_back(h.squeeze(0));
  }
  return results;
}

std::vector<c10::IValue> fourier(const Call& c) {
  constexpr int64_t kUnscaled = 0;
  const int64_t dim = c.integer("dim");
  const bool inverse = c.flag("inverse");
  const std::string form = c.text("form", "");
  const Tensor re = c.tensor(0);
  if (form == "r2c") {
    // The sign is that of the imaginary parts.
    const Tensor y = at::view_as_real(at::_fft_r2c(re, {dim}, kUnscaled, true));
    return {y.select(-1, 0), inverse ? -y.select(-1, 1) : y.select(-1, 1)};
  }
  const Tensor x = at::complex(re, inverse || form == "c2c" ? *c.maybe_tensor("im") : -*c.maybe_tensor("im"));
  if (form == "c2r") return {at::_fft_c2r(x, {dim}, kUnscaled, c.integer("length"))};
  const Tensor y = at::view_as_real(at::_fft_c2c(x, {dim}, kUnscaled, !inverse));
  return {y.select(-1, 0), y.select(-1, 1)};
}

Tensor permutation(const Call& c) {
  const Tensor pivots = c.tensor(0).contiguous();
  const int64_t steps = pivots.size(-1), size = c.integer("size");
  std::vector<int64_t> shape = pivots.sizes().vec();
  shape.back() = size;
  Tensor order = at::arange(size).expand(shape).contiguous();
  const int64_t* pivot = pivots.const_data_ptr<int64_t>();
  auto* at = order.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row * size < order.numel(); ++row)
    for (int64_t k = 0; k < steps; ++k) std::swap(at[row * size + k], at[row * size + pivot[row * steps + k]]);
  return order;
}

Tensor attention(const Call& c) {
  return at::scaled_dot_product_attention(
      c.tensor(0), c.tensor(1), c.tensor(2), c.maybe_tensor("mask"), 0.0, c.flag("is_causal"),
      c.node.find("scale") == nullptr ? std::optional<double>()
                                      : std::optional(c.scalar("scale").toDouble()));
}

}  // namespace

std::vector<c10::IValue> run_primitive(const Graph& graph, const Node& node,
                                       const aten::Environment& environment) {
  (void)graph;
  Call c{node, environment};
  std::string name = node.op.substr(5);
  if (auto found = pointwise_table().find(name); found != pointwise_table().end()) {
    Operands operands;
    for (const auto& [key, argument] : node.args)
      for_each_value(argument,
                     [&](ValueId id) { operands.push_back(environment.value(id).toTensor()); });
    return {found->second(operands)};
  }
  auto one = [](Tensor t) { return std::vector<c10::IValue>{std::move(t)}; };
  if (name == "cast") return one(c.tensor(0).to(c.dtype()));
  // Views.
  if (name == "broadcast") return one(broadcast(c));
  if (name == "reshape") return one(c.tensor(0).reshape(c.integers("shape")));
  if (name == "permute") return one(c.tensor(0).permute(c.integers("dims")));
  if (name == "slice")
    return one(c.tensor(0).slice(c.integer("dim"), c.integer("start"), c.integer("end"),
                                 c.integer("step", 1)));
  if (name == "flip") return one(c.tensor(0).flip(c.integers("dims")));
  if (name == "pad") return one(pad(c));
  if (name == "concat") {
    Operands inputs;
    for (auto& t : c.tensors("inputs")) inputs.push_back(*t);
    return one(at::cat(inputs, c.integer("dim")));
  }
  if (name == "window") return one(window(c));
  if (name == "select_scatter_range") {
    Tensor src = c.tensor(1);
    int64_t dim = c.integer("dim"), start = c.integer("start"), step = c.integer("step", 1);
    if (src.size(dim) == 0) return one(c.tensor(0));
    return one(at::slice_scatter(c.tensor(0), src, dim, start,
                                 start + (src.size(dim) - 1) * step + 1, step));
  }
  // Reductions.
  if (name == "sum")
    return one(at::sum(c.tensor(0), c.integers("dims"), false, c.tensor(0).scalar_type()));
  if (name == "prod") return one(prod(c));
  if (name == "amax" || name == "amin") return one(extreme(c.tensor(0), c.integers("dims"), name == "amax"));
  if (name == "any") return one(at::any(c.tensor(0), c.integers("dims"), false));
  if (name == "all") return one(at::all(c.tensor(0), c.integers("dims"), false));
  if (name == "argmax") return one(at::argmax(c.tensor(0), c.integers("dims").at(0)));
  if (name == "argmin") return one(at::argmin(c.tensor(0), c.integers("dims").at(0)));
  // Scans and sorting.
  if (name == "cumsum")
    return one(at::cumsum(c.tensor(0), c.integer("dim"), c.tensor(0).scalar_type()));
  if (name == "cumprod")
    return one(at::cumprod(c.tensor(0), c.integer("dim"), c.tensor(0).scalar_type()));
  if (name == "cummax") return one(std::get<0>(at::cummax(c.tensor(0), c.integer("dim"))));
  if (name == "cummin") return one(std::get<0>(at::cummin(c.tensor(0), c.integer("dim"))));
  if (name == "sort") {
    auto [values, indices] =
        at::sort(c.tensor(0), std::optional<bool>(true), c.integer("dim"), c.flag("descending"));
    return {values, indices};
  }
  // Whole tensors.
  if (name == "bitcast") return one(c.tensor(0).contiguous().view(c.dtype()));
  if (name == "fft") return fourier(c);
  if (name == "lu") {
    auto [lu, pivots, info] = at::linalg_lu_factor_ex(c.tensor(0));
    return {lu, pivots.to(at::kLong) - 1};
  }
  if (name == "permutation") return one(permutation(c));
  if (name == "cholesky") return one(std::get<0>(at::linalg_cholesky_ex(c.tensor(0))));
  if (name == "triangular_solve")
    return one(at::linalg_solve_triangular(c.tensor(0), c.tensor(1), c.flag("upper"), true, c.flag("unit")));
  // Complex numbers.
  if (name == "real") return one(at::real(c.tensor(0)).contiguous());
  if (name == "imag") return one(at::imag(c.tensor(0)).contiguous());
  if (name == "complex") return one(at::complex(c.tensor(0), c.tensor(1)));
  if (name == "view_as_real") return one(at::view_as_real(c.tensor(0)));
  if (name == "view_as_complex") return one(at::view_as_complex(c.tensor(0).contiguous()));
  // Creation.
  if (name == "full")
    return one(
        at::full(c.integers("shape"), c.scalar("value"), at::TensorOptions().dtype(c.dtype())));
  if (name == "iota") return one(iota(c));
  // Indexing.
  if (name == "index") return one(at::index(c.tensor(0), c.indices()));
  if (name == "gather") return one(at::gather(c.tensor(0), c.integer("dim"), c.tensor(1)));
  if (name == "index_put")
    return one(at::index_put(c.tensor(0), c.indices(), c.tensor(1), c.flag("accumulate")));
  if (name == "scatter") return one(scatter(c));
  // Contractions.
  if (name == "matmul") return one(at::matmul(c.tensor(0), c.tensor(1)));
  if (name == "conv") return one(convolution(c, false));
  if (name == "conv_transpose") return one(convolution(c, true));
  if (name == "attention") return one(attention(c));
  if (name == "lstm") return recurrent(c, 2);
  if (name == "gru") return recurrent(c, 1);
  if (name == "import") {
    fail_at(ErrorKind::unsupported, where_text(node.where), "{} is computed by the application",
            node.where.op);
  }
  fail(ErrorKind::internal, "{} has no meaning in ATen here", node.op);
}

}  // namespace nacre
