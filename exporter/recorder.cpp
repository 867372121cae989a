#include "exporter/recorder.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/value_tree.h"

namespace nacre {

using c10::IValue;

namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

bool is_about_metadata(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::size",   "aten::len",       "aten::dim",           "aten::numel",      "aten::is_floating_point", "aten::is_complex",
      "aten::stride", "prim::device",    "prim::dtype",         "prim::layout",     "prim::is_cuda",           "prim::is_sparse",
      "prim::is_cpu", "aten::device",    "aten::is_contiguous", "prim::type",       "aten::storage_offset",    "aten::get_device",
      "prim::shape",  "prim::is_nested", "prim::requires_grad", "aten::is_autocast_enabled", "aten::__is__",   "aten::__isnot__",
      "aten::is_signed"};
  return names.contains(name);
}

void Recorder::own(const at::Tensor& tensor, const std::string& path, InputKind kind) {
  owned_.emplace(tensor.unsafeGetTensorImpl(), Owned{path, kind});
  storages_.insert(storage_of(tensor));
  lasting_.insert(storage_of(tensor));
}

void Recorder::add_input(const at::Tensor& tensor, HostTensor sample, const std::string& name) {
  const ValueId id = define(tensor, name, true);
  ids_[tensor.unsafeGetTensorImpl()] = id;
  inputs_[id] = {tensor, tensor._version()};
  lasting_.insert(storage_of(tensor));
  graph().inputs.push_back({id, InputKind::user, name});
  program_.sample_inputs.push_back(std::move(sample));
}

ValueId Recorder::define(const at::Tensor& tensor, const std::string& name, bool dynamic) {
  Value v;
  v.name = name;
  v.dtype = aten::from_torch(tensor.scalar_type());
  for (int64_t size : tensor.sizes()) v.shape.emplace_back(size);
  if (!tensor.is_contiguous())
    for (int64_t stride : tensor.strides()) v.strides.emplace_back(stride);
  v.offset = tensor.storage_offset();
  const ValueId id = graph().add_value(std::move(v));
  if (dynamic) dynamic_.insert(storage_of(tensor));
  alive_.push_back(tensor);
  if (storages_.insert(storage_of(tensor)).second && !scopes_.empty()) scopes_.back()->local.insert(storage_of(tensor));
  return id;
}

bool Recorder::knows(const at::Tensor& tensor) const {
  const auto* key = tensor.unsafeGetTensorImpl();
  return ids_.contains(key) || std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope* s) { return s->ids.contains(key); });
}

ValueId Recorder::id_of(const at::Tensor& tensor) { return id_within(tensor, scopes_.size()); }

ValueId Recorder::id_within(const at::Tensor& tensor, size_t depth) {
  auto& known = depth == 0 ? ids_ : scopes_[depth - 1]->ids;
  if (auto found = known.find(tensor.unsafeGetTensorImpl()); found != known.end()) return found->second;
  // Values are defined in the innermost graph, so the deeper scopes wait.
  std::vector<Scope*> deeper(scopes_.begin() + static_cast<std::ptrdiff_t>(depth), scopes_.end());
  scopes_.resize(depth);
  ValueId id = kNoValue;
  if (depth > 0) {
    const ValueId outside = id_within(tensor, depth - 1);
    const Graph& around = depth == 1 ? program_.graph : scopes_[depth - 2]->graph;
    id = define(tensor, around[outside].name, false);
    scopes_.back()->captured.emplace_back(tensor, id);
    known[tensor.unsafeGetTensorImpl()] = id;
  } else {
    check(!lost_.contains(tensor.unsafeGetTensorImpl()), "a tensor that a branch or loop made is read outside it");
    GraphInput input;
    input.kind = InputKind::constant;
    std::string name = "constant";
    bool state = false;
    if (auto owned = owned_.find(tensor.unsafeGetTensorImpl()); owned != owned_.end()) {
      input.kind = owned->second.kind;
      input.target = owned->second.path;
      name = owned->second.path;
      std::replace(name.begin(), name.end(), '.', '_');
      state = input.kind == InputKind::buffer;
    }
    id = input.value = define(tensor, name, state);
    if (input.target.empty()) input.target = graph()[input.value].name;
    known[tensor.unsafeGetTensorImpl()] = id;
    program_.weights[input.target] = aten::to_host(tensor);
    inputs_[id] = {tensor, tensor._version()};
    graph().inputs.push_back(std::move(input));
  }
  scopes_.insert(scopes_.end(), deeper.begin(), deeper.end());
  return id;
}

