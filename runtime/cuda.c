// One call on the device: inputs there, the program, outputs back.
#include "runtime/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "formats/expr.h"
#include "nacre/cuda.h"
#include "runtime/os.h"
#include "runtime/stage.h"

static const struct nacre_cuda_driver* driver_of(const nacre_session* s) { return s->model->cuda->driver; }

nacre_status nacre_cuda_failed(nacre_session* s, CUresult result, const char* what) {
  const char* words = "unknown error";
  driver_of(s)->cuGetErrorString(result, &words);
  struct nacre_text text = nacre_session_say(s);
  nacre_text_add(&text, "the GPU: %s: %s", what, words);
  if (result == CU_OUT_OF_MEMORY) return NACRE_OUT_OF_MEMORY;
  s->cuda->lost = true;
  return NACRE_DEVICE_LOST;
}

// ---- Memory.

static struct nacre_tensor_view input_of(const nacre_session* s, uint32_t i) {
  struct nacre_tensor_view tensor;
  nacre_meta_input(s->model->container.meta, s->entry, i, &tensor);
  return tensor;
}

static uint32_t blocks_of(const nacre_session* s, const struct nacre_command* c) {
  int64_t blocks = c->grid ? s->planned[c->grid - 1] : 1;
  return blocks < 1 ? 1 : blocks > INT32_MAX ? INT32_MAX : (uint32_t)blocks;
}

static bool is_on_device(const nacre_session* s, const void* data) {
  unsigned type = 0;
  if (s->cuda->queued) return data != NULL;
  return data && !driver_of(s)->cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)data) &&
         type == CU_MEMORY_DEVICE;
}

// Whether kernels, which load 16 bytes at once, may use it where it lies.
static bool is_there(const nacre_session* s, const void* data) { return (uintptr_t)data % 16 == 0 && is_on_device(s, data); }

static bool input_is_on_device(const nacre_session* s, const nacre_tensor* inputs, uint32_t i) {
  if (s->staged[i] || (s->cuda->queued && !inputs[i].rank)) return false;
  return is_on_device(s, inputs[i].data);
}

// A number of a queued call is the host's, where guards can read it.
static bool input_is_there(const nacre_session* s, const nacre_tensor* inputs, uint32_t i) {
  if (s->staged[i] || (s->cuda->queued && !inputs[i].rank)) return false;
  return is_there(s, inputs[i].data);
}

// Memory for the bound shapes, and where in it everything lies.
static nacre_status lay_out(nacre_session* s, const nacre_tensor* inputs, const nacre_buffer* outputs) {
  struct nacre_cuda_session* cuda = s->cuda;
  const struct nacre_variant_view* v = nacre_session_view(s);
  const struct nacre_entry_view* e = &s->model->entries[s->entry].view;
  uint64_t total = 0, scratch = 0;
  for (uint32_t i = 0; i < e->input_count; ++i) {
    cuda->input_here[i] = input_is_there(s, inputs, i);
    cuda->inputs[i] = cuda->input_here[i] ? (CUdeviceptr)(uintptr_t)inputs[i].data : total;
    if (!cuda->input_here[i]) total += nacre_cuda_align((uint64_t)s->input_sizes[i]);
  }
  for (uint32_t i = 0; i < e->output_count; ++i) {
    cuda->output_here[i] = is_there(s, outputs[i].data);
    cuda->outputs[i] = cuda->output_here[i] ? (CUdeviceptr)(uintptr_t)outputs[i].data : total;
    if (!cuda->output_here[i]) total += nacre_cuda_align((uint64_t)s->output_sizes[i]);
  }
  uint64_t arena = total;
  total += nacre_cuda_align((uint64_t)nacre_size_value(v->arena_size, s->planned));
  for (uint32_t i = 0; i < v->command_count; ++i) {
    const struct nacre_command* c = &v->commands[i];
    uint64_t size = (uint64_t)nacre_size_value(c->scratch, s->planned) * blocks_of(s, c);
    if (c->kind == NACRE_COMMAND_call && size > scratch) scratch = size;
  }
  uint64_t scratch_at = total;
  total += nacre_cuda_align(scratch);
  if (total > cuda->memory_size || !cuda->memory) {
    if (cuda->memory) driver_of(s)->cuMemFree(cuda->memory);
    cuda->memory = 0;
    cuda->memory_size = 0;
    CUresult result = driver_of(s)->cuMemAlloc(&cuda->memory, total ? total : 256);
    if (result) return nacre_cuda_failed(s, result, "no memory for these shapes");
    cuda->memory_size = total;
  }
  for (uint32_t i = 0; i < e->input_count; ++i)
    if (!cuda->input_here[i]) cuda->inputs[i] += cuda->memory;
  for (uint32_t i = 0; i < e->output_count; ++i)
    if (!cuda->output_here[i]) cuda->outputs[i] += cuda->memory;
  cuda->arena = cuda->memory + arena;
  cuda->scratch = cuda->memory + scratch_at;
  for (uint32_t i = 0; i < v->slot_count; ++i) {
    const struct nacre_slot* slot = &v->slots[i];
    CUdeviceptr base = slot->kind == NACRE_SLOT_INPUT    ? cuda->inputs[slot->index]
                       : slot->kind == NACRE_SLOT_OUTPUT ? cuda->outputs[slot->index]
                       : slot->kind == NACRE_SLOT_WEIGHT ? s->model->cuda->weight_at[slot->index]
                       : slot->kind == NACRE_SLOT_STATE  ? cuda->state + s->model->state_offsets[slot->index]
                                                         : cuda->arena;
    cuda->slots[i] = base + (uint64_t)nacre_size_value(slot->offset, s->planned);
  }
  return NACRE_OK;
}

