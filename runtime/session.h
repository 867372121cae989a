// One running copy of a model.
#ifndef NACRE_RUNTIME_SESSION_H
#define NACRE_RUNTIME_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/model.h"
#include "runtime/team.h"

#define NACRE_NONE UINT32_MAX

#define NACRE_MESSAGE_BYTES 384u

// An error that a kernel found in the data, as one thread saw it first.
struct nacre_fault {
  uint64_t step;  // of the walk, from 1; 0: none
  uint32_t command;
  int32_t code;
};

// recent.h
struct nacre_recent_place {
  uint32_t variant;  // in the model's list
  size_t arena_used, scratch_size;
};
struct nacre_recent {
  uint32_t capacity;  // numbers that one set of shapes may have
  uint32_t nodes;     // expressions whose values a place has
  uint32_t count;     // places
  uint32_t at;        // where the session's values are
  uint32_t turn;      // the place that goes next
  // Of the call that was looked at; hash 0: nothing that is kept.
  uint64_t hash;
  size_t size;  // of `looked`, in bytes
  int64_t* looked;
  // By place.
  uint64_t* hashes;
  struct nacre_recent_place* places;
  int64_t* values;  // `value_count` of each
  uint64_t value_count;
};

// Calls with one set of symbol values.
struct nacre_shape_count {
  uint64_t calls;
  uint32_t variant;  // in the model's list
};

struct nacre_session {
  const nacre_model* model;
  struct nacre_team* team;
  uint32_t threads;
  bool fixed_memory;
  bool owns_memory;
  size_t own_bytes;  // all of this block but state and arena

  // What the last successful preparation chose. `bound` says whether there was one, and the values
  // below are of it.
  bool bound;
  bool addresses_valid;  // input_data and output_data are good for the bound shapes
  uint32_t entry;
  uint32_t variant;  // in the model's list
  int64_t* symbols;
  int64_t* tried_symbols;
  int64_t* nodes;
  // Their values before the run, from which memory is planned: sizes and offsets of slots. What a run
  // finds out changes `nodes` alone.
  int64_t* planned;
  int64_t* output_shapes;  // nacre_session_output_shape
  int64_t* output_sizes;  // bytes
  int64_t* input_sizes;
  bool* dense;        // by input: contiguous
  bool all_dense;
  bool* staged;       // by input: copied, since the variant does not read it as it lies
  uint64_t* stage_offsets;
  uint64_t staged_size;
  struct nacre_recent recent;
  nacre_tensor* import_tensors;  // of the import that runs
  int64_t (*import_shapes)[NACRE_MAX_RANK];
  void** input_data;
  void** output_data;
  size_t arena_used;
  size_t scratch_size;  // of a thread

  uint8_t* state;
  uint8_t* arena;
  size_t arena_size;  // at least NACRE_MESSAGE_BYTES
  bool owns_arena;
  bool failed;  // the message of the last call lies in the arena, where nothing outlives a call

  // Of the running call. Addresses are found when a command runs, not kept for each: they are many.
  void** buffers;  // by thread, nacre_buffers_apart: what the kernel that it runs receives
  atomic_ullong first_fault;   // the least step at which a thread found an error; ULLONG_MAX: none
  struct nacre_fault* faults;  // by thread

  nacre_profile_record* profile;  // by command, or NULL
  uint32_t profiled_variant;
  nacre_profile_record stage_profile;  // of copies of inputs

  // Of the shapes that ran, if they are recorded.
  uint32_t shape_capacity, shape_count, last_shape;
  uint64_t shapes_lost;
  struct nacre_shape_count* shape_counts;
  int64_t* shape_symbols;

  struct nacre_cuda_session* cuda;  // NULL: the model has nothing for a device
};

// The variant of the entry that accepts the inputs (its number in the model's list), or NACRE_NONE.
// Leaves symbol and node values in the session;
// `*changed` tells whether they differ from those that the session was bound with.
uint32_t nacre_guard_choose(nacre_session* session, uint32_t entry, const nacre_tensor* inputs,
                            bool* changed);
// Puts in words what each variant wanted. The inputs are those of the choice that failed.
void nacre_guard_explain(nacre_session* session, uint32_t entry, const nacre_tensor* inputs);

// Chooses a variant and computes sizes, shapes and what the arena must hold. Does not touch the
// arena.
nacre_status nacre_bind(nacre_session* session, uint32_t entry, const nacre_tensor* inputs,
                        uint32_t input_count, bool* changed);
// The shapes of outputs whose sizes depend on data, after a run.
void nacre_bind_true_shapes(nacre_session* session);
// Looks at the caller's addresses, and keeps them, after nacre_bind.
nacre_status nacre_bind_addresses(nacre_session* session, const nacre_tensor* inputs,
                                  const nacre_buffer* outputs);

// Are the caller's tensors as large and as aligned as they must be?
nacre_status nacre_bind_check(nacre_session* session, const nacre_tensor* inputs,
                              const nacre_buffer* outputs);

// Walks the program of the bound variant on all threads. NACRE_DATA_ERROR with a message, or
// NACRE_OK.
nacre_status nacre_program_run(nacre_session* session);

// Starts the session's message anew; the text goes on where it ends. No kernel runs, and no copy of an input is needed any more.
struct nacre_text nacre_session_say(nacre_session* session);

// No two threads write into the same cache line.
static inline size_t nacre_buffers_apart(const nacre_model* model) {
  const size_t line = 64 / sizeof(void*);
  return (model->limits.command_operands + line - 1) / line * line;
}

static inline int64_t* nacre_session_output_shape(const nacre_session* session, uint32_t output) {
  return session->output_shapes + (size_t)output * session->model->limits.output_rank;
}

// How many of the variant's expressions have a place for their values: at least those that a run needs.
static inline uint32_t nacre_session_nodes(const nacre_session* session,
                                           const struct nacre_variant_view* variant,
                                           const struct nacre_entry_view* entry) {
  const uint32_t most = session->recent.nodes - entry->node_count;
  return variant->node_count < most ? variant->node_count : most;
}

// The bound variant.
static inline const struct nacre_variant_view* nacre_session_view(const nacre_session* session) {
  return &session->model->variants[session->variant].view;
}

#endif
