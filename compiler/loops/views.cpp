#include "compiler/loops/views.h"

#include "compiler/support/error.h"

namespace nacre {
namespace {

std::map<std::string, Expr> dim_values(const std::vector<Expr>& index) {
  std::map<std::string, Expr> values;
  for (size_t i = 0; i < index.size(); ++i) values.emplace(dim_symbol(i).name(), index[i]);
  return values;
}

Facts dim_facts(const std::vector<Expr>& shape, Facts facts) {
  std::vector<LoopVar> dims;
  for (size_t i = 0; i < shape.size(); ++i) dims.push_back({dim_symbol(i).name(), shape[i]});
  add_loop_facts(facts, dims);
  return facts;
}

// Conditions that are decided vanish; false if one never holds.
void keep_open(std::vector<Expr>& when) {
  std::erase_if(when, [](const Expr& e) { return e.is(1); });
}

std::vector<Expr> identity(size_t rank) {
  std::vector<Expr> index;
  for (size_t i = 0; i < rank; ++i) index.push_back(dim_symbol(i));
  return index;
}

}  // namespace

Expr dim_symbol(size_t dim) {
  static const std::vector<Expr> symbols = [] {
    std::vector<Expr> s;
    for (int i = 0; i < 32; ++i) s.push_back(Expr::symbol("_" + std::to_string(i)));
    return s;
  }();
  check(dim < symbols.size(), "a tensor of {} dims", dim + 1);
  return symbols[dim];
}

View whole(const LoopProgram& program, BufferId buffer) {
  View v;
  v.buffer = buffer;
  v.dtype = program[buffer].dtype;
  v.shape = program[buffer].shape;
  v.at = identity(v.shape.size());
  for (size_t i = 0; i < v.shape.size(); ++i)
    if (v.shape[i].is(1)) v.at[i] = 0;
  return v;
}

bool is_whole(const LoopProgram& program, const View& view) {
  if (view.buffer < 0 || !view.when.empty()) return false;
  const View w = whole(program, view.buffer);
  return w.dtype == view.dtype && w.shape == view.shape && w.at == view.at;
}

View filled(Scalar fill, std::vector<Expr> shape, nacre_dtype dtype) {
  View v;
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.fill = std::move(fill);
  return v;
}

View reindexed(const View& view, std::vector<Expr> shape, const std::vector<Expr>& index, const Facts& symbols) {
  check(index.size() == view.shape.size(), "a view of {} dims is indexed by {}", view.shape.size(), index.size());
  View result = view;
  result.shape = std::move(shape);
  Simplifier simplify(dim_facts(result.shape, symbols));
  std::map<std::string, Expr> values = dim_values(index);
  auto replace = [&](Expr& e) {
    if (!e.constant()) e = simplify(e.substitute(values));
  };
  for (Expr& e : result.at) replace(e);
  for (Expr& e : result.when) replace(e);
  replace(result.fill.expr);
  // A dim of one element has index 0, however it is written.
  for (size_t i = 0; i < result.shape.size(); ++i) {
    if (!result.shape[i].is(1)) continue;
    const std::map<std::string, Expr> zero = {{dim_symbol(i).name(), Expr(0)}};
    for (Expr& e : result.at) e = simplify(e.substitute(zero));
    for (Expr& e : result.when) e = simplify(e.substitute(zero));
    result.fill.expr = simplify(result.fill.expr.substitute(zero));
  }
  keep_open(result.when);
  return result;
}

View broadcast_view(const View& x, std::vector<Expr> shape, const std::vector<int>& dims, const Facts& symbols) {
  std::vector<Expr> index(x.shape.size());
  for (size_t i = 0; i < index.size(); ++i)
    index[i] = x.shape[i].is(1) ? Expr(0) : dim_symbol(static_cast<size_t>(dims[i]));
  return reindexed(x, std::move(shape), index, symbols);
}

View reshape_view(const View& x, std::vector<Expr> shape, const Facts& symbols) {
  Simplifier simplify(dim_facts(shape, symbols));
  std::vector<Expr> index = reshape_index(x.shape, shape, identity(shape.size()), simplify);
  return reindexed(x, std::move(shape), index, symbols);
}

View permute_view(const View& x, const std::vector<int>& dims, const Facts& symbols) {
  std::vector<Expr> shape(dims.size()), index(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    shape[i] = x.shape[static_cast<size_t>(dims[i])];
    index[static_cast<size_t>(dims[i])] = dim_symbol(i);
  }
  return reindexed(x, std::move(shape), index, symbols);
}

View slice_view(const View& x, int dim, const Expr& start, const Expr& end, const Expr& step, const Facts& symbols) {
  const size_t d = static_cast<size_t>(dim);
  std::vector<Expr> shape = x.shape, index = identity(shape.size());
  shape[d] = simplify(ceildiv(end - start, step), symbols);
  index[d] = start + step * index[d];
  return reindexed(x, std::move(shape), index, symbols);
}

View flip_view(const View& x, const std::vector<int>& dims, const Facts& symbols) {
  std::vector<Expr> index = identity(x.shape.size());
  for (int dim : dims) {
    const size_t d = static_cast<size_t>(dim);
    index[d] = x.shape[d] - 1 - index[d];
  }
  return reindexed(x, x.shape, index, symbols);
}

View window_view(const View& x, int dim, const Expr& size, const Expr& step, const Expr& dilation, const Facts& symbols) {
  const size_t d = static_cast<size_t>(dim);
  std::vector<Expr> shape = x.shape, index = identity(shape.size());
  shape[d] = simplify(floordiv(x.shape[d] - dilation * (size - 1) - 1, step) + 1, symbols);
  shape.push_back(size);
  index[d] = step * index[d] + dilation * dim_symbol(x.shape.size());
  return reindexed(x, std::move(shape), index, symbols);
}

std::optional<View> pad_view(const View& x, const std::vector<Expr>& low, const std::vector<Expr>& high,
                             const Scalar& value, const Facts& symbols) {
  if (x.buffer < 0 || (!x.when.empty() && !same_scalar(x.fill, value))) return std::nullopt;
  std::vector<Expr> shape = x.shape, index = identity(shape.size()), when;
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] = simplify(low[i] + x.shape[i] + high[i], symbols);
    if (shape[i].is(1)) index[i] = 0;
    if (!low[i].is(0)) when.push_back(Expr::make(ExprOp::le, {low[i], index[i]}));
    if (!high[i].is(0)) when.push_back(Expr::make(ExprOp::lt, {index[i], low[i] + x.shape[i]}));
    index[i] = index[i] - low[i];
  }
  View result = reindexed(x, shape, index, symbols);
  Simplifier simplify(dim_facts(result.shape, symbols));
  for (Expr& e : when) result.when.push_back(simplify(e));
  keep_open(result.when);
  result.fill = value;
  return result;
}

