// A captured graph, made by watching operators run on tensors: what TorchScript's tracer and the tracer of C++ functors
// have in common. Slow to compile.
//
// A tensor is known by its address. One that no recorded operator made is an input, a tensor that the program owns, or
// a constant. Shapes are those of the tensors that are seen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <map>
#include <optional>
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
  explicit Recorder(Program& program) : program_(program) {}

  // The tensor is a parameter or buffer of the program; it becomes an input where an operator reads it.
  void own(const at::Tensor& tensor, const std::string& path, InputKind kind);
  bool owns(const at::Tensor& tensor) const { return owned_.contains(tensor.unsafeGetTensorImpl()); }

  // A user input.
  void add_input(const at::Tensor& tensor, HostTensor sample, const std::string& name);

  // The value that the tensor is; a tensor that is not known becomes an input.
  ValueId id_of(const at::Tensor& tensor);
  bool knows(const at::Tensor& tensor) const;
  // A tensor in `value` depends on a user input, on a buffer, on random numbers or on a decision on those.
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
  // The tensors in `arguments` become values: before the call, since an in-place operator changes them.
  void read(const std::vector<c10::IValue>& arguments);
  // A call. `where.op` names the operator.
  void record(const c10::OperatorHandle& op, Provenance where, const std::vector<c10::IValue>& arguments,
              const std::vector<c10::IValue>& results);
  // A node with one result that stands for a call that ATen does not have.
  void record(Node node, const at::Tensor& result, const std::string& name);

  // A call that fails at run time unless the condition holds, a tensor of one bool.
  void require(const at::Tensor& condition, std::string message, Provenance where);

  // The body of a branch or loop. What is recorded between enter and leave belongs to it; tensors from outside become its
  // inputs. Leaving gives the memory from outside the values back that it had; a scope may be entered again.
  struct Scope {
    bool repeats = false;  // the body of a loop
    Graph graph;
    std::unordered_map<const c10::TensorImpl*, ValueId> ids;
    std::vector<ValueId> bound;                                  // inputs that a loop carries
    std::vector<std::pair<at::Tensor, ValueId>> captured;        // inputs from outside
    std::unordered_set<const c10::StorageImpl*> local;           // memory that was made in it
    struct Memory {
      at::Tensor tensor;  // one that has it
      std::vector<std::byte> before, after;
    };
    std::map<const c10::StorageImpl*, Memory> written;           // from outside
  };
  void enter(Scope& scope);
  void leave();
  size_t depth() const { return scopes_.size(); }  // of open scopes
  // The tensor is what a loop carries, in the scope that is open; a copy of it where the body writes to it.
  void bind(const at::Tensor& tensor, bool copy);
  // The scope gives the tensor.
  void add_result(Scope& scope, const at::Tensor& tensor);
  // Every captured tensor of the scopes becomes an input of each, in one order: the operands, as values of the graph
  // around them.
  std::vector<ValueRef> close(const std::vector<Scope*>& scopes);
  // A node with such scopes and lists of operands, and the tensors that stand for its results from now on.
  void record(Node node, const std::vector<std::pair<std::string, Scope*>>& scopes,
              const std::vector<std::pair<std::string, std::vector<ValueRef>>>& operands, const std::vector<at::Tensor>& results);
  // The memory from outside as the scope left it.
  static void apply_writes(const Scope& scope);

  // To be called before a tensor is written to in place: why that is not possible, if it is not.
  std::optional<std::string> will_write(const at::Tensor& tensor);
  // The tensors may be the same memory at run time, though not here: after a write to one, the other is not read.
  void may_share(const at::Tensor& a, const at::Tensor& b);
  // The tensor is a copy here of what would be a view.
  void forbid_writes(const at::Tensor& tensor, const std::string& why);
  // It was written to through another tensor, perhaps.
  bool is_stale(const c10::IValue& value) const;

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
  ValueId id_within(const at::Tensor& tensor, size_t depth);
  Graph& graph() { return scopes_.empty() ? program_.graph : scopes_.back()->graph; }
  std::unordered_map<const c10::TensorImpl*, ValueId>& ids() { return scopes_.empty() ? ids_ : scopes_.back()->ids; }

  Program& program_;
  std::unordered_map<const c10::TensorImpl*, Owned> owned_;
  std::unordered_map<const c10::TensorImpl*, ValueId> ids_;  // outside all scopes
  std::vector<Scope*> scopes_;                               // open, from the outermost
  std::unordered_set<const c10::TensorImpl*> lost_;          // made in a scope that is closed
  std::unordered_set<const c10::StorageImpl*> dynamic_;      // memory whose contents depend on inputs or state
  std::unordered_set<const c10::StorageImpl*> lasting_;      // of user inputs and owned tensors
  std::unordered_map<const c10::StorageImpl*, std::vector<const c10::StorageImpl*>> partners_;
  std::unordered_map<const c10::StorageImpl*, std::string> unwritable_;  // with the reason
  std::unordered_set<const c10::StorageImpl*> stale_;
  std::vector<at::Tensor> alive_;  // so that no two tensors have the same address
  std::unordered_set<const c10::StorageImpl*> storages_;  // of the tensors that are known or owned
  std::unordered_map<ValueId, std::pair<at::Tensor, uint32_t>> inputs_;  // with the version that they came in
  std::set<std::string> written_;                                        // state among the outputs
};

}  // namespace nacre
