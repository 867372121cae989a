// What this processor can do, as a bit set of formats/features.def.
#ifndef NACRE_FORMATS_FEATURES_H
#define NACRE_FORMATS_FEATURES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nacre_feature {
#define FEATURE(name, bit, text) NACRE_FEATURE_##name = bit,
#include "formats/features.def"
#undef FEATURE
};

// Of the machine that this runs on; runtime and compiler ask here.
uint64_t nacre_device_features(void);

#ifdef __cplusplus
}
#endif

// ELF's e_machine of this processor.
#if defined(__x86_64__)
#define NACRE_MACHINE 62
#elif defined(__aarch64__)
#define NACRE_MACHINE 183
#elif defined(__riscv) && __riscv_xlen == 64
#define NACRE_MACHINE 243
#elif defined(__arm__)
#define NACRE_MACHINE 40
#else
#error "no code images for this machine yet"
#endif

#endif
