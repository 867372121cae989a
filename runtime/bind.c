// Shapes of inputs -> sizes and addresses of everything that the program touches.
#include <string.h>

#include "formats/dtype.h"
#include "formats/expr.h"
#include "runtime/recent.h"
#include "runtime/session.h"
#include "runtime/stage.h"

// What one buffer may have: NACRE_MAX_BYTES, or a quarter of what 32 bits reach.
static const int64_t kMostBytes = sizeof(size_t) > 4 ? NACRE_MAX_BYTES : (int64_t)1 << 30;

// Bytes of a dense tensor; false where that is too large a number to be memory.
static bool dense_size(const int64_t* shape, uint32_t rank, uint32_t element_size, int64_t* result) {
  uint64_t size = element_size;
  for (uint32_t i = 0; i < rank; ++i) {
    // A dimension alone may be large where another is 0, but stays small enough to reckon with.
    if (shape[i] < 0 || shape[i] > kMostBytes ||
        __builtin_mul_overflow(size, (uint64_t)shape[i], &size))
      return false;
  }
  if (size > (uint64_t)kMostBytes) return false;
  *result = (int64_t)size;
  return true;
}

static nacre_status check_inputs(nacre_session* s, const nacre_tensor* inputs, uint32_t count,
                                 bool* sizes_changed) {
  for (uint32_t i = 0; i < count; ++i) {
    const nacre_tensor* t = &inputs[i];
    int64_t size;
    if (t->rank > NACRE_MAX_RANK || (t->rank && !t->shape) || !nacre_dtype_size_bytes(t->dtype) ||
        !dense_size(t->shape, t->rank, nacre_dtype_size_bytes(t->dtype), &size)) {
      struct nacre_text text = nacre_session_say(s);
      if (t->rank > NACRE_MAX_RANK)
        nacre_text_add(&text, "input %d has rank %d, more than %d", (int64_t)i, (int64_t)t->rank,
                       (int64_t)NACRE_MAX_RANK);
      else
        nacre_text_add(&text, "input %d has an impossible dtype or shape", (int64_t)i);
      return NACRE_BAD_ARGUMENT;
    }
    *sizes_changed = *sizes_changed || s->input_sizes[i] != size;
    s->input_sizes[i] = size;
  }
  return NACRE_OK;
}

// Before a run, sizes that depend on data count as what they may come to.
static nacre_status bind_outputs(nacre_session* s, uint32_t entry, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    struct nacre_tensor_view tensor;
    nacre_meta_output(s->model->container.meta, entry, i, &tensor);
    const nacre_size* dims = tensor.bound_count ? tensor.bounds : tensor.dims;
    int64_t* shape = nacre_session_output_shape(s, i);
    for (uint32_t d = 0; d < tensor.rank; ++d) shape[d] = nacre_size_value(dims[d], s->nodes);
    if (dense_size(shape, tensor.rank, nacre_dtype_size_bytes(tensor.dtype),
                   &s->output_sizes[i]))
      continue;
    struct nacre_text text = nacre_session_say(s);
    nacre_text_add(&text, "output %d would have an impossible size", (int64_t)i);
    return NACRE_GUARD_MISS;
  }
  return NACRE_OK;
}

void nacre_bind_true_shapes(nacre_session* s) {
  uint32_t count = s->model->entries[s->entry].view.output_count;
  for (uint32_t i = 0; i < count; ++i) {
    struct nacre_tensor_view tensor;
    nacre_meta_output(s->model->container.meta, s->entry, i, &tensor);
    int64_t* shape = nacre_session_output_shape(s, i);
    for (uint32_t d = 0; d < tensor.rank; ++d) {
      int64_t size = nacre_size_value(tensor.dims[d], s->nodes);
      shape[d] = size < 0 ? 0 : size;
    }
  }
}

// The size of the buffer that a slot lies in.
static uint64_t slot_limit(const nacre_session* s, const struct nacre_slot* slot) {
  switch (slot->kind) {
    case NACRE_SLOT_INPUT:
      return (uint64_t)s->input_sizes[slot->index];
    case NACRE_SLOT_OUTPUT:
      return (uint64_t)s->output_sizes[slot->index];
    case NACRE_SLOT_ARENA:
      return s->arena_used;
    default:
      return UINT64_MAX;  // weights and state: checked when the model was opened
  }
}

static nacre_status check_slots(nacre_session* s, const struct nacre_variant_view* v) {
  int64_t arena = nacre_size_value(v->arena_size, s->planned), scratch = 0;
  for (uint32_t i = 0; i < v->command_count; ++i) {
    int64_t size = nacre_size_value(v->commands[i].scratch, s->planned);
    if (size < 0) scratch = -1;
    if (size > scratch && scratch >= 0) scratch = size;
  }
  bool good = arena >= 0 && arena <= kMostBytes && scratch >= 0 &&
              scratch <= kMostBytes;
  s->arena_used = (size_t)nacre_align_data((uint64_t)arena);
  s->scratch_size = (size_t)nacre_align_data((uint64_t)scratch);
  for (uint32_t i = 0; good && i < v->slot_count; ++i) {
    int64_t offset = nacre_size_value(v->slots[i].offset, s->planned),
            size = nacre_size_value(v->slots[i].size, s->planned);
    uint64_t room = slot_limit(s, &v->slots[i]);
    good = offset >= 0 && size >= 0 && (uint64_t)offset <= room &&
           (uint64_t)size <= room - (uint64_t)offset;
  }
  if (good) return NACRE_OK;
  struct nacre_text text = nacre_session_say(s);
  nacre_text_add(&text, "the sizes in the artifact do not fit these inputs");
  return NACRE_BAD_ARTIFACT;
}

