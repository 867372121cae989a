#include "compiler/package.h"

#include <algorithm>

#include "compiler/support/print.h"

namespace nacre {

namespace {

formats::Weight weight_of(const std::string& name, const HostTensor& tensor) {
  formats::Weight weight;
  weight.name = name;
  weight.dtype = tensor.dtype;
  weight.dims = tensor.shape;
  weight.bytes = {reinterpret_cast<const uint8_t*>(tensor.data.get()), tensor.size_bytes};
  return weight;
}

}  // namespace

CompiledModel package(Tables tables, std::vector<formats::Entry> entries, std::vector<PackedImage> images, const std::string& producer) {
  CompiledModel result;
  formats::Artifact& a = result.artifact;
  a.producer = producer;
  a.symbols = std::move(tables.symbols);
  a.provenances = std::move(tables.provenances);
  a.imports = std::move(tables.imports);
  for (const Tables::Weight& weight : tables.weights) {
    result.weights.push_back(weight.data);
    a.weights.push_back(weight_of(weight.name, weight.data));
  }
  for (const Tables::State& t : tables.states) {
    formats::State state;
    state.name = t.name;
    state.dtype = t.initial.dtype;
    state.dims = t.initial.shape;
    state.size_bytes = t.initial.size_bytes;
    state.initial = static_cast<int32_t>(a.weights.size());
    result.weights.push_back(t.initial);
    a.weights.push_back(weight_of(t.name, t.initial));
    a.states.push_back(state);
  }
  for (PackedImage& packed : images) {
    formats::Image code;
    code.target = packed.target.name;
    code.machine = packed.target.machine;
    code.features = packed.target.feature_bits;
    code.bytes = std::move(packed.image.bytes);
    for (size_t i = 0; i < packed.kernel_names.size(); ++i) {
      formats::Kernel kernel;
      kernel.name = packed.kernel_names[i];
      kernel.image = static_cast<uint32_t>(a.images.size());
      kernel.index = static_cast<uint32_t>(i);
      kernel.size_bytes = i < packed.image.kernel_sizes.size() ? packed.image.kernel_sizes[i] : 0;
      kernel.provenances = tables.kernel_provenances[a.kernels.size()];
      a.kernels.push_back(kernel);
    }
    a.images.push_back(std::move(code));
  }
  a.entries = std::move(entries);
  return result;
}

std::string over_flash_limit(const formats::Artifact& artifact, int64_t limit) {
  const formats::ArtifactSizes sizes = formats::write_artifact(artifact, [](std::span<const uint8_t>) {});
  const auto total = static_cast<int64_t>(sizes.code + sizes.data + sizes.meta);
  if (total <= limit) return {};
  struct Part {
    uint64_t bytes;
    std::string what;
  };
  std::vector<Part> parts;
  for (const formats::Kernel& kernel : artifact.kernels) {
    std::string where;
    if (!kernel.provenances.empty()) {
      const formats::Provenance& p = artifact.provenances.at(kernel.provenances[0]);
      where = p.file.empty() ? " of " + p.op : fmt::format(" of {} ({}:{})", p.op, p.file, p.line);
    }
    parts.push_back({kernel.size_bytes, "code of " + kernel.name + where});
  }
  for (const formats::Weight& weight : artifact.weights) parts.push_back({weight.bytes.size(), "weight " + weight.name});
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
  std::string text = fmt::format("code ({} bytes), weights ({}) and tables ({}) take {} bytes together, {} more than the limit of {}; the largest are:",
                                 grouped(static_cast<int64_t>(sizes.code)), grouped(static_cast<int64_t>(sizes.data)), grouped(static_cast<int64_t>(sizes.meta)),
                                 grouped(total), grouped(total - limit), grouped(limit));
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, parts.size()); ++i) text += fmt::format("\n  {} bytes {}", grouped(static_cast<int64_t>(parts[i].bytes)), parts[i].what);
  return text;
}

}  // namespace nacre
