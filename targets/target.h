// A machine that kernels are compiled for. Each family file lists its own; adding a target is adding an entry there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "targets/decisions.h"

namespace nacre {

struct Target {
  std::string name;         // x86-64-v3
  std::string description;
  std::string triple;
  std::string emulation;    // as the linker calls it
  uint16_t machine = 0;     // ELF's e_machine
  int compute_capability = 0;  // of a CUDA device: 90 for sm_90; 0: a processor
  int pointer_bytes = 8;
  bool firmware = false;    // no operating system, and no loader: code is linked into an image
  int alignment = 64;       // of weights, state and arena in an image, in bytes
  int page_bytes = 4096;    // the largest that the family's systems have: segments of a code image share none
  uint64_t feature_bits = 0;              // formats/features.def: what the device must have
  std::vector<std::string> compile_flags; // of `clang -cc1`, beside those of every target
  int vector_bytes = 16;
  int registers = 16;       // such vectors that fit in registers: 32, 16 or 8; 4 beside as many floats of weights (kernel/vfp.h)
  int64_t l1_bytes = 32 * 1024;
  int64_t l2_bytes = 512 * 1024;
  // The program of Debian's qemu-user, with the processor that it has to be, that runs programs for this target on other
  // machines; for firmware, that of qemu-system with a board. Empty: it does not know such a processor.
  std::vector<std::string> emulator;

  Decisions* decisions = nullptr;  // null: cost models choose alone

  // Decisions::choose.
  size_t choose(const std::string& question, const std::vector<std::string>& choices) const { return decisions ? decisions->choose(name + ": " + question, choices) : 0; }
  int vector_floats() const { return vector_bytes / 4; }
  // Vectors in a panel of packed weights: at most, and best for `columns` columns. The kernel library's default_nv().
  int max_panel_vectors() const { return registers == 32 ? 4 : registers == 16 ? 3 : 1; }
  int panel_vectors(int64_t columns) const;
  // The tile of matrix products that is best where columns are many: rows, for so many vectors. tile_rows() of the library.
  int tile_rows(int vectors) const;
  // Vectors of a tile of attention: kAttentionNV.
  int attention_vectors() const { return registers == 32 ? 4 : registers == 16 ? 2 : 1; }

  // Sets the cache sizes, also for the kernel library, which otherwise takes those above for given.
  void set_caches(int64_t l1, int64_t l2);
};

// Every target, from the least to the most demanding of each family.
const std::vector<Target>& all_targets();

// By name; `native` is the most demanding one that this machine runs. Null for an unknown name.
const Target* target_named(const std::string& name);

// Whether this machine can run code for it.
bool runs_here(const Target& target);

// What constant work at compile time is compiled for: one level for all hosts that have it, so that its results do not
// depend on the host. Null if this machine runs no target.
const Target* host_target();

// Features of this machine (formats/features.def).
uint64_t host_features();

// The families' lists.
std::vector<Target> x86_64_targets();
std::vector<Target> aarch64_targets();
std::vector<Target> riscv64_targets();
std::vector<Target> arm_targets();
std::vector<Target> cuda_targets();

// formats/features.def as bits of Target::feature_bits.
namespace feature {
enum Bit : uint64_t {
#define FEATURE(name, bit, text) name = uint64_t{1} << bit,
#include "formats/features.def"
#undef FEATURE
};
}  // namespace feature

// Their names in short: `avx2 fma`.
std::string feature_names(uint64_t bits);

}  // namespace nacre