std::vector<Expr> reshape_index(const std::vector<Expr>& from, const std::vector<Expr>& to, const std::vector<Expr>& index,
                                Simplifier& simplify) {
  std::vector<Expr> result(from.size(), Expr(0));
  std::vector<size_t> old_dims, new_dims;  // without those of size 1
  for (size_t i = 0; i < from.size(); ++i)
    if (!from[i].is(1)) old_dims.push_back(i);
  for (size_t i = 0; i < to.size(); ++i)
    if (!to[i].is(1)) new_dims.push_back(i);

  // Converts one run: old_dims[a..b) and new_dims[c..d) have the same number of elements.
  auto convert = [&](size_t a, size_t b, size_t c, size_t d) {
    if (b - a == 1 && d - c == 1) {
      result[old_dims[a]] = index[new_dims[c]];
      return;
    }
    Expr linear = 0;
    for (size_t j = c; j < d; ++j) linear = linear * to[new_dims[j]] + index[new_dims[j]];
    Expr stride = 1;
    for (size_t i = b; i-- > a;) {
      const Expr& size = from[old_dims[i]];
      Expr digit = floordiv(linear, stride);
      if (i > a) digit = mod(digit, size);
      result[old_dims[i]] = simplify(digit);
      stride = stride * size;
    }
  };

  size_t i = 0, j = 0;
  while (i < old_dims.size() && j < new_dims.size()) {
    size_t a = i, c = j;
    Expr old_product = from[old_dims[i++]], new_product = to[new_dims[j++]];
    bool closed = true;
    while (old_product != new_product) {
      // The side that divides the other grows. With symbols either may be unclear; then everything left is one run.
      if (exact_quotient(new_product, old_product) && i < old_dims.size()) {
        old_product = old_product * from[old_dims[i++]];
      } else if (exact_quotient(old_product, new_product) && j < new_dims.size()) {
        new_product = new_product * to[new_dims[j++]];
      } else if (old_product.constant() && new_product.constant() && i < old_dims.size() && j < new_dims.size()) {
        if (*old_product.constant() < *new_product.constant())
          old_product = old_product * from[old_dims[i++]];
        else
          new_product = new_product * to[new_dims[j++]];
      } else {
        closed = false;
        break;
      }
    }
    if (!closed) {
      convert(a, old_dims.size(), c, new_dims.size());
      return result;
    }
    convert(a, i, c, j);
  }
  // What is left on one side has one element in all (a symbol that is 1, or an empty tensor): index 0, or the sum of it.
  for (; i < old_dims.size(); ++i) result[old_dims[i]] = 0;
  return result;
}

int read(CodeBuilder& code, const LoopProgram& program, const View& view, const std::vector<Expr>& index,
         Simplifier& simplify) {
  const std::map<std::string, Expr> values = dim_values(index);
  auto replaced = [&](const Expr& e) { return e.constant() ? e : simplify(e.substitute(values)); };
  auto fill = [&] {
    Scalar s = view.fill;
    if (s.op == ScalarOp::index) return code.index(replaced(s.expr), s.dtype);
    s.dtype = compute_type(view.dtype);
    return code.add(std::move(s));
  };
  if (view.buffer < 0) return fill();
  Scalar s;
  s.op = ScalarOp::load;
  s.dtype = compute_type(program[view.buffer].dtype);
  s.buffer = view.buffer;
  for (const Expr& e : view.at) s.at.push_back(replaced(e));
  for (const Expr& e : view.when) s.when.push_back(replaced(e));
  std::erase_if(s.when, [](const Expr& e) { return e.is(1); });
  if (!s.when.empty()) s.operands = {fill()};
  return code.add(std::move(s));
}

}  // namespace nacre
