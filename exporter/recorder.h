// A captured graph, made by watching operators run on tensors: what TorchScript's tracer and the tracer of C++ functors
// have in common. Slow to compile.
//
// A tensor is known by its address. One that no recorded operator made is an input, a tensor that the program owns, or
// a constant. Shapes are those of the tensors that are seen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

// Whether an operator says something of a tensor that its values do not change (`aten::size`, `prim::dtype`).
bool is_about_metadata(const std::string& name);

class Recorder {
 public:
  explicit Recorder(Program& program) : program_(program), graph_(program.graph) {}

  // The tensor is a parameter or buffer of the program; it becomes an input where an operator reads it.
  void own(const at::Tensor& tensor, const std::string& path, InputKind kind);
  bool owns(const at::Tensor& tensor) const { return owned_.contains(tensor.unsafeGetTensorImpl()); }

  // A user input.
  void add_input(const at::Tensor& tensor, HostTensor sample, const std::string& name);

  // The value that the tensor is; a tensor that is not known becomes an input.
  ValueId id_of(const at::Tensor& tensor);
  bool knows(const at::Tensor& tensor) const { return ids_.contains(tensor.unsafeGetTensorImpl()); }
  // A tensor in `value` depends on a user input, on a buffer or on random numbers.
  bool depends_on_inputs(const c10::IValue& value) const;
  // No tensor in `values` is an input, owned, made by a recorded operator, or shares memory with one that is: what is
  // computed from them alone may stay outside the graph, whose constants its results become.
  bool is_apart(const std::vector<c10::IValue>& values) const;
  // Every tensor in `value` is known or owned, or apart: a write to it is seen by all that share its memory.
  bool may_write(const c10::IValue& value) const;
  // Whether the tensor is another than at first, or was written to.
  bool changed(const at::Tensor& before, const at::Tensor& after);

  // Whether a call whose results these are has to be a node: it made a tensor, or wrote to one.
  bool has_effect(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& results) const;
  // A call. `where.op` names the operator; `before` are the values of the tensors in `arguments`, taken before the call
  // (an in-place operator changes them).
  std::vector<ValueId> values_of(const std::vector<c10::IValue>& arguments);
  void record(const c10::OperatorHandle& op, Provenance where, const std::vector<c10::IValue>& arguments,
              const std::vector<ValueId>& before, const std::vector<c10::IValue>& results);
  // A node with one result that stands for a call that ATen does not have.
  void record(Node node, const at::Tensor& result, const std::string& name);

  // Results in order, those in tuples, lists and dictionaries one by one.
  void add_output(const c10::IValue& value);
  void add_state(const at::Tensor& after, const std::string& path);
  // Inputs and buffers that were written to in place and are not among the outputs yet. Last call.
  void add_writes();

 private:
  struct Owned {
    std::string path;
    InputKind kind;
  };

  ValueId define(const at::Tensor& tensor, const std::string& name, bool dynamic);

  Program& program_;
  Graph& graph_;
  std::unordered_map<const c10::TensorImpl*, Owned> owned_;
  std::unordered_map<const c10::TensorImpl*, ValueId> ids_;
  std::unordered_set<ValueId> dynamic_;  // values that depend on inputs or state
  std::vector<at::Tensor> alive_;        // so that no two tensors have the same address
  std::unordered_set<const c10::StorageImpl*> storages_;  // of the tensors that are known or owned
  std::unordered_map<ValueId, std::pair<at::Tensor, uint32_t>> inputs_;  // with the version that they came in
  std::set<std::string> written_;                                        // state among the outputs
};

}  // namespace nacre
