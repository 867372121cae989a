// Every captured value is either the root of a storage (an input, or the result of an operator that
// makes new memory) or a view of another value. A write to a value computes its new contents with
// the functional operator, then the new contents of what it is a view of, up to the root; the
// storage then has a new version. A value read later whose contents are of an older version is made
// again from the value that it views.
#include "exporter/functionalize.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/alias.h"
#include "exporter/hidden_writes.h"
#include "exporter/views.h"

namespace nacre {
namespace {

class Functionalizer {
 public:
  explicit Functionalizer(const Graph& captured) : in_(captured), hints_(hints(captured)) {
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
    while (same_[static_cast<size_t>(captured)] != kNoValue)
      captured = same_[static_cast<size_t>(captured)];
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
    if (auto* one = std::get_if<ValueRef>(&argument))
      return one->id == kNoValue ? *one : ValueRef{read(one->id)};
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
  void define_view(ValueId captured, const Node& node, size_t output, ValueId parent,
                   ValueId functional) {
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
  // The views that lead to a value from where the first of them expands; none where none does. None of them changes elements.
  std::vector<ViewStep> views_of_an_expansion(ValueId captured) const;
  // `node` with its arguments named by the values that they are.
  Node canonical(Node node) const {
    for (auto& [name, argument] : node.args) {
      if (auto* one = std::get_if<ValueRef>(&argument); one != nullptr && one->id != kNoValue)
        one->id = resolve(one->id);
      if (auto* many = std::get_if<std::vector<ValueRef>>(&argument))
        for (ValueRef& v : *many)
          if (v.id != kNoValue) v.id = resolve(v.id);
    }
    return node;
  }

  Value like(const Value& captured) const {
    Value v = captured;
    v.strides.clear();
    v.offset = Expr(0);
    return v;
  }

  // ---- Views.
  std::vector<ValueId> emit_view(const Node& node);
  std::vector<ValueId> copy_node(const Node& node, std::string op);
  void remake(const Node& node) {
    Provenance saved = emitter_.where;
    emitter_.where = node.where;
    std::vector<ValueId> made = emit_view(node);
    emitter_.where = saved;
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

  // ---- Nodes.
  void process(const Node& node);
  void process_write(const Node& node, const std::vector<ValueId>& written);
  void process_subgraphs(const Node& node);
  void finish();

  const Graph& in_;
  const std::map<std::string, int64_t> hints_;
  Graph out_;
  Emitter emitter_{out_};
  std::vector<Alias> aliases_;  // by captured value
  std::vector<ValueId>
      same_;  // the captured value that this one is, when it is the result of an in-place operator
  std::vector<Storage> storages_;
};

Graph Functionalizer::run() {
  for (const GraphInput& input : in_.inputs) {
    ValueId v = out_.add_value(like(in_[input.value]));
    out_.inputs.push_back({v, input.kind, input.target, input.path});
    define_root(input.value, v);
  }
  for (const Node& node : in_.nodes) process(node);
  emitter_.where = {};
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
    std::vector<std::pair<std::string, Argument>> args = {{"self", ValueRef{flat_storage(root)}},
                                                          {"src", ValueRef{contents}}};
    const Value& v = in_[captured];
    args.emplace_back("size", v.shape);
    args.emplace_back("stride", *a.node->find("stride"));
    args.emplace_back("storage_offset", v.offset - in_[root].offset);
    write(root, from_flat_storage(root, emitter_.emit_one("aten.as_strided_scatter.default",
                                                          std::move(args), flat)));
    exact = false;
  } else if (const std::vector<ViewStep> views = views_of_an_expansion(captured); views.size() > 1) {
    // A part of an expanded tensor in which no two elements share memory.
    const ValueId parent = views.front().parent;
    write(parent, write_by_position(in_, views, read(parent), contents, emitter_,
                                    [this](const Argument& argument) { return read(argument); }));
    exact = false;
  } else {
    BaseContents base =
        write_through(in_, canonical(*a.node), a.output, a.parent, read(a.parent), contents,
                      emitter_, [this](const Argument& argument) { return read(argument); });
    exact = base.exact;
    write(a.parent, base.value);
  }
  if (exact) {
    Alias& now = aliases_[static_cast<size_t>(captured)];
    now.current = contents;
    now.version = storages_[static_cast<size_t>(now.storage)].version;
  }
}

std::vector<ViewStep> Functionalizer::views_of_an_expansion(ValueId captured) const {
  std::vector<ViewStep> chain, found;
  for (ValueId id = resolve(captured);;) {
    const Alias& a = aliases_[static_cast<size_t>(id)];
    if (a.node == nullptr || one_of(base_name(a.node->op), {"as_strided", "as_strided_"})) return found;
    const ViewStep step{canonical(*a.node), a.output, a.parent};
    if (changes_elements(in_, step)) return found;
    chain.insert(chain.begin(), step);
    if (is_expansion(in_, *a.node)) found = chain;
    id = resolve(a.parent);
  }
}

ValueId Functionalizer::flat_storage(ValueId root) {
  const Value& v = in_[root];
  ValueId current = read(root);
  return emitter_.reshaped(emitter_.permuted(current, memory_order(v, hints_, emitter_.where)),
                           {product(v.shape)});
}

ValueId Functionalizer::from_flat_storage(ValueId root, ValueId flat) {
  const Value& v = in_[root];
  std::vector<int64_t> order = memory_order(v, hints_, emitter_.where), back(order.size());
  std::vector<Expr> shape;
  for (size_t i = 0; i < order.size(); ++i) {
    shape.push_back(v.shape[static_cast<size_t>(order[i])]);
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return emitter_.permuted(emitter_.reshaped(flat, shape), back);
}

std::vector<ValueId> Functionalizer::emit_view(const Node& node) {
  std::string_view name = base_name(node.op);
  ValueId parent = first_tensor(node);
  if (is_identity(node.op) && node.outputs.size() == 1 &&
      in_[node.outputs[0]].shape == in_[parent].shape &&
      in_[node.outputs[0]].dtype == in_[parent].dtype) {
    return {read(parent)};
  }
  if (name == "as_strided" || name == "as_strided_") {
    // It addresses the memory, whatever view of it the argument is.
    ValueId root = storages_[static_cast<size_t>(alias(parent).storage)].root;
    const Value& v = in_[node.outputs[0]];
    return {emitter_.emit_one("aten.as_strided.default",
                              {{"self", ValueRef{flat_storage(root)}},
                               {"size", v.shape},
                               {"stride", *node.find("stride")},
                               {"storage_offset", v.offset - in_[root].offset}},
                              v)};
  }
  if (node.op == "aten.view.default" || node.op == "aten._unsafe_view.default" ||
      node.op == "aten.view_as.default" || node.op == "aten.reshape_as.default" ||
      name == "_reshape_alias") {
    // Strides differ once memory is gone, so that `view` would not always be possible.
    const Value& v = in_[node.outputs[0]];
    return {emitter_.emit_one("aten.reshape.default",
                              {{"self", ValueRef{read(parent)}}, {"shape", v.shape}}, v)};
  }
  if (!is_metadata_write(node.op)) return copy_node(node, node.op);
  const auto variant = functional_variant(node.op);  // of `transpose_`: `transpose.int`
  check(variant.has_value(), "{} has no form that leaves its argument as it is", node.op);
  return copy_node(node, variant->op);
}

// The node as it is, reading the current contents of its arguments.
std::vector<ValueId> Functionalizer::copy_node(const Node& node, std::string op) {
  Node copy;
  copy.op = std::move(op);
  copy.where = emitter_.where;
  for (const auto& [key, value] : node.args) copy.args.emplace_back(key, read(value));
  for (ValueId id : node.outputs)
    copy.outputs.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
  out_.nodes.push_back(std::move(copy));
  return out_.nodes.back().outputs;
}

void Functionalizer::process(const Node& node) {
  emitter_.where = node.where;
  if (node.op.starts_with("higher_order.")) {
    process_subgraphs(node);
    return;
  }
  if (base_name(node.op) == "_assert_tensor_metadata")
    return;  // about strides and devices, which are gone
  NodeEffects effects = effects_of(in_, node);
  if (!effects.written.empty()) {
    process_write(node, effects.written);
    return;
  }
  bool view = std::any_of(effects.shares.begin(), effects.shares.end(),
                          [](ValueId v) { return v != kNoValue; });
  bool reshapes = one_of(base_name(node.op),
                         {"view", "_unsafe_view", "view_as", "reshape_as", "_reshape_alias"});
  std::vector<ValueId> made = view || reshapes ? emit_view(node) : copy_node(node, node.op);
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
  bool dropout =
      one_of(name, {"dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"});
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
    fail_at(ErrorKind::unsupported, where_text(node.where), "{} gives a tensor other memory",
            node.op);

  const Value& self = in_[target];
  const Argument* source = node.find(name == "copy_" ? "src" : "value");
  if ((name == "copy_" || name == "fill_") && source != nullptr &&
      std::holds_alternative<ValueRef>(*source) &&
      in_[std::get<ValueRef>(*source).id].kind == ValueKind::tensor) {
    ValueId v = read(std::get<ValueRef>(*source).id);
    write(target, emitter_.expanded(emitter_.converted(v, self.dtype), self.shape));
    becomes_target();
    return;
  }
  if (name == "fill_" || name == "zero_") {
    write(target,
          emitter_.emit_one("aten.full_like.default",
                            {{"self", ValueRef{read(target)}},
                             {"fill_value", source == nullptr ? Argument(Expr(0)) : read(*source)}},
                            self));
    becomes_target();
    return;
  }

  auto variant = functional_variant(node.op);
  if (!variant)
    fail_at(ErrorKind::unsupported, where_text(node.where),
            "{} writes to its arguments and has no functional form", node.op);
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
  size_t fresh = static_cast<size_t>(std::count_if(variant->results.begin(), variant->results.end(),
                                                   [](int r) { return r >= 0; }));
  std::vector<ValueId> fresh_outputs;
  for (size_t i = 0; i < node.outputs.size() && i < variant->results.size(); ++i)
    if (variant->results[i] >= 0) fresh_outputs.push_back(node.outputs[i]);
  for (ValueId id : fresh_outputs)
    copy.outputs.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
  for (ValueId id : written) copy.outputs.push_back(out_.add_value(like(in_[id])));

  // In-place operators convert their result to the type of what they write.
  auto types = result_types(out_, copy);
  for (size_t i = 0; types && types->size() == copy.outputs.size() && i < written.size(); ++i) {
    Value& v = out_[copy.outputs[fresh + i]];
    const ResultType& type = (*types)[fresh + i];
    if (type.dtype != NACRE_DTYPE_NONE) v.dtype = type.dtype;
    std::vector<int64_t> wanted;
    for (const Expr& e : v.shape) wanted.push_back(e.evaluate(hints_).value_or(-1));
    if (type.dtype != NACRE_DTYPE_NONE && type.shape != wanted)
      fail_at(ErrorKind::unsupported, where_text(node.where),
              "{} changes the sizes of what it writes", node.op);
  }
  std::vector<ValueId> results = copy.outputs;
  out_.nodes.push_back(std::move(copy));
  for (size_t i = 0; i < fresh_outputs.size(); ++i)
    if (fresh_outputs[i] != kNoValue) define_root(fresh_outputs[i], results[i]);
  for (size_t i = 0; i < written.size(); ++i)
    write(written[i], emitter_.converted(results[fresh + i], in_[written[i]].dtype));
  size_t next = 0;
  for (size_t i = 0; i < node.outputs.size() && i < variant->results.size(); ++i) {
    if (variant->results[i] >= 0 || node.outputs[i] == kNoValue) continue;
    same_[static_cast<size_t>(node.outputs[i])] =
        resolve(written[std::min(next++, written.size() - 1)]);
  }
}

void Functionalizer::process_subgraphs(const Node& node) {
  // Branches that write to their arguments return the new contents instead; every branch then
  // returns all of them.
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
    fail_at(ErrorKind::unsupported, where_text(node.where),
            "the body of {} writes to its arguments", node.op);
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
      outputs.push_back(
          {found != contents.end() ? found->second : Argument(ValueRef{sub.inputs[i].value}),
           OutputKind::user, ""});
    }
    sub.outputs = std::move(outputs);
  }
  for (ValueId id : node.outputs)
    copy.outputs.push_back(id == kNoValue ? kNoValue : out_.add_value(like(in_[id])));
  std::vector<ValueId> made = copy.outputs;
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
    OutputKind kind =
        input.kind == InputKind::user ? OutputKind::input_mutation : OutputKind::buffer_mutation;
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
        if (operands == nullptr || !std::holds_alternative<std::vector<ValueRef>>(*operands))
          continue;
        for (size_t i : written_inputs(graph.subgraphs.at(name->name)))
          written.insert(
              root[static_cast<size_t>(std::get<std::vector<ValueRef>>(*operands).at(i).id)]);
      }
      continue;
    }
    NodeEffects effects = effects_of(graph, node);
    for (ValueId id : effects.written) written.insert(root[static_cast<size_t>(id)]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId source = !effects.written.empty()
                           ? effects.written[std::min(i, effects.written.size() - 1)]
                           : effects.shares[i];
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
