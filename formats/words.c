#include "formats/words.h"

#include <stdbool.h>

#include "formats/dtype.h"

void nacre_words_open(struct nacre_words* words, const nacre_meta* meta, uint32_t entry,
                      uint32_t variant) {
  words->meta = meta;
  words->entry = entry;
  words->variant = variant;
  nacre_meta_entry(meta, entry, &words->entry_view);
  nacre_meta_variant(meta, entry, variant, &words->variant_view);
}

static const struct nacre_node* node_at(const struct nacre_words* words, uint64_t number) {
  uint32_t first = words->entry_view.node_count;
  return number < first ? &words->entry_view.nodes[number]
                        : &words->variant_view.nodes[number - first];
}

static const char* const kOperator[] = {
#define NACRE_EXPR(number, id, inputs, text) [number] = text,
#include "formats/exprs.def"
#undef NACRE_EXPR
};

// How tightly a node's text holds together, as in Python: sums, then products; a lower one goes in
// brackets inside a higher one.
enum { kLoose = 0, kSum = 1, kProduct = 2, kWhole = 3, kNumber = 9 };

static uint8_t tightness(uint32_t kind) {
  switch (kind) {
    case NACRE_EXPR_add:
    case NACRE_EXPR_sub:
      return kSum;
    case NACRE_EXPR_mul:
    case NACRE_EXPR_floor_div:
    case NACRE_EXPR_mod:
      return kProduct;
    case NACRE_EXPR_min:
    case NACRE_EXPR_max:
    case NACRE_EXPR_round_up:
      return kWhole;
    default:
      return kLoose;
  }
}

// What the second operand must hold at least: a - (b + c) and a * (b // c) need their brackets, a + (b + c) and
// a * (b * c) do not.
static uint8_t second_tightness(uint32_t kind, uint32_t second) {
  uint8_t own = tightness(kind);
  bool product = kind == NACRE_EXPR_mul && (second & ~NACRE_EXPR_NUMBER) == NACRE_EXPR_mul;
  return kind == NACRE_EXPR_add || product ? own : (uint8_t)(own + 1);
}

// Prints with a stack of its own: an expression in a file may be nested more deeply than the
// machine's stack is. What is nested beyond this one shows as "...".
struct piece {
  const char* string;  // or NULL, and a node or number
  int64_t value;
  uint8_t least;  // tightness without brackets; kNumber: no node
};

static void node_text(const struct nacre_words* words, int64_t number, struct nacre_text* text) {
  struct piece stack[48];
  uint32_t count = 1;
  stack[0] = (struct piece){NULL, number, kLoose};
  while (count) {
    struct piece piece = stack[--count];
    if (piece.string) {
      nacre_text_string(text, piece.string);
      continue;
    }
    if (piece.least == kNumber) {
      nacre_text_number(text, piece.value);
      continue;
    }
    const struct nacre_node* node = node_at(words, (uint64_t)piece.value);
    uint32_t kind = node->kind & ~NACRE_EXPR_NUMBER;
    uint8_t own = tightness(kind);
    struct piece a = {NULL, node->a, kLoose}, b = {NULL, node->b, node->kind == kind ? kLoose : kNumber};
    if (node->kind == NACRE_EXPR_constant) {
      nacre_text_number(text, node->b);
    } else if (node->kind == NACRE_EXPR_symbol) {
      struct nacre_symbol_view symbol;
      nacre_meta_symbol(words->meta, node->a, &symbol);
      nacre_text_string(text, symbol.name);
    } else if (count + 7 > sizeof stack / sizeof stack[0] || text->length + 1 >= text->capacity) {
      nacre_text_string(text, "...");
    } else if (kind == NACRE_EXPR_not_) {
      nacre_text_string(text, "not ");
      a.least = kSum;
      stack[count++] = a;
    } else if (own == kWhole) {
      // Pushed from back to front.
      nacre_text_add(text, "%s(", kOperator[kind]);
      stack[count++] = (struct piece){")", 0, 0};
      stack[count++] = b;
      stack[count++] = (struct piece){", ", 0, 0};
      stack[count++] = a;
    } else {
      if (b.least == kNumber && kind == NACRE_EXPR_mul) {
        b = a;  // 4 * s0
        a = (struct piece){NULL, node->b, kNumber};
      }
      if (own < piece.least) {
        nacre_text_string(text, "(");
        stack[count++] = (struct piece){")", 0, 0};
      }
      if (a.least != kNumber) a.least = own;
      if (b.least != kNumber) b.least = second_tightness(kind, node_at(words, (uint64_t)b.value)->kind);
      stack[count++] = b;
      stack[count++] = (struct piece){" ", 0, 0};
      stack[count++] = (struct piece){kOperator[kind], 0, 0};
      stack[count++] = (struct piece){" ", 0, 0};
      stack[count++] = a;
    }
  }
}

