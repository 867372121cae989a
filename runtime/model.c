#include "runtime/model.h"

#include <string.h>

#include "formats/features.h"
#include "formats/words.h"
#include "runtime/block.h"
#include "runtime/device.h"
#include "runtime/os.h"

static struct nacre_model* lay_out(struct nacre_block* block, const struct nacre_meta_view* counts,
                                   uint32_t variant_count) {
  struct nacre_model* model = nacre_block_take(block, 1, sizeof *model);
  struct nacre_model unused;
  struct nacre_model* m = model ? model : &unused;
  m->images = nacre_block_take(block, counts->image_count, sizeof *m->images);
  m->kernels = nacre_block_take(block, counts->kernel_count, sizeof *m->kernels);
  m->imports = nacre_block_take(block, counts->import_count, sizeof *m->imports);
  m->state_offsets = nacre_block_take(block, counts->state_count, sizeof *m->state_offsets);
  m->weight_offsets = nacre_block_take(block, counts->weight_count, sizeof *m->weight_offsets);
  m->entries = nacre_block_take(block, counts->entry_count, sizeof *m->entries);
  m->variants = nacre_block_take(block, variant_count, sizeof *m->variants);
  return model;
}

static nacre_status load_images(struct nacre_model* model, struct nacre_text* why) {
  for (uint32_t i = 0; i < model->counts.image_count; ++i) {
    struct nacre_image_view view;
    nacre_meta_image(model->container.meta, i, &view);
    if (view.machine != NACRE_MACHINE || view.features & ~model->features) continue;
    const struct nacre_section* section = nacre_container_image(&model->container, i);
    const char* wrong = nacre_image_load(
        &model->images[i], model->container.bytes + section->offset, (size_t)section->size);
    if (!wrong) continue;
    nacre_text_add(why, "%s (image '%s')", wrong, view.target);
    return NACRE_BAD_ARTIFACT;
  }
  for (uint32_t i = 0; i < model->counts.kernel_count; ++i) {
    struct nacre_kernel_view view;
    nacre_meta_kernel(model->container.meta, i, &view);
    const struct nacre_image* image = &model->images[view.image];
    if (!image->base) continue;
    model->kernels[i] = nacre_image_kernel(image, view.index);
    if (model->kernels[i]) continue;
    nacre_text_add(why, "kernel '%s' is not in its code image", view.name);
    return NACRE_BAD_ARTIFACT;
  }
  return NACRE_OK;
}

// ": (f32[s0, 4]) -> f32[s0, 4] with {"factor":2.5}, for mylib.scale.default (model.py:3)"
static void say_import(const nacre_meta* meta, uint32_t entry_count, uint32_t import,
                       struct nacre_text* why) {
  for (uint32_t i = 0; i < entry_count; ++i) {
    struct nacre_words words;
    nacre_words_open(&words, meta, i, 0);
    for (uint32_t j = 0; j < words.entry_view.variant_count; ++j) {
      nacre_words_open(&words, meta, i, j);
      const struct nacre_variant_view* v = &words.variant_view;
      for (uint32_t k = 0; k < v->command_count; ++k) {
        const struct nacre_command* c = &v->commands[k];
        if (c->kind != NACRE_COMMAND_import || c->target != import) continue;
        nacre_text_string(why, ": ");
        nacre_words_import(&words, c, why);
        if (c->provenance_count) nacre_text_string(why, ", for ");
        if (c->provenance_count)
          nacre_words_provenance(meta, v->provenances[c->first_provenance], why);
        return;
      }
    }
  }
}

static nacre_status find_imports(struct nacre_model* model, const nacre_open_options* options,
                                 struct nacre_text* why) {
  for (uint32_t i = 0; i < model->counts.import_count; ++i) {
    struct nacre_import_view view;
    nacre_meta_import(model->container.meta, i, &view);
    for (size_t j = 0; options && j < options->import_count; ++j)
      if (options->imports[j].name && options->imports[j].function &&
          !strcmp(options->imports[j].name, view.name))
        model->imports[i] = options->imports[j];
    if (model->imports[i].function) continue;
    nacre_text_add(why,
                   "the model needs the application's function '%s', which the imports of "
                   "nacre_open_options do not have",
                   view.name);
    say_import(model->container.meta, model->counts.entry_count, i, why);
    return NACRE_MISSING_IMPORT;
  }
  return NACRE_OK;
}

static bool all_loaded(const struct nacre_model* model, const struct nacre_variant_view* view) {
  for (uint32_t i = 0; i < view->command_count; ++i)
    if (view->commands[i].kind == NACRE_COMMAND_call && !model->kernels[view->commands[i].target])
      return false;
  return true;
}

