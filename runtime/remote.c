// nacre-remote: runs one artifact for a `nacre` elsewhere, on this machine or in an emulator of it.
//
// Requests come on standard input, answers go to standard output, numbers in the machine's own order
// (all that nacre knows are little-endian). Text is a uint32 length and that many bytes.
//
//   first     uint64 size, the artifact, uint32 entry, uint32 threads
//             -> uint32 status, and text where it is not 0: then nothing follows
//   reset     uint32 0
//             -> nothing
//   call      uint32 1
//             uint32 number of storages; of each: uint64 size, bytes
//             uint32 number of inputs; of each: uint32 storage, uint64 offset in bytes, uint32 dtype,
//               uint32 rank, int64 shape[rank], int64 strides[rank] (in elements)
//             -> uint32 status; where it is not 0, text. Else:
//             uint32 number of outputs; of each: uint32 rank, int64 shape[rank], uint64 size, bytes
//             the bytes of each storage, as the call left them
//             uint32 number of states; of each: uint64 size, bytes
//   end of input ends it.
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dtype.h"
#include "nacre/nacre.h"

enum { kReset = 0, kCall = 1, kMaxInputs = 65536 };

static void fail(const char* what) {
  fprintf(stderr, "nacre-remote: %s\n", what);
  exit(2);
}

// False: the input has ended, which may be between requests only.
static bool get_first(void* to, size_t size) {
  size_t done = fread(to, 1, size, stdin);
  if (done && done < size) fail("a request ends early");
  return done == size;
}
static void get(void* to, size_t size) {
  if (size && !get_first(to, size)) fail("a request ends early");
}
static uint32_t get32(void) {
  uint32_t number;
  get(&number, sizeof number);
  return number;
}
static uint64_t get64(void) {
  uint64_t number;
  get(&number, sizeof number);
  return number;
}
static void put(const void* from, size_t size) {
  if (size && fwrite(from, 1, size, stdout) != size) fail("nobody takes the answer");
}
static void put32(uint32_t number) { put(&number, sizeof number); }
static void put64(uint64_t number) { put(&number, sizeof number); }

static void* reserve(size_t size) {
  void* memory;
  if (size > SIZE_MAX - 64 || posix_memalign(&memory, 64, size ? size : 64)) fail("out of memory");
  return memory;
}

struct storage {
  void* bytes;
  size_t size;
};

static struct storage get_storage(void) {
  uint64_t size = get64();
  if (size > SIZE_MAX - 64) fail("out of memory");
  struct storage s = {reserve((size_t)size), (size_t)size};
  get(s.bytes, s.size);
  return s;
}

static bool answer(nacre_status status, const char* text) {
  put32(status);
  if (status) {
    uint32_t length = (uint32_t)strlen(text);
    put32(length);
    put(text, length);
  }
  return !status;
}

struct call {
  uint32_t storage_count, input_count, output_count;
  struct storage* storages;
  nacre_tensor* inputs;
  nacre_buffer* outputs;
};

static void get_call(struct call* call) {
  call->storage_count = get32();
  if (call->storage_count > kMaxInputs) fail("too many storages");
  call->storages = reserve(call->storage_count * sizeof *call->storages);
  for (uint32_t i = 0; i < call->storage_count; ++i) call->storages[i] = get_storage();
  call->input_count = get32();
  if (call->input_count > kMaxInputs) fail("too many inputs");
  call->inputs = reserve(call->input_count * sizeof *call->inputs);
  for (uint32_t i = 0; i < call->input_count; ++i) {
    nacre_tensor* t = &call->inputs[i];
    uint32_t storage = get32();
    uint64_t offset = get64();
    if (storage >= call->storage_count || offset > call->storages[storage].size)
      fail("an input lies outside its storage");
    t->data = (char*)call->storages[storage].bytes + offset;
    t->dtype = get32();
    t->rank = get32();
    if (t->rank > NACRE_MAX_RANK) fail("too many dimensions");
    int64_t* numbers = reserve(2 * NACRE_MAX_RANK * sizeof *numbers);
    get(numbers, 2 * t->rank * sizeof *numbers);
    t->shape = numbers;
    t->strides = numbers + t->rank;
  }
}

static void release(struct call* call) {
  for (uint32_t i = 0; i < call->storage_count; ++i) free(call->storages[i].bytes);
  for (uint32_t i = 0; i < call->input_count; ++i) free((void*)(uintptr_t)call->inputs[i].shape);
  for (uint32_t i = 0; i < call->output_count; ++i) free(call->outputs[i].data);
  free(call->storages);
  free(call->inputs);
  free(call->outputs);
}

static nacre_status run(nacre_session* session, uint32_t entry, struct call* call) {
  nacre_status status =
      nacre_session_prepare(session, entry, call->inputs, call->input_count);
  if (status) return status;
  for (uint32_t i = 0; i < call->output_count; ++i) {
    call->outputs[i].size_bytes = nacre_output_size_bytes(session, i);
    call->outputs[i].data = reserve(call->outputs[i].size_bytes);
  }
  return nacre_run(session, entry, call->inputs, call->input_count, call->outputs,
                   call->output_count);
}

static void put_results(const nacre_model* model, nacre_session* session, uint32_t entry,
                        const struct call* call) {
  put32(call->output_count);
  for (uint32_t i = 0; i < call->output_count; ++i) {
    nacre_tensor_info info;
    nacre_output_info(model, entry, i, &info);
    const int64_t* shape = nacre_output_shape(session, i);
    uint64_t size = info.element_size;
    for (uint32_t d = 0; d < info.rank; ++d) size *= (uint64_t)shape[d];
    put32(info.rank);
    put(shape, info.rank * sizeof *shape);
    put64(size);
    put(call->outputs[i].data, (size_t)size);
  }
  for (uint32_t i = 0; i < call->storage_count; ++i)
    put(call->storages[i].bytes, call->storages[i].size);
  put32(nacre_state_count(model));
  for (uint32_t i = 0; i < nacre_state_count(model); ++i) {
    put64(nacre_state_size_bytes(model, i));
    put(nacre_session_state(session, i), nacre_state_size_bytes(model, i));
  }
}

int main(void) {
  struct storage artifact = get_storage();
  uint32_t entry = get32(), threads = get32();
  nacre_model* model;
  nacre_session* session;
  nacre_error error;
  nacre_status status =
      nacre_model_open_memory(artifact.bytes, artifact.size, NULL, &model, &error);
  if (status) return answer(status, error.message), fflush(stdout), 1;
  nacre_session_options options = {.threads = threads};
  status = nacre_session_make(model, &options, NULL, 0, &session);
  if (!answer(status, nacre_status_text(status))) return fflush(stdout), 1;
  if (fflush(stdout)) fail("nobody takes the answer");

  for (uint32_t what; get_first(&what, sizeof what);) {
    if (what == kReset) {
      nacre_session_reset(session);
      continue;
    }
    if (what != kCall) fail("a request of unknown kind");
    struct call call = {.output_count = nacre_output_count(model, entry)};
    get_call(&call);
    call.outputs = reserve(call.output_count * sizeof *call.outputs);
    memset(call.outputs, 0, call.output_count * sizeof *call.outputs);
    status = run(session, entry, &call);
    if (answer(status, nacre_session_message(session))) put_results(model, session, entry, &call);
    if (fflush(stdout)) fail("nobody takes the answer");
    release(&call);
  }
  nacre_session_destroy(session);
  nacre_model_close(model);
  free(artifact.bytes);
  return 0;
}
