#include "compiler/firmware/library.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "compiler/firmware/header.h"
#include "compiler/firmware/stack.h"
#include "compiler/support/error.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/toolchain.h"

namespace nacre {

namespace {

// Bytes as lines of assembly.
std::string data_lines(std::span<const uint8_t> bytes) {
  std::string text;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    fmt::format_to(std::back_inserter(text), "{}{:#x}", at % 256 ? "," : "\n.quad ", word);
  }
  for (; at < bytes.size(); ++at) fmt::format_to(std::back_inserter(text), "\n.byte {}", bytes[at]);
  return text + "\n";
}

// Weights in read-only sections of their own; equal ones lie in one place.
Source data_source(const formats::Artifact& artifact, const LibraryPlan& plan, int alignment) {
  std::map<std::string_view, std::vector<uint32_t>> places;
  std::vector<std::string_view> order;
  for (uint32_t i = 0; i < artifact.weights.size(); ++i) {
    const std::span<const uint8_t> bytes = artifact.weights[i].bytes;
    const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (places[view].empty()) order.push_back(view);
    places[view].push_back(i);
  }
  std::string text;
  for (const std::string_view view : order) {
    const std::vector<uint32_t>& weights = places[view];
    text += fmt::format(".section .rodata.{},\"a\",%progbits\n.balign {}\n", weight_symbol(plan, weights[0]), alignment);
    for (const uint32_t w : weights) {
      const std::string symbol = weight_symbol(plan, w);
      text += fmt::format(".globl {0}\n.hidden {0}\n.type {0},%object\n.size {0},{1}\n{0}:\n", symbol, view.size());
    }
    text += data_lines({reinterpret_cast<const uint8_t*>(view.data()), view.size()});
  }
  if (text.empty()) return {};
  return {plan.name + "_data", fmt::format("__asm__(R\"__nacre(\n{})__nacre\");\n", text)};
}

Source entry_source(const formats::Artifact& artifact, const LibraryPlan& plan, const std::vector<Signature>& signatures) {
  std::string text =
      "#include \"nacre/kernel_abi.h\"\n#include \"nacre/base.h\"\n\nusing nk::i64;\n\nnamespace {\n\n"
      "__attribute__((used)) void alone(const nacre_kernel_args*) {}  // a barrier of one thread\n"
      "[[maybe_unused]] char* address(const void* p) { return static_cast<char*>(const_cast<void*>(p)); }\n"
      "[[maybe_unused]] i64 quotient(i64 a, i64 b, bool& bad) {\n"
      "  bad = bad || b == 0;\n  if (b == 0) return 0;\n  const i64 q = a / b;\n  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;\n}\n\n}  "
      "// namespace\n\n";
  for (const std::string& kernel : plan.kernels)
    text += fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) int32_t {}(const nacre_kernel_args*);\n", kernel);
  for (uint32_t i = 0; i < artifact.weights.size(); ++i)
    text += fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) const char {}[];\n", weight_symbol(plan, i));
  if (!artifact.states.empty()) {
    text += fmt::format("\nextern \"C\" __attribute__((visibility(\"default\"))) void {}_init(void* state) {{\n", plan.name);
    for (size_t i = 0; i < artifact.states.size(); ++i) {
      const formats::State& s = artifact.states[i];
      text += s.initial >= 0 ? fmt::format("  __builtin_memcpy(address(state) + {}, {}, {});\n", plan.state_offsets[i],
                                           weight_symbol(plan, static_cast<uint32_t>(s.initial)), s.size_bytes)
                             : fmt::format("  __builtin_memset(address(state) + {}, 0, {});\n", plan.state_offsets[i], s.size_bytes);
    }
    text += "}\n";
  }
  for (size_t e = 0; e < artifact.entries.size(); ++e) text += "\n" + entry_function(artifact, artifact.entries[e], signatures[e], plan);
  return {plan.name + "_entries", text};
}

// What the compiler calls by itself (targets/kernel/support.h). Only what is called stays in an image: each function has a section.
Source support_source(const std::string& name) { return {name + "_support", "#define NACRE_LIBRARY 1\n#include \"nacre/support.h\"\n"}; }

}  // namespace

StaticLibrary make_library(const CompiledModel& model, const std::string& name, const std::string& from, const CompileOptions& options) {
  const formats::Artifact& artifact = model.artifact;
  const Target& target = find_target(artifact.images.at(0).target);
  StaticLibrary library;
  std::vector<std::string> kernels;
  for (const Source& source : model.sources) kernels.push_back(source.name);
  library.plan = plan_library(artifact, name, kernels, target.alignment);
  library.signatures = signatures(artifact, name);

  std::vector<Source> sources = model.sources;
  sources.push_back(entry_source(artifact, library.plan, library.signatures));
  if (options.dump) options.dump("7-" + name + "_entries.cpp", sources.back().text);
  sources.push_back(support_source(name));
  if (Source data = data_source(artifact, library.plan, target.alignment); !data.text.empty()) sources.push_back(std::move(data));
  ToolchainOptions toolchain;
  toolchain.threads = static_cast<int>(options.jobs);
  toolchain.use_cache = options.use_cache;
  toolchain.small_code = options.small_code;
  if (options.progress) toolchain.progress = [&](size_t done, size_t total) { options.progress("compile kernels", done, total); };
  std::vector<std::string> objects = compile_objects(sources, target, toolchain);

  std::vector<ObjectFacts> facts;
  for (size_t i = 0; i < objects.size(); ++i) facts.push_back(object_facts(objects[i], std::to_string(i)));
  for (const Signature& s : library.signatures) library.stack_bytes.push_back((worst_stack(facts, s.function, target) + 7) / 8 * 8);
  std::vector<std::string> roots;
  for (const Signature& s : library.signatures) roots.push_back(s.function);
  if (!artifact.states.empty()) roots.push_back(name + "_init");
  library.object = link_relocatable(std::move(objects), target, roots);
  const ObjectFacts whole = object_facts(library.object, "");
  library.undefined = whole.undefined;
  int64_t constants = 0;  // of kernels
  for (size_t i = 0; i < kernels.size(); ++i) {
    library.kernel_bytes.push_back(facts[i].code_bytes + facts[i].data_bytes);
    library.code_bytes += library.kernel_bytes.back();
    constants += facts[i].data_bytes;
  }
  for (const formats::Weight& w : artifact.weights) library.data_bytes += static_cast<int64_t>(w.bytes.size());
  library.data_bytes = std::min<int64_t>(library.data_bytes, whole.data_bytes - constants);
  library.runtime_bytes = whole.code_bytes + whole.data_bytes - library.data_bytes - library.code_bytes;
  library.header = header_text(artifact, library.plan, library.signatures, {from, target, library.stack_bytes});
  return library;
}

}  // namespace nacre
