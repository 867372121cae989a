#include "exporter/torchscript.h"

#include <fmt/ranges.h>

#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <ATen/Functions.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/archive.h"
#include "exporter/aten.h"

namespace nacre {
namespace {

namespace jit = torch::jit;
using c10::IValue;
using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;

// ---- Values of TorchScript as trees of tensors and constants.

void each_tensor(const IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTuple()) {
    for (const IValue& item : value.toTupleRef().elements()) each_tensor(item, visit);
  } else if (value.isList()) {
    for (const IValue& item : value.toListRef()) each_tensor(item, visit);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) each_tensor(entry.value(), visit);
  }
}

std::vector<at::Tensor> tensors_of(const IValue& value) {
  std::vector<at::Tensor> found;
  each_tensor(value, [&](const at::Tensor& t) { found.push_back(t); });
  return found;
}

// The same tree with every tensor replaced.
IValue map_tensors(const IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(replace(value.toTensor())) : value;
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& item : value.toTupleRef().elements()) items.push_back(map_tensors(item, replace));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isList()) {
    c10::impl::GenericList items(value.toList().elementType());
    for (const IValue& item : value.toListRef()) items.push_back(map_tensors(item, replace));
    return items;
  }
  return value;
}

// What is the same for two values that a program of fixed shapes cannot tell apart.
std::string structure(const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    if (!t.defined()) return "undefined";
    return fmt::format("{}[{}]", c10::toString(t.scalar_type()), fmt::join(t.sizes(), ","));
  }
  std::string text;
  if (value.isTuple() || value.isList()) {
    const auto items = value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
    for (const IValue& item : items) text += structure(item) + ";";
    return (value.isTuple() ? "(" : "[") + text + (value.isTuple() ? ")" : "]");
  }
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return fmt::format("{}", value.toDouble());
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isString()) return value.toStringRef();
  return value.tagKind();
}

IValue as_ivalue(const Example& example, const c10::TypePtr& type) {
  using Kind = Example::Kind;
  switch (example.kind) {
    case Kind::none:
      return {};
    case Kind::tensor:
      return aten::borrow(example.tensor).clone();
    case Kind::integer:
      return type->kind() == c10::TypeKind::FloatType ? IValue(static_cast<double>(example.integer)) : IValue(example.integer);
    case Kind::floating:
      return example.floating;
    case Kind::boolean:
      return example.integer != 0;
    case Kind::sequence:
      break;
  }
  if (auto optional = type->cast<c10::OptionalType>()) return as_ivalue(example, optional->getElementType());
  if (auto list = type->cast<c10::ListType>()) {
    c10::impl::GenericList items(list->getElementType());
    for (const Example& item : example.items) items.push_back(as_ivalue(item, list->getElementType()));
    return items;
  }
  std::vector<IValue> items;
  const auto tuple = type->cast<c10::TupleType>();
  for (size_t i = 0; i < example.items.size(); ++i)
    items.push_back(as_ivalue(example.items[i], tuple && i < tuple->elements().size() ? tuple->elements()[i] : c10::AnyType::get()));
  return c10::ivalue::Tuple::create(std::move(items));
}

// ---- Attributes.

// Values that the traced method gave to attributes, in place of the module's own.
struct Attribute {
  ObjectPtr object;
  size_t slot = 0;
  std::string path;  // `_model.state`
  IValue before, after;
};

// Modules and the tensors that they own, by address.
struct Names {
  std::unordered_map<const c10::ivalue::Object*, std::string> objects;
  struct Tensor {
    std::string path;
    InputKind kind;
  };
  std::unordered_map<const c10::TensorImpl*, Tensor> tensors;
};

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

void name_tensors(const IValue& value, const std::string& path, InputKind kind, Names& names) {
  const std::vector<at::Tensor> found = tensors_of(value);
  for (size_t i = 0; i < found.size(); ++i)
    names.tensors.emplace(found[i].unsafeGetTensorImpl(),
                          Names::Tensor{value.isTensor() ? path : fmt::format("{}.{}", path, i), kind});
}

