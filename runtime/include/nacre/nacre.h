// nacre: runs artifacts made by `nacre compile`. This is the whole public interface.
//
//   model    an opened artifact: immutable, may be shared by threads and by any number of sessions
//   session  one running copy: state, arena, threads. One call at a time for a session; different
//   sessions run side by side
//
// No function prints, exits, or leaves memory behind on failure. Outputs of a function are written
// only on success. Everything in an artifact is checked when it is opened; the code in it is native
// code, though: open only what you trust.
#ifndef NACRE_NACRE_H
#define NACRE_NACRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(NACRE_STATIC)
#define NACRE_API __attribute__((visibility("default")))
#else
#define NACRE_API
#endif

typedef enum nacre_status {
  NACRE_OK = 0,
  NACRE_BAD_ARGUMENT,         // the caller broke a rule of this header
  NACRE_IO_ERROR,             // a file cannot be read
  NACRE_BAD_ARTIFACT,         // not an artifact, truncated or damaged
  NACRE_UNSUPPORTED_VERSION,  // made by a nacre that is too new, or too old, for this runtime
  NACRE_UNSUPPORTED_DEVICE,   // holds no code for this processor
  NACRE_GUARD_MISS,           // no variant accepts these inputs
  NACRE_OUT_OF_MEMORY,        // the given or reserved memory is too small, or the system has none
  NACRE_DATA_ERROR,      // PyTorch would raise, too: an index out of range, an integer division by
                         // zero, a failed assertion
  NACRE_MISSING_IMPORT,  // the artifact needs a function that the application has not registered
  NACRE_NOT_FOUND,       // no entry, state or such of this name or number
  NACRE_THREAD_ERROR,    // threads cannot be started
  NACRE_DEVICE_LOST,     // the GPU failed: the session can only be destroyed
} nacre_status;

// A short text for a status, never NULL.
NACRE_API const char* nacre_status_text(nacre_status status);

// What went wrong when a model was opened.
typedef struct nacre_error {
  nacre_status status;
  char message[512];
} nacre_error;

// Dimensions of a tensor, at most.
#define NACRE_MAX_RANK 16

typedef struct nacre_model nacre_model;
typedef struct nacre_session nacre_session;

// ---- Model
// ---------------------------------------------------------------------------------------------------------------------

typedef struct nacre_tensor {
  void* data;            // aligned for its elements; read only, unless the entry mutates this input
  const int64_t* shape;  // `rank` numbers; may be NULL for rank 0
  // In elements; NULL: contiguous. Where no variant wants these strides, the call copies the tensor
  // into the arena first, and what it writes into it back afterwards (see NACRE_PROFILE_INPUTS).
  const int64_t* strides;
  uint32_t rank;
  uint32_t dtype;
} nacre_tensor;

// One call of an operator that nacre does not compile (torch.library). All tensors are contiguous;
// inputs must not be written, outputs have their shapes and their memory already.
typedef struct nacre_import_call {
  const char* name;       // "mylib::scale"
  const char* arguments;  // those that are no tensors, as a JSON object: {"factor":2.5,"times":3}
  const nacre_tensor* inputs;
  const nacre_tensor* outputs;
  uint32_t input_count;
  uint32_t output_count;
} nacre_import_call;

// The text of an argument's value, with all that follows it: strtod reads a number from it. NULL
// where the call leaves the argument to its default, which the artifact does not know.
NACRE_API const char* nacre_import_argument(const nacre_import_call* call, const char* name);

// A function of the application that stands in for an operator. Called on the thread that runs the
// model. A result other than 0 ends the run with NACRE_DATA_ERROR; the message has the number.
typedef struct nacre_import {
  const char* name;
  int32_t (*function)(void* user, const nacre_import_call* call);
  void* user;
} nacre_import;

