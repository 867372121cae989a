#include "runtime/shapes.h"

#include <string.h>

#include "formats/expr.h"
#include "formats/words.h"
#include "runtime/os.h"
#include "runtime/recent.h"

// Of record number i: the values of all symbols.
static int64_t* symbols_of(const nacre_session* s, uint32_t i) {
  return s->shape_symbols + (size_t)i * s->model->counts.symbol_count;
}

void nacre_shapes_note(nacre_session* s) {
  size_t size = s->model->counts.symbol_count * sizeof *s->symbols;
  for (uint32_t i = 0; i < s->shape_count; ++i) {
    // The one before is the likeliest, so the search begins there.
    uint32_t at = (s->last_shape + i) % s->shape_count;
    struct nacre_shape_count* known = &s->shape_counts[at];
    if (known->variant != s->variant || memcmp(symbols_of(s, at), s->symbols, size)) continue;
    ++known->calls;
    s->last_shape = at;
    return;
  }
  if (s->shape_count == s->shape_capacity) {
    ++s->shapes_lost;
    return;
  }
  s->last_shape = s->shape_count++;
  s->shape_counts[s->last_shape] = (struct nacre_shape_count){1, s->variant};
  memcpy(symbols_of(s, s->last_shape), s->symbols, size);
}

// The integer that the row binds to a symbol.
static bool scalar_value(const struct nacre_variant_view* v, uint32_t input, const int64_t* symbols,
                         int64_t* value) {
  for (uint32_t i = 0; i < v->guard_count; ++i) {
    if (v->guards[i].kind != NACRE_GUARD_bind_value || v->guards[i].input != input) continue;
    *value = symbols[v->guards[i].ref];
    return true;
  }
  return false;
}

// "x: [4, 3, 224, 224], n: 5": the inputs that are not the same in every call, as `nacre compile --variant` takes them.
static void say_inputs(nacre_session* s, uint32_t number, struct nacre_text* text) {
  const struct nacre_model_variant* v = &s->model->variants[s->shape_counts[number].variant];
  const struct nacre_entry_view* entry = &s->model->entries[v->entry].view;
  const int64_t* symbols = symbols_of(s, number);
  // They were evaluated before, so there is no overflow.
  nacre_recent_leave(s);
  nacre_expr_evaluate(entry->nodes, entry->node_count, 0, symbols, s->nodes);
  const char* separator = "";
  for (uint32_t i = 0; i < entry->input_count; ++i) {
    struct nacre_tensor_view tensor;
    nacre_meta_input(s->model->container.meta, v->entry, i, &tensor);
    int64_t value;
    bool scalar = scalar_value(&v->view, i, symbols, &value), varies = scalar;
    for (uint32_t d = 0; d < tensor.rank; ++d) varies = varies || tensor.dims[d] < 0;
    if (!varies) continue;
    nacre_text_add(text, "%s%s: ", separator, tensor.name);
    separator = ", ";
    if (scalar) {
      nacre_text_number(text, value);
      continue;
    }
    for (uint32_t d = 0; d < tensor.rank; ++d)
      nacre_text_add(text, d ? ", %d" : "[%d", nacre_size_value(tensor.dims[d], s->nodes));
    nacre_text_string(text, "]");
  }
}

nacre_status nacre_session_shapes(nacre_session* s, uint32_t number, nacre_shape_record* record,
                                  char* inputs, size_t size) {
  if (number >= s->shape_count) return NACRE_NOT_FOUND;
  const struct nacre_model_variant* v = &s->model->variants[s->shape_counts[number].variant];
  record->calls = s->shape_counts[number].calls;
  record->entry = v->entry;
  record->variant =
      s->shape_counts[number].variant - s->model->entries[v->entry].first_variant;
  if (!size) return NACRE_OK;
  struct nacre_text text;
  nacre_text_start(&text, inputs, size);
  say_inputs(s, number, &text);
  return text.length + 1 < size ? NACRE_OK : NACRE_BAD_ARGUMENT;
}

nacre_status nacre_session_write_shapes(nacre_session* s, const char* path) {
  char line[4096];
  nacre_status status = NACRE_OK;
  for (uint32_t i = 0; i < s->shape_count && !status; ++i) {
    const struct nacre_model_variant* v = &s->model->variants[s->shape_counts[i].variant];
    const struct nacre_model_entry* entry = &s->model->entries[v->entry];
    struct nacre_text text;
    nacre_text_start(&text, line, sizeof line);
    nacre_text_add(&text, "%d calls by variant %d: %s/", (int64_t)s->shape_counts[i].calls,
                   (int64_t)(s->shape_counts[i].variant - entry->first_variant), entry->view.name);
    say_inputs(s, i, &text);
    nacre_text_string(&text, "\n");
    // A line that does not fit would say something else.
    if (text.length + 1 == sizeof line) continue;
    if (!nacre_os_append(path, line, text.length)) status = NACRE_IO_ERROR;
  }
  return status;
}

void nacre_shapes_flush(nacre_session* s) {
  const char* path = nacre_os_variable("NACRE_RECORD_SHAPES");
  if (path && s->shape_count) nacre_session_write_shapes(s, path);
}
