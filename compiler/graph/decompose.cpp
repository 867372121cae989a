// Walks the functional graph once. Every live node is looked up in one table (the families' tables
// together), its function emits primitives through Tensor, and the results are compared with the
// dtype and shape that export recorded. Numbers (sizes and arithmetic on them) need no nodes: they
// are expressions wherever they are used.
#include "compiler/graph/decompose.h"

#include <set>
#include <string_view>
#include <unordered_map>

#include "compiler/graph/builder.h"
#include "compiler/graph/decompose_call.h"
#include "compiler/graph/decompose_library.h"
#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

using Function = Results (*)(Call&);

const std::unordered_map<std::string_view, Function>& table() {
  static const auto* const all = [] {
    auto* map = new std::unordered_map<std::string_view, Function>;
    for (Decompositions family :
         {pointwise_decompositions(), creation_decompositions(), view_decompositions(),
          reduction_decompositions(), sorting_decompositions(), indexing_decompositions(),
          contraction_decompositions(), convolution_decompositions(), pooling_decompositions(),
          resampling_decompositions(), padding_decompositions(), normalization_decompositions(),
          attention_decompositions(), recurrent_decompositions(), loss_decompositions(),
           quantization_decompositions(), backward_decompositions(), complex_decompositions(),
           fourier_decompositions(), linalg_decompositions(), random_decompositions(), distribution_decompositions(),
           control_decompositions(), number_decompositions(), selection_decompositions()}) {
      for (const Decomposition& d : family) {
        bool fresh = map->emplace(d.op, d.function).second;
        check(fresh, "two decompositions of {}", d.op);
      }
    }
    return map;
  }();
  return *all;
}

// `aten.view_copy.default` is `aten.view.default` in a graph where nothing aliases.
std::string without_copy(std::string_view name) {
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot < 5 || name.substr(dot - 5, 5) != "_copy") return {};
  return std::string(name.substr(0, dot - 5)) + std::string(name.substr(dot));
}

Function find(std::string_view op) {
  constexpr std::string_view kNamespace = "aten.";
  if (op.substr(0, kNamespace.size()) == kNamespace) op.remove_prefix(kNamespace.size());
  if (auto it = table().find(op); it != table().end()) return it->second;
  if (auto it = table().find(without_copy(op)); it != table().end()) return it->second;
  return nullptr;
}

// Checks of what export knows; the guards of the artifact and the primitives check it again.
bool is_assertion(std::string_view op) {
  for (std::string_view name :
       {"aten._linalg_check_errors.", "aten._assert_async.", "aten._assert_tensor_metadata.",
        "aten.sym_constrain_range.", "aten.sym_constrain_range_for_size.",
        "aten._functional_assert_", "aten._functional_sym_constrain_range"})
    if (op.substr(0, name.size()) == name) return true;
  return false;
}

// Sizes of values: they are expressions wherever they are used.
bool is_size(std::string_view op) { return op.starts_with("aten.sym_"); }

// `aten.item`, operators whose results have sizes that depend on data, and arithmetic on numbers that
// no expression stands for: what gives a symbol its value, from first to last.
std::vector<bool> symbol_givers(const Graph& g, std::set<std::string> given) {
  std::vector<bool> gives(g.nodes.size());
  for (const GraphInput& input : g.inputs) {
    for (const Expr& e : g[input.value].shape) given.merge(e.symbols());
    given.merge(g[input.value].expr.symbols());
  }
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (is_size(g.nodes[n].op)) continue;
    for (ValueId v : g.nodes[n].outputs) {
      if (v == kNoValue) continue;
      std::set<std::string> symbols = g[v].expr.symbols();
      for (const Expr& e : g[v].shape) symbols.merge(e.symbols());
      for (const std::string& s : symbols) gives[n] = given.insert(s).second || gives[n];
    }
  }
  return gives;
}

// A condition on numbers that depend on data: an expression, or a bool that is computed.
const Argument* scalar_assertion(const Node& node) {
  if (node.op != "aten._assert_scalar.default") return nullptr;
  const Argument* condition = node.find("self");
  return condition && (std::holds_alternative<Expr>(*condition) || std::holds_alternative<ValueRef>(*condition))
             ? condition
             : nullptr;
}