void name_attributes(const ObjectPtr& object, const std::string& path, Names& names) {
  if (!names.objects.emplace(object.get(), path).second) return;
  const auto& type = object->type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const IValue& value = object->getSlot(i);
    const std::string name = joined(path, type->getAttributeName(i));
    if (value.isObject()) {
      name_attributes(value.toObject(), name, names);
    } else {
      name_tensors(value, name, type->is_parameter(i) ? InputKind::parameter : InputKind::buffer, names);
    }
  }
}

// ---- Operators.

// What says something of a tensor that its values do not change.
bool is_about_metadata(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::size",   "aten::len",       "aten::dim",           "aten::numel",      "aten::is_floating_point", "aten::is_complex",
      "aten::stride", "prim::device",    "prim::dtype",         "prim::layout",     "prim::is_cuda",           "prim::is_sparse",
      "prim::is_cpu", "aten::device",    "aten::is_contiguous", "prim::type",       "aten::storage_offset",    "aten::get_device",
      "prim::shape",  "prim::is_nested", "prim::requires_grad", "aten::is_autocast_enabled", "aten::__is__",   "aten::__isnot__",
      "aten::is_signed"};
  return names.contains(name);
}

// Operators that only TorchScript's interpreter has -> the same in ATen.
std::string aten_name(const std::string& name, const std::string& overload) {
  if (name == "prim::data") return "aten.detach.default";
  std::string plain = name.substr(name.find("::") + 2);
  std::string kind = overload;
  if (kind == "Tensor_hacked_twin") kind = "Tensor";
  if (kind == "hacked_twin") kind.clear();
  if (plain == "split" && kind.empty()) plain = "split_with_sizes";
  return name.substr(0, name.find("::")) + "." + plain + "." + (kind.empty() ? "default" : kind);
}

class Tracer {
 public:
  // `state` has values of attributes, by path, in place of the module's own.
  Tracer(const ObjectPtr& module, const std::map<std::string, IValue>& state, Program& program)
      : program_(program), graph_(program.graph) {
    name_attributes(module, "", names_);
    for (const auto& [object, path] : names_.objects) {
      for (size_t slot = 0; slot < object->type()->numAttributes(); ++slot) {
        const std::string name = joined(path, object->type()->getAttributeName(slot));
        const auto found = state.find(name);
        if (found == state.end()) continue;
        overlay_[{object, slot}] = found->second;
        name_tensors(found->second, name, InputKind::buffer, names_);
      }
    }
  }

  void run(const jit::Method& method, const std::vector<Example>& examples);
  const std::vector<Attribute>& attributes() const { return attributes_; }

 private:
  using Frame = std::unordered_map<const jit::Value*, IValue>;

  void add_inputs(const jit::Method& method, const std::vector<Example>& examples, std::vector<IValue>& arguments);
  void add_input(const IValue& value, const Example& example, const std::string& name);
  void add_outputs(const IValue& result);
  IValue call(const jit::Function& function, std::vector<IValue> arguments, const std::string& path);
  void run_block(const jit::Block& block, Frame& frame);
  void run_node(const jit::Node& node, Frame& frame);
  void run_loop(const jit::Node& node, Frame& frame);
  void run_operator(const jit::Node& node, Frame& frame);
  void record(const jit::Node& node, const c10::OperatorHandle& op, const std::vector<IValue>& arguments, const std::vector<ValueId>& ids,
              const std::vector<IValue>& results);
  IValue& attribute(const ObjectPtr& object, const std::string& name);
  bool depends_on_inputs(const IValue& value) const;
  ValueId id_of(const at::Tensor& tensor);
  ValueId define(const at::Tensor& tensor, const std::string& name, bool dynamic);
  Provenance where(const jit::Node& node) const;
  std::string place(const jit::Node& node) const { return where_text(where(node)); }

