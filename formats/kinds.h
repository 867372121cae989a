// The words of META: numbers of kinds, flags, and limits. meta.fbs says where each stands.
#ifndef NACRE_FORMATS_KINDS_H
#define NACRE_FORMATS_KINDS_H

#include <stdint.h>

#define NACRE_MAX_RANK 16  // also in runtime/include/nacre/nacre.h
// Every single buffer is far below this, so that sums of a few of them cannot overflow.
#define NACRE_MAX_BYTES ((int64_t)1 << 47)

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
// In a node's kind: the second operand is the number b, not a node.
#define NACRE_EXPR_NUMBER 256u
enum nacre_expr_kind {
#define NACRE_EXPR(number, id, inputs, text) NACRE_EXPR_##id = number,
#include "formats/exprs.def"
#undef NACRE_EXPR
  NACRE_EXPR_KINDS
};

#endif
