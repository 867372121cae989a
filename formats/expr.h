// Expression lists -> numbers, for guards, sizes and offsets.
#ifndef NACRE_FORMATS_EXPR_H
#define NACRE_FORMATS_EXPR_H

#include <stdbool.h>

#include "formats/meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// Evaluates `count` nodes into values[first ...], which holds the values of the nodes before them.
// False on overflow or division by zero.
bool nacre_expr_evaluate(const struct nacre_node* nodes, uint32_t count, uint32_t first,
                         const int64_t* symbols, int64_t* values);

static inline int64_t nacre_size_value(nacre_size size, const int64_t* values) {
  return size >= 0 ? size : values[~size];
}

#ifdef __cplusplus
}
#endif

#endif
