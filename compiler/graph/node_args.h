// A node's arguments, as primitives have them: no defaults, and what does not fit is an Error{internal} that names the node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

class NodeArgs {
 public:
  NodeArgs(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Argument& get(std::string_view name) const;
  ValueId value(std::string_view name) const;
  ValueId optional_value(std::string_view name) const;           // kNoValue if absent
  std::vector<ValueId> values(std::string_view name) const;      // kNoValue: an absent one
  Expr expr(std::string_view name) const;
  std::vector<Expr> exprs(std::string_view name) const;
  int integer(std::string_view name) const;
  std::vector<int> integers(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name, const std::string& otherwise) const;
  nacre_dtype dtype(std::string_view name) const;

  [[noreturn]] void refuse(std::string_view name, const char* wanted) const;

 private:
  const Graph& graph_;
  const Node& node_;
};

}  // namespace nacre
