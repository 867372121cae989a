// Numbers that an operator takes out of a tensor: in the tracer they stay tensors without dimensions (int64, float64 or bool,
// as Python's are), and what Python computes with them are operators on such tensors.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/torchscript_tracer.h"
#include "exporter/value_tree.h"

namespace nacre {

namespace jit = torch::jit;
using c10::IValue;

namespace {

constexpr c10::ScalarType kInteger = c10::kLong, kFloating = c10::kDouble, kTruth = c10::kBool;

std::string_view plain_name(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return name.substr(name.find("::") + 2);
}

// Arithmetic and comparisons of Python -> the same on tensors.
const std::unordered_map<std::string_view, const char*>& arithmetic() {
  static const std::unordered_map<std::string_view, const char*> table = {
      {"add", "aten.add.Tensor"},
      {"sub", "aten.sub.Tensor"},
      {"mul", "aten.mul.Tensor"},
      {"div", "aten.div.Tensor"},
      {"floordiv", "aten.floor_divide.default"},
      {"remainder", "aten.remainder.Tensor"},
      {"pow", "aten.pow.Tensor_Tensor"},
      {"neg", "aten.neg.default"},
      {"abs", "aten.abs.default"},
      {"min", "aten.minimum.default"},
      {"max", "aten.maximum.default"},
      {"floor", "aten.floor.default"},
      {"ceil", "aten.ceil.default"},
      {"round", "aten.round.default"},
      {"sqrt", "aten.sqrt.default"},
      {"exp", "aten.exp.default"},
      {"log", "aten.log.default"},
      {"log1p", "aten.log1p.default"},
      {"log2", "aten.log2.default"},
      {"log10", "aten.log10.default"},
      {"sin", "aten.sin.default"},
      {"cos", "aten.cos.default"},
      {"tan", "aten.tan.default"},
      {"tanh", "aten.tanh.default"},
      {"atan", "aten.atan.default"},
      {"atan2", "aten.atan2.default"},
      {"eq", "aten.eq.Tensor"},
      {"ne", "aten.ne.Tensor"},
      {"lt", "aten.lt.Tensor"},
      {"le", "aten.le.Tensor"},
      {"gt", "aten.gt.Tensor"},
      {"ge", "aten.ge.Tensor"},
      {"__and__", "aten.bitwise_and.Tensor"},
      {"__or__", "aten.bitwise_or.Tensor"},
      {"__xor__", "aten.bitwise_xor.Tensor"},
      {"__not__", "aten.logical_not.default"},
  };
  return table;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The overload that takes a tensor where this one takes a number.
std::optional<std::string> with_tensors(const c10::FunctionSchema& schema, const std::vector<bool>& numbers) {
  std::vector<std::string> overloads = {"Tensor", "self", "Tensor_Tensor", "int_Tensor", "Tensor_mode"};
  for (const std::string& overload : overloads) {
    const std::string name = fmt::format("aten.{}.{}", plain_name(schema), overload);
    const auto op = aten::find_operator(name);
    if (!op) continue;
    const auto &have = schema.arguments(), &wants = op->schema().arguments();
    bool fits = have.size() == wants.size();
    for (size_t i = 0; fits && i < have.size(); ++i) {
      const bool tensor = wants[i].type()->isSubtypeOf(*c10::OptionalType::create(c10::TensorType::get()));
      const bool number = have[i].type()->isSubtypeOf(*c10::OptionalType::create(c10::NumberType::get()));
      fits = number && tensor ? true : !numbers[i] && *have[i].type() == *wants[i].type();
    }
    if (fits) return name;
  }
  return std::nullopt;
}

}  // namespace

bool TorchScriptTracer::is_number(const IValue& value) const {
  return value.isTensor() && numbers_.contains(value.toTensor().unsafeGetTensorImpl());
}

bool TorchScriptTracer::has_numbers(const IValue& value) const {
  bool found = false;
  each_tensor(value, [&](const at::Tensor& t) { found |= is_number(t); });
  return found;
}

IValue TorchScriptTracer::as_example(const IValue& value) const {
  if (!has_numbers(value)) return value;
  return map_leaves(value, [&](const IValue& leaf) -> IValue {
    if (!is_number(leaf)) return leaf;
    const at::Scalar number = leaf.toTensor().item();
    if (number.isBoolean()) return number.toBool();
    return number.isFloatingPoint() ? IValue(number.toDouble()) : IValue(number.toLong());
  });
}

at::Tensor TorchScriptTracer::apply(const jit::Node& node, const std::string& name, std::vector<IValue> arguments) {
  const auto op = aten::find_operator(name);
  check(op.has_value(), "libtorch has no {}", name);
  const auto& parameters = op->schema().arguments();
  for (size_t i = arguments.size(); i < parameters.size(); ++i) arguments.push_back(parameters[i].default_value().value_or(IValue()));
  recorder_.read(arguments);
  jit::Stack results = arguments;
  op->callBoxed(&results);
  Provenance at = where(node);
  at.op = name;
  recorder_.record(*op, std::move(at), arguments, {results.begin(), results.end()});
  return results[0].toTensor();
}

at::Tensor TorchScriptTracer::converted(const jit::Node& node, const at::Tensor& tensor, c10::ScalarType type) {
  if (tensor.scalar_type() == type) return tensor;
  if (type == kTruth) return apply(node, "aten.ne.Scalar", {tensor, int64_t{0}});
  return apply(node, "aten._to_copy.default", {tensor, static_cast<int64_t>(type)});
}

at::Tensor TorchScriptTracer::as_tensor(const jit::Node& node, const IValue& number) {
  if (number.isTensor()) return number.toTensor();
  const c10::ScalarType type = number.isBool() ? kTruth : number.isInt() ? kInteger : kFloating;
  return apply(node, "aten.scalar_tensor.default", {number, static_cast<int64_t>(type)});
}

IValue TorchScriptTracer::as_number(const at::Tensor& tensor) {
  numbers_.insert(tensor.unsafeGetTensorImpl());
  return tensor;
}

IValue TorchScriptTracer::number_of(const jit::Node& node, const at::Tensor& tensor, c10::ScalarType type) {
  const at::Tensor one = tensor.dim() == 0 ? tensor : apply(node, "aten.reshape.default", {tensor, std::vector<int64_t>{}});
  // Always memory of its own: a number does not change when the tensor does.
  if (type == kTruth && one.scalar_type() != kTruth) return as_number(converted(node, one, type));
  return as_number(apply(node, "aten._to_copy.default", {one, static_cast<int64_t>(type)}));
}

// An operator that gives what a tensor holds to Python.
std::optional<IValue> TorchScriptTracer::take_number(const jit::Node& node, const c10::FunctionSchema& schema, const std::vector<IValue>& arguments) {
  if (arguments.empty() || !arguments[0].isTensor()) return std::nullopt;
  const at::Tensor& tensor = arguments[0].toTensor();
  const std::string_view name = plain_name(schema);
  if (name == "equal" && arguments[1].isTensor()) {
    if (tensor.sizes() != arguments[1].toTensor().sizes()) return std::nullopt;
    const at::Tensor same = apply(node, "aten.eq.Tensor", {tensor, arguments[1]});
    return as_number(apply(node, "aten.all.default", {same}));
  }
  if (is_number(tensor) || tensor.numel() != 1 || tensor.is_complex() || schema.arguments().size() != 1) return std::nullopt;
  if (is_one_of(name, {"Bool", "is_nonzero", "BoolImplicit"})) return number_of(node, tensor, kTruth);
  if (is_one_of(name, {"Int", "IntImplicit"})) return number_of(node, tensor, kInteger);
  if (is_one_of(name, {"Float", "FloatImplicit"})) return number_of(node, tensor, kFloating);
  if (is_one_of(name, {"item", "ScalarImplicit", "_local_scalar_dense"}))
    return number_of(node, tensor, tensor.is_floating_point() ? kFloating : tensor.scalar_type() == kTruth ? kTruth : kInteger);
  return std::nullopt;
}

std::optional<IValue> TorchScriptTracer::compute(const jit::Node& node, const c10::FunctionSchema& schema, const std::vector<IValue>& arguments) {
  if (node.outputs().size() != 1) return std::nullopt;
  for (const IValue& a : arguments)
    if (!is_number(a) && !a.isInt() && !a.isDouble() && !a.isBool()) return std::nullopt;
  const std::string_view name = plain_name(schema);
  const c10::TypeKind kind = node.output()->type()->kind();
  const auto typed = [&](const at::Tensor& t) {
    switch (kind) {
      case c10::TypeKind::IntType:
        return as_number(converted(node, t, kInteger));
      case c10::TypeKind::FloatType:
        return as_number(converted(node, t, kFloating));
      case c10::TypeKind::BoolType:
        return as_number(converted(node, t, kTruth));
      default:
        return as_number(t);
    }
  };
  std::vector<at::Tensor> operands;
  const auto binary = [&](const char* op, const IValue& a, const IValue& b) -> at::Tensor {
    return apply(node, op, {as_tensor(node, a), as_tensor(node, b)});
  };
  if (is_one_of(name, {"Int", "Float", "Bool"}) && arguments.size() == 1) return typed(as_tensor(node, arguments[0]));
  if (name == "__derive_index")  // index, start, step
    return typed(binary("aten.add.Tensor", arguments[1], binary("aten.mul.Tensor", arguments[0], arguments[2])));
  if (name == "__range_length" && arguments[2].isInt() && arguments[2].toInt() != 0) {  // start, end, step
    const int64_t step = arguments[2].toInt();
    const IValue &from = arguments[step > 0 ? 0 : 1], &to = arguments[step > 0 ? 1 : 0];
    const at::Tensor span = binary("aten.add.Tensor", binary("aten.sub.Tensor", to, from), std::abs(step) - 1);
    return typed(binary("aten.maximum.default", binary("aten.floor_divide.default", span, std::abs(step)), int64_t{0}));
  }
  const auto found = arithmetic().find(name);
  if (found == arithmetic().end()) return std::nullopt;
  const bool compares = kind == c10::TypeKind::BoolType;
  bool floating = name == "div" || kind == c10::TypeKind::FloatType;
  for (const IValue& a : arguments) {
    operands.push_back(as_tensor(node, a));
    floating |= operands.back().scalar_type() == kFloating;
  }
  std::vector<IValue> given;
  for (const at::Tensor& t : operands) {
    // Python's bools count as integers in arithmetic, though not in logic.
    const bool counts = t.scalar_type() == kTruth && !name.starts_with("__");
    given.emplace_back(compares && !floating ? t : converted(node, t, floating ? kFloating : counts ? kInteger : t.scalar_type()));
  }
  return typed(apply(node, found->second, std::move(given)));
}

// A tensor whose elements are numbers that Python has.
std::optional<IValue> TorchScriptTracer::tensor_of_numbers(const jit::Node& node, const c10::FunctionSchema& schema,
                                                           const std::vector<IValue>& arguments) {
  const std::string_view name = plain_name(schema);
  const bool fills = is_one_of(name, {"full", "full_like", "new_full"});
  if (!fills && !is_one_of(name, {"tensor", "scalar_tensor", "NumToTensor", "as_tensor"})) return std::nullopt;
  const size_t data = name == "full" || name == "full_like" ? 1 : name == "new_full" ? 2 : 0;
  jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i != data && has_numbers(arguments[i])) return std::nullopt;
    stack.push_back(as_example(arguments[i]));
  }
  node.getOperation()(stack);
  const at::Tensor like = stack[0].toTensor();
  std::vector<at::Tensor> elements;
  const std::function<void(const IValue&)> collect = [&](const IValue& v) {
    if (v.isTuple() || v.isList()) {
      for (const IValue& item : items_of(v)) collect(item);
    } else {
      elements.push_back(converted(node, as_tensor(node, v), like.scalar_type()));
    }
  };
  collect(arguments[data]);
  if (fills) return apply(node, "aten.clone.default", {apply(node, "aten.expand.default", {elements[0], like.sizes().vec()})});
  if (!arguments[data].isList()) return apply(node, "aten.clone.default", {elements[0]});
  const at::Tensor row = apply(node, "aten.stack.default", {c10::List<at::Tensor>(elements)});
  return like.dim() == 1 ? row : apply(node, "aten.reshape.default", {row, like.sizes().vec()});
}

