// What a compiled kernel receives and returns. Included by the runtime and by every generated
// kernel; needs no other header.
//
// Changing anything here changes NACRE_KERNEL_ABI: an image states the number it was built for and
// the runtime refuses another.
#ifndef NACRE_FORMATS_KERNEL_ABI_H
#define NACRE_FORMATS_KERNEL_ABI_H

// Kernels are freestanding and see no <stdint.h>; these macros are what GCC's and Clang's own
// <stdint.h> uses.
typedef __INT32_TYPE__ nacre_abi_i32;
typedef __INT64_TYPE__ nacre_abi_i64;
typedef __UINT32_TYPE__ nacre_abi_u32;

#define NACRE_KERNEL_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

struct nacre_kernel_args {
  void* const* buffers;        // addresses, in the order of the command's operands
  const nacre_abi_i64* nodes;  // values of the entry's expression list followed by the variant's
  void* scratch;  // this thread's own, as many bytes as the command asks for, 64-byte aligned
  nacre_abi_u32 thread;   // which part of the work is this call's: 0 ... threads - 1
  nacre_abi_u32 threads;  // how many threads execute this command, each with one call
  // Barrier among the `threads` calls of this command. Every call must reach each of them, also one
  // that has found an error. Only for commands flagged `team`; costs nothing when threads is 1.
  // Memory written before it is seen after it.
  void (*sync)(const struct nacre_kernel_args* args);
  void* team;  // the runtime's; kernels do not look inside
};

// 0, or NACRE_DATA_ERROR(kind, which): the data are such that PyTorch would raise, too.
// A kernel that finds an error must not access memory out of range, and may leave its output
// unwritten.
typedef nacre_abi_i32 (*nacre_kernel)(const struct nacre_kernel_args* args);

enum {
  NACRE_DATA_OK = 0,
  NACRE_DATA_INDEX = 1,     // index out of range
  NACRE_DATA_DIVISION = 2,  // integer division or modulo by zero
  NACRE_DATA_ASSERT = 3,    // an assertion of the model does not hold
  NACRE_DATA_RANGE = 4,     // a size that depends on data is out of its range
};

// `which`: the position in the command's provenance list of the operator at fault; 0 where the
// command comes from one operator.
#define NACRE_DATA_ERROR(kind, which) ((nacre_abi_i32)((kind) | ((which) << 8)))
#define NACRE_DATA_ERROR_KIND(code) ((code)&0xff)
#define NACRE_DATA_ERROR_WHICH(code) ((nacre_abi_u32)(code) >> 8)

// An image is an ELF shared object whose entry address (the linker's `--entry=nacre_kernels`) is
// this table. Offsets are relative to the table itself, so that an image needs neither relocations
// nor symbols. In assembly, as no C initialiser can express them:
//
//   .section .rodata.nacre_kernels,"a"
//   .balign 8
//   .globl nacre_kernels
//   nacre_kernels: .long 0x4b52434e, 1, COUNT, 0      // magic, NACRE_KERNEL_ABI, count, reserved
//                  .long kernel_0 - nacre_kernels      // ... one for each kernel
//
// An image may import only memcpy, memmove, memset and memcmp.
#define NACRE_KERNEL_TABLE_MAGIC 0x4b52434eu  // "NCRK"
#define NACRE_KERNEL_TABLE_SYMBOL "nacre_kernels"

struct nacre_kernel_table {
  nacre_abi_u32 magic;
  nacre_abi_u32 abi;
  nacre_abi_u32 count;
  nacre_abi_u32 reserved;  // 0
  nacre_abi_i32 offsets[];
};

#ifdef __cplusplus
}
#endif
#endif
