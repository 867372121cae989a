#include "compiler/toolchain/device_image.h"

#include <cstring>

#include "compiler/support/error.h"
#include "compiler/support/hash.h"
#include "compiler/toolchain/nvrtc.h"
#include "formats/device_image.h"
#include "targets/kernel_sources.h"

namespace nacre {
namespace {

// An object: the size of the cubin, the cubin, the PTX.
std::string_view cubin_of(const std::string& object, std::string_view* ptx) {
  std::uint64_t size = 0;
  check(object.size() >= sizeof size, "a device object is too short");
  std::memcpy(&size, object.data(), sizeof size);
  check(size <= object.size() - sizeof size, "a device object is damaged");
  *ptx = std::string_view(object).substr(sizeof size + size);
  return std::string_view(object).substr(sizeof size, size);
}

}  // namespace

std::string compile_device_object(const Source& source, const Target& target, bool ptx) {
  const DeviceCode code = compile_device(source.name, source.text, target.compute_capability, ptx);
  const std::uint64_t size = code.cubin.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + code.cubin + code.ptx;
}

std::string device_cache_key(const Source& source, const Target& target, bool ptx) {
  static const std::string headers = [] {
    std::string all;
    for (const KernelHeader& header : device_headers()) all += fmt::format("{}\n{}\n", header.name, header.text);
    return hash128_hex(all);
  }();
  return hash128_hex(fmt::format("nvrtc {}\n{}\nsm_{} {}\n{}\n{}", device_compiler_version(), headers, target.compute_capability, ptx, source.name, source.text));
}

CodeImage device_image(std::span<const Source> sources, const std::vector<std::string>& objects, const Target& target) {
  nacre_device_image head{};
  head.magic = NACRE_DEVICE_IMAGE_MAGIC;
  head.abi = NACRE_DEVICE_ABI;
  head.compute_capability = static_cast<std::uint32_t>(target.compute_capability);
  head.kernel_count = static_cast<std::uint32_t>(sources.size());
  std::vector<nacre_device_kernel> kernels;
  std::vector<nacre_device_map> maps;
  std::vector<std::uint32_t> nodes;
  for (const Source& source : sources) {
    check(source.launch.has_value(), "{} is no kernel of a device", source.name);
    nacre_device_kernel kernel{};
    kernel.threads = source.launch->threads;
    kernel.operands = source.launch->operands;
    kernel.shared_bytes = source.launch->shared_bytes;
    kernel.cluster = source.launch->cluster;
    kernel.first_node = static_cast<std::uint32_t>(nodes.size());
    kernel.node_count = static_cast<std::uint32_t>(source.launch->nodes.size());
    nodes.insert(nodes.end(), source.launch->nodes.begin(), source.launch->nodes.end());
    kernel.resident = source.launch->resident;
    kernel.first_map = static_cast<std::uint32_t>(maps.size());
    kernel.map_count = static_cast<std::uint32_t>(source.launch->maps.size());
    maps.insert(maps.end(), source.launch->maps.begin(), source.launch->maps.end());
    kernels.push_back(kernel);
  }
  head.node_count = static_cast<std::uint32_t>(nodes.size());
  head.map_count = static_cast<std::uint32_t>(maps.size());
  const auto aligned = [](std::uint64_t at) { return (at + 63) / 64 * 64; };
  std::uint64_t end = sizeof head + kernels.size() * sizeof(nacre_device_kernel) + maps.size() * sizeof(nacre_device_map) + nodes.size() * sizeof(std::uint32_t);
  std::vector<std::pair<std::uint64_t, std::string_view>> parts;
  const auto place = [&](std::string_view part) {
    const std::uint64_t at = aligned(end);
    end = at + part.size();
    parts.emplace_back(at, part);
    return at;
  };
  CodeImage image;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::string_view ptx;
    const std::string_view cubin = cubin_of(objects[i], &ptx);
    kernels[i].cubin = place(cubin);
    kernels[i].cubin_size = static_cast<std::uint32_t>(cubin.size());
    if (!ptx.empty()) {
      kernels[i].ptx = place(ptx);
      kernels[i].ptx_size = static_cast<std::uint32_t>(ptx.size());
    }
    image.kernel_sizes.push_back(static_cast<std::uint32_t>(cubin.size() + ptx.size()));
  }
  image.bytes.assign(end, 0);
  std::uint8_t* to = image.bytes.data();
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  if (!kernels.empty()) std::memcpy(to, kernels.data(), kernels.size() * sizeof kernels[0]);
  to += kernels.size() * sizeof(nacre_device_kernel);
  if (!maps.empty()) std::memcpy(to, maps.data(), maps.size() * sizeof maps[0]);
  to += maps.size() * sizeof(nacre_device_map);
  if (!nodes.empty()) std::memcpy(to, nodes.data(), nodes.size() * sizeof nodes[0]);
  for (const auto& [at, part] : parts) std::memcpy(image.bytes.data() + at, part.data(), part.size());
  return image;
}

}  // namespace nacre
