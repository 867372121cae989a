// Digests of sections: XXH3-64. They find damage, not malice; that is what signatures are for.
#ifndef NACRE_FORMATS_CHECKSUM_H
#define NACRE_FORMATS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t nacre_digest(const void* bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
