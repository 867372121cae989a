// Guard rows + inputs -> variant. The row that matched last is tried first.
#include <string.h>

#include "formats/dtype.h"
#include "formats/words.h"
#include "runtime/expr.h"
#include "runtime/session.h"

// Why a row does not match: the record, or one of these.
enum {
  kMatch = UINT32_MAX,
  kNotLoaded = UINT32_MAX - 1,
  kOverflow = UINT32_MAX - 2,
  kSparse = 1u << 30
};

// The value of a scalar input, as an integer or a double.
struct scalar {
  bool valid, floating;
  int64_t integer;
  double number;
};

static struct scalar read_scalar(const nacre_tensor* t) {
  struct scalar s = {true, false, 0, 0};
  union {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    float f32;
    double f64;
  } v;
  if (t->rank || !t->data) return (struct scalar){false, false, 0, 0};
  uint32_t size = nacre_dtype_size_bytes(t->dtype);
  if (size > sizeof v) return (struct scalar){false, false, 0, 0};
  memcpy(&v, t->data, size);
  switch (t->dtype) {
    case NACRE_bool_:
    case NACRE_u8:
      s.integer = v.u8;
      break;
    case NACRE_i8:
      s.integer = v.i8;
      break;
    case NACRE_i16:
      s.integer = v.i16;
      break;
    case NACRE_u16:
      s.integer = v.u16;
      break;
    case NACRE_i32:
      s.integer = v.i32;
      break;
    case NACRE_u32:
      s.integer = v.u32;
      break;
    case NACRE_i64:
      s.integer = v.i64;
      break;
    case NACRE_f32:
      s.floating = true;
      s.number = (double)v.f32;
      break;
    case NACRE_f64:
      s.floating = true;
      s.number = v.f64;
      break;
    default:
      s.valid = false;
  }
  return s;
}

