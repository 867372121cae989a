// Content hashes (XXH3) for cache keys and names, and the mixing of hashes for tables in memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nacre {

// 16 hexadecimal digits.
std::string hash_hex(std::string_view bytes);

// 32 hexadecimal digits of the 128-bit hash: for keys where a collision would give a wrong result.
std::string hash128_hex(std::string_view bytes);

// The hash of a sequence: what came before, and the hash of what follows.
inline std::size_t hash_combine(std::size_t before, std::size_t next) {
  return (before ^ (next + 0x9e3779b97f4a7c15ull + (before << 6) + (before >> 2))) *
         0xff51afd7ed558ccdull;
}

}  // namespace nacre
