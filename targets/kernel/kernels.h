// Everything that a generated kernel may use.
#ifndef NACRE_KERNEL_KERNELS_H
#define NACRE_KERNEL_KERNELS_H
#include "nacre/kernel_abi.h"
#include "nacre/vec.h"
#include "nacre/math.h"
#include "nacre/arithmetic.h"
#include "nacre/loops.h"
#include "nacre/gemm.h"
#include "nacre/conv.h"
#include "nacre/depthwise.h"
#include "nacre/attention.h"
#include "nacre/winograd.h"
#include "nacre/recurrent.h"
#include "nacre/sort.h"
#include "nacre/fft.h"
#endif
