#include "compiler/graph/graph.h"

namespace nacre {

const Argument* Node::find(std::string_view wanted) const {
  for (const auto& [name, argument] : args)
    if (name == wanted) return &argument;
  return nullptr;
}

std::string Graph::add_subgraph(Graph sub) {
  const std::string wanted = sub.name;
  for (int i = 1; subgraphs.contains(sub.name); ++i) sub.name = wanted + "_" + std::to_string(i);
  std::string free = sub.name;
  subgraphs.emplace(free, std::move(sub));
  return free;
}

ValueId Graph::add_value(Value value) {
  // Values may have been added or renamed by hand since the last call.
  if (names.counted != values.size()) {
    names.taken.clear();
    names.next.clear();
    for (const Value& v : values) names.taken.insert(v.name);
  }
  if (value.name.empty()) value.name = "v";
  if (!names.taken.insert(value.name).second) {
    const std::string base = value.name + "_";
    int& number = names.next[value.name];
    do value.name = base + std::to_string(++number);
    while (!names.taken.insert(value.name).second);
  }
  values.push_back(std::move(value));
  names.counted = values.size();
  return static_cast<ValueId>(values.size()) - 1;
}

}  // namespace nacre
