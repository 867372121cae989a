// The inverse of the writer: a verified file back to plain structs.
#include <sstream>
#include <string>

#include "formats/checksum.h"
#include "formats/meta.h"
#include "formats/verify.h"
#include "formats/writer.h"

namespace nacre::formats {
namespace {

template <typename T>
std::vector<T> copied(const T* first, uint32_t count) {
  return first ? std::vector<T>(first, first + count) : std::vector<T>();
}

Tensor tensor(const nacre_tensor_view& view) {
  Tensor t;
  t.name = view.name;
  t.dtype = static_cast<nacre_dtype>(view.dtype);
  t.flags = view.flags;
  for (uint32_t i = 0; i < view.rank; ++i) t.dims.push_back({view.dims[i]});
  t.layout = copied(view.layout, view.layout_count);
  for (uint32_t i = 0; i < view.bound_count; ++i) t.bounds.push_back({view.bounds[i]});
  t.path = view.path;
  return t;
}

std::vector<Node> nodes(const nacre_node* first, uint32_t count) {
  std::vector<Node> result;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t kind = first[i].kind & ~NACRE_EXPR_NUMBER;
    result.push_back({static_cast<nacre_expr_kind>(kind), first[i].a, first[i].b, kind != first[i].kind});
  }
  return result;
}

Command command(const nacre_variant_view& view, const nacre_command& c) {
  Command result;
  result.kind = static_cast<nacre_command_kind>(c.kind);
  result.flags = c.flags;
  result.threads = c.threads;
  result.target = c.target;
  result.operands = copied(view.operands + c.first_operand, c.operand_count);
  result.provenances = copied(view.provenances + c.first_provenance, c.provenance_count);
  result.scratch = {c.scratch};
  result.flops = {c.flops};
  result.bytes = {c.bytes};
  result.grid = c.grid;
  return result;
}

Variant variant(const nacre_meta* meta, uint32_t entry, uint32_t number) {
  nacre_variant_view view;
  nacre_meta_variant(meta, entry, number, &view);
  Variant v;
  v.name = view.name;
  for (uint32_t i = 0; i < view.guard_count; ++i) {
    const nacre_guard& g = view.guards[i];
    v.guards.push_back({static_cast<nacre_guard_kind>(g.kind), g.input, g.dim, g.ref, g.lo, g.hi});
  }
  v.nodes = nodes(view.nodes, view.node_count);
  for (uint32_t i = 0; i < view.slot_count; ++i) {
    const nacre_slot& s = view.slots[i];
    v.slots.push_back({static_cast<nacre_slot_kind>(s.kind), s.index, {s.offset}, {s.size}});
  }
  for (uint32_t i = 0; i < view.command_count; ++i) {
    v.commands.push_back(command(view, view.commands[i]));
  }
  v.arena_size = {view.arena_size};
  v.arena_bound = view.arena_bound;
  v.scratch_bound = view.scratch_bound;
  v.spare_nodes = view.spare_nodes;
  for (uint32_t i = 0; i < view.slot_tensor_count; ++i) {
    nacre_tensor_view t;
    nacre_meta_slot_tensor(meta, entry, number, i, &t);
    v.slot_tensors.push_back(tensor(t));
  }
  return v;
}

Entry entry(const nacre_meta* meta, uint32_t number) {
  nacre_entry_view view;
  nacre_meta_entry(meta, number, &view);
  Entry e;
  e.name = view.name;
  nacre_tensor_view t;
  for (uint32_t i = 0; i < view.input_count; ++i) {
    nacre_meta_input(meta, number, i, &t);
    e.inputs.push_back(tensor(t));
  }
  for (uint32_t i = 0; i < view.output_count; ++i) {
    nacre_meta_output(meta, number, i, &t);
    e.outputs.push_back(tensor(t));
  }
  e.nodes = nodes(view.nodes, view.node_count);
  for (uint32_t i = 0; i < view.variant_count; ++i) e.variants.push_back(variant(meta, number, i));
  return e;
}

// No verifier has read these: what a command becomes by one is verified when it is written.
void read_choices(const nacre_container& container, Artifact& a) {
  for (uint32_t i = 0; i < container.section_count; ++i) {
    const nacre_section& section = container.sections[i];
    if (section.kind != NACRE_SECTION_CHOICES) continue;
    const uint8_t* bytes = container.bytes + section.offset;
    if (nacre_digest(bytes, static_cast<std::size_t>(section.size)) != section.digest) throw FormatError("the list of other kernels does not match its digest: the file is damaged");
    std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(section.size)));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::size_t entry = 0, variant = 0;
      Candidate c;
      std::string rest;
      words >> entry >> variant >> c.command >> c.kernel >> c.threads >> c.grid >> c.scratch.raw;
      std::getline(words >> std::ws, rest);
      const std::size_t equals = rest.rfind(" = ");
      if (!words || equals == std::string::npos || entry >= a.entries.size() || variant >= a.entries[entry].variants.size() ||
          c.command >= a.entries[entry].variants[variant].commands.size() || a.entries[entry].variants[variant].commands[c.command].kind != NACRE_COMMAND_call)
        throw FormatError("the list of other kernels is malformed: " + line);
      c.question = rest.substr(0, equals);
      c.choice = rest.substr(equals + 3);
      a.entries[entry].variants[variant].candidates.push_back(std::move(c));
    }
  }
}

}  // namespace