// Integers are expressions; those of new symbols are bound where they are made.
bool is_known_integer(const Graph& g, const Node& node) {
  return node.op.starts_with("sym.") && node.outputs.size() == 1 && node.outputs[0] != kNoValue &&
         g[node.outputs[0]].kind == ValueKind::integer;
}

struct Liveness {
  std::vector<bool> nodes;
  std::vector<bool> values;
};

Liveness liveness(const Graph& g, const std::set<std::string>& bound) {
  const std::vector<bool> gives = symbol_givers(g, bound);
  Liveness live{std::vector<bool>(g.nodes.size()), std::vector<bool>(g.values.size())};
  auto use = [&](ValueId v) { live.values[static_cast<size_t>(v)] = true; };
  for (const GraphOutput& o : g.outputs) for_each_value(o.value, use);
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& node = g.nodes[i];
    if (is_assertion(node.op) || is_size(node.op)) continue;
    live.nodes[i] = gives[i] || scalar_assertion(node);
    for (ValueId v : node.outputs)
      if (v != kNoValue && live.values[static_cast<size_t>(v)] && !is_known_integer(g, node)) live.nodes[i] = true;
    if (!live.nodes[i]) continue;
    for (const auto& [name, argument] : node.args) for_each_value(argument, use);
  }
  return live;
}

class Decomposer {
 public:
  // `bound`: the symbols that have a value already, of a subgraph.
  Decomposer(const Graph& functional, Facts symbols, std::set<std::string> bound, RandomSource random)
      : in_(functional),
        live_(liveness(functional, bound)),
        mapped_(functional.values.size(), kNoValue),
        bound_(std::move(bound)),
        random_(random) {
    out_.level = Level::primitive;
    out_.name = in_.name;
    out_.symbols = std::move(symbols);
    out_.assumptions = in_.assumptions;
  }

  Graph run() {
    report_unknown();
    for (const GraphInput& input : in_.inputs) {
      bind_sizes(in_[input.value]);
      GraphInput mine = input;
      Value value = in_[input.value];
      value.strides.clear();
      value.offset = Expr(0);
      mine.value = out_.add_value(std::move(value));
      mapped_[static_cast<size_t>(input.value)] = mine.value;
      out_.inputs.push_back(std::move(mine));
    }
    decompose_nodes();
    for (const GraphOutput& output : in_.outputs) {
      GraphOutput mine = output;
      if (auto* v = std::get_if<ValueRef>(&mine.value); v && v->id != kNoValue) {
        const Value& value = in_[v->id];
        if (const ValueId id = mapped_[static_cast<size_t>(v->id)]; id != kNoValue)
          v->id = value.kind == ValueKind::floating ? builder_.cast(id, NACRE_f32) : id;  // as torch.tensor makes of it
        else if (value.kind == ValueKind::integer)
          mine.value = value.expr;
        else
          fail(ErrorKind::unsupported, "the output {} is a number that is computed at run time",
               value.name);
      }
      out_.outputs.push_back(std::move(mine));
    }
    builder_.at({});
    random_.finish(builder_);
    name_values();
    return std::move(out_);
  }