  Program& program_;
  Graph& graph_;
  Names names_;
  std::map<std::pair<const c10::ivalue::Object*, size_t>, IValue> overlay_;
  std::vector<Attribute> attributes_;  // that were set
  std::unordered_map<const c10::TensorImpl*, ValueId> ids_;
  std::unordered_set<ValueId> dynamic_;  // values that depend on inputs or state
  std::vector<at::Tensor> alive_;        // so that no two tensors have the same address
  std::unordered_map<ValueId, std::pair<at::Tensor, uint32_t>> inputs_;  // with the version that they came in
  std::vector<std::string> path_;  // of the modules whose methods run
  int depth_ = 0;
};

Provenance Tracer::where(const jit::Node& node) const {
  Provenance result;
  const c10::FunctionSchema* schema = node.maybeSchema();
  result.op = schema ? aten_name(schema->name(), schema->overload_name()) : node.kind().toQualString();
  result.module = path_.empty() ? "" : path_.back();
  jit::SourceRange range = node.sourceRange();
  if (auto original = range.findSourceRangeThatGenerated()) range = *original;
  if (auto at = range.file_line_col()) {
    const std::string file = std::get<0>(*at);
    result.file = file.substr(file.find_last_of("/\\") + 1);
    result.line = static_cast<int>(std::get<1>(*at));
  }
  return result;
}

ValueId Tracer::define(const at::Tensor& tensor, const std::string& name, bool dynamic) {
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
  return id;
}

