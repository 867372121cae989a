// Is this artifact well formed? Everything in it is checked once, when it is opened; what runs
// later checks nothing again.
#ifndef NACRE_FORMATS_VERIFY_H
#define NACRE_FORMATS_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "formats/container.h"
#include "formats/meta.h"
#include "formats/text.h"

#ifdef __cplusplus
extern "C" {
#endif

enum nacre_verdict {
  NACRE_VERDICT_GOOD = 0,
  NACRE_VERDICT_DAMAGED,  // not an artifact, truncated, changed, or contradicting itself
  NACRE_VERDICT_NEWER,    // needs a newer reader
};

// What the container holds, for who goes on with it.
struct nacre_container {
  const uint8_t* bytes;
  uint64_t size;
  const struct nacre_section* sections;
  uint32_t section_count;
  const nacre_meta* meta;
  const uint8_t* data;  // NULL without a DATA section
  uint64_t data_size;
};

// Header, table, digests of META and CODE, and all of META. `bytes` must be a multiple of 64 as an
// address. `why` gets a sentence when the verdict is not good.
enum nacre_verdict nacre_verify(const void* bytes, size_t size, struct nacre_container* container,
                                struct nacre_text* why);

// META alone, for an artifact with so many bytes of DATA and code images. The address must be a
// multiple of 8.
enum nacre_verdict nacre_verify_meta(const void* bytes, size_t size, uint64_t data_size,
                                     uint32_t image_count, struct nacre_text* why);

// The digest of DATA, which nacre_verify leaves alone since that would read all of a large file.
enum nacre_verdict nacre_verify_data(const struct nacre_container* container,
                                     struct nacre_text* why);

// The section of an image. The verified container has one for each.
const struct nacre_section* nacre_container_image(const struct nacre_container* container,
                                                  uint32_t image);

#ifdef __cplusplus
}
#endif
#endif
