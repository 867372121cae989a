// Determinants, inverses, systems of equations, Cholesky factors, the matrix exponential. All in float64, rounded once: what
// elimination loses is then far below the precision of float32.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "compiler/graph/decompose_call.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Tensor wide(const Tensor& x) {
  if (is_complex(x.dtype())) fail(ErrorKind::unsupported, "linear algebra of complex matrices");
  return cast(to_float(x), NACRE_f64);
}

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

// With the batch dims of both; the last `own` dims of each are its own.
void broadcast_batches(Tensor& a, Tensor& b, size_t own_a = 2, size_t own_b = 2) {
  auto batch = [](const Tensor& t, size_t own) { return Shape(t.shape().begin(), t.shape().end() - static_cast<std::ptrdiff_t>(own)); };
  const Shape common = broadcast_shapes(batch(a, own_a), batch(b, own_b), a.facts());
  auto stretched = [&](const Tensor& t, size_t own) {
    Shape shape = common;
    shape.insert(shape.end(), t.shape().end() - static_cast<std::ptrdiff_t>(own), t.shape().end());
    return expand(t, shape);
  };
  a = stretched(a, own_a);
  b = stretched(b, own_b);
}

struct Lu {
  Tensor lu, pivots;  // prim.lu's
};

Lu factored(const Tensor& a) {
  Builder& b = a.builder();
  std::vector<ValueId> results = b.make("prim.lu", {{"x", ValueRef{a.id()}}});
  return {{b, results[0]}, {b, results[1]}};
}

Tensor permutation(const Tensor& pivots, const Expr& size) {
  Builder& b = pivots.builder();
  return {b, b.make_one("prim.permutation", {{"pivots", ValueRef{pivots.id()}}, {"size", size}})};
}

Tensor triangular_solve(const Tensor& a, const Tensor& rhs, bool upper, bool unit) {
  Builder& b = a.builder();
  return {b, b.make_one("prim.triangular_solve", {{"a", ValueRef{a.id()}}, {"b", ValueRef{rhs.id()}}, {"upper", upper}, {"unit", unit}})};
}

// Row i of the result is row order[i] of x.
Tensor with_rows(const Tensor& x, const Tensor& order) { return gather(x, expand(unsqueeze(order, -1), x.shape()), x.rank() - 2); }

Tensor eye_like(const Tensor& a, const Expr& n) {
  Shape shape = a.shape();
  shape[shape.size() - 2] = shape.back() = n;
  Builder& b = a.builder();
  return cast(eq(iota_along(b, shape, -2), iota_along(b, shape, -1)), a.dtype());
}

// P a = L U:  a x = b  is  L (U x) = P b.
Tensor solve_factored(const Lu& f, const Tensor& rhs) {
  Tensor permuted = with_rows(rhs, permutation(f.pivots, rhs.size(-2)));
  return triangular_solve(f.lu, triangular_solve(f.lu, permuted, false, true), true, false);
}

// a^T x = b  is  U^T (L^T (P x)) = b.
Tensor solve_factored_transposed(const Lu& f, const Tensor& rhs) {
  Tensor t = transposed(f.lu);
  Tensor y = triangular_solve(t, triangular_solve(t, rhs, false, false), true, true);
  // The inverse of the permutation: where each row went.
  Tensor order = permutation(f.pivots, rhs.size(-2));
  return with_rows(y, sort(order, order.rank() - 1, false).second);
}

Tensor solve(const Tensor& a, const Tensor& rhs, bool left) {
  Tensor x = left ? a : transposed(a), b = left ? rhs : transposed(rhs);
  broadcast_batches(x, b);
  Tensor y = solve_factored(factored(x), b);
  return left ? y : transposed(y);
}

Tensor inverse(const Tensor& a) { return solve_factored(factored(a), eye_like(a, a.size(-1))); }

Tensor diagonal(const Tensor& x) {  // of a matrix that has at least as many columns as rows, or as many rows as columns
  const Expr n = min(x.size(-2), x.size(-1));
  Tensor square = narrow(narrow(x, -2, 0, n), -1, 0, n);
  Builder& b = x.builder();
  Tensor on = eq(iota_along(b, square.shape(), -2), iota_along(b, square.shape(), -1));
  return sum(where(on, square, full_like(square, 0)), {square.rank() - 1});
}

// -1 for an odd number of exchanges.
Tensor sign_of(const Tensor& pivots) {
  Tensor moved = ne(pivots, iota_along(pivots.builder(), pivots.shape(), -1));
  Tensor odd = remainder(sum(cast(moved, NACRE_i64), {pivots.rank() - 1}), 2);
  return cast(odd * -2 + 1, NACRE_f64);
}

