// An opened artifact: verified tables, loaded code. Immutable once made.
#ifndef NACRE_RUNTIME_MODEL_H
#define NACRE_RUNTIME_MODEL_H

#include <nacre/nacre.h>
#include <stdbool.h>

#include "formats/verify.h"
#include "runtime/image.h"

struct nacre_model_variant {
  struct nacre_variant_view view;
  uint32_t entry;
  bool loaded;      // all code that it calls is there
  uint32_t shared;  // records that its row begins with as the row before it in the entry does
  bool binds;       // gives symbols their values while it runs
  bool cuda;        // its kernels run on the GPU
};

struct nacre_model_entry {
  struct nacre_entry_view view;
  uint32_t first_variant;  // in the model's list
  bool by_shapes;          // its rows look at shapes, dtypes and strides alone
};

// The most of each that a variant of any entry has: what a session must have room for.
struct nacre_model_limits {
  uint32_t nodes;          // that a run needs
  uint32_t profile_nodes;  // all of them
  uint32_t commands, command_operands, inputs, outputs, output_rank, import_operands;
  bool binds;
};

struct nacre_model {
  struct nacre_container container;
  struct nacre_meta_view counts;
  size_t mapping_size;  // of container.bytes, if the model mapped the file itself
  uint64_t features;
  uint64_t state_bytes;
  struct nacre_model_limits limits;
  struct nacre_image* images;
  nacre_kernel* kernels;  // NULL where the image is not loaded
  nacre_import* imports;
  uint64_t *state_offsets, *weight_offsets;
  struct nacre_model_entry* entries;
  struct nacre_model_variant* variants;
  struct nacre_cuda_model* cuda;  // NULL: no device, or nothing for it
};

#endif
