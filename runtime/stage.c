#include "runtime/stage.h"

#include <string.h>

#include "formats/dtype.h"
#include "runtime/os.h"

static bool mutated(const nacre_session* s, uint32_t input) {
  struct nacre_tensor_view tensor;
  nacre_meta_input(s->model->container.meta, s->entry, input, &tensor);
  return (tensor.flags & NACRE_TENSOR_MUTATED) != 0;
}

nacre_status nacre_stage_plan(nacre_session* s, const nacre_tensor* inputs) {
  s->staged_size = 0;
  for (uint32_t i = 0; i < s->model->entries[s->entry].view.input_count; ++i) {
    if (!s->staged[i]) continue;
    const nacre_tensor* t = &inputs[i];
    bool repeats = false;
    for (uint32_t d = 0; !s->dense[i] && d < t->rank; ++d)
      repeats = repeats || (t->shape[d] > 1 && !t->strides[d]);
    if (repeats && mutated(s, i)) {
      struct nacre_text text = nacre_session_say(s);
      nacre_text_add(&text, "input %d is written into, and several of its elements are one",
                     (int64_t)i);
      return NACRE_BAD_ARGUMENT;
    }
    s->stage_offsets[i] = s->staged_size;
    s->staged_size += nacre_align_data((uint64_t)s->input_sizes[i]);
  }
  return NACRE_OK;
}

uint8_t* nacre_stage_place(const nacre_session* s, uint32_t input) {
  return s->arena + s->arena_used + s->threads * s->scratch_size + s->stage_offsets[input];
}

static void copy_row(uint8_t* to, int64_t to_step, const uint8_t* from, int64_t from_step,
                     int64_t count, uint32_t size) {
#define NACRE_COPY(bytes)                                        \
  case bytes:                                                    \
    for (int64_t i = 0; i < count; ++i)                          \
      memcpy(to + i * to_step, from + i * from_step, bytes);     \
    break;
  switch (size) {
    NACRE_COPY(1)
    NACRE_COPY(2)
    NACRE_COPY(4)
    NACRE_COPY(8)
    NACRE_COPY(16)
  }
#undef NACRE_COPY
}

// Between a tensor as it lies and its elements one after the other.
static void copy_tensor(const nacre_tensor* t, uint8_t* dense, bool in) {
  int64_t at[NACRE_MAX_RANK] = {0};
  int64_t size = nacre_dtype_size_bytes(t->dtype), offset = 0;
  uint32_t last = t->rank - 1;  // what is not contiguous has a dimension
  for (uint32_t d = 0; d < t->rank; ++d)
    if (!t->shape[d]) return;
  int64_t count = t->shape[last], step = t->strides[last] * size;
  for (;;) {
    uint8_t* sparse = (uint8_t*)t->data + offset;
    if (in)
      copy_row(dense, size, sparse, step, count, (uint32_t)size);
    else
      copy_row(sparse, step, dense, size, count, (uint32_t)size);
    dense += count * size;
    uint32_t d = last;
    for (;;) {
      if (!d) return;
      --d;
      offset += t->strides[d] * size;
      if (++at[d] < t->shape[d]) break;
      offset -= t->strides[d] * t->shape[d] * size;
      at[d] = 0;
    }
  }
}

static void copy_all(nacre_session* s, const nacre_tensor* inputs, bool in) {
  uint64_t start = s->profile ? nacre_os_now_ns() : 0;
  for (uint32_t i = 0; i < s->model->entries[s->entry].view.input_count; ++i) {
    if (!s->staged[i] || (!in && !mutated(s, i))) continue;
    uint8_t *own = inputs[i].data, *copy = nacre_stage_place(s, i);
    if (!s->dense[i])
      copy_tensor(&inputs[i], copy, in);
    else if (s->input_sizes[i])
      memcpy(in ? copy : own, in ? own : copy, (size_t)s->input_sizes[i]);
    s->stage_profile.bytes += 2 * s->input_sizes[i];
  }
  if (s->profile) s->stage_profile.time_ns += nacre_os_now_ns() - start;
}

void nacre_stage_in(nacre_session* s, const nacre_tensor* inputs) {
  s->stage_profile.bytes = 0;
  copy_all(s, inputs, true);
  ++s->stage_profile.calls;
}

void nacre_stage_out(nacre_session* s, const nacre_tensor* inputs) { copy_all(s, inputs, false); }
