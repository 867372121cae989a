// Which shapes a session has run, how often, and by which row: what later variants are made for.
#ifndef NACRE_RUNTIME_SHAPES_H
#define NACRE_RUNTIME_SHAPES_H

#include "runtime/session.h"

// Counts the call that the session is bound for.
void nacre_shapes_note(nacre_session* session);
// Adds the counts to the file that the environment names, if it does.
void nacre_shapes_flush(nacre_session* session);

#endif
