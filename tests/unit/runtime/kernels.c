// Kernels for the runtime's tests, in the form in which the compiler makes them: freestanding,
// found through one table.
#include "formats/kernel_abi.h"

__asm__(
    ".section .rodata.nacre_kernels,\"a\"\n"
    ".balign 8\n"
    ".globl nacre_kernels\n"
    "nacre_kernels: .long 0x4b52434e, 1, 8, 0\n"
    ".long scale - nacre_kernels\n"
    ".long sum - nacre_kernels\n"
    ".long gather - nacre_kernels\n"
    ".long count - nacre_kernels\n"
    ".long less - nacre_kernels\n"
    ".long clear - nacre_kernels\n"
    ".long mark - nacre_kernels\n"
    ".long divide - nacre_kernels\n"
    ".previous\n");

#ifdef __arm__
// The compiler's division of 64-bit integers calls it for a divisor of 0.
__attribute__((visibility("hidden"))) int raise(int signal) { return signal; }
#endif

#define KERNEL(name) \
  __attribute__((visibility("hidden"))) nacre_abi_i32 name(const struct nacre_kernel_args* args)

// Calls between here and the C library's memset and memcpy are what an image may import.
void* memset(void*, int, __SIZE_TYPE__);

// buffers: x, y; nodes[2] elements. y = 2 * x
KERNEL(scale) {
  const float* x = args->buffers[0];
  float* y = args->buffers[1];
  nacre_abi_i64 n = args->nodes[2];
  for (nacre_abi_i64 i = n * args->thread / args->threads;
       i < n * (args->thread + 1) / args->threads; ++i)
    y[i] = 2.0f * x[i];
  return 0;
}

// buffers: x, parts (a float for each thread), y. y[0] = sum of x, in two phases
KERNEL(sum) {
  const float* x = args->buffers[0];
  float* parts = args->buffers[1];
  float* y = args->buffers[2];
  nacre_abi_i64 n = args->nodes[2];
  float total = 0;
  for (nacre_abi_i64 i = n * args->thread / args->threads;
       i < n * (args->thread + 1) / args->threads; ++i)
    total += x[i];
  parts[args->thread] = total;
  args->sync(args);
  if (args->thread == 0) {
    total = 0;
    for (nacre_abi_u32 t = 0; t < args->threads; ++t) total += parts[t];
    y[0] = total;
  }
  return 0;
}

// buffers: table of 4, indices (int64), y; nodes[2] indices
KERNEL(gather) {
  const float* table = args->buffers[0];
  const nacre_abi_i64* index = args->buffers[1];
  float* y = args->buffers[2];
  nacre_abi_i64 n = args->nodes[2];
  nacre_abi_i32 code = 0;
  for (nacre_abi_i64 i = n * args->thread / args->threads;
       i < n * (args->thread + 1) / args->threads; ++i) {
    if (index[i] < 0 || index[i] >= 4)
      code = NACRE_DATA_ERROR(NACRE_DATA_INDEX, 1);
    else
      y[i] = table[index[i]];
  }
  return code;
}

// buffers: counter (int64), y (int64). ++counter, y = counter
KERNEL(count) {
  nacre_abi_i64* counter = args->buffers[0];
  nacre_abi_i64* y = args->buffers[1];
  *y = ++*counter;
  return 0;
}

// buffers: value, limit (int64), result (bool)
KERNEL(less) {
  const nacre_abi_i64 *value = args->buffers[0], *limit = args->buffers[1];
  unsigned char* result = args->buffers[2];
  *result = *value < *limit;
  return 0;
}

// buffers: y; nodes[2] floats. Uses an import.
KERNEL(clear) {
  memset(args->buffers[0], 0, (__SIZE_TYPE__)args->nodes[2] * 4);
  return 0;
}

// buffers: y (uint8 for each thread). Writes scratch too, to see that it is this thread's.
KERNEL(mark) {
  unsigned char* y = args->buffers[0];
  volatile nacre_abi_u32* scratch = args->scratch;
  for (int i = 0; i < 16; ++i) scratch[i] = args->thread;
  args->sync(args);
  for (int i = 0; i < 16; ++i)
    if (scratch[i] != args->thread) return NACRE_DATA_ERROR(NACRE_DATA_ASSERT, 0);
  y[args->thread] = (unsigned char)(1 + args->threads);
  return 0;
}

// buffers: a, b, y (int64 each)
KERNEL(divide) {
  const nacre_abi_i64 *a = args->buffers[0], *b = args->buffers[1];
  nacre_abi_i64* y = args->buffers[2];
  if (*b == 0) return NACRE_DATA_ERROR(NACRE_DATA_DIVISION, 0);
  *y = *a / *b;
  return 0;
}
