// Text output without a C library: numbers are written with integer arithmetic and single precision alone.
#include "board.h"

// One semihosting operation (ARM's "Semihosting for AArch32 and AArch64"; RISC-V has taken over its numbers). Arguments and
// result are where the calling convention puts them. RISC-V's three instructions are uncompressed and in one page.
__attribute__((naked, noinline, aligned(16))) static uintptr_t semihost(uintptr_t operation, const void* argument) {
#ifdef __arm__
  __asm__("bkpt 0xAB\nbx lr");
#else
  __asm__(".option norvc\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\nret");
#endif
}

enum { kWrite0 = 0x04, kExitExtended = 0x20, kApplicationExit = 0x20026 };

void print(const char* text) { semihost(kWrite0, text); }

void stop(int status) {
  const uintptr_t arguments[2] = {kApplicationExit, (uintptr_t)status};
  semihost(kExitExtended, arguments);
  for (;;) board_sleep();
}

void print_number(uint32_t number) {
  char text[11];
  char* at = text + sizeof text - 1;
  *at = 0;
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  print(at);
}

void print_seconds(uint32_t time_ms) {
  const char hundredths[] = {'.', (char)('0' + time_ms / 100 % 10), (char)('0' + time_ms / 10 % 10), ' ', 's', 0};
  print_number(time_ms / 1000);
  print(hundredths);
}

void print_scientific(float value) {
  int exponent = 0;
  if (!(value >= -3e38f && value <= 3e38f)) {
    print("not a number");
    return;
  }
  if (value < 0) {
    print("-");
    value = -value;
  }
  if (value == 0) {
    print("0");
    return;
  }
  for (; value >= 9.95f; ++exponent) value /= 10;
  for (; value < 0.995f; --exponent) value *= 10;
  const uint32_t tenths = (uint32_t)(value * 10 + 0.5f);
  const uint32_t magnitude = (uint32_t)(exponent < 0 ? -exponent : exponent);
  print_number(tenths / 10);
  print(".");
  print_number(tenths % 10);
  print(exponent < 0 ? "e-" : "e+");
  if (magnitude < 10) print("0");
  print_number(magnitude);
}
