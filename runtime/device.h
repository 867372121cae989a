// GPUs, as the rest of the runtime sees them: what runtime/cuda.h has where the runtime is built with NACRE_CUDA, and otherwise
// nothing, which costs nothing.
#ifndef NACRE_RUNTIME_DEVICE_H
#define NACRE_RUNTIME_DEVICE_H

#include "formats/text.h"
#include "runtime/session.h"

#ifdef NACRE_CUDA

#include "runtime/cuda.h"
#include "runtime/weights.h"

static inline bool nacre_cuda_has_variant(const nacre_session* session) {
  return session->model->variants[session->variant].cuda;
}

#else

static inline nacre_status nacre_weights_map(const char* path, const nacre_open_options* options, const void** bytes, size_t* size,
                                             size_t* artifact_size, struct nacre_text* why) {
  (void)path, (void)options, (void)bytes, (void)size, (void)artifact_size;
  nacre_text_string(why, "its weights are in another file (see nacre.h)");
  return NACRE_IO_ERROR;
}
static inline nacre_status nacre_cuda_open(struct nacre_model* model, const nacre_open_options* options, struct nacre_text* why) {
  (void)model, (void)options, (void)why;
  return NACRE_OK;
}
static inline bool nacre_cuda_runs(const struct nacre_model* model, const struct nacre_variant_view* view) {
  (void)model, (void)view;
  return false;
}
static inline bool nacre_cuda_fits(const struct nacre_model* model, const struct nacre_variant_view* view) {
  (void)model, (void)view;
  return true;
}
static inline void nacre_cuda_say_memory(const struct nacre_model* model, uint32_t entry, struct nacre_text* why) {
  (void)model, (void)entry, (void)why;
}
static inline nacre_status nacre_cuda_upload(struct nacre_model* model, struct nacre_text* why) {
  (void)model, (void)why;
  return NACRE_OK;
}
static inline void nacre_cuda_close(struct nacre_model* model) { (void)model; }
static inline nacre_status nacre_cuda_session_make(nacre_session* session, const nacre_session_options* options) {
  (void)session, (void)options;
  return NACRE_OK;
}
static inline void nacre_cuda_session_destroy(nacre_session* session) { (void)session; }
static inline void nacre_cuda_state_to_host(nacre_session* session) { (void)session; }
static inline bool nacre_cuda_has_variant(const nacre_session* session) {
  (void)session;
  return false;
}
static inline nacre_status nacre_cuda_can_stage(nacre_session* session, const nacre_tensor* inputs) {
  (void)session, (void)inputs;
  return NACRE_OK;
}
static inline nacre_status nacre_cuda_run(nacre_session* session, const nacre_tensor* inputs, const nacre_buffer* outputs) {
  (void)session, (void)inputs, (void)outputs;
  return NACRE_OK;
}

#endif
#endif
