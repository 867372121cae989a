// The x86-64 family, by the levels of the System V ABI.
#include "targets/target.h"

namespace nacre {

namespace {

constexpr uint16_t kElfMachine = 62;

enum Feature : uint64_t {
#define FEATURE(name, bit, text) name = uint64_t{1} << bit,
#include "formats/features.def"
#undef FEATURE
};

constexpr uint64_t kV2 = x86_v2;
constexpr uint64_t kV3 = kV2 | x86_avx2 | x86_fma | x86_f16c | x86_bmi;
constexpr uint64_t kV4 = kV3 | x86_avx512f | x86_avx512cd | x86_avx512bw | x86_avx512dq | x86_avx512vl;

// Caches other than those that the kernel library takes for given (kernel/base.h).
void set_caches(Target& target, int64_t l1_bytes, int64_t l2_bytes) {
  target.l1_bytes = l1_bytes;
  target.l2_bytes = l2_bytes;
  target.compile_flags.push_back("-DNACRE_L1_BYTES=" + std::to_string(l1_bytes));
  target.compile_flags.push_back("-DNACRE_L2_BYTES=" + std::to_string(l2_bytes));
}

}  // namespace

std::vector<Target> x86_64_targets() {
  Target v2;
  v2.name = "x86-64-v2";
  v2.description = "SSE4.2; no fused multiply-add";
  v2.triple = "x86_64-unknown-linux-gnu";
  v2.machine = kElfMachine;
  v2.feature_bits = kV2;
  v2.compile_flags = {"-target-cpu", "x86-64-v2"};
  v2.vector_bytes = 16;

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
  set_caches(v4, 48 * 1024, 1024 * 1024);
  return {v2, v3, v4};
}

}  // namespace nacre
