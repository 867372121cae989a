// Artifacts whose weights lie in a file of their own. Only in libnacre_cuda, as libnacre is as small as can be.
#ifndef NACRE_RUNTIME_WEIGHTS_H
#define NACRE_RUNTIME_WEIGHTS_H

#include <nacre/nacre.h>

#include "formats/text.h"

// Maps the artifact anew, with its weights behind it. `*bytes`, `*size`: the mapping of its file, at least a header, which the new one
// takes the place of; where there is none, it stays, and `why` says what is wrong. `*artifact_size`: without the end of the weights' file.
nacre_status nacre_weights_map(const char* path, const nacre_open_options* options, const void** bytes, size_t* size,
                               size_t* artifact_size, struct nacre_text* why);

#endif
