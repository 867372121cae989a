#include "exporter/torchscript_tracer.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <algorithm>
#include <set>

#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/value_tree.h"

namespace nacre {

namespace jit = torch::jit;
using c10::IValue;

namespace {

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

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

}  // namespace

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

TorchScriptTracer::TorchScriptTracer(const jit::Module& module, const std::map<std::string, IValue>& state,
                                     const std::set<std::string>& written, Program& program)
    : program_(program), recorder_(program), written_(written) {
  own_attributes(module._ivalue(), "");
  for (const auto& [object, path] : objects_) {
    for (size_t slot = 0; slot < object->type()->numAttributes(); ++slot) {
      const std::string name = joined(path, object->type()->getAttributeName(slot));
      const auto found = state.find(name);
      if (found == state.end()) continue;
      overlay_[{object, slot}] = found->second;
      own_tensors(found->second, name, InputKind::buffer);
    }
  }
}

void TorchScriptTracer::own_tensors(const IValue& value, const std::string& path, InputKind kind) {
  const std::vector<at::Tensor> found = tensors_of(value);
  for (size_t i = 0; i < found.size(); ++i) recorder_.own(found[i], value.isTensor() ? path : fmt::format("{}.{}", path, i), kind);
}

void TorchScriptTracer::own_attributes(const ObjectPtr& object, const std::string& path) {
  if (!objects_.emplace(object.get(), path).second) return;
  const auto& type = object->type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const IValue& value = object->getSlot(i);
    const std::string name = joined(path, type->getAttributeName(i));
    if (value.isObject()) {
      own_attributes(value.toObject(), name);
    } else {
      own_tensors(value, name, type->is_parameter(i) && !written_.contains(name) ? InputKind::parameter : InputKind::buffer);
    }
  }
}

const std::string& TorchScriptTracer::path_of(const ObjectPtr& object) const {
  const auto owner = objects_.find(object.get());
  return owner == objects_.end() ? path_.back() : owner->second;
}