// Whether the caller's memory on the device, or the lack of it, is what the layout was made for.
static bool same_places(const nacre_session* s, const nacre_tensor* inputs, const nacre_buffer* outputs) {
  const struct nacre_cuda_session* cuda = s->cuda;
  const struct nacre_entry_view* e = &s->model->entries[s->entry].view;
  for (uint32_t i = 0; i < e->input_count; ++i) {
    bool here = input_is_there(s, inputs, i);
    if (here != cuda->input_here[i] || (here && cuda->inputs[i] != (CUdeviceptr)(uintptr_t)inputs[i].data)) return false;
  }
  for (uint32_t i = 0; i < e->output_count; ++i) {
    bool here = is_there(s, outputs[i].data);
    if (here != cuda->output_here[i] || (here && cuda->outputs[i] != (CUdeviceptr)(uintptr_t)outputs[i].data)) return false;
  }
  return true;
}

// ---- Kernels.

static const struct nacre_cuda_kernel* kernel_of(const nacre_session* s, const struct nacre_command* c) {
  return &s->model->cuda->kernels[c->target];
}

static size_t parameter_count(const nacre_session* s, const struct nacre_command* c) {
  const struct nacre_cuda_kernel* k = kernel_of(s, c);
  return (size_t)k->map_count * NACRE_DEVICE_MAP_WORDS + c->operand_count + k->node_count + 4;
}

// Writes the next word; true if it was another.
static bool put(uint64_t** to, uint64_t value) {
  bool other = **to != value;
  *(*to)++ = value;
  return other;
}

// `anew`: what is there is not this command's.
static CUresult set_parameters(nacre_session* s, uint32_t number, bool anew) {
  const struct nacre_variant_view* v = nacre_session_view(s);
  const struct nacre_command* c = &v->commands[number];
  const struct nacre_cuda_kernel* k = kernel_of(s, c);
  uint64_t* to = s->cuda->launched[number];
  bool changed = anew;
  const uint64_t* operands = to + k->map_count * NACRE_DEVICE_MAP_WORDS;
  for (uint32_t i = 0; i < k->map_count; ++i, to += NACRE_DEVICE_MAP_WORDS) {
    CUdeviceptr operand = s->cuda->slots[v->operands[c->first_operand + k->maps[i].operand]];
    if (!anew && operands[k->maps[i].operand] == operand) continue;
    CUresult result = nacre_cuda_encode(driver_of(s), &k->maps[i], operand, to);
    if (result) return result;
  }
  for (uint32_t i = 0; i < c->operand_count; ++i) changed |= put(&to, s->cuda->slots[v->operands[c->first_operand + i]]);
  for (uint32_t i = 0; i < k->node_count; ++i) changed |= put(&to, (uint64_t)s->nodes[k->nodes[i]]);
  changed |= put(&to, s->cuda->status_there);
  changed |= put(&to, number);
  changed |= put(&to, s->cuda->scratch);
  changed |= put(&to, s->cuda->counters);
  changed |= put(&to, blocks_of(s, c));
  s->cuda->changed[number] |= changed;
  return 0;
}

static CUresult all_parameters(nacre_session* s) {
  const struct nacre_variant_view* v = nacre_session_view(s);
  uint64_t* next = s->cuda->parameters;
  bool others = s->cuda->parameters_variant != s->variant;
  s->cuda->parameters_variant = NACRE_NONE;
  for (uint32_t i = 0; i < v->command_count; ++i) {
    if (v->commands[i].kind != NACRE_COMMAND_call) continue;
    s->cuda->launched[i] = next;
    next += parameter_count(s, &v->commands[i]) + 1;
    CUresult result = set_parameters(s, i, others);
    if (result) return result;
  }
  s->cuda->parameters_variant = s->variant;
  return 0;
}

// Where a command's parameters lie, one by one: where maps are in the device's memory is for the driver to know.
static void** pointers_to(nacre_session* s, uint32_t number) {
  const struct nacre_command* c = &nacre_session_view(s)->commands[number];
  const struct nacre_cuda_kernel* k = kernel_of(s, c);
  uint64_t* from = s->cuda->launched[number];
  void** to = s->cuda->pointers;
  for (uint32_t i = 0; i < k->map_count; ++i, from += NACRE_DEVICE_MAP_WORDS) *to++ = from;
  for (uint32_t i = 0; i <= c->operand_count + k->node_count; ++i) *to++ = from++;
  return s->cuda->pointers;
}

static CUresult launch(nacre_session* s, uint32_t number) {
  const struct nacre_command* c = &nacre_session_view(s)->commands[number];
  const struct nacre_cuda_kernel* k = kernel_of(s, c);
  return driver_of(s)->cuLaunchKernel(k->function, blocks_of(s, c), 1, 1, k->threads, 1, 1, k->shared_bytes, s->cuda->stream, pointers_to(s, number), NULL);
}

// ---- A straight program as a graph.

static bool is_straight(const struct nacre_variant_view* v) {
  for (uint32_t i = 0; i < v->command_count; ++i)
    if (v->commands[i].kind != NACRE_COMMAND_call && v->commands[i].kind != NACRE_COMMAND_end) return false;
  return true;
}

static void drop_graph(nacre_session* s) {
  struct nacre_cuda_session* cuda = s->cuda;
  if (cuda->exec) driver_of(s)->cuGraphExecDestroy(cuda->exec);
  if (cuda->graph) driver_of(s)->cuGraphDestroy(cuda->graph);
  cuda->exec = NULL;
  cuda->graph = NULL;
  cuda->graph_variant = NACRE_NONE;
}

// A kernel behind another, which may begin before that is done if it waits for it itself.
static CUresult add_kernel(nacre_session* s, CUgraphNode* node, CUgraphNode before, const CUkernelParams* p) {
  const struct nacre_cuda_driver* d = driver_of(s);
  static const CUgraphEdge early = {.from_port = CU_PORT_PROGRAMMATIC, .type = CU_EDGE_PROGRAMMATIC};
  bool overlaps = s->model->cuda->overlaps && before;
  CUresult result = d->cuGraphAddKernelNode(node, s->cuda->graph, before && !overlaps ? &before : NULL, before && !overlaps, p);
  return result || !overlaps ? result : d->cuGraphAddDependencies(s->cuda->graph, &before, node, &early, 1);
}

// Makes the graph of the bound variant, or gives the one that is there the parameters of other shapes and addresses.
static CUresult update_graph(nacre_session* s) {
  const struct nacre_cuda_driver* d = driver_of(s);
  struct nacre_cuda_session* cuda = s->cuda;
  const struct nacre_variant_view* v = nacre_session_view(s);
  bool anew = cuda->graph_variant != s->variant;
  CUresult result = 0;
  if (anew) {
    drop_graph(s);
    result = d->cuGraphCreate(&cuda->graph, 0);
  }
  CUgraphNode before = NULL;
  for (uint32_t i = 0; i < v->command_count && !result; ++i) {
    const struct nacre_command* c = &v->commands[i];
    if (c->kind != NACRE_COMMAND_call) continue;
    const struct nacre_cuda_kernel* k = kernel_of(s, c);
    CUkernelParams p = {.function = k->function, .grid_x = blocks_of(s, c), .grid_y = 1, .grid_z = 1, .block_x = k->threads, .block_y = 1, .block_z = 1, .shared_bytes = k->shared_bytes, .parameters = pointers_to(s, i)};
    if (anew) {
      result = add_kernel(s, &cuda->graph_nodes[i], before, &p);
    } else if (cuda->changed[i]) {
      result = d->cuGraphExecKernelNodeSetParams(cuda->exec, cuda->graph_nodes[i], &p);
    }
    cuda->changed[i] = false;
    before = cuda->graph_nodes[i];
  }
  if (anew && !result) result = d->cuGraphInstantiate(&cuda->exec, cuda->graph, 0);
  if (!result) cuda->graph_variant = s->variant;
  if (result) drop_graph(s);
  return result;
}

