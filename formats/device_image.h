// A code image for CUDA devices: a table, the expression nodes that kernels take as parameters, and for each kernel a cubin and
// perhaps its PTX. Kernel `i` is called `k<i>_<its name in META>`. Offsets are from the beginning of the image.
//
// A kernel's parameters have 8 bytes each: the address of each operand, the values of its nodes, the address of the word for
// errors in the data (0 until there is one, then (command + 1) << 32 | code), the command's number, the addresses of the scratch
// of all blocks and of NACRE_DEVICE_COUNTERS numbers of 32 bits, which are 0 and which a kernel leaves so.
//
// Kernels for 9.0 and later let the next one begin early (griddepcontrol.launch_dependents), and wait for those before them where
// they have to (griddepcontrol.wait).
#ifndef NACRE_FORMATS_DEVICE_IMAGE_H
#define NACRE_FORMATS_DEVICE_IMAGE_H

#include <stdint.h>

#define NACRE_MACHINE_CUDA 190                  // ELF's e_machine
#define NACRE_DEVICE_IMAGE_MAGIC 0x4755434eu    // "NCUG"
#define NACRE_DEVICE_ABI 2
#define NACRE_DEVICE_COUNTERS 4096

struct nacre_device_kernel {
  uint64_t cubin, ptx;  // offsets; ptx 0: none. PTX ends in a 0
  uint32_t cubin_size, ptx_size;
  uint32_t threads;  // of a block
  uint32_t operands;
  uint32_t first_node, node_count;
  uint32_t shared_bytes;  // of a block, beside what the kernel itself declares
  uint32_t cluster;       // blocks of a cluster; more than 8 have to be asked for. 0: of older files
};

struct nacre_device_image {
  uint32_t magic;
  uint32_t abi;
  uint32_t compute_capability;  // that the cubins are for: 90
  uint32_t kernel_count;
  uint32_t node_count;
  uint32_t reserved;
  // kernel_count kernels, node_count numbers of 32 bits
};

#endif
