// The verifier in parts, for its own files only: verify.c walks the tables, verify_variant.c one
// variant.
#ifndef NACRE_FORMATS_VERIFY_PARTS_H
#define NACRE_FORMATS_VERIFY_PARTS_H

#include <stdbool.h>

#include "formats/verify.h"

#define NACRE_MAX_SYMBOLS 4096
#define NACRE_MAX_INPUTS 1024

struct nacre_checker {
  const nacre_meta* meta;
  struct nacre_meta_view counts;
  uint64_t data_size;
  struct nacre_text* why;
  enum nacre_verdict verdict;
};

// Records what is wrong and returns false. The pattern is nacre_text_add's, with at most two
// numbers.
bool nacre_bad(struct nacre_checker* checker, const char* pattern, int64_t a, int64_t b);
// The same for what only another version knows, with what to do about it.
bool nacre_newer(struct nacre_checker* checker, const char* pattern, int64_t a, int64_t b);

// [offset, offset + size) lies in [0, limit).
static inline bool nacre_within(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

// Flatbuffers' verifier aligns the length of a vector, but not elements of 8 bytes.
static inline bool nacre_aligned(const void* elements, uint32_t count) {
  return !count || (uintptr_t)elements % 8 == 0;
}

// A constant up to NACRE_MAX_BYTES, or a node below node_count.
static inline bool nacre_size_valid(nacre_size size, uint64_t node_count) {
  return size >= 0 ? size <= NACRE_MAX_BYTES : (uint64_t)~size < node_count;
}

// Symbols that expressions read, as a bit set.
struct nacre_symbol_set {
  uint64_t words[NACRE_MAX_SYMBOLS / 64];
};
static inline void nacre_set_add(struct nacre_symbol_set* set, uint32_t i) {
  set->words[i / 64] |= (uint64_t)1 << (i % 64);
}
static inline bool nacre_set_has(const struct nacre_symbol_set* set, uint32_t i) {
  return set->words[i / 64] >> (i % 64) & 1;
}

// Nodes whose numbers begin at `first`; adds the symbols that they read to `reads`.
bool nacre_check_nodes(struct nacre_checker* checker, const struct nacre_node* nodes,
                       uint32_t count, uint32_t first, struct nacre_symbol_set* reads);
// `what` and `number` are for the message: "input", 0.
bool nacre_check_tensor(struct nacre_checker* checker, const struct nacre_tensor_view* tensor,
                        uint32_t node_count, const char* what, uint32_t number);
bool nacre_check_variant(struct nacre_checker* checker, uint32_t entry,
                         const struct nacre_entry_view* view, uint32_t variant,
                         const struct nacre_symbol_set* entry_reads);

#endif
