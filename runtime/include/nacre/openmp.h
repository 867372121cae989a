// OpenMP's threads as a session's: for programs that have them anyway, since two pools in one
// process take each other's processors. Link nacre::openmp.
#ifndef NACRE_OPENMP_H
#define NACRE_OPENMP_H

#include <nacre/nacre.h>

#ifdef __cplusplus
extern "C" {
#endif

// For nacre_session_options.executor. A whole call runs inside one parallel region.
extern const nacre_executor nacre_openmp;

#ifdef __cplusplus
}
#endif
#endif
