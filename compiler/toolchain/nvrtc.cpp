#include "compiler/toolchain/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "compiler/support/error.h"
#include "targets/kernel_sources.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

// As nvrtc.h has them.
using Program = struct _nvrtcProgram*;
struct Nvrtc {
  int (*version)(int*, int*);
  const char* (*error_text)(int);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts, const char* const* names);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
};

// Where the library may be: where the system looks, in the toolkit's own folder, in Python environments of ours.
std::vector<std::string> places() {
  std::vector<std::string> found{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  const auto look_in = [&](const fs::path& folder) {
    std::error_code none;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"})
      if (fs::exists(folder / name, none)) found.push_back((folder / name).string());
  };
  look_in("/usr/local/cuda/lib64");
  std::vector<fs::path> environments;
  if (const char* active = std::getenv("VIRTUAL_ENV")) environments.emplace_back(active);
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path ours = cache && *cache ? fs::path(cache) / "nacre" : fs::path(home ? home : "") / ".cache/nacre";
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(ours, none))
    if (entry.path().filename().string().starts_with("venv")) environments.push_back(entry.path());
  for (const fs::path& environment : environments)
    for (const fs::directory_entry& python : fs::directory_iterator(environment / "lib", none))
      for (const char* package : {"cu13/lib", "cuda_nvrtc/lib"}) look_in(python.path() / "site-packages/nvidia" / package);
  return found;
}

const Nvrtc& nvrtc() {
  static const Nvrtc loaded = [] {
    void* library = nullptr;
    for (const std::string& place : places())
      if ((library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))) break;
    if (!library)
      fail(ErrorKind::environment,
           "kernels for CUDA devices are compiled by NVIDIA's libnvrtc.so, which is not here: install the CUDA toolkit (12 or 13), or PyPI's "
           "nvidia-cuda-nvrtc");
    Nvrtc api{};
    const auto get = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (!function) fail(ErrorKind::environment, "libnvrtc.so has no {}", name);
    };
    get(api.version, "nvrtcVersion");
    get(api.error_text, "nvrtcGetErrorString");
    get(api.create, "nvrtcCreateProgram");
    get(api.destroy, "nvrtcDestroyProgram");
    get(api.compile, "nvrtcCompileProgram");
    get(api.log_size, "nvrtcGetProgramLogSize");
    get(api.log, "nvrtcGetProgramLog");
    get(api.cubin_size, "nvrtcGetCUBINSize");
    get(api.cubin, "nvrtcGetCUBIN");
    get(api.ptx_size, "nvrtcGetPTXSize");
    get(api.ptx, "nvrtcGetPTX");
    return api;
  }();
  return loaded;
}

template <class Size, class Get>
std::string text_of(Program program, Size size, Get get) {
  size_t bytes = 0;
  std::string text;
  if (size(program, &bytes) == 0 && bytes > 0) {
    text.resize(bytes);
    get(program, text.data());
  }
  return text;
}

}  // namespace

std::string device_compiler_version() {
  int major = 0, minor = 0;
  nvrtc().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

namespace {

DeviceCode compile_for(const std::string& architecture, const std::string& name, const std::string& source, bool ptx) {
  std::vector<const char*> texts, names;
  for (const KernelHeader& header : device_headers()) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  const Nvrtc& api = nvrtc();
  Program program = nullptr;
  if (const int error = api.create(&program, source.c_str(), (name + ".cu").c_str(), static_cast<int>(texts.size()), texts.data(), names.data()))
    fail(ErrorKind::internal, "NVRTC takes no program: {}", api.error_text(error));
  const std::string option = "--gpu-architecture=" + architecture;
  const std::vector<const char*> options{option.c_str(), "--std=c++20", "--fmad=true", "--extra-device-vectorization", "-default-device", "--disable-warnings"};
  const int error = api.compile(program, static_cast<int>(options.size()), options.data());
  DeviceCode code;
  std::string log;
  if (error) {
    log = text_of(program, api.log_size, api.log);
  } else if (ptx) {
    code.ptx = text_of(program, api.ptx_size, api.ptx);
  } else {
    code.cubin = text_of(program, api.cubin_size, api.cubin);
  }
  api.destroy(&program);
  if (error) fail(ErrorKind::internal, "generated kernel {} does not compile for {} ({}):\n{}", name, architecture, api.error_text(error), log);
  return code;
}

}  // namespace

DeviceCode compile_device(const std::string& name, const std::string& source, int compute_capability, bool ptx) {
  // Products by four warps together are what 9.0 has and no later one.
  DeviceCode code = compile_for(fmt::format("sm_{}{}", compute_capability, compute_capability == 90 ? "a" : ""), name, source, false);
  if (ptx) code.ptx = compile_for(fmt::format("compute_{}", compute_capability), name, source, true).ptx;
  return code;
}

}  // namespace nacre
