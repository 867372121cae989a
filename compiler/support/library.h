// Shared objects of nacre's own that are loaded on first use.
#pragma once

#include <filesystem>
#include <string>

namespace nacre {

// A file that belongs to this build of nacre: beside this library, in `lib` beside its folder, or so beside the tool. Empty
// where there is none.
std::filesystem::path find_beside(const std::string& file);

// Loads `file` (`libnacre_exporter.so`) from beside this library or the executable, from ../lib
// next to either, or from where the system looks, and returns the address of `symbol` in it. The
// object stays loaded. Error{environment} tells what was tried, the loader's reason and `advice`:
// what to install or set.
void* load_symbol(const std::string& file, const char* symbol, const std::string& advice);

}  // namespace nacre