// A tensor that no node made is the module's, or a constant.
ValueId Tracer::id_of(const at::Tensor& tensor) {
  if (auto found = ids_.find(tensor.unsafeGetTensorImpl()); found != ids_.end()) return found->second;
  GraphInput input;
  input.kind = InputKind::constant;
  std::string name = "constant";
  bool state = false;
  if (auto owned = names_.tensors.find(tensor.unsafeGetTensorImpl()); owned != names_.tensors.end()) {
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

bool Tracer::depends_on_inputs(const IValue& value) const {
  bool found = false;
  each_tensor(value, [&](const at::Tensor& t) {
    auto id = ids_.find(t.unsafeGetTensorImpl());
    auto owned = names_.tensors.find(t.unsafeGetTensorImpl());
    found |= id != ids_.end() ? dynamic_.contains(id->second) : owned != names_.tensors.end() && owned->second.kind == InputKind::buffer;
  });
  return found;
}

IValue& Tracer::attribute(const ObjectPtr& object, const std::string& name) {
  const size_t slot = object->type()->getAttributeSlot(name);
  auto [found, added] = overlay_.try_emplace({object.get(), slot});
  if (added) found->second = object->getSlot(slot);
  return found->second;
}

IValue Tracer::call(const jit::Function& function, std::vector<IValue> arguments, const std::string& path) {
  if (!function.isGraphFunction())
    fail(ErrorKind::unsupported, "{} is not written in TorchScript", function.qualname().qualifiedName());
  if (++depth_ > 200) fail(ErrorKind::unsupported, "{} calls itself", function.qualname().qualifiedName());
  const auto graph = jit::toGraphFunction(function).graph();
  function.getSchema().checkAndNormalizeInputs(arguments, {});
  Frame frame;
  for (size_t i = 0; i < arguments.size(); ++i) frame[graph->inputs()[i]] = arguments[i];
  path_.push_back(path);
  run_block(*graph->block(), frame);
  path_.pop_back();
  --depth_;
  if (graph->outputs().size() == 1) return frame.at(graph->outputs()[0]);
  std::vector<IValue> results;
  for (const jit::Value* output : graph->outputs()) results.push_back(frame.at(output));
  return c10::ivalue::Tuple::create(std::move(results));
}

void Tracer::run_block(const jit::Block& block, Frame& frame) {
  for (const jit::Node* node : block.nodes()) run_node(*node, frame);
}

void Tracer::run_loop(const jit::Node& node, Frame& frame) {
  const jit::Block& body = *node.blocks()[0];
  const int64_t most = frame.at(node.inputs()[0]).toInt();
  bool go = frame.at(node.inputs()[1]).toBool();
  std::vector<IValue> carried;
  for (const jit::Value* v : node.inputs().slice(2)) carried.push_back(frame.at(v));
  for (int64_t i = 0; go && i < most; ++i) {
    frame[body.inputs()[0]] = i;
    for (size_t c = 0; c < carried.size(); ++c) frame[body.inputs()[c + 1]] = carried[c];
    run_block(body, frame);
    go = frame.at(body.outputs()[0]).toBool();
    for (size_t c = 0; c < carried.size(); ++c) carried[c] = frame.at(body.outputs()[c + 1]);
  }
  for (size_t c = 0; c < carried.size(); ++c) frame[node.outputs()[c]] = carried[c];
}

void Tracer::run_node(const jit::Node& node, Frame& frame) {
  const auto in = [&](size_t i) -> const IValue& { return frame.at(node.inputs()[i]); };
  const auto inputs = [&](size_t from) {
    std::vector<IValue> values;
    for (size_t i = from; i < node.inputs().size(); ++i) values.push_back(in(i));
    return values;
  };
  switch (node.kind()) {
    case c10::prim::Constant:
      frame[node.output()] = jit::toIValue(node.output()).value_or(IValue());
      return;
    case c10::prim::Uninitialized:
      frame[node.output()] = IValue::uninitialized();
      return;
    case c10::prim::If: {
      const jit::Block& taken = *node.blocks()[in(0).toBool() ? 0 : 1];
      run_block(taken, frame);
      for (size_t i = 0; i < node.outputs().size(); ++i) frame[node.outputs()[i]] = frame.at(taken.outputs()[i]);
      return;
    }
    case c10::prim::Loop:
      run_loop(node, frame);
      return;
    case c10::prim::GetAttr:
      frame[node.output()] = attribute(in(0).toObject(), node.s(c10::attr::name));
      return;
    case c10::prim::SetAttr: {
      const ObjectPtr object = in(0).toObject();
      IValue& value = attribute(object, node.s(c10::attr::name));
      const size_t slot = object->type()->getAttributeSlot(node.s(c10::attr::name));
      auto known = std::find_if(attributes_.begin(), attributes_.end(),
                                [&](const Attribute& a) { return a.object == object && a.slot == slot; });
      if (known == attributes_.end()) {
        auto owner = names_.objects.find(object.get());
        if (owner != names_.objects.end())
          attributes_.push_back({object, slot, joined(owner->second, node.s(c10::attr::name)), value, in(1)});
      } else {
        known->after = in(1);
      }
      value = in(1);
      return;
    }
    case c10::prim::CallMethod: {
      const ObjectPtr object = in(0).toObject();
      auto owner = names_.objects.find(object.get());
      frame[node.output()] = call(object->type()->getMethod(node.s(c10::attr::name)), inputs(0),
                                  owner == names_.objects.end() ? path_.back() : owner->second);
      return;
    }
    case c10::prim::CallFunction: {
      const auto type = node.inputs()[0]->type()->expect<c10::FunctionType>();
      frame[node.output()] = call(*type->function(), inputs(1), path_.back());
      return;
    }
    case c10::prim::CreateObject: {
      const auto type = node.output()->type()->expect<c10::ClassType>();
      frame[node.output()] = c10::ivalue::Object::create(c10::StrongTypePtr(type->compilation_unit(), type), type->numAttributes());
      return;
    }
    case c10::prim::TupleConstruct:
      frame[node.output()] = c10::ivalue::Tuple::create(inputs(0));
      return;
    case c10::prim::TupleUnpack: {
      const auto items = in(0).toTuple()->elements().vec();
      for (size_t i = 0; i < items.size(); ++i) frame[node.outputs()[i]] = items[i];
      return;
    }
    case c10::prim::ListConstruct: {
      c10::impl::GenericList list(node.output()->type()->expectRef<c10::ListType>().getElementType());
      for (IValue& item : inputs(0)) list.push_back(std::move(item));
      frame[node.output()] = std::move(list);
      return;
    }
    case c10::prim::DictConstruct: {
      const auto& type = node.output()->type()->expectRef<c10::DictType>();
      c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
      for (size_t i = 0; i + 1 < node.inputs().size(); i += 2) dict.insert_or_assign(in(i), in(i + 1));
      frame[node.output()] = std::move(dict);
      return;
    }
    case c10::prim::isinstance: {
      bool any = false;
      for (const c10::TypePtr& type : node.tys(c10::attr::types)) any |= in(0).type()->isSubtypeOf(*type);
      frame[node.output()] = any;
      return;
    }
    case c10::prim::unchecked_cast:
      frame[node.output()] = in(0);
      return;
    case c10::prim::RaiseException:
      fail_at(ErrorKind::user, place(node), "the model raises {} for these examples: {}",
              node.inputs().size() > 1 && in(1).isString() ? in(1).toStringRef() : "an exception",
              in(0).isString() ? in(0).toStringRef() : "");
    default:
      run_operator(node, frame);
  }
}

void Tracer::run_operator(const jit::Node& node, Frame& frame) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (!schema) fail_at(ErrorKind::unsupported, place(node), "{} of TorchScript is not supported", node.kind().toQualString());
  std::vector<IValue> arguments;
  for (const jit::Value* v : node.inputs()) arguments.push_back(frame.at(v));
  const bool dynamic = std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return depends_on_inputs(v); });
  const bool touches_tensors = std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return !tensors_of(v).empty(); });

  // Values before the call: an in-place operator changes them.
  std::vector<ValueId> ids;
  const std::string name = aten_name(schema->name(), schema->overload_name());
  auto op = aten::find_operator(name);
  const bool records = op && !is_about_metadata(schema->name());
  if (records)
    for (const IValue& argument : arguments) each_tensor(argument, [&](const at::Tensor& t) { ids.push_back(id_of(t)); });

  std::vector<IValue> results = arguments;
  try {
    node.getOperation()(results);
  } catch (const c10::Error& error) {
    fail_at(ErrorKind::user, place(node), "the examples do not fit the model: {}: {}", name, aten::first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    fail_at(ErrorKind::user, place(node), "the examples do not fit the model: {}: {}", name, aten::first_line(error.what()));
  }
  for (size_t i = 0; i < results.size(); ++i) frame[node.outputs()[i]] = results[i];

  const bool makes_tensors = std::any_of(results.begin(), results.end(), [&](const IValue& v) {
    const auto found = tensors_of(v);
    return std::any_of(found.begin(), found.end(), [&](const at::Tensor& t) { return !ids_.contains(t.unsafeGetTensorImpl()); });
  });
  if (records && (makes_tensors || schema->is_mutable())) {
    record(node, *op, arguments, ids, results);
    return;
  }
  if (makes_tensors && dynamic) {
    // `to` with a device, dtype or tensor that TorchScript's interpreter resolves.
    if (schema->name() == "aten::to" && results[0].isTensor()) {
      const at::Tensor& out = results[0].toTensor();
      Node cast;
      cast.op = "aten._to_copy.default";
      cast.where = where(node);
      cast.args = {{"self", ValueRef{id_of(arguments[0].toTensor())}}, {"dtype", aten::from_torch(out.scalar_type())}};
      cast.outputs = {define(out, "to", true)};
      ids_[out.unsafeGetTensorImpl()] = cast.outputs[0];
      graph_.nodes.push_back(std::move(cast));
      return;
    }
    const bool only_moves = std::all_of(results.begin(), results.end(), [&](const IValue& v) {
      const auto found = tensors_of(v);
      return std::all_of(found.begin(), found.end(), [&](const at::Tensor& t) {
        return ids_.contains(t.unsafeGetTensorImpl()) || names_.tensors.contains(t.unsafeGetTensorImpl());
      });
    });
    if (!only_moves) fail_at(ErrorKind::unsupported, place(node), "{} of TorchScript is not supported", name);
  }
  const bool gives_numbers = std::any_of(results.begin(), results.end(), [](const IValue& v) { return v.isScalar() || v.isBool(); });
  if (dynamic && touches_tensors && gives_numbers && !is_about_metadata(schema->name()) &&
      std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return v.isTensor() && depends_on_inputs(v); }))
    fail_at(ErrorKind::unsupported, place(node),
            "the model decides by the value of a tensor ({}): TorchScript with such decisions is not supported; export it with torch.export "
            "and torch.cond",
            name);
}

