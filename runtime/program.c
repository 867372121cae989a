// Walks the commands of a variant. All threads of the team walk the same way; each takes its part
// of every command.
//
// When a kernel finds an error in the data, the others must not wait for its thread at a barrier
// that it never reaches. So nobody leaves on the spot: the error is noted with the step at which it
// happened, and after each barrier every thread looks whether there was one at an earlier step. All
// threads see the same there (an error that a fast thread finds after the barrier has a later
// step), and leave together.
#include <string.h>

#include "formats/dtype.h"
#include "formats/expr.h"
#include "formats/words.h"
#include "runtime/os.h"
#include "runtime/session.h"
#include "runtime/stage.h"
#ifdef NACRE_CUDA
#include "runtime/cuda.h"
#endif

static uint8_t* slot_base(const nacre_session* s, const struct nacre_slot* slot) {
  switch (slot->kind) {
    case NACRE_SLOT_INPUT:
      return s->staged[slot->index] ? nacre_stage_place(s, slot->index) : s->input_data[slot->index];
    case NACRE_SLOT_OUTPUT:
      return s->output_data[slot->index];
    case NACRE_SLOT_WEIGHT:
      // Kernels only read weights; the pages are read only.
      return s->model->container.data ? (uint8_t*)(uintptr_t)s->model->container.data +
                                            s->model->weight_offsets[slot->index]
                                      : NULL;
    case NACRE_SLOT_STATE:
      return s->state + s->model->state_offsets[slot->index];
    default:
      return s->arena;
  }
}

// Where an operand of the variant lies. Empty tensors may have no address, to which nothing may be added.
static void* operand(const nacre_session* s, const struct nacre_variant_view* v, uint32_t number) {
  const struct nacre_slot* slot = &v->slots[v->operands[number]];
  uint8_t* base = slot_base(s, slot);
  return base ? base + nacre_size_value(slot->offset, s->planned) : NULL;
}

static void sync_alone(const struct nacre_kernel_args* args) { (void)args; }

static void sync_team(const struct nacre_kernel_args* args) {
  nacre_team_sync(args->team, args->thread, args->threads);
}

