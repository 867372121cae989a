// META through flatbuffers' generated code and verifier. The runtime's one C++ file: no exceptions,
// no RTTI, and nothing of the C++ library may be linked.
#include "formats/meta.h"

// Under a name of its own: a program that links libnacre.a may have another flatbuffers.
#define flatbuffers nacre_flatbuffers
// No assertion text: what it would guard is verified before.
#define FLATBUFFERS_ASSERT(x) ((void)0)
#include "meta_generated.h"

namespace {

namespace fmt = nacre::fmt;

static_assert(sizeof(nacre_node) == sizeof(fmt::Node));
static_assert(sizeof(nacre_guard) == sizeof(fmt::Guard));
static_assert(sizeof(nacre_slot) == sizeof(fmt::Slot));
static_assert(sizeof(nacre_command) == sizeof(fmt::Command));
static_assert(alignof(nacre_command) == alignof(fmt::Command));

// META's depth is Meta, Entry, Variant, Tensor; a table more is allowed for what may be added.
constexpr unsigned kMaxDepth = 8;
constexpr unsigned kMaxTables = 1u << 24;

const fmt::Meta* root(const nacre_meta* meta) { return reinterpret_cast<const fmt::Meta*>(meta); }

const char* text(const flatbuffers::String* string) { return string ? string->c_str() : ""; }

template <typename T>
uint32_t count(const flatbuffers::Vector<T>* vector) {
  return vector ? vector->size() : 0;
}

// Vectors of numbers and of structs lie in the file as C expects them; an absent one is empty.
template <typename C, typename T>
const C* array(const flatbuffers::Vector<T>* vector) {
  return vector ? reinterpret_cast<const C*>(vector->Data()) : nullptr;
}

void read_tensor(const fmt::Tensor* tensor, nacre_tensor_view* view) {
  view->name = text(tensor->name());
  view->dtype = tensor->dtype();
  view->flags = tensor->flags();
  view->rank = count(tensor->dims());
  view->dims = array<nacre_size>(tensor->dims());
  view->layout_count = count(tensor->layout());
  view->layout = array<uint8_t>(tensor->layout());
  view->bound_count = count(tensor->bounds());
  view->bounds = array<nacre_size>(tensor->bounds());
  view->path = text(tensor->path());
}

}  // namespace

extern "C" {

const nacre_meta* nacre_meta_open(const void* bytes, size_t size) {
  if (size < 16 || size >= FLATBUFFERS_MAX_BUFFER_SIZE) return nullptr;
  flatbuffers::Verifier verifier(static_cast<const uint8_t*>(bytes), size, kMaxDepth, kMaxTables);
  if (!fmt::VerifyMetaBuffer(verifier)) return nullptr;
  return reinterpret_cast<const nacre_meta*>(fmt::GetMeta(bytes));
}

void nacre_meta_read(const nacre_meta* meta, nacre_meta_view* view) {
  const fmt::Meta* m = root(meta);
  view->producer = text(m->producer());
  view->kernel_abi = m->kernel_abi();
  view->symbol_count = count(m->symbols());
  view->provenance_count = count(m->provenances());
  view->image_count = count(m->images());
  view->kernel_count = count(m->kernels());
  view->weight_count = count(m->weights());
  view->state_count = count(m->states());
  view->import_count = count(m->imports());
  view->entry_count = count(m->entries());
}

void nacre_meta_symbol(const nacre_meta* meta, uint32_t i, nacre_symbol_view* view) {
  const fmt::Symbol* symbol = root(meta)->symbols()->Get(i);
  *view = {text(symbol->name()), symbol->min(), symbol->max(), symbol->multiple()};
}

void nacre_meta_provenance(const nacre_meta* meta, uint32_t i, nacre_provenance_view* view) {
  const fmt::Provenance* p = root(meta)->provenances()->Get(i);
  *view = {text(p->op()), text(p->module_()), text(p->file()), p->line()};
}

void nacre_meta_image(const nacre_meta* meta, uint32_t i, nacre_image_view* view) {
  const fmt::Image* image = root(meta)->images()->Get(i);
  *view = {text(image->target()), image->machine(), image->features()};
}

void nacre_meta_kernel(const nacre_meta* meta, uint32_t i, nacre_kernel_view* view) {
  const fmt::Kernel* kernel = root(meta)->kernels()->Get(i);
  *view = {text(kernel->name()),
           kernel->image(),
           kernel->index(),
           kernel->size_bytes(),
           count(kernel->provenances()),
           array<uint32_t>(kernel->provenances())};
}

void nacre_meta_weight(const nacre_meta* meta, uint32_t i, nacre_weight_view* view) {
  const fmt::Weight* weight = root(meta)->weights()->Get(i);
  *view = {text(weight->name()),           weight->dtype(),  count(weight->dims()),
           array<int64_t>(weight->dims()), weight->offset(), weight->size()};
}

void nacre_meta_state(const nacre_meta* meta, uint32_t i, nacre_state_view* view) {
  const fmt::State* state = root(meta)->states()->Get(i);
  *view = {text(state->name()),           state->dtype(), count(state->dims()),
           array<int64_t>(state->dims()), state->size(),  state->initial()};
}

void nacre_meta_import(const nacre_meta* meta, uint32_t i, nacre_import_view* view) {
  const fmt::Import* import = root(meta)->imports()->Get(i);
  *view = {text(import->name()), text(import->arguments()), import->input_count()};
}

void nacre_meta_entry(const nacre_meta* meta, uint32_t i, nacre_entry_view* view) {
  const fmt::Entry* entry = root(meta)->entries()->Get(i);
  view->name = text(entry->name());
  view->nodes = array<nacre_node>(entry->nodes());
  view->node_count = count(entry->nodes());
  view->input_count = count(entry->inputs());
  view->output_count = count(entry->outputs());
  view->variant_count = count(entry->variants());
}

void nacre_meta_input(const nacre_meta* meta, uint32_t entry, uint32_t i, nacre_tensor_view* view) {
  read_tensor(root(meta)->entries()->Get(entry)->inputs()->Get(i), view);
}

void nacre_meta_output(const nacre_meta* meta, uint32_t entry, uint32_t i,
                       nacre_tensor_view* view) {
  read_tensor(root(meta)->entries()->Get(entry)->outputs()->Get(i), view);
}

void nacre_meta_variant(const nacre_meta* meta, uint32_t entry, uint32_t i,
                        nacre_variant_view* view) {
  const fmt::Variant* v = root(meta)->entries()->Get(entry)->variants()->Get(i);
  view->name = text(v->name());
  view->guards = array<nacre_guard>(v->guards());
  view->guard_count = count(v->guards());
  view->nodes = array<nacre_node>(v->nodes());
  view->node_count = count(v->nodes());
  view->slots = array<nacre_slot>(v->slots());
  view->slot_count = count(v->slots());
  view->operands = array<uint32_t>(v->operands());
  view->operand_count = count(v->operands());
  view->provenances = array<uint32_t>(v->provenances());
  view->provenance_count = count(v->provenances());
  view->commands = array<nacre_command>(v->commands());
  view->command_count = count(v->commands());
  view->slot_tensor_count = count(v->slot_tensors());
  view->arena_size = v->arena_size();
  view->arena_bound = v->arena_bound();
  view->scratch_bound = v->scratch_bound();
}

void nacre_meta_slot_tensor(const nacre_meta* meta, uint32_t entry, uint32_t variant, uint32_t i,
                            nacre_tensor_view* view) {
  read_tensor(root(meta)->entries()->Get(entry)->variants()->Get(variant)->slot_tensors()->Get(i),
              view);
}

}  // extern "C"
