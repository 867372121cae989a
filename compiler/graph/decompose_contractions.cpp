// Matrix products and what is written with them: linear, einsum, distances.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Tensor y = matmul(x, weight.rank() == 2 ? transpose(weight, 0, 1) : weight);
  return bias ? y + bias : y;
}

namespace {

// beta * self + alpha * product, rounded once. A beta of 0 leaves self out, even where it is NaN.
Tensor scaled_sum(Call& c, const Tensor& self, const Tensor& product) {
  Operand beta = c.operand("beta", 1), alpha = c.operand("alpha", 1);
  nacre_dtype dtype = product.dtype(), wide = compute_type(dtype);
  bool scaled = !beta.is(1) || !alpha.is(1);
  Tensor y = scaled ? cast(product, wide) : product;
  if (dtype == NACRE_bool_) return beta.is(0) ? y : y | self;
  if (!alpha.is(1)) y = binary("mul", y, alpha, wide);
  if (!beta.is(0)) {
    Tensor x = scaled ? cast(self, wide) : self;
    if (!beta.is(1)) x = binary("mul", x, beta, wide);
    y = x + y;
  }
  return cast(y, dtype);
}

Results matmul_of(Call& c, const char* other) { return matmul(c.tensor("self"), c.tensor(other)); }

Results add_matmul(Call& c, const char* a, const char* b) {
  return scaled_sum(c, c.tensor("self"), matmul(c.tensor(a), c.tensor(b)));
}

Results addbmm(Call& c) {
  Tensor product = matmul(c.tensor("batch1"), c.tensor("batch2"));
  return scaled_sum(c, c.tensor("self"), cast(sum(product, {0}), product.dtype()));
}

Tensor outer(const Tensor& a, const Tensor& b) { return mul(unsqueeze(a, 1), unsqueeze(b, 0)); }

Results addr(Call& c) {
  Tensor self = c.tensor("self"), a = c.tensor("vec1"), b = c.tensor("vec2");
  nacre_dtype dtype = result_type({self, a, b});
  return scaled_sum(c, cast(self, dtype), cast(outer(a, b), dtype));
}

Results linear(Call& c) {
  return linear(c.tensor("input"), c.tensor("weight"), c.optional("bias"));
}

Results bilinear(Call& c) {  // y[..., o] = sum x1[..., i] w[o, i, j] x2[..., j]
  Tensor x1 = c.tensor("input1"), x2 = c.tensor("input2"), w = c.tensor("weight");
  Expr o = w.size(0), i = w.size(1), j = w.size(2);
  Tensor a = reshape(x1, {-1, i}), b = reshape(x2, {-1, j});
  Tensor left = matmul(a, reshape(permute(w, {1, 0, 2}), {i, o * j}));  // [n, o * j]
  Tensor y = sum(reshape(left, {a.size(0), o, j}) * unsqueeze(b, 1), {2});
  if (Tensor bias = c.optional("bias")) y = y + bias;
  return reshape(y, c.output_shape());
}

// What run_decompositions() makes of bilinear: the sum over some dims of a product of three, each with dims of size 1 put in.
Results trilinear(Call& c) {
  nacre_dtype dtype = c.output_dtype();
  auto expanded = [&](const char* name, const char* dims) {
    Tensor x = cast(c.tensor(name), compute_type(dtype));
    Dims at = c.integers(dims);
    std::sort(at.begin(), at.end());
    for (int64_t dim : at) x = unsqueeze(x, dim);
    return x;
  };
  Tensor product = expanded("i1", "expand1") * expanded("i2", "expand2") * expanded("i3", "expand3");
  Dims summed = c.integers("sumdim");
  return cast(summed.empty() ? product : sum(product, summed), dtype);
}

Results inner(Call& c) {
  Tensor a = c.tensor("self"), b = c.tensor("other");
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  if (b.rank() == 1) return matmul(a, b);
  // [..., k] and [..., k]: all rows against all rows.
  Tensor rows = reshape(b, {product(Shape(b.shape().begin(), b.shape().end() - 1)), b.size(-1)});
  return reshape(matmul(a, transpose(rows, 0, 1)), c.output_shape());
}

Results tensordot(Call& c) {
  Tensor a = c.tensor("self"), b = c.tensor("other");
  Dims da = c.integers("dims_self"), db = c.integers("dims_other");
  for (int64_t& d : da) d = normalized_dim(d, a.rank());
  for (int64_t& d : db) d = normalized_dim(d, b.rank());
  for (size_t i = 0; i < da.size(); i++) {  // a size of 1 meets any size: the other is summed
    if (a.size(da[i]).is(1) && !b.size(db[i]).is(1)) b = cast(sum(b, {db[i]}, true), a.dtype());
    if (b.size(db[i]).is(1) && !a.size(da[i]).is(1)) a = cast(sum(a, {da[i]}, true), b.dtype());
  }
  auto rest = [](const Tensor& t, const Dims& used) {
    Dims kept;
    for (int64_t d = 0; d < t.rank(); d++)
      if (std::find(used.begin(), used.end(), d) == used.end()) kept.push_back(d);
    return kept;
  };
  Dims ra = rest(a, da), rb = rest(b, db), order_a = ra, order_b = db;
  order_a.insert(order_a.end(), da.begin(), da.end());
  order_b.insert(order_b.end(), rb.begin(), rb.end());
  Expr k(1), m(1), n(1);
  for (int64_t d : da) k *= a.size(d);
  for (int64_t d : ra) m *= a.size(d);
  for (int64_t d : rb) n *= b.size(d);
  Tensor y = matmul(reshape(permute(a, order_a), {m, k}), reshape(permute(b, order_b), {k, n}));
  return reshape(y, c.output_shape());
}

Results kron(Call& c) {
  Tensor a = c.tensor("self"), b = c.tensor("other");
  int64_t rank = std::max(a.rank(), b.rank());
  auto raised = [&](const Tensor& t) {
    Shape shape(static_cast<size_t>(rank - t.rank()), Expr(1));
    shape.insert(shape.end(), t.shape().begin(), t.shape().end());
    return reshape(t, shape);
  };
  a = raised(a);
  b = raised(b);
  Shape wide_a, wide_b;
  for (int64_t d = 0; d < rank; d++) {
    wide_a.push_back(a.size(d));
    wide_a.push_back(1);
    wide_b.push_back(1);
    wide_b.push_back(b.size(d));
  }
  return reshape(mul(reshape(a, wide_a), reshape(b, wide_b)), c.output_shape());
}

Results matrix_power(Call& c) {
  Tensor x = c.self();
  int64_t n = c.integer("n");
  Builder& b = c.builder();
  if (n < 0) {
    x = inverse_matrix(x);
    n = -n;
  }
  if (n == 0) {
    Tensor one = eq(iota_along(b, x.shape(), -2), iota_along(b, x.shape(), -1));
    return cast(one, x.dtype());
  }
  Tensor result, square = x;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = result ? matmul(result, square) : square;
    if (n > 1) square = matmul(square, square);
  }
  return cast(result, c.output_dtype());
}

