#include "targets/target.h"

#include "formats/features.h"

namespace nacre {

int Target::panel_vectors(int64_t columns) const {
  const std::vector<int> order = registers == 32   ? std::vector<int>{4, 3, 2, 1}
                                 : registers == 16 ? std::vector<int>{2, 3, 1}
                                                   : std::vector<int>{1};
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

int Target::tile_rows(int vectors) const {
  if (registers == 32) return vectors <= 2 ? 14 : vectors == 3 ? 8 : 6;
  if (registers == 16) return vectors == 1 ? 12 : vectors == 2 ? 6 : 4;
  return registers == 8 ? 6 : 3;
}

void Target::set_caches(int64_t l1, int64_t l2) {
  l1_bytes = l1;
  l2_bytes = l2;
  compile_flags.push_back("-DNACRE_L1_BYTES=" + std::to_string(l1));
  compile_flags.push_back("-DNACRE_L2_BYTES=" + std::to_string(l2));
}

const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all;
    for (const auto& family : {x86_64_targets(), aarch64_targets(), riscv64_targets(), arm_targets(), cuda_targets()}) all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return targets;
}

bool runs_here(const Target& target) { return target.machine == NACRE_MACHINE && !(target.feature_bits & ~host_features()); }

std::string feature_names(uint64_t bits) {
  std::string names;
#define FEATURE(name, bit, text)         \
  if (bits >> bit & 1) {                 \
    const std::string full = #name;      \
    if (!names.empty()) names += ' ';    \
    names += full.substr(full.find('_') + 1); \
  }
#include "formats/features.def"
#undef FEATURE
  return names;
}

const Target* target_named(const std::string& name) {
  const Target* found = nullptr;
  for (const Target& target : all_targets()) {
    if (name == "native" ? runs_here(target) : target.name == name) found = &target;
  }
  return found;
}

const Target* host_target() {
  for (const char* level : {"x86-64-v3", "aarch64", "rv64gc"})
    if (const Target* target = target_named(level); runs_here(*target)) return target;
  return target_named("native");
}

uint64_t host_features() {
  static const uint64_t features = nacre_device_features();
  return features;
}

}  // namespace nacre
