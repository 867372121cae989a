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

using Table = flatbuffers::Table;
using Field = flatbuffers::voffset_t;

// How C reads a table: by the numbers of the generated code, through one function for each kind of field that is not inlined.
// The generated accessors spell the lookup out wherever they are used, which made them a twentieth of the runtime.
[[gnu::noinline]] const char* text(const void* table, Field field) {
  auto string = static_cast<const Table*>(table)->GetPointer<const flatbuffers::String*>(field);
  return string ? string->c_str() : "";
}

// A vector as it lies in the file, which is as C expects numbers and structs; an absent one is empty.
struct Array {
  const void* data;
  uint32_t count;
};

[[gnu::noinline]] Array array(const void* table, Field field) {
  auto vector = static_cast<const Table*>(table)->GetPointer<const flatbuffers::VectorOfAny*>(field);
  if (!vector) return {nullptr, 0};
  return {reinterpret_cast<const uint8_t*>(vector) + sizeof(uint32_t), vector->size()};
}

template <typename T>
uint32_t read(const void* table, Field field, const T** data) {
  const Array found = array(table, field);
  *data = static_cast<const T*>(found.data);
  return found.count;
}

uint32_t count(const void* table, Field field) { return array(table, field).count; }

template <typename T>
[[gnu::noinline]] T number(const void* table, Field field, T absent = 0) {
  return static_cast<const Table*>(table)->GetField<T>(field, absent);
}

// Table `i` of a vector of tables.
[[gnu::noinline]] const void* element(const void* table, Field field, uint32_t i) {
  return static_cast<const Table*>(table)->GetPointer<const flatbuffers::Vector<flatbuffers::Offset<Table>>*>(field)->Get(i);
}

const void* entry_at(const nacre_meta* meta, uint32_t i) { return element(meta, fmt::Meta::VT_ENTRIES, i); }

[[gnu::noinline]] void read_tensor(const void* tensor, nacre_tensor_view* view) {
  using T = fmt::Tensor;
  view->name = text(tensor, T::VT_NAME);
  view->dtype = number<uint8_t>(tensor, T::VT_DTYPE);
  view->flags = number<uint32_t>(tensor, T::VT_FLAGS);
  view->rank = read(tensor, T::VT_DIMS, &view->dims);
  view->layout_count = read(tensor, T::VT_LAYOUT, &view->layout);
  view->bound_count = read(tensor, T::VT_BOUNDS, &view->bounds);
  view->path = text(tensor, T::VT_PATH);
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
  using M = fmt::Meta;
  view->producer = text(meta, M::VT_PRODUCER);
  view->kernel_abi = number<uint32_t>(meta, M::VT_KERNEL_ABI);
  view->symbol_count = count(meta, M::VT_SYMBOLS);
  view->provenance_count = count(meta, M::VT_PROVENANCES);
  view->image_count = count(meta, M::VT_IMAGES);
  view->kernel_count = count(meta, M::VT_KERNELS);
  view->weight_count = count(meta, M::VT_WEIGHTS);
  view->state_count = count(meta, M::VT_STATES);
  view->import_count = count(meta, M::VT_IMPORTS);
  view->entry_count = count(meta, M::VT_ENTRIES);
}

void nacre_meta_symbol(const nacre_meta* meta, uint32_t i, nacre_symbol_view* view) {
  using S = fmt::Symbol;
  const void* symbol = element(meta, fmt::Meta::VT_SYMBOLS, i);
  view->name = text(symbol, S::VT_NAME);
  view->min = number<int64_t>(symbol, S::VT_MIN);
  view->max = number<int64_t>(symbol, S::VT_MAX, INT64_MAX);
  view->multiple = number<int64_t>(symbol, S::VT_MULTIPLE, 1);
}

void nacre_meta_provenance(const nacre_meta* meta, uint32_t i, nacre_provenance_view* view) {
  using P = fmt::Provenance;
  const void* provenance = element(meta, fmt::Meta::VT_PROVENANCES, i);
  view->op = text(provenance, P::VT_OP);
  view->module = text(provenance, P::VT_MODULE_);
  view->file = text(provenance, P::VT_FILE);
  view->line = number<uint32_t>(provenance, P::VT_LINE);
}

void nacre_meta_image(const nacre_meta* meta, uint32_t i, nacre_image_view* view) {
  using I = fmt::Image;
  const void* image = element(meta, fmt::Meta::VT_IMAGES, i);
  view->target = text(image, I::VT_TARGET);
  view->machine = number<uint32_t>(image, I::VT_MACHINE);
  view->features = number<uint64_t>(image, I::VT_FEATURES);
}