// ---- Any program, command by command.

static CUresult read_back(nacre_session* s, uint32_t slot, void* to, size_t size) {
  CUresult result = driver_of(s)->cuMemcpyDtoHAsync(to, s->cuda->slots[slot], size, s->cuda->stream);
  return result ? result : driver_of(s)->cuStreamSynchronize(s->cuda->stream);
}

static CUresult copy(nacre_session* s, const struct nacre_variant_view* v, const struct nacre_command* c) {
  uint32_t to = v->operands[c->first_operand], from = v->operands[c->first_operand + 1];
  int64_t size = nacre_size_value(v->slots[to].size, s->planned), other = nacre_size_value(v->slots[from].size, s->planned);
  if (other < size) size = other;
  if (size <= 0 || s->cuda->slots[to] == s->cuda->slots[from]) return 0;
  return driver_of(s)->cuMemcpyDtoDAsync(s->cuda->slots[to], s->cuda->slots[from], (size_t)size, s->cuda->stream);
}

// The application's function works on copies in the host's memory.
static CUresult import(nacre_session* s, const struct nacre_variant_view* v, const struct nacre_command* c, int32_t* code) {
  struct nacre_import_view view;
  uint64_t total = 0;
  nacre_meta_import(s->model->container.meta, c->target, &view);
  for (uint32_t i = 0; i < c->operand_count; ++i)
    total += nacre_align_data((uint64_t)nacre_size_value(v->slots[v->operands[c->first_operand + i]].size, s->planned));
  void** places = calloc(c->operand_count + 1u, sizeof *places);
  uint8_t *block = places ? nacre_os_allocate(total + 64) : NULL, *next = block;
  if (!block) {
    free(places);
    return CU_OUT_OF_MEMORY;
  }
  CUresult result = 0;
  for (uint32_t i = 0; i < c->operand_count && !result; ++i) {
    uint32_t slot = v->operands[c->first_operand + i];
    size_t size = (size_t)nacre_size_value(v->slots[slot].size, s->planned);
    places[i] = next;
    if (i < view.input_count && size) result = read_back(s, slot, next, size);
    next += nacre_align_data(size);
  }
  if (!result) *code = nacre_program_import(s, c, places);
  for (uint32_t i = view.input_count; i < c->operand_count && !result && !*code; ++i) {
    uint32_t slot = v->operands[c->first_operand + i];
    size_t size = (size_t)nacre_size_value(v->slots[slot].size, s->planned);
    if (size) result = driver_of(s)->cuMemcpyHtoDAsync(s->cuda->slots[slot], places[i], size, s->cuda->stream);
  }
  CUresult end = driver_of(s)->cuStreamSynchronize(s->cuda->stream);
  nacre_os_free(block);
  free(places);
  return result ? result : end;
}

static CUresult timed_launch(nacre_session* s, uint32_t number) {
  const struct nacre_cuda_driver* d = driver_of(s);
  struct nacre_cuda_session* cuda = s->cuda;
  float ms = 0;
  CUresult result = d->cuEventRecord(cuda->started, cuda->stream);
  if (!result) result = launch(s, number);
  if (!result) result = d->cuEventRecord(cuda->ended, cuda->stream);
  if (!result) result = d->cuEventSynchronize(cuda->ended);
  if (!result) result = d->cuEventElapsedTime(&ms, cuda->started, cuda->ended);
  s->profile[number].time_ns += (uint64_t)(ms * 1e6f);
  s->profile[number].calls += 1;
  return result;
}

