#define _GNU_SOURCE
#include "formats/features.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum register_ { kEax, kEbx, kEcx, kEdx };
struct cpuid_bit {
  uint8_t feature;
  uint8_t leaf;  // 0: 1, 1: 7.0, 2: 7.1, 3: 0x80000001
  uint8_t in;
  uint8_t bit;
};

// A feature of several bits has several lines; it is there when all of them are.
static const struct cpuid_bit kBits[] = {
    {NACRE_FEATURE_x86_v2, 0, kEcx, 0},     // SSE3
    {NACRE_FEATURE_x86_v2, 0, kEcx, 9},     // SSSE3
    {NACRE_FEATURE_x86_v2, 0, kEcx, 13},    // CMPXCHG16B
    {NACRE_FEATURE_x86_v2, 0, kEcx, 19},    // SSE4.1
    {NACRE_FEATURE_x86_v2, 0, kEcx, 20},    // SSE4.2
    {NACRE_FEATURE_x86_v2, 0, kEcx, 23},    // POPCNT
    {NACRE_FEATURE_x86_avx2, 0, kEcx, 28},  // AVX
    {NACRE_FEATURE_x86_avx2, 1, kEbx, 5},       {NACRE_FEATURE_x86_fma, 0, kEcx, 12},
    {NACRE_FEATURE_x86_f16c, 0, kEcx, 29},      {NACRE_FEATURE_x86_bmi, 1, kEbx, 3},
    {NACRE_FEATURE_x86_bmi, 1, kEbx, 8},        {NACRE_FEATURE_x86_bmi, 3, kEcx, 5},  // LZCNT
    {NACRE_FEATURE_x86_bmi, 0, kEcx, 22},                                             // MOVBE
    {NACRE_FEATURE_x86_avx512f, 1, kEbx, 16},   {NACRE_FEATURE_x86_avx512cd, 1, kEbx, 28},
    {NACRE_FEATURE_x86_avx512bw, 1, kEbx, 30},  {NACRE_FEATURE_x86_avx512dq, 1, kEbx, 17},
    {NACRE_FEATURE_x86_avx512vl, 1, kEbx, 31},  {NACRE_FEATURE_x86_avx512vnni, 1, kEcx, 11},
    {NACRE_FEATURE_x86_avx512bf16, 2, kEax, 5}, {NACRE_FEATURE_x86_avx512fp16, 1, kEdx, 23},
    {NACRE_FEATURE_x86_avxvnni, 2, kEax, 4},    {NACRE_FEATURE_x86_amx_tile, 1, kEdx, 24},
    {NACRE_FEATURE_x86_amx_int8, 1, kEdx, 25},  {NACRE_FEATURE_x86_amx_bf16, 1, kEdx, 22},
};

#define BIT(name) ((uint64_t)1 << NACRE_FEATURE_x86_##name)
static const uint64_t kAmx = BIT(amx_tile) | BIT(amx_int8) | BIT(amx_bf16);
static const uint64_t kAvx512 = BIT(avx512f) | BIT(avx512cd) | BIT(avx512bw) | BIT(avx512dq) |
                                BIT(avx512vl) | BIT(avx512vnni) | BIT(avx512bf16) | BIT(avx512fp16);
static const uint64_t kAvx = BIT(avx2) | BIT(fma) | BIT(f16c) | BIT(avxvnni);

