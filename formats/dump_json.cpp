#include <nlohmann/json.hpp>

#include "formats/dump.h"
#include "formats/dump_parts.h"
#include "formats/verify.h"

namespace nacre::formats {
namespace {

// Keys keep the order in which they are added.
using Json = nlohmann::ordered_json;

Json lines(const Artifact& a, const std::vector<uint32_t>& provenances) {
  Json list = Json::array();
  for (const uint32_t number : provenances) {
    const Provenance& p = a.provenances[number];
    list.push_back({{"op", p.op}, {"module", p.module}, {"file", p.file}, {"line", p.line}});
  }
  return list;
}

// A number, or the words of an expression.
Json size(const nacre_words& words, Size value) {
  if (value.is_constant()) return value.raw;
  return size_words(words, value);
}

Json tensor(const nacre_words& words, const Tensor& t) {
  Json dims = Json::array();
  for (const Size& dim : t.dims) dims.push_back(size(words, dim));
  Json result = {{"name", t.name}, {"dtype", nacre_dtype_name(t.dtype)}, {"shape", dims}};
  if (!t.path.empty()) result["path"] = t.path;
  if (!t.layout.empty()) result["layout"] = t.layout;
  for (const Size& bound : t.bounds) result["at_most"].push_back(size(words, bound));
  if (t.flags & NACRE_TENSOR_MUTATED) result["mutated"] = true;
  if (t.flags & NACRE_TENSOR_SCALAR) result["scalar"] = true;
  return result;
}

Json command(const Artifact& a, const nacre_words& words, const Command& c) {
  Json result = {{"command", command_name(c.kind)}};
  if (c.kind == NACRE_COMMAND_call) result["kernel"] = c.target;
  if (c.kind == NACRE_COMMAND_import) result["import"] = c.target;
  if (c.kind == NACRE_COMMAND_branch || c.kind == NACRE_COMMAND_jump) result["target"] = c.target;
  if (c.kind == NACRE_COMMAND_bind) result["symbol"] = a.symbols[c.target].name;
  if (c.kind == NACRE_COMMAND_check) result["condition"] = size(words, Size::node(c.target));
  result["buffers"] = c.operands;
  result["barrier"] = (c.flags & NACRE_COMMAND_BARRIER) != 0;
  if (c.flags & NACRE_COMMAND_TEAM) result["team"] = true;
  if (c.grid) result["blocks"] = size(words, Size::node(c.grid - 1));
  if (c.threads) result["threads"] = c.threads;
  if (c.scratch.raw) result["scratch_bytes"] = size(words, c.scratch);
  if (c.flops.raw) result["flops"] = size(words, c.flops);
  if (c.bytes.raw) result["bytes"] = size(words, c.bytes);
  result["lines"] = lines(a, c.provenances);
  return result;
}

Json variant(const Dump& dump, uint32_t entry, uint32_t number) {
  const Artifact& a = dump.artifact;
  const Variant& v = a.entries[entry].variants[number];
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, entry, number);
  Json guards = Json::array(), buffers = Json::array(), commands = Json::array();
  for (const Guard& guard : v.guards) guards.push_back(guard_words(words, guard));
  for (std::size_t i = 0; i < v.slots.size(); ++i) {
    const Slot& slot = v.slots[i];
    Json buffer = {{"in", slot_name(slot)},
                   {"offset_bytes", size(words, slot.offset)},
                   {"size_bytes", size(words, slot.size)}};
    if (!v.slot_tensors.empty()) buffer["tensor"] = tensor(words, v.slot_tensors[i]);
    buffers.push_back(buffer);
  }
  for (const Command& c : v.commands) commands.push_back(command(a, words, c));
  const VariantCost& cost = dump.costs[entry][number];
  Json result = {{"name", v.name},
                 {"cost",
                  {{"kernels", cost.kernels},
                   {"code_bytes", cost.code_bytes},
                   {"weight_bytes", cost.weight_bytes},
                   {"table_bytes", cost.table_bytes},
                   {"own_kernels", cost.own_kernels},
                   {"own_code_bytes", cost.own_code_bytes},
                   {"own_weight_bytes", cost.own_weight_bytes}}},
                 {"guards", guards}};
  const auto first = static_cast<uint32_t>(a.entries[entry].nodes.size());
  result["nodes"] = Json::object();
  for (uint32_t i = 0; i < v.nodes.size(); ++i) {
    result["nodes"]["n" + std::to_string(first + i)] = node_words(a, entry, number, first + i);
  }
  result["arena_bytes"] = size(words, v.arena_size);
  if (v.arena_bound) result["arena_bound_bytes"] = v.arena_bound;
  result["buffers"] = buffers;
  result["program"] = commands;
  return result;
}

Json entry(const Dump& dump, uint32_t number) {
  const Entry& e = dump.artifact.entries[number];
  nacre_words words;
  nacre_words_open(&words, dump.container.meta, number, 0);
  Json inputs = Json::array(), outputs = Json::array(), variants = Json::array();
  for (const Tensor& t : e.inputs) inputs.push_back(tensor(words, t));
  for (const Tensor& t : e.outputs) outputs.push_back(tensor(words, t));
  for (uint32_t i = 0; i < e.variants.size(); ++i) variants.push_back(variant(dump, number, i));
  Json nodes = Json::object();
  for (uint32_t i = 0; i < e.nodes.size(); ++i) {
    nodes["n" + std::to_string(i)] = node_words(dump.artifact, number, 0, i);
  }
  return {{"name", e.name},
          {"inputs", inputs},
          {"outputs", outputs},
          {"nodes", nodes},
          {"variants", variants}};
}

}  // namespace