static nacre_status walk(nacre_session* s) {
  const struct nacre_variant_view* v = nacre_session_view(s);
  uint32_t at = 0;
  for (;;) {
    const struct nacre_command* c = &v->commands[at];
    const uint32_t* operands = &v->operands[c->first_operand];
    CUresult result = 0;
    int32_t code = 0;
    uint32_t next = at + 1;
    int64_t value = 0;
    uint8_t truth = 0;
    switch (c->kind) {
      case NACRE_COMMAND_end:
        return NACRE_OK;
      case NACRE_COMMAND_call:
        result = set_parameters(s, at, false);
        if (!result) result = s->profile ? timed_launch(s, at) : launch(s, at);
        break;
      case NACRE_COMMAND_copy:
        result = copy(s, v, c);
        break;
      case NACRE_COMMAND_branch:
        result = read_back(s, operands[0], &truth, 1);
        // What follows from an error may not end.
        if (!result && *s->cuda->status) return NACRE_OK;
        if (!truth) next = c->target;
        break;
      case NACRE_COMMAND_jump:
        next = c->target;
        break;
      case NACRE_COMMAND_bind:
        result = read_back(s, operands[0], &value, sizeof value);
        if (!result && *s->cuda->status) return NACRE_OK;
        if (!result) code = nacre_program_bind(s, c, value);
        break;
      case NACRE_COMMAND_check:
        if (!s->nodes[c->target]) code = NACRE_DATA_ERROR(NACRE_DATA_ASSERT, 0);
        break;
      case NACRE_COMMAND_import:
        result = import(s, v, c, &code);
        break;
      default:
        break;
    }
    if (result) return nacre_cuda_failed(s, result, "a command of the program");
    if (code) {
      driver_of(s)->cuStreamSynchronize(s->cuda->stream);
      return nacre_program_failed(s, at, code);
    }
    at = next;
  }
}

// ---- The call.

static CUresult copies(nacre_session* s, const nacre_tensor* inputs, const nacre_buffer* outputs, bool in) {
  const struct nacre_cuda_driver* d = driver_of(s);
  struct nacre_cuda_session* cuda = s->cuda;
  const struct nacre_entry_view* e = &s->model->entries[s->entry].view;
  CUresult result = 0;
  for (uint32_t i = 0; i < e->input_count && !result; ++i) {
    void* here = s->staged[i] ? nacre_stage_place(s, i) : inputs[i].data;
    if (cuda->input_here[i] || !s->input_sizes[i] || (!in && !(input_of(s, i).flags & NACRE_TENSOR_MUTATED))) continue;
    size_t size = (size_t)s->input_sizes[i];
    if (input_is_on_device(s, inputs, i))
      result = in ? d->cuMemcpyDtoDAsync(cuda->inputs[i], (CUdeviceptr)(uintptr_t)here, size, cuda->stream)
                  : d->cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)here, cuda->inputs[i], size, cuda->stream);
    else
      result = in ? d->cuMemcpyHtoDAsync(cuda->inputs[i], here, size, cuda->stream)
                  : d->cuMemcpyDtoHAsync(here, cuda->inputs[i], size, cuda->stream);
  }
  for (uint32_t i = 0; i < e->output_count && !result && !in; ++i) {
    size_t size = (size_t)s->output_sizes[i];
    if (cuda->output_here[i] || !size) continue;
    result = is_on_device(s, outputs[i].data) ? d->cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)outputs[i].data, cuda->outputs[i], size, cuda->stream)
                                              : d->cuMemcpyDtoHAsync(outputs[i].data, cuda->outputs[i], size, cuda->stream);
  }
  return result;
}

// What kernels found wrong with the data.
static nacre_status fault_of(nacre_session* s) {
  uint64_t fault = *(volatile uint64_t*)s->cuda->status;
  *s->cuda->status = 0;
  return fault ? nacre_program_failed(s, (uint32_t)(fault >> 32) - 1, (int32_t)(uint32_t)fault) : NACRE_OK;
}

static nacre_status finish(nacre_session* s) {
  CUresult result = driver_of(s)->cuStreamSynchronize(s->cuda->stream);
  return result ? nacre_cuda_failed(s, result, "the program") : fault_of(s);
}

