// A code image for CUDA devices: a table, the expression nodes that kernels take as parameters, and for each kernel a cubin and
// perhaps its PTX. Kernel `i` is called `k<i>_<its name in META>`. Offsets are from the beginning of the image.
//
// A kernel's parameters have 8 bytes each (but for maps): the address of each operand, the values of its nodes, the address of the word for
// errors in the data (0 until there is one, then (command + 1) << 32 | code), the command's number, the addresses of the scratch
// of all blocks and of NACRE_DEVICE_COUNTERS numbers of 32 bits, which are 0 and which a kernel leaves so.
//
// In front of them, a kernel may have maps of 128 bytes, by which the copy engine reads an operand; the driver encodes them from what a
// map's record says. They are for elements of two bytes, 64 of which from each row make 128 bytes in shared memory, whose pieces of 16
// have changed places; what lies outside is zeros.
//
// Kernels for 9.0 and later let the next one begin early (griddepcontrol.launch_dependents), and wait for those before them where
// they have to (griddepcontrol.wait).
#ifndef NACRE_FORMATS_DEVICE_IMAGE_H
#define NACRE_FORMATS_DEVICE_IMAGE_H

#include <stdint.h>

#define NACRE_MACHINE_CUDA 190                  // ELF's e_machine
#define NACRE_DEVICE_IMAGE_MAGIC 0x4755434eu    // "NCUG"
#define NACRE_DEVICE_ABI 3
#define NACRE_DEVICE_MAP_WORDS 16  // of 8 bytes
#define NACRE_DEVICE_MAP_RANK 5    // dimensions at most
#define NACRE_DEVICE_COUNTERS 4096

struct nacre_device_kernel {
  uint64_t cubin, ptx;  // offsets; ptx 0: none. PTX ends in a 0
  uint32_t cubin_size, ptx_size;
  uint32_t threads;  // of a block
  uint32_t operands;
  uint32_t first_node, node_count;
  uint32_t shared_bytes;  // of a block, beside what the kernel itself declares
  uint32_t cluster;       // blocks of a cluster; more than 8 have to be asked for
  uint32_t resident;      // blocks that a multiprocessor should have at the same time; 0: as they come
  uint32_t first_map, map_count;
  uint32_t reserved;
};

// One operand of a kernel, by dimensions from the innermost on. Pixels are those of a convolution's image: dimensions are channels,
// width, height, images.
struct nacre_device_map {
  uint64_t start;                            // of the first element, in bytes behind the operand's address
  uint64_t strides[NACRE_DEVICE_MAP_RANK - 1];  // in bytes, of all dimensions but the innermost
  uint32_t sizes[NACRE_DEVICE_MAP_RANK];
  uint32_t box[NACRE_DEVICE_MAP_RANK];       // what is read at once; of pixels, so many channels of so many pixels
  uint32_t steps[NACRE_DEVICE_MAP_RANK];     // between elements; of pixels, between those one after the other
  int32_t lower[2], upper[2];                // of pixels: corners of where a filter's first tap may be, from the image's own
  uint32_t rank;
  uint32_t pixels;                           // 1: it is of pixels
  uint32_t operand;
  uint32_t reserved;
};

struct nacre_device_image {
  uint32_t magic;
  uint32_t abi;
  uint32_t compute_capability;  // that the cubins are for: 90
  uint32_t kernel_count;
  uint32_t node_count;
  uint32_t map_count;
  // kernel_count kernels, map_count maps, node_count numbers of 32 bits
};

#endif