typedef struct nacre_open_options {
  int verify_data;              // check the digest of the weights, too; reads all of them
  const nacre_import* imports;  // copied
  size_t import_count;
  uint64_t
      hide_features;  // features (formats/features.def) to do without, for tests and comparisons
  uint32_t device;  // NACRE_DEVICE_...
  // The file of weights of an artifact that has them apart (nacre compile --weights); NULL: the artifact's path with .weights behind it.
  // Of libnacre_cuda, with a GPU or without. libnacre, which is smaller, takes the two by nacre_model_open_memory: one behind the other,
  // without the last 64 bytes of the weights' file.
  const char* weights;
} nacre_open_options;

// Where variants may run. ANY: on a GPU where there is one that the artifact has code for. libnacre knows processors alone,
// whatever is asked for; libnacre_cuda both.
enum { NACRE_DEVICE_ANY = 0, NACRE_DEVICE_CPU = 1, NACRE_DEVICE_CUDA = 2 };

// Maps a file. `options` and `error` may be NULL. Weights are used where they lie in the mapping,
// so the file must not change meanwhile.
NACRE_API nacre_status nacre_model_open(const char* path, const nacre_open_options* options,
                                        nacre_model** model, nacre_error* error);

// The same from memory, which stays the caller's, must stay unchanged until the model is closed,
// and start at a multiple of 64.
NACRE_API nacre_status nacre_model_open_memory(const void* bytes, size_t size_bytes,
                                               const nacre_open_options* options,
                                               nacre_model** model, nacre_error* error);

// Sessions of the model must be gone. NULL is allowed.
NACRE_API void nacre_model_close(nacre_model* model);

// Names and the like live as long as the model. A number that is out of range gives NACRE_NOT_FOUND,
// or 0 or NULL where a function has no status; so does a name that is not there.
NACRE_API uint32_t nacre_entry_count(const nacre_model* model);
NACRE_API const char* nacre_entry_name(const nacre_model* model, uint32_t entry);
NACRE_API nacre_status nacre_entry_find(const nacre_model* model, const char* name,
                                        uint32_t* entry);

// A dimension of an input or output: a number, or a range. An input's range is the widest that a
// variant accepts.
typedef struct nacre_dim {
  int64_t size;        // -1: not fixed
  int64_t min, max;    // max is INT64_MAX where nothing limits it
  int64_t multiple;    // 1: no promise
  const char* symbol;  // its name if the dimension is just a symbol, else NULL
} nacre_dim;

typedef struct nacre_tensor_info {
  const char* name;
  uint32_t dtype;         // nacre_dtype, formats/dtype.h (installed as nacre/dtype.h)
  uint32_t element_size;  // bytes
  uint32_t rank;
  int mutated;  // input: the call writes into it
  // Where it lies in the arguments or the result of the Python module, as Python writes it:
  // "batch.image", "options['scales'][0]", "['logits']". Empty where the name says it, and for a
  // result that is a single tensor. A None among them has no number.
  const char* path;
} nacre_tensor_info;

NACRE_API uint32_t nacre_input_count(const nacre_model* model, uint32_t entry);
NACRE_API uint32_t nacre_output_count(const nacre_model* model, uint32_t entry);
NACRE_API nacre_status nacre_input_info(const nacre_model* model, uint32_t entry, uint32_t input,
                                        nacre_tensor_info* info);
NACRE_API nacre_status nacre_output_info(const nacre_model* model, uint32_t entry, uint32_t output,
                                         nacre_tensor_info* info);
NACRE_API nacre_status nacre_input_dim(const nacre_model* model, uint32_t entry, uint32_t input,
                                       uint32_t dim, nacre_dim* result);
NACRE_API nacre_status nacre_output_dim(const nacre_model* model, uint32_t entry, uint32_t output,
                                        uint32_t dim, nacre_dim* result);

// ---- Session
// -------------------------------------------------------------------------------------------------------------------

