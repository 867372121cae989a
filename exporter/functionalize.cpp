// Every captured value is either the root of a storage (an input, or the result of an operator that makes new memory) or a
// view of another value. A write to a value computes its new contents with the functional operator, then the new contents
// of what it is a view of, up to the root; the storage then has a new version. A value read later whose contents are of an
// older version is made again from the value that it views.
#include "exporter/functionalize.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/alias.h"

namespace nacre {
namespace {

// `aten.add_.Tensor` -> `add_`
std::string_view base_name(std::string_view op) {
  size_t first = op.find('.');
  if (first == std::string_view::npos) return op;
  size_t second = op.find('.', first + 1);
  return op.substr(first + 1, second == std::string_view::npos ? std::string_view::npos : second - first - 1);
}

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Row-major order of the elements is kept.
bool is_reshape(std::string_view op) {
  return op != "aten.view.dtype" &&
         one_of(base_name(op), {"view", "reshape", "_unsafe_view", "_reshape_alias", "flatten", "unflatten", "ravel", "squeeze",
                                "unsqueeze", "view_as", "reshape_as", "atleast_1d", "atleast_2d", "atleast_3d", "expand",
                                "expand_as", "broadcast_to"});
}

// Where these share memory with their argument they return it as it is.
bool is_identity(std::string_view op) {
  return one_of(base_name(op), {"detach", "alias", "lift_fresh", "contiguous", "to", "type_as", "positive", "resolve_conj",
                                "resolve_neg", "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "real", "rrelu"});
}

bool is_metadata_write(std::string_view op) {
  return one_of(base_name(op), {"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "as_strided_"});
}

std::optional<int64_t> constant_argument(const Node& node, std::string_view name) {
  const Argument* a = node.find(name);
  if (a == nullptr) return std::nullopt;
  if (auto* e = std::get_if<Expr>(a)) return e->constant();
  return std::nullopt;
}

std::vector<int64_t> constant_list(const Node& node, std::string_view name) {
  std::vector<int64_t> result;
  const Argument* a = node.find(name);
  if (a == nullptr) return result;
  if (auto* many = std::get_if<std::vector<Expr>>(a)) {
    for (const Expr& e : *many) result.push_back(e.constant().value_or(0));
  } else if (auto* one = std::get_if<Expr>(a)) {
    result.push_back(one->constant().value_or(0));
  }
  return result;
}

ValueId first_tensor(const Node& node) {
  for (const auto& [name, argument] : node.args) {
    ValueId found = kNoValue;
    for_each_value(argument, [&](ValueId id) {
      if (found == kNoValue) found = id;
    });
    if (found != kNoValue) return found;
  }
  return kNoValue;
}

bool true_argument(const Node& node, std::string_view name) {
  const Argument* a = node.find(name);
  return a != nullptr && std::holds_alternative<bool>(*a) && std::get<bool>(*a);
}

bool has_value(const Node& node, std::string_view name) {
  const Argument* a = node.find(name);
  if (a == nullptr) return false;
  auto* v = std::get_if<ValueRef>(a);
  return v != nullptr && v->id != kNoValue;
}

// Instance normalisation over the input's own statistics: batch normalisation of one batch in which every instance has
// channels of its own; the running statistics take the mean over the instances.
void expand_instance_norm(const Node& node, Graph& graph, std::vector<Node>& nodes) {
  auto make = [&](std::string op, std::vector<std::pair<std::string, Argument>> args, std::vector<Value> results) {
    Node made;
    made.op = std::move(op);
    made.args = std::move(args);
    made.where = node.where;
    for (Value& v : results) made.outputs.push_back(graph.add_value(std::move(v)));
    nodes.push_back(std::move(made));
    return nodes.back().outputs[0];
  };
  auto ref = [&](std::string_view name) { return has_value(node, name) ? std::get<ValueRef>(*node.find(name)) : ValueRef{}; };
  auto or_none = [](ValueRef v) { return v.id == kNoValue ? Argument(std::monostate{}) : Argument(v); };
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
    return {make("aten.repeat.default", {{"self", ref(name)}, {"repeats", std::vector<Expr>{batch}}}, {v})};
  };
  ValueRef weight = repeated("weight"), bias = repeated("bias"), mean = repeated("running_mean"), var = repeated("running_var");
  ValueId dense = make("aten.contiguous.default", {{"self", ref("input")}}, {input});
  Value merged = input, statistics = input;
  merged.shape[0] = Expr(1);
  merged.shape[1] = batch * channels;
  statistics.shape = {batch * channels};
  ValueId one_batch = make("aten.view.default", {{"self", ValueRef{dense}}, {"size", merged.shape}}, {merged});
  auto argument = [&](const char* name, Argument otherwise) { return node.find(name) != nullptr ? *node.find(name) : otherwise; };
  ValueId normal = make("aten._native_batch_norm_legit.default",
                        {{"input", ValueRef{one_batch}}, {"weight", or_none(weight)}, {"bias", or_none(bias)}, {"running_mean", mean},
                         {"running_var", var}, {"training", true}, {"momentum", argument("momentum", 0.1)}, {"eps", argument("eps", 1e-5)}},
                        {merged, statistics, statistics});
  for (auto [from, to] : {std::pair(mean, ref("running_mean")), std::pair(var, ref("running_var"))}) {
    Value table = statistics, averaged = graph[to.id];
    table.shape = {batch, channels};
    averaged.strides.clear();
    ValueId rows = make("aten.view.default", {{"self", from}, {"size", table.shape}}, {table});
    ValueId average = make("aten.mean.dim", {{"self", ValueRef{rows}}, {"dim", std::vector<Expr>{Expr(0)}}}, {averaged});
    make("aten.copy_.default", {{"self", to}, {"src", ValueRef{average}}}, {graph[to.id]});
  }
  Node last;
  last.op = "aten.view.default";
  last.args = {{"self", ValueRef{normal}}, {"size", input.shape}};
  last.where = node.where;
  last.outputs = node.outputs;
  nodes.push_back(std::move(last));
}

// Operators whose schema hides what they write, replaced by those whose schema tells it.
Graph with_visible_writes(Graph graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    std::string_view name = base_name(node.op);
    bool statistics = has_value(node, "running_mean") && has_value(node, "running_var");
    if (name == "instance_norm" && true_argument(node, "use_input_stats") && statistics) {
      expand_instance_norm(node, graph, nodes);
      continue;
    }
    if (one_of(name, {"batch_norm", "native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index"}) &&
        true_argument(node, "training") && statistics) {
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

class Functionalizer {
 public:
  explicit Functionalizer(const Graph& captured) : in_(captured) {
    out_.level = Level::functional;
    out_.name = in_.name;
    out_.symbols = in_.symbols;
    out_.assumptions = in_.assumptions;
    aliases_.resize(in_.values.size());
    same_.assign(in_.values.size(), kNoValue);
  }

  Graph run();

 private:
  struct Alias {
    int storage = -1;
    const Node* node = nullptr;  // the view that made it; nullptr: a root
    size_t output = 0;
    ValueId parent = kNoValue;   // captured
    ValueId current = kNoValue;  // in out_
    int version = 0;
  };
  struct Storage {
    ValueId root = kNoValue;  // captured
    int version = 0;
  };

  // ---- Values of the captured graph as values of the functional graph.
  ValueId resolve(ValueId captured) const {
    while (same_[static_cast<size_t>(captured)] != kNoValue) captured = same_[static_cast<size_t>(captured)];
    return captured;
  }
  Alias& alias(ValueId captured) { return aliases_[static_cast<size_t>(resolve(captured))]; }

  ValueId read(ValueId captured) {
    Alias& a = alias(captured);
    check(a.storage >= 0, "%{} is read before it is defined", in_[captured].name);
    if (a.version != storages_[static_cast<size_t>(a.storage)].version) remake(*a.node);
    return alias(captured).current;
  }
  Argument read(const Argument& argument) {
    if (auto* one = std::get_if<ValueRef>(&argument)) return one->id == kNoValue ? *one : ValueRef{read(one->id)};
    if (auto* many = std::get_if<std::vector<ValueRef>>(&argument)) {
      std::vector<ValueRef> refs;
      for (ValueRef v : *many) refs.push_back(v.id == kNoValue ? v : ValueRef{read(v.id)});
      return refs;
    }
    return argument;
  }
  void define_root(ValueId captured, ValueId functional) {
    Alias& a = aliases_[static_cast<size_t>(captured)];
    a = Alias{};
    a.storage = static_cast<int>(storages_.size());
    a.current = functional;
    storages_.push_back({captured, 0});
  }
  void define_view(ValueId captured, const Node& node, size_t output, ValueId parent, ValueId functional) {
    Alias& p = alias(parent);
    Alias a;
    a.storage = p.storage;
    a.node = &node;
    a.output = output;
    a.parent = resolve(parent);
    a.current = functional;
    a.version = storages_[static_cast<size_t>(a.storage)].version;
    aliases_[static_cast<size_t>(captured)] = a;
  }
  void write(ValueId captured, ValueId contents);

  // ---- Emitting.
  Value like(const Value& captured) const {
    Value v = captured;
    v.strides.clear();
    v.offset = Expr(0);
    return v;
  }
  std::vector<ValueId> emit(std::string op, std::vector<std::pair<std::string, Argument>> args, const std::vector<Value>& results) {
    Node node;
    node.op = std::move(op);
    node.args = std::move(args);
    node.where = where_;
    for (const Value& v : results) node.outputs.push_back(out_.add_value(like(v)));
    out_.nodes.push_back(std::move(node));
    return out_.nodes.back().outputs;
  }
  ValueId emit_one(std::string op, std::vector<std::pair<std::string, Argument>> args, const Value& result) {
    return emit(std::move(op), std::move(args), {result})[0];
  }
  ValueId reshaped(ValueId v, const std::vector<Expr>& shape) {
    if (out_[v].shape == shape) return v;
    Value result = out_[v];
    result.shape = shape;
    return emit_one("aten.reshape.default", {{"self", ValueRef{v}}, {"shape", shape}}, result);
  }
  ValueId permuted(ValueId v, const std::vector<int64_t>& dims) {
    Value result = out_[v];
    std::vector<Expr> order;
    for (size_t i = 0; i < dims.size(); ++i) {
      result.shape[i] = out_[v].shape[static_cast<size_t>(dims[i])];
      order.emplace_back(dims[i]);
    }
    return emit_one("aten.permute.default", {{"self", ValueRef{v}}, {"dims", order}}, result);
  }
  ValueId converted(ValueId v, nacre_dtype dtype) {
    if (out_[v].dtype == dtype) return v;
    Value result = out_[v];
    result.dtype = dtype;
    return emit_one("aten.to.dtype", {{"self", ValueRef{v}}, {"dtype", dtype}}, result);
  }
  ValueId expanded(ValueId v, const std::vector<Expr>& shape) {
    if (out_[v].shape == shape) return v;
    Value result = out_[v];
    result.shape = shape;
    return emit_one("aten.expand.default", {{"self", ValueRef{v}}, {"size", shape}}, result);
  }

  // ---- Views.
  std::vector<ValueId> emit_view(const Node& node);
  void remake(const Node& node) {
    Provenance saved = where_;
    where_ = node.where;
    std::vector<ValueId> made = emit_view(node);
    where_ = saved;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      Alias& a = aliases_[static_cast<size_t>(node.outputs[i])];
      if (a.node != &node) continue;
      a.current = made[i];
      a.version = storages_[static_cast<size_t>(a.storage)].version;
    }
  }
  ValueId flat_storage(ValueId captured_root);
  ValueId from_flat_storage(ValueId captured_root, ValueId flat);
  std::vector<size_t> memory_order(const Value& v) const;
  // The base's new contents when the view `output` of `node` has the contents `part`. `exact` turns false where reading
  // the view again might give something else than `part`.
  ValueId invert(const Node& node, size_t output, ValueId parent, ValueId part, bool* exact);
  ValueId invert_by_index(const Node& node, size_t output, ValueId parent, ValueId part);

  // ---- Nodes.
  void process(const Node& node);
  void process_write(const Node& node, const std::vector<ValueId>& written);
  void process_subgraphs(const Node& node);
  void finish();

  const Graph& in_;
  Graph out_;
  Provenance where_;
  std::vector<Alias> aliases_;   // by captured value
  std::vector<ValueId> same_;    // the captured value that this one is, when it is the result of an in-place operator
  std::vector<Storage> storages_;
  std::vector<Node> made_nodes_;  // view nodes that stand for in-place changes of sizes
};

Graph Functionalizer::run() {
  made_nodes_.reserve(in_.nodes.size());
  for (const GraphInput& input : in_.inputs) {
    ValueId v = out_.add_value(like(in_[input.value]));
    out_.inputs.push_back({v, input.kind, input.target});
    define_root(input.value, v);
  }
  for (const Node& node : in_.nodes) process(node);
  where_ = {};
  finish();
  return std::move(out_);
}

void Functionalizer::write(ValueId captured, ValueId contents) {
  captured = resolve(captured);
  Alias a = aliases_[static_cast<size_t>(captured)];
  bool exact = true;
  if (a.node == nullptr) {
    ++storages_[static_cast<size_t>(a.storage)].version;
  } else if (base_name(a.node->op) == "as_strided" || base_name(a.node->op) == "as_strided_") {
    ValueId root = storages_[static_cast<size_t>(a.storage)].root;
    Value flat = out_[flat_storage(root)];
    std::vector<std::pair<std::string, Argument>> args = {{"self", ValueRef{flat_storage(root)}}, {"src", ValueRef{contents}}};
    const Value& v = in_[captured];
    args.emplace_back("size", v.shape);
    args.emplace_back("stride", *a.node->find("stride"));
    args.emplace_back("storage_offset", v.offset - in_[root].offset);
    write(root, from_flat_storage(root, emit_one("aten.as_strided_scatter.default", std::move(args), flat)));
    exact = false;
  } else {
    ValueId base = invert(*a.node, a.output, a.parent, contents, &exact);
    write(a.parent, base);
  }
  if (exact) {
    Alias& now = aliases_[static_cast<size_t>(captured)];
    now.current = contents;
    now.version = storages_[static_cast<size_t>(now.storage)].version;
  }
}

// The dims of a value from the one with the largest step in memory to the smallest.
std::vector<size_t> Functionalizer::memory_order(const Value& v) const {
  std::vector<size_t> order(v.shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (v.strides.empty()) return order;
  std::map<std::string, int64_t> symbols = hints(in_);
  auto step = [&](size_t i) { return v.strides[i].evaluate(symbols).value_or(0); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return step(a) > step(b); });
  Expr expected(1);  // dense: the steps are the products of the smaller sizes
  for (size_t k = order.size(); k-- > 0;) {
    size_t i = order[k];
    if (!v.shape[i].is(1) && v.strides[i] != expected)
      fail_at(ErrorKind::unsupported, where_text(where_), "as_strided of %{}, whose memory has gaps or overlaps", v.name);
    expected *= v.shape[i];
  }
  return order;
}

ValueId Functionalizer::flat_storage(ValueId root) {
  const Value& v = in_[root];
  ValueId current = read(root);
  std::vector<size_t> order = memory_order(v);
  std::vector<int64_t> dims(order.begin(), order.end());
  if (!std::is_sorted(dims.begin(), dims.end())) current = permuted(current, dims);
  return reshaped(current, {product(v.shape)});
}

ValueId Functionalizer::from_flat_storage(ValueId root, ValueId flat) {
  const Value& v = in_[root];
  std::vector<size_t> order = memory_order(v);
  std::vector<Expr> shape;
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    shape.push_back(v.shape[order[i]]);
    back[order[i]] = static_cast<int64_t>(i);
  }
  ValueId current = reshaped(flat, shape);
  return std::is_sorted(back.begin(), back.end()) ? current : permuted(current, back);
}

std::vector<ValueId> Functionalizer::emit_view(const Node& node) {
  std::string_view name = base_name(node.op);
  ValueId parent = first_tensor(node);
  if (is_identity(node.op) && node.outputs.size() == 1 && in_[node.outputs[0]].shape == in_[parent].shape &&
      in_[node.outputs[0]].dtype == in_[parent].dtype) {
    return {read(parent)};
  }
  if (name == "as_strided" || name == "as_strided_") {
    // It addresses the memory, whatever view of it the argument is.
    ValueId root = storages_[static_cast<size_t>(alias(parent).storage)].root;
    const Value& v = in_[node.outputs[0]];
    return {emit_one("aten.as_strided.default",
                     {{"self", ValueRef{flat_storage(root)}}, {"size", v.shape}, {"stride", *node.find("stride")},
                      {"storage_offset", v.offset - in_[root].offset}},
                     v)};
  }
  if (node.op == "aten.view.default" || node.op == "aten._unsafe_view.default" || node.op == "aten.view_as.default" ||
      node.op == "aten.reshape_as.default" || name == "_reshape_alias") {
    // Strides differ once memory is gone, so that `view` would not always be possible.
    const Value& v = in_[node.outputs[0]];
    return {emit_one("aten.reshape.default", {{"self", ValueRef{read(parent)}}, {"shape", v.shape}}, v)};
  }
  std::vector<std::pair<std::string, Argument>> args;
  for (const auto& [key, value] : node.args) args.emplace_back(key, read(value));
  std::vector<Value> results;
  for (ValueId id : node.outputs) results.push_back(id == kNoValue ? Value{} : in_[id]);
  std::string op = node.op;
  if (is_metadata_write(op)) {
    size_t end = op.find('.', op.find('.') + 1);
    op.erase(end - 1, 1);
  }
  std::vector<ValueId> made;
  Node copy;
  copy.op = std::move(op);
  copy.args = std::move(args);
  copy.where = where_;
  for (ValueId id : node.outputs) {
    made.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
    copy.outputs.push_back(made.back());
  }
  out_.nodes.push_back(std::move(copy));
  return made;
}

ValueId Functionalizer::invert(const Node& node, size_t output, ValueId parent, ValueId part, bool* exact) {
  const Value& base = in_[parent];
  const Value& view = in_[node.outputs[output]];
  std::string_view name = base_name(node.op);
  auto rank = static_cast<int64_t>(base.shape.size());
  auto wrap = [](int64_t dim, int64_t r) { return dim < 0 ? dim + r : dim; };

  if (view.dtype != base.dtype || node.op == "aten.view.dtype") {
    if (name == "view_as_real")
      return emit_one("aten.view_as_complex.default", {{"self", ValueRef{part}}}, base);
    if (name == "view_as_complex")
      return emit_one("aten.view_as_real.default", {{"self", ValueRef{part}}}, base);
    if (node.op == "aten.view.dtype")
      return emit_one("aten.view.dtype", {{"self", ValueRef{part}}, {"dtype", base.dtype}}, base);
    if (name == "real" || name == "imag") {
      ValueId whole = read(parent);
      std::string_view other = name == "real" ? "imag" : "real";
      ValueId kept = emit_one(fmt::format("aten.{}.default", other), {{"self", ValueRef{whole}}}, view);
      return emit_one("aten.complex.default",
                      {{"real", ValueRef{name == "real" ? part : kept}}, {"imag", ValueRef{name == "real" ? kept : part}}}, base);
    }
    fail_at(ErrorKind::unsupported, where_text(where_), "a write through {}", node.op);
  }
  if (is_identity(node.op) && view.shape == base.shape) return part;
  if (name == "conj" || name == "_conj") return emit_one("aten.conj.default", {{"self", ValueRef{part}}}, base);
  if (name == "_neg_view") return emit_one("aten.neg.default", {{"self", ValueRef{part}}}, base);
  if (is_reshape(node.op) && product(view.shape) == product(base.shape)) return reshaped(part, base.shape);
  if (name == "expand" || name == "expand_as" || name == "broadcast_to")
    fail_at(ErrorKind::user, where_text(where_), "a write to an expanded tensor, in which elements share memory");

  // Permutations: view dim i is base dim order[i].
  std::vector<int64_t> order(base.shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  bool permutes = true;
  if (name == "permute") {
    order = constant_list(node, "dims");
    for (int64_t& d : order) d = wrap(d, rank);
  } else if (one_of(name, {"transpose", "transpose_", "swapaxes", "swapdims", "swapaxes_", "swapdims_"})) {
    bool axes = name.starts_with("swapaxes");
    int64_t a = wrap(constant_argument(node, axes ? "axis0" : "dim0").value_or(0), rank);
    int64_t b = wrap(constant_argument(node, axes ? "axis1" : "dim1").value_or(0), rank);
    if (rank > 0) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  } else if (name == "t" || name == "t_" || name == "numpy_T" || name == "T") {
    std::reverse(order.begin(), order.end());
  } else if (name == "mT" || name == "matrix_H" || name == "adjoint" || name == "mH") {
    if (rank >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
    permutes = name == "mT";
  } else if (name == "movedim" || name == "moveaxis") {
    std::vector<int64_t> from = constant_list(node, "source"), to = constant_list(node, "destination");
    std::fill(order.begin(), order.end(), -1);
    std::set<int64_t> moved;
    for (size_t i = 0; i < from.size(); ++i) {
      order[static_cast<size_t>(wrap(to[i], rank))] = wrap(from[i], rank);
      moved.insert(wrap(from[i], rank));
    }
    int64_t next = 0;
    for (int64_t& d : order) {
      if (d >= 0) continue;
      while (moved.count(next) != 0) ++next;
      d = next++;
    }
  } else {
    permutes = false;
  }
  if (permutes) {
    std::vector<int64_t> inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return permuted(part, inverse);
  }

  // Parts of the base.
  auto scatter = [&](std::string op, std::initializer_list<std::string_view> kept) {
    std::vector<std::pair<std::string, Argument>> args = {{"self", ValueRef{read(parent)}}, {"src", ValueRef{part}}};
    for (std::string_view key : kept)
      if (const Argument* a = node.find(key)) args.emplace_back(std::string(key), read(*a));
    return emit_one(std::move(op), std::move(args), base);
  };
  auto slice_scatter = [&](int64_t dim, const Expr& start, const Expr& end) {
    return emit_one("aten.slice_scatter.default",
                    {{"self", ValueRef{read(parent)}}, {"src", ValueRef{part}}, {"dim", Expr(dim)}, {"start", start}, {"end", end}},
                    base);
  };
  if (node.op == "aten.slice.Tensor") return scatter("aten.slice_scatter.default", {"dim", "start", "end", "step"});
  if (node.op == "aten.select.int") return scatter("aten.select_scatter.default", {"dim", "index"});
  if (node.op == "aten.diagonal.default") return scatter("aten.diagonal_scatter.default", {"offset", "dim1", "dim2"});
  if (node.op == "aten.narrow.default") {
    int64_t dim = wrap(constant_argument(node, "dim").value_or(0), rank);
    Expr start = std::get<Expr>(*node.find("start"));
    if (start.constant() && *start.constant() < 0) start += base.shape[static_cast<size_t>(dim)];
    return slice_scatter(dim, start, start + view.shape[static_cast<size_t>(dim)]);
  }
  if (name == "unbind") {
    int64_t dim = wrap(constant_argument(node, "dim").value_or(0), rank);
    return emit_one("aten.select_scatter.default",
                    {{"self", ValueRef{read(parent)}}, {"src", ValueRef{part}}, {"dim", Expr(dim)}, {"index", Expr(static_cast<int64_t>(output))}},
                    base);
  }
  if (one_of(name, {"split", "split_with_sizes", "chunk", "tensor_split", "unsafe_chunk"}) &&
      node.op != "aten.tensor_split.tensor_indices_or_sections") {
    auto dim = static_cast<size_t>(wrap(constant_argument(node, "dim").value_or(0), rank));
    Expr start(0);
    for (size_t i = 0; i < output; ++i) start += in_[node.outputs[i]].shape[dim];
    return slice_scatter(static_cast<int64_t>(dim), start, start + view.shape[dim]);
  }
  *exact = false;
  return invert_by_index(node, output, parent, part);
}

// For any other view: what it does to the positions 0, 1, 2, ... says where each element of the part belongs.
ValueId Functionalizer::invert_by_index(const Node& node, size_t output, ValueId parent, ValueId part) {
  const Value& base = in_[parent];
  Expr count = product(base.shape);
  Value positions = base;
  positions.name = base.name + "_positions";
  positions.dtype = NACRE_i64;
  positions.shape = {count};
  ValueId all = emit_one("aten.arange.default", {{"end", count}, {"dtype", NACRE_i64}}, positions);
  all = reshaped(all, base.shape);

  std::vector<std::pair<std::string, Argument>> args;
  for (const auto& [key, value] : node.args) {
    bool is_parent = false;
    for_each_value(value, [&](ValueId id) { is_parent |= resolve(id) == parent; });
    if (is_parent && std::holds_alternative<std::vector<ValueRef>>(value)) {
      std::vector<ValueRef> refs;
      for (ValueRef v : std::get<std::vector<ValueRef>>(value))
        refs.push_back(v.id != kNoValue && resolve(v.id) == parent ? ValueRef{all} : v.id == kNoValue ? v : ValueRef{read(v.id)});
      args.emplace_back(key, refs);
    } else {
      args.emplace_back(key, is_parent ? Argument(ValueRef{all}) : read(value));
    }
  }
  std::vector<Value> results;
  for (ValueId id : node.outputs) {
    results.push_back(in_[id]);
    results.back().name += "_positions";
    results.back().dtype = NACRE_i64;
  }
  ValueId chosen = emit(node.op, std::move(args), results)[output];
  Expr chosen_count = product(out_[chosen].shape);
  ValueId index = reshaped(chosen, {chosen_count});
  ValueId flat = reshaped(read(parent), {count});
  ValueId source = reshaped(part, {chosen_count});
  ValueId changed = emit_one("aten.index_put.default",
                             {{"self", ValueRef{flat}}, {"indices", std::vector<ValueRef>{{index}}}, {"values", ValueRef{source}}},
                             out_[flat]);
  return reshaped(changed, base.shape);
}

void Functionalizer::process(const Node& node) {
  where_ = node.where;
  if (node.op.starts_with("higher_order.")) {
    process_subgraphs(node);
    return;
  }
  if (base_name(node.op) == "_assert_tensor_metadata") return;  // about strides and devices, which are gone
  NodeEffects effects = effects_of(in_, node);
  if (!effects.written.empty()) {
    process_write(node, effects.written);
    return;
  }
  bool view = std::any_of(effects.shares.begin(), effects.shares.end(), [](ValueId v) { return v != kNoValue; });
  bool reshapes = one_of(base_name(node.op), {"view", "_unsafe_view", "view_as", "reshape_as", "_reshape_alias"});
  std::vector<ValueId> made;
  if (view || reshapes) {
    made = emit_view(node);
  } else {
    Node copy;
    copy.op = node.op;
    copy.where = node.where;
    for (const auto& [key, value] : node.args) copy.args.emplace_back(key, read(value));
    for (ValueId id : node.outputs) {
      made.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
      copy.outputs.push_back(made.back());
    }
    out_.nodes.push_back(std::move(copy));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    if (effects.shares[i] != kNoValue) {
      define_view(node.outputs[i], node, i, effects.shares[i], made[i]);
    } else {
      define_root(node.outputs[i], made[i]);
    }
  }
}

void Functionalizer::process_write(const Node& node, const std::vector<ValueId>& written) {
  std::string_view name = base_name(node.op);
  ValueId target = written[0];
  auto becomes_target = [&] {
    for (ValueId id : node.outputs)
      if (id != kNoValue) same_[static_cast<size_t>(id)] = resolve(target);
  };
  bool dropout = one_of(name, {"dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"});
  if (name == "detach_" || name == "requires_grad_" || (dropout && !true_argument(node, "train"))) {
    becomes_target();
    return;
  }
  if (is_metadata_write(node.op)) {
    std::vector<ValueId> made = emit_view(node);
    define_view(node.outputs[0], node, 0, target, made[0]);
    return;
  }
  if (one_of(name, {"set_", "resize_", "resize_as_", "_resize_output_"}))
    fail_at(ErrorKind::unsupported, where_text(node.where), "{} gives a tensor other memory", node.op);

  const Value& self = in_[target];
  if (name == "copy_" || node.op == "aten.fill_.Tensor") {
    const Argument* source = node.find(name == "copy_" ? "src" : "value");
    ValueId v = read(std::get<ValueRef>(*source).id);
    write(target, expanded(converted(v, self.dtype), self.shape));
    becomes_target();
    return;
  }
  if (node.op == "aten.fill_.Scalar" || name == "zero_") {
    const Argument* value = node.find("value");
    write(target, emit_one("aten.full_like.default",
                           {{"self", ValueRef{read(target)}}, {"fill_value", value == nullptr ? Argument(Expr(0)) : read(*value)}}, self));
    becomes_target();
    return;
  }

  auto variant = functional_variant(node.op);
  if (!variant)
    fail_at(ErrorKind::unsupported, where_text(node.where), "{} writes to its arguments and has no functional form", node.op);
  Node copy;
  copy.op = variant->op;
  copy.where = node.where;
  for (const auto& [key, value] : node.args) {
    auto renamed = variant->parameters.find(key);
    if (renamed == variant->parameters.end())
      fail_at(ErrorKind::user, where_text(node.where), "{} has no argument `{}`", node.op, key);
    if (!renamed->second.empty()) copy.args.emplace_back(renamed->second, read(value));
  }
  // Results that are new memory, then one for each that was written.
  size_t fresh = static_cast<size_t>(std::count_if(variant->results.begin(), variant->results.end(), [](int r) { return r >= 0; }));
  std::vector<ValueId> fresh_outputs;
  for (size_t i = 0; i < node.outputs.size() && i < variant->results.size(); ++i)
    if (variant->results[i] >= 0) fresh_outputs.push_back(node.outputs[i]);
  for (ValueId id : fresh_outputs) copy.outputs.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
  for (ValueId id : written) copy.outputs.push_back(out_.add_value(like(in_[id])));

  // In-place operators convert their result to the type of what they write.
  auto types = result_types(out_, copy);
  for (size_t i = 0; types && types->size() == copy.outputs.size() && i < written.size(); ++i) {
    Value& v = out_[copy.outputs[fresh + i]];
    const ResultType& type = (*types)[fresh + i];
    if (type.dtype != NACRE_DTYPE_NONE) v.dtype = type.dtype;
    std::map<std::string, int64_t> symbols = hints(in_);
    std::vector<int64_t> wanted;
    for (const Expr& e : v.shape) wanted.push_back(e.evaluate(symbols).value_or(-1));
    if (type.dtype != NACRE_DTYPE_NONE && type.shape != wanted)
      fail_at(ErrorKind::unsupported, where_text(node.where), "{} changes the sizes of what it writes", node.op);
  }
  std::vector<ValueId> results = copy.outputs;
  out_.nodes.push_back(std::move(copy));
  for (size_t i = 0; i < fresh_outputs.size(); ++i)
    if (fresh_outputs[i] != kNoValue) define_root(fresh_outputs[i], results[i]);
  for (size_t i = 0; i < written.size(); ++i) write(written[i], converted(results[fresh + i], in_[written[i]].dtype));
  size_t next = 0;
  for (size_t i = 0; i < node.outputs.size() && i < variant->results.size(); ++i) {
    if (variant->results[i] >= 0 || node.outputs[i] == kNoValue) continue;
    same_[static_cast<size_t>(node.outputs[i])] = resolve(written[std::min(next++, written.size() - 1)]);
  }
}

void Functionalizer::process_subgraphs(const Node& node) {
  // Branches that write to their arguments return the new contents instead; every branch then returns all of them.
  Node copy;
  copy.op = node.op;
  copy.where = node.where;
  std::vector<std::string> names;
  for (const auto& [key, value] : node.args) {
    if (auto* graph = std::get_if<SubgraphRef>(&value)) names.push_back(graph->name);
    copy.args.emplace_back(key, read(value));
  }
  std::set<std::string> mutated;  // by position among the inputs
  std::set<size_t> positions;
  for (const std::string& name : names) {
    auto found = in_.subgraphs.find(name);
    check(found != in_.subgraphs.end(), "{} has no subgraph {}", in_.name, name);
    Graph sub = functionalize(found->second);
    for (const GraphOutput& output : sub.outputs) {
      if (output.kind == OutputKind::user) continue;
      for (size_t i = 0; i < sub.inputs.size(); ++i)
        if (sub.inputs[i].target == output.target) positions.insert(i);
    }
    out_.subgraphs[name] = std::move(sub);
  }
  if (!positions.empty() && node.op != "higher_order.cond")
    fail_at(ErrorKind::unsupported, where_text(node.where), "the body of {} writes to its arguments", node.op);
  for (const std::string& name : names) {
    Graph& sub = out_.subgraphs[name];
    std::map<size_t, Argument> contents;
    std::vector<GraphOutput> outputs;
    for (GraphOutput& output : sub.outputs) {
      if (output.kind == OutputKind::user) {
        outputs.push_back(output);
        continue;
      }
      for (size_t i = 0; i < sub.inputs.size(); ++i)
        if (sub.inputs[i].target == output.target) contents[i] = output.value;
    }
    for (size_t i : positions) {
      auto found = contents.find(i);
      outputs.push_back({found != contents.end() ? found->second : Argument(ValueRef{sub.inputs[i].value}), OutputKind::user, ""});
    }
    sub.outputs = std::move(outputs);
  }
  std::vector<ValueId> made;
  for (ValueId id : node.outputs) {
    made.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
    copy.outputs.push_back(made.back());
  }
  std::vector<std::pair<ValueId, ValueId>> writes;
  if (!positions.empty()) {
    const auto& operands = std::get<std::vector<ValueRef>>(*node.find("operands"));
    for (size_t i : positions) {
      ValueId target = operands.at(i).id;
      writes.emplace_back(target, out_.add_value(like(in_[target])));
      copy.outputs.push_back(writes.back().second);
    }
  }
  out_.nodes.push_back(std::move(copy));
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue) define_root(node.outputs[i], made[i]);
  for (auto [target, contents] : writes) write(target, contents);
}

void Functionalizer::finish() {
  std::set<std::pair<OutputKind, std::string>> told;
  for (const GraphOutput& output : in_.outputs) {
    out_.outputs.push_back({read(output.value), output.kind, output.target});
    if (output.kind != OutputKind::user) told.insert({output.kind, output.target});
  }
  for (const GraphInput& input : in_.inputs) {
    const Alias& a = alias(input.value);
    if (storages_[static_cast<size_t>(a.storage)].version == 0) continue;
    OutputKind kind = input.kind == InputKind::user ? OutputKind::input_mutation : OutputKind::buffer_mutation;
    if (told.count({kind, input.target}) == 0)
      out_.outputs.push_back({ValueRef{read(input.value)}, kind, input.target});
  }

  // Views and contents that nothing reads any more. Checks stay, and what defines a symbol stays.
  std::set<std::string> given;
  for (const GraphInput& input : out_.inputs) {
    for (const Expr& e : out_[input.value].shape) given.merge(e.symbols());
    given.merge(out_[input.value].expr.symbols());
  }
  std::vector<bool> defines(out_.nodes.size(), false);
  for (size_t n = 0; n < out_.nodes.size(); ++n) {
    for (ValueId id : out_.nodes[n].outputs) {
      if (id == kNoValue) continue;
      std::set<std::string> symbols = out_[id].expr.symbols();
      for (const Expr& e : out_[id].shape) symbols.merge(e.symbols());
      for (const std::string& s : symbols) defines[n] = given.insert(s).second || defines[n];
    }
  }
  std::vector<bool> needed(out_.values.size(), false);
  auto need = [&](ValueId id) { needed[static_cast<size_t>(id)] = true; };
  for (const GraphOutput& output : out_.outputs) for_each_value(output.value, need);
  std::vector<bool> keep(out_.nodes.size(), false);
  for (size_t n = out_.nodes.size(); n-- > 0;) {
    const Node& node = out_.nodes[n];
    bool kept = node.outputs.empty() || defines[n];
    for (ValueId id : node.outputs) kept |= id != kNoValue && needed[static_cast<size_t>(id)];
    keep[n] = kept;
    if (kept)
      for (const auto& [key, value] : node.args) for_each_value(value, need);
  }
  std::vector<Node> nodes;
  for (size_t n = 0; n < keep.size(); ++n)
    if (keep[n]) nodes.push_back(std::move(out_.nodes[n]));
  out_.nodes = std::move(nodes);

  // Values without a definition vanish from the table.
  std::vector<bool> live(out_.values.size(), false);
  for (const GraphInput& input : out_.inputs) live[static_cast<size_t>(input.value)] = true;
  for (const Node& node : out_.nodes)
    for (ValueId id : node.outputs)
      if (id != kNoValue) live[static_cast<size_t>(id)] = true;
  std::vector<ValueId> renumbered(out_.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    renumbered[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(out_.values[i]));
  }
  out_.values = std::move(values);
  auto renumber = [&](ValueId& id) {
    if (id != kNoValue) id = renumbered[static_cast<size_t>(id)];
  };
  auto renumber_argument = [&](Argument& a) {
    if (auto* one = std::get_if<ValueRef>(&a)) renumber(one->id);
    if (auto* many = std::get_if<std::vector<ValueRef>>(&a))
      for (ValueRef& v : *many) renumber(v.id);
  };
  for (GraphInput& input : out_.inputs) renumber(input.value);
  for (Node& node : out_.nodes) {
    for (auto& [key, value] : node.args) renumber_argument(value);
    for (ValueId& id : node.outputs) renumber(id);
  }
  for (GraphOutput& output : out_.outputs) renumber_argument(output.value);
}

}  // namespace

Graph functionalize(const Graph& captured) {
  Graph visible = with_visible_writes(captured);
  return Functionalizer(visible).run();
}

std::vector<size_t> written_inputs(const Graph& captured) {
  Graph graph = with_visible_writes(captured);
  std::vector<ValueId> root(graph.values.size());
  for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<ValueId>(i);
  std::set<ValueId> written;
  for (const Node& node : graph.nodes) {
    if (node.op.starts_with("higher_order.")) {
      for (const auto& [key, value] : node.args) {
        auto* name = std::get_if<SubgraphRef>(&value);
        if (name == nullptr) continue;
        const Argument* operands = node.find("operands");
        if (operands == nullptr || !std::holds_alternative<std::vector<ValueRef>>(*operands)) continue;
        for (size_t i : written_inputs(graph.subgraphs.at(name->name)))
          written.insert(root[static_cast<size_t>(std::get<std::vector<ValueRef>>(*operands).at(i).id)]);
      }
      continue;
    }
    NodeEffects effects = effects_of(graph, node);
    for (ValueId id : effects.written) written.insert(root[static_cast<size_t>(id)]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId source = !effects.written.empty() ? effects.written[std::min(i, effects.written.size() - 1)] : effects.shares[i];
      if (node.outputs[i] != kNoValue && source != kNoValue)
        root[static_cast<size_t>(node.outputs[i])] = root[static_cast<size_t>(source)];
    }
  }
  std::vector<size_t> result;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (written.count(graph.inputs[i].value) != 0) result.push_back(i);
  return result;
}

}  // namespace nacre
