// Compiled objects kept by the hash of everything that went into them, in
// ${XDG_CACHE_HOME:-~/.cache}/nacre/objects. A cache that cannot be read or written only costs
// time: nothing here fails. Several processes may share the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace nacre {

class ObjectCache {
 public:
  static constexpr std::uint64_t kDefaultBoundBytes = 512ull << 20;

  // An empty folder: no cache at all.
  explicit ObjectCache(std::filesystem::path folder, std::uint64_t bound_bytes = kDefaultBoundBytes)
      : folder_(std::move(folder)), bound_bytes_(bound_bytes) {}

  // Empty where neither XDG_CACHE_HOME nor HOME is set.
  static std::filesystem::path default_folder();

  // The object stored under `key` (hexadecimal digits); a damaged entry is removed and counts as
  // absent.
  std::optional<std::string> find(const std::string& key) const;

  // Appears under its name complete or not at all.
  void store(const std::string& key, std::string_view object) const;

  // Removes the entries that were used least recently until three quarters of the bound are left,
  // if the bound is passed.
  void trim() const;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
  std::uint64_t bound_bytes_;
};

}  // namespace nacre