void nacre_words_size(const struct nacre_words* words, nacre_size size, struct nacre_text* text) {
  if (size >= 0)
    nacre_text_number(text, size);
  else
    node_text(words, ~size, text);
}

void nacre_words_dim(const struct nacre_words* words, uint32_t input, uint32_t dim,
                     struct nacre_text* text) {
  int64_t multiple = 1, offset = 0, min = 0, max = INT64_MAX;
  bool exact = false;
  for (uint32_t i = 0; i < words->variant_view.guard_count; ++i) {
    const struct nacre_guard* g = &words->variant_view.guards[i];
    if (g->input != input || g->dim != dim) continue;
    if (g->kind == NACRE_GUARD_equal || g->kind == NACRE_GUARD_equal_node) {
      if (exact) nacre_text_string(text, " and ");
      nacre_words_size(words, g->kind == NACRE_GUARD_equal ? g->lo : ~g->ref, text);
      exact = true;
    } else if (g->kind == NACRE_GUARD_range) {
      if (g->lo > min) min = g->lo;
      if (g->hi < max) max = g->hi;
    } else if (g->kind == NACRE_GUARD_multiple && g->lo > multiple) {
      multiple = g->lo;
    } else if (g->kind == NACRE_GUARD_bind) {
      if (g->lo > multiple) multiple = g->lo;
      offset = g->hi;
    }
  }
  if (exact) return;
  if (multiple > 1) {
    nacre_text_add(text, "a multiple of %d", multiple);
    if (offset)
      nacre_text_add(text, offset > 0 ? " plus %d" : " less %d", offset > 0 ? offset : -offset);
    if (min || max != INT64_MAX) nacre_text_string(text, " ");
  }
  if (max != INT64_MAX)
    nacre_text_add(text, "in [%d, %d]", min, max);
  else if (min)
    nacre_text_add(text, multiple > 1 ? "of %d or more" : "%d or more", min);
  else if (multiple == 1)
    nacre_text_string(text, "any size");
}

// A scalar's limit: an integer, or the bits of a double, of which whole part and three digits are
// shown.
static void value_text(const struct nacre_words* words, const struct nacre_guard* g, int64_t value,
                       struct nacre_text* text) {
  struct nacre_tensor_view tensor;
  nacre_meta_input(words->meta, words->entry, g->input, &tensor);
  if (tensor.dtype != NACRE_f32 && tensor.dtype != NACRE_f64) {
    nacre_text_number(text, value);
    return;
  }
  union {
    int64_t bits;
    double number;
  } as = {value};
  if (!(as.number > -9e15 && as.number < 9e15)) {
    nacre_text_string(text, as.number != as.number ? "nan" : as.number < 0 ? "-huge" : "huge");
    return;
  }
  double magnitude = as.number < 0 ? -as.number : as.number;
  int64_t thousandths = (int64_t)((magnitude - (double)(int64_t)magnitude) * 1000.0 + 0.5);
  int64_t whole = (int64_t)magnitude + thousandths / 1000;
  thousandths %= 1000;
  if (as.number < 0) nacre_text_string(text, "-");
  nacre_text_number(text, whole);
  if (!thousandths) return;
  nacre_text_string(text, thousandths < 10 ? ".00" : thousandths < 100 ? ".0" : ".");
  nacre_text_number(text, thousandths);
}

