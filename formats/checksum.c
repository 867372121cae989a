#include "formats/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t nacre_digest(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }
