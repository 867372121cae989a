// Device, modules, weights.
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda.h"
#include "runtime/os.h"

// Of what a multiprocessor has for shared memory and its first cache.
enum { kSharedPercent = 50, kSharedBytes = 132 * 1024 };
// A block has so much itself.
enum { kSharedOwn = 1024 };

// The first device, or none.
static bool find_device(const struct nacre_cuda_driver* driver, CUdevice* device, uint32_t* capability) {
  int count = 0, major = 0, minor = 0;
  if (driver->cuDeviceGetCount(&count) || count < 1 || driver->cuDeviceGet(device, 0) ||
      driver->cuDeviceGetAttribute(&major, CU_COMPUTE_CAPABILITY_MAJOR, *device) ||
      driver->cuDeviceGetAttribute(&minor, CU_COMPUTE_CAPABILITY_MINOR, *device))
    return false;
  *capability = (uint32_t)(10 * major + minor);
  return true;
}

// The image's table if it is well formed.
static const struct nacre_device_image* table_of(const uint8_t* bytes, uint64_t size) {
  const struct nacre_device_image* table = (const void*)bytes;
  if (size < sizeof *table || table->magic != NACRE_DEVICE_IMAGE_MAGIC || table->abi != NACRE_DEVICE_ABI)
    return NULL;
  uint64_t kernels = table->kernel_count, nodes = table->node_count, maps = table->map_count;
  if (sizeof *table + kernels * sizeof(struct nacre_device_kernel) + maps * sizeof(struct nacre_device_map) + nodes * 4 > size) return NULL;
  const struct nacre_device_kernel* k = (const void*)(table + 1);
  for (uint64_t i = 0; i < kernels; ++i) {
    if (k[i].cubin > size || k[i].cubin_size > size - k[i].cubin || k[i].ptx > size ||
        k[i].ptx_size > size - k[i].ptx || (k[i].ptx_size && bytes[k[i].ptx + k[i].ptx_size - 1]) ||
        k[i].first_node > nodes || k[i].node_count > nodes - k[i].first_node || !k[i].threads ||
        k[i].first_map > maps || k[i].map_count > maps - k[i].first_map)
      return NULL;
    const struct nacre_device_map* m = (const struct nacre_device_map*)(const void*)(k + kernels) + k[i].first_map;
    for (uint32_t j = 0; j < k[i].map_count; ++j)
      if (m[j].operand >= k[i].operands || m[j].rank < 3 || m[j].rank > NACRE_DEVICE_MAP_RANK || (m[j].pixels && m[j].rank != 4)) return NULL;
  }
  return table;
}

static bool has_ptx(const struct nacre_device_image* table) {
  const struct nacre_device_kernel* k = (const void*)(table + 1);
  for (uint32_t i = 0; i < table->kernel_count; ++i)
    if (!k[i].ptx_size) return false;
  return true;
}

// A device runs code for its own generation up to its own number, and PTX for no later one.
static bool runs_cubin(uint32_t capability, uint32_t wanted) {
  return capability / 10 == wanted / 10 && capability >= wanted;
}

static nacre_status refused(struct nacre_model* model, CUresult result, const char* what, struct nacre_text* why) {
  const char* text = "unknown error";
  model->cuda->driver->cuGetErrorString(result, &text);
  nacre_text_add(why, "the GPU cannot be used: %s: %s", what, text);
  return result == CU_OUT_OF_MEMORY ? NACRE_OUT_OF_MEMORY : NACRE_UNSUPPORTED_DEVICE;
}

