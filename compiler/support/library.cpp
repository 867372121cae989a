#include "compiler/support/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "compiler/support/error.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> candidates(const std::string& file) {
  std::vector<fs::path> folders;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&candidates), &here) && here.dli_fname) {
    std::error_code error;
    const fs::path self = fs::canonical(here.dli_fname, error);
    if (!error) folders.push_back(self.parent_path());
  }
  std::error_code error;
  const fs::path tool = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(tool.parent_path());
  std::vector<fs::path> paths;
  for (const fs::path& folder : folders) {
    paths.push_back(folder / file);
    paths.push_back(folder.parent_path() / "lib" / file);
  }
  return paths;
}

}  // namespace

fs::path find_beside(const std::string& file) {
  for (const fs::path& path : candidates(file)) {
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path;
  }
  return {};
}

void* load_symbol(const std::string& file, const char* symbol, const std::string& advice) {
  std::string found = find_beside(file).string();
  if (found.empty()) found = file;  // where the system looks for libraries
  void* library = ::dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    fail(ErrorKind::environment, "cannot load {}: {}; {}", file,
         reason ? reason : "no reason given", advice);
  }
  void* address = ::dlsym(library, symbol);
  if (!address)
    fail(ErrorKind::environment, "{} has no symbol {}: it is of another build of nacre", found,
         symbol);
  return address;
}

}  // namespace nacre