Provenance TorchScriptTracer::where(const jit::Node& node) const {
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

IValue& TorchScriptTracer::attribute(const ObjectPtr& object, const std::string& name) {
  const size_t slot = object->type()->getAttributeSlot(name);
  auto [found, added] = overlay_.try_emplace({object.get(), slot});
  if (added) found->second = object->getSlot(slot);
  return found->second;
}

void TorchScriptTracer::set_attribute(const ObjectPtr& object, size_t slot, const IValue& after) {
  const std::string& name = object->type()->getAttributeName(slot);
  IValue& value = attribute(object, name);
  auto known =
      std::find_if(attributes_.begin(), attributes_.end(), [&](const Attribute& a) { return a.object == object && a.slot == slot; });
  if (known == attributes_.end()) {
    if (auto owner = objects_.find(object.get()); owner != objects_.end())
      attributes_.push_back({object, slot, joined(owner->second, name), value, after});
  } else {
    known->after = after;
  }
  value = after;
}

void TorchScriptTracer::set_attribute(const Slot& slot, const IValue& value) {
  set_attribute(ObjectPtr::reclaim_copy(const_cast<c10::ivalue::Object*>(slot.first)), slot.second, value);  // NOLINT: as it was counted
}

IValue TorchScriptTracer::call(const jit::Function& function, std::vector<IValue> arguments, const std::string& path) {
  if (!function.isGraphFunction())
    fail(ErrorKind::unsupported, "{} is not written in TorchScript", function.qualname().qualifiedName());
  if (++depth_ > 200) fail(ErrorKind::unsupported, "{} calls itself", function.qualname().qualifiedName());
  const auto graph = jit::toGraphFunction(function).graph();
  std::vector<IValue> checked;
  for (const IValue& a : arguments) checked.push_back(as_example(a));
  function.getSchema().checkAndNormalizeInputs(checked, {});
  arguments.insert(arguments.end(), checked.begin() + static_cast<std::ptrdiff_t>(arguments.size()), checked.end());
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

void TorchScriptTracer::run_block(const jit::Block& block, Frame& frame) {
  for (const jit::Node* node : block.nodes()) {
    run_node(*node, frame);
    note_lists(*node, frame);
  }
}

namespace {

const void* list_address(const IValue& value) {
  return value.isList() || value.isGenericDict() ? static_cast<const void*>(value.internalToPointer()) : nullptr;
}

}  // namespace

void TorchScriptTracer::note_lists(const jit::Node& node, const Frame& frame) {
  for (const jit::Value* output : node.outputs())
    if (const auto found = frame.find(output); found != frame.end())
      if (const void* address = list_address(found->second)) lists_.try_emplace(address, found->second, recorder_.depth());
}

void TorchScriptTracer::permit_write(const jit::Node& node, const IValue& value) {
  if (const void* address = list_address(value); address != nullptr && recorder_.depth() > 0) {
    const auto made = lists_.find(address);
    if (made == lists_.end() || made->second.second < recorder_.depth())
      refuse(node, "changes a list or dictionary from outside within a branch or loop that data decide on");
  }
  each_tensor(value, [&](const at::Tensor& t) {
    if (const auto why = value.isTensor() ? recorder_.will_write(t) : std::nullopt) refuse(node, *why);
  });
}

void TorchScriptTracer::refuse(const jit::Node& node, const std::string& what) const {
  fail_at(ErrorKind::unsupported, place(node), "the model {}", what);
}

void TorchScriptTracer::run_loop(const jit::Node& node, Frame& frame) {
  constexpr int64_t kMostBranches = 64;  // rounds that are laid out one by one, so that their number stays known
  const jit::Block& body = *node.blocks()[0];
  const IValue most = frame.at(node.inputs()[0]);
  IValue go = frame.at(node.inputs()[1]);
  std::vector<IValue> carried;
  for (const jit::Value* v : node.inputs().slice(2)) carried.push_back(frame.at(v));
  const auto round = [&](int64_t i) {
    frame[body.inputs()[0]] = i;
    for (size_t c = 0; c < carried.size(); ++c) frame[body.inputs()[c + 1]] = carried[c];
    run_block(body, frame);
    Values results;
    for (const jit::Value* v : body.outputs()) results.push_back(frame.at(v));
    return results;
  };
  for (int64_t i = 0; is_number(most) || i < most.toInt(); ++i) {
    if (!is_number(go) && !go.toBool()) break;
    Values results;
    if (is_number(go) && !is_number(most) && body.inputs()[0]->hasUses() && most.toInt() - i <= kMostBranches) {
      results = branch(node, go.toTensor(), [&] { return round(i); }, [&] {
        Values same = {false};
        same.insert(same.end(), carried.begin(), carried.end());
        return same;
      });
    } else if (is_number(go) || is_number(most)) {
      return run_while(node, frame, most, i, go, carried);
    } else {
      results = round(i);
    }
    go = results[0];
    carried.assign(results.begin() + 1, results.end());
  }
  for (size_t c = 0; c < carried.size(); ++c) frame[node.outputs()[c]] = carried[c];
}

void TorchScriptTracer::run_node(const jit::Node& node, Frame& frame) {
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
      if (is_number(in(0))) {
        const auto side = [&](size_t b) {
          run_block(*node.blocks()[b], frame);
          Values results;
          for (const jit::Value* v : node.blocks()[b]->outputs()) results.push_back(frame.at(v));
          return results;
        };
        const Values results = branch(node, in(0).toTensor(), [&] { return side(0); }, [&] { return side(1); });
        for (size_t i = 0; i < results.size(); ++i) frame[node.outputs()[i]] = results[i];
        return;
      }
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
      set_attribute(object, object->type()->getAttributeSlot(node.s(c10::attr::name)), in(1));
      return;
    }
    case c10::prim::CallMethod: {
      const ObjectPtr object = in(0).toObject();
      frame[node.output()] = call(object->type()->getMethod(node.s(c10::attr::name)), inputs(0), path_of(object));
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
    case c10::prim::ListUnpack: {
      const c10::impl::GenericList list = in(0).toList();
      if (list.size() != node.outputs().size())
        fail_at(ErrorKind::user, place(node), "the examples do not fit the model: it takes a list of {} values apart, and this one has {}", node.outputs().size(), list.size());
      for (size_t i = 0; i < list.size(); ++i) frame[node.outputs()[i]] = list.get(i);
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
      const c10::TypePtr is = as_example(in(0)).type();
      for (const c10::TypePtr& type : node.tys(c10::attr::types)) any |= is->isSubtypeOf(*type);
      frame[node.output()] = any;
      return;
    }
    case c10::prim::unchecked_cast:
      frame[node.output()] = in(0);
      return;
    case c10::prim::RaiseException: {
      const std::string kind = node.inputs().size() > 1 && in(1).isString() ? in(1).toStringRef() : "";
      const std::string message = in(0).isString() ? in(0).toStringRef() : "";
      if (recorder_.depth() > 0) throw Raised{kind.empty() ? message : kind + ": " + message, where(node)};
      fail_at(ErrorKind::user, place(node), "the model raises {} for these examples: {}", kind.empty() ? "an exception" : kind, message);
    }
    default:
      run_operator(node, frame);
  }
}

void TorchScriptTracer::run_operator(const jit::Node& node, Frame& frame) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (!schema) fail_at(ErrorKind::unsupported, place(node), "{} of TorchScript is not supported", node.kind().toQualString());
  std::vector<IValue> arguments;
  for (const jit::Value* v : node.inputs()) arguments.push_back(frame.at(v));
  const bool dynamic = std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return recorder_.depends_on_inputs(v); });

  if (dynamic && !is_about_metadata(schema->name())) {
    for (const IValue& a : arguments)
      if (recorder_.is_stale(a)) refuse(node, "reads what it may have written to through a value that a decision on data gave: write to a clone()");
    std::optional<IValue> result = take_number(node, *schema, arguments);
    if (!result && std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return has_numbers(v); })) {
      result = compute(node, *schema, arguments);
      if (!result) result = tensor_of_numbers(node, *schema, arguments);
      if (!result) result = call_with_numbers(node, *schema, arguments);
    }
    if (result) {
      frame[node.output()] = *result;
      return;
    }
  }
  run_call(node, *schema, arguments, dynamic, frame);
}

