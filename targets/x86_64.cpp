// The x86-64 family, by the levels of the System V ABI, and what newer processors have beyond the last one.
#include "targets/target.h"

namespace nacre {

namespace {

using namespace feature;

constexpr uint64_t kV2 = x86_v2;
constexpr uint64_t kV3 = kV2 | x86_avx2 | x86_fma | x86_f16c | x86_bmi;
constexpr uint64_t kV4 = kV3 | x86_avx512f | x86_avx512cd | x86_avx512bw | x86_avx512dq | x86_avx512vl;

}  // namespace

std::vector<Target> x86_64_targets() {
  Target v2;
  v2.name = "x86-64-v2";
  v2.description = "SSE4.2; no fused multiply-add";
  v2.triple = "x86_64-unknown-linux-gnu";
  v2.emulation = "elf_x86_64";
  v2.machine = 62;
  v2.feature_bits = kV2;
  v2.compile_flags = {"-target-cpu", "x86-64-v2"};
  v2.vector_bytes = 16;
  v2.emulator = {"qemu-x86_64", "-cpu", "max"};

  Target v3 = v2;
  v3.name = "x86-64-v3";
  v3.description = "AVX2 and FMA";
  v3.feature_bits = kV3;
  v3.compile_flags = {"-target-cpu", "x86-64-v3"};
  v3.vector_bytes = 32;

  Target v4 = v3;
  v4.name = "x86-64-v4";
  v4.description = "AVX-512";
  v4.feature_bits = kV4;
  // Without the width, Clang splits 512-bit vectors of functions that have no wide arguments.
  v4.compile_flags = {"-target-cpu", "x86-64-v4", "-mprefer-vector-width=512"};
  v4.vector_bytes = 64;
  v4.registers = 32;
  v4.emulator = {};
  v4.set_caches(48 * 1024, 1024 * 1024);

  const auto with = [](Target target, const std::string& name, const std::string& description, uint64_t bits, const std::vector<std::string>& features) {
    target.name = name;
    target.description = description;
    target.feature_bits |= bits;
    for (const std::string& f : features) target.compile_flags.insert(target.compile_flags.end(), {"-target-feature", "+" + f});
    return target;
  };
  const Target vnni = with(v4, "x86-64-v4-vnni", "AVX-512 with VNNI (Cascade Lake)", x86_avx512vnni, {"avx512vnni"});
  const Target bf16 = with(vnni, "x86-64-v4-bf16", "AVX-512 with VNNI and BF16 (Zen 4, Cooper Lake)", x86_avx512bf16, {"avx512bf16"});
  Target amx = with(bf16, "x86-64-v4-amx", "AVX-512 with VNNI, BF16, FP16 and AMX (Sapphire Rapids)", x86_avx512fp16 | x86_amx_tile | x86_amx_int8 | x86_amx_bf16,
                    {"avx512fp16", "amx-tile", "amx-int8", "amx-bf16"});
  amx.set_caches(48 * 1024, 2048 * 1024);
  return {v2, v3, v4, vnni, bf16, amx};
}

}  // namespace nacre
