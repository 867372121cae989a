// The bridge to libtorch, for the few files in here that need it: tensors, arguments, calls by
// name. Slow to compile.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/frontend.h"
#include "compiler/graph/graph.h"

namespace nacre::aten {

c10::ScalarType to_torch(nacre_dtype dtype);
nacre_dtype from_torch(
    c10::ScalarType type);  // Error{unsupported} for quantized and 8-bit floating types
bool is_low_precision(c10::ScalarType type);    // float32 and lower, complex64 and lower
// The type that a tensor of `type` has in the oracle.
c10::ScalarType oracle_type(c10::ScalarType type, OracleType oracle);

// Shares the memory of `tensor`, which the result must not outlive and must not write to.
at::Tensor borrow(const HostTensor& tensor);
// A copy in C order.
HostTensor to_host(const at::Tensor& tensor);

// The operator of a node, `aten.add.Tensor`; nullopt if libtorch does not have it.
std::optional<c10::OperatorHandle> find_operator(const std::string& op);
// The same, with an Error{unsupported} that names the user's line.
c10::OperatorHandle require_operator(const Node& node);

// How the values and symbols of a graph are looked up while a node is called.
struct Environment {
  std::function<c10::IValue(ValueId)> value;
  std::function<int64_t(const Expr&)> integer;
  OracleType oracle = OracleType::own;
  c10::DeviceType device = c10::DeviceType::CPU;
};

// The arguments of `node` in the order of the operator's schema, absent ones with their defaults.
std::vector<c10::IValue> arguments(const Node& node, const c10::FunctionSchema& schema,
                                   const Environment& environment);

// The other way: an argument of a call as a node holds it. `id_of` knows the value that a tensor is.
Argument to_argument(const c10::IValue& value, const c10::TypePtr& type,
                     const std::function<ValueId(const at::Tensor&)>& id_of);
// Whether `value` is what the schema gives an absent argument.
bool is_default(const c10::IValue& value, const c10::Argument& parameter);

// Whether its results depend on the random number generator.
bool is_random(const c10::OperatorHandle& op);

// What an error of libtorch says before its details.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Calls through the boxed dispatcher; the results in order, with lists flattened (an undefined
// tensor is None).
std::vector<c10::IValue> call(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

}  // namespace nacre::aten
