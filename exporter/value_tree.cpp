#include "exporter/value_tree.h"

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

namespace nacre {

using c10::IValue;

std::vector<IValue> items_of(const IValue& value) {
  return value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
}

void each_tensor(const IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTuple() || value.isList()) {
    for (const IValue& item : items_of(value)) each_tensor(item, visit);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) each_tensor(entry.value(), visit);
  }
}

std::vector<at::Tensor> tensors_of(const IValue& value) {
  std::vector<at::Tensor> found;
  each_tensor(value, [&](const at::Tensor& t) { found.push_back(t); });
  return found;
}

bool is_plain_number(const IValue& value) { return value.isInt() || value.isDouble() || value.isBool(); }
bool is_uninitialized(const IValue& value) { return value.tagKind() == "Uninitialized"; }

IValue map_leaves(const IValue& value, const std::function<IValue(const IValue&)>& replace) {
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& item : items_of(value)) items.push_back(map_leaves(item, replace));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isList()) {
    c10::impl::GenericList items(value.toList().elementType());
    for (const IValue& item : items_of(value)) items.push_back(map_leaves(item, replace));
    return items;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::impl::GenericDict items(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) items.insert(entry.key(), map_leaves(entry.value(), replace));
    return items;
  }
  return replace(value);
}

std::vector<IValue> leaves_of(const IValue& value) {
  std::vector<IValue> leaves;
  map_leaves(value, [&](const IValue& leaf) {
    leaves.push_back(leaf);
    return leaf;
  });
  return leaves;
}

IValue map_tensors(const IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace) {
  return map_leaves(value, [&](const IValue& leaf) {
    return leaf.isTensor() && leaf.toTensor().defined() ? IValue(replace(leaf.toTensor())) : leaf;
  });
}

std::string structure(const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    if (!t.defined()) return "undefined";
    return fmt::format("{}[{}]", c10::toString(t.scalar_type()), fmt::join(t.sizes(), ","));
  }
  if (value.isTuple() || value.isList()) {
    std::string text;
    for (const IValue& item : items_of(value)) text += structure(item) + ";";
    return (value.isTuple() ? "(" : "[") + text + (value.isTuple() ? ")" : "]");
  }
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return fmt::format("{}", value.toDouble());
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isString()) return value.toStringRef();
  if (value.isNone()) return "None";
  return is_uninitialized(value) ? "nothing" : value.tagKind();
}

}  // namespace nacre