void Tracer::record(const jit::Node& node, const c10::OperatorHandle& op, const std::vector<IValue>& arguments,
                    const std::vector<ValueId>& ids, const std::vector<IValue>& results) {
  const c10::FunctionSchema& schema = op.schema();
  Node made;
  made.where = where(node);
  made.op = aten_name(schema.name(), schema.overload_name());
  const auto lookup = [&](const at::Tensor& t) { return id_of(t); };
  for (size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i];
    if (aten::is_default(arguments[i], parameter)) continue;
    made.args.emplace_back(parameter.name(), aten::to_argument(arguments[i], parameter.real_type(), lookup));
  }
  const bool random = std::any_of(op.getTags().begin(), op.getTags().end(), [](at::Tag tag) { return tag == at::Tag::nondeterministic_seeded; });
  const bool dynamic = random || std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return dynamic_.contains(id); });
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

void Tracer::add_input(const IValue& value, const Example& example, const std::string& name) {
  using Kind = Example::Kind;
  if (value.isTensor()) {
    const ValueId id = define(value.toTensor(), name, true);
    ids_[value.toTensor().unsafeGetTensorImpl()] = id;
    inputs_[id] = {value.toTensor(), value.toTensor()._version()};
    graph_.inputs.push_back({id, InputKind::user, name});
    program_.sample_inputs.push_back(example.tensor);
    return;
  }
  if (example.kind == Kind::sequence) {
    const auto items = value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
    for (size_t i = 0; i < items.size(); ++i) add_input(items[i], example.items[i], fmt::format("{}_{}", name, i));
    return;
  }
  if (example.kind == Kind::none) return;
  // A number is taken as given; calls must repeat it.
  Value v;
  v.name = name;
  std::byte* bytes = nullptr;
  if (example.kind == Kind::integer) {
    v.kind = ValueKind::integer;
    v.dtype = NACRE_i64;
    v.expr = Expr(example.integer);
  } else if (example.kind == Kind::boolean) {
    v.kind = ValueKind::boolean;
    v.dtype = NACRE_bool_;
    v.number = example.integer != 0;
  } else {
    fail(ErrorKind::unsupported, "argument `{}` is a floating-point number: pass it as a 0-d tensor", name);
  }
  HostTensor sample = make_tensor(v.dtype, {}, &bytes);
  if (example.kind == Kind::integer)
    std::copy_n(reinterpret_cast<const std::byte*>(&example.integer), sizeof example.integer, bytes);
  else
    *bytes = std::byte(example.integer != 0);
  graph_.inputs.push_back({graph_.add_value(std::move(v)), InputKind::user, name});
  program_.sample_inputs.push_back(std::move(sample));
}