void TorchScriptTracer::run_call(const jit::Node& node, const c10::FunctionSchema& schema, const std::vector<IValue>& given, bool dynamic,
                                 Frame& frame) {
  const std::string name = aten_name(schema.name(), schema.overload_name());
  auto op = aten::find_operator(name);
  const bool records = op && !is_about_metadata(schema.name());
  std::vector<IValue> arguments = given;
  for (size_t i = schema.arguments().size(); i < arguments.size(); ++i) arguments[i] = as_example(arguments[i]);
  for (size_t i = 0; i < arguments.size() && i < schema.arguments().size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i];
    if (const auto* alias = parameter.alias_info(); alias && alias->isWrite()) permit_write(node, arguments[i]);
    // Lists and dictionaries hold such numbers as they hold any value; messages show the example's.
    if (parameter.type()->hasFreeVariables() || !has_numbers(arguments[i])) continue;
    static const std::set<std::string> messages = {"aten::format", "aten::str", "aten::warn", "prim::Print", "aten::percentFormat"};
    if (!messages.contains(schema.name()))
      refuse(node, fmt::format("takes `{}` of {} from the values of a tensor: such a number can be compared and computed with, and be an operand of "
                               "tensors, but no size or index",
                               parameter.name(), name));
    arguments[i] = as_example(arguments[i]);
  }
  if (records) recorder_.read(arguments);

  std::vector<IValue> results = arguments;
  if (schema.is_vararg()) results.emplace_back(static_cast<int64_t>(arguments.size()));  // as the interpreter calls `format`
  try {
    node.getOperation()(results);
  } catch (const c10::Error& error) {
    fail_at(ErrorKind::user, place(node), "the examples do not fit the model: {}: {}", name, aten::first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    fail_at(ErrorKind::user, place(node), "the examples do not fit the model: {}: {}", name, aten::first_line(error.what()));
  }
  for (size_t i = 0; i < results.size(); ++i) frame[node.outputs()[i]] = results[i];

  if (records && recorder_.has_effect(schema, results)) {
    recorder_.record(*op, where(node), arguments, results);
    return;
  }
  if (!dynamic) return;
  bool makes = false;
  for (const IValue& result : results)
    each_tensor(result, [&](const at::Tensor& t) { makes |= !recorder_.knows(t) && !recorder_.owns(t); });
  if (makes) {
    // `to` with a device, dtype or tensor that TorchScript's interpreter resolves.
    if (schema.name() != "aten::to" || !results[0].isTensor())
      fail_at(ErrorKind::unsupported, place(node), "{} of TorchScript is not supported", name);
    const at::Tensor& result = results[0].toTensor();
    Node cast;
    cast.op = "aten._to_copy.default";
    cast.where = where(node);
    cast.args = {{"self", ValueRef{recorder_.id_of(arguments[0].toTensor())}}, {"dtype", aten::from_torch(result.scalar_type())}};
    recorder_.record(std::move(cast), result, "to");
    return;
  }
  const bool gives_numbers = std::any_of(results.begin(), results.end(), [](const IValue& v) { return v.isScalar() || v.isBool(); });
  if (gives_numbers && !is_about_metadata(schema.name()) &&
      std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) { return v.isTensor() && recorder_.depends_on_inputs(v); }))
    fail_at(ErrorKind::unsupported, place(node),
            "the model decides by the value of a tensor ({}), which has no graph: compute with tensors, or take single numbers out (item())",
            name);
}