// An operator on tensors that takes such a number.
std::optional<IValue> TorchScriptTracer::call_with_numbers(const jit::Node& node, const c10::FunctionSchema& schema,
                                                           const std::vector<IValue>& arguments) {
  const std::string_view name = plain_name(schema);
  if (name == "select" && arguments.size() == 3 && arguments[0].isTensor() && arguments[1].isInt() && is_number(arguments[2])) {
    const at::Tensor& tensor = arguments[0].toTensor();
    c10::List<std::optional<at::Tensor>> indices;
    for (int64_t d = 0; d < (arguments[1].toInt() + tensor.dim()) % tensor.dim(); ++d) indices.push_back(std::nullopt);
    indices.push_back(arguments[2].toTensor());
    const at::Tensor part = apply(node, "aten.index.Tensor", {tensor, indices});
    recorder_.forbid_writes(part, "writes to a part of a tensor whose index depends on data: use index_put or index_copy");
    return part;
  }
  std::vector<bool> numbers;
  for (const IValue& a : arguments) numbers.push_back(has_numbers(a));
  const auto overload = with_tensors(schema, numbers);
  if (!overload) return std::nullopt;
  // As a number in Python promotes: by its kind only.
  std::optional<at::Tensor> self;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].isTensor() && !numbers[i] && (!self || schema.arguments()[i].name() == "self") && schema.arguments()[i].name() != "condition" &&
        schema.arguments()[i].name() != "mask")
      self = arguments[i].toTensor();
  std::vector<IValue> given = arguments;
  const auto& wants = aten::find_operator(*overload)->schema().arguments();
  for (size_t i = 0; i < given.size(); ++i) {
    if (!wants[i].type()->isSubtypeOf(*c10::OptionalType::create(c10::TensorType::get())) || given[i].isNone()) continue;
    if (given[i].isTensor() && !numbers[i]) continue;
    const at::Scalar scalar = as_example(given[i]).toScalar();
    const c10::ScalarType type = self ? at::result_type(*self, scalar) : scalar.isFloatingPoint() ? at::kFloat : scalar.type();
    given[i] = converted(node, as_tensor(node, given[i]), type);
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (const auto* alias = wants[i].alias_info(); alias && alias->isWrite() && given[i].isTensor()) permit_write(node, given[i].toTensor());
  const at::Tensor result = apply(node, *overload, std::move(given));
  return IValue(result);
}

}  // namespace nacre
