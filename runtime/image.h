// A code image in memory, ready to be called.
#ifndef NACRE_RUNTIME_IMAGE_H
#define NACRE_RUNTIME_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/kernel_abi.h"

struct nacre_image {
  uint8_t* base;  // NULL: not loaded
  size_t size;
  const struct nacre_kernel_table* table;
};

// Loads an ELF shared object. NULL, or what is wrong with it. All offsets are checked: a damaged
// file does not crash the loader. The code itself can do what it likes once it is called.
const char* nacre_image_load(struct nacre_image* image, const void* bytes, size_t size);
void nacre_image_unload(struct nacre_image* image);

// NULL if there is no such kernel.
nacre_kernel nacre_image_kernel(const struct nacre_image* image, uint32_t index);

#endif
