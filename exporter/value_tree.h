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

bool is_plain_number(const c10::IValue& value);   // int, float or bool
bool is_uninitialized(const c10::IValue& value);  // what a variable is where no branch gave it a value

// What is no tuple, list or dictionary, in order; the same tree with every one replaced.
std::vector<c10::IValue> leaves_of(const c10::IValue& value);
c10::IValue map_leaves(const c10::IValue& value, const std::function<c10::IValue(const c10::IValue&)>& replace);
// The same tree with every defined tensor replaced.
c10::IValue map_tensors(const c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& replace);

// What is the same for two values that a program of fixed shapes cannot tell apart.
std::string structure(const c10::IValue& value);

}  // namespace nacre