Results multi_dot(Call& c, const char* name) {
  std::vector<Tensor> factors = c.tensors(name);
  Tensor y = factors.front();
  for (size_t i = 1; i < factors.size(); i++) y = matmul(y, factors[i]);
  return y;
}

// ---- Einstein summation: operands are contracted from left to right, two at a time, each as one
// batched product.

struct Labelled {
  Tensor tensor;
  std::vector<int>
      labels;  // letters, or negative numbers for the dims of an ellipsis (-1 the last)
};

bool contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::vector<int> parse_labels(const std::string& term, size_t ellipsis_rank) {
  std::vector<int> labels;
  for (size_t i = 0; i < term.size(); i++) {
    if (term[i] == ' ') continue;
    if (term[i] == '.') {
      i += 2;
      for (size_t k = ellipsis_rank; k > 0; k--) labels.push_back(-static_cast<int>(k));
    } else {
      labels.push_back(term[i]);
    }
  }
  return labels;
}

// Repeated labels of one operand take its diagonal.
Labelled without_repeats(Labelled x) {
  for (size_t i = 0; i < x.labels.size(); i++) {
    for (size_t j = i + 1; j < x.labels.size();) {
      if (x.labels[i] != x.labels[j]) {
        j++;
        continue;
      }
      const Shape& shape = x.tensor.shape();
      Builder& b = x.tensor.builder();
      Tensor on = eq(iota_along(b, shape, static_cast<int64_t>(i)),
                     iota_along(b, shape, static_cast<int64_t>(j)));
      nacre_dtype dtype = x.tensor.dtype();
      x.tensor =
          cast(sum(where(on, x.tensor, full_like(x.tensor, 0)), {static_cast<int64_t>(j)}), dtype);
      x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
  return x;
}

// Dims in the order of `labels`, a missing one with size 1.
Tensor arranged(const Labelled& x, const std::vector<int>& labels) {
  Dims order;
  Shape shape;
  for (int label : labels) {
    auto it = std::find(x.labels.begin(), x.labels.end(), label);
    if (it == x.labels.end()) {
      shape.push_back(1);
      continue;
    }
    order.push_back(it - x.labels.begin());
    shape.push_back(x.tensor.size(order.back()));
  }
  return reshape(permute(x.tensor, order), shape);
}

Labelled summed_to(const Labelled& x, const std::vector<int>& needed) {
  Labelled y{x.tensor, {}};
  Dims dropped;
  for (size_t i = 0; i < x.labels.size(); i++) {
    if (contains(needed, x.labels[i]))
      y.labels.push_back(x.labels[i]);
    else
      dropped.push_back(static_cast<int64_t>(i));
  }
  if (!dropped.empty()) y.tensor = cast(sum(x.tensor, dropped), x.tensor.dtype());
  return y;
}

Labelled contract(Labelled a, Labelled b, const std::vector<int>& needed) {
  std::vector<int> with_b = needed, with_a = needed;
  with_b.insert(with_b.end(), b.labels.begin(), b.labels.end());
  with_a.insert(with_a.end(), a.labels.begin(), a.labels.end());
  a = summed_to(a, with_b);
  b = summed_to(b, with_a);
  // A size of 1 meets any size.
  for (Labelled* x : {&a, &b}) {
    Labelled& o = x == &a ? b : a;
    Shape shape = x->tensor.shape();
    for (size_t i = 0; i < x->labels.size(); i++) {
      auto it = std::find(o.labels.begin(), o.labels.end(), x->labels[i]);
      if (it != o.labels.end() && shape[i].is(1)) shape[i] = o.tensor.size(it - o.labels.begin());
    }
    x->tensor = expand(x->tensor, shape);
  }
  std::vector<int> batch, left, right, inner_labels;
  for (int l : a.labels) {
    if (!contains(b.labels, l))
      left.push_back(l);
    else if (contains(needed, l))
      batch.push_back(l);
    else
      inner_labels.push_back(l);
  }
  for (int l : b.labels)
    if (!contains(a.labels, l)) right.push_back(l);
  auto joined = [](std::initializer_list<std::vector<int>> lists) {
    std::vector<int> all;
    for (const auto& l : lists) all.insert(all.end(), l.begin(), l.end());
    return all;
  };
  Labelled y;
  y.labels = joined({batch, left, right});
  if (inner_labels.empty()) {
    y.tensor = mul(arranged(a, y.labels), arranged(b, y.labels));
    return y;
  }
  auto sizes = [&](const std::vector<int>& labels) {
    Shape shape;
    for (int l : labels) {
      const Labelled& owner = contains(a.labels, l) ? a : b;
      auto it = std::find(owner.labels.begin(), owner.labels.end(), l);
      shape.push_back(owner.tensor.size(it - owner.labels.begin()));
    }
    return shape;
  };
  Shape batch_shape = sizes(batch), result = batch_shape;
  auto matrix = [&](const Labelled& x, const std::vector<int>& order, const Expr& m,
                    const Expr& n) {
    Shape shape = batch_shape;
    shape.push_back(m);
    shape.push_back(n);
    return reshape(arranged(x, order), shape);
  };
  Expr m = product(sizes(left)), k = product(sizes(inner_labels)), n = product(sizes(right));
  Tensor p = matmul(matrix(a, joined({batch, left, inner_labels}), m, k),
                    matrix(b, joined({batch, inner_labels, right}), k, n));
  for (const Expr& e : sizes(left)) result.push_back(e);
  for (const Expr& e : sizes(right)) result.push_back(e);
  y.tensor = reshape(p, result);
  return y;
}

Results einsum(Call& c) {
  std::string equation = c.text("equation", "");
  std::vector<Tensor> tensors = c.tensors("tensors");
  size_t arrow = equation.find("->");
  std::string inputs = equation.substr(0, arrow);
  std::vector<std::string> terms;
  for (size_t start = 0;;) {
    size_t comma = inputs.find(',', start);
    terms.push_back(inputs.substr(start, comma == std::string::npos ? comma : comma - start));
    if (comma == std::string::npos) break;
    start = comma + 1;
  }
  if (terms.size() != tensors.size()) c.unsupported("the equation " + equation);
  std::vector<Labelled> operands;
  size_t widest = 0;
  std::map<int, int> uses;
  for (size_t i = 0; i < terms.size(); i++) {
    auto letters = static_cast<size_t>(std::count_if(
        terms[i].begin(), terms[i].end(), [](char ch) { return ch != '.' && ch != ' '; }));
    size_t rest = static_cast<size_t>(tensors[i].rank()) - letters;
    bool ellipsis = terms[i].find('.') != std::string::npos;
    if (ellipsis) widest = std::max(widest, rest);
    Labelled x{tensors[i], parse_labels(terms[i], ellipsis ? rest : 0)};
    for (int l : x.labels) uses[l]++;
    operands.push_back(without_repeats(x));
  }
  std::vector<int> output;
  if (arrow != std::string::npos) {
    output = parse_labels(equation.substr(arrow + 2), widest);
  } else {
    for (size_t k = widest; k > 0; k--) output.push_back(-static_cast<int>(k));
    for (auto [label, times] : uses)
      if (label > 0 && times == 1) output.push_back(label);
    std::sort(output.begin() + static_cast<std::ptrdiff_t>(widest), output.end());
  }
  Labelled y = operands[0];
  for (size_t i = 1; i < operands.size(); i++) {
    std::vector<int> needed = output;
    for (size_t k = i + 1; k < operands.size(); k++)
      needed.insert(needed.end(), operands[k].labels.begin(), operands[k].labels.end());
    y = contract(y, operands[i], needed);
  }
  y = summed_to(y, output);
  return expand(arranged(y, output), c.output_shape());
}

// ---- Vectors and distances.

Results cross(Call& c) {
  Tensor a = c.tensor("self"), b = c.tensor("other");
  nacre_dtype dtype = result_type({a, b});
  Shape shape = c.output_shape();
  auto rank = static_cast<int64_t>(shape.size());
  int64_t dim = -1;
  if (c.op().find("linalg") != std::string::npos)
    dim = c.dim("dim", rank, -1);
  else if (c.has("dim"))
    dim = c.dim("dim", rank);
  else
    for (int64_t d = rank; d-- > 0;)
      if (shape[static_cast<size_t>(d)].is(3)) dim = d;
  a = cast(expand(a, shape), dtype);
  b = cast(expand(b, shape), dtype);
  auto turned = [&](const Tensor& t, int64_t by) {
    return concat({slice(t, dim, by, 3), slice(t, dim, 0, by)}, dim);
  };
  return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1);
}

Tensor distance(const Tensor& difference, double p, int64_t dim, bool keep) {
  Tensor d = abs(difference);
  if (p == 0) return cast(sum(ne(d, 0), {dim}, keep), d.dtype());
  if (p == 1) return sum(d, {dim}, keep);
  if (p == 2) return sqrt(sum(d * d, {dim}, keep));
  if (std::isinf(p)) return amax(d, {dim}, keep);
  return pow(sum(pow(d, p), {dim}, keep), 1 / p);
}

Results cdist(Call& c) {
  Tensor a = c.tensor("x1"), b = c.tensor("x2");
  double p = c.real("p", 2);
  if (a.size(-1).is(0)) return c.full(c.output_shape(), 0, c.output_dtype());
  return expand(distance(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1, false), c.output_shape());
}

Results pdist(Call& c) {  // all pairs i < j, row by row
  Tensor x = c.self();
  Builder& b = c.builder();
  Expr n = x.size(0), pairs = c.output_shape()[0];
  if (pairs.is(0)) return c.full({0}, 0, x.dtype());
  Tensor width = -iota(b, n) + Operand(n - 1);
  Tensor ends = scan("cumsum", width, 0);
  Tensor position = iota(b, pairs);
  Tensor row = sum(le(unsqueeze(ends, 0), unsqueeze(position, 1)), {1});
  Tensor column = position - index_dim(ends - width, 0, row) + row + 1;
  return distance(index_dim(x, 0, row) - index_dim(x, 0, column), c.real("p", 2), -1, false);
}

Results pairwise_distance(Call& c) {
  Tensor d = c.tensor("x1") - c.tensor("x2") + c.real("eps", 1e-6);
  return distance(d, c.real("p", 2), -1, c.flag("keepdim", false));
}

Results cosine_similarity(Call& c) {
  Tensor a = c.tensor("x1"), b = c.tensor("x2");
  nacre_dtype dtype = result_type({a, b}), wide = compute_type(dtype);
  double eps = c.real("eps", 1e-8);
  a = cast(a, wide);
  b = cast(b, wide);
  Shape shape = broadcast_shapes(a.shape(), b.shape(), c.facts());
  int64_t dim = c.dim("dim", static_cast<int64_t>(shape.size()), 1);
  a = expand(a, shape);
  b = expand(b, shape);
  auto normal = [&](const Tensor& t) { return t / maximum(sqrt(sum(t * t, {dim}, true)), eps); };
  return cast(sum(normal(a) * normal(b), {dim}), dtype);
}

Results vector_dot(Call& c) {
  Tensor a = c.tensor("x"), b = c.tensor("y");
  int64_t dim = c.integer("dim", -1);
  Tensor p = to_compute(a) * to_compute(b);
  return cast(sum(p, {dim}), c.output_dtype());
}

Results vandermonde(Call& c) {
  Tensor x = c.self();
  if (x.dtype() == NACRE_bool_) x = cast(x, NACRE_i64);
  bool linalg = c.op().find("linalg") != std::string::npos;
  Shape shape = c.output_shape();
  x = cast(x, c.output_dtype());
  Tensor base = expand(unsqueeze(x, -1), shape);
  Tensor exponent = iota_along(c.builder(), shape, -1);
  if (!linalg && !c.flag("increasing", false))
    exponent = -exponent + Operand(shape.back() - Expr(1));
  return pow(base, cast(exponent, base.dtype()));
}

// ---- Products by groups, as mixtures of experts use them.

// Of each position below `length`: the group that it lies in, by where the groups end; behind the last one, their number.
Tensor groups(const Tensor& ends, const Expr& length) {
  return sum(le(unsqueeze(ends, 1), unsqueeze(iota(ends.builder(), length), 0)), {0});
}
// The element of `x` for each of these groups; where there is none, the last.
Tensor of_groups(const Tensor& x, const Tensor& group) {
  return index_dim(x, 0, minimum(group, simplify(x.size(0) - 1, x.facts())));
}

// Only what lies in a group counts; each row takes part in one product of one row.
Tensor grouped_matmul(const Tensor& a, const Tensor& b, const Tensor& ends) {
  if (a.rank() == 3 && b.rank() == 3) return matmul(a, b);
  Expr count = ends.size(0);
  if (b.rank() == 3) {  // rows of a, each with its group's b
    Tensor group = groups(ends, a.size(0));
    Tensor y = sum(unsqueeze(a, 2) * of_groups(b, group), {1});
    return where(lt(unsqueeze(group, 1), count), y, 0);
  }
  if (a.rank() == 3) {  // columns of b, each with its group's a
    Tensor group = groups(ends, b.size(1));
    Tensor y = sum(of_groups(a, group) * unsqueeze(transpose(b, 0, 1), 1), {2});
    return transpose(where(lt(unsqueeze(group, 1), count), y, 0), 0, 1);
  }
  // Pieces of the dim that is summed: a product for each.
  Tensor inside = eq(unsqueeze(iota(ends.builder(), count), 1), unsqueeze(groups(ends, a.size(1)), 0));
  return matmul(where(unsqueeze(inside, 1), unsqueeze(a, 0), 0), unsqueeze(b, 0));
}

Results grouped_matmul(Call& c, const char* first, const char* second) {
  if (c.optional("bias")) c.unsupported("a bias");
  Tensor a = to_compute(c.tensor(first)), b = to_compute(c.tensor(second));
  Tensor ends = c.optional("offs");
  if (!ends && (a.rank() == 2 || b.rank() == 2)) c.unsupported("no `offs`");
  return cast(grouped_matmul(a, b, ends), c.output_dtype());
}

constexpr Decomposition kTable[] = {
    {"linear.default", linear},
    {"mm.default", [](Call& c) { return matmul_of(c, "mat2"); }},
    {"bmm.default", [](Call& c) { return matmul_of(c, "mat2"); }},
    {"matmul.default", [](Call& c) { return matmul_of(c, "other"); }},
    {"linalg_matmul.default", [](Call& c) { return matmul_of(c, "other"); }},
    {"mv.default", [](Call& c) { return matmul_of(c, "vec"); }},
    {"dot.default", [](Call& c) { return matmul_of(c, "tensor"); }},
    {"vdot.default", [](Call& c) { return matmul_of(c, "other"); }},
    {"__matmul__.default", [](Call& c) { return matmul_of(c, "other"); }},
    {"addmm.default", [](Call& c) { return add_matmul(c, "mat1", "mat2"); }},
    {"baddbmm.default", [](Call& c) { return add_matmul(c, "batch1", "batch2"); }},
    {"addmv.default", [](Call& c) { return add_matmul(c, "mat", "vec"); }},
    {"addbmm.default", addbmm},
    {"addr.default", addr},
    {"outer.default", [](Call& c) -> Results { return outer(c.tensor("self"), c.tensor("vec2")); }},
    {"ger.default", [](Call& c) -> Results { return outer(c.tensor("self"), c.tensor("vec2")); }},
    {"inner.default", inner},
    {"bilinear.default", bilinear},
    {"_trilinear.default", trilinear},
    {"tensordot.default", tensordot},
    {"_grouped_mm.default", [](Call& c) { return grouped_matmul(c, "self", "mat2"); }},
    {"transformers.grouped_mm_fallback.default", [](Call& c) { return grouped_matmul(c, "input", "weight"); }},
    {"kron.default", kron},
    {"einsum.default", einsum},
    {"chain_matmul.default", [](Call& c) { return multi_dot(c, "matrices"); }},
    {"linalg_multi_dot.default", [](Call& c) { return multi_dot(c, "tensors"); }},
    {"matrix_power.default", matrix_power},
    {"linalg_matrix_power.default", matrix_power},
    {"cross.default", cross},
    {"linalg_cross.default", cross},
    {"cdist.default", cdist},
    {"_cdist_forward.default", cdist},
    {"pdist.default", pdist},
    {"_pdist_forward.default", pdist},
    {"pairwise_distance.default", pairwise_distance},
    {"cosine_similarity.default", cosine_similarity},
    {"linalg_vecdot.default", vector_dot},
    {"vander.default", vandermonde},
    {"linalg_vander.default", vandermonde},
};

}  // namespace

Decompositions contraction_decompositions() { return kTable; }

}  // namespace nacre
