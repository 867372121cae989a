// Calls on a stream of the application's: for programs that have CUDA anyway. Link nacre_cuda.
//
// nacre_run finds out for each input and output whether its memory is the host's, which is copied, or the device's, which the
// kernels use where it lies (and which must be dense there), if its address is a multiple of 16: else it is copied, too. Two session options change how a variant for a GPU runs:
//
//   cuda_stream   a CUstream of the device's primary context (the one that CUDA's runtime library uses): kernels and copies go
//                 there, after what is queued on it. It outlives the session. NULL: a stream of the session's own.
//   cuda_queued   not 0: inputs and outputs lie on the device, but for numbers (inputs without dimensions), and are dense;
//                 nacre_run does not ask where, and returns when the call is queued. What follows on the stream finds
//                 the outputs there. A program with branches, or with sizes that depend on data, still waits for what decides them.
//                 The inputs must stay, and a session's calls come one after the other.
#ifndef NACRE_CUDA_H
#define NACRE_CUDA_H

#include <nacre/nacre.h>

#ifdef __cplusplus
extern "C" {
#endif

// Until all queued calls have ended. NACRE_DATA_ERROR: one of them met an error in the data, as nacre_run has it; the outputs since
// then are unspecified. NACRE_DEVICE_LOST: the device failed, and the session can only be destroyed.
// Without queued calls, or on a processor, NACRE_OK.
NACRE_API nacre_status nacre_session_wait(nacre_session* session);

#ifdef __cplusplus
}
#endif
#endif