void Tracer::add_outputs(const IValue& result) {
  const auto add = [&](const IValue& value, auto&& self) -> void {
    if (value.isTensor()) {
      graph_.outputs.push_back({value.toTensor().defined() ? Argument(ValueRef{id_of(value.toTensor())}) : Argument(), OutputKind::user, ""});
    } else if (value.isTuple()) {
      for (const IValue& item : value.toTupleRef().elements()) self(item, self);
    } else if (value.isList()) {
      for (const IValue& item : value.toListRef()) self(item, self);
    } else if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict()) self(entry.value(), self);
    } else if (value.isInt()) {
      graph_.outputs.push_back({Expr(value.toInt()), OutputKind::user, ""});
    } else if (value.isDouble()) {
      graph_.outputs.push_back({value.toDouble(), OutputKind::user, ""});
    } else if (value.isBool()) {
      graph_.outputs.push_back({value.toBool(), OutputKind::user, ""});
    } else {
      graph_.outputs.push_back({Argument(), OutputKind::user, ""});
    }
  };
  add(result, add);

  // State: attributes that were set, and what was written in place.
  std::vector<GraphOutput> inputs;
  std::set<std::string> written;
  for (const Attribute& a : attributes_) {
    const auto before = tensors_of(a.before), after = tensors_of(a.after);
    if (structure(a.before) != structure(a.after)) continue;  // another trace follows
    for (size_t i = 0; i < before.size(); ++i) {
      auto used = ids_.find(before[i].unsafeGetTensorImpl());
      if (used == ids_.end()) continue;  // never read
      const ValueId now = id_of(after[i]);
      const std::string path = a.before.isTensor() ? a.path : fmt::format("{}.{}", a.path, i);
      if (now == used->second && after[i]._version() == inputs_.at(now).second) continue;
      written.insert(path);
      graph_.outputs.push_back({ValueRef{now}, OutputKind::buffer_mutation, path});
    }
  }
  for (const GraphInput& input : graph_.inputs) {
    auto found = inputs_.find(input.value);
    if (found == inputs_.end() || found->second.first._version() == found->second.second || written.contains(input.target)) continue;
    if (input.kind == InputKind::user)
      inputs.push_back({ValueRef{input.value}, OutputKind::input_mutation, input.target});
    else
      graph_.outputs.push_back({ValueRef{input.value}, OutputKind::buffer_mutation, input.target});
  }
  graph_.outputs.insert(graph_.outputs.end(), inputs.begin(), inputs.end());
}

