#include "formats/verify.h"

#include <string.h>

#include "formats/checksum.h"
#include "formats/dtype.h"
#include "formats/verify_parts.h"

static bool check_container(struct nacre_checker* c, const uint8_t* bytes, size_t size,
                            struct nacre_container* container);
static bool check_tables(struct nacre_checker* c, uint32_t image_count);

enum nacre_verdict nacre_verify(const void* bytes, size_t size, struct nacre_container* container,
                                struct nacre_text* why) {
  struct nacre_checker c;
  memset(&c, 0, sizeof c);
  c.why = why;
  memset(container, 0, sizeof *container);
  if (!check_container(&c, bytes, size, container)) return c.verdict;

  uint32_t image_count = 0;
  for (uint32_t i = 0; i < container->section_count; ++i)
    image_count += container->sections[i].kind == NACRE_SECTION_CODE;
  for (uint32_t i = 0; i < image_count; ++i) {
    if (nacre_container_image(container, i)) continue;
    nacre_bad(&c, "code section %d is missing", i, 0);
    return c.verdict;
  }
  const struct nacre_section* meta = &container->sections[0];
  const uint8_t* meta_bytes = container->bytes + meta->offset;
  c.verdict =
      nacre_verify_meta(meta_bytes, (size_t)meta->size, container->data_size, image_count, why);
  if (c.verdict == NACRE_VERDICT_GOOD)
    container->meta = nacre_meta_open(meta_bytes, (size_t)meta->size);
  return c.verdict;
}

enum nacre_verdict nacre_verify_meta(const void* bytes, size_t size, uint64_t data_size,
                                     uint32_t image_count, struct nacre_text* why) {
  struct nacre_checker c;
  memset(&c, 0, sizeof c);
  c.why = why;
  c.data_size = data_size;
  c.meta = nacre_meta_open(bytes, size);
  if (!c.meta) {
    nacre_bad(&c, "META is not a valid flatbuffer", 0, 0);
    return c.verdict;
  }
  nacre_meta_read(c.meta, &c.counts);
  check_tables(&c, image_count);
  return c.verdict;
}

enum nacre_verdict nacre_verify_data(const struct nacre_container* container,
                                     struct nacre_text* why) {
  for (uint32_t i = 0; i < container->section_count; ++i) {
    const struct nacre_section* section = &container->sections[i];
    if (section->kind != NACRE_SECTION_DATA) continue;
    if (nacre_digest(container->bytes + section->offset, (size_t)section->size) !=
        section->digest) {
      nacre_text_add(why, "the weights do not match their digest");
      return NACRE_VERDICT_DAMAGED;
    }
  }
  return NACRE_VERDICT_GOOD;
}

const struct nacre_section* nacre_container_image(const struct nacre_container* container,
                                                  uint32_t image) {
  for (uint32_t i = 0; i < container->section_count; ++i) {
    const struct nacre_section* section = &container->sections[i];
    if (section->kind == NACRE_SECTION_CODE && section->id == image) return section;
  }
  return NULL;
}

bool nacre_bad(struct nacre_checker* c, const char* pattern, int64_t a, int64_t b) {
  if (c->verdict == NACRE_VERDICT_GOOD) c->verdict = NACRE_VERDICT_DAMAGED;
  nacre_text_add(c->why, pattern, a, b);
  return false;
}

bool nacre_newer(struct nacre_checker* c, const char* pattern, int64_t a, int64_t b) {
  c->verdict = NACRE_VERDICT_NEWER;
  nacre_bad(c, pattern, a, b);
  nacre_text_add(c->why, "; use a runtime of the nacre that made it, or compile it again");
  return false;
}

static bool check_section(struct nacre_checker* c, const uint8_t* bytes, uint64_t size,
                          const struct nacre_section* s, uint32_t number, uint64_t end) {
  if (!s->align || (s->align & (s->align - 1)) || s->align > 1u << 20)
    return nacre_bad(c, "section %d has an invalid alignment", number, 0);
  if (s->offset % s->align || s->offset < end)
    return nacre_bad(c, "section %d is out of place", number, 0);
  if (!nacre_within(s->offset, s->size, size))
    return nacre_bad(c, "section %d reaches beyond the end of the file", number, 0);
  switch (s->kind) {
    case NACRE_SECTION_META:
      if (number) return nacre_bad(c, "section %d is a second META", number, 0);
      // fallthrough
    case NACRE_SECTION_CODE:
      if (s->align < NACRE_DATA_ALIGN)
        return nacre_bad(c, "section %d has an alignment below 64", number, 0);
      if (nacre_digest(bytes + s->offset, (size_t)s->size) != s->digest)
        return nacre_bad(c, "section %d does not match its digest: the file is damaged", number, 0);
      return true;
    case NACRE_SECTION_DATA:
      if (s->align < NACRE_DATA_ALIGN)
        return nacre_bad(c, "section %d has an alignment below 64", number, 0);
      return true;
    case NACRE_SECTION_SIGN:
      return true;
    default:
      if (s->flags & NACRE_SECTION_OPTIONAL) return true;
      return nacre_newer(c, "section %d is of kind %d, which this runtime does not know", number,
                         s->kind);
  }
}