void nacre_words_guard(const struct nacre_words* words, const struct nacre_guard* g,
                       struct nacre_text* text) {
  switch (g->kind) {
    case NACRE_GUARD_features:
      nacre_words_features((uint64_t)g->lo, text);
      break;
    case NACRE_GUARD_dtype:
      nacre_text_add(
          text, "dtype %s",
          nacre_dtype_name(g->lo > 0 && g->lo < NACRE_DTYPE_COUNT ? (uint32_t)g->lo : 0));
      break;
    case NACRE_GUARD_rank:
      nacre_text_add(text, "rank %d", g->lo);
      break;
    case NACRE_GUARD_bind:
    case NACRE_GUARD_equal:
    case NACRE_GUARD_range:
    case NACRE_GUARD_multiple:
    case NACRE_GUARD_equal_node:
      nacre_words_dim(words, g->input, g->dim, text);
      break;
    case NACRE_GUARD_bind_value:
      nacre_text_string(text, "an integer");
      break;
    case NACRE_GUARD_bind_stride:
      nacre_text_string(text, "steps in memory that are not negative");
      break;
    case NACRE_GUARD_bind_offset:
      nacre_text_string(text, "whole elements between it and what it shares memory with");
      break;
    case NACRE_GUARD_strides:
      nacre_text_string(
          text, g->lo == NACRE_STRIDES_CONTIGUOUS ? "contiguous strides" : "channels-last strides");
      break;
    case NACRE_GUARD_alignment:
      nacre_text_add(text, "an address that is a multiple of %d", g->lo);
      break;
    case NACRE_GUARD_disjoint:
      nacre_text_string(text, "memory apart from ");
      nacre_words_input(words, (uint32_t)g->ref, text);
      break;
    case NACRE_GUARD_value_equal:
      nacre_text_string(text, "the value ");
      value_text(words, g, g->lo, text);
      break;
    case NACRE_GUARD_value_range:
      nacre_text_string(text, "a value in [");
      value_text(words, g, g->lo, text);
      nacre_text_string(text, ", ");
      value_text(words, g, g->hi, text);
      nacre_text_string(text, "]");
      break;
    case NACRE_GUARD_node:
      node_text(words, g->ref, text);
      break;
    default:
      break;
  }
}

void nacre_words_features(uint64_t features, struct nacre_text* text) {
  static const struct {
    uint8_t bit;
    const char* name;
  } kFeatures[] = {
#define FEATURE(name, bit, text) {bit, text},
#include "formats/features.def"
#undef FEATURE
  };
  const char* separator = "";
  for (size_t i = 0; i < sizeof kFeatures / sizeof kFeatures[0]; ++i) {
    if (!(features >> kFeatures[i].bit & 1)) continue;
    nacre_text_add(text, "%s%s", separator, kFeatures[i].name);
    separator = ", ";
    features &= ~((uint64_t)1 << kFeatures[i].bit);
  }
  if (features) nacre_text_add(text, "%sfeatures that this nacre does not know", separator);
}

void nacre_words_input(const struct nacre_words* words, uint32_t input, struct nacre_text* text) {
  struct nacre_tensor_view tensor;
  nacre_meta_input(words->meta, words->entry, input, &tensor);
  if (*tensor.name)
    nacre_text_add(text, "input '%s'", tensor.name);
  else
    nacre_text_add(text, "input %d", (int64_t)input);
}

void nacre_words_import(const struct nacre_words* words, const struct nacre_command* command,
                        struct nacre_text* text) {
  struct nacre_import_view import;
  nacre_meta_import(words->meta, command->target, &import);
  nacre_text_string(text, "(");
  for (uint32_t i = 0; i < command->operand_count; ++i) {
    struct nacre_tensor_view tensor;
    nacre_meta_slot_tensor(words->meta, words->entry, words->variant,
                           words->variant_view.operands[command->first_operand + i], &tensor);
    nacre_text_string(text, i == import.input_count ? ") -> " : i ? ", " : "");
    nacre_text_add(text, "%s[", nacre_dtype_name(tensor.dtype));
    for (uint32_t d = 0; d < tensor.rank; ++d) {
      if (d) nacre_text_string(text, ", ");
      nacre_words_size(words, tensor.dims[d], text);
    }
    nacre_text_string(text, "]");
  }
  if (import.input_count == command->operand_count) nacre_text_string(text, ")");
  if (import.arguments[0] && import.arguments[1] != '}')
    nacre_text_add(text, " with %s", import.arguments);
}

void nacre_words_provenance(const nacre_meta* meta, uint32_t provenance, struct nacre_text* text) {
  struct nacre_provenance_view p;
  nacre_meta_provenance(meta, provenance, &p);
  nacre_text_string(text, p.op);
  if (*p.file) nacre_text_add(text, " (%s:%d", p.file, (int64_t)p.line);
  if (*p.module) nacre_text_add(text, *p.file ? ", %s" : " (%s", p.module);
  if (*p.file || *p.module) nacre_text_string(text, ")");
}