void nacre_meta_kernel(const nacre_meta* meta, uint32_t i, nacre_kernel_view* view) {
  using K = fmt::Kernel;
  const void* kernel = element(meta, fmt::Meta::VT_KERNELS, i);
  view->name = text(kernel, K::VT_NAME);
  view->image = number<uint32_t>(kernel, K::VT_IMAGE);
  view->index = number<uint32_t>(kernel, K::VT_INDEX);
  view->size_bytes = number<uint32_t>(kernel, K::VT_SIZE_BYTES);
  view->provenance_count = read(kernel, K::VT_PROVENANCES, &view->provenances);
}

void nacre_meta_weight(const nacre_meta* meta, uint32_t i, nacre_weight_view* view) {
  using W = fmt::Weight;
  const void* weight = element(meta, fmt::Meta::VT_WEIGHTS, i);
  view->name = text(weight, W::VT_NAME);
  view->dtype = number<uint8_t>(weight, W::VT_DTYPE);
  view->rank = read(weight, W::VT_DIMS, &view->dims);
  view->offset = number<uint64_t>(weight, W::VT_OFFSET);
  view->size = number<uint64_t>(weight, W::VT_SIZE);
}

void nacre_meta_state(const nacre_meta* meta, uint32_t i, nacre_state_view* view) {
  using S = fmt::State;
  const void* state = element(meta, fmt::Meta::VT_STATES, i);
  view->name = text(state, S::VT_NAME);
  view->dtype = number<uint8_t>(state, S::VT_DTYPE);
  view->rank = read(state, S::VT_DIMS, &view->dims);
  view->size = number<uint64_t>(state, S::VT_SIZE);
  view->initial = number<int32_t>(state, S::VT_INITIAL, -1);
}

void nacre_meta_import(const nacre_meta* meta, uint32_t i, nacre_import_view* view) {
  using I = fmt::Import;
  const void* import = element(meta, fmt::Meta::VT_IMPORTS, i);
  view->name = text(import, I::VT_NAME);
  view->arguments = text(import, I::VT_ARGUMENTS);
  view->input_count = number<uint32_t>(import, I::VT_INPUT_COUNT);
}

void nacre_meta_entry(const nacre_meta* meta, uint32_t i, nacre_entry_view* view) {
  using E = fmt::Entry;
  const void* entry = entry_at(meta, i);
  view->name = text(entry, E::VT_NAME);
  view->node_count = read(entry, E::VT_NODES, &view->nodes);
  view->input_count = count(entry, E::VT_INPUTS);
  view->output_count = count(entry, E::VT_OUTPUTS);
  view->variant_count = count(entry, E::VT_VARIANTS);
}

void nacre_meta_input(const nacre_meta* meta, uint32_t entry, uint32_t i, nacre_tensor_view* view) {
  read_tensor(element(entry_at(meta, entry), fmt::Entry::VT_INPUTS, i), view);
}

void nacre_meta_output(const nacre_meta* meta, uint32_t entry, uint32_t i,
                       nacre_tensor_view* view) {
  read_tensor(element(entry_at(meta, entry), fmt::Entry::VT_OUTPUTS, i), view);
}

void nacre_meta_variant(const nacre_meta* meta, uint32_t entry, uint32_t i,
                        nacre_variant_view* view) {
  using V = fmt::Variant;
  const void* variant = element(entry_at(meta, entry), fmt::Entry::VT_VARIANTS, i);
  view->name = text(variant, V::VT_NAME);
  view->guard_count = read(variant, V::VT_GUARDS, &view->guards);
  view->node_count = read(variant, V::VT_NODES, &view->nodes);
  view->slot_count = read(variant, V::VT_SLOTS, &view->slots);
  view->operand_count = read(variant, V::VT_OPERANDS, &view->operands);
  view->provenance_count = read(variant, V::VT_PROVENANCES, &view->provenances);
  view->command_count = read(variant, V::VT_COMMANDS, &view->commands);
  view->slot_tensor_count = count(variant, V::VT_SLOT_TENSORS);
  view->arena_size = number<int64_t>(variant, V::VT_ARENA_SIZE);
  view->arena_bound = number<int64_t>(variant, V::VT_ARENA_BOUND);
  view->scratch_bound = number<int64_t>(variant, V::VT_SCRATCH_BOUND);
  view->spare_nodes = number<uint32_t>(variant, V::VT_SPARE_NODES);
}

void nacre_meta_slot_tensor(const nacre_meta* meta, uint32_t entry, uint32_t variant, uint32_t i,
                            nacre_tensor_view* view) {
  const void* table = element(entry_at(meta, entry), fmt::Entry::VT_VARIANTS, variant);
  read_tensor(element(table, fmt::Variant::VT_SLOT_TENSORS, i), view);
}

}  // extern "C"
