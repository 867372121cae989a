#include "runtime/session.h"

#include <string.h>

#include "formats/dtype.h"
#include "formats/expr.h"
#include "runtime/block.h"
#include "runtime/device.h"
#include "runtime/os.h"
#include "runtime/recent.h"
#include "runtime/shapes.h"
#include "runtime/stage.h"

static const nacre_session_options kDefaults = {0};

// Up to this size the arena is made for the largest shapes at once: memory that is never touched
// costs nothing.
static const uint64_t kMostReserved = (uint64_t)256 << 20;

static uint32_t thread_count(const nacre_session_options* options) {
  if (options->threads < 1) return 1;
  return options->threads < NACRE_MAX_THREADS ? options->threads : NACRE_MAX_THREADS;
}

// How many different shapes to keep count of.
static uint32_t shape_capacity(const nacre_session_options* options) {
  static const uint32_t kUsual = 1024;
  if (options->record_shapes || !nacre_os_variable("NACRE_RECORD_SHAPES"))
    return options->record_shapes;
  return kUsual;
}

// Everything but state and arena.
static void lay_out(struct nacre_block* block, const nacre_model* model,
                    const nacre_session_options* options, nacre_session** session) {
  const struct nacre_model_limits* most = &model->limits;
  nacre_session unused;
  nacre_session* s = nacre_block_take(block, 1, sizeof *s);
  *session = s;
  if (!s) s = &unused;
  nacre_block_align(block);
  s->team = nacre_block_take(block, 1, nacre_team_size_bytes(thread_count(options)));
  nacre_block_align(block);
  s->buffers = nacre_block_take(block, thread_count(options) * nacre_buffers_apart(model),
                                sizeof *s->buffers);
  s->tried_symbols = nacre_block_take(block, model->counts.symbol_count, sizeof *s->tried_symbols);
  s->dense = nacre_block_take(block, most->inputs, sizeof *s->dense);
  s->staged = nacre_block_take(block, most->inputs, sizeof *s->staged);
  s->stage_offsets = nacre_block_take(block, most->inputs, sizeof *s->stage_offsets);
  nacre_recent_lay_out(block, model, s, options->profile);
  s->import_tensors = nacre_block_take(block, most->import_operands, sizeof *s->import_tensors);
  s->import_shapes = nacre_block_take(block, most->import_operands, sizeof *s->import_shapes);
  s->shape_capacity = shape_capacity(options);
  s->shape_counts = nacre_block_take(block, s->shape_capacity, sizeof *s->shape_counts);
  s->shape_symbols = nacre_block_take(
      block, (uint64_t)s->shape_capacity * model->counts.symbol_count, sizeof *s->shape_symbols);
  s->input_data = nacre_block_take(block, most->inputs, sizeof *s->input_data);
  s->output_data = nacre_block_take(block, most->outputs, sizeof *s->output_data);
  s->faults = nacre_block_take(block, thread_count(options), sizeof *s->faults);
  s->profile =
      options->profile ? nacre_block_take(block, most->commands, sizeof *s->profile) : NULL;
  nacre_block_align(block);
}

// A row for inputs that overlap: what lies between them is part of its arena, and no common case.
static bool has_copies(const struct nacre_variant_view* v) {
  for (uint32_t i = 0; i < v->guard_count; ++i)
    if (v->guards[i].kind == NACRE_GUARD_bind_offset) return true;
  return false;
}