static double as_double(int64_t bits) {
  double number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static bool value_in(const struct scalar* s, int64_t lo, int64_t hi) {
  if (!s->valid) return false;
  if (!s->floating) return lo <= s->integer && s->integer <= hi;
  double low = as_double(lo), high = as_double(hi);
  // A guard may want a NaN, which equals nothing.
  if (low != low && high != high) return s->number != s->number;
  return low <= s->number && s->number <= high;
}

// Strides as of a dense tensor whose dimensions lie in memory in the given order; those of
// dimensions of size 1 do not matter.
static bool strides_follow(const nacre_tensor* t, int64_t order) {
  if (!t->strides) return order == NACRE_STRIDES_CONTIGUOUS || t->rank < 3;
  uint64_t expected = 1;  // may wrap around only if there is a 0 further out
  for (uint32_t i = 0; i < t->rank; ++i) {
    // From the innermost dimension outwards.
    uint32_t dim = t->rank - 1 - i;
    if (order == NACRE_STRIDES_CHANNELS_LAST && t->rank >= 3)
      dim = i == 0 ? 1 : dim == 0 ? 0 : dim + 1;
    if (t->shape[dim] == 0) return true;
    if (t->shape[dim] != 1 && (uint64_t)t->strides[dim] != expected) return false;
    expected *= (uint64_t)t->shape[dim];
  }
  return true;
}

static bool apart(const nacre_session* s, const nacre_tensor* inputs, uint32_t a, uint32_t b) {
  uintptr_t first = (uintptr_t)inputs[a].data, second = (uintptr_t)inputs[b].data;
  return first + s->input_sizes[a] <= second || second + s->input_sizes[b] <= first;
}

static bool bind(int64_t* symbol, const struct nacre_guard* g, int64_t dim) {
  int64_t rest = dim - g->hi;
  *symbol = rest / g->lo;
  return rest >= 0 && rest % g->lo == 0;
}

static bool record_holds(const nacre_session* s, const struct nacre_guard* g,
                         const nacre_tensor* inputs) {
  const nacre_tensor* t = &inputs[g->input];
  struct scalar scalar;
  switch (g->kind) {
    case NACRE_GUARD_features:
      return !((uint64_t)g->lo & ~s->model->features);
    case NACRE_GUARD_dtype:
      return t->dtype == (uint64_t)g->lo;
    case NACRE_GUARD_rank:
      return t->rank == (uint64_t)g->lo;
    case NACRE_GUARD_bind:
      return bind(&s->tried_symbols[g->ref], g, t->shape[g->dim]);
    case NACRE_GUARD_bind_value:
      scalar = read_scalar(t);
      s->tried_symbols[g->ref] = scalar.integer;
      return scalar.valid && !scalar.floating;
    case NACRE_GUARD_equal:
      return t->shape[g->dim] == g->lo;
    case NACRE_GUARD_range:
      return g->lo <= t->shape[g->dim] && t->shape[g->dim] <= g->hi;
    case NACRE_GUARD_multiple:
      return t->shape[g->dim] % g->lo == 0;
    case NACRE_GUARD_strides:
      return strides_follow(t, g->lo);
    case NACRE_GUARD_alignment:
      return !((uintptr_t)t->data & ((uintptr_t)g->lo - 1));
    case NACRE_GUARD_disjoint:
      return apart(s, inputs, g->input, (uint32_t)g->ref);
    case NACRE_GUARD_value_equal:
    case NACRE_GUARD_value_range:
      scalar = read_scalar(t);
      return value_in(&scalar, g->lo, g->kind == NACRE_GUARD_value_equal ? g->lo : g->hi);
    case NACRE_GUARD_equal_node:
      return t->shape[g->dim] == s->nodes[g->ref];
    case NACRE_GUARD_node:
      return s->nodes[g->ref] != 0;
    default:
      return false;
  }
}

static bool reads_nodes(const struct nacre_guard* g) {
  return g->kind == NACRE_GUARD_equal_node || g->kind == NACRE_GUARD_node;
}

// Once the symbols of a row are known.
static bool evaluate(nacre_session* s, uint32_t variant, bool* changed) {
  const struct nacre_model_variant* v = &s->model->variants[variant];
  const struct nacre_entry_view* entry = &s->model->entries[v->entry].view;
  size_t size = s->model->counts.symbol_count * sizeof *s->symbols;
  if (s->bound && s->variant == variant && !memcmp(s->symbols, s->tried_symbols, size)) return true;
  s->bound = false;
  *changed = true;
  memcpy(s->symbols, s->tried_symbols, size);
  return nacre_expr_evaluate(entry->nodes, entry->node_count, 0, s->symbols, s->nodes) &&
         nacre_expr_evaluate(v->view.nodes, v->view.node_count, entry->node_count, s->symbols,
                             s->nodes);
}

static bool accepts_sparse(const struct nacre_variant_view* view, uint32_t input) {
  for (uint32_t i = 0; i < view->guard_count; ++i)
    if (view->guards[i].kind == NACRE_GUARD_strides && view->guards[i].input == input) return true;
  return false;
}

static uint32_t try_row(nacre_session* s, uint32_t variant, const nacre_tensor* inputs,
                        bool* changed) {
  const struct nacre_model_variant* v = &s->model->variants[variant];
  uint32_t input_count = s->model->entries[v->entry].view.input_count;
  if (!v->loaded) return kNotLoaded;
  memset(s->tried_symbols, 0, s->model->counts.symbol_count * sizeof *s->tried_symbols);
  bool evaluated = false;
  for (uint32_t i = 0; i < v->view.guard_count; ++i) {
    const struct nacre_guard* g = &v->view.guards[i];
    if (reads_nodes(g) && !evaluated) {
      if (!evaluate(s, variant, changed)) return kOverflow;
      evaluated = true;
    }
    if (!record_holds(s, g, inputs)) return i;
  }
  for (uint32_t i = 0; i < input_count; ++i)
    if (!s->dense[i] && !accepts_sparse(&v->view, i)) return kSparse + i;
  if (!evaluated && !evaluate(s, variant, changed)) return kOverflow;
  return kMatch;
}

uint32_t nacre_guard_choose(nacre_session* s, uint32_t entry, const nacre_tensor* inputs,
                            bool* changed) {
  const struct nacre_model_entry* e = &s->model->entries[entry];
  uint32_t last = s->bound && s->entry == entry ? s->variant : NACRE_NONE;
  *changed = !s->bound || s->entry != entry;
  for (uint32_t i = 0; i < e->view.input_count; ++i)
    s->dense[i] = strides_follow(&inputs[i], NACRE_STRIDES_CONTIGUOUS);
  if (last != NACRE_NONE && try_row(s, last, inputs, changed) == kMatch) return last;
  *changed = true;
  for (uint32_t i = 0; i < e->view.variant_count; ++i) {
    uint32_t variant = e->first_variant + i;
    if (variant != last && try_row(s, variant, inputs, changed) == kMatch) return variant;
  }
  s->bound = false;
  return NACRE_NONE;
}

// ---- The message of a miss ----

// "input 'x' dimension 2 is 37"
static void say_fact(const struct nacre_words* words, const struct nacre_guard* g,
                     const nacre_tensor* inputs, struct nacre_text* text) {
  const nacre_tensor* t = &inputs[g->input];
  struct scalar scalar;
  if (g->kind == NACRE_GUARD_node) {
    nacre_text_string(text, "these sizes do not fit together");
    return;
  }
  nacre_words_input(words, g->input, text);
  switch (g->kind) {
    case NACRE_GUARD_dtype:
      nacre_text_add(text, " has dtype %s", nacre_dtype_name(t->dtype));
      break;
    case NACRE_GUARD_rank:
      nacre_text_add(text, " has rank %d", (int64_t)t->rank);
      break;
    case NACRE_GUARD_strides:
      nacre_text_string(text, " has other strides");
      break;
    case NACRE_GUARD_alignment:
      nacre_text_string(text, " is not aligned");
      break;
    case NACRE_GUARD_disjoint:
      nacre_text_string(text, " overlaps another");
      break;
    case NACRE_GUARD_bind_value:
    case NACRE_GUARD_value_equal:
    case NACRE_GUARD_value_range:
      scalar = read_scalar(t);
      if (scalar.valid && !scalar.floating)
        nacre_text_add(text, " is %d", scalar.integer);
      else
        nacre_text_string(text, " has another value");
      break;
    default:
      nacre_text_add(text, " dimension %d is %d", (int64_t)g->dim, t->shape[g->dim]);
  }
}

static bool same_fact(const struct nacre_guard* a, const struct nacre_guard* b) {
  if (a->input != b->input) return false;
  bool of_dims = nacre_guard_of_dim(a->kind) && nacre_guard_of_dim(b->kind);
  return of_dims ? a->dim == b->dim : a->kind == b->kind;
}

void nacre_guard_explain(nacre_session* s, uint32_t entry, const nacre_tensor* inputs) {
  const struct nacre_model_entry* e = &s->model->entries[entry];
  struct nacre_text text = nacre_session_say(s);
  struct nacre_words words;
  bool changed;
  // The row that came furthest knows best what is wrong, so its fact comes first.
  const struct nacre_guard* lead = NULL;
  uint32_t furthest = 0;
  for (uint32_t i = 0; i < e->view.variant_count; ++i) {
    uint32_t miss = try_row(s, e->first_variant + i, inputs, &changed);
    const struct nacre_variant_view* view = &s->model->variants[e->first_variant + i].view;
    if (miss >= view->guard_count || (lead && miss <= furthest)) continue;
    furthest = miss;
    lead = &view->guards[miss];
    if (lead->kind == NACRE_GUARD_features) lead = NULL;
  }
  if (lead) {
    nacre_words_open(&words, s->model->container.meta, entry, 0);
    say_fact(&words, lead, inputs, &text);
  }
  for (uint32_t i = 0; i < e->view.variant_count; ++i) {
    uint32_t miss = try_row(s, e->first_variant + i, inputs, &changed);
    nacre_words_open(&words, s->model->container.meta, entry, i);
    nacre_text_add(&text, text.length ? "; variant %d" : "variant %d", (int64_t)i);
    if (miss == kNotLoaded) {
      nacre_text_string(&text, " is for another processor");
    } else if (miss == kOverflow) {
      nacre_text_string(&text, " cannot compute with sizes as large as these");
    } else if (miss >= kSparse) {
      nacre_text_string(&text, " wants contiguous strides of ");
      nacre_words_input(&words, miss - kSparse, &text);
    } else {
      const struct nacre_guard* g = &words.variant_view.guards[miss];
      if (g->kind != NACRE_GUARD_features && !(lead && same_fact(lead, g))) {
        nacre_text_string(&text, ": ");
        say_fact(&words, g, inputs, &text);
        nacre_text_string(&text, ", and it");
      }
      nacre_text_string(&text, " wants ");
      nacre_words_guard(&words, g, &text);
      // What the expression comes to with these inputs.
      if (g->kind == NACRE_GUARD_equal_node) nacre_text_add(&text, " = %d", s->nodes[g->ref]);
    }
  }
  s->bound = false;
}
