#include "compiler/package.h"

#include <algorithm>

#include "compiler/support/error.h"

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

CompiledModel package(ProgramTables tables, CodeImage image, const std::vector<std::string>& kernel_names,
                      const std::map<std::string, HostTensor>& weights, const Target& target, const std::string& producer) {
  CompiledModel result;
  formats::Artifact& a = result.artifact;
  a.producer = producer;
  a.symbols = std::move(tables.symbols);
  a.provenances = std::move(tables.provenances);
  auto find = [&](const std::string& name) {
    auto found = weights.find(name);
    check(found != weights.end(), "no data for weight {}", name);
    return found->second;
  };
  for (const std::string& name : tables.weights) {
    result.weights.push_back(find(name));
    a.weights.push_back(weight_of(name, result.weights.back()));
  }
  for (const std::string& name : tables.states) {
    const HostTensor initial = find(name);
    formats::State state;
    state.name = name;
    state.dtype = initial.dtype;
    state.dims = initial.shape;
    state.size_bytes = initial.size_bytes;
    state.initial = static_cast<int32_t>(a.weights.size());
    result.state_bytes += initial.size_bytes;
    result.weights.push_back(initial);
    a.weights.push_back(weight_of(name, initial));
    a.states.push_back(state);
  }
  formats::Image code;
  code.target = target.name;
  code.machine = target.machine;
  code.features = target.feature_bits;
  code.bytes = std::move(image.bytes);
  result.code_bytes = code.bytes.size();
  for (size_t i = 0; i < kernel_names.size(); ++i) {
    formats::Kernel kernel;
    kernel.name = kernel_names[i];
    kernel.index = static_cast<uint32_t>(i);
    kernel.size_bytes = i < image.kernel_sizes.size() ? image.kernel_sizes[i] : 0;
    kernel.provenances = tables.kernel_provenances[i];
    a.kernels.push_back(kernel);
  }
  a.images.push_back(std::move(code));
  a.entries.push_back(std::move(tables.entry));
  for (const HostTensor& w : result.weights) result.weight_bytes += w.size_bytes;
  result.arena_bytes = static_cast<uint64_t>(a.entries[0].variants[0].arena_bound);
  if (a.entries[0].variants[0].arena_size.is_constant()) result.arena_bytes = static_cast<uint64_t>(a.entries[0].variants[0].arena_size.raw);
  result.arena_text = std::move(tables.arena_text);
  return result;
}

}  // namespace nacre
