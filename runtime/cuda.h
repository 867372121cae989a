// Variants whose kernels run on a CUDA device. Only in a runtime that is built with NACRE_CUDA.
//
//   the model   has the context, the modules and the weights that such variants read, uploaded once
//   a session   has a stream, one block of device memory for everything else, and a graph of the program that ran last
#ifndef NACRE_RUNTIME_CUDA_H
#define NACRE_RUNTIME_CUDA_H

#include "formats/device_image.h"
#include "formats/text.h"
#include "runtime/cuda_driver.h"
#include "runtime/session.h"

// What lies in one block of device memory starts at multiples of 256 bytes, as allocations do.
static inline uint64_t nacre_cuda_align(uint64_t size) { return (size + 255) / 256 * 256; }

struct nacre_cuda_kernel {
  CUmodule module;
  CUfunction function;  // NULL: of another device, or a processor
  uint32_t threads, shared_bytes, operands, node_count;
  const uint32_t* nodes;
  const struct nacre_device_map* maps;
  uint32_t map_count;
};

struct nacre_cuda_model {
  const struct nacre_cuda_driver* driver;
  CUdevice device;
  CUcontext context;
  uint32_t image;         // the one that is loaded
  size_t memory;          // of the device
  bool overlaps;          // its kernels say themselves what they wait for
  CUdeviceptr weights;    // of the variants' weights, one after the other
  CUdeviceptr* weight_at; // by weight; 0: not there
  struct nacre_cuda_kernel* kernels;  // by number in the model
};

struct nacre_cuda_session {
  CUstream own_stream, stream;
  CUdeviceptr memory;
  size_t memory_size;
  CUdeviceptr state, arena, scratch, counters;
  CUdeviceptr *inputs, *outputs;  // copies of the caller's on the device, or the caller's own memory there
  bool *input_here, *output_here; // it is the caller's own
  CUdeviceptr* slots;             // by slot
  void** launched;                // by command: where its parameters begin
  void** pointers;                // to the parameters of the command that is launched
  uint64_t* parameters;           // of all commands, each with the number of its blocks behind
  bool* changed;                  // by command: since the graph was told
  uint32_t parameters_variant;    // whose they are
  uint64_t* status;               // in host memory that the device sees, and its address there
  CUdeviceptr status_there;
  bool state_there;               // the device's state is newer than the host's
  bool lost;
  bool queued;                    // calls end when they are queued
  // The graph of the variant that ran last, if its program is straight.
  uint32_t graph_variant;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode* graph_nodes;       // by command
  CUevent started, ended;         // with a profile: around the kernels of a run
};

// Sets what the model's GPU can run: its context, modules, and in the model `features` and `kernels`. Without a device, or an image
// for it, nothing changes. `why` has the driver's text where the device refuses.
nacre_status nacre_cuda_open(struct nacre_model* model, const nacre_open_options* options, struct nacre_text* why);
// Whether the variant's kernels are code for a GPU.
bool nacre_cuda_runs(const struct nacre_model* model, const struct nacre_variant_view* view);
// Whether the device has the memory that the variant's row wants. A variant of a processor wants none.
bool nacre_cuda_fits(const struct nacre_model* model, const struct nacre_variant_view* view);
// Of variants that do not fit: what they want, behind a message.
void nacre_cuda_say_memory(const struct nacre_model* model, uint32_t entry, struct nacre_text* why);
// Uploads what variants for the device read. Where there is not memory enough at present, and each entry has a variant for the processor,
// no variant is for the device any more.
nacre_status nacre_cuda_upload(struct nacre_model* model, struct nacre_text* why);
void nacre_cuda_close(struct nacre_model* model);

nacre_status nacre_cuda_session_make(nacre_session* session, const nacre_session_options* options);
void nacre_cuda_session_destroy(nacre_session* session);

// Inputs that do not lie as the variant reads them are copied by the host, which does not reach the device's memory.
nacre_status nacre_cuda_can_stage(nacre_session* session, const nacre_tensor* inputs);
// A call of the bound variant, which is for the device.
nacre_status nacre_cuda_run(nacre_session* session, const nacre_tensor* inputs, const nacre_buffer* outputs);
// The host's copy of the state is as the device's, and becomes the one that counts.
void nacre_cuda_state_to_host(nacre_session* session);

// Encodes the map of an operand at that address. `to` has NACRE_DEVICE_MAP_WORDS words.
CUresult nacre_cuda_encode(const struct nacre_cuda_driver* driver, const struct nacre_device_map* map, CUdeviceptr operand, uint64_t* to);

// Says what failed, in the driver's words; NACRE_DEVICE_LOST, or NACRE_OUT_OF_MEMORY.
nacre_status nacre_cuda_failed(nacre_session* session, CUresult result, const char* what);

// program.c
// `value` for the symbol of a `bind` command; 0, or the error in data.
int32_t nacre_program_bind(nacre_session* session, const struct nacre_command* command, int64_t value);
// `places`: of the operands, in the host's memory.
int32_t nacre_program_import(nacre_session* session, const struct nacre_command* command, void* const* places);
// As before the run: what `bind` commands have given symbols is forgotten.
void nacre_program_forget(nacre_session* session);
nacre_status nacre_program_failed(nacre_session* session, uint32_t command, int32_t code);

#endif
