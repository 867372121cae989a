// Several arrays in one block of memory: taken once to count, and once more to hand out.
#ifndef NACRE_RUNTIME_BLOCK_H
#define NACRE_RUNTIME_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "formats/container.h"

struct nacre_block {
  uint8_t* memory;  // NULL while counting
  uint64_t used;    // bytes: more than SIZE_MAX, where counts of an artifact say so
};

// What is taken next starts at a multiple of 64.
static inline void nacre_block_align(struct nacre_block* block) {
  block->used = nacre_align_data(block->used);
}

// NULL while counting. Counts are products of verified ones: far from 2^64 bytes. Everything starts at a multiple of 8.
static inline void* nacre_block_take(struct nacre_block* block, uint64_t count, size_t size) {
  void* result = block->memory ? block->memory + block->used : NULL;
  block->used += (count * size + 7) / 8 * 8;
  return result;
}

#endif