Shape batch_of(const Tensor& a, size_t own = 2) { return {a.shape().begin(), a.shape().end() - static_cast<std::ptrdiff_t>(own)}; }

// LAPACK's info: the number, from 1 on, of the first that holds along the last dim, which may be empty; 0 if none does.
Tensor first_that_holds(const Tensor& condition) {
  Tensor first = argmax(pad_dim(cast(condition, NACRE_i64), -1, 0, 1, 0), -1) + 1;
  return cast(where(any(condition, {-1}), first, full_like(first, 0)), NACRE_i32);
}

// The number of the first pivot that is 0, or 0.
Tensor singular_info(const Tensor& lu) { return first_that_holds(eq(diagonal(lu), 0)); }

Tensor one_based(const Tensor& pivots) { return cast(pivots + 1, NACRE_i32); }

// ---- Determinants.

Results det(Call& c) {
  Tensor a = wide(c.self());
  const nacre_dtype dtype = c.output_dtype();
  Lu f = factored(a);
  Tensor value = prod(diagonal(f.lu), {a.rank() - 2}) * sign_of(f.pivots);
  if (c.outputs() == 1) return cast(value, dtype);
  return {cast(value, dtype), cast(f.lu, dtype), one_based(f.pivots)};
}

struct SignAndLog {
  Tensor sign, log;
};

SignAndLog sign_and_log(const Lu& f) {
  Tensor d = diagonal(f.lu);
  const int64_t last = d.rank() - 1;
  return {prod(sign(d), {last}) * sign_of(f.pivots), sum(log(abs(d)), {last})};
}

Results slogdet(Call& c) {
  Tensor a = wide(c.self());
  const nacre_dtype dtype = c.output_dtype();
  Lu f = factored(a);
  SignAndLog s = sign_and_log(f);
  if (c.outputs() == 2) return {cast(s.sign, dtype), cast(s.log, dtype)};
  return {cast(s.sign, dtype), cast(s.log, dtype), cast(f.lu, dtype), one_based(f.pivots)};
}

Results logdet(Call& c) {
  SignAndLog s = sign_and_log(factored(wide(c.self())));
  return cast(where(lt(s.sign, 0), full_like(s.log, std::nan("")), s.log), c.output_dtype());
}

// ---- Inverses and systems.

Results invert(Call& c) {
  Lu f = factored(wide(c.self()));
  Tensor y = cast(solve_factored(f, eye_like(f.lu, f.lu.size(-1))), c.output_dtype());
  if (c.outputs() == 1) return y;
  return {y, singular_info(f.lu)};
}

// Infinite without an inverse, and where it is no number.
Results condition_number(Call& c) {
  const Argument* p = c.node().find("p");
  const bool named = p && std::holds_alternative<std::string>(*p);
  if (!named && !c.has("p")) c.unsupported("this norm needs singular values");
  Tensor a = wide(c.self());
  if (a.size(-1).is(0)) return full(c.builder(), c.output_shape(), 0, c.output_dtype());
  Lu f = factored(a);
  auto norm = [&](const Tensor& x) { return matrix_norm(c, x, named ? c.text("p", "") : "", named ? 0 : c.real("p"), {-2, -1}, false); };
  Tensor product = norm(a) * norm(solve_factored(f, eye_like(a, a.size(-1))));
  Tensor infinite = full_like(product, std::numeric_limits<double>::infinity());
  return cast(where(eq(singular_info(f.lu), 0) & eq(product, product), product, infinite), c.output_dtype());
}

// A right-hand side that is one vector for each matrix.
bool is_vector(const Tensor& a, const Tensor& b) {
  if (b.rank() == 1) return true;
  Shape expected = a.shape();
  expected.pop_back();
  return b.rank() + 1 == a.rank() && same_shape(b.shape(), expected, a.facts());
}

Results solve_system(Call& c) {
  Tensor a = wide(c.tensor("A")), b = wide(c.tensor("B"));
  const bool left = c.flag("left", true);
  const nacre_dtype dtype = c.output_dtype();
  const bool vector = left && is_vector(a, b);
  if (vector) b = unsqueeze(b, -1);
  Tensor x = left ? a : transposed(a), rhs = left ? b : transposed(b);
  broadcast_batches(x, rhs);
  Lu f = factored(x);
  Tensor y = solve_factored(f, rhs);
  y = cast(vector ? squeeze(y, {-1}) : left ? y : transposed(y), dtype);
  if (c.outputs() == 1) return y;
  if (c.outputs() == 2) return {y, singular_info(f.lu)};
  return {y, cast(f.lu, dtype), one_based(f.pivots), singular_info(f.lu)};
}

