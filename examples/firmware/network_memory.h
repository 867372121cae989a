// What both programs do with the network besides running it: give it memory, see how much it takes, compare its results.
#ifndef NETWORK_MEMORY_H
#define NETWORK_MEMORY_H

#include "board/board.h"
#include "network.h"  // written by nacre compile

static _Alignas(NETWORK_ALIGNMENT) uint8_t arena[NETWORK_ARENA_BYTES];

// Prints what the header promises and what a call takes of the stack, with interrupts masked. False where that is more.
static bool report_memory(const float* input, float* output) {
  board_mask_interrupts();
  const uint32_t used = STACK_USED(network_run(arena, input, output));
  board_unmask_interrupts();
  print("  arena ");
  print_number(NETWORK_ARENA_BYTES);
  print(" bytes, stack at most ");
  print_number(NETWORK_STACK_BYTES);
  print(", used ");
  print_number(used);
  print("\n");
  return used <= NETWORK_STACK_BYTES;
}

static float largest_difference(const float* a, const float* b, uint32_t count) {
  float largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const float d = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
    if (!(d <= largest)) largest = d == d ? d : 3e38f;  // not a number counts as the largest
  }
  return largest;
}

#endif
