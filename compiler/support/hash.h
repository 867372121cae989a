// Content hashes (XXH3): cache keys, deduplication of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nacre {

std::uint64_t hash64(std::string_view bytes);
std::uint64_t hash64(const void* data, std::size_t size_bytes);

// 16 hexadecimal digits of `hash64`.
std::string hash_hex(std::string_view bytes);

// 32 hexadecimal digits of the 128-bit hash: for keys where a collision would give a wrong result.
std::string hash128_hex(std::string_view bytes);

}  // namespace nacre
