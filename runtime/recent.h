// What a session found out about the shapes of recent calls: the row, the values of symbols and
// expressions, all sizes. Shapes that come again need none of it anew. This is for entries whose rows
// look at dtypes and shapes alone, and inputs that are contiguous; what others lead to is not kept.
#ifndef NACRE_RUNTIME_RECENT_H
#define NACRE_RUNTIME_RECENT_H

#include <stdbool.h>

#include "runtime/block.h"
#include "runtime/session.h"

void nacre_recent_lay_out(struct nacre_block* block, const nacre_model* model, nacre_session* s, bool profile);

// Looks at the inputs of a call. True if it was known what they lead to: the session is bound for
// them; `*changed` if it was not before.
bool nacre_recent_find(nacre_session* s, uint32_t entry, const nacre_tensor* inputs, bool* changed);
// A place for what these inputs lead to. The session is no longer bound, unless it stays where it is.
void nacre_recent_start(nacre_session* s);
// The session is bound: what is in the place holds.
void nacre_recent_keep(nacre_session* s);
// The session's values are about to change: it is no longer bound, and nothing is known of the present shapes.
void nacre_recent_leave(nacre_session* s);

#endif