static nacre_status load_kernels(struct nacre_model* model, const struct nacre_device_image* table, bool cubin, struct nacre_text* why) {
  struct nacre_cuda_model* cuda = model->cuda;
  const struct nacre_device_kernel* kernels = (const void*)(table + 1);
  const struct nacre_device_map* maps = (const void*)(kernels + table->kernel_count);
  const uint32_t* nodes = (const void*)(maps + table->map_count);
  if (table->map_count && (!cuda->driver->cuTensorMapEncodeTiled || !cuda->driver->cuTensorMapEncodeIm2col)) {
    nacre_text_string(why, "the GPU's driver is too old for the artifact's kernels");
    return NACRE_UNSUPPORTED_DEVICE;
  }
  for (uint32_t i = 0; i < model->counts.kernel_count; ++i) {
    struct nacre_kernel_view view;
    nacre_meta_kernel(model->container.meta, i, &view);
    if (view.image != cuda->image) continue;
    if (view.index >= table->kernel_count) {
      nacre_text_add(why, "kernel '%s' is not in its code image", view.name);
      return NACRE_BAD_ARTIFACT;
    }
    const struct nacre_device_kernel* k = &kernels[view.index];
    struct nacre_cuda_kernel* own = &cuda->kernels[i];
    char name[256];
    struct nacre_text text;
    nacre_text_start(&text, name, sizeof name);
    nacre_text_add(&text, "k%d_%s", (int64_t)view.index, view.name);
    CUresult result = cuda->driver->cuModuleLoadData(&own->module, (const uint8_t*)table + (cubin ? k->cubin : k->ptx));
    if (!result) result = cuda->driver->cuModuleGetFunction(&own->function, own->module, name);
    if (result) return refused(model, result, name, why);
    // Kernels run side by side where they divide a multiprocessor's memory alike.
    uint32_t shared = k->resident * (k->shared_bytes + kSharedOwn);
    if (cuda->overlaps || k->resident)
      cuda->driver->cuFuncSetAttribute(own->function, CU_FUNCTION_SHARED_PERCENT, shared > kSharedBytes ? 100 : kSharedPercent);
    if (k->shared_bytes) result = cuda->driver->cuFuncSetAttribute(own->function, CU_FUNCTION_SHARED_BYTES, (int)k->shared_bytes);
    if (k->cluster > 8 && !result) result = cuda->driver->cuFuncSetAttribute(own->function, CU_FUNCTION_LARGE_CLUSTERS, 1);
    if (result) return refused(model, result, name, why);
    own->threads = k->threads;
    own->shared_bytes = k->shared_bytes;
    own->operands = k->operands;
    own->nodes = nodes + k->first_node;
    own->node_count = k->node_count;
    own->maps = maps + k->first_map;
    own->map_count = k->map_count;
  }
  return NACRE_OK;
}

static int32_t no_function(const struct nacre_kernel_args* args) {
  (void)args;
  return 1;
}

// No variant runs on a GPU, because of `what`: an error where nothing else was asked for.
static nacre_status without_device(const nacre_open_options* options, const char* what, struct nacre_text* why) {
  if (!options || options->device != NACRE_DEVICE_CUDA) return NACRE_OK;
  nacre_text_add(why, "it cannot run on a GPU: %s", what);
  return NACRE_UNSUPPORTED_DEVICE;
}

