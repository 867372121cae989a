// META as C sees it. The structs at the top lie in the file exactly like this and are used in
// place; the others are filled from flatbuffer tables when asked for. Strings end in 0, are never
// NULL, and live as long as the file's bytes.
#ifndef NACRE_FORMATS_META_H
#define NACRE_FORMATS_META_H

#include <stddef.h>
#include <stdint.h>

#include "formats/kinds.h"

#ifdef __cplusplus
extern "C" {
#endif

// meta.fbs explains the fields.
struct nacre_node {
  uint32_t kind;
  uint32_t a;
  int64_t b;
};

struct nacre_guard {
  uint16_t kind;
  uint16_t input;
  uint16_t dim;
  uint16_t reserved;
  int64_t ref;
  int64_t lo;
  int64_t hi;
};

// Whether a record can be looked at only when the expression list has been evaluated.
static inline int nacre_guard_reads_nodes(const struct nacre_guard* guard) {
  return guard->kind == NACRE_GUARD_equal_node || guard->kind == NACRE_GUARD_node;
}

struct nacre_slot {
  uint32_t kind;
  uint32_t index;
  nacre_size offset;
  nacre_size size;
};

struct nacre_command {
  uint16_t kind;
  uint16_t flags;
  uint32_t threads;
  uint32_t target;
  uint32_t first_operand;
  uint32_t operand_count;
  uint32_t first_provenance;
  uint32_t provenance_count;
  uint32_t grid;
  nacre_size scratch;
  nacre_size flops;
  nacre_size bytes;
};

struct nacre_symbol_view {
  const char* name;
  int64_t min, max, multiple;
};

struct nacre_provenance_view {
  const char *op, *module, *file;
  uint32_t line;
};

struct nacre_tensor_view {
  const char* name;
  uint32_t dtype, flags, rank, layout_count;
  const nacre_size* dims;
  const uint8_t* layout;
  const nacre_size* bounds;  // NULL: none
  uint32_t bound_count;
  const char* path;
};

struct nacre_image_view {
  const char* target;
  uint32_t machine;
  uint64_t features;
};

struct nacre_kernel_view {
  const char* name;
  uint32_t image, index, size_bytes, provenance_count;
  const uint32_t* provenances;
};

struct nacre_weight_view {
  const char* name;
  uint32_t dtype, rank;
  const int64_t* dims;
  uint64_t offset, size;
};

struct nacre_state_view {
  const char* name;
  uint32_t dtype, rank;
  const int64_t* dims;
  uint64_t size;
  int32_t initial;
};

struct nacre_import_view {
  const char *name, *arguments;
  uint32_t input_count;
};

struct nacre_variant_view {
  const char* name;
  const struct nacre_guard* guards;
  const struct nacre_node* nodes;
  const struct nacre_slot* slots;
  const uint32_t* operands;
  const uint32_t* provenances;
  const struct nacre_command* commands;
  uint32_t guard_count, node_count, slot_count, operand_count, provenance_count, command_count;
  uint32_t slot_tensor_count;
  uint32_t spare_nodes;  // of node_count, the last ones
  nacre_size arena_size;
  int64_t arena_bound, scratch_bound;
};

struct nacre_entry_view {
  const char* name;
  const struct nacre_node* nodes;
  uint32_t node_count, input_count, output_count, variant_count;
};

struct nacre_meta_view {
  const char* producer;
  uint32_t kernel_abi;
  uint32_t symbol_count, provenance_count, image_count, kernel_count, weight_count, state_count,
      import_count, entry_count;
};

// META after the structural check, NULL if that fails: offsets inside, alignment, strings that end.
// Whether numbers make sense is verify.h's part. `bytes` must be a multiple of 8 as an address.
typedef struct nacre_meta nacre_meta;
const nacre_meta* nacre_meta_open(const void* bytes, size_t size);

// Numbers out of range are the caller's mistake.
void nacre_meta_read(const nacre_meta* meta, struct nacre_meta_view* view);
void nacre_meta_symbol(const nacre_meta* meta, uint32_t i, struct nacre_symbol_view* view);
void nacre_meta_provenance(const nacre_meta* meta, uint32_t i, struct nacre_provenance_view* view);
void nacre_meta_image(const nacre_meta* meta, uint32_t i, struct nacre_image_view* view);
void nacre_meta_kernel(const nacre_meta* meta, uint32_t i, struct nacre_kernel_view* view);
void nacre_meta_weight(const nacre_meta* meta, uint32_t i, struct nacre_weight_view* view);
void nacre_meta_state(const nacre_meta* meta, uint32_t i, struct nacre_state_view* view);
void nacre_meta_import(const nacre_meta* meta, uint32_t i, struct nacre_import_view* view);
void nacre_meta_entry(const nacre_meta* meta, uint32_t i, struct nacre_entry_view* view);
void nacre_meta_input(const nacre_meta* meta, uint32_t entry, uint32_t i,
                      struct nacre_tensor_view* view);
void nacre_meta_output(const nacre_meta* meta, uint32_t entry, uint32_t i,
                       struct nacre_tensor_view* view);
void nacre_meta_variant(const nacre_meta* meta, uint32_t entry, uint32_t i,
                        struct nacre_variant_view* view);
void nacre_meta_slot_tensor(const nacre_meta* meta, uint32_t entry, uint32_t variant, uint32_t i,
                            struct nacre_tensor_view* view);

#ifdef __cplusplus
}
#endif
#endif
