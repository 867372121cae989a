// The two functions of the C library that compiled code calls, and the names that ARM's run-time ABI gives them.
#include <stddef.h>
#include <stdint.h>

void* memcpy(void* restrict to, const void* restrict from, size_t size) {
  uint8_t* t = to;
  const uint8_t* f = from;
  if (((uintptr_t)t | (uintptr_t)f) % 4 == 0) {
    for (; size >= 4; size -= 4, t += 4, f += 4) *(uint32_t*)t = *(const uint32_t*)f;
  }
  for (; size; --size) *t++ = *f++;
  return to;
}

void* memset(void* to, int value, size_t size) {
  uint8_t* t = to;
  if ((uintptr_t)t % 4 == 0) {
    const uint32_t word = (uint8_t)value * 0x01010101u;
    for (; size >= 4; size -= 4, t += 4) *(uint32_t*)t = word;
  }
  for (; size; --size) *t++ = (uint8_t)value;
  return to;
}

#ifdef __arm__
void __aeabi_memcpy(void* to, const void* from, size_t size) { memcpy(to, from, size); }
void __aeabi_memcpy4(void* to, const void* from, size_t size) { memcpy(to, from, size); }
void __aeabi_memcpy8(void* to, const void* from, size_t size) { memcpy(to, from, size); }
void __aeabi_memset(void* to, size_t size, int value) { memset(to, value, size); }
void __aeabi_memset4(void* to, size_t size, int value) { memset(to, value, size); }
void __aeabi_memset8(void* to, size_t size, int value) { memset(to, value, size); }
void __aeabi_memclr(void* to, size_t size) { memset(to, 0, size); }
void __aeabi_memclr4(void* to, size_t size) { memset(to, 0, size); }
void __aeabi_memclr8(void* to, size_t size) { memset(to, 0, size); }
#endif
