// What TorchScript and operators pass around, as trees of tensors and constants. Slow to compile.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <vector>

namespace nacre {

// Every defined tensor in a tensor, tuple, list or dictionary, in order.
void each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);
std::vector<at::Tensor> tensors_of(const c10::IValue& value);
// The items of a tuple or list.
std::vector<c10::IValue> items_of(const c10::IValue& value);

// The same tree with every tensor replaced.
c10::IValue map_tensors(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace);

// What is the same for two values that a program of fixed shapes cannot tell apart.
std::string structure(const c10::IValue& value);

}  // namespace nacre
