// Factorizations and triangular systems, as loops: the steps of the algorithm, which need each other's results, are the last
// of the outer loops of a serial group; each nest is one vector or matrix operation of a step, in place.
#include "compiler/graph/ops.h"
#include "compiler/loops/lowering.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Expr below(const Expr& a, const Expr& b) { return Expr::make(ExprOp::lt, {a, b}); }

// The nests of one group, over batches of matrices.
class Steps {
 public:
  Steps(const std::vector<Expr>& batch, const Expr& count, Provenance where)
      : where_(std::move(where)) {
    for (size_t i = 0; i < batch.size(); ++i) batch_.push_back(outer("b" + std::to_string(i), batch[i]));
    step = outer("step", count);
  }

  Expr step;
  Group group;

  class Code {
   public:
    Code(Nest& nest, const Provenance& where) : nest_(nest), code_(nest.code), where_(where) {}
    Expr loop(const char* name, const Expr& extent, bool reduced = false) {
      if (extent.is(1) && !reduced) return 0;
      nest_.loops.push_back({name, extent});
      if (reduced) ++nest_.reduced;
      return Expr::symbol(name);
    }
    int load(const LoopProgram& program, BufferId buffer, std::vector<Expr> at) {
      const int v = code_.load(buffer, program[buffer].dtype, std::move(at));
      nest_.code[static_cast<size_t>(v)].where = where_;
      return v;
    }
    int is(const Expr& condition) { return code_.index(condition, NACRE_bool_); }
    int constant(double number, nacre_dtype dtype) { return code_.constant(number, dtype); }
    int make(const char* prim, std::vector<int> operands) { return code_.pointwise(prim, std::move(operands), where_); }
    int reduce(const char* prim, int operand) {
      Scalar s;
      s.op = ScalarOp::reduce;
      s.prim = prim;
      s.operands = {operand};
      s.dtype = result_dtype(*find_primitive(prim), code_[operand].dtype);
      s.where = where_;
      return code_.add(std::move(s));
    }
    nacre_dtype type(int v) const { return code_[v].dtype; }
    void store(BufferId buffer, std::vector<Expr> at, int value) {
      Store s;
      s.buffer = buffer;
      s.at = std::move(at);
      s.value = value;
      nest_.stores.push_back(std::move(s));
    }

   private:
    Nest& nest_;
    CodeBuilder code_;
    const Provenance& where_;
  };

  // A nest of the step; its code must be written before the next is asked for.
  Code nest() {
    group.nests.emplace_back();
    return {group.nests.back(), where_};
  }
  std::vector<Expr> at(std::initializer_list<Expr> index) const {
    std::vector<Expr> all = batch_;
    all.insert(all.end(), index.begin(), index.end());
    return all;
  }

 private:
  Expr outer(const std::string& name, const Expr& extent) {
    if (extent.is(1)) return 0;
    group.outer.push_back({name, extent});
    return Expr::symbol(name);
  }

  std::vector<Expr> batch_;
  Provenance where_;
};

std::vector<Expr> without_last(const std::vector<Expr>& shape, size_t count) {
  return {shape.begin(), shape.end() - static_cast<ptrdiff_t>(count)};
}

}  // namespace

BufferId Lowering::copied(const Node& node, ValueId x, size_t output) {
  const ValueId y = node.outputs[output];
  const BufferId b = y == kNoValue ? new_buffer("unused", BufferKind::temporary, graph_[x].dtype, graph_[x].shape) : result_buffer(y);
  copy(view(x), b, "copy", node.where);
  return b;
}

void Lowering::add_steps(const std::string& name, Group steps) {
  Group& group = new_group(name);
  steps.name = group.name;
  steps.serial = true;
  for (Nest& nest : steps.nests) clean(nest);
  group = std::move(steps);
}

// Gaussian elimination with row exchanges: step k moves the largest element of what is left of column k to row k.
void Lowering::lower_lu(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x");
  const std::vector<Expr> shape = graph_[x].shape;
  const Expr rows = shape[shape.size() - 2], columns = shape.back();
  const BufferId a = copied(node, x, 0);
  std::vector<Expr> pivot_shape = without_last(shape, 2);
  const Expr count = rows == columns ? rows : min(rows, columns);
  pivot_shape.push_back(count);
  const BufferId pivots = node.outputs[1] == kNoValue ? new_buffer("pivots", BufferKind::temporary, NACRE_i64, pivot_shape)
                                                      : result_buffer(node.outputs[1]);
  Steps s(without_last(shape, 2), count, node.where);
  const Expr k = s.step;
  {
    auto n = s.nest();
    const Expr i = n.loop("i", rows, true);
    const int size = n.make("abs", {n.load(program_, a, s.at({i, k}))});
    const int candidate = n.make("where", {n.is(below(i, k)), n.constant(-1, n.type(size)), size});
    n.store(pivots, s.at({k}), n.reduce("argmax", candidate));
  }
  {
    auto n = s.nest();
    const Expr j = n.loop("j", columns);
    const Expr other = Expr::symbol(scalar_symbol(n.load(program_, pivots, s.at({k}))));
    const int here = n.load(program_, a, s.at({k, j})), there = n.load(program_, a, s.at({other, j}));
    n.store(a, s.at({k, j}), there);
    n.store(a, s.at({other, j}), here);
  }
  {
    auto n = s.nest();
    const Expr i = n.loop("i", rows);
    const int value = n.load(program_, a, s.at({i, k})), pivot = n.load(program_, a, s.at({k, k}));
    const int divides = n.make("bitwise_and", {n.is(below(k, i)), n.make("ne", {pivot, n.constant(0, n.type(pivot))})});
    n.store(a, s.at({i, k}), n.make("where", {divides, n.make("div", {value, pivot}), value}));
  }
  {
    auto n = s.nest();
    const Expr i = n.loop("i", rows), j = n.loop("j", columns);
    const int value = n.load(program_, a, s.at({i, j}));
    const int product = n.make("mul", {n.load(program_, a, s.at({i, k})), n.load(program_, a, s.at({k, j}))});
    const int inside = n.make("bitwise_and", {n.is(below(k, i)), n.is(below(k, j))});
    n.store(a, s.at({i, j}), n.make("where", {inside, n.make("sub", {value, product}), value}));
  }
  add_steps("lu", std::move(s.group));
}

