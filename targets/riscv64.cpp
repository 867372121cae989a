// The riscv64 family under Linux, with the hard-float ABI of the distributions.
#include "targets/target.h"

namespace nacre {

using namespace feature;

std::vector<Target> riscv64_targets() {
  // Vectors of four floats are what Clang splits into four registers each: the 32 registers hold eight of them.
  Target scalar;
  scalar.name = "rv64gc";
  scalar.description = "no vector extension; four floats at a time in scalar registers";
  scalar.triple = "riscv64-unknown-linux-gnu";
  scalar.emulation = "elf64lriscv";
  scalar.machine = 243;
  scalar.feature_bits = riscv_gc;
  scalar.compile_flags = {"-target-cpu",     "generic-rv64", "-target-feature", "+m",  "-target-feature", "+a",           "-target-feature",
                          "+f",              "-target-feature", "+d",           "-target-feature", "+c", "-target-abi", "lp64d"};
  scalar.vector_bytes = 16;
  scalar.registers = 8;
  scalar.emulator = {"qemu-riscv64"};

  // Registers have 128 bits at least, and code for that length runs on longer ones.
  Target vector = scalar;
  vector.name = "rv64gcv";
  vector.description = "the vector extension 1.0";
  vector.feature_bits = riscv_gc | riscv_v;
  vector.compile_flags.insert(vector.compile_flags.end(), {"-target-feature", "+v"});
  vector.registers = 32;
  vector.emulator = {"qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"};
  return {scalar, vector};
}

}  // namespace nacre
