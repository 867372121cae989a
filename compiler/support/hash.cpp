#include "compiler/support/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nacre {

std::uint64_t hash64(const void* data, std::size_t size_bytes) {
  return XXH3_64bits(data, size_bytes);
}

std::uint64_t hash64(std::string_view bytes) { return hash64(bytes.data(), bytes.size()); }

std::string hash_hex(std::string_view bytes) { return fmt::format("{:016x}", hash64(bytes)); }

std::string hash128_hex(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace nacre
