#include "compiler/graph/require_sizes.h"

#include <algorithm>
#include <set>

#include "compiler/graph/node_args.h"
#include "compiler/symbolic/affine.h"

namespace nacre {
namespace {

class Requirements {
 public:
  explicit Requirements(Graph& whole) : whole_(whole) {
    for (const GraphInput& input : whole.inputs) {
      const Value& value = whole[input.value];
      for (const Expr& e : value.shape) known_.merge(e.symbols());
      known_.merge(value.expr.symbols());
    }
  }

  void run() {
    visit(whole_, &Requirements::bounds);
    visit(whole_, &Requirements::stretches);  // many of which follow from the bounds
  }

 private:
  void visit(const Graph& graph, void (Requirements::*check)(const Graph&, const Node&)) {
    for (const Node& node : graph.nodes) (this->*check)(graph, node);
    for (const auto& [name, sub] : graph.subgraphs) visit(sub, check);
  }

  void bounds(const Graph& graph, const Node& node) {
    const NodeArgs args(graph, node);
    const auto shape_of = [&](const char* name) -> const std::vector<Expr>& { return graph[args.value(name)].shape; };
    if (node.op == "prim.slice") {
      const Expr start = args.expr("start"), end = args.expr("end");
      at_most(0, start, graph.symbols);
      at_most(start, end, graph.symbols);
      at_most(end, shape_of("x")[static_cast<size_t>(args.integer("dim"))], graph.symbols);
    } else if (node.op == "prim.window") {
      const Expr reach = (args.expr("size") - 1) * args.expr("dilation") + 1;
      at_most(reach, shape_of("x")[static_cast<size_t>(args.integer("dim"))], graph.symbols);
    } else if (node.op == "prim.select_scatter_range") {
      const auto d = static_cast<size_t>(args.integer("dim"));
      const Expr last = args.expr("start") + (shape_of("src")[d] - 1) * args.expr("step");
      at_most(0, args.expr("start"), graph.symbols);
      at_most(last + 1, shape_of("x")[d], graph.symbols);
    }
  }

  // A dim that is not known to be 1 is as large as the result's.
  void stretches(const Graph& graph, const Node& node) {
    if (node.op != "prim.broadcast") return;
    const NodeArgs args(graph, node);
    const std::vector<Expr>& from = graph[args.value("x")].shape;
    const std::vector<Expr> to = args.exprs("shape");
    const std::vector<int> dims = args.integers("dims");
    for (size_t i = 0; i < from.size(); ++i)
      if (!from[i].is(1)) same(from[i], to[static_cast<size_t>(dims[i])], graph.symbols);
  }

  // Sizes that depend on data are checked where they come from.
  bool is_known(const Expr& e) const {
    const std::set<std::string> symbols = e.symbols();
    return std::includes(known_.begin(), known_.end(), symbols.begin(), symbols.end());
  }

  void at_most(const Expr& a, const Expr& b, const Facts& facts) {
    if (proves_le(a, b, facts) || !is_known(a) || !is_known(b) || proves_le(a, b, whole_.symbols)) return;
    const Expr room = simplify(b - a, whole_.symbols);
    if (room.constant()) return;  // never: told elsewhere
    if (const auto one = affine(room, whole_.symbols)) {
      int64_t& least = whole_.symbols.at(one->symbol).range.min;
      const int64_t needed = one->c >= 0 ? 0 : (-one->c + one->k - 1) / one->k;
      least = std::max(least, needed);
    } else {
      assume(Expr::make(ExprOp::le, {a, b}));
    }
  }

  void same(const Expr& a, const Expr& b, const Facts& facts) {
    if (proves_eq(a, b, facts) || !is_known(a) || !is_known(b) || proves_eq(a, b, whole_.symbols)) return;
    assume(Expr::make(ExprOp::eq, {a, b}));
  }

  void assume(const Expr& condition) {
    const Expr e = simplify(condition, whole_.symbols);
    if (e.constant() || std::count(whole_.assumptions.begin(), whole_.assumptions.end(), e) > 0) return;
    whole_.assumptions.push_back(e);
  }

  Graph& whole_;
  std::set<std::string> known_;
};

}  // namespace

void require_sizes(Graph& graph) { Requirements(graph).run(); }

}  // namespace nacre
