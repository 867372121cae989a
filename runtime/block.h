// Several arrays in one block of memory: taken once to count, and once more to hand out.
#ifndef NACRE_RUNTIME_BLOCK_H
#define NACRE_RUNTIME_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "formats/container.h"

struct nacre_block {
  uint8_t* memory;  // NULL while counting
  size_t used;      // bytes
};

// NULL while counting. Everything starts at a multiple of 64.
static inline void* nacre_block_take(struct nacre_block* block, size_t count, size_t size) {
  void* result = block->memory ? block->memory + block->used : NULL;
  block->used += (size_t)nacre_align_data(count * size);
  return result;
}

#endif