void TorchScriptTracer::add_input(const IValue& value, const Example& example, const std::string& name) {
  using Kind = Example::Kind;
  if (value.isTensor()) return recorder_.add_input(value.toTensor(), example.tensor, name);
  if (example.kind == Kind::sequence) {
    const std::vector<IValue> items = items_of(value);
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
  program_.graph.inputs.push_back({program_.graph.add_value(std::move(v)), InputKind::user, name});
  program_.sample_inputs.push_back(std::move(sample));
}

void TorchScriptTracer::add_outputs(const IValue& result) {
  recorder_.add_output(result);
  for (const Attribute& a : attributes_) {
    if (has_numbers(a.after))
      fail(ErrorKind::unsupported, "the attribute `{}` becomes a number that depends on the values of tensors: keep it in a tensor", a.path);
    const auto before = tensors_of(a.before), after = tensors_of(a.after);
    if (structure(a.before) != structure(a.after)) continue;  // another trace follows
    for (size_t i = 0; i < before.size(); ++i)
      if (recorder_.changed(before[i], after[i]))
        recorder_.add_state(after[i], a.before.isTensor() ? a.path : fmt::format("{}.{}", a.path, i));
  }
  recorder_.add_writes();
}

void TorchScriptTracer::run(const jit::Method& method, const std::vector<Example>& examples) {
  const at::NoGradGuard no_gradients;
  const c10::FunctionSchema& schema = method.function().getSchema();
  std::vector<IValue> arguments = {method.owner()._ivalue()};
  for (size_t i = 0; i < examples.size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i + 1];
    arguments.push_back(as_ivalue(examples[i], parameter.type()));
    add_input(arguments.back(), examples[i], parameter.name());
  }
  const auto owner = objects_.find(method.owner()._ivalue().get());
  add_outputs(call(method.function(), arguments, owner == objects_.end() ? "" : owner->second));
}

}  // namespace nacre
