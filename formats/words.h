// Guards and expressions in words, for messages and for `nacre inspect`: both say the same.
#ifndef NACRE_FORMATS_WORDS_H
#define NACRE_FORMATS_WORDS_H

#include "formats/meta.h"
#include "formats/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// One variant with what its numbers refer to.
struct nacre_words {
  const nacre_meta* meta;
  uint32_t entry, variant;
  struct nacre_entry_view entry_view;
  struct nacre_variant_view variant_view;
};
void nacre_words_open(struct nacre_words* words, const nacre_meta* meta, uint32_t entry,
                      uint32_t variant);

// "8*s0 + 1"; a size that is a constant is a number.
void nacre_words_size(const struct nacre_words* words, nacre_size size, struct nacre_text* text);

// All that the row wants of one dimension: "a multiple of 2 in [12, 4096]".
void nacre_words_dim(const struct nacre_words* words, uint32_t input, uint32_t dim,
                     struct nacre_text* text);

// What one record wants, to be put after "wants": "rank 4", "dtype f32", ...
void nacre_words_guard(const struct nacre_words* words, const struct nacre_guard* guard,
                       struct nacre_text* text);

// "AVX2, FMA"
void nacre_words_features(uint64_t features, struct nacre_text* text);

// "input 'x'", or "input 0" where it has no name.
void nacre_words_input(const struct nacre_words* words, uint32_t input, struct nacre_text* text);

// What a command that is an import calls: `(f32[s0, 4], f32[4]) -> f32[s0, 4] with {"factor":2.5}`.
void nacre_words_import(const struct nacre_words* words, const struct nacre_command* command,
                        struct nacre_text* text);

// "aten.index.Tensor (model.py:41, encoder.embed)"
void nacre_words_provenance(const nacre_meta* meta, uint32_t provenance, struct nacre_text* text);

#ifdef __cplusplus
}
#endif
#endif
