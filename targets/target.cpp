#include "targets/target.h"

#include "formats/features.h"

namespace nacre {

int Target::panel_vectors(int64_t columns) const {
  const std::vector<int> order = max_panel_vectors() == 4 ? std::vector<int>{4, 3, 2, 1} : std::vector<int>{2, 3, 1};
  auto padded = [&](int vectors) {
    const int64_t width = int64_t{vectors} * vector_floats();
    return (columns + width - 1) / width * width;
  };
  int best = order[0];
  for (int vectors : order)
    // A narrower tile runs slower: it must save more than one column in sixteen.
    if (padded(vectors) * 17 < padded(best) * 16) best = vectors;
  return best;
}

const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = x86_64_targets();
  return targets;
}

const Target* target_named(const std::string& name) {
  const Target* found = nullptr;
  for (const Target& target : all_targets()) {
    if (name == "native" ? (target.feature_bits & ~host_features()) == 0 : target.name == name) found = &target;
  }
  return found;
}

const Target* host_target() {
  const Target* v3 = target_named("x86-64-v3");
  return v3 && (v3->feature_bits & ~host_features()) == 0 ? v3 : target_named("native");
}

uint64_t host_features() {
  static const uint64_t features = nacre_device_features();
  return features;
}

}  // namespace nacre
