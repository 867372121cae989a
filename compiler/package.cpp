#include "compiler/package.h"

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

}  // namespace nacre