  Graph run_body(const Rows& rows) {
    report_unknown();
    std::vector<std::pair<ValueId, ValueId>> taken;  // functional, primitive
    for (size_t i = 0; i < in_.inputs.size(); i++) {
      Value value = in_[in_.inputs[i].value];
      if (i >= rows.first && i < rows.first + rows.count)
        value.shape.insert(value.shape.begin(), rows.row_count);
      value.kind = ValueKind::tensor;
      value.strides.clear();
      value.offset = Expr(0);
      value.expr = Expr(0);
      std::string name = value.name;
      ValueId id = out_.add_value(std::move(value));
      taken.emplace_back(in_.inputs[i].value, id);
      out_.inputs.push_back({id, InputKind::user, name});
    }
    for (size_t i = 0; i < taken.size(); i++) {
      auto [functional, id] = taken[i];
      const Value& value = in_[functional];
      Tensor t(builder_, id);
      if (i >= rows.first && i < rows.first + rows.count) t = select(t, 0, rows.row);
      if (value.kind == ValueKind::integer)
        bind(t, value.expr, Node{});
      else
        mapped_[static_cast<size_t>(functional)] = t.id();
      if (value.kind == ValueKind::tensor) bind_sizes(value);
    }
    decompose_nodes();
    builder_.at({});
    for (const GraphOutput& output : in_.outputs) {
      auto* v = std::get_if<ValueRef>(&output.value);
      ValueId id = v && v->id != kNoValue ? mapped_[static_cast<size_t>(v->id)] : kNoValue;
      if (id == kNoValue) {
        Number number = 0;
        if (v && v->id != kNoValue)
          number = in_[v->id].expr;
        else if (auto* e = std::get_if<Expr>(&output.value))
          number = *e;
        else if (auto* b = std::get_if<bool>(&output.value))
          number = *b;
        else
          fail(ErrorKind::unsupported, "{} returns something that is no tensor", in_.name);
        bool truth = std::holds_alternative<bool>(output.value) || is_truth(number.integer());
        id = full(builder_, {}, number, truth ? NACRE_bool_ : NACRE_i64).id();
      }
      out_.outputs.push_back({ValueRef{id}, OutputKind::user, {}});
    }
    random_.finish(builder_);
    name_values();
    return std::move(out_);
  }

 private:
  static bool is_truth(const Expr& e) {
    switch (e.op()) {
      case ExprOp::eq:
      case ExprOp::ne:
      case ExprOp::lt:
      case ExprOp::le:
      case ExprOp::and_:
      case ExprOp::or_:
      case ExprOp::not_:
        return true;
      default:
        return false;
    }
  }

  void bind_sizes(const Value& value) {
    for (const Expr& e : value.shape) bound_.merge(e.symbols());
    bound_.merge(value.expr.symbols());
  }
  void bind(const Tensor& value, const Expr& expected, const Node& node) {
    Call(in_, node, builder_, mapped_, live_.values, bound_, random_).bind(value, expected);
  }

  void decompose_nodes() {
    for (size_t i = 0; i < in_.nodes.size(); i++)
      if (live_.nodes[i]) decompose_node(in_.nodes[i]);
  }

  void report_unknown() {
    std::vector<std::string> problems;
    for (size_t i = 0; i < in_.nodes.size(); i++) {
      const Node& node = in_.nodes[i];
      if (live_.nodes[i] && !find(node.op) && !is_library_operator(node.op) && !scalar_assertion(node))
        problems.push_back(node.op + " at " + where_text(node.where));
    }
    if (problems.empty()) return;
    std::string text;
    for (const std::string& p : problems) text += "\n  " + p;
    fail(ErrorKind::unsupported, "{} without a decomposition:{}",
         problems.size() == 1 ? "an operator" : std::to_string(problems.size()) + " operators",
         text);
  }

  void decompose_node(const Node& node) {
    builder_.at(node.where);
    Call call(in_, node, builder_, mapped_, live_.values, bound_, random_);
    if (const Argument* condition = scalar_assertion(node)) {
      if (auto* e = std::get_if<Expr>(condition)) return decompose_assertion(node, *e);
      Expr holds = call.count(as_tensor(builder_, call.operand("self"), NACRE_i64), 1);
      return decompose_assertion(node, Expr::make(ExprOp::ne, {holds, Expr(0)}));
    }
    try {
      Results results = is_library_operator(node.op) ? import_of_library(call, in_) : find(node.op)(call);
      for (size_t i = 0; i < node.outputs.size(); i++) {
        if (i < results.list.size() && results.list[i] && call.is_given(i) && call.is_number(i)) {
          const Value& number = in_[node.outputs[i]];
          if (number.kind == ValueKind::integer)
            bind(results.list[i], number.expr, node);
          else
            mapped_[static_cast<size_t>(node.outputs[i])] = results.list[i].id();
          continue;
        }
        if (!call.needs(i)) continue;
        check(i < results.list.size() && results.list[i], "{}: result {} is missing", node.op, i);
        mapped_[static_cast<size_t>(node.outputs[i])] =
            as_recorded(results.list[i], in_[node.outputs[i]], node.op).id();
      }
    } catch (const Error& error) {
      if (!error.location.empty()) throw;
      throw Error(error.kind, error.message, where_text(node.where));
    }
  }