bool Recorder::depends_on_inputs(const IValue& value) const {
  bool found = false;
  each_tensor(value, [&](const at::Tensor& t) {
    auto owned = owned_.find(t.unsafeGetTensorImpl());
    found |= dynamic_.contains(storage_of(t)) || (owned != owned_.end() && owned->second.kind == InputKind::buffer);
  });
  return found;
}

bool Recorder::is_apart(const std::vector<IValue>& values) const {
  bool apart = true;
  for (const IValue& value : values) each_tensor(value, [&](const at::Tensor& t) { apart &= !storages_.contains(storage_of(t)); });
  return apart;
}

bool Recorder::may_write(const IValue& value) const {
  bool may = true;
  each_tensor(value, [&](const at::Tensor& t) { may &= knows(t) || owns(t) || !storages_.contains(storage_of(t)); });
  return may;
}

void Recorder::read(const std::vector<IValue>& arguments) {
  for (const IValue& argument : arguments) each_tensor(argument, [&](const at::Tensor& t) { id_of(t); });
}

bool Recorder::has_effect(const c10::FunctionSchema& schema, const std::vector<IValue>& results) const {
  bool makes = schema.is_mutable();
  for (const IValue& result : results) each_tensor(result, [&](const at::Tensor& t) { makes |= !knows(t); });
  return makes;
}

void Recorder::record(const c10::OperatorHandle& op, Provenance where, const std::vector<IValue>& arguments,
                      const std::vector<IValue>& results) {
  const c10::FunctionSchema& schema = op.schema();
  Node made;
  made.op = where.op;
  made.where = std::move(where);
  const auto lookup = [&](const at::Tensor& t) { return id_of(t); };
  for (size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i];
    if (aten::is_default(arguments[i], parameter)) continue;
    made.args.emplace_back(parameter.name(), aten::to_argument(arguments[i], parameter.real_type(), lookup));
  }
  const bool dynamic =
      aten::is_random(op) || std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return depends_on_inputs(v); });
  // What an in-place operator writes to depends on what it reads.
  if (dynamic)
    for (size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i)
      if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite())
        each_tensor(arguments[i], [&](const at::Tensor& t) { dynamic_.insert(storage_of(t)); });
  const std::string name = schema.name().substr(schema.name().find("::") + 2);
  for (const IValue& result : results) {
    if (result.isTensor() && !result.toTensor().defined()) {
      made.outputs.push_back(kNoValue);
      continue;
    }
    each_tensor(result, [&](const at::Tensor& t) {
      const ValueId id = define(t, name, dynamic);
      // The result of an in-place operator is its operand.
      if (!knows(t)) ids()[t.unsafeGetTensorImpl()] = id;
      made.outputs.push_back(id);
    });
  }
  graph().nodes.push_back(std::move(made));
}

void Recorder::record(Node node, const at::Tensor& result, const std::string& name) {
  node.outputs = {define(result, name, true)};
  ids()[result.unsafeGetTensorImpl()] = node.outputs[0];
  graph().nodes.push_back(std::move(node));
}

