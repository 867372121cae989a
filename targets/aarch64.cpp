// The aarch64 family: 64-bit Arm under Linux.
#include "targets/target.h"

namespace nacre {

using namespace feature;

std::vector<Target> aarch64_targets() {
  Target generic;
  generic.name = "aarch64";
  generic.description = "Armv8.0, every 64-bit Arm processor";
  generic.triple = "aarch64-unknown-linux-gnu";
  generic.emulation = "aarch64linux";
  generic.machine = 183;
  generic.page_bytes = 64 * 1024;  // 16 KiB on a Raspberry Pi 5, 64 KiB on some servers
  generic.feature_bits = arm_neon;
  generic.compile_flags = {"-target-cpu", "generic"};
  generic.vector_bytes = 16;
  generic.registers = 32;
  generic.emulator = {"qemu-aarch64", "-cpu", "max"};

  Target a76 = generic;
  a76.name = "cortex-a76";
  a76.description = "Armv8.2 with dot product (Raspberry Pi 5, RK3588)";
  a76.feature_bits = arm_neon | arm_v82 | arm_fp16 | arm_dotprod;
  a76.compile_flags = {"-target-cpu", "cortex-a76"};
  a76.set_caches(64 * 1024, 512 * 1024);

  Target a78ae = a76;
  a78ae.name = "cortex-a78ae";
  a78ae.description = "Armv8.2 with dot product (Jetson Orin)";
  a78ae.compile_flags = {"-target-cpu", "cortex-a78ae"};
  a78ae.set_caches(64 * 1024, 256 * 1024);

  // Code for SVE of unknown length would need loops over vectors whose size the compiler does not know, and weights packed
  // for each length. With 128 bits, which most processors have, SVE's registers are NEON's and its float arithmetic gains
  // nothing over it: those are served by the targets above. So SVE is worth a target where the registers are wider, with
  // their length as a fact that the guard checks.
  Target v1 = a76;
  v1.name = "neoverse-v1";
  v1.description = "Armv8.4 with SVE of 256 bits (Graviton 3)";
  v1.feature_bits = a76.feature_bits | arm_i8mm | arm_bf16 | arm_sve | arm_sve256;
  v1.compile_flags = {"-target-cpu", "neoverse-v1", "-target-feature", "+sve", "-mvscale-min=2", "-mvscale-max=2"};
  v1.vector_bytes = 32;
  v1.emulator = {"qemu-aarch64", "-cpu", "max,sve256=on"};
  v1.set_caches(64 * 1024, 1024 * 1024);
  return {generic, a76, a78ae, v1};
}

}  // namespace nacre