// The arena and the scratch of all threads for the largest shapes; 0 where these have no limit, or
// a distant one.
static uint64_t largest_arena(const nacre_model* model, uint32_t threads) {
  uint64_t largest = 0;
  for (uint32_t i = 0; i < model->counts.entry_count; ++i) {
    const struct nacre_model_entry* entry = &model->entries[i];
    for (uint32_t j = 0; j < entry->view.variant_count; ++j) {
      const struct nacre_model_variant* variant = &model->variants[entry->first_variant + j];
      const struct nacre_variant_view* v = &variant->view;
      if (!variant->loaded || has_copies(v)) continue;
      int64_t arena = v->arena_size >= 0 ? v->arena_size : v->arena_bound;
      if (arena == 0 && v->arena_size < 0) return 0;
      int64_t scratch = 0;
      for (uint32_t k = 0; k < v->command_count; ++k) {
        int64_t size = v->commands[k].scratch;
        if (size < 0) size = v->scratch_bound;
        if (size == 0 && v->commands[k].scratch < 0) return 0;
        if (size > scratch) scratch = size;
      }
      uint64_t scratches;
      if (__builtin_mul_overflow(nacre_align_data((uint64_t)scratch), threads, &scratches)) return 0;
      uint64_t total = nacre_align_data((uint64_t)arena) + scratches;
      if (total > kMostReserved) return 0;
      if (total > largest) largest = total;
    }
  }
  return largest;
}

static size_t first_arena(const nacre_model* model, const nacre_session_options* options) {
  size_t size = options->arena_bytes;
  if (!size) size = (size_t)largest_arena(model, thread_count(options));
  if (size < NACRE_MESSAGE_BYTES) size = NACRE_MESSAGE_BYTES;
  return size > SIZE_MAX - 63 ? size : (size_t)nacre_align_data(size);
}

size_t nacre_session_size_bytes(const nacre_model* model, const nacre_session_options* options) {
  struct nacre_block block = {NULL, 0};
  nacre_session* unused;
  if (!model) return 0;
  if (!options) options = &kDefaults;
  lay_out(&block, model, options, &unused);
  uint64_t fixed = block.used + model->state_bytes;
  size_t arena = first_arena(model, options);
  return fixed > SIZE_MAX || arena > SIZE_MAX - fixed ? SIZE_MAX : (size_t)fixed + arena;
}

nacre_status nacre_session_make(const nacre_model* model, const nacre_session_options* options,
                                void* memory, size_t size_bytes, nacre_session** session) {
  if (!model || !session) return NACRE_BAD_ARGUMENT;
  if (!options) options = &kDefaults;
  if (options->executor && !options->executor->parallel) return NACRE_BAD_ARGUMENT;
  size_t needed = nacre_session_size_bytes(model, options);
  if (needed == SIZE_MAX) return NACRE_OUT_OF_MEMORY;
  bool own = !memory;
  if (own) {
    size_bytes = needed;
    memory = nacre_os_allocate(needed);
    if (!memory) return NACRE_OUT_OF_MEMORY;
  }
  if ((uintptr_t)memory % 64) return NACRE_BAD_ARGUMENT;
  if (size_bytes < needed) return NACRE_OUT_OF_MEMORY;

  struct nacre_block count = {NULL, 0}, block = {memory, 0};
  nacre_session* s;
  lay_out(&count, model, options, &s);
  memset(memory, 0, (size_t)count.used);
  lay_out(&block, model, options, &s);
  s->model = model;
  nacre_recent_leave(s);
  s->threads = thread_count(options);
  s->fixed_memory = options->fixed_memory || !own;
  s->owns_memory = own;
  s->own_bytes = (size_t)block.used;
  s->profiled_variant = NACRE_NONE;
  s->state = (uint8_t*)memory + s->own_bytes;
  s->arena = s->state + model->state_bytes;
  // Whatever else the caller gave is good for larger shapes.
  s->arena_size = (size_bytes - s->own_bytes - (size_t)model->state_bytes) / 64 * 64;
  memset(s->state, 0, (size_t)model->state_bytes);
  nacre_session_reset(s);
  nacre_status status = nacre_team_start(s->team, s->threads, options->executor);
  if (!status) {
    status = nacre_cuda_session_make(s, options);
    if (status) {
      nacre_cuda_session_destroy(s);
      nacre_team_stop(s->team);
    }
  }
  if (status) {
    if (own) nacre_os_free(memory);
    return status;
  }
  *session = s;
  return NACRE_OK;
}

