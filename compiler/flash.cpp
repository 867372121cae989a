#include "compiler/flash.h"

#include <algorithm>
#include <optional>

#include "compiler/support/error.h"
#include "compiler/support/print.h"

namespace nacre {
namespace {

// By how much it is more than the limit, and what takes the most.
std::string over_limit(const formats::Artifact& artifact, const FlashUse& use, int64_t limit) {
  struct Part {
    int64_t bytes;
    std::string what;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < use.kernel_bytes.size(); ++i) {
    const formats::Kernel& kernel = artifact.kernels.at(i);
    std::string where;
    if (!kernel.provenances.empty()) {
      const formats::Provenance& p = artifact.provenances.at(kernel.provenances[0]);
      where = p.file.empty() ? " of " + p.op : fmt::format(" of {} ({}:{})", p.op, p.file, p.line);
    }
    parts.push_back({use.kernel_bytes[i], "code of " + kernel.name + where});
  }
  for (const formats::Weight& weight : artifact.weights) parts.push_back({static_cast<int64_t>(weight.bytes.size()), "weight " + weight.name});
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
  std::string text = fmt::format("code ({} bytes), weights ({}) and {} ({}) take {} bytes together, {} more than the limit of {}; the largest are:",
                                 grouped(use.code_bytes), grouped(use.weight_bytes), use.other, grouped(use.other_bytes), grouped(use.total()),
                                 grouped(use.total() - limit), grouped(limit));
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, parts.size()); ++i) text += fmt::format("\n  {} bytes {}", grouped(parts[i].bytes), parts[i].what);
  return text;
}

}  // namespace

FlashUse flash_of_artifact(const formats::Artifact& artifact) {
  const formats::ArtifactSizes sizes = formats::write_artifact(artifact, [](std::span<const uint8_t>) {});
  FlashUse use{static_cast<int64_t>(sizes.code), static_cast<int64_t>(sizes.data), static_cast<int64_t>(sizes.meta), "tables", {}};
  for (const formats::Kernel& kernel : artifact.kernels) use.kernel_bytes.push_back(kernel.size_bytes);
  return use;
}

FlashUse flash_of_library(const StaticLibrary& library) {
  return {library.code_bytes, library.data_bytes, library.runtime_bytes, "code beside kernels", library.kernel_bytes};
}

CompiledModel compile_into_flash(const std::vector<Method>& methods, const CompileOptions& options,
                                 const std::function<FlashUse(const CompiledModel&, const CompileOptions&)>& use) {
  CompileOptions tried = options;
  std::optional<int64_t> least;
  std::string over;
  for (const int64_t bands : {options.most_bands, int64_t{8}, int64_t{4}, int64_t{2}, int64_t{1}}) {
    if (bands > tried.most_bands) continue;
    tried.most_bands = bands;
    try {
      for (const bool small_code : {false, true}) {
        tried.small_code = small_code;
        CompiledModel model = compile(methods, tried);
        const FlashUse found = use(model, tried);
        if (found.total() <= *options.flash_limit) return model;
        if (least && *least <= found.total()) continue;
        least = found.total();
        over = over_limit(model.artifact, found, *options.flash_limit);
      }
    } catch (const Error& error) {
      // With fewer bands it does not fit into memory.
      if (!least || error.kind != ErrorKind::user) throw;
      break;
    }
    if (!options.memory_limit) break;
  }
  fail(ErrorKind::user, "{}", over);
}

}  // namespace nacre
