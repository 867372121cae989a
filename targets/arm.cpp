// 32-bit Arm: Cortex-A under Linux, and Cortex-M, microcontrollers without an operating system. Code for those is linked into an
// image (`--emit static`).
#include "targets/target.h"

namespace nacre {

using namespace feature;

std::vector<Target> arm_targets() {
  Target a7;
  a7.name = "cortex-a7";
  a7.description = "Armv7-A with NEON and VFPv4 (Raspberry Pi 2, i.MX 6UL)";
  a7.triple = "armv7-unknown-linux-gnueabihf";
  a7.emulation = "armelf_linux_eabi";
  a7.machine = 40;
  a7.pointer_bytes = 4;
  a7.feature_bits = arm_neon | arm_vfpv4;
  a7.compile_flags = {"-target-cpu", "cortex-a7", "-mfloat-abi", "hard", "-target-abi", "aapcs-linux"};
  a7.emulator = {"qemu-arm", "-cpu", "cortex-a7"};

  // Four floats at a time lie in four of the 32 single-precision registers. Half of those take 16 weights from one instruction.
  Target m4;
  m4.name = "cortex-m4";
  m4.description = "Armv7E-M with single-precision floats (M4F); no vectors";
  m4.triple = "thumbv7em-none-eabihf";
  m4.emulation = "armelf";
  m4.machine = 40;
  m4.pointer_bytes = 4;
  m4.firmware = true;
  m4.alignment = 8;
  m4.compile_flags = {"-target-cpu", "cortex-m4", "-target-feature", "+vfp4d16sp", "-target-feature", "-fp64", "-mfloat-abi", "hard", "-target-abi", "aapcs"};
  m4.vector_bytes = 16;
  m4.registers = 4;
  // No caches: what the library blocks for is the RAM beside the arena.
  m4.set_caches(8 * 1024, 32 * 1024);
  m4.emulator = {"qemu-system-arm", "-M", "mps2-an386"};

  Target m7 = m4;
  m7.name = "cortex-m7";
  m7.description = "Armv7E-M with double-precision floats (M7); no vectors";
  m7.compile_flags = {"-target-cpu", "cortex-m7", "-target-feature", "+fp-armv8d16", "-mfloat-abi", "hard", "-target-abi", "aapcs"};
  m7.set_caches(16 * 1024, 32 * 1024);
  m7.emulator = {"qemu-system-arm", "-M", "mps2-an500"};

  // Eight vector registers; a scalar operand comes from a general register.
  Target m55 = m4;
  m55.name = "cortex-m55";
  m55.description = "Armv8.1-M with MVE (Helium) for integers and floats";
  m55.triple = "thumbv8.1m.main-none-eabihf";
  m55.feature_bits = arm_mve;
  m55.registers = 8;
  m55.compile_flags = {"-target-cpu", "cortex-m55", "-mfloat-abi", "hard", "-target-abi", "aapcs"};
  m55.set_caches(16 * 1024, 32 * 1024);
  m55.emulator = {"qemu-system-arm", "-M", "mps3-an547"};
  return {a7, m4, m7, m55};
}

}  // namespace nacre