nacre_status nacre_bind(nacre_session* s, uint32_t entry, const nacre_tensor* inputs,
                        uint32_t input_count, bool* changed) {
  s->failed = false;
  if (entry >= s->model->counts.entry_count) {
    struct nacre_text text = nacre_session_say(s);
    nacre_text_add(&text, "there is no entry %d", (int64_t)entry);
    return NACRE_NOT_FOUND;
  }
  const struct nacre_entry_view* e = &s->model->entries[entry].view;
  if (input_count != e->input_count || (input_count && !inputs)) {
    struct nacre_text text = nacre_session_say(s);
    nacre_text_add(&text, "'%s' takes %d inputs, not %d", e->name, (int64_t)e->input_count,
                   (int64_t)input_count);
    return NACRE_BAD_ARGUMENT;
  }
  // Outputs had their true shapes after the last run.
  if (nacre_recent_find(s, entry, inputs, changed))
    return s->model->variants[s->variant].binds ? bind_outputs(s, entry, e->output_count)
                                                 : NACRE_OK;
  nacre_recent_start(s);
  bool sizes_changed = false;
  nacre_status status = check_inputs(s, inputs, input_count, &sizes_changed);
  if (status) {
    s->bound = false;
    return status;
  }
  uint32_t variant = nacre_guard_choose(s, entry, inputs, changed);
  if (variant == NACRE_NONE) {
    nacre_guard_explain(s, entry, inputs);
    return NACRE_GUARD_MISS;
  }
  *changed = *changed || sizes_changed;
  if (!*changed) {
    // The strides may be others than last time, and sizes that depend on data are as before the run.
    if (s->model->variants[variant].binds) status = bind_outputs(s, entry, e->output_count);
    return status || s->all_dense ? status : nacre_stage_plan(s, inputs);
  }
  s->bound = false;
  s->entry = entry;
  s->variant = variant;
  status = bind_outputs(s, entry, e->output_count);
  if (s->planned != s->nodes)
    memcpy(s->planned, s->nodes, s->model->limits.nodes * sizeof *s->nodes);
  if (!status) status = check_slots(s, &s->model->variants[variant].view);
  if (!status) status = nacre_stage_plan(s, inputs);
  if (status) return status;
  nacre_recent_keep(s);
  s->bound = true;
  return NACRE_OK;
}

static nacre_status check_address(nacre_session* s, const char* what, uint32_t number,
                                  const void* data, int64_t size, uint32_t dtype) {
  // Complex numbers are aligned as their parts are.
  uint32_t align = nacre_dtype_size_bytes(dtype);
  if (nacre_dtype_kind(dtype) == 'c') align /= 2;
  if ((data || !size) && !((uintptr_t)data % align)) return NACRE_OK;
  struct nacre_text text = nacre_session_say(s);
  nacre_text_add(&text, data ? "%s %d is not aligned for its elements" : "%s %d has no data", what,
                 (int64_t)number);
  return NACRE_BAD_ARGUMENT;
}

nacre_status nacre_bind_check(nacre_session* s, const nacre_tensor* inputs,
                              const nacre_buffer* outputs) {
  const struct nacre_entry_view* e = &s->model->entries[s->entry].view;
  for (uint32_t i = 0; i < e->input_count; ++i) {
    nacre_status status =
        check_address(s, "input", i, inputs[i].data, s->input_sizes[i], inputs[i].dtype);
    if (status) return status;
  }
  for (uint32_t i = 0; i < e->output_count; ++i) {
    struct nacre_tensor_view tensor;
    nacre_meta_output(s->model->container.meta, s->entry, i, &tensor);
    if (outputs[i].size_bytes < (size_t)s->output_sizes[i]) {
      struct nacre_text text = nacre_session_say(s);
      nacre_text_add(&text, "output %d needs %d bytes and has %d", (int64_t)i,
                     s->output_sizes[i], (int64_t)outputs[i].size_bytes);
      return NACRE_BAD_ARGUMENT;
    }
    nacre_status status =
        check_address(s, "output", i, outputs[i].data, s->output_sizes[i], tensor.dtype);
    if (status) return status;
  }
  return NACRE_OK;
}

nacre_status nacre_bind_addresses(nacre_session* s, const nacre_tensor* inputs,
                                  const nacre_buffer* outputs) {
  const struct nacre_entry_view* e = &s->model->entries[s->entry].view;
  nacre_status status = nacre_bind_check(s, inputs, outputs);
  if (status) return status;
  for (uint32_t i = 0; i < e->input_count; ++i) s->input_data[i] = inputs[i].data;
  for (uint32_t i = 0; i < e->output_count; ++i) s->output_data[i] = outputs[i].data;
  return NACRE_OK;
}