Results lu_factor(Call& c) {
  Lu f = factored(wide(c.self()));
  if (!c.flag("pivot", true)) c.unsupported("a factorization without pivots");
  std::vector<Tensor> results{cast(f.lu, c.output_dtype()), one_based(f.pivots)};
  if (c.outputs() == 3) results.push_back(singular_info(f.lu));
  return results;
}

Tensor triangle(const Tensor& x, bool upper, bool unit) {
  Builder& b = x.builder();
  Tensor row = iota_along(b, x.shape(), -2), column = iota_along(b, x.shape(), -1);
  Tensor inside = upper ? le(row, column) : unit ? lt(column, row) : le(column, row);
  Tensor y = where(inside, x, full_like(x, 0));
  return unit ? where(eq(row, column), full_like(x, 1), y) : y;
}

// P, L and U of an m x n factorization.
std::vector<Tensor> unpacked(const Tensor& lu, const Tensor& pivots) {
  const Expr m = lu.size(-2), n = lu.size(-1), k = simplify(min(m, n), lu.facts());
  Tensor order = permutation(pivots, m);
  Shape shape = order.shape();
  shape.push_back(m);
  // Row order[i] of the original is row i: a = P L U has 1 in row order[i] of column i.
  Tensor row = iota_along(lu.builder(), shape, -2);
  Tensor p = cast(eq(row, expand(unsqueeze(order, -2), shape)), lu.dtype());
  return {p, triangle(narrow(lu, -1, 0, k), false, true), triangle(narrow(lu, -2, 0, k), true, false)};
}

Results lu(Call& c) {
  Lu f = factored(wide(c.self()));
  if (!c.flag("pivot", true)) c.unsupported("a factorization without pivots");
  std::vector<Tensor> results;
  for (const Tensor& t : unpacked(f.lu, f.pivots)) results.push_back(cast(t, c.output_dtype()));
  return results;
}

Results lu_unpack(Call& c) {
  Tensor data = c.tensor("LU_data");
  return unpacked(data, cast(c.tensor("LU_pivots"), NACRE_i64) - 1);
}

Results lu_solve(Call& c) {
  const bool old = c.op() == "aten.lu_solve.default";  // (self=B, LU_data, LU_pivots)
  Tensor lu = wide(c.tensor(old ? "LU_data" : "LU")), b = wide(c.tensor(old ? "self" : "B"));
  Tensor pivots = cast(c.tensor(old ? "LU_pivots" : "pivots"), NACRE_i64) - 1;
  const bool left = old || c.flag("left", true), adjoint = !old && c.flag("adjoint", false);
  if (!left) b = transposed(b);
  broadcast_batches(lu, b);
  Shape pivot_shape = batch_of(b);
  pivot_shape.push_back(pivots.size(-1));
  Lu f{lu, expand(pivots, pivot_shape)};
  Tensor y = adjoint != !left ? solve_factored_transposed(f, b) : solve_factored(f, b);
  return cast(left ? y : transposed(y), c.output_dtype());
}

Results solve_triangular(Call& c) {
  Tensor a = wide(c.tensor("self")), b = wide(c.tensor("B"));
  bool upper = c.flag("upper", false);
  const bool left = c.flag("left", true);
  if (!left) {
    a = transposed(a);
    b = transposed(b);
    upper = !upper;
  }
  broadcast_batches(a, b);
  Tensor y = triangular_solve(a, b, upper, c.flag("unitriangular", false));
  return cast(left ? y : transposed(y), c.output_dtype());
}

Results triangular_solve_old(Call& c) {  // (self=B, A) -> x, A
  Tensor given = c.tensor("A"), a = wide(given), b = wide(c.tensor("self"));
  bool upper = c.flag("upper", true);
  if (c.flag("transpose", false)) {
    a = transposed(a);
    upper = !upper;
  }
  broadcast_batches(a, b);
  Tensor y = triangular_solve(a, b, upper, c.flag("unitriangular", false));
  return {cast(y, c.output_dtype()), c.needs(1) ? expand(given, c.output_shape(1)) : Tensor()};
}

// ---- Cholesky.

Tensor lower_factor(const Tensor& a) { return {a.builder(), a.builder().make_one("prim.cholesky", {{"x", ValueRef{a.id()}}})}; }

Results cholesky(Call& c) {
  Tensor a = wide(c.self());
  const bool upper = c.flag("upper", false);
  Tensor l = lower_factor(upper ? transposed(a) : a);
  Tensor y = cast(upper ? transposed(l) : l, c.output_dtype());
  if (c.outputs() == 1) return y;
  return {y, first_that_holds(isnan(diagonal(l)))};
}