static void raise(uint32_t* limit, uint32_t value) {
  if (value > *limit) *limit = value;
}

// Rows of an entry begin alike, up to their last binding; what nodes say is another for each.
static uint32_t shared_records(const struct nacre_variant_view* a,
                               const struct nacre_variant_view* b) {
  uint32_t i = 0;
  while (i < a->guard_count && i < b->guard_count && !nacre_guard_reads_nodes(&a->guards[i]) &&
         !memcmp(&a->guards[i], &b->guards[i], sizeof a->guards[i]))
    ++i;
  return i;
}

static bool by_shapes(const struct nacre_variant_view* view) {
  for (uint32_t i = 0; i < view->guard_count; ++i) {
    uint16_t kind = view->guards[i].kind;
    if (kind == NACRE_GUARD_bind_value || kind == NACRE_GUARD_value_equal ||
        kind == NACRE_GUARD_value_range || kind == NACRE_GUARD_alignment ||
        kind == NACRE_GUARD_disjoint || kind == NACRE_GUARD_bind_stride ||
        kind == NACRE_GUARD_bind_offset)
      return false;
  }
  return true;
}

static nacre_status read_entries(struct nacre_model* model, struct nacre_text* why) {
  struct nacre_model_limits* limits = &model->limits;
  uint32_t next = 0;
  for (uint32_t i = 0; i < model->counts.entry_count; ++i) {
    struct nacre_model_entry* entry = &model->entries[i];
    nacre_meta_entry(model->container.meta, i, &entry->view);
    entry->first_variant = next;
    entry->by_shapes = true;
    raise(&limits->inputs, entry->view.input_count);
    raise(&limits->outputs, entry->view.output_count);
    for (uint32_t j = 0; j < entry->view.output_count; ++j) {
      struct nacre_tensor_view output;
      nacre_meta_output(model->container.meta, i, j, &output);
      raise(&limits->output_rank, output.rank);
    }
    bool any = false;
    for (uint32_t j = 0; j < entry->view.variant_count; ++j) {
      struct nacre_model_variant* variant = &model->variants[next++];
      struct nacre_variant_view* view = &variant->view;
      nacre_meta_variant(model->container.meta, i, j, view);
      variant->entry = i;
      variant->loaded = all_loaded(model, view) && nacre_cuda_fits(model, view);
      variant->cuda = nacre_cuda_runs(model, view);
      if (j) variant->shared = shared_records(view, &variant[-1].view);
      entry->by_shapes = entry->by_shapes && by_shapes(view);
      any = any || variant->loaded;
      raise(&limits->profile_nodes, entry->view.node_count + view->node_count);
      raise(&limits->nodes, entry->view.node_count + view->node_count - view->spare_nodes);
      raise(&limits->commands, view->command_count);
      for (uint32_t k = 0; k < view->command_count; ++k) {
        const struct nacre_command* command = &view->commands[k];
        variant->binds = variant->binds || command->kind == NACRE_COMMAND_bind;
        raise(&limits->command_operands, command->operand_count);
        if (command->kind == NACRE_COMMAND_import)
          raise(&limits->import_operands, command->operand_count);
      }
      limits->binds = limits->binds || variant->binds;
    }
    if (any) continue;
    nacre_text_add(why,
                   "no variant of entry '%s' runs on this processor; the artifact was compiled for",
                   entry->view.name);
    for (uint32_t j = 0; j < model->counts.image_count; ++j) {
      struct nacre_image_view image;
      nacre_meta_image(model->container.meta, j, &image);
      nacre_text_add(why, "%s %s", j ? "," : "", image.target);
      if (image.machine != NACRE_MACHINE || !(image.features & ~model->features)) continue;
      nacre_text_string(why, " (which wants ");
      nacre_words_features(image.features & ~model->features, why);
      nacre_text_string(why, ")");
    }
    nacre_cuda_say_memory(model, i, why);
    return NACRE_UNSUPPORTED_DEVICE;
  }
  return NACRE_OK;
}