// The application's own threads. `parallel` calls job(context, t, n) for t = 0 ... n - 1, all at
// the same time, 1 <= n <= threads, and returns when all have returned.
typedef struct nacre_executor {
  void (*parallel)(void* self, uint32_t threads,
                   void (*job)(void* context, uint32_t thread, uint32_t threads), void* context);
  void* self;
} nacre_executor;

typedef struct nacre_session_options {
  uint32_t threads;                // 0 and 1: the calling thread alone
  const nacre_executor* executor;  // NULL: threads of the session's own, started when it is made
  // Memory for buffers between kernels, 384 bytes or more, since a message lies there between calls.
  // 0: what the largest shapes need if the artifact bounds them to 256 MiB, else next to nothing at
  // first.
  size_t arena_bytes;
  // 0: a call that needs a larger arena gets one from the heap, once. 1: it fails with
  // NACRE_OUT_OF_MEMORY instead; runs never allocate. Always so with memory of the caller's.
  int fixed_memory;
  int profile;  // keep the time of each command
  // How many different shapes to keep count of, see nacre_session_shapes. 0: none; or 1024 where the
  // environment variable NACRE_RECORD_SHAPES names a file, to which they are added when the session
  // is destroyed.
  uint32_t record_shapes;
  // Of variants for a GPU, see nacre/cuda.h.
  void* cuda_stream;
  int cuda_queued;
} nacre_session_options;

// The memory that a session takes with these options (NULL: defaults).
NACRE_API size_t nacre_session_size_bytes(const nacre_model* model,
                                          const nacre_session_options* options);

// `memory` NULL: one allocation. Otherwise at least nacre_session_size_bytes, a multiple of 64 as
// address, the caller's until the session is destroyed. NACRE_OUT_OF_MEMORY, NACRE_THREAD_ERROR,
// NACRE_BAD_ARGUMENT.
NACRE_API nacre_status nacre_session_make(const nacre_model* model,
                                          const nacre_session_options* options, void* memory,
                                          size_t size_bytes, nacre_session** session);
NACRE_API void nacre_session_destroy(nacre_session* session);

typedef struct nacre_buffer {
  void* data;         // aligned for its elements; must not overlap any input or other output
  size_t size_bytes;  // at least nacre_output_size_bytes
} nacre_buffer;

// Chooses the variant for these inputs and computes the shapes of the outputs. Reads shapes and
// scalar inputs, no other data. NACRE_GUARD_MISS: nacre_session_message says which input, which
// dimension, its value, and what each variant wanted.
NACRE_API nacre_status nacre_session_prepare(nacre_session* session, uint32_t entry,
                                             const nacre_tensor* inputs, uint32_t input_count);

// Of the last prepare or run, if that was successful: else, and for an output that is not there, NULL
// and 0. The shape has as many numbers as the output's rank and holds until the next call. Sizes
// that depend on data (how many elements are not zero) are the largest possible after a prepare, the
// true ones after a run; the buffer must hold the largest, and its beginning holds the result.
NACRE_API const int64_t* nacre_output_shape(const nacre_session* session, uint32_t output);
NACRE_API size_t nacre_output_size_bytes(const nacre_session* session, uint32_t output);
NACRE_API uint32_t nacre_session_variant(const nacre_session* session);

// Makes the arena large enough for calls with these shapes, so that they do not allocate.
// NACRE_OUT_OF_MEMORY with fixed memory.
NACRE_API nacre_status nacre_session_reserve(nacre_session* session, uint32_t entry,
                                             const nacre_tensor* inputs, uint32_t input_count);

// One call. Need not be prepared. Does not allocate, except for a larger arena as said above.
// NACRE_GUARD_MISS, NACRE_OUT_OF_MEMORY, NACRE_BAD_ARGUMENT: outputs, mutated inputs and state are
// untouched. NACRE_DATA_ERROR: they hold unspecified values; the message names the operator and its
// Python line. The session stays usable.
NACRE_API nacre_status nacre_run(nacre_session* session, uint32_t entry, const nacre_tensor* inputs,
                                 uint32_t input_count, const nacre_buffer* outputs,
                                 uint32_t output_count);