void nacre_session_destroy(nacre_session* session) {
  if (!session) return;
  nacre_shapes_flush(session);
  nacre_cuda_session_destroy(session);
  nacre_team_stop(session->team);
  if (session->owns_arena) nacre_os_free(session->arena);
  if (session->owns_memory) nacre_os_free(session);
}

struct nacre_text nacre_session_say(nacre_session* session) {
  struct nacre_text text;
  nacre_text_start(&text, (char*)session->arena, NACRE_MESSAGE_BYTES);
  session->failed = true;
  return text;
}

const char* nacre_session_message(const nacre_session* session) {
  return session->failed ? (const char*)session->arena : "";
}

// What the bound shapes need of the arena.
static uint64_t needed_arena(const nacre_session* s) {
  return s->arena_used + (uint64_t)s->threads * s->scratch_size + s->staged_size;
}

// An arena for the bound shapes. Nothing in it outlives a call, so that a new one need not have the
// old one's contents.
static nacre_status ensure_arena(nacre_session* s) {
  uint64_t needed = needed_arena(s);
  if (needed <= s->arena_size) return NACRE_OK;
  bool possible = !s->fixed_memory && needed <= SIZE_MAX;
  uint8_t* arena = possible ? nacre_os_allocate((size_t)needed) : NULL;
  if (!arena) {
    struct nacre_text text = nacre_session_say(s);
    nacre_text_add(&text,
                   s->fixed_memory
                       ? "these shapes need an arena of %d bytes, and this session's has %d"
                       : "no memory for an arena of %d bytes",
                   (int64_t)needed, (int64_t)s->arena_size);
    return NACRE_OUT_OF_MEMORY;
  }
  if (s->owns_arena) nacre_os_free(s->arena);
  s->arena = arena;
  s->arena_size = (size_t)needed;
  s->owns_arena = true;
  return NACRE_OK;
}

nacre_status nacre_session_prepare(nacre_session* session, uint32_t entry,
                                   const nacre_tensor* inputs, uint32_t input_count) {
  if (!session) return NACRE_BAD_ARGUMENT;
  bool changed = false;
  nacre_status status = nacre_bind(session, entry, inputs, input_count, &changed);
  // Whether addresses will do is left to the run; it must not take those of other shapes for valid.
  if (changed || status) session->addresses_valid = false;
  return status;
}

nacre_status nacre_session_reserve(nacre_session* session, uint32_t entry,
                                   const nacre_tensor* inputs, uint32_t input_count) {
  nacre_status status = nacre_session_prepare(session, entry, inputs, input_count);
  if (status) return status;
  session->addresses_valid = false;
  return ensure_arena(session);
}

// Same buffers as in the last call, and still large enough?
static bool same_addresses(const nacre_session* s, const nacre_tensor* inputs, uint32_t input_count,
                           const nacre_buffer* outputs, uint32_t output_count) {
  if (!s->addresses_valid) return false;
  for (uint32_t i = 0; i < input_count; ++i)
    if (s->input_data[i] != inputs[i].data) return false;
  for (uint32_t i = 0; i < output_count; ++i)
    if (s->output_data[i] != outputs[i].data || outputs[i].size_bytes < (size_t)s->output_sizes[i])
      return false;
  return true;
}

// Memory for the bound shapes, and the caller's.
static nacre_status bind_memory(nacre_session* s, const nacre_tensor* inputs, uint32_t input_count,
                                const nacre_buffer* outputs, uint32_t output_count) {
  if (same_addresses(s, inputs, input_count, outputs, output_count)) return NACRE_OK;
  s->addresses_valid = false;
  nacre_status status = ensure_arena(s);
  if (!status) status = nacre_bind_addresses(s, inputs, outputs);
  s->addresses_valid = !status;
  return status;
}