static nacre_status run(nacre_session* s, const nacre_tensor* inputs, const nacre_buffer* outputs) {
  const struct nacre_cuda_driver* d = driver_of(s);
  struct nacre_cuda_session* cuda = s->cuda;
  bool straight = is_straight(nacre_session_view(s)) && !s->profile;
  if (!s->addresses_valid || !same_places(s, inputs, outputs)) {
    s->addresses_valid = false;  // until all of it has been done
    nacre_status status = lay_out(s, inputs, outputs);
    if (status) return status;
    CUresult result = all_parameters(s);
    if (!result && straight) result = update_graph(s);
    if (result) return nacre_cuda_failed(s, result, "no graph of the program");
    s->addresses_valid = true;
  }
  CUresult result = 0;
  if (!cuda->state_there && s->model->state_bytes)
    result = d->cuMemcpyHtoDAsync(cuda->state, s->state, (size_t)s->model->state_bytes, cuda->stream);
  cuda->state_there = true;
  if (!result) result = copies(s, inputs, outputs, true);
  if (result) return nacre_cuda_failed(s, result, "inputs cannot be copied to it");
  if (!cuda->queued) *cuda->status = 0;
  nacre_status status = NACRE_OK;
  if (straight)
    result = d->cuGraphLaunch(cuda->exec, cuda->stream);
  else
    status = walk(s);
  if (status) return status;
  if (!result) result = copies(s, inputs, outputs, false);
  if (result) return nacre_cuda_failed(s, result, "the program");
  return cuda->queued ? NACRE_OK : finish(s);
}

// The device's context is this thread's until leave().
static nacre_status enter(nacre_session* s) {
  if (s->cuda->lost) {
    struct nacre_text text = nacre_session_say(s);
    nacre_text_string(&text, "the GPU failed before; this session can only be destroyed");
    return NACRE_DEVICE_LOST;
  }
  CUresult result = driver_of(s)->cuCtxPushCurrent(s->model->cuda->context);
  return result ? nacre_cuda_failed(s, result, "no context") : NACRE_OK;
}

static void leave(nacre_session* s) {
  CUcontext none;
  driver_of(s)->cuCtxPopCurrent(&none);
}

nacre_status nacre_session_wait(nacre_session* s) {
  if (!s->cuda || !s->cuda->queued) return NACRE_OK;
  nacre_status status = enter(s);
  if (status) return status;
  status = finish(s);
  leave(s);
  return status;
}

nacre_status nacre_cuda_can_stage(nacre_session* s, const nacre_tensor* inputs) {
  const struct nacre_entry_view* e = &s->model->entries[s->entry].view;
  for (uint32_t i = 0; i < e->input_count; ++i) {
    if (!s->staged[i] || !is_on_device(s, inputs[i].data)) continue;
    struct nacre_text text = nacre_session_say(s);
    nacre_text_add(&text, "input '%s' lies on the device, and not dense as this variant reads it: copy it first", input_of(s, i).name);
    return NACRE_BAD_ARGUMENT;
  }
  return NACRE_OK;
}

nacre_status nacre_cuda_run(nacre_session* s, const nacre_tensor* inputs, const nacre_buffer* outputs) {
  nacre_status status = enter(s);
  if (status) return status;
  status = run(s, inputs, outputs);
  if (!status) nacre_program_forget(s);
  leave(s);
  return status;
}

void nacre_cuda_state_to_host(nacre_session* s) {
  struct nacre_cuda_session* cuda = s->cuda;
  CUcontext none;
  if (!cuda || !cuda->state_there || cuda->lost) return;
  cuda->state_there = false;
  if (!s->model->state_bytes) return;
  driver_of(s)->cuCtxPushCurrent(s->model->cuda->context);
  driver_of(s)->cuMemcpyDtoHAsync(s->state, cuda->state, (size_t)s->model->state_bytes, cuda->stream);
  driver_of(s)->cuStreamSynchronize(cuda->stream);
  driver_of(s)->cuCtxPopCurrent(&none);
}

// ---- Sessions.