  // What the ranges of symbols say already is checked where the symbols get their values.
  void decompose_assertion(const Node& node, const Expr& condition) {
    if (simplify(condition, out_.symbols).is(1)) return;
    for (const std::string& s : condition.symbols())
      if (!bound_.contains(s)) return;  // about a number that nothing here needs
    // `u0 <= s0` also bounds the memory that u0 rows need.
    auto bounds = [&](const Expr& e, auto& self) -> void {
      if (e.op() == ExprOp::and_)
        for (const Expr& part : e.operands()) self(part, self);
      if ((e.op() != ExprOp::le && e.op() != ExprOp::lt) || e.operands().size() != 2) return;
      const Expr &low = e.operands()[0], &high = e.operands()[1];
      if (low.op() != ExprOp::symbol || high.constant() || high.symbols().contains(low.name())) return;
      SymbolFacts& facts = out_.symbols[low.name()];
      if (!facts.below) facts.below = e.op() == ExprOp::le ? high + Expr(1) : high;
    };
    bounds(condition, bounds);
    const Argument* message = node.find("assert_msg");
    auto* text = message ? std::get_if<std::string>(message) : nullptr;
    builder_.require(condition, text ? *text : "assertion failed");
  }

  // The dtype must be the recorded one. A size that is written differently and is not provably
  // equal takes the recorded form, so that all users of the value agree.
  Tensor as_recorded(const Tensor& result, const Value& recorded, const std::string& op) {
    check(result.dtype() == recorded.dtype, "{} gives {}, but {} was exported as {}", op,
          nacre_dtype_name(result.dtype()), recorded.name, nacre_dtype_name(recorded.dtype));
    check(result.shape().size() == recorded.shape.size(), "{} gives rank {}, but {} has rank {}",
          op, result.rank(), recorded.name, recorded.shape.size());
    if (same_shape(result.shape(), recorded.shape, out_.symbols)) return result;
    Shape shape;
    for (size_t i = 0; i < recorded.shape.size(); i++) {
      const Expr& have = result.shape()[i];
      Expr want = simplify(recorded.shape[i], out_.symbols);
      check(!(have.constant() && want.constant()) || have == want,
            "{} gives size {} in dim {}, but {} has {}", op, have.str(), i, recorded.name,
            want.str());
      shape.push_back(proves_eq(have, want, out_.symbols) ? have : want);
    }
    return expand(result, shape);
  }

  // Values that the functional graph has keep their names; the steps between are numbered after
  // their result.
  void name_values() {
    std::vector<std::string> names(out_.values.size());
    std::set<std::string> taken;
    for (size_t v = 0; v < mapped_.size(); v++) {
      if (mapped_[v] == kNoValue) continue;
      std::string& name = names[static_cast<size_t>(mapped_[v])];
      if (!name.empty()) continue;
      name = in_.values[v].name;
      taken.insert(name);
    }
    for (const GraphInput& input : out_.inputs) {  // of no value of the functional graph: the state of random numbers
      std::string& name = names[static_cast<size_t>(input.value)];
      if (name.empty() && taken.insert(input.target).second) name = input.target;
    }
    int counter = 0;
    for (std::string& name : names) {
      while (name.empty()) {
        std::string next = "t" + std::to_string(counter++);
        if (taken.insert(next).second) name = next;
      }
    }
    for (size_t v = 0; v < names.size(); v++) out_.values[v].name = names[v];
  }

  const Graph& in_;
  Liveness live_;
  std::vector<ValueId> mapped_;
  std::set<std::string> bound_;
  Graph out_;
  Builder builder_{out_};
  RandomSource random_;
};

}  // namespace

Graph decompose(const Graph& functional) { return Decomposer(functional, functional.symbols, {}, RandomSource(false)).run(); }

Graph decompose_body(const Graph& functional, Facts& symbols, std::set<std::string> bound, const Rows& rows, int64_t first_stream) {
  Graph body = Decomposer(functional, symbols, std::move(bound), RandomSource(true, first_stream)).run_body(rows);
  symbols = body.symbols;
  return body;
}

}  // namespace nacre