// Row exchanges, one after the other, of 0, 1, 2, ...
void Lowering::lower_permutation(const Node& node, const NodeArgs& args) {
  const ValueId pivots = args.value("pivots");
  const std::vector<Expr> shape = graph_[pivots].shape;
  const BufferId from = materialised(pivots).buffer;
  const BufferId order = result_buffer(node.outputs[0]);
  Scalar position;
  position.op = ScalarOp::index;
  position.dtype = NACRE_i64;
  const std::vector<Expr>& whole_shape = program_[order].shape;
  position.expr = whole_shape.back().is(1) ? Expr(0) : dim_symbol(whole_shape.size() - 1);
  copy(filled(position, whole_shape, NACRE_i64), order, "permutation", node.where);
  Steps s(without_last(shape, 1), shape.back(), node.where);
  auto n = s.nest();
  const Expr other = Expr::symbol(scalar_symbol(n.load(program_, from, s.at({s.step}))));
  const int here = n.load(program_, order, s.at({s.step})), there = n.load(program_, order, s.at({other}));
  n.store(order, s.at({s.step}), there);
  n.store(order, s.at({other}), here);
  add_steps("permutation", std::move(s.group));
}

// Column by column; what stands above the diagonal is not read, and becomes 0.
void Lowering::lower_cholesky(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x");
  const std::vector<Expr> shape = graph_[x].shape;
  const Expr size = shape.back();
  const BufferId l = copied(node, x, 0);
  const nacre_dtype dtype = graph_[x].dtype;
  Steps s(without_last(shape, 2), size, node.where);
  const Expr j = s.step;
  {
    auto n = s.nest();
    const Expr i = n.loop("i", size), k = n.loop("k", size, true);
    const int product = n.make("mul", {n.load(program_, l, s.at({i, k})), n.load(program_, l, s.at({j, k}))});
    const int known = n.make("where", {n.is(below(k, j)), product, n.constant(0, dtype)});
    const int sum = n.reduce("sum", known);
    const int rest = n.make("sub", {n.load(program_, l, s.at({i, j})), sum});
    n.store(l, s.at({i, j}), n.make("where", {n.is(below(i, j)), n.constant(0, dtype), rest}));
  }
  {
    auto n = s.nest();
    const int square = n.load(program_, l, s.at({j, j}));
    const int positive = n.make("gt", {square, n.constant(0, dtype)});
    n.store(l, s.at({j, j}), n.make("where", {positive, n.make("sqrt", {square}), n.constant(__builtin_nan(""), dtype)}));
  }
  {
    auto n = s.nest();
    const Expr i = n.loop("i", size);
    const int value = n.load(program_, l, s.at({i, j})), pivot = n.load(program_, l, s.at({j, j}));
    n.store(l, s.at({i, j}), n.make("where", {n.is(below(j, i)), n.make("div", {value, pivot}), value}));
  }
  add_steps("cholesky", std::move(s.group));
}

// Substitution: row after row, from the first of a lower triangle and from the last of an upper one.
void Lowering::lower_triangular_solve(const Node& node, const NodeArgs& args) {
  const ValueId a_value = args.value("a"), b_value = args.value("b");
  const std::vector<Expr> shape = graph_[b_value].shape;
  const Expr size = shape[shape.size() - 2], columns = shape.back();
  const bool upper = args.flag("upper", false), unit = args.flag("unit", false);
  const BufferId a = materialised(a_value).buffer;
  const BufferId x = copied(node, b_value, 0);
  Steps s(without_last(shape, 2), size, node.where);
  const Expr i = upper ? size - 1 - s.step : s.step;
  auto n = s.nest();
  const Expr c = n.loop("c", columns), k = n.loop("k", size, true);
  const int product = n.make("mul", {n.load(program_, a, s.at({i, k})), n.load(program_, x, s.at({k, c}))});
  const int known = n.make("where", {n.is(upper ? below(i, k) : below(k, i)), product, n.constant(0, graph_[b_value].dtype)});
  const int sum = n.reduce("sum", known);
  const int rest = n.make("sub", {n.load(program_, x, s.at({i, c})), sum});
  n.store(x, s.at({i, c}), unit ? rest : n.make("div", {rest, n.load(program_, a, s.at({i, i}))}));
  add_steps("triangular_solve", std::move(s.group));
}

}  // namespace nacre