static void note_fault(nacre_session* s, uint32_t thread, uint64_t step, uint32_t command,
                       int32_t code) {
  if (s->faults[thread].step) return;
  s->faults[thread] = (struct nacre_fault){step, command, code};
  unsigned long long first = atomic_load_explicit(&s->first_fault, memory_order_relaxed);
  while (step < first &&
         !atomic_compare_exchange_weak_explicit(&s->first_fault, &first, step, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}

// One thread's part of a copy: whole cache lines, so that no two threads write the same.
static void copy_part(const nacre_session* s, const struct nacre_variant_view* v,
                      const struct nacre_command* c, uint32_t thread, uint32_t threads) {
  const uint32_t* operands = &v->operands[c->first_operand];
  uint64_t size = (uint64_t)nacre_size_value(v->slots[operands[0]].size, s->planned);
  uint64_t from_size = (uint64_t)nacre_size_value(v->slots[operands[1]].size, s->planned);
  if (from_size < size) size = from_size;
  uint64_t part = nacre_align_data(size / threads), first = part * thread;
  if (part == 0 && thread == 0) part = size;
  if (first >= size) return;
  if (part > size - first) part = size - first;
  uint8_t* to = operand(s, v, c->first_operand);
  const uint8_t* from = operand(s, v, c->first_operand + 1);
  if (to != from) memmove(to + first, from + first, (size_t)part);
}

// Gives a symbol its value. All other threads are between two barriers and read no node.
static int32_t bind_symbol(nacre_session* s, const struct nacre_variant_view* v,
                           const struct nacre_command* c, int64_t value) {
  const struct nacre_entry_view* entry = &s->model->entries[s->entry].view;
  struct nacre_symbol_view symbol;
  s->symbols[c->target] = value;
  nacre_meta_symbol(s->model->container.meta, c->target, &symbol);
  if (value < symbol.min || value > symbol.max || value % symbol.multiple ||
      !nacre_expr_evaluate(entry->nodes, entry->node_count, 0, s->symbols, s->nodes) ||
      !nacre_expr_evaluate(v->nodes, nacre_session_nodes(s, v, entry), entry->node_count,
                           s->symbols, s->nodes))
    return NACRE_DATA_ERROR(NACRE_DATA_RANGE, 0);
  return 0;
}

// What the application's function gets. False for a shape that is larger than its memory: sizes that
// depend on data are known only now.
static bool make_import_call(nacre_session* s, const struct nacre_variant_view* v,
                             const struct nacre_command* c, nacre_import_call* call) {
  const nacre_meta* meta = s->model->container.meta;
  uint32_t variant = s->variant - s->model->entries[s->entry].first_variant;
  struct nacre_import_view import;
  nacre_meta_import(meta, c->target, &import);
  for (uint32_t i = 0; i < c->operand_count; ++i) {
    uint32_t slot = v->operands[c->first_operand + i];
    struct nacre_tensor_view tensor;
    nacre_meta_slot_tensor(meta, s->entry, variant, slot, &tensor);
    uint64_t bytes = nacre_dtype_size_bytes(tensor.dtype);
    for (uint32_t d = 0; d < tensor.rank; ++d) {
      int64_t size = nacre_size_value(tensor.dims[d], s->nodes);
      if (size < 0 || __builtin_mul_overflow(bytes, (uint64_t)size, &bytes)) return false;
      s->import_shapes[i][d] = size;
    }
    int64_t room = nacre_size_value(v->slots[slot].size, s->planned);
    if (room < 0 || bytes > (uint64_t)room) return false;
    s->import_tensors[i] = (nacre_tensor){operand(s, v, c->first_operand + i), s->import_shapes[i],
                                          NULL, tensor.rank, tensor.dtype};
  }
  *call = (nacre_import_call){import.name,
                              import.arguments,
                              s->import_tensors,
                              s->import_tensors + import.input_count,
                              import.input_count,
                              c->operand_count - import.input_count};
  return true;
}

static int32_t call_import(nacre_session* s, const struct nacre_variant_view* v,
                           const struct nacre_command* c) {
  const nacre_import* import = &s->model->imports[c->target];
  nacre_import_call call;
  if (!make_import_call(s, v, c, &call)) return NACRE_DATA_ERROR(NACRE_DATA_RANGE, 0);
  return import->function(import->user, &call);
}

const char* nacre_import_argument(const nacre_import_call* call, const char* name) {
  size_t length = strlen(name);
  // `"name":` stands nowhere else: a quote inside a text is written `\"`.
  for (const char* at = call->arguments; (at = strchr(at, '"')) != NULL; ++at)
    if (!strncmp(at + 1, name, length) && at[length + 1] == '"' && at[length + 2] == ':')
      return at + length + 3;
  return NULL;
}

static int32_t execute(nacre_session* s, const struct nacre_variant_view* v,
                       const struct nacre_command* c, uint32_t thread, uint32_t threads) {
  if (c->threads && c->threads < threads) threads = c->threads;
  if (c->kind == NACRE_COMMAND_import || c->kind == NACRE_COMMAND_bind ||
      c->kind == NACRE_COMMAND_check)
    threads = 1;
  if (thread >= threads) return 0;
  if (c->kind == NACRE_COMMAND_copy) {
    copy_part(s, v, c, thread, threads);
    return 0;
  }
  if (c->kind == NACRE_COMMAND_bind) {
    int64_t value;
    memcpy(&value, operand(s, v, c->first_operand), sizeof value);
    return bind_symbol(s, v, c, value);
  }
  if (c->kind == NACRE_COMMAND_check)
    return s->nodes[c->target] ? 0 : NACRE_DATA_ERROR(NACRE_DATA_ASSERT, 0);
  if (c->kind == NACRE_COMMAND_import) return call_import(s, v, c);
  void** buffers = s->buffers + thread * nacre_buffers_apart(s->model);
  for (uint32_t i = 0; i < c->operand_count; ++i) buffers[i] = operand(s, v, c->first_operand + i);
  struct nacre_kernel_args args = {
      .buffers = buffers,
      .nodes = s->nodes,
      .scratch = s->arena ? s->arena + s->arena_used + thread * s->scratch_size : NULL,
      .thread = thread,
      .threads = threads,
      .sync = threads > 1 ? sync_team : sync_alone,
      .team = s->team,
  };
  return s->model->kernels[c->target](&args);
}

// Adds the time since the last call to the command before this one.
struct clock {
  uint64_t since_ns;
  uint32_t command;
};
static void tick(nacre_session* s, struct clock* clock, uint32_t command) {
  uint64_t now = nacre_os_now_ns();
  if (clock->since_ns) {
    s->profile[clock->command].time_ns += now - clock->since_ns;
    s->profile[clock->command].calls += 1;
  }
  clock->since_ns = now;
  clock->command = command;
}

static void walk(void* context, uint32_t thread, uint32_t threads) {
  nacre_session* s = context;
  const struct nacre_variant_view* v = nacre_session_view(s);
  struct clock clock = {0, 0};
  bool timed = s->profile && thread == 0;
  uint32_t at = 0;
  for (uint64_t step = 1;; ++step) {
    const struct nacre_command* c = &v->commands[at];
    if (timed) tick(s, &clock, at);
    if (c->flags & NACRE_COMMAND_BARRIER && threads > 1) {
      nacre_team_barrier(s->team, thread);
      if (atomic_load_explicit(&s->first_fault, memory_order_relaxed) < step) return;
    }
    switch (c->kind) {
      case NACRE_COMMAND_end:
        return;
      case NACRE_COMMAND_branch:
        at = *(const uint8_t*)operand(s, v, c->first_operand) ? at + 1 : c->target;
        break;
      case NACRE_COMMAND_jump:
        at = c->target;
        break;
      case NACRE_COMMAND_loop:
        ++at;
        break;
      default: {
        int32_t code = execute(s, v, c, thread, threads);
        if (__builtin_expect(code != 0, 0)) {
          note_fault(s, thread, step, at, code);
          if (threads == 1) return;
        }
        ++at;
      }
    }
  }
}

// "u0 is 12, and must be in [0, 8]"
static void say_range(const nacre_session* s, const struct nacre_command* c,
                      struct nacre_text* text) {
  struct nacre_symbol_view symbol;
  nacre_meta_symbol(s->model->container.meta, c->target, &symbol);
  int64_t value = s->symbols[c->target];
  nacre_text_add(text, "%s is %d", symbol.name, value);
  if (value < symbol.min) nacre_text_add(text, ", and must be at least %d", symbol.min);
  if (value > symbol.max) nacre_text_add(text, ", and must be at most %d", symbol.max);
  if (value % symbol.multiple) nacre_text_add(text, ", no multiple of %d", symbol.multiple);
}

static void say_fault(nacre_session* s, const struct nacre_fault* fault) {
  static const char* const kKinds[] = {"error", "index out of range", "integer division by zero",
                                       "assertion failed", "a size out of its range"};
  const struct nacre_variant_view* v = nacre_session_view(s);
  const struct nacre_command* c = &v->commands[fault->command];
  const nacre_meta* meta = s->model->container.meta;
  uint32_t kind = (uint32_t)NACRE_DATA_ERROR_KIND(fault->code);
  uint32_t which = NACRE_DATA_ERROR_WHICH(fault->code);
  struct nacre_text text = nacre_session_say(s);
  nacre_import_call call;
  if (c->kind == NACRE_COMMAND_import) which = 0;
  if (c->kind == NACRE_COMMAND_bind)
    say_range(s, c, &text);
  else if (c->kind == NACRE_COMMAND_import && make_import_call(s, v, c, &call))
    nacre_text_add(&text, "the application's function '%s' returned %d", call.name,
                   (int64_t)fault->code);
  else
    nacre_text_string(&text, kKinds[kind < sizeof kKinds / sizeof kKinds[0] ? kind : 0]);
  if (c->kind == NACRE_COMMAND_check) {
    struct nacre_words words;
    uint32_t variant = s->variant - s->model->entries[s->entry].first_variant;
    nacre_words_open(&words, meta, s->entry, variant);
    nacre_text_string(&text, ": ");
    nacre_words_size(&words, ~(nacre_size)c->target, &text);
  }
  const uint32_t* provenances = v->provenances + c->first_provenance;
  uint32_t count = c->provenance_count;
  struct nacre_kernel_view kernel;
  if (!count && c->kind == NACRE_COMMAND_call) {
    nacre_meta_kernel(meta, c->target, &kernel);
    provenances = kernel.provenances;
    count = kernel.provenance_count;
  }
  if (!count) return;
  nacre_text_string(&text, " in ");
  nacre_words_provenance(meta, provenances[which < count ? which : 0], &text);
}

// As before the run, so that the next call finds the symbols of the same inputs unchanged.
static void forget_symbols(nacre_session* s) {
  const struct nacre_variant_view* v = nacre_session_view(s);
  if (!s->model->variants[s->variant].binds) return;
  for (uint32_t i = 0; i < v->command_count; ++i)
    if (v->commands[i].kind == NACRE_COMMAND_bind) s->symbols[v->commands[i].target] = 1;
}

nacre_status nacre_program_run(nacre_session* s) {
  atomic_store_explicit(&s->first_fault, ~0ull, memory_order_relaxed);
  nacre_team_run(s->team, walk, s);
  unsigned long long first = atomic_load_explicit(&s->first_fault, memory_order_relaxed);
  if (first == ~0ull) {
    forget_symbols(s);
    return NACRE_OK;
  }
  const struct nacre_fault* fault = NULL;
  for (uint32_t i = 0; i < s->threads; ++i)
    if (s->faults[i].step == first && !fault) fault = &s->faults[i];
  say_fault(s, fault);
  forget_symbols(s);
  memset(s->faults, 0, s->threads * sizeof *s->faults);
  return NACRE_DATA_ERROR;
}

#ifdef NACRE_CUDA
int32_t nacre_program_bind(nacre_session* s, const struct nacre_command* c, int64_t value) {
  return bind_symbol(s, nacre_session_view(s), c, value);
}

int32_t nacre_program_import(nacre_session* s, const struct nacre_command* c, void* const* places) {
  const nacre_import* import = &s->model->imports[c->target];
  nacre_import_call call;
  if (!make_import_call(s, nacre_session_view(s), c, &call))
    return NACRE_DATA_ERROR(NACRE_DATA_RANGE, 0);
  for (uint32_t i = 0; i < c->operand_count; ++i) s->import_tensors[i].data = places[i];
  return import->function(import->user, &call);
}

nacre_status nacre_program_failed(nacre_session* s, uint32_t command, int32_t code) {
  const struct nacre_fault fault = {1, command, code};
  say_fault(s, &fault);
  forget_symbols(s);
  return NACRE_DATA_ERROR;
}

void nacre_program_forget(nacre_session* s) { forget_symbols(s); }
#endif
