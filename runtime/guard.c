// Guard rows + inputs -> variant: the first row that holds, from special to general.
// recent.c knows what the shapes of recent calls led to.
#include <string.h>

#include "formats/dtype.h"
#include "formats/expr.h"
#include "formats/words.h"
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

// The addresses of the first byte and behind the last one.
static void extent(const nacre_session* s, const nacre_tensor* inputs, uint32_t i,
                   uint64_t* first, uint64_t* end) {
  const nacre_tensor* t = &inputs[i];
  uint64_t element = nacre_dtype_size_bytes(t->dtype);
  *first = (uintptr_t)t->data;
  *end = *first + (uint64_t)s->input_sizes[i];
  if (s->dense[i] || !s->input_sizes[i]) return;
  *end = *first + element;
  for (uint32_t d = 0; d < t->rank; ++d) {
    uint64_t steps = (uint64_t)(t->shape[d] - 1) * element;
    if (t->strides[d] < 0)
      *first -= steps * (uint64_t)-t->strides[d];
    else
      *end += steps * (uint64_t)t->strides[d];
  }
}

static bool apart(const nacre_session* s, const nacre_tensor* inputs, uint32_t a, uint32_t b) {
  uint64_t first[2], end[2];
  extent(s, inputs, a, &first[0], &end[0]);
  extent(s, inputs, b, &first[1], &end[1]);
  return end[0] <= first[1] || end[1] <= first[0];
}

static int64_t stride_of(const nacre_tensor* t, uint32_t dim) {
  if (t->strides) return t->strides[dim];
  int64_t step = 1;
  for (uint32_t d = t->rank; d-- > dim + 1;) step *= t->shape[d];
  return step;
}

// From the lowest address of all inputs of the record's group, in elements.
static bool bind_offset(const struct nacre_variant_view* row, const struct nacre_guard* g,
                        const nacre_tensor* inputs, int64_t* symbol) {
  uintptr_t own = (uintptr_t)inputs[g->input].data, lowest = own;
  for (uint32_t i = 0; i < row->guard_count; ++i) {
    const struct nacre_guard* other = &row->guards[i];
    if (other->kind != NACRE_GUARD_bind_offset || other->lo != g->lo) continue;
    if ((uintptr_t)inputs[other->input].data < lowest)
      lowest = (uintptr_t)inputs[other->input].data;
  }
  uint64_t distance = own - lowest, element = nacre_dtype_size_bytes(inputs[g->input].dtype);
  *symbol = (int64_t)(distance / element);
  return distance % element == 0;
}

static bool bind(int64_t* symbol, const struct nacre_guard* g, int64_t dim) {
  int64_t rest = dim - g->hi;
  *symbol = rest;
  if (g->lo == 1) return rest >= 0;  // most are, and a division takes as long as a row
  *symbol = rest / g->lo;
  return rest >= 0 && rest % g->lo == 0;
}

static bool record_holds(const nacre_session* s, const struct nacre_variant_view* row,
                         const struct nacre_guard* g, const nacre_tensor* inputs) {
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
    case NACRE_GUARD_bind_stride:
      s->tried_symbols[g->ref] = stride_of(t, g->dim);
      return s->tried_symbols[g->ref] >= 0;
    case NACRE_GUARD_bind_offset:
      return bind_offset(row, g, inputs, &s->tried_symbols[g->ref]);
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
         nacre_expr_evaluate(v->view.nodes, nacre_session_nodes(s, &v->view, entry),
                             entry->node_count, s->symbols, s->nodes);
}

static bool has_record(const struct nacre_variant_view* view, uint32_t input, uint16_t kind) {
  for (uint32_t i = 0; i < view->guard_count; ++i)
    if (view->guards[i].kind == kind && view->guards[i].input == input) return true;
  return false;
}