// For the device: the host's arena holds nothing but copies of inputs that do not lie as the variant reads them.
static nacre_status bind_for_device(nacre_session* s, const nacre_tensor* inputs,
                                    const nacre_buffer* outputs) {
  s->arena_used = s->scratch_size = 0;
  nacre_status status = s->staged_size ? ensure_arena(s) : NACRE_OK;
  if (!status && s->staged_size) status = nacre_cuda_can_stage(s, inputs);
  return status ? status : nacre_bind_check(s, inputs, outputs);
}

nacre_status nacre_run(nacre_session* s, uint32_t entry, const nacre_tensor* inputs,
                       uint32_t input_count, const nacre_buffer* outputs, uint32_t output_count) {
  nacre_status status = nacre_session_prepare(s, entry, inputs, input_count);
  if (status) return status;
  uint32_t wanted = s->model->entries[entry].view.output_count;
  if (output_count != wanted || (wanted && !outputs)) {
    struct nacre_text text = nacre_session_say(s);
    nacre_text_add(&text, "'%s' gives %d outputs, not %d", s->model->entries[entry].view.name,
                   (int64_t)wanted, (int64_t)output_count);
    return NACRE_BAD_ARGUMENT;
  }
  bool device = nacre_cuda_has_variant(s);
  if (!device) nacre_cuda_state_to_host(s);
  status = device ? bind_for_device(s, inputs, outputs) : bind_memory(s, inputs, input_count, outputs, output_count);
  if (status) return status;
  if (s->profile && s->profiled_variant != s->variant) nacre_profile_clear(s);
  s->profiled_variant = s->variant;
  if (s->staged_size) nacre_stage_in(s, inputs);
  status = device ? nacre_cuda_run(s, inputs, outputs) : nacre_program_run(s);
  if (status) return status;
  if (s->staged_size) nacre_stage_out(s, inputs);
  if (s->model->variants[s->variant].binds) nacre_bind_true_shapes(s);
  if (s->shape_capacity) nacre_shapes_note(s);
  return NACRE_OK;
}

const int64_t* nacre_output_shape(const nacre_session* session, uint32_t output) {
  if (!session->bound || output >= session->model->entries[session->entry].view.output_count)
    return NULL;
  return nacre_session_output_shape(session, output);
}

size_t nacre_output_size_bytes(const nacre_session* session, uint32_t output) {
  if (!session->bound || output >= session->model->entries[session->entry].view.output_count)
    return 0;
  return (size_t)session->output_sizes[output];
}

uint32_t nacre_session_variant(const nacre_session* session) {
  return session->bound ? session->variant - session->model->entries[session->entry].first_variant
                        : 0;
}

void nacre_session_memory(const nacre_session* session, nacre_memory_info* info) {
  info->session_bytes = session->own_bytes;
  info->state_bytes = (size_t)session->model->state_bytes;
  info->arena_bytes = session->arena_size;
  info->used_bytes =
      session->bound ? (size_t)needed_arena(session) : 0;
}

nacre_status nacre_profile(const nacre_session* session, uint32_t command,
                           nacre_profile_record* record) {
  if (!session->profile || !session->bound || session->profiled_variant != session->variant)
    return NACRE_NOT_FOUND;
  if (command == NACRE_PROFILE_INPUTS) {
    if (!session->stage_profile.calls) return NACRE_NOT_FOUND;
    *record = session->stage_profile;
    return NACRE_OK;
  }
  const struct nacre_variant_view* v = nacre_session_view(session);
  if (command >= v->command_count) return NACRE_NOT_FOUND;
  *record = session->profile[command];
  record->flops = nacre_size_value(v->commands[command].flops, session->nodes);
  record->bytes = nacre_size_value(v->commands[command].bytes, session->nodes);
  return NACRE_OK;
}

void nacre_profile_clear(nacre_session* session) {
  session->stage_profile = (nacre_profile_record){0};
  if (session->profile)
    memset(session->profile, 0, session->model->limits.commands * sizeof *session->profile);
}
