#include "exporter/hidden_writes.h"

#include <string_view>
#include <utility>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/views.h"

namespace nacre {
namespace {

// Instance normalisation over the input's own statistics: batch normalisation of one batch in which
// every instance has channels of its own; the running statistics take the mean over the instances.
void expand_instance_norm(const Node& node, Graph& graph, std::vector<Node>& nodes) {
  auto make = [&](std::string op, std::vector<std::pair<std::string, Argument>> args,
                  std::vector<Value> results) {
    Node made;
    made.op = std::move(op);
    made.args = std::move(args);
    made.where = node.where;
    for (Value& v : results) made.outputs.push_back(graph.add_value(std::move(v)));
    nodes.push_back(std::move(made));
    return nodes.back().outputs[0];
  };
  auto ref = [&](std::string_view name) {
    return has_value(node, name) ? std::get<ValueRef>(*node.find(name)) : ValueRef{};
  };
  auto or_none = [](ValueRef v) {
    return v.id == kNoValue ? Argument(std::monostate{}) : Argument(v);
  };
  Value input = graph[ref("input").id];
  input.strides.clear();
  input.offset = Expr(0);
  const Expr batch = input.shape.at(0), channels = input.shape.at(1);
  auto repeated = [&](std::string_view name) -> ValueRef {
    if (ref(name).id == kNoValue) return {};
    Value v = graph[ref(name).id];
    v.strides.clear();
    v.offset = Expr(0);
    v.shape = {batch * channels};
    return {make("aten.repeat.default",
                 {{"self", ref(name)}, {"repeats", std::vector<Expr>{batch}}}, {v})};
  };
  ValueRef weight = repeated("weight"), bias = repeated("bias"), mean = repeated("running_mean"),
           var = repeated("running_var");
  ValueId dense = make("aten.contiguous.default", {{"self", ref("input")}}, {input});
  Value merged = input, statistics = input;
  merged.shape[0] = Expr(1);
  merged.shape[1] = batch * channels;
  statistics.shape = {batch * channels};
  ValueId one_batch =
      make("aten.view.default", {{"self", ValueRef{dense}}, {"size", merged.shape}}, {merged});
  auto argument = [&](const char* name, Argument otherwise) {
    return node.find(name) != nullptr ? *node.find(name) : otherwise;
  };
  ValueId normal = make("aten._native_batch_norm_legit.default",
                        {{"input", ValueRef{one_batch}},
                         {"weight", or_none(weight)},
                         {"bias", or_none(bias)},
                         {"running_mean", mean},
                         {"running_var", var},
                         {"training", true},
                         {"momentum", argument("momentum", 0.1)},
                         {"eps", argument("eps", 1e-5)}},
                        {merged, statistics, statistics});
  for (auto [from, to] :
       {std::pair(mean, ref("running_mean")), std::pair(var, ref("running_var"))}) {
    Value table = statistics, averaged = graph[to.id];
    table.shape = {batch, channels};
    averaged.strides.clear();
    ValueId rows = make("aten.view.default", {{"self", from}, {"size", table.shape}}, {table});
    ValueId average =
        make("aten.mean.dim", {{"self", ValueRef{rows}}, {"dim", std::vector<Expr>{Expr(0)}}},
             {averaged});
    make("aten.copy_.default", {{"self", to}, {"src", ValueRef{average}}}, {graph[to.id]});
  }
  Node last;
  last.op = "aten.view.default";
  last.args = {{"self", ValueRef{normal}}, {"size", input.shape}};
  last.where = node.where;
  last.outputs = node.outputs;
  nodes.push_back(std::move(last));
}

// A view of the diagonal, which is filled. Wrapped, that of a tall matrix goes on below a row that is left out; with more dims than
// two, which are of one size, it has one element for each.
void expand_fill_diagonal(const Node& node, Graph& graph, std::vector<Node>& nodes) {
  auto make = [&](std::string op, std::vector<std::pair<std::string, Argument>> args, std::vector<ValueId> outputs) {
    Node made;
    made.op = std::move(op);
    made.args = std::move(args);
    made.outputs = std::move(outputs);
    made.where = node.where;
    nodes.push_back(std::move(made));
  };
  const ValueRef self{first_tensor(node)};
  const Value matrix = graph[self.id];
  const std::vector<Expr>& shape = matrix.shape;
  std::vector<Expr> strides = matrix.strides;
  if (strides.empty()) {
    strides.assign(shape.size(), Expr(1));
    for (size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
  }
  Expr step = 0;  // from one element of the diagonal to the next
  for (const Expr& stride : strides) step += stride;
  auto fill = [&](const Expr& count, const Expr& offset) {
    Value diagonal = matrix;
    diagonal.name += "_diagonal";
    diagonal.shape = {count};
    diagonal.strides = {step};
    diagonal.offset = offset;
    const ValueId view = graph.add_value(diagonal), filled = graph.add_value(diagonal);
    if (shape.size() == 2 && offset == matrix.offset)
      make("aten.diagonal.default", {{"self", self}}, {view});
    else
      make("aten.as_strided.default",
           {{"self", self}, {"size", diagonal.shape}, {"stride", diagonal.strides}, {"storage_offset", offset}}, {view});
    make("aten.fill_.Scalar", {{"self", ValueRef{view}}, {"value", *node.find("fill_value")}}, {filled});
  };
  const Expr rows = shape[0], columns = shape[1], size = min(rows, columns);
  fill(size, matrix.offset);
  if (true_argument(node, "wrap") && shape.size() == 2 && (rows - columns - 1).constant().value_or(0) > 0)
    fill(floordiv(rows * columns + columns, columns + 1) - size, matrix.offset + strides[0] * (columns + 1));
  make("aten.alias.default", {{"self", self}}, node.outputs);
}

}  // namespace

Graph with_visible_writes(Graph graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    std::string_view name = base_name(node.op);
    bool statistics = has_value(node, "running_mean") && has_value(node, "running_var");
    if (name == "instance_norm" && true_argument(node, "use_input_stats") && statistics) {
      expand_instance_norm(node, graph, nodes);
      continue;
    }
    if (name == "fill_diagonal_") {
      expand_fill_diagonal(node, graph, nodes);
      continue;
    }
    // Of no elements it gives them back, whatever their rank, and leaves the statistics.
    if (one_of(name,
               {"batch_norm", "native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index"}) &&
        true_argument(node, "training") && statistics && !product(graph[first_tensor(node)].shape).is(0)) {
      if (name != "batch_norm" && name != "native_batch_norm")
        fail_at(ErrorKind::unsupported, where_text(node.where), "{} in training mode", node.op);
      node.op = "aten._native_batch_norm_legit.default";
      std::erase_if(node.args, [](const auto& arg) { return arg.first == "cudnn_enabled"; });
      while (node.outputs.size() < 3) {
        Value extra;
        extra.name = graph[node.outputs[0]].name + "_statistics";
        extra.dtype = graph[node.outputs[0]].dtype;
        extra.shape = {graph[first_tensor(node)].shape[1]};
        node.outputs.push_back(graph.add_value(std::move(extra)));
      }
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace nacre