// Details of the last failure on this session; empty if there was none. Valid until the next call
// on the session.
NACRE_API const char* nacre_session_message(const nacre_session* session);

// ---- State: what the model keeps between calls
// -----------------------------------------------------------------------------------

// Numbers and names out of range as above. `shape` gets as many numbers as the rank.
NACRE_API uint32_t nacre_state_count(const nacre_model* model);
NACRE_API nacre_status nacre_state_info(const nacre_model* model, uint32_t state,
                                        nacre_tensor_info* info, int64_t shape[NACRE_MAX_RANK]);
NACRE_API nacre_status nacre_state_find(const nacre_model* model, const char* name,
                                        uint32_t* state);
NACRE_API size_t nacre_state_size_bytes(const nacre_model* model, uint32_t state);
// The bytes themselves, aligned to 64, to be read or written between calls; the session's. NULL for a
// number out of range.
NACRE_API void* nacre_session_state(nacre_session* session, uint32_t state);
// Where a model's random numbers start: from a call on, the same seed gives the same numbers. Without it, and after a reset,
// the seed is PyTorch's default. NACRE_NOT_FOUND: the model has none (which needs no seed).
NACRE_API nacre_status nacre_session_seed(nacre_session* session, uint64_t seed);
// Back to the initial values.
NACRE_API void nacre_session_reset(nacre_session* session);
// All states to a file, and back into a session of a model that has the same states (names, dtypes
// and shapes). NACRE_IO_ERROR, and NACRE_BAD_ARGUMENT for a file of another model or a damaged one;
// the session's state is untouched then.
NACRE_API nacre_status nacre_session_save(nacre_session* session, const char* path);
NACRE_API nacre_status nacre_session_load(nacre_session* session, const char* path);

// ---- Figures
// ---------------------------------------------------------------------------------------------------------------------

typedef struct nacre_memory_info {
  size_t session_bytes;  // everything but what follows
  size_t state_bytes;
  size_t arena_bytes;  // as it is now, scratch included
  size_t used_bytes;   // of the arena, by the last call
} nacre_memory_info;
NACRE_API void nacre_session_memory(const nacre_session* session, nacre_memory_info* info);

// Times of one command of the variant that ran last, summed over calls since the session was made
// or the last nacre_profile_clear, as thread 0 saw them, waiting included. The command's kernel,
// cost and lines are in the artifact (`nacre inspect`). NACRE_NOT_FOUND: no such command, or the
// session keeps no profile.
typedef struct nacre_profile_record {
  uint64_t time_ns;
  uint64_t calls;
  int64_t flops;  // of one call, 0 if not stated
  int64_t bytes;
} nacre_profile_record;
#define NACRE_PROFILE_INPUTS UINT32_MAX  // as `command`: the copies of inputs with other strides
NACRE_API nacre_status nacre_profile(const nacre_session* session, uint32_t command,
                                     nacre_profile_record* record);
NACRE_API void nacre_profile_clear(nacre_session* session);

// The shapes that ran, in the order in which they came first; NACRE_NOT_FOUND after the last.
// `inputs` (NULL and 0: not wanted) gets the sizes of the inputs whose sizes are not fixed, as
// `nacre compile --variant` takes them; NACRE_BAD_ARGUMENT: it is too small.
typedef struct nacre_shape_record {
  uint64_t calls;
  uint32_t entry;
  uint32_t variant;  // that ran
} nacre_shape_record;
NACRE_API nacre_status nacre_session_shapes(nacre_session* session, uint32_t number,
                                            nacre_shape_record* record, char* inputs, size_t size);
// Adds them to a file, a line each, for `nacre compile --shapes`. NACRE_IO_ERROR.
NACRE_API nacre_status nacre_session_write_shapes(nacre_session* session, const char* path);

#ifdef __cplusplus
}
#endif
#endif