void Tracer::run(const jit::Method& method, const std::vector<Example>& examples) {
  const at::NoGradGuard no_gradients;
  const c10::FunctionSchema& schema = method.function().getSchema();
  std::vector<IValue> arguments = {method.owner()._ivalue()};
  for (size_t i = 0; i < examples.size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i + 1];
    arguments.push_back(as_ivalue(examples[i], parameter.type()));
    add_input(arguments.back(), examples[i], parameter.name());
  }
  const auto owner = names_.objects.find(method.owner()._ivalue().get());
  const IValue result = call(method.function(), arguments, owner == names_.objects.end() ? "" : owner->second);
  add_outputs(result);
}

// ---- The file.

jit::Module submodule(const jit::Module& module, const std::string& path) {
  jit::Module at = module;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (!at.hasattr(name) || !at.attr(name).isModule()) fail(ErrorKind::user, "the module has no submodule `{}` (of {})", name, path);
    at = at.attr(name).toModule();
    begin = end + 1;
  }
  return at;
}

std::string methods_of(const jit::Module& module) {
  std::vector<std::string> names;
  for (const jit::Method& m : module.get_methods()) names.push_back(m.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Everything that a call gives and changes, tensors by their bits.
std::vector<at::Tensor> observe(const jit::Module& root, const std::string& owner, const std::string& name,
                                const std::vector<Attribute>& attributes, const std::vector<Example>& examples, int seed,
                                const std::function<IValue(const Attribute&)>& start) {
  const at::NoGradGuard no_gradients;
  jit::Module copy = root.deepcopy();
  const auto holder = [&](const Attribute& a) {
    const size_t dot = a.path.rfind('.');
    return submodule(copy, dot == std::string::npos ? "" : a.path.substr(0, dot));
  };
  for (const Attribute& a : attributes)
    if (IValue value = start(a); !value.isNone()) holder(a)._ivalue()->setSlot(a.slot, std::move(value));
  jit::Module module = submodule(copy, owner);
  const jit::Method method = module.get_method(name);
  std::vector<IValue> arguments;
  for (size_t i = 0; i < examples.size(); ++i) {
    IValue value = as_ivalue(examples[i], method.function().getSchema().arguments()[i + 1].type());
    if (seed > 0)
      value = map_tensors(value, [&](const at::Tensor& t) {
        return t.is_floating_point() ? at::add(at::mul(t, 1.0 / (seed + 1)), 0.125 * seed) : t;
      });
    arguments.push_back(std::move(value));
  }
  std::vector<at::Tensor> seen = tensors_of(method(std::move(arguments)));
  for (const Attribute& a : attributes)
    for (const at::Tensor& t : tensors_of(holder(a)._ivalue()->getSlot(a.slot))) seen.push_back(t);
  return seen;
}

IValue zeros_like(const IValue& value) {
  return map_tensors(value, [](const at::Tensor& t) { return at::zeros_like(t); });
}

bool settled(const std::vector<Attribute>& attributes) {
  return std::all_of(attributes.begin(), attributes.end(), [](const Attribute& a) { return structure(a.before) == structure(a.after); });
}

}  // namespace

bool is_torchscript(const std::filesystem::path& path) {
  try {
    const std::vector<std::string> names = Archive(path).names();
    return std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("code/"); });
  } catch (const Error&) {
    return false;
  }
}

