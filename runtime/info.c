// What can be asked of a model without running it.
#include <string.h>

#include "formats/dtype.h"
#include "runtime/model.h"

uint32_t nacre_entry_count(const nacre_model* model) { return model->counts.entry_count; }

const char* nacre_entry_name(const nacre_model* model, uint32_t entry) {
  return entry < model->counts.entry_count ? model->entries[entry].view.name : NULL;
}

nacre_status nacre_entry_find(const nacre_model* model, const char* name, uint32_t* entry) {
  for (uint32_t i = 0; i < model->counts.entry_count; ++i) {
    if (strcmp(model->entries[i].view.name, name)) continue;
    *entry = i;
    return NACRE_OK;
  }
  return NACRE_NOT_FOUND;
}

uint32_t nacre_input_count(const nacre_model* model, uint32_t entry) {
  return entry < model->counts.entry_count ? model->entries[entry].view.input_count : 0;
}

uint32_t nacre_output_count(const nacre_model* model, uint32_t entry) {
  return entry < model->counts.entry_count ? model->entries[entry].view.output_count : 0;
}

static bool find_tensor(const nacre_model* model, uint32_t entry, uint32_t number, bool input,
                        struct nacre_tensor_view* tensor) {
  if (number >= (input ? nacre_input_count(model, entry) : nacre_output_count(model, entry)))
    return false;
  if (input)
    nacre_meta_input(model->container.meta, entry, number, tensor);
  else
    nacre_meta_output(model->container.meta, entry, number, tensor);
  return true;
}

static nacre_status tensor_info(const nacre_model* model, uint32_t entry, uint32_t number,
                                bool input, nacre_tensor_info* info) {
  struct nacre_tensor_view tensor;
  if (!find_tensor(model, entry, number, input, &tensor)) return NACRE_NOT_FOUND;
  *info = (nacre_tensor_info){tensor.name, tensor.dtype, nacre_dtype_size_bytes(tensor.dtype),
                              tensor.rank, (tensor.flags & NACRE_TENSOR_MUTATED) != 0,
                              tensor.path};
  return NACRE_OK;
}

nacre_status nacre_input_info(const nacre_model* model, uint32_t entry, uint32_t input,
                              nacre_tensor_info* info) {
  return tensor_info(model, entry, input, true, info);
}

nacre_status nacre_output_info(const nacre_model* model, uint32_t entry, uint32_t output,
                               nacre_tensor_info* info) {
  return tensor_info(model, entry, output, false, info);
}

// From the size itself: a number, or a symbol's promise.
static bool declared_dim(const nacre_model* model, uint32_t entry, uint32_t number, uint32_t dim,
                         bool input, nacre_dim* result) {
  struct nacre_tensor_view tensor;
  if (!find_tensor(model, entry, number, input, &tensor) || dim >= tensor.rank) return false;
  nacre_size size = tensor.dims[dim];
  *result = (nacre_dim){-1, 0, INT64_MAX, 1, NULL};
  if (size >= 0) {
    *result = (nacre_dim){size, size, size, 1, NULL};
    return true;
  }
  // Sizes of inputs and outputs are nodes of the entry.
  const struct nacre_node* node = &model->entries[entry].view.nodes[~size];
  if (node->kind == NACRE_EXPR_symbol) {
    struct nacre_symbol_view symbol;
    nacre_meta_symbol(model->container.meta, node->a, &symbol);
    *result =
        (nacre_dim){-1, symbol.min > 0 ? symbol.min : 0, symbol.max, symbol.multiple, symbol.name};
  }
  return true;
}

nacre_status nacre_output_dim(const nacre_model* model, uint32_t entry, uint32_t output,
                              uint32_t dim, nacre_dim* result) {
  return declared_dim(model, entry, output, dim, false, result) ? NACRE_OK : NACRE_NOT_FOUND;
}

// What one row wants of a dimension.
static nacre_dim row_dim(const struct nacre_variant_view* v, uint32_t input, uint32_t dim) {
  nacre_dim d = {-1, 0, INT64_MAX, 1, NULL};
  for (uint32_t i = 0; i < v->guard_count; ++i) {
    const struct nacre_guard* g = &v->guards[i];
    if (g->input != input || g->dim != dim) continue;
    if (g->kind == NACRE_GUARD_equal) {
      d.size = d.min = d.max = g->lo;
    } else if (g->kind == NACRE_GUARD_range) {
      if (g->lo > d.min) d.min = g->lo;
      if (g->hi < d.max) d.max = g->hi;
    } else if (g->kind == NACRE_GUARD_multiple || (g->kind == NACRE_GUARD_bind && g->hi == 0)) {
      if (g->lo > d.multiple) d.multiple = g->lo;
    }
  }
  return d;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

nacre_status nacre_input_dim(const nacre_model* model, uint32_t entry, uint32_t input, uint32_t dim,
                             nacre_dim* result) {
  nacre_dim declared, widest = {-1, INT64_MAX, 0, 0, NULL};
  if (!declared_dim(model, entry, input, dim, true, &declared)) return NACRE_NOT_FOUND;
  const struct nacre_model_entry* e = &model->entries[entry];
  for (uint32_t i = 0; i < e->view.variant_count; ++i) {
    if (!model->variants[e->first_variant + i].loaded) continue;
    nacre_dim row = row_dim(&model->variants[e->first_variant + i].view, input, dim);
    if (row.min < widest.min) widest.min = row.min;
    if (row.max > widest.max) widest.max = row.max;
    widest.multiple = common_divisor(widest.multiple, row.size < 0 ? row.multiple : row.size);
  }
  if (declared.size < 0 && widest.min == widest.max) declared.size = widest.min;
  if (widest.min > declared.min) declared.min = widest.min;
  if (widest.max < declared.max) declared.max = widest.max;
  if (declared.size < 0 && widest.multiple > declared.multiple) declared.multiple = widest.multiple;
  *result = declared;
  return NACRE_OK;
}

uint32_t nacre_state_count(const nacre_model* model) { return model->counts.state_count; }

nacre_status nacre_state_info(const nacre_model* model, uint32_t number, nacre_tensor_info* info,
                              int64_t shape[NACRE_MAX_RANK]) {
  struct nacre_state_view state;
  if (number >= model->counts.state_count) return NACRE_NOT_FOUND;
  nacre_meta_state(model->container.meta, number, &state);
  *info = (nacre_tensor_info){state.name, state.dtype, nacre_dtype_size_bytes(state.dtype),
                              state.rank, 1, ""};
  for (uint32_t i = 0; i < state.rank; ++i) shape[i] = state.dims[i];
  return NACRE_OK;
}

nacre_status nacre_state_find(const nacre_model* model, const char* name, uint32_t* result) {
  for (uint32_t i = 0; i < model->counts.state_count; ++i) {
    struct nacre_state_view state;
    nacre_meta_state(model->container.meta, i, &state);
    if (strcmp(state.name, name)) continue;
    *result = i;
    return NACRE_OK;
  }
  return NACRE_NOT_FOUND;
}

size_t nacre_state_size_bytes(const nacre_model* model, uint32_t number) {
  struct nacre_state_view state;
  if (number >= model->counts.state_count) return 0;
  nacre_meta_state(model->container.meta, number, &state);
  return (size_t)state.size;
}