nacre_status nacre_cuda_session_make(nacre_session* s, const nacre_session_options* options) {
  const nacre_model* model = s->model;
  if (!model->cuda) return NACRE_OK;
  const struct nacre_cuda_driver* d = driver_of(s);
  const struct nacre_model_limits* most = &model->limits;
  size_t parameters = 0, slots = 0, pointers = 0;
  for (uint32_t i = 0, next = 0; i < model->counts.entry_count; ++i)
    for (uint32_t j = 0; j < model->entries[i].view.variant_count; ++j, ++next) {
      const struct nacre_model_variant* variant = &model->variants[next];
      size_t own = 0;
      if (!variant->cuda || !variant->loaded) continue;
      for (uint32_t k = 0; k < variant->view.command_count; ++k)
        if (variant->view.commands[k].kind == NACRE_COMMAND_call) {
          size_t count = parameter_count(s, &variant->view.commands[k]);
          own += count + 1;
          if (count > pointers) pointers = count;
        }
      if (own > parameters) parameters = own;
      if (variant->view.slot_count > slots) slots = variant->view.slot_count;
    }
  struct nacre_cuda_session* cuda = calloc(1, sizeof *cuda);
  if (!cuda) return NACRE_OUT_OF_MEMORY;
  s->cuda = cuda;
  cuda->graph_variant = cuda->parameters_variant = NACRE_NONE;
  cuda->inputs = calloc(most->inputs + 1u, sizeof *cuda->inputs);
  cuda->outputs = calloc(most->outputs + 1u, sizeof *cuda->outputs);
  cuda->input_here = calloc(most->inputs + 1u, sizeof *cuda->input_here);
  cuda->output_here = calloc(most->outputs + 1u, sizeof *cuda->output_here);
  cuda->slots = calloc(slots + 1, sizeof *cuda->slots);
  cuda->launched = calloc(most->commands + 1u, sizeof *cuda->launched);
  cuda->graph_nodes = calloc(most->commands + 1u, sizeof *cuda->graph_nodes);
  cuda->pointers = calloc(pointers + 1, sizeof *cuda->pointers);
  cuda->parameters = calloc(parameters + 1, sizeof *cuda->parameters);
  cuda->changed = calloc(most->commands + 1u, sizeof *cuda->changed);
  if (!cuda->inputs || !cuda->outputs || !cuda->input_here || !cuda->output_here || !cuda->slots || !cuda->launched ||
      !cuda->graph_nodes || !cuda->pointers || !cuda->parameters || !cuda->changed)
    return NACRE_OUT_OF_MEMORY;
  CUcontext none;
  CUresult result = d->cuCtxPushCurrent(model->cuda->context);
  if (result) return nacre_cuda_failed(s, result, "no context");
  result = d->cuStreamCreate(&cuda->own_stream, CU_STREAM_NON_BLOCKING);
  cuda->stream = options->cuda_stream ? options->cuda_stream : cuda->own_stream;
  cuda->queued = options->cuda_queued;
  if (!result) result = d->cuMemHostAlloc((void**)&cuda->status, 64, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
  if (!result) *cuda->status = 0;
  if (!result) result = d->cuMemHostGetDevicePointer(&cuda->status_there, cuda->status, 0);
  if (!result && model->state_bytes) result = d->cuMemAlloc(&cuda->state, (size_t)model->state_bytes);
  if (!result) result = d->cuMemAlloc(&cuda->counters, NACRE_DEVICE_COUNTERS * 4);
  if (!result) result = d->cuMemsetD8Async(cuda->counters, 0, NACRE_DEVICE_COUNTERS * 4, cuda->stream);
  if (!result) result = d->cuEventCreate(&cuda->started, 0);
  if (!result) result = d->cuEventCreate(&cuda->ended, 0);
  d->cuCtxPopCurrent(&none);
  return result ? nacre_cuda_failed(s, result, "no session") : NACRE_OK;
}

void nacre_cuda_session_destroy(nacre_session* s) {
  struct nacre_cuda_session* cuda = s->cuda;
  const struct nacre_cuda_driver* d;
  CUcontext none;
  if (!cuda) return;
  d = driver_of(s);
  if (!d->cuCtxPushCurrent(s->model->cuda->context)) {
    if (cuda->stream) d->cuStreamSynchronize(cuda->stream);  // queued calls
    drop_graph(s);
    if (cuda->memory) d->cuMemFree(cuda->memory);
    if (cuda->state) d->cuMemFree(cuda->state);
    if (cuda->counters) d->cuMemFree(cuda->counters);
    if (cuda->status) d->cuMemFreeHost(cuda->status);
    if (cuda->started) d->cuEventDestroy(cuda->started);
    if (cuda->ended) d->cuEventDestroy(cuda->ended);
    if (cuda->own_stream) d->cuStreamDestroy(cuda->own_stream);
    d->cuCtxPopCurrent(&none);
  }
  free(cuda->inputs);
  free(cuda->outputs);
  free(cuda->input_here);
  free(cuda->output_here);
  free(cuda->slots);
  free(cuda->launched);
  free(cuda->graph_nodes);
  free(cuda->pointers);
  free(cuda->parameters);
  free(cuda->changed);
  free(cuda);
  s->cuda = NULL;
}