// The registers that the system saves when it switches threads (XCR0).
static uint32_t saved_registers(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Linux lends the tile registers only to processes that asked for them.
static int may_use_tiles(void) {
  unsigned long granted = 0;
  const int kGetPermission = 0x1022, kTileData = 18;
  return !syscall(SYS_arch_prctl, kGetPermission, &granted) && (granted >> kTileData & 1);
}

uint64_t nacre_device_features(void) {
  static const struct {
    uint32_t leaf, subleaf;
  } kLeaves[4] = {{1, 0}, {7, 0}, {7, 1}, {0x80000001u, 0}};
  uint32_t registers[4][4] = {{0}};
  for (int i = 0; i < 4; ++i) {
    uint32_t* r = registers[i];
    if (!__get_cpuid_count(kLeaves[i].leaf, kLeaves[i].subleaf, &r[kEax], &r[kEbx], &r[kEcx],
                           &r[kEdx]))
      for (int j = 0; j < 4; ++j) r[j] = 0;
  }
  uint64_t features = 0, lacking = 0;
  for (unsigned i = 0; i < sizeof kBits / sizeof kBits[0]; ++i) {
    const struct cpuid_bit* b = &kBits[i];
    uint64_t bit = (uint64_t)1 << b->feature;
    if (registers[b->leaf][b->in] >> b->bit & 1)
      features |= bit;
    else
      lacking |= bit;
  }
  features &= ~lacking;
  uint32_t saved = registers[0][kEcx] >> 27 & 1 ? saved_registers() : 0;  // OSXSAVE
  if ((saved & 0x06) != 0x06) features &= ~kAvx;
  if ((saved & 0xe6) != 0xe6) features &= ~kAvx512;
  if ((saved & 0x60000) != 0x60000 || !(features & kAmx) || !may_use_tiles()) features &= ~kAmx;
  return features;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>
#include <sys/prctl.h>

// Bits of AT_HWCAP and AT_HWCAP2. A feature is there when all of its bits are.
static const struct {
  uint8_t feature;
  uint32_t words[2];
} kFeatures[] = {
    {NACRE_FEATURE_arm_neon, {1u << 1, 0}},
    {NACRE_FEATURE_arm_fp16, {1u << 9 | 1u << 10, 0}},
    {NACRE_FEATURE_arm_dotprod, {1u << 20, 0}},
    {NACRE_FEATURE_arm_v82, {1u << 7 | 1u << 8 | 1u << 12, 0}},
    {NACRE_FEATURE_arm_sve, {1u << 22, 0}},
    {NACRE_FEATURE_arm_i8mm, {0, 1u << 13}},
    {NACRE_FEATURE_arm_bf16, {0, 1u << 14}},
};

uint64_t nacre_device_features(void) {
  const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  uint64_t features = 0;
  for (unsigned i = 0; i < sizeof kFeatures / sizeof kFeatures[0]; ++i)
    if (!(kFeatures[i].words[0] & ~words[0]) && !(kFeatures[i].words[1] & ~words[1]))
      features |= (uint64_t)1 << kFeatures[i].feature;
  // Their length is a setting of the system's, not the processor's alone.
  const int kGetVectorLength = 51, kLengthBits = 0xffff;
  if (features >> NACRE_FEATURE_arm_sve & 1 && (prctl(kGetVectorLength) & kLengthBits) == 256 / 8)
    features |= (uint64_t)1 << NACRE_FEATURE_arm_sve256;
  return features;
}

#elif defined(__arm__)

#include <sys/auxv.h>

uint64_t nacre_device_features(void) {
  // Bits of AT_HWCAP.
  const unsigned long kNeon = 1ul << 12, kVfpv4 = 1ul << 16, kDivision = 3ul << 17;
  const unsigned long words = getauxval(AT_HWCAP);
  uint64_t features = 0;
  if (words & kNeon) features |= (uint64_t)1 << NACRE_FEATURE_arm_neon;
  if (!((kVfpv4 | kDivision) & ~words)) features |= (uint64_t)1 << NACRE_FEATURE_arm_vfpv4;
  return features;
}

#elif defined(__riscv)

#include <sys/auxv.h>

// Processors with a draft of the vector extension may set the same bit as those with version 1.0;
// they do not know this vtype, and say so in its highest bit.
static int knows_vectors(void) {
  long vtype;
  __asm__ volatile(
      ".option push\n"
      ".option arch, +v\n"
      "vsetvli t0, zero, e8, m1, ta, ma\n"
      "csrr %0, vtype\n"
      ".option pop"
      : "=r"(vtype)
      :
      : "t0");
  return vtype >= 0;
}

uint64_t nacre_device_features(void) {
  // Single-letter extensions are bits of AT_HWCAP.
#define LETTER(c) (1ul << ((c) - 'a'))
  const unsigned long kGeneral =
      LETTER('i') | LETTER('m') | LETTER('a') | LETTER('f') | LETTER('d') | LETTER('c');
  const unsigned long letters = getauxval(AT_HWCAP);
  uint64_t features = 0;
  if (!(kGeneral & ~letters)) features |= (uint64_t)1 << NACRE_FEATURE_riscv_gc;
  if (letters & LETTER('v') && knows_vectors()) features |= (uint64_t)1 << NACRE_FEATURE_riscv_v;
  return features;
}

#else

uint64_t nacre_device_features(void) { return 0; }

#endif