nacre_status nacre_cuda_open(struct nacre_model* model, const nacre_open_options* options, struct nacre_text* why) {
  const struct nacre_cuda_driver* driver = NULL;
  CUdevice device = 0;
  const struct nacre_device_image* best = NULL;
  uint32_t capability = 0, chosen = 0;
  bool best_cubin = false, any = false;
  if (options && options->device == NACRE_DEVICE_CPU) return NACRE_OK;
  for (uint32_t i = 0; i < model->counts.image_count; ++i) {
    struct nacre_image_view view;
    nacre_meta_image(model->container.meta, i, &view);
    if (view.machine != NACRE_MACHINE_CUDA) continue;
    any = true;
    if (!driver) {
      driver = nacre_cuda_driver();
      if (!driver) return without_device(options, "there is no driver (libcuda.so.1) of the version that is needed", why);
      if (!find_device(driver, &device, &capability)) return without_device(options, "the driver finds no device", why);
    }
    const struct nacre_section* section = nacre_container_image(&model->container, i);
    const struct nacre_device_image* table = table_of(model->container.bytes + section->offset, section->size);
    if (!table) {
      nacre_text_add(why, "the code image '%s' is damaged", view.target);
      return NACRE_BAD_ARTIFACT;
    }
    bool cubin = runs_cubin(capability, table->compute_capability);
    if (!cubin && !(capability >= table->compute_capability && has_ptx(table))) continue;
    if (best && (best_cubin > cubin || (best_cubin == cubin && best->compute_capability >= table->compute_capability)))
      continue;
    chosen = i;
    best = table;
    best_cubin = cubin;
  }
  if (!any) return without_device(options, "the artifact has no code for one (nacre compile --target cuda-sm_...)", why);
  if (!best) return without_device(options, "the artifact's code is for other generations of devices than this one", why);
  struct nacre_cuda_model* cuda = calloc(1, sizeof *cuda);
  if (!cuda) return NACRE_OUT_OF_MEMORY;
  model->cuda = cuda;
  cuda->driver = driver;
  cuda->device = device;
  cuda->image = chosen;
  cuda->overlaps = best_cubin && best->compute_capability >= 90 && driver->cuGraphAddDependencies;
  cuda->kernels = calloc(model->counts.kernel_count + 1u, sizeof *cuda->kernels);
  cuda->weight_at = calloc(model->counts.weight_count + 1u, sizeof *cuda->weight_at);
  if (!cuda->kernels || !cuda->weight_at) return NACRE_OUT_OF_MEMORY;
  CUresult result = driver->cuDeviceTotalMem(&cuda->memory, device);
  if (!result) result = driver->cuDevicePrimaryCtxRetain(&cuda->context, device);
  if (!result) result = driver->cuCtxPushCurrent(cuda->context);
  if (result) return refused(model, result, "no context", why);
  nacre_status status = load_kernels(model, best, best_cubin, why);
  CUcontext none;
  driver->cuCtxPopCurrent(&none);
  if (status) return status;
  struct nacre_image_view view;
  nacre_meta_image(model->container.meta, chosen, &view);
  model->features |= view.features;
  for (uint32_t i = 0; i < model->counts.kernel_count; ++i)
    if (cuda->kernels[i].function)
      model->kernels[i] = no_function;
    else if (options && options->device == NACRE_DEVICE_CUDA)
      model->kernels[i] = NULL;  // so that no variant of a processor counts as loaded
  return NACRE_OK;
}

bool nacre_cuda_runs(const struct nacre_model* model, const struct nacre_variant_view* view) {
  for (uint32_t i = 0; i < view->command_count; ++i) {
    if (view->commands[i].kind != NACRE_COMMAND_call) continue;
    struct nacre_kernel_view kernel;
    struct nacre_image_view image;
    nacre_meta_kernel(model->container.meta, view->commands[i].target, &kernel);
    nacre_meta_image(model->container.meta, kernel.image, &image);
    return image.machine == NACRE_MACHINE_CUDA;
  }
  return false;
}

// What the row wants of the device's memory.
static uint64_t memory_for(const struct nacre_variant_view* view) {
  for (uint32_t i = 0; i < view->guard_count; ++i)
    if (view->guards[i].kind == NACRE_GUARD_features && view->guards[i].hi > 0) return (uint64_t)view->guards[i].hi;
  return 0;
}

bool nacre_cuda_fits(const struct nacre_model* model, const struct nacre_variant_view* view) {
  return !model->cuda || memory_for(view) <= model->cuda->memory;
}