void Recorder::require(const at::Tensor& condition, std::string message, Provenance where) {
  Value flag;
  flag.name = "holds";
  flag.kind = ValueKind::boolean;
  flag.dtype = NACRE_bool_;
  Node item, assertion;
  item.op = "aten.item.default";
  item.args = {{"self", ValueRef{id_of(condition)}}};
  item.outputs = {graph().add_value(std::move(flag))};
  item.where = assertion.where = std::move(where);
  assertion.op = "aten._assert_scalar.default";
  assertion.args = {{"self", ValueRef{item.outputs[0]}}, {"assert_msg", std::move(message)}};
  graph().nodes.push_back(std::move(item));
  graph().nodes.push_back(std::move(assertion));
}

void Recorder::enter(Scope& scope) {
  apply_writes(scope);
  scopes_.push_back(&scope);
}

void Recorder::leave() {
  Scope& scope = *scopes_.back();
  scopes_.pop_back();
  for (auto& [storage, memory] : scope.written) {
    auto* bytes = static_cast<std::byte*>(memory.tensor.storage().mutable_data());
    memory.after.assign(bytes, bytes + memory.before.size());
    std::copy(memory.before.begin(), memory.before.end(), bytes);
  }
  for (const auto& [tensor, id] : scope.ids) {
    const bool outside = ids_.contains(tensor) ||
                         std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope* s) { return s->ids.contains(tensor); });
    if (!outside) lost_.insert(tensor);
  }
}

void Recorder::apply_writes(const Scope& scope) {
  for (const auto& [storage, memory] : scope.written)
    std::copy(memory.after.begin(), memory.after.end(), static_cast<std::byte*>(memory.tensor.storage().mutable_data()));
}

void Recorder::bind(const at::Tensor& tensor, bool copy) {
  Scope& scope = *scopes_.back();
  const ValueId input = define(tensor, "carried", true);
  scope.bound.push_back(input);
  scope.ids[tensor.unsafeGetTensorImpl()] = input;
  if (!copy) return;
  Node node;
  node.op = "aten.clone.default";
  node.where.op = node.op;
  node.args = {{"self", ValueRef{input}}};
  node.outputs = {define(tensor, "carried", true)};
  scope.ids[tensor.unsafeGetTensorImpl()] = node.outputs[0];
  scope.graph.nodes.push_back(std::move(node));
}

void Recorder::add_result(Scope& scope, const at::Tensor& tensor) {
  scopes_.push_back(&scope);
  scope.graph.outputs.push_back({ValueRef{id_of(tensor)}, OutputKind::user, ""});
  scopes_.pop_back();
}

std::vector<ValueRef> Recorder::close(const std::vector<Scope*>& scopes) {
  std::vector<ValueRef> operands;
  std::vector<at::Tensor> captured;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const Scope* scope : scopes)
    for (const auto& [tensor, id] : scope->captured)
      if (seen.insert(tensor.unsafeGetTensorImpl()).second) captured.push_back(tensor);
  for (const at::Tensor& tensor : captured) operands.push_back({id_of(tensor)});
  for (Scope* scope : scopes) {
    const auto add = [&](ValueId id) { scope->graph.inputs.push_back({id, InputKind::user, scope->graph[id].name}); };
    for (ValueId id : scope->bound) add(id);
    for (size_t i = 0; i < captured.size(); ++i) {
      const auto known = std::find_if(scope->captured.begin(), scope->captured.end(), [&](const auto& c) { return c.first.is_same(captured[i]); });
      if (known != scope->captured.end()) {
        add(known->second);
        continue;
      }
      scopes_.push_back(scope);
      const ValueId unused = define(captured[i], "unused", false);
      scopes_.pop_back();
      add(unused);
    }
  }
  return operands;
}

void Recorder::record(Node node, const std::vector<std::pair<std::string, Scope*>>& scopes,
                      const std::vector<std::pair<std::string, std::vector<ValueRef>>>& operands, const std::vector<at::Tensor>& results) {
  for (const auto& [key, scope] : scopes) {
    const std::string name = key + "_" + std::to_string(graph().subgraphs.size());
    scope->graph.name = name;
    node.args.emplace_back(key, SubgraphRef{name});
    graph().subgraphs[name] = std::move(scope->graph);
  }
  for (const auto& [key, refs] : operands) node.args.emplace_back(key, refs);
  const std::string name = node.op.substr(node.op.find('.') + 1);
  for (const at::Tensor& result : results) {
    node.outputs.push_back(define(result, name, true));
    ids()[result.unsafeGetTensorImpl()] = node.outputs.back();
  }
  graph().nodes.push_back(std::move(node));
}

