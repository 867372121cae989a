// A machine that kernels are compiled for. Each family file lists its own; adding a target is adding an entry there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre {

struct Target {
  std::string name;         // x86-64-v3
  std::string description;
  std::string triple;
  uint16_t machine = 0;     // ELF's e_machine
  uint64_t feature_bits = 0;              // formats/features.def: what the device must have
  std::vector<std::string> compile_flags; // of `clang -cc1`, beside those of every target
  int vector_bytes = 16;
  int registers = 16;       // vector registers
  int64_t l1_bytes = 32 * 1024;
  int64_t l2_bytes = 512 * 1024;

  int vector_floats() const { return vector_bytes / 4; }
  // Vectors in a panel of packed weights: at most, and best for `columns` columns. The kernel library's default_nv().
  int max_panel_vectors() const { return registers == 32 ? 4 : 3; }
  int panel_vectors(int64_t columns) const;
};

// Every target, from the least to the most demanding of each family.
const std::vector<Target>& all_targets();

// By name; `native` is the most demanding one that this machine runs. Null for an unknown name.
const Target* target_named(const std::string& name);

// What constant work at compile time is compiled for: one level for all hosts that have it, so that its results do not
// depend on the host. Null if this machine runs no target.
const Target* host_target();

// Features of this machine (formats/features.def).
uint64_t host_features();

// The families' lists.
std::vector<Target> x86_64_targets();

}  // namespace nacre
