// The outermost structure of an artifact: a header, a table of sections, the sections.
// Little-endian, as all machines that nacre runs on.
#ifndef NACRE_FORMATS_CONTAINER_H
#define NACRE_FORMATS_CONTAINER_H

#include <stdint.h>

// As in PNG, a byte that is not ASCII and both kinds of line end, so that a copy in text mode is
// noticed.
#define NACRE_MAGIC "\x89NACRE\r\n"
#define NACRE_FORMAT_MAJOR 1
#define NACRE_FORMAT_MINOR 0

#define NACRE_MAX_SECTIONS 64
#define NACRE_DATA_ALIGN 64    // of the DATA section, each weight, the arena, each buffer in it
#define NACRE_CODE_ALIGN 4096  // of a CODE section, so that its pages can be mapped from the file
#define NACRE_MAX_RANK 16      // also in runtime/include/nacre/nacre.h
// Every single buffer is far below this, so that sums of a few of them cannot overflow.
#define NACRE_MAX_BYTES ((int64_t)1 << 47)

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
  uint8_t reserved[32];  // 0
};

enum nacre_section_kind {
  NACRE_SECTION_META = 1,  // one flatbuffer, meta.fbs; exactly one, the first
  NACRE_SECTION_DATA = 2,  // weights; at most one
  NACRE_SECTION_CODE = 3,  // one code image; `id` is its number in META's list of images
  NACRE_SECTION_SIGN = 4,  // a signature over the table; not made yet
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

// A size, offset, dimension or count in META: a constant (>= 0), or the value of an expression
// node, written as ~number (< 0).
typedef int64_t nacre_size;

enum nacre_slot_kind {
  NACRE_SLOT_INPUT = 0,
  NACRE_SLOT_OUTPUT = 1,
  NACRE_SLOT_WEIGHT = 2,
  NACRE_SLOT_STATE = 3,
  NACRE_SLOT_ARENA = 4,
};

enum nacre_stride_order {
  NACRE_STRIDES_CONTIGUOUS = 0,
  NACRE_STRIDES_CHANNELS_LAST = 1,
};

// Flags of a command.
#define NACRE_COMMAND_BARRIER 1u  // wait for all threads first
#define NACRE_COMMAND_TEAM 2u     // the kernel calls sync

// Flags of an input.
#define NACRE_TENSOR_MUTATED 1u  // the call writes into it
#define NACRE_TENSOR_SCALAR 2u   // a Python number: rank 0, read by value guards

enum nacre_guard_kind {
#define NACRE_GUARD(number, id, stage, text) NACRE_GUARD_##id = number,
#include "formats/guards.def"
#undef NACRE_GUARD
  NACRE_GUARD_KINDS
};
// True for records that say something about one dimension.
static inline int nacre_guard_of_dim(uint32_t kind) {
  return kind == NACRE_GUARD_bind || kind == NACRE_GUARD_equal || kind == NACRE_GUARD_range ||
         kind == NACRE_GUARD_multiple || kind == NACRE_GUARD_equal_node;
}
enum nacre_command_kind {
#define NACRE_COMMAND(number, id, operands, text) NACRE_COMMAND_##id = number,
#include "formats/commands.def"
#undef NACRE_COMMAND
  NACRE_COMMAND_KINDS
};
enum nacre_expr_kind {
#define NACRE_EXPR(number, id, inputs, text) NACRE_EXPR_##id = number,
#include "formats/exprs.def"
#undef NACRE_EXPR
  NACRE_EXPR_KINDS
};

#endif