Program load_torchscript(const std::filesystem::path& path, const std::string& method_path, const std::vector<Example>& examples) {
  jit::Module root;
  try {
    root = jit::load(path.string(), c10::Device(c10::kCPU));
    root.eval();
  } catch (const std::exception& error) {
    fail(ErrorKind::user, "{} is damaged, or no file of torch.jit.save ({})", path.string(), aten::first_line(error.what()));
  }
  const size_t dot = method_path.rfind('.');
  const std::string owner = dot == std::string::npos ? "" : method_path.substr(0, dot);
  const std::string name = dot == std::string::npos ? method_path : method_path.substr(dot + 1);
  const jit::Module module = submodule(root, owner);
  const auto method = module.find_method(name);
  if (!method) fail(ErrorKind::user, "{} has no method `{}`; it has: {}", path.string(), method_path, methods_of(module));
  const auto& parameters = method->function().getSchema().arguments();
  size_t needed = 0;
  for (size_t i = 1; i < parameters.size(); ++i) needed += !parameters[i].default_value();
  if (examples.size() < needed || examples.size() + 1 > parameters.size())
    fail(ErrorKind::user, "TorchScript has no shapes, so every argument needs an example (--example): {} are given for {}", examples.size(),
         fmt::format("{}", c10::toString(method->function().getSchema())));

  const auto trace = [&](const std::map<std::string, IValue>& state, std::vector<Attribute>& attributes) {
    Program traced;
    traced.graph.name = name;
    const jit::Module copy = root.deepcopy();  // a call writes to buffers
    Tracer tracer(copy._ivalue(), state, traced);
    try {
      tracer.run(submodule(copy, owner).get_method(name), examples);
    } catch (const c10::Error& error) {
      fail(ErrorKind::user, "{}: {}", path.string(), aten::first_line(error.what_without_backtrace()));
    }
    attributes = tracer.attributes();
    return traced;
  };
  std::vector<Attribute> first, later;
  Program program = trace({}, first);
  if (settled(first)) return program;

  std::map<std::string, IValue> zeros;
  for (const Attribute& a : first) zeros[a.path] = zeros_like(a.after);
  program = trace(zeros, later);
  for (const Attribute& a : later)
    if (structure(a.before) != structure(a.after))
      fail(ErrorKind::unsupported, "the state `{}` changes from call to call, from {} to {}: a program has fixed shapes", a.path,
           structure(a.before), structure(a.after));
  for (int seed = 0; seed < 4; ++seed) {
    const auto fresh = observe(root, owner, name, first, examples, seed, [](const Attribute&) { return IValue(); });
    const auto from_zeros = observe(root, owner, name, first, examples, seed, [](const Attribute& a) { return zeros_like(a.after); });
    bool same = fresh.size() == from_zeros.size();
    for (size_t i = 0; same && i < fresh.size(); ++i) same = at::equal(fresh[i], from_zeros[i]);
    if (!same)
      fail(ErrorKind::unsupported,
           "the first call of {} computes something else than later ones, and not the same as they do from zeros (state `{}` changes from {} "
           "to {}): name a method whose state is an argument",
           method_path, first[0].path, structure(first[0].before), structure(first[0].after));
  }
  return program;
}

}  // namespace nacre