// The first record from `from` on that does not hold, or one of the answers above. `copies`: inputs
// that are not contiguous may be copied.
static uint32_t try_row(nacre_session* s, uint32_t variant, uint32_t from,
                        const nacre_tensor* inputs, bool copies, bool* changed) {
  const struct nacre_model_variant* v = &s->model->variants[variant];
  bool evaluated = false;
  for (uint32_t i = from; i < v->view.guard_count; ++i) {
    const struct nacre_guard* g = &v->view.guards[i];
    if (nacre_guard_reads_nodes(g) && !evaluated) {
      if (!evaluate(s, variant, changed)) return kOverflow;
      evaluated = true;
    }
    if (!record_holds(s, &v->view, g, inputs)) return i;
  }
  if (!s->all_dense && !copies) {
    uint32_t input_count = s->model->entries[v->entry].view.input_count;
    for (uint32_t i = 0; i < input_count; ++i)
      if (!s->dense[i] && !has_record(&v->view, i, NACRE_GUARD_strides)) return kSparse + i;
  }
  if (!evaluated && !evaluate(s, variant, changed)) return kOverflow;
  return kMatch;
}

// Goes through the rows in order. What the last row told of the records that the next one shares
// with it is not asked again.
static uint32_t first_match(nacre_session* s, const struct nacre_model_entry* e,
                            const nacre_tensor* inputs, bool copies, bool* changed) {
  uint32_t holds = 0;  // records of the row before that hold
  bool fails = false;  // the next one does not
  for (uint32_t i = 0; i < e->view.variant_count; ++i) {
    uint32_t variant = e->first_variant + i;
    const struct nacre_model_variant* v = &s->model->variants[variant];
    if (holds >= v->shared) {
      holds = v->shared;
      fails = false;
    }
    if (fails || !v->loaded) continue;
    uint32_t miss = try_row(s, variant, holds, inputs, copies, changed);
    if (miss == kMatch) return variant;
    fails = miss < v->view.guard_count;
    holds = fails ? miss : v->view.guard_count;
  }
  return NACRE_NONE;
}

uint32_t nacre_guard_choose(nacre_session* s, uint32_t entry, const nacre_tensor* inputs,
                            bool* changed) {
  const struct nacre_model_entry* e = &s->model->entries[entry];
  uint32_t last = s->bound && s->entry == entry ? s->variant : NACRE_NONE;
  *changed = last == NACRE_NONE;
  s->all_dense = true;
  for (uint32_t i = 0; i < e->view.input_count; ++i) {
    s->dense[i] = strides_follow(&inputs[i], NACRE_STRIDES_CONTIGUOUS);
    s->all_dense = s->all_dense && s->dense[i];
  }
  // Those that the program binds while it runs count as 1 until then.
  for (uint32_t i = 0; i < s->model->counts.symbol_count; ++i) s->tried_symbols[i] = 1;
  uint32_t variant = first_match(s, e, inputs, false, changed);
  if (variant == NACRE_NONE && !s->all_dense) variant = first_match(s, e, inputs, true, changed);
  if (variant == NACRE_NONE) s->bound = false;
  if (variant != last) *changed = true;
  for (uint32_t i = 0; variant != NACRE_NONE && i < e->view.input_count; ++i) {
    const struct nacre_variant_view* view = &s->model->variants[variant].view;
    bool staged = (!s->dense[i] && !has_record(view, i, NACRE_GUARD_strides)) ||
                  (!e->by_shapes && has_record(view, i, NACRE_GUARD_bind_offset));
    if (staged != s->staged[i]) *changed = true;
    s->staged[i] = staged;
  }
  return variant;
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
    case NACRE_GUARD_bind_stride:
      nacre_text_string(text, " has other strides");
      break;
    case NACRE_GUARD_alignment:
      nacre_text_string(text, " is not aligned");
      break;
    case NACRE_GUARD_disjoint:
    case NACRE_GUARD_bind_offset:
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

static uint32_t explain_row(nacre_session* s, uint32_t variant, const nacre_tensor* inputs,
                            bool* changed) {
  if (!s->model->variants[variant].loaded) return kNotLoaded;
  return try_row(s, variant, 0, inputs, true, changed);
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
    uint32_t miss = explain_row(s, e->first_variant + i, inputs, &changed);
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
    uint32_t miss = explain_row(s, e->first_variant + i, inputs, &changed);
    nacre_words_open(&words, s->model->container.meta, entry, i);
    nacre_text_add(&text, text.length ? "; variant %d" : "variant %d", (int64_t)i);
    if (miss == kNotLoaded) {
      nacre_text_string(&text, " is for another processor");
    } else if (miss == kOverflow) {
      nacre_text_string(&text, " cannot compute with sizes as large as these");
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
