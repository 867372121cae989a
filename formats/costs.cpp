#include "formats/costs.h"

#include <map>
#include <set>

#include "formats/checksum.h"
#include "formats/meta.h"

namespace nacre::formats {
namespace {

// Weights with equal bytes have one place in the file.
using Place = std::pair<uint64_t, std::size_t>;  // digest and size

struct Uses {
  std::set<uint32_t> kernels;
  std::set<Place> weights;
};

Uses uses_of(const std::vector<Place>& weights, const Variant& v) {
  Uses uses;
  for (const Command& c : v.commands)
    if (c.kind == NACRE_COMMAND_call) uses.kernels.insert(c.target);
  for (const Slot& s : v.slots)
    if (s.kind == NACRE_SLOT_WEIGHT) uses.weights.insert(weights[s.index]);
  return uses;
}

uint64_t table_bytes(const Variant& v) {
  uint64_t bytes = v.guards.size() * sizeof(nacre_guard) + v.nodes.size() * sizeof(nacre_node) +
                   v.slots.size() * sizeof(nacre_slot) + v.commands.size() * sizeof(nacre_command);
  for (const Command& c : v.commands) bytes += (c.operands.size() + c.provenances.size()) * sizeof(uint32_t);
  for (const Tensor& t : v.slot_tensors) bytes += t.dims.size() * sizeof(int64_t) + t.layout.size();
  return bytes;
}

}  // namespace

std::vector<std::vector<VariantCost>> variant_costs(const Artifact& artifact) {
  std::vector<Place> weights;
  for (const Weight& w : artifact.weights) weights.emplace_back(nacre_digest(w.bytes.data(), w.bytes.size()), w.bytes.size());
  std::map<uint32_t, int> kernel_users;
  std::map<Place, int> weight_users;
  std::vector<std::vector<VariantCost>> costs;
  for (const Entry& e : artifact.entries)
    for (const Variant& v : e.variants) {
      const Uses uses = uses_of(weights, v);
      for (uint32_t k : uses.kernels) ++kernel_users[k];
      for (const Place& w : uses.weights) ++weight_users[w];
    }
  for (const Entry& e : artifact.entries) {
    costs.emplace_back();
    for (const Variant& v : e.variants) {
      VariantCost cost;
      const Uses uses = uses_of(weights, v);
      for (uint32_t k : uses.kernels) {
        const bool own = kernel_users[k] == 1;
        const uint64_t bytes = artifact.kernels[k].size_bytes;
        ++cost.kernels;
        cost.code_bytes += bytes;
        if (!own) continue;
        ++cost.own_kernels;
        cost.own_code_bytes += bytes;
      }
      for (const Place& w : uses.weights) {
        cost.weight_bytes += w.second;
        if (weight_users[w] == 1) cost.own_weight_bytes += w.second;
      }
      cost.table_bytes = table_bytes(v);
      costs.back().push_back(cost);
    }
  }
  return costs;
}

}  // namespace nacre::formats
