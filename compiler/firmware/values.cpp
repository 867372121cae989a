#include "compiler/firmware/values.h"

#include "compiler/firmware/signature.h"
#include "formats/expr.h"

namespace nacre {

std::optional<std::vector<int64_t>> node_values(const formats::Entry& entry, const std::vector<int64_t>& symbols) {
  std::vector<nacre_node> nodes;
  for (const std::vector<formats::Node>* list : {&entry.nodes, &only_variant(entry).nodes})
    for (const formats::Node& n : *list) nodes.push_back(n.in_file());
  std::vector<int64_t> values(nodes.size());
  if (!nacre_expr_evaluate(nodes.data(), static_cast<uint32_t>(nodes.size()), 0, symbols.data(), values.data())) return std::nullopt;
  return values;
}

}  // namespace nacre