static bool check_container(struct nacre_checker* c, const uint8_t* bytes, size_t size,
                            struct nacre_container* container) {
  struct nacre_file_header header;
  if (size < 8 || memcmp(bytes, NACRE_MAGIC, 8)) {
    if (size >= 6 && !memcmp(bytes + 1, "NACRE", 5))
      return nacre_bad(c, "the file was changed on the way, as by a copy in text mode", 0, 0);
    return nacre_bad(c, "not a nacre artifact", 0, 0);
  }
  if (size < sizeof header)
    return nacre_bad(c, "the file is truncated: %d bytes", (int64_t)size, 0);
  memcpy(&header, bytes, sizeof header);
  if (header.major != NACRE_FORMAT_MAJOR)
    return nacre_newer(c, "the artifact has format %d, this runtime reads format %d", header.major,
                       NACRE_FORMAT_MAJOR);
  if (header.file_size != size)
    return nacre_bad(c, "the file is truncated or has grown: %d bytes, and its header says %d",
                     (int64_t)size, (int64_t)header.file_size);
  if (!header.section_count || header.section_count > NACRE_MAX_SECTIONS ||
      !nacre_within(sizeof header, header.section_count * sizeof(struct nacre_section), size))
    return nacre_bad(c, "the section table does not fit: %d sections", header.section_count, 0);
  uint64_t end = sizeof header + header.section_count * sizeof(struct nacre_section);
  if (nacre_digest(bytes + 16, (size_t)end - 16) != header.digest)
    return nacre_bad(c, "the section table does not match its digest: the file is damaged", 0, 0);

  container->bytes = bytes;
  container->size = size;
  container->sections = (const struct nacre_section*)(const void*)(bytes + sizeof header);
  container->section_count = header.section_count;
  if (container->sections[0].kind != NACRE_SECTION_META)
    return nacre_bad(c, "the first section is not META", 0, 0);
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const struct nacre_section* s = &container->sections[i];
    if (!check_section(c, bytes, size, s, i, end)) return false;
    end = s->offset + s->size;
    if (s->kind != NACRE_SECTION_DATA) continue;
    if (container->data) return nacre_bad(c, "section %d is a second DATA", i, 0);
    container->data = bytes + s->offset;
    container->data_size = s->size;
  }
  return end == size || nacre_bad(c, "%d bytes follow the last section", (int64_t)(size - end), 0);
}

static bool check_dims(const int64_t* dims, uint32_t rank) {
  if (rank > NACRE_MAX_RANK || !nacre_aligned(dims, rank)) return false;
  for (uint32_t i = 0; i < rank; ++i)
    if (dims[i] < 0 || dims[i] > NACRE_MAX_BYTES) return false;
  return true;
}

static bool check_provenances(const struct nacre_checker* c, const uint32_t* numbers,
                              uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (numbers[i] >= c->counts.provenance_count) return false;
  return true;
}

