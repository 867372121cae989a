// Runs a TorchScript method on examples of its arguments and records what it does to tensors. Slow to compile.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <string>
#include <unordered_map>
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
  // `state` has values of attributes, by path, in place of the module's own.
  TorchScriptTracer(const torch::jit::Module& module, const std::map<std::string, c10::IValue>& state, Program& program);

  // Error{user} where the examples do not fit or the model raises; Error{unsupported} for a decision on data.
  void run(const torch::jit::Method& method, const std::vector<Example>& examples);
  const std::vector<Attribute>& attributes() const { return attributes_; }

 private:
  using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;
  using Frame = std::unordered_map<const torch::jit::Value*, c10::IValue>;

  void own_attributes(const ObjectPtr& object, const std::string& path);
  void own_tensors(const c10::IValue& value, const std::string& path, InputKind kind);
  void add_input(const c10::IValue& value, const Example& example, const std::string& name);
  void add_outputs(const c10::IValue& result);
  c10::IValue call(const torch::jit::Function& function, std::vector<c10::IValue> arguments, const std::string& path);
  void run_block(const torch::jit::Block& block, Frame& frame);
  void run_node(const torch::jit::Node& node, Frame& frame);
  void run_loop(const torch::jit::Node& node, Frame& frame);
  void run_operator(const torch::jit::Node& node, Frame& frame);
  c10::IValue& attribute(const ObjectPtr& object, const std::string& name);
  const std::string& path_of(const ObjectPtr& object) const;
  Provenance where(const torch::jit::Node& node) const;
  std::string place(const torch::jit::Node& node) const { return where_text(where(node)); }

  Program& program_;
  Recorder recorder_;
  std::unordered_map<const c10::ivalue::Object*, std::string> objects_;  // the module's, with their paths
  std::map<std::pair<const c10::ivalue::Object*, size_t>, c10::IValue> overlay_;
  std::vector<Attribute> attributes_;
  std::vector<std::string> path_;  // of the modules whose methods run
  int depth_ = 0;
};

}  // namespace nacre