static nacre_status open_bytes(const void* bytes, size_t size, const nacre_open_options* options,
                               nacre_model** result, struct nacre_text* why) {
  struct nacre_container container;
  struct nacre_meta_view counts;
  if (!bytes || !result || (uintptr_t)bytes % NACRE_DATA_ALIGN) {
    nacre_text_add(why, result ? "the artifact's address is not a multiple of 64"
                               : "there is no place for the model: it is NULL");
    return NACRE_BAD_ARGUMENT;
  }
  enum nacre_verdict verdict = nacre_verify(bytes, size, &container, why);
  if (verdict == NACRE_VERDICT_GOOD && options && options->verify_data)
    verdict = nacre_verify_data(&container, why);
  if (verdict != NACRE_VERDICT_GOOD)
    return verdict == NACRE_VERDICT_NEWER ? NACRE_UNSUPPORTED_VERSION : NACRE_BAD_ARTIFACT;
  nacre_meta_read(container.meta, &counts);
  if (counts.kernel_abi != NACRE_KERNEL_ABI) {
    nacre_text_add(why,
                   "its kernels are for version %d of the runtime's interface, this is version %d: "
                   "compile it again",
                   (int64_t)counts.kernel_abi, (int64_t)NACRE_KERNEL_ABI);
    return NACRE_UNSUPPORTED_VERSION;
  }
  if (options && options->import_count && !options->imports) {
    nacre_text_add(why, "import_count is %d, imports is NULL", (int64_t)options->import_count);
    return NACRE_BAD_ARGUMENT;
  }
  uint32_t variant_count = 0;
  for (uint32_t i = 0; i < counts.entry_count; ++i) {
    struct nacre_entry_view entry;
    nacre_meta_entry(container.meta, i, &entry);
    variant_count += entry.variant_count;
  }

  struct nacre_block block = {NULL, 0};
  lay_out(&block, &counts, variant_count);
  if (block.used <= SIZE_MAX) block.memory = nacre_os_allocate((size_t)block.used);
  if (!block.memory) {
    nacre_text_add(why, "out of memory");
    return NACRE_OUT_OF_MEMORY;
  }
  memset(block.memory, 0, (size_t)block.used);
  block.used = 0;
  struct nacre_model* model = lay_out(&block, &counts, variant_count);
  model->container = container;
  model->counts = counts;
  model->features = nacre_device_features();
  if (options) model->features &= ~options->hide_features;
  for (uint32_t i = 0; i < counts.state_count; ++i) {
    struct nacre_state_view state;
    nacre_meta_state(container.meta, i, &state);
    model->state_offsets[i] = model->state_bytes;
    model->state_bytes += nacre_align_data(state.size);
  }
  for (uint32_t i = 0; i < counts.weight_count; ++i) {
    struct nacre_weight_view weight;
    nacre_meta_weight(container.meta, i, &weight);
    model->weight_offsets[i] = weight.offset;
  }
  nacre_status status = load_images(model, why);
  if (!status) status = nacre_cuda_open(model, options, why);
  if (!status) status = find_imports(model, options, why);
  if (!status) status = read_entries(model, why);
  if (!status) status = nacre_cuda_upload(model, why);
  if (status)
    nacre_model_close(model);
  else
    *result = model;
  return status;
}

// Gives the caller's error its text. `error` may be NULL, the text then goes nowhere.
static nacre_status report(nacre_error* error, nacre_status status, struct nacre_text* why) {
  if (!error) return status;
  error->status = status;
  if (!why->length) nacre_text_add(why, nacre_status_text(status));
  memcpy(error->message, why->buffer, why->length + 1);
  return status;
}

nacre_status nacre_model_open_memory(const void* bytes, size_t size_bytes,
                                     const nacre_open_options* options, nacre_model** model,
                                     nacre_error* error) {
  char buffer[sizeof error->message];
  struct nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  return report(error, open_bytes(bytes, size_bytes, options, model, &why), &why);
}

nacre_status nacre_model_open(const char* path, const nacre_open_options* options,
                              nacre_model** model, nacre_error* error) {
  char buffer[sizeof error->message];
  struct nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  size_t size;
  const char* reason = "";
  if (!path) {
    nacre_text_add(&why, "the path is NULL");
    return report(error, NACRE_BAD_ARGUMENT, &why);
  }
  const void* bytes = nacre_os_map_file(path, &size, &reason);
  if (!bytes) {
    nacre_text_add(&why, "cannot read %s: %s", path, reason);
    return report(error, NACRE_IO_ERROR, &why);
  }
  nacre_text_add(&why, "%s: ", path);
  nacre_status status = NACRE_OK;
  const struct nacre_file_header* header = bytes;
  size_t artifact_size = size;
  if (size >= NACRE_APART_ALIGN && header->apart == size) status = nacre_weights_map(path, options, &bytes, &size, &artifact_size, &why);
  if (!status) status = open_bytes(bytes, artifact_size, options, model, &why);
  if (status)
    nacre_os_unmap(bytes, size);
  else
    (*model)->mapping_size = size;
  return report(error, status, &why);
}

void nacre_model_close(nacre_model* model) {
  if (!model) return;
  nacre_cuda_close(model);
  for (uint32_t i = 0; i < model->counts.image_count; ++i) nacre_image_unload(&model->images[i]);
  if (model->mapping_size) nacre_os_unmap(model->container.bytes, model->mapping_size);
  nacre_os_free(model);
}