// Images, kernels, weights, states, symbols.
static bool check_parts(struct nacre_checker* c, uint32_t image_count) {
  if (image_count != c->counts.image_count)
    return nacre_bad(c, "%d code sections for %d images", image_count, c->counts.image_count);
  if (c->counts.symbol_count > NACRE_MAX_SYMBOLS)
    return nacre_bad(c, "%d symbols are too many", c->counts.symbol_count, 0);
  for (uint32_t i = 0; i < c->counts.symbol_count; ++i) {
    struct nacre_symbol_view symbol;
    nacre_meta_symbol(c->meta, i, &symbol);
    if (symbol.min > symbol.max || symbol.multiple < 1)
      return nacre_bad(c, "symbol %d has an impossible range", i, 0);
  }
  for (uint32_t i = 0; i < c->counts.kernel_count; ++i) {
    struct nacre_kernel_view kernel;
    nacre_meta_kernel(c->meta, i, &kernel);
    if (kernel.image >= c->counts.image_count ||
        !check_provenances(c, kernel.provenances, kernel.provenance_count))
      return nacre_bad(c, "kernel %d refers to what is not there", i, 0);
  }
  for (uint32_t i = 0; i < c->counts.weight_count; ++i) {
    struct nacre_weight_view weight;
    nacre_meta_weight(c->meta, i, &weight);
    if (!nacre_dtype_size_bytes(weight.dtype) || !check_dims(weight.dims, weight.rank))
      return nacre_bad(c, "weight %d has an invalid dtype or shape", i, 0);
    if (weight.offset % NACRE_DATA_ALIGN || !nacre_within(weight.offset, weight.size, c->data_size))
      return nacre_bad(c, "weight %d does not lie in DATA", i, 0);
  }
  uint64_t total = 0;
  for (uint32_t i = 0; i < c->counts.state_count; ++i) {
    struct nacre_state_view state;
    nacre_meta_state(c->meta, i, &state);
    if (!nacre_dtype_size_bytes(state.dtype) || !check_dims(state.dims, state.rank))
      return nacre_bad(c, "state %d has an invalid dtype or shape", i, 0);
    if (state.size > (uint64_t)NACRE_MAX_BYTES || (total += state.size) > (uint64_t)NACRE_MAX_BYTES)
      return nacre_bad(c, "state %d is too large", i, 0);
    if (state.initial == -1) continue;
    struct nacre_weight_view weight;
    if (state.initial < 0 || (uint32_t)state.initial >= c->counts.weight_count)
      return nacre_bad(c, "state %d starts from a weight that is not there", i, 0);
    nacre_meta_weight(c->meta, (uint32_t)state.initial, &weight);
    if (weight.size != state.size)
      return nacre_bad(c, "state %d is not as large as what it starts from", i, 0);
  }
  return true;
}

static bool check_entry(struct nacre_checker* c, uint32_t entry) {
  struct nacre_entry_view view;
  struct nacre_symbol_set reads = {{0}};
  nacre_meta_entry(c->meta, entry, &view);
  if (view.input_count > NACRE_MAX_INPUTS || view.output_count > NACRE_MAX_INPUTS ||
      view.node_count > 1u << 24)
    return nacre_bad(c, "entry %d has too many inputs, outputs or nodes", entry, 0);
  if (!nacre_aligned(view.nodes, view.node_count))
    return nacre_bad(c, "entry %d has nodes out of place", entry, 0);
  if (!view.variant_count) return nacre_bad(c, "entry %d has no variant", entry, 0);
  if (!nacre_check_nodes(c, view.nodes, view.node_count, 0, &reads)) return false;
  struct nacre_tensor_view tensor;
  for (uint32_t i = 0; i < view.input_count; ++i) {
    nacre_meta_input(c->meta, entry, i, &tensor);
    if (!nacre_check_tensor(c, &tensor, view.node_count, "input", i)) return false;
  }
  for (uint32_t i = 0; i < view.output_count; ++i) {
    nacre_meta_output(c->meta, entry, i, &tensor);
    if (!nacre_check_tensor(c, &tensor, view.node_count, "output", i)) return false;
  }
  for (uint32_t i = 0; i < view.variant_count; ++i) {
    if (nacre_check_variant(c, entry, &view, i, &reads)) continue;
    nacre_text_add(c->why, " (entry '%s', variant %d)", view.name, (int64_t)i);
    return false;
  }
  return true;
}

static bool check_tables(struct nacre_checker* c, uint32_t image_count) {
  if (!check_parts(c, image_count)) return false;
  if (!c->counts.entry_count) return nacre_bad(c, "there is no entry", 0, 0);
  for (uint32_t i = 0; i < c->counts.entry_count; ++i)
    if (!check_entry(c, i)) return false;
  return true;
}

bool nacre_check_tensor(struct nacre_checker* c, const struct nacre_tensor_view* tensor,
                        uint32_t node_count, const char* what, uint32_t number) {
  bool good = nacre_dtype_size_bytes(tensor->dtype) && tensor->rank <= NACRE_MAX_RANK &&
              nacre_aligned(tensor->dims, tensor->rank) &&
              (!tensor->layout_count || tensor->layout_count == tensor->rank) &&
              (!tensor->bound_count || tensor->bound_count == tensor->rank) &&
              nacre_aligned(tensor->bounds, tensor->bound_count) &&
              !(tensor->flags & NACRE_TENSOR_SCALAR && tensor->rank);
  for (uint32_t i = 0; good && i < tensor->rank; ++i)
    good = nacre_size_valid(tensor->dims[i], node_count) &&
           (!tensor->bound_count || nacre_size_valid(tensor->bounds[i], node_count));
  uint32_t seen = 0;
  for (uint32_t i = 0; good && i < tensor->layout_count; ++i) {
    good = tensor->layout[i] < tensor->rank && !(seen >> tensor->layout[i] & 1);
    seen |= 1u << (tensor->layout[i] & 31);
  }
  if (good) return true;
  nacre_text_add(c->why, "%s ", what);
  return nacre_bad(c, "%d has an invalid dtype or shape", number, 0);
}
