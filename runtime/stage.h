// Inputs that do not lie as the chosen variant reads them: copies in the arena, behind the scratch of the threads.
#ifndef NACRE_RUNTIME_STAGE_H
#define NACRE_RUNTIME_STAGE_H

#include "runtime/session.h"

// Places for the inputs that the choice of the variant left to be copied. NACRE_BAD_ARGUMENT for one that the call writes
// into although several of its elements are one.
nacre_status nacre_stage_plan(nacre_session* session, const nacre_tensor* inputs);
// Where the copy of an input is.
uint8_t* nacre_stage_place(const nacre_session* session, uint32_t input);
void nacre_stage_in(nacre_session* session, const nacre_tensor* inputs);
// What the call wrote into copies goes back.
void nacre_stage_out(nacre_session* session, const nacre_tensor* inputs);

#endif