void nacre_cuda_say_memory(const struct nacre_model* model, uint32_t entry, struct nacre_text* why) {
  for (uint32_t i = 0; model->cuda && i < model->entries[entry].view.variant_count; ++i) {
    const struct nacre_model_variant* variant = &model->variants[model->entries[entry].first_variant + i];
    if (nacre_cuda_fits(model, &variant->view)) continue;
    nacre_text_add(why, "; variant %d wants %d bytes of the GPU's memory, which has %d", (int64_t)i, (int64_t)memory_for(&variant->view), (int64_t)model->cuda->memory);
  }
}

// Whether every entry runs without the device, which then none does on it.
static bool leave_device(struct nacre_model* model) {
  for (uint32_t pass = 0; pass < 2; ++pass)
    for (uint32_t i = 0; i < model->counts.entry_count; ++i) {
      const struct nacre_model_entry* entry = &model->entries[i];
      bool runs = false;
      for (uint32_t j = 0; j < entry->view.variant_count; ++j) {
        struct nacre_model_variant* variant = &model->variants[entry->first_variant + j];
        runs = runs || (variant->loaded && !variant->cuda);
        if (pass && variant->cuda) variant->loaded = false;
      }
      if (!runs) return false;
    }
  return true;
}

nacre_status nacre_cuda_upload(struct nacre_model* model, struct nacre_text* why) {
  struct nacre_cuda_model* cuda = model->cuda;
  uint64_t total = 0;
  uint32_t next = 0;
  if (!cuda) return NACRE_OK;
  for (uint32_t i = 0; i < model->counts.entry_count; ++i)
    for (uint32_t j = 0; j < model->entries[i].view.variant_count; ++j) {
      const struct nacre_model_variant* variant = &model->variants[next++];
      if (!variant->cuda || !variant->loaded) continue;
      for (uint32_t k = 0; k < variant->view.slot_count; ++k) {
        const struct nacre_slot* slot = &variant->view.slots[k];
        struct nacre_weight_view weight;
        if (slot->kind != NACRE_SLOT_WEIGHT || cuda->weight_at[slot->index]) continue;
        nacre_meta_weight(model->container.meta, slot->index, &weight);
        cuda->weight_at[slot->index] = 1 + total;
        total += nacre_cuda_align(weight.size);
      }
    }
  if (!total) return NACRE_OK;
  cuda->driver->cuCtxPushCurrent(cuda->context);
  CUresult result = cuda->driver->cuMemAlloc(&cuda->weights, total);
  for (uint32_t i = 0; i < model->counts.weight_count && !result; ++i) {
    struct nacre_weight_view weight;
    if (!cuda->weight_at[i]) continue;
    nacre_meta_weight(model->container.meta, i, &weight);
    cuda->weight_at[i] += cuda->weights - 1;
    if (weight.size)
      result = cuda->driver->cuMemcpyHtoDAsync(cuda->weight_at[i], model->container.data + weight.offset, weight.size, NULL);
  }
  if (!result) result = cuda->driver->cuStreamSynchronize(NULL);
  CUcontext none;
  cuda->driver->cuCtxPopCurrent(&none);
  if (result == CU_OUT_OF_MEMORY && leave_device(model)) return NACRE_OK;
  return result ? refused(model, result, "its memory does not take the weights", why) : NACRE_OK;
}

void nacre_cuda_close(struct nacre_model* model) {
  struct nacre_cuda_model* cuda = model->cuda;
  if (!cuda) return;
  if (cuda->context) {
    cuda->driver->cuCtxPushCurrent(cuda->context);
    for (uint32_t i = 0; cuda->kernels && i < model->counts.kernel_count; ++i)
      if (cuda->kernels[i].module) cuda->driver->cuModuleUnload(cuda->kernels[i].module);
    if (cuda->weights) cuda->driver->cuMemFree(cuda->weights);
    CUcontext none;
    cuda->driver->cuCtxPopCurrent(&none);
    cuda->driver->cuDevicePrimaryCtxRelease(cuda->device);
  }
  free(cuda->kernels);
  free(cuda->weight_at);
  free(cuda);
  model->cuda = NULL;
}
