// A program around one function of a static library, for `nacre compile` to try it: on a board that QEMU emulates, with files
// through semihosting, or under Linux, with standard input and output. It reads a header and a piece of memory in which the
// function's arguments lie, makes one call on a painted stack, and writes the memory as it is then.
//
// Whoever includes it has defined:
//   int32_t harness_call(void* arena, void* state, char* const* blocks)   calls the function
//   void harness_init(void* state)
#ifndef NACRE_HARNESS_H
#define NACRE_HARNESS_H
#include "nacre/base.h"

inline constexpr uint32_t kMostBlocks = 1024;

struct HarnessHeader {
  uint32_t memory_bytes;  // of all blocks; the arena lies behind them
  uint32_t arena_bytes;
  uint32_t paint_bytes;  // of stack
  uint32_t begin_anew;   // state gets its first contents; else block 0 has it
  uint32_t block_count;
  uint32_t offsets[kMostBlocks];  // of blocks; block 0 is the state
};
struct HarnessResult {
  uint32_t status;
  uint32_t stack_bytes;
};

extern "C" __attribute__((visibility("default"))) void* memcpy(void* __restrict to, const void* __restrict from, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<volatile char*>(to)[i] = static_cast<const char*>(from)[i];
  return to;
}
extern "C" __attribute__((visibility("default"))) void* memset(void* to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<volatile char*>(to)[i] = static_cast<char>(value);
  return to;
}

#if defined(__arm__) && __ARM_ARCH_PROFILE == 'M'
static inline int32_t semihosting(int32_t operation, const void* arguments) {
  register int32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
static int32_t open_file(const char* name, uint32_t length, uint32_t mode) {
  const uintptr_t arguments[] = {reinterpret_cast<uintptr_t>(name), mode, length};
  return semihosting(1, arguments);
}
static void transfer(int32_t operation, int32_t file, void* bytes, size_t size) {
  const uintptr_t arguments[] = {static_cast<uintptr_t>(file), reinterpret_cast<uintptr_t>(bytes), size};
  semihosting(operation, arguments);
}
static void read_input(int32_t file, void* to, size_t size) { transfer(6, file, to, size); }
static void write_output(int32_t file, const void* from, size_t size) { transfer(5, file, const_cast<void*>(from), size); }
static int32_t input_file() { return open_file("in", 2, 1); }
static int32_t output_file() { return open_file("out", 3, 5); }
[[noreturn]] static void leave() {
  semihosting(0x18, reinterpret_cast<const void*>(0x20026));
  for (;;) {
  }
}
extern "C" char harness_memory[];  // of the linker script: from here on, up to the stack
static char* memory_of(size_t) { return harness_memory; }
extern "C" void harness_main();
extern "C" __attribute__((noreturn, used)) void harness_fault() {
  semihosting(0x18, reinterpret_cast<const void*>(0x20023));
  for (;;) {
  }
}
// The floating-point unit, and with it MVE, is off after a reset.
extern "C" __attribute__((noreturn, used)) void _start() {
  *reinterpret_cast<volatile uint32_t*>(0xe000ed88) |= 0xf00000;
  __asm__ volatile("dsb\n isb");
  harness_main();
  leave();
}
extern "C" char harness_stack_top[];
struct Vectors {
  const void* stack;
  void (*handlers[15])();
};
extern "C" __attribute__((section(".vectors"), used)) const Vectors harness_vectors = {
    harness_stack_top, {_start, harness_fault, harness_fault, harness_fault, harness_fault, harness_fault, harness_fault, harness_fault}};
#else
#if defined(__x86_64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return number;
}
enum { kRead = 0, kWrite = 1, kMap = 9, kExit = 60 };
__asm__(".globl _start\n_start: andq $-16, %rsp\n call harness_main\n ud2");
#elif defined(__aarch64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
enum { kRead = 63, kWrite = 64, kMap = 222, kExit = 93 };
__asm__(".globl _start\n_start: bl harness_main\n brk 0");
#elif defined(__arm__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
  return r0;
}
enum { kRead = 3, kWrite = 4, kMap = 192, kExit = 1 };
__asm__(".globl _start\n_start: bl harness_main\n udf #0");
#else
static inline long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d;
  register long a4 __asm__("a4") = e;
  register long a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
}
enum { kRead = 63, kWrite = 64, kMap = 222, kExit = 93 };
__asm__(".globl _start\n_start: call harness_main\n unimp");
#endif
static void read_input(int32_t file, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const long n = system_call(kRead, file, reinterpret_cast<long>(to) + static_cast<long>(done), static_cast<long>(size - done), 0, 0, 0);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}
static void write_output(int32_t file, const void* from, size_t size) {
  for (size_t done = 0; done < size;) {
    const long n = system_call(kWrite, file, reinterpret_cast<long>(from) + static_cast<long>(done), static_cast<long>(size - done), 0, 0, 0);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}
static int32_t input_file() { return 0; }
static int32_t output_file() { return 1; }
[[noreturn]] static void leave() {
  system_call(kExit, 0, 0, 0, 0, 0, 0);
  for (;;) {
  }
}
static char* memory_of(size_t size) { return reinterpret_cast<char*>(system_call(kMap, 0, static_cast<long>(size), 3, 0x22, -1, 0)); }
#endif

static inline char* stack_pointer() {
  char* at;
#if defined(__x86_64__)
  __asm__ volatile("movq %%rsp, %0" : "=r"(at));
#elif defined(__riscv)
  __asm__ volatile("mv %0, sp" : "=r"(at));
#else
  __asm__ volatile("mov %0, sp" : "=r"(at));
#endif
  return at;
}

// The bytes of stack below this function that the call changed.
__attribute__((noinline)) static HarnessResult call_on_paint(void* arena, char* const* blocks, uint32_t paint_bytes) {
  constexpr uint32_t kPaint = 0x5aa5c33c;
  char* const top = stack_pointer();
  volatile uint32_t* const bottom = reinterpret_cast<volatile uint32_t*>(top - paint_bytes);
  for (uint32_t i = 0; i < paint_bytes / 4; ++i) bottom[i] = kPaint;
  HarnessResult result;
  result.status = static_cast<uint32_t>(harness_call(arena, blocks[0], blocks));
  uint32_t clean = 0;
  while (clean < paint_bytes / 4 && bottom[clean] == kPaint) ++clean;
  result.stack_bytes = paint_bytes - clean * 4;
  return result;
}

extern "C" __attribute__((used, visibility("default"))) void harness_main() {
  const int32_t in = input_file(), out = output_file();
  HarnessHeader header;
  read_input(in, &header, sizeof header);
  char* const memory = memory_of(header.memory_bytes + header.arena_bytes + 64);
  read_input(in, memory, header.memory_bytes);
  char* blocks[kMostBlocks];
  for (uint32_t i = 0; i < header.block_count; ++i) blocks[i] = memory + header.offsets[i];
  if (header.begin_anew) harness_init(blocks[0]);
  const HarnessResult result = call_on_paint(memory + header.memory_bytes, blocks, header.paint_bytes);
  write_output(out, &result, sizeof result);
  write_output(out, memory, header.memory_bytes);
  leave();
}
#endif