std::optional<std::string> Recorder::will_write(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  if (auto found = unwritable_.find(storage); found != unwritable_.end()) return found->second;
  if (auto found = partners_.find(storage); found != partners_.end()) {
    for (const auto* partner : found->second) {
      // What a later round reads may have been written in an earlier one.
      const bool again =
          std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope* s) { return s->repeats && !s->local.contains(partner); });
      if (lasting_.contains(partner) || again)
        return "writes in place to what a decision on data may have made the same memory as an input or a value from before: write to a clone()";
      stale_.insert(partner);
    }
  }
  // Later values of what is written in a branch depend on its condition.
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (scopes_[i]->local.contains(storage)) break;
    dynamic_.insert(storage);
    auto [memory, added] = scopes_[i]->written.try_emplace(storage);
    if (!added) continue;
    const auto* bytes = static_cast<const std::byte*>(tensor.storage().data());
    memory->second.tensor = tensor;
    memory->second.before.assign(bytes, bytes + tensor.storage().nbytes());
  }
  return std::nullopt;
}

void Recorder::may_share(const at::Tensor& a, const at::Tensor& b) {
  partners_[storage_of(a)].push_back(storage_of(b));
  partners_[storage_of(b)].push_back(storage_of(a));
}

void Recorder::forbid_writes(const at::Tensor& tensor, const std::string& why) { unwritable_[storage_of(tensor)] = why; }

bool Recorder::is_stale(const IValue& value) const {
  bool stale = false;
  each_tensor(value, [&](const at::Tensor& t) { stale |= stale_.contains(storage_of(t)); });
  return stale;
}

void Recorder::add_output(const IValue& value) {
  const auto add = [&](Argument result) { program_.graph.outputs.push_back({std::move(result), OutputKind::user, ""}); };
  if (value.isTensor()) {
    add(value.toTensor().defined() ? Argument(ValueRef{id_of(value.toTensor())}) : Argument());
  } else if (value.isTuple() || value.isList()) {
    for (const IValue& item : items_of(value)) add_output(item);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) add_output(entry.value());
  } else if (value.isInt()) {
    add(Expr(value.toInt()));
  } else if (value.isDouble()) {
    add(value.toDouble());
  } else if (value.isBool()) {
    add(value.toBool());
  } else {
    add(Argument());
  }
}

void Recorder::add_state(const at::Tensor& after, const std::string& path) {
  written_.insert(path);
  program_.graph.outputs.push_back({ValueRef{id_of(after)}, OutputKind::buffer_mutation, path});
}

bool Recorder::changed(const at::Tensor& before, const at::Tensor& after) {
  const auto used = ids_.find(before.unsafeGetTensorImpl());
  if (used == ids_.end()) return false;  // never read
  const ValueId now = id_of(after);
  return now != used->second || after._version() != inputs_.at(now).second;
}

void Recorder::add_writes() {
  std::vector<GraphOutput> of_inputs;
  for (GraphInput& input : program_.graph.inputs) {
    auto found = inputs_.find(input.value);
    if (found == inputs_.end() || found->second.first._version() == found->second.second || written_.contains(input.target)) continue;
    const bool user = input.kind == InputKind::user;
    if (!user) input.kind = InputKind::buffer;
    (user ? of_inputs : program_.graph.outputs)
        .push_back({ValueRef{input.value}, user ? OutputKind::input_mutation : OutputKind::buffer_mutation, input.target});
  }
  program_.graph.outputs.insert(program_.graph.outputs.end(), of_inputs.begin(), of_inputs.end());
}

}  // namespace nacre