// l l^T x = b.
Tensor solve_by_factor(const Tensor& l, const Tensor& b) {
  return triangular_solve(transposed(l), triangular_solve(l, b, false, false), true, false);
}

Results cholesky_solve(Call& c) {
  Tensor b = wide(c.tensor("self")), l = wide(c.tensor("input2"));
  if (c.flag("upper", false)) l = transposed(l);
  broadcast_batches(l, b);
  return cast(solve_by_factor(l, b), c.output_dtype());
}

Results cholesky_inverse(Call& c) {
  Tensor l = wide(c.self());
  if (c.flag("upper", false)) l = transposed(l);
  return cast(solve_by_factor(l, eye_like(l, l.size(-1))), c.output_dtype());
}

// ---- Functions of matrices.

// Scaled by a power of two below norm 1/2, by Taylor's series, squared as often: at most kSquarings times.
Results matrix_exponential(Call& c) {
  constexpr int kTerms = 16, kSquarings = 24;
  if (c.self().elements().is(0)) return c.self();
  Tensor a = wide(c.self());
  const int64_t rank = a.rank();
  Tensor norm = amax(sum(abs(a), {rank - 1}, true), {rank - 2}, true);
  Tensor times = clamp(ceil(log2(norm)) + 1, 0, kSquarings);
  Tensor x = a * exp2(-times);
  Tensor one = eye_like(a, a.size(-1)), y = one;
  for (int k = kTerms; k > 0; --k) y = one + matmul(x, y) * (1.0 / k);
  for (int k = 0; k < kSquarings; ++k) y = where(lt(full_like(times, k), times), matmul(y, y), y);
  // NaN and infinities leave no number of squarings.
  Tensor finite = lt(norm, HUGE_VAL);
  return cast(where(finite, y, full_like(y, std::nan(""))), c.output_dtype());
}

Results tensor_inverse(Call& c) {
  Tensor a = wide(c.self());
  const int64_t split = c.integer("ind", 2);
  Expr n(1);
  for (int64_t d = split; d < a.rank(); ++d) n *= a.size(d);
  return cast(reshape(inverse(reshape(a, {n, n})), c.output_shape()), c.output_dtype());
}

Results tensor_solve(Call& c) {
  Tensor a = wide(c.self()), b = wide(c.tensor("other"));
  Dims moved;
  for (int64_t d : c.integers("dims")) moved.push_back(normalized_dim(d, a.rank()));
  if (!moved.empty()) {
    Dims order;
    for (int64_t d = 0; d < a.rank(); ++d)
      if (std::find(moved.begin(), moved.end(), d) == moved.end()) order.push_back(d);
    order.insert(order.end(), moved.begin(), moved.end());
    a = permute(a, order);
  }
  const Expr n = b.elements();
  return cast(reshape(solve(reshape(a, {n, n}), reshape(b, {n, 1}), true), c.output_shape()), c.output_dtype());
}

constexpr Decomposition kTable[] = {
    {"det.default", det},
    {"linalg_det.default", det},
    {"_linalg_det.default", det},
    {"slogdet.default", slogdet},
    {"linalg_slogdet.default", slogdet},
    {"_linalg_slogdet.default", slogdet},
    {"logdet.default", logdet},
    {"inverse.default", invert},
    {"linalg_inv.default", invert},
    {"linalg_inv_ex.default", invert},
    {"linalg_cond.default", condition_number},
    {"linalg_cond.p_str", condition_number},
    {"linalg_solve.default", solve_system},
    {"linalg_solve_ex.default", solve_system},
    {"_linalg_solve_ex.default", solve_system},
    {"linalg_lu_factor.default", lu_factor},
    {"linalg_lu_factor_ex.default", lu_factor},
    {"_lu_with_info.default", lu_factor},
    {"linalg_lu.default", lu},
    {"lu_unpack.default", lu_unpack},
    {"linalg_lu_solve.default", lu_solve},
    {"lu_solve.default", lu_solve},
    {"linalg_solve_triangular.default", solve_triangular},
    {"triangular_solve.default", triangular_solve_old},
    {"cholesky.default", cholesky},
    {"linalg_cholesky.default", cholesky},
    {"linalg_cholesky_ex.default", cholesky},
    {"cholesky_solve.default", cholesky_solve},
    {"cholesky_inverse.default", cholesky_inverse},
    {"matrix_exp.default", matrix_exponential},
    {"linalg_matrix_exp.default", matrix_exponential},
    {"linalg_tensorinv.default", tensor_inverse},
    {"linalg_tensorsolve.default", tensor_solve},
};

}  // namespace

Tensor inverse_matrix(const Tensor& a) { return inverse(wide(a)); }

Decompositions linalg_decompositions() { return kTable; }

}  // namespace nacre
