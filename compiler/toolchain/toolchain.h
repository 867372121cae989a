// Kernel source -> one code image for a target: Clang and lld in this process, objects cached by
// content, several kernels at once on several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/toolchain/module.h"
#include "formats/device_image.h"
#include "targets/target.h"

namespace nacre {

// How a kernel of a device is started (formats/device_image.h).
struct LaunchFacts {
  std::uint32_t threads = 0, operands = 0, shared_bytes = 0, cluster = 1, resident = 0;
  std::vector<std::uint32_t> nodes;
  std::vector<nacre_device_map> maps;
};

// One kernel: its source defines `extern "C" int32_t NAME(const nacre_kernel_args*)`, or a `__global__` function NAME.
struct Source {
  std::string name;
  std::string text;
  std::optional<LaunchFacts> launch = {};
};

struct ToolchainOptions {
  int threads = 0;  // 0: as many as there are processors
  bool use_cache = true;
  bool small_code = false;  // compiled for size, not for speed
  bool ptx = false;  // for a device, beside its own code, what later ones can run
  std::filesystem::path cache_folder;  // empty: the user's
  // Called after each kernel, from any of the threads but never from two at once.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

struct CodeImage {
  std::vector<std::uint8_t> bytes;  // an ELF shared object whose entry is the table of kernels, or device_image.h
  std::vector<std::uint32_t> kernel_sizes;  // bytes of code and constants of each kernel, in order
  std::size_t compiled = 0;                 // kernels that were not in the cache
};

// The image's table lists the kernels in the order of `sources`. The same sources and target give
// the same bytes, whatever the cache holds and however many threads there are. Error{internal} with
// the compiler's message and the line of generated code, when a kernel does not compile.
CodeImage compile_image(std::span<const Source> sources, const Target& target,
                        const ToolchainOptions& options);

// The same as objects that are linked into an image: each function in a section of its own, with a
// record of its stack. Sources may also have other functions than kernels.
std::vector<std::string> compile_objects(std::span<const Source> sources, const Target& target,
                                         const ToolchainOptions& options);
// One relocatable object. What `roots` do not lead to is left out.
std::string link_relocatable(std::vector<std::string> objects, const Target& target,
                             const std::vector<std::string>& roots);
// A program that needs nothing, laid out by a linker script, or, if that is empty, as the system's
// programs are; it begins at `_start`.
std::string link_program(std::vector<std::string> objects, const Target& target,
                         const std::string& script);
ObjectFacts object_facts(const std::string& object, const std::string& mark);

// Loads Clang and lld now: what a process does before it forks children that each compile.
void load_toolchain();

}  // namespace nacre
