#include "compiler/toolchain/cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/hash.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

// An entry is this line, the digest of the object in 32 digits, a line end, the object.
constexpr std::string_view kMagic = "nacre object 1\n";
constexpr std::size_t kHeaderSize = kMagic.size() + 32 + 1;

}  // namespace

fs::path ObjectCache::default_folder() {
  // A relative XDG path is to be ignored, says its specification.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && cache[0] == '/')
    return fs::path(cache) / "nacre" / "objects";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return fs::path(home) / ".cache" / "nacre" / "objects";
  return {};
}

fs::path ObjectCache::path_of(const std::string& key) const {
  return folder_ / key.substr(0, 2) / key.substr(2);
}

std::optional<std::string> ObjectCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path path = path_of(key);
  std::string entry;
  try {
    entry = read_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
  std::string object = entry.size() > kHeaderSize ? entry.substr(kHeaderSize) : std::string();
  if (object.empty() || !entry.starts_with(kMagic) ||
      entry.compare(kMagic.size(), 32, hash128_hex(object)) != 0) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return std::nullopt;
  }
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
  return object;
}

void ObjectCache::store(const std::string& key, std::string_view object) const {
  if (folder_.empty()) return;
  try {
    const fs::path path = path_of(key);
    make_folder(path.parent_path());
    std::string entry(kMagic);
    entry += hash128_hex(object);
    entry += '\n';
    entry += object;
    write_file(path, entry);
  } catch (const Error&) {
    return;
  }
}

void ObjectCache::trim() const {
  if (folder_.empty()) return;
  struct Entry {
    fs::file_time_type used;
    std::uint64_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  const auto none = fs::recursive_directory_iterator();
  for (auto it = fs::recursive_directory_iterator(folder_, error); !error && it != none;
       it.increment(error)) {
    // Another process may remove it meanwhile.
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    Entry entry{it->last_write_time(gone), it->file_size(gone), it->path()};
    if (gone) continue;
    total += entry.size;
    entries.push_back(std::move(entry));
  }
  if (total <= bound_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  for (const Entry& entry : entries) {
    if (total <= bound_bytes_ / 4 * 3) break;
    std::error_code ignored;
    if (fs::remove(entry.path, ignored)) total -= entry.size;
  }
}

}  // namespace nacre
