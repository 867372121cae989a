// Everything that a generated kernel for a CUDA device may use. NVRTC compiles it: no headers of the toolkit, no host code.
#ifndef NACRE_DEVICE_CUDA_H
#define NACRE_DEVICE_CUDA_H
#include "nacre/cuda_base.h"
#include "nacre/integers.h"
#include "nacre/cuda_math.h"
#include "nacre/cuda_team.h"
#include "nacre/cuda_rows.h"
#include "nacre/cuda_recurrent.h"
#include "nacre/cuda_gemv.h"
#include "nacre/cuda_mma.h"
#include "nacre/cuda_mapped.h"
#include "nacre/cuda_attention.h"
#endif
