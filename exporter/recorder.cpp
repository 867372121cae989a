#include "exporter/recorder.h"

#include <algorithm>

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
}

void Recorder::add_input(const at::Tensor& tensor, HostTensor sample, const std::string& name) {
  const ValueId id = define(tensor, name, true);
  ids_[tensor.unsafeGetTensorImpl()] = id;
  inputs_[id] = {tensor, tensor._version()};
  graph_.inputs.push_back({id, InputKind::user, name});
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
  const ValueId id = graph_.add_value(std::move(v));
  if (dynamic) dynamic_.insert(id);
  alive_.push_back(tensor);
  storages_.insert(storage_of(tensor));
  return id;
}

ValueId Recorder::id_of(const at::Tensor& tensor) {
  if (auto found = ids_.find(tensor.unsafeGetTensorImpl()); found != ids_.end()) return found->second;
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
  input.value = define(tensor, name, state);
  if (input.target.empty()) input.target = graph_[input.value].name;
  ids_[tensor.unsafeGetTensorImpl()] = input.value;
  program_.weights[input.target] = aten::to_host(tensor);
  inputs_[input.value] = {tensor, tensor._version()};
  graph_.inputs.push_back(std::move(input));
  return graph_.inputs.back().value;
}

bool Recorder::depends_on_inputs(const IValue& value) const {
  bool found = false;
  each_tensor(value, [&](const at::Tensor& t) {
    auto id = ids_.find(t.unsafeGetTensorImpl());
    auto owned = owned_.find(t.unsafeGetTensorImpl());
    found |= id != ids_.end() ? dynamic_.contains(id->second) : owned != owned_.end() && owned->second.kind == InputKind::buffer;
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

std::vector<ValueId> Recorder::values_of(const std::vector<IValue>& arguments) {
  std::vector<ValueId> ids;
  for (const IValue& argument : arguments) each_tensor(argument, [&](const at::Tensor& t) { ids.push_back(id_of(t)); });
  return ids;
}

bool Recorder::has_effect(const c10::FunctionSchema& schema, const std::vector<IValue>& results) const {
  bool makes = schema.is_mutable();
  for (const IValue& result : results) each_tensor(result, [&](const at::Tensor& t) { makes |= !knows(t); });
  return makes;
}

void Recorder::record(const c10::OperatorHandle& op, Provenance where, const std::vector<IValue>& arguments,
                      const std::vector<ValueId>& before, const std::vector<IValue>& results) {
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
  const bool dynamic = aten::is_random(op) || std::any_of(before.begin(), before.end(), [&](ValueId id) { return dynamic_.contains(id); });
  // What an in-place operator writes to depends on what it reads.
  if (dynamic)
    for (size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i)
      if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite())
        each_tensor(arguments[i], [&](const at::Tensor& t) { dynamic_.insert(id_of(t)); });
  const std::string name = schema.name().substr(schema.name().find("::") + 2);
  for (const IValue& result : results) {
    if (result.isTensor() && !result.toTensor().defined()) {
      made.outputs.push_back(kNoValue);
      continue;
    }
    each_tensor(result, [&](const at::Tensor& t) {
      const ValueId id = define(t, name, dynamic);
      // The result of an in-place operator is its operand.
      ids_.try_emplace(t.unsafeGetTensorImpl(), id);
      made.outputs.push_back(id);
    });
  }
  graph_.nodes.push_back(std::move(made));
}

void Recorder::record(Node node, const at::Tensor& result, const std::string& name) {
  node.outputs = {define(result, name, true)};
  ids_[result.unsafeGetTensorImpl()] = node.outputs[0];
  graph_.nodes.push_back(std::move(node));
}

void Recorder::add_output(const IValue& value) {
  const auto add = [&](Argument result) { graph_.outputs.push_back({std::move(result), OutputKind::user, ""}); };
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
  graph_.outputs.push_back({ValueRef{id_of(after)}, OutputKind::buffer_mutation, path});
}

bool Recorder::changed(const at::Tensor& before, const at::Tensor& after) {
  const auto used = ids_.find(before.unsafeGetTensorImpl());
  if (used == ids_.end()) return false;  // never read
  const ValueId now = id_of(after);
  return now != used->second || after._version() != inputs_.at(now).second;
}

void Recorder::add_writes() {
  std::vector<GraphOutput> of_inputs;
  for (const GraphInput& input : graph_.inputs) {
    auto found = inputs_.find(input.value);
    if (found == inputs_.end() || found->second.first._version() == found->second.second || written_.contains(input.target)) continue;
    const bool user = input.kind == InputKind::user;
    (user ? of_inputs : graph_.outputs)
        .push_back({ValueRef{input.value}, user ? OutputKind::input_mutation : OutputKind::buffer_mutation, input.target});
  }
  graph_.outputs.insert(graph_.outputs.end(), of_inputs.begin(), of_inputs.end());
}

}  // namespace nacre
