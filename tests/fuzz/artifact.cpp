#include "tests/fuzz/artifact.h"

#include <nacre/nacre.h>

#include "formats/checksum.h"
#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

// Inputs as the entry describes them; open dimensions at `factor` times their least.
void prepare(const nacre_model* model, nacre_session* session, uint32_t entry, int64_t factor) {
  const uint32_t count = nacre_input_count(model, entry);
  std::vector<std::vector<int64_t>> shapes(count);
  std::vector<nacre_tensor> inputs(count);
  alignas(64) static uint8_t scalar[64] = {};
  for (uint32_t i = 0; i < count; ++i) {
    nacre_tensor_info info;
    if (nacre_input_info(model, entry, i, &info)) std::abort();
    for (uint32_t d = 0; d < info.rank; ++d) {
      nacre_dim dim;
      if (nacre_input_dim(model, entry, i, d, &dim)) std::abort();
      shapes[i].push_back(dim.size >= 0 ? dim.size : (dim.min < 1 << 20 ? dim.min : 1) * factor);
    }
    inputs[i] = tensor(scalar, shapes[i], static_cast<nacre_dtype>(info.dtype));
  }
  if (nacre_session_prepare(session, entry, inputs.data(), count)) return;
  nacre_memory_info memory;
  nacre_session_memory(session, &memory);
  for (uint32_t i = 0; i < nacre_output_count(model, entry); ++i) {
    if (!nacre_output_shape(session, i)) std::abort();
  }
  if (memory.used_bytes < 1 << 24) nacre_session_reserve(session, entry, inputs.data(), count);
}

void try_model(const nacre_model* model) {
  for (uint32_t e = 0; e < nacre_entry_count(model); ++e) {
    for (uint32_t i = 0; i < nacre_output_count(model, e); ++i) {
      nacre_tensor_info info;
      if (nacre_output_info(model, e, i, &info)) std::abort();
      nacre_dim dim;
      for (uint32_t d = 0; d < info.rank; ++d) nacre_output_dim(model, e, i, d, &dim);
    }
  }
  for (uint32_t i = 0; i < nacre_state_count(model); ++i) {
    nacre_tensor_info info;
    int64_t shape[16];
    nacre_state_info(model, i, &info, shape);
  }
  nacre_session_options options = {};
  options.profile = 1;
  if (nacre_session_size_bytes(model, &options) > 1 << 26) return;
  nacre_session* session = nullptr;
  if (nacre_session_make(model, &options, nullptr, 0, &session)) return;
  for (uint32_t e = 0; e < nacre_entry_count(model); ++e) {
    for (const int64_t factor : {1, 2, 7}) prepare(model, session, e, factor);
  }
  nacre_session_destroy(session);
}

void open(Aligned& bytes) {
  static const nacre_import import = {"f", [](void*, const nacre_import_call*) { return 0; }, nullptr};
  nacre_open_options options = {};
  options.verify_data = 1;
  options.imports = &import;
  options.import_count = 1;
  nacre_error error = {};
  nacre_model* model = nullptr;
  const nacre_status status =
      nacre_model_open_memory(bytes.data(), bytes.size(), &options, &model, &error);
  if (status) {
    if (!*error.message || model) std::abort();
    return;
  }
  fmt::read_artifact(bytes.span());
  try_model(model);
  nacre_model_close(model);
}

// Makes all digests and the file's size fit, as far as there is a table.
void mend(Aligned& bytes) {
  nacre_file_header header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.section_count > NACRE_MAX_SECTIONS) return;
  const std::size_t end = sizeof header + header.section_count * sizeof(nacre_section);
  if (end > bytes.size()) return;
  for (std::size_t at = sizeof header; at < end; at += sizeof(nacre_section)) {
    nacre_section section;
    std::memcpy(&section, bytes.data() + at, sizeof section);
    if (section.offset > bytes.size() || section.size > bytes.size() - section.offset) continue;
    section.digest = nacre_digest(bytes.data() + section.offset, section.size);
    std::memcpy(bytes.data() + at, &section, sizeof section);
  }
  std::memcpy(header.magic, NACRE_MAGIC, 8);
  header.major = NACRE_FORMAT_MAJOR;
  header.file_size = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  header.digest = nacre_digest(bytes.data() + 16, end - 16);
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace

void try_artifact(const uint8_t* bytes, std::size_t size) {
  Aligned aligned({bytes, size});
  open(aligned);
  mend(aligned);
  open(aligned);
}

const std::vector<std::vector<uint8_t>>& seeds() {
  static const std::vector<std::vector<uint8_t>> all = [] {
    static const uint8_t table[256] = {1, 2, 3};
    std::vector<std::vector<uint8_t>> made;
    fmt::Artifact a = scale_artifact();
    made.push_back(fmt::artifact_bytes(a));

    fmt::Artifact calling = a;
    calling.imports = {{"f", R"({"by":3})", 1}};
    fmt::Variant& calls = calling.entries[0].variants[0];
    calls.commands[1].kind = NACRE_COMMAND_import;
    calls.commands[1].target = 0;
    calls.slot_tensors.resize(3);
    for (fmt::Tensor& t : calls.slot_tensors) t.dims = {Size::node(4), Size::constant(4)};
    made.push_back(fmt::artifact_bytes(calling));

    // Everything that a file may have, with a small image, so that most of the bytes are structure.
    a.weights = {{"w", NACRE_u8, {256}, table}, {"v", NACRE_f32, {25}, {table, 100}}};
    a.states = {{"cache", NACRE_f32, {25}, 100, 1}, {"zeros", NACRE_i64, {3}, 24, -1}};
    fmt::Variant special = a.entries[0].variants[0];
    special.guards.insert(special.guards.begin(), {NACRE_GUARD_features, 0, 0, 0, 0, 0});
    special.guards.push_back({NACRE_GUARD_multiple, 0, 0, 0, 4, 0});
    special.guards.push_back({NACRE_GUARD_equal_node, 0, 0, 4, 0, 0});
    special.guards.push_back({NACRE_GUARD_node, 0, 0, 6, 0, 0});
    a.entries[0].variants.insert(a.entries[0].variants.begin(), special);
    fmt::Entry e = empty_entry("loop");
    e.inputs = {{"n", NACRE_i64, NACRE_TENSOR_SCALAR, {}, {}}};
    e.outputs = {{"y", NACRE_i64, 0, {}, {}}};
    fmt::Variant& v = e.variants[0];
    v.guards = typed(0, NACRE_i64, 0);
    v.guards.push_back({NACRE_GUARD_value_range, 0, 0, 0, 0, 100});
    v.slots = {slot(NACRE_SLOT_STATE, 0, {}, Size::constant(8)),
               slot(NACRE_SLOT_OUTPUT, 0, {}, Size::constant(8)),
               slot(NACRE_SLOT_ARENA, 0, {}, Size::constant(1)),
               slot(NACRE_SLOT_WEIGHT, 0, {}, Size::constant(8))};
    v.arena_size = Size::constant(64);
    fmt::Command loop, branch, jump, copy;
    loop.kind = NACRE_COMMAND_loop;
    branch.kind = NACRE_COMMAND_branch;
    branch.operands = {2};
    branch.target = 5;
    copy.kind = NACRE_COMMAND_copy;
    copy.operands = {1, 3};
    jump.kind = NACRE_COMMAND_jump;
    v.commands = {loop, branch, copy, call(kCount, {0, 1}), jump, end()};
    v.slot_tensors.resize(4);
    a.entries.push_back(e);
    made.push_back(fmt::artifact_bytes(a));
    // The same without code: META is nearly all of it.
    a.images[0].machine = 0;
    a.images[0].bytes = {1};
    for (auto& entry : a.entries) {
      fmt::Variant alone = entry.variants[0];
      alone.commands = {end()};
      entry.variants.push_back(alone);
    }
    made.push_back(fmt::artifact_bytes(a));
    return made;
  }();
  return all;
}

}  // namespace nacre::test
