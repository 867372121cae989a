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
          quantization_decompositions(), backward_decompositions()}) {
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

// Checks that bound sizes or values known to export; the guards of the artifact and the primitives
// do so again.
bool is_assertion(std::string_view op) {
  for (std::string_view name :
       {"aten._assert_scalar.", "aten._assert_async.", "aten._assert_tensor_metadata.",
        "aten.sym_constrain_range.", "aten.sym_constrain_range_for_size.",
        "aten._functional_assert_", "aten._functional_sym_constrain_range"})
    if (op.substr(0, name.size()) == name) return true;
  return false;
}

bool gives_numbers_only(const Graph& g, const Node& node) {
  for (ValueId v : node.outputs)
    if (v != kNoValue && g[v].kind == ValueKind::tensor) return false;
  return true;
}

struct Liveness {
  std::vector<bool> nodes;
  std::vector<bool> values;
};

Liveness liveness(const Graph& g) {
  Liveness live{std::vector<bool>(g.nodes.size()), std::vector<bool>(g.values.size())};
  auto use = [&](ValueId v) { live.values[static_cast<size_t>(v)] = true; };
  for (const GraphOutput& o : g.outputs) for_each_value(o.value, use);
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& node = g.nodes[i];
    if (is_assertion(node.op) || gives_numbers_only(g, node)) continue;
    for (ValueId v : node.outputs)
      if (v != kNoValue && live.values[static_cast<size_t>(v)]) live.nodes[i] = true;
    if (!live.nodes[i]) continue;
    for (const auto& [name, argument] : node.args) for_each_value(argument, use);
  }
  return live;
}

// A number that a graph uses must be an expression over the symbols of inputs.
void reject_numbers_from_data(const Graph& g, std::vector<std::string>& problems) {
  for (const Node& node : g.nodes) {
    for (ValueId v : node.outputs) {
      if (v == kNoValue || g[v].kind != ValueKind::integer) continue;
      if (node.op == "aten.item.default" || node.op == "aten._local_scalar_dense.default")
        problems.push_back(where_text(node.where) + ": a number computed from data (" + node.op +
                           ")");
    }
  }
}

class Decomposer {
 public:
  explicit Decomposer(const Graph& functional)
      : in_(functional), live_(liveness(functional)), mapped_(functional.values.size(), kNoValue) {}

  Graph run() {
    report_unknown();
    out_.level = Level::primitive;
    out_.name = in_.name;
    out_.symbols = in_.symbols;
    out_.assumptions = in_.assumptions;
    for (const GraphInput& input : in_.inputs) {
      GraphInput mine = input;
      Value value = in_[input.value];
      value.strides.clear();
      value.offset = Expr(0);
      mine.value = out_.add_value(std::move(value));
      mapped_[static_cast<size_t>(input.value)] = mine.value;
      out_.inputs.push_back(std::move(mine));
    }
    for (size_t i = 0; i < in_.nodes.size(); i++)
      if (live_.nodes[i]) decompose_node(in_.nodes[i]);
    for (const GraphOutput& output : in_.outputs) {
      GraphOutput mine = output;
      if (auto* v = std::get_if<ValueRef>(&mine.value); v && v->id != kNoValue) {
        const Value& value = in_[v->id];
        if (value.kind == ValueKind::tensor)
          v->id = mapped_[static_cast<size_t>(v->id)];
        else if (value.kind == ValueKind::integer)
          mine.value = value.expr;
        else
          fail(ErrorKind::unsupported, "the output {} is a number that is computed at run time",
               value.name);
      }
      out_.outputs.push_back(std::move(mine));
    }
    name_values();
    return std::move(out_);
  }

 private:
  void report_unknown() {
    std::vector<std::string> problems;
    for (size_t i = 0; i < in_.nodes.size(); i++) {
      const Node& node = in_.nodes[i];
      if (live_.nodes[i] && !find(node.op))
        problems.push_back(node.op + " at " + where_text(node.where));
    }
    reject_numbers_from_data(in_, problems);
    if (problems.empty()) return;
    std::string text;
    for (const std::string& p : problems) text += "\n  " + p;
    fail(ErrorKind::unsupported, "{} without a decomposition:{}",
         problems.size() == 1 ? "an operator" : std::to_string(problems.size()) + " operators",
         text);
  }

  void decompose_node(const Node& node) {
    builder_.at(node.where);
    Call call(in_, node, builder_, mapped_, live_.values);
    try {
      Results results = find(node.op)(call);
      for (size_t i = 0; i < node.outputs.size(); i++) {
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
  Graph out_;
  Builder builder_{out_};
};

}  // namespace

Graph decompose(const Graph& functional) { return Decomposer(functional).run(); }

}  // namespace nacre