Artifact read_artifact(const nacre_container& container) {
  const nacre_meta* meta = container.meta;
  nacre_meta_view counts;
  nacre_meta_read(meta, &counts);
  Artifact a;
  a.producer = counts.producer;
  for (uint32_t i = 0; i < counts.symbol_count; ++i) {
    nacre_symbol_view s;
    nacre_meta_symbol(meta, i, &s);
    a.symbols.push_back({s.name, s.min, s.max, s.multiple});
  }
  for (uint32_t i = 0; i < counts.provenance_count; ++i) {
    nacre_provenance_view p;
    nacre_meta_provenance(meta, i, &p);
    a.provenances.push_back({p.op, p.module, p.file, p.line});
  }
  for (uint32_t i = 0; i < counts.image_count; ++i) {
    nacre_image_view v;
    nacre_meta_image(meta, i, &v);
    const nacre_section* section = nacre_container_image(&container, i);
    const uint8_t* code = container.bytes + section->offset;
    a.images.push_back({v.target, static_cast<uint16_t>(v.machine), v.features,
                        std::vector<uint8_t>(code, code + section->size)});
  }
  for (uint32_t i = 0; i < counts.kernel_count; ++i) {
    nacre_kernel_view k;
    nacre_meta_kernel(meta, i, &k);
    a.kernels.push_back(
        {k.name, k.image, k.index, k.size_bytes, copied(k.provenances, k.provenance_count)});
  }
  for (uint32_t i = 0; i < counts.weight_count; ++i) {
    nacre_weight_view w;
    nacre_meta_weight(meta, i, &w);
    a.weights.push_back({w.name,
                         static_cast<nacre_dtype>(w.dtype),
                         copied(w.dims, w.rank),
                         {container.data + w.offset, static_cast<std::size_t>(w.size)}});
  }
  for (uint32_t i = 0; i < counts.state_count; ++i) {
    nacre_state_view s;
    nacre_meta_state(meta, i, &s);
    a.states.push_back(
        {s.name, static_cast<nacre_dtype>(s.dtype), copied(s.dims, s.rank), s.size, s.initial});
  }
  for (uint32_t i = 0; i < counts.import_count; ++i) {
    nacre_import_view view;
    nacre_meta_import(meta, i, &view);
    a.imports.push_back({view.name, view.arguments, view.input_count});
  }
  for (uint32_t i = 0; i < counts.entry_count; ++i) a.entries.push_back(entry(meta, i));
  read_choices(container, a);
  return a;
}

Artifact read_artifact(std::span<const uint8_t> bytes) {
  char buffer[1024];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % NACRE_DATA_ALIGN) {
    throw FormatError("read_artifact: the bytes must start at a multiple of 64");
  }
  nacre_container container;
  if (nacre_verify(bytes.data(), bytes.size(), &container, &why)) throw FormatError(buffer);
  return read_artifact(container);
}

}  // namespace nacre::formats
