// Runs a TorchScript method on examples of its arguments and records what it does to tensors. Slow to compile.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/frontend.h"
#include "compiler/graph/text.h"
#include "exporter/recorder.h"

namespace nacre {

// An attribute that the method set.
struct Attribute {
  c10::intrusive_ptr<c10::ivalue::Object> object;
  size_t slot = 0;
  std::string path;  // `_model.state`
  c10::IValue before, after;
};

// The example as a value of that type.
c10::IValue as_ivalue(const Example& example, const c10::TypePtr& type);

class TorchScriptTracer {
 public:
  // `state` has values of attributes, by path, in place of the module's own; `written` names the parameters that are state, too.
  TorchScriptTracer(const torch::jit::Module& module, const std::map<std::string, c10::IValue>& state, const std::set<std::string>& written, Program& program);

  // Error{user} where the examples do not fit or the model raises; Error{unsupported} for a decision on data that has no
  // graph: of shapes that differ, of lists that grow.
  void run(const torch::jit::Method& method, const std::vector<Example>& examples);
  const std::vector<Attribute>& attributes() const { return attributes_; }

 private:
  using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;
  using Frame = std::unordered_map<const torch::jit::Value*, c10::IValue>;
  using Slot = std::pair<const c10::ivalue::Object*, size_t>;
  using Values = std::vector<c10::IValue>;
  struct Join;
  class Loop;
  // What the model raises in a branch or loop.
  struct Raised {
    std::string text;
    Provenance where;
  };

  void own_attributes(const ObjectPtr& object, const std::string& path);
  void own_tensors(const c10::IValue& value, const std::string& path, InputKind kind);
  void add_input(const c10::IValue& value, const Example& example, const std::string& name);
  void add_outputs(const c10::IValue& result);
  c10::IValue call(const torch::jit::Function& function, std::vector<c10::IValue> arguments, const std::string& path);
  void run_block(const torch::jit::Block& block, Frame& frame);
  void run_node(const torch::jit::Node& node, Frame& frame);
  void run_loop(const torch::jit::Node& node, Frame& frame);
  void run_operator(const torch::jit::Node& node, Frame& frame);
  void run_call(const torch::jit::Node& node, const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments, bool dynamic,
                Frame& frame);
  c10::IValue& attribute(const ObjectPtr& object, const std::string& name);
  void set_attribute(const ObjectPtr& object, size_t slot, const c10::IValue& value);
  void set_attribute(const Slot& slot, const c10::IValue& value);
  void note_lists(const torch::jit::Node& node, const Frame& frame);
  // Error{unsupported} for a list or dictionary from outside the branch or loop.
  void permit_write(const torch::jit::Node& node, const c10::IValue& value);
  [[noreturn]] void refuse(const torch::jit::Node& node, const std::string& what) const;

  // torchscript_numbers.cpp; nullopt: not one of those.
  bool is_number(const c10::IValue& value) const;
  bool has_numbers(const c10::IValue& value) const;
  c10::IValue as_example(const c10::IValue& value) const;  // with what the numbers are for the example
  at::Tensor apply(const torch::jit::Node& node, const std::string& name, std::vector<c10::IValue> arguments);
  at::Tensor converted(const torch::jit::Node& node, const at::Tensor& tensor, c10::ScalarType type);
  at::Tensor as_tensor(const torch::jit::Node& node, const c10::IValue& number);
  c10::IValue as_number(const at::Tensor& tensor);
  c10::IValue number_of(const torch::jit::Node& node, const at::Tensor& tensor, c10::ScalarType type);
  std::optional<c10::IValue> take_number(const torch::jit::Node& node, const c10::FunctionSchema& schema, const Values& arguments);
  std::optional<c10::IValue> compute(const torch::jit::Node& node, const c10::FunctionSchema& schema, const Values& arguments);
  std::optional<c10::IValue> tensor_of_numbers(const torch::jit::Node& node, const c10::FunctionSchema& schema, const Values& arguments);
  std::optional<c10::IValue> call_with_numbers(const torch::jit::Node& node, const c10::FunctionSchema& schema, const Values& arguments);

  // Decisions on data: torchscript_branch.cpp, torchscript_while.cpp.
  Values branch(const torch::jit::Node& node, at::Tensor condition, const std::function<Values()>& yes,
                const std::function<Values()>& no);
  void refuse_views_of_written(const torch::jit::Node& node, const Recorder::Scope& scope) const;
  void run_while(const torch::jit::Node& node, Frame& frame, const c10::IValue& most, int64_t done, const c10::IValue& go,
                 const Values& carried);

  const std::string& path_of(const ObjectPtr& object) const;
  Provenance where(const torch::jit::Node& node) const;
  std::string place(const torch::jit::Node& node) const { return where_text(where(node)); }

  Program& program_;
  Recorder recorder_;
  const std::set<std::string>& written_;
  std::unordered_map<const c10::ivalue::Object*, std::string> objects_;  // the module's, with their paths
  std::map<Slot, c10::IValue> overlay_;
  std::vector<Attribute> attributes_;
  std::vector<std::string> path_;  // of the modules whose methods run
  int depth_ = 0;
  std::unordered_set<const c10::TensorImpl*> numbers_;  // tensors that are Python's numbers
  std::unordered_map<const void*, std::pair<c10::IValue, size_t>> lists_;  // with how deep in branches they were made
};

}  // namespace nacre
