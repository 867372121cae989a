// The outermost structure of an artifact: a header, a table of sections, the sections.
// Little-endian, as all machines that nacre runs on.
#ifndef NACRE_FORMATS_CONTAINER_H
#define NACRE_FORMATS_CONTAINER_H

#include <stdint.h>

// As in PNG, a byte that is not ASCII and both kinds of line end, so that a copy in text mode is
// noticed.
#define NACRE_MAGIC "\x89NACRE\r\n"
#define NACRE_FORMAT_MAJOR 1
#define NACRE_FORMAT_MINOR 1  // 1: NACRE_EXPR_NUMBER, weights apart

#define NACRE_MAX_SECTIONS 64
#define NACRE_DATA_ALIGN 64    // of the DATA section, each weight, the arena, each buffer in it
#define NACRE_CODE_ALIGN 4096  // of a CODE section, so that its pages can be mapped from the file

// The least multiple of NACRE_DATA_ALIGN that is not below `size`.
static inline uint64_t nacre_align_data(uint64_t size) {
  return (size + NACRE_DATA_ALIGN - 1) / NACRE_DATA_ALIGN * NACRE_DATA_ALIGN;
}

struct nacre_file_header {
  uint8_t magic[8];
  uint64_t digest;  // XXH3-64 of everything from the next field to the end of the section table
  uint16_t major;
  uint16_t minor;
  uint32_t section_count;
  uint64_t file_size;
  // 0, or the size of this file where DATA lies in another: what file_size and the section table say is true of the two, one behind
  // the other. Then the other's end must have the digest of DATA.
  uint64_t apart;
  uint64_t apart_digest;
  uint8_t reserved[16];  // 0
};

// Where a file of weights begins in the two files together: a page of any system.
#define NACRE_APART_ALIGN 65536

// What a file of weights ends with, after them: whose they are. Not counted in file_size.
#define NACRE_WEIGHTS_MAGIC "\x89NACREW\n"
struct nacre_weights_end {
  uint8_t magic[8];
  uint64_t digest;  // XXH3-64 of the weights, as the section table has it
  uint8_t reserved[48];  // 0
};

enum nacre_section_kind {
  NACRE_SECTION_META = 1,  // one flatbuffer, meta.fbs; exactly one, the first
  NACRE_SECTION_DATA = 2,  // weights; at most one
  NACRE_SECTION_CODE = 3,  // one code image; `id` is its number in META's list of images
  NACRE_SECTION_SIGN = 4,  // a signature over the table; not made yet
  NACRE_SECTION_CHOICES = 5,  // optional: other kernels that commands could call, as lines of text (writer.h); no runtime reads it
};

// A reader skips a section of a kind that it does not know if this is set, and refuses the file
// otherwise.
#define NACRE_SECTION_OPTIONAL 1u

// Follows the header. Sections rise in offset and do not overlap.
struct nacre_section {
  uint32_t kind;
  uint32_t flags;
  uint64_t offset;
  uint64_t size;
  uint32_t align;  // a power of two; offset is a multiple of it
  uint32_t id;
  uint64_t digest;  // XXH3-64 of the contents
};

#endif
