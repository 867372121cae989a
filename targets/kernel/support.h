// Functions that the compiler calls by itself. An image has no imports, so that it carries its own: they are compiled with its
// table of kernels, and the linker drops those that no kernel calls. No kernel includes this. A static library (NACRE_LIBRARY)
// takes memcpy and memset from the program that it is linked into; what else it has gives way to the program's own.
//
//   memcpy, memset       copies and clears something large; the loops stay loops because kernels are compiled with -ffreestanding
//   fminf, fmaxf         a choice between a float16 and another one, where the machine computes with float32 in its place: LLVM
//                        makes a minimum of it, and asks for the function. The second operand wins between equals: zeros have signs
//   __aeabi_memcpy, ...  the same under the names of 32-bit Arm
//   __aeabi_ldivmod, __aeabi_uldivmod   64-bit division there: quotient in r0 and r1, remainder in r2 and r3
//   __extendhfsf2, __truncsfhf2     float16 to float32 and back (to nearest even) on a machine that has no instruction for it
#ifndef NACRE_KERNEL_SUPPORT_H
#define NACRE_KERNEL_SUPPORT_H
#include "nacre/base.h"

#ifndef NACRE_SUPPORT
#ifdef NACRE_LIBRARY
#define NACRE_SUPPORT extern "C" __attribute__((visibility("hidden"), weak))
#else
#define NACRE_SUPPORT extern "C" __attribute__((visibility("hidden")))
#endif
#endif

#ifdef NACRE_LIBRARY
extern "C" void* memcpy(void* to, const void* from, __SIZE_TYPE__ size);
extern "C" void* memset(void* to, int value, __SIZE_TYPE__ size);
#else
NACRE_SUPPORT void* memcpy(void* __restrict to, const void* __restrict from, __SIZE_TYPE__ size) {
  char* t = static_cast<char*>(to);
  const char* f = static_cast<const char*>(from);
  for (__SIZE_TYPE__ i = 0; i < size; ++i) t[i] = f[i];
  return to;
}
NACRE_SUPPORT void* memset(void* to, int value, __SIZE_TYPE__ size) {
  char* t = static_cast<char*>(to);
  for (__SIZE_TYPE__ i = 0; i < size; ++i) t[i] = static_cast<char>(value);
  return to;
}
#endif

NACRE_SUPPORT float fminf(float a, float b) { return a < b || b != b ? a : b; }
NACRE_SUPPORT float fmaxf(float a, float b) { return a > b || b != b ? a : b; }

#if defined(__arm__)
NACRE_SUPPORT void __aeabi_memcpy(void* to, const void* from, __SIZE_TYPE__ size) { memcpy(to, from, size); }
NACRE_SUPPORT void __aeabi_memcpy4(void* to, const void* from, __SIZE_TYPE__ size) { memcpy(to, from, size); }
NACRE_SUPPORT void __aeabi_memcpy8(void* to, const void* from, __SIZE_TYPE__ size) { memcpy(to, from, size); }
NACRE_SUPPORT void __aeabi_memset(void* to, __SIZE_TYPE__ size, int value) { memset(to, value, size); }
NACRE_SUPPORT void __aeabi_memset4(void* to, __SIZE_TYPE__ size, int value) { memset(to, value, size); }
NACRE_SUPPORT void __aeabi_memset8(void* to, __SIZE_TYPE__ size, int value) { memset(to, value, size); }
NACRE_SUPPORT void __aeabi_memclr(void* to, __SIZE_TYPE__ size) { memset(to, 0, size); }
NACRE_SUPPORT void __aeabi_memclr4(void* to, __SIZE_TYPE__ size) { memset(to, 0, size); }
NACRE_SUPPORT void __aeabi_memclr8(void* to, __SIZE_TYPE__ size) { memset(to, 0, size); }

// Under the base convention, a vector of four words comes back in r0 to r3.
typedef uint32_t four_words __attribute__((vector_size(16)));
static inline four_words divide(uint64_t a, uint64_t b, bool negative_quotient, bool negative_remainder) {
  uint64_t quotient = 0, rest = a;
  if (b != 0 && b <= a) {
    int shift = __builtin_clzll(b) - __builtin_clzll(a);
    for (uint64_t step = b << shift; shift >= 0; --shift, step >>= 1)
      if (rest >= step) {
        rest -= step;
        quotient |= 1ull << shift;
      }
  }
  if (negative_quotient) quotient = -quotient;
  if (negative_remainder) rest = -rest;
  return four_words{static_cast<uint32_t>(quotient), static_cast<uint32_t>(quotient >> 32), static_cast<uint32_t>(rest), static_cast<uint32_t>(rest >> 32)};
}
__attribute__((pcs("aapcs"))) NACRE_SUPPORT four_words __aeabi_uldivmod(uint64_t a, uint64_t b) { return divide(a, b, false, false); }
__attribute__((pcs("aapcs"))) NACRE_SUPPORT four_words __aeabi_ldivmod(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a < 0 ? -a : a), y = static_cast<uint64_t>(b < 0 ? -b : b);
  return divide(x, y, (a < 0) != (b < 0), a < 0);
}
#endif

#if defined(__x86_64__) && !defined(__F16C__)
NACRE_SUPPORT float __extendhfsf2(_Float16 x) {
  const uint32_t bits = __builtin_bit_cast(uint16_t, x), sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  uint32_t wide = (magnitude << 13) + (112u << 23);
  if (magnitude < 0x400) wide = __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  if (magnitude >= 0x7c00) wide = (magnitude << 13) | 0x7f800000;
  return __builtin_bit_cast(float, sign | wide);
}
NACRE_SUPPORT _Float16 __truncsfhf2(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x), magnitude = bits & 0x7fffffff;
  uint32_t half = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
  // Below 2^-14 float16 has steps of 2^-24, which are those of a float32 between 1/2 and 1.
  if (magnitude < 0x38800000)
    half = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000;
  if (magnitude >= 0x477ff000) half = 0x7c00;
  if (magnitude > 0x7f800000) half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  return __builtin_bit_cast(_Float16, static_cast<uint16_t>((bits >> 16 & 0x8000) | half));
}
#endif

#undef NACRE_SUPPORT
#endif
