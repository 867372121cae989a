// Functions that the compiler calls by itself. An image has no imports, so that it carries its own: they are compiled with its
// table of kernels, and the linker drops those that no kernel calls. No kernel includes this. A static library (NACRE_LIBRARY)
// takes memcpy and memset from the program that it is linked into; what else it has gives way to the program's own.
//
//   memcpy, memset       copies and clears something large; the loops stay loops because kernels are compiled with -ffreestanding
//   fminf, fmaxf         a choice between a float16 and another one, where the machine computes with float32 in its place: LLVM
//                        makes a minimum of it, and asks for the function. The second operand wins between equals: zeros have signs
//   support_arm.h        what there is for 32-bit Arm alone
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
#include "nacre/support_arm.h"
#endif

#if (defined(__x86_64__) && !defined(__F16C__)) || (defined(__riscv) && !defined(__riscv_zfhmin))
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