std::string dump_json(const nacre_container& verified) {
  Dump dump{read_artifact(verified), verified, {}};
  dump.costs = variant_costs(dump.artifact);
  const Artifact& a = dump.artifact;
  Json result = {
      {"producer", a.producer},
      {"format", format_version(verified)},
      {"size_bytes", verified.size}};
  Json sections = Json::object();
  for (uint32_t i = 0; i < dump.container.section_count; ++i) {
    static const char* const kNames[] = {"other", "meta", "data", "code", "sign", "choices"};
    const nacre_section& s = dump.container.sections[i];
    Json& total = sections[kNames[s.kind <= NACRE_SECTION_CHOICES ? s.kind : 0]];
    total = (total.is_null() ? uint64_t{0} : total.get<uint64_t>()) + s.size;
  }
  result["section_bytes"] = sections;
  result["symbols"] = Json::array();
  for (const Symbol& s : a.symbols) {
    Json symbol = {{"name", s.name}, {"min", s.min}};
    if (s.max != INT64_MAX) symbol["max"] = s.max;
    symbol["multiple"] = s.multiple;
    result["symbols"].push_back(symbol);
  }
  result["entries"] = Json::array();
  for (uint32_t i = 0; i < a.entries.size(); ++i) result["entries"].push_back(entry(dump, i));
  result["images"] = Json::array();
  for (const Image& image : a.images) {
    result["images"].push_back({{"target", image.target},
                                {"size_bytes", image.bytes.size()},
                                {"needs", features_words(image.features)}});
  }
  result["kernels"] = Json::array();
  for (const Kernel& k : a.kernels) {
    result["kernels"].push_back({{"name", k.name},
                                 {"image", k.image},
                                 {"size_bytes", k.size_bytes},
                                 {"lines", lines(a, k.provenances)}});
  }
  result["weights"] = Json::array();
  for (const Weight& w : a.weights) {
    result["weights"].push_back({{"name", w.name},
                                 {"dtype", nacre_dtype_name(w.dtype)},
                                 {"shape", w.dims},
                                 {"size_bytes", w.bytes.size()},
                                 {"offset_bytes", w.bytes.data() - dump.container.data}});
  }
  result["states"] = Json::array();
  for (const State& s : a.states) {
    result["states"].push_back({{"name", s.name},
                                {"dtype", nacre_dtype_name(s.dtype)},
                                {"shape", s.dims},
                                {"size_bytes", s.size_bytes}});
  }
  result["imports"] = Json::array();
  for (const Import& i : a.imports) {
    result["imports"].push_back(
        {{"name", i.name}, {"arguments", i.arguments}, {"inputs", i.input_count}});
  }
  // Names come from the file, which promises nothing about their encoding.
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nacre::formats
