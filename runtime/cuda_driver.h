// The part of CUDA's driver interface that nacre uses, declared here, so that no header of the toolkit is needed, and opened when
// an artifact with code for a GPU is.
#ifndef NACRE_RUNTIME_CUDA_DRIVER_H
#define NACRE_RUNTIME_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphNode_st* CUgraphNode;
typedef struct CUgraphExec_st* CUgraphExec;

// As the driver lays it out (CUDA_KERNEL_NODE_PARAMS_v2).
typedef struct CUkernelParams {
  CUfunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CUcontext context;
} CUkernelParams;

// CUgraphEdgeData
typedef struct CUgraphEdge {
  unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdge;

enum {
  CU_FUNCTION_SHARED_BYTES = 8,
  CU_FUNCTION_SHARED_PERCENT = 9,
  CU_FUNCTION_LARGE_CLUSTERS = 14,
  CU_PORT_PROGRAMMATIC = 1,
  CU_EDGE_PROGRAMMATIC = 1,
  CU_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_COMPUTE_CAPABILITY_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_HOST_PORTABLE = 1,
  CU_HOST_DEVICEMAP = 2,
  CU_POINTER_MEMORY_TYPE = 2,
  CU_MEMORY_DEVICE = 2,
  // Results that say no more than that the caller was wrong.
  CU_OUT_OF_MEMORY = 2,
};

// Names as the driver's library has them, and theirs without what marks a version.
#define NACRE_CUDA_FUNCTIONS(X)                                                              \
  X(cuInit, cuInit, (unsigned))                                                              \
  X(cuDeviceGet, cuDeviceGet, (CUdevice*, int))                                              \
  X(cuDeviceGetCount, cuDeviceGetCount, (int*))                                              \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, int, CUdevice))                       \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t*, CUdevice))                              \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))              \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice))                     \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext))                                      \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext*))                                       \
  X(cuModuleLoadData, cuModuleLoadData, (CUmodule*, const void*))                            \
  X(cuModuleUnload, cuModuleUnload, (CUmodule))                                              \
  X(cuModuleGetFunction, cuModuleGetFunction, (CUfunction*, CUmodule, const char*))          \
  X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr*, size_t))                                       \
  X(cuMemFree, cuMemFree_v2, (CUdeviceptr))                                                  \
  X(cuMemHostAlloc, cuMemHostAlloc, (void**, size_t, unsigned))                              \
  X(cuMemFreeHost, cuMemFreeHost, (void*))                                                   \
  X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr*, void*, unsigned)) \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))   \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))         \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))   \
  X(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))        \
  X(cuPointerGetAttribute, cuPointerGetAttribute, (void*, int, CUdeviceptr))                 \
  X(cuStreamCreate, cuStreamCreate, (CUstream*, unsigned))                                   \
  X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream))                                         \
  X(cuStreamSynchronize, cuStreamSynchronize, (CUstream))                                    \
  X(cuEventCreate, cuEventCreate, (CUevent*, unsigned))                                      \
  X(cuEventDestroy, cuEventDestroy_v2, (CUevent))                                            \
  X(cuEventRecord, cuEventRecord, (CUevent, CUstream))                                       \
  X(cuEventSynchronize, cuEventSynchronize, (CUevent))                                       \
  X(cuEventElapsedTime, cuEventElapsedTime, (float*, CUevent, CUevent))                      \
  X(cuLaunchKernel, cuLaunchKernel,                                                          \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)) \
  X(cuGraphCreate, cuGraphCreate, (CUgraph*, unsigned))                                      \
  X(cuGraphDestroy, cuGraphDestroy, (CUgraph))                                               \
  X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2,                                           \
    (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUkernelParams*))              \
  X(cuGraphInstantiate, cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long)) \
  X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2,                       \
    (CUgraphExec, CUgraphNode, const CUkernelParams*))                                       \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                                   \
  X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                                   \
  X(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction, int, int))                           \
  X(cuGetErrorString, cuGetErrorString, (CUresult, const char**))
// What older drivers lack.
#define NACRE_CUDA_NEWER_FUNCTIONS(X)                                                         \
  X(cuGraphAddDependencies, cuGraphAddDependencies_v2,                                        \
    (CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdge*, size_t))            \
  X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled,                                           \
    (uint64_t*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int)) \
  X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col,                                         \
    (uint64_t*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int32_t*, const int32_t*, uint32_t, uint32_t, \
     const uint32_t*, int, int, int, int))

struct nacre_cuda_driver {
#define X(name, symbol, parameters) CUresult(*name) parameters;
  NACRE_CUDA_FUNCTIONS(X)
  NACRE_CUDA_NEWER_FUNCTIONS(X)  // or NULL
#undef X
};

// NULL: there is no driver, or it is too old. The library stays open.
const struct nacre_cuda_driver* nacre_cuda_driver(void);

#endif
