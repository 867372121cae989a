// Measures a call's stack by painting it.
#include "board.h"

static const uint32_t kPaint = 0xC5C5C5C5;

// Not inlined, so that what it paints begins below its caller's frame. It calls nothing itself.
__attribute__((noinline)) void stack_paint(void) {
  uint32_t* top = (uint32_t*)stack_pointer();
  for (uint32_t* word = stack_limit; word < top; ++word) *(volatile uint32_t*)word = kPaint;
}

uint32_t stack_used(uintptr_t top) {
  const volatile uint32_t* word = stack_limit;
  while ((uintptr_t)word < top && *word == kPaint) ++word;
  return (uint32_t)(top - (uintptr_t)word);
}
