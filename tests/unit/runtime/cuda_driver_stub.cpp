// A stand-in for NVIDIA's driver, as libcuda.so.1: one device of compute capability 9.0 in the host's memory, so that what the
// runtime does with a device is tested where there is none.
//
//   addresses   of the device have a bit that no pointer of the host has: who mixes them up crashes
//   streams     what is queued is done when the stream is waited for, and not before
//   kernels     are found by their names: `scale` doubles, `divide` reports an error in the data, `crash` loses the device
#include "tests/unit/runtime/cuda_driver_stub.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "runtime/cuda_driver.h"

namespace {

constexpr CUdeviceptr kThere = CUdeviceptr{1} << 62;

struct Stub {
  nacre_cuda_stub_figures figures{0, 0, 0, 0, 0, 0, 0, std::size_t{1} << 34, 0, 0};
  std::string fails;  // the function whose next call fails
  CUresult result = 0;
  int contexts = 0;   // pushed
};
Stub stub;

// What the test asked for; and no call is without a context.
CUresult begin(const char* function) {
  if (stub.contexts <= 0) return 201;
  if (stub.fails != function) return 0;
  stub.fails.clear();
  return stub.result;
}

void* here(CUdeviceptr address) {
  if (!(address & kThere)) std::abort();
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address & ~kThere));
}

using Queue = std::deque<std::function<CUresult()>>;

// Of a kernel: words of 8 bytes.
CUresult execute(const std::string& name, const std::vector<uint64_t>& words) {
  const auto* status = &words[words.size() - 4];
  if (name.ends_with("_scale")) {  // x, y, elements
    const auto* x = static_cast<const float*>(here(words[0]));
    auto* y = static_cast<float*>(here(words[1]));
    for (uint64_t i = 0; i < words[2]; ++i) y[i] = 2 * x[i];
  } else if (name.ends_with("_by_map")) {  // a map of x, x, y, elements
    const auto* x = static_cast<const float*>(here(words[0]));
    auto* y = static_cast<float*>(here(words[17]));
    for (uint64_t i = 0; i < words[18]; ++i) y[i] = 2 * x[i];
  } else if (name.ends_with("_divide")) {
    *static_cast<uint64_t*>(here(status[0])) = (status[1] + 1) << 32 | 1u << 8 | 1;
  } else if (name.ends_with("_crash")) {
    return 700;
  }
  return 0;
}

// Perhaps a map, x, y, elements, and the four words that all have.
std::vector<uint64_t> words_of(const std::string& name, void** parameters) {
  std::vector<uint64_t> words;
  const auto add = [&](int count) {
    const auto* word = static_cast<const uint64_t*>(*parameters++);
    words.insert(words.end(), word, word + count);
  };
  if (name.ends_with("_by_map")) add(16);
  for (const int count : {1, 1, 1, 4}) add(count);
  return words;
}

struct Launch {
  std::string name;
  std::vector<uint64_t> words;
};

}  // namespace

struct CUctx_st {};
struct CUmod_st {};
struct CUevent_st {};
struct CUfunc_st {
  std::string name;
};
struct CUstream_st {
  Queue queue;
};
struct CUgraphNode_st {
  size_t number;
};
struct CUgraph_st {
  std::vector<Launch> launches;
  std::deque<CUgraphNode_st> nodes;
};
struct CUgraphExec_st {
  std::vector<Launch> launches;
};

namespace {
CUctx_st context;
CUmod_st module;
CUstream_st default_stream;
CUevent_st event;
std::map<std::string, CUfunc_st> functions;

Queue& queue_of(CUstream stream) { return (stream ? stream : &default_stream)->queue; }
}  // namespace

#define STUB extern "C" __attribute__((visibility("default")))

STUB void nacre_cuda_stub_fail(const char* function, int result) {
  stub.fails = function;
  stub.result = result;
}
STUB nacre_cuda_stub_figures* nacre_cuda_stub(void) { return &stub.figures; }
STUB uint64_t nacre_cuda_stub_address(void* host) { return reinterpret_cast<uintptr_t>(host) | kThere; }
STUB void* nacre_cuda_stub_stream(void) { return new CUstream_st; }
STUB void nacre_cuda_stub_free_stream(void* stream) { delete static_cast<CUstream>(stream); }

STUB CUresult cuInit(unsigned) { return 0; }
STUB CUresult cuDeviceGet(CUdevice* device, int) { return *device = 0; }
STUB CUresult cuDeviceGetCount(int* count) { return *count = 1, 0; }
STUB CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  return *value = attribute == CU_COMPUTE_CAPABILITY_MAJOR ? 9 : 0, 0;
}
STUB CUresult cuDeviceTotalMem_v2(size_t* size, CUdevice) { return *size = stub.figures.memory, 0; }
STUB CUresult cuDevicePrimaryCtxRetain(CUcontext* result, CUdevice) { return *result = &context, 0; }
STUB CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return 0; }
STUB CUresult cuCtxPushCurrent_v2(CUcontext) { return ++stub.contexts, 0; }
STUB CUresult cuCtxPopCurrent_v2(CUcontext*) { return --stub.contexts, 0; }
STUB CUresult cuModuleLoadData(CUmodule* result, const void*) { return *result = &module, begin("cuModuleLoadData"); }
STUB CUresult cuModuleUnload(CUmodule) { return 0; }
STUB CUresult cuModuleGetFunction(CUfunction* result, CUmodule, const char* name) {
  functions[name].name = name;
  return *result = &functions[name], 0;
}
STUB CUresult cuFuncSetAttribute(CUfunction, int, int) { return begin("cuFuncSetAttribute"); }
STUB CUresult cuMemAlloc_v2(CUdeviceptr* result, size_t size) {
  if (CUresult error = begin("cuMemAlloc")) return error;
  ++stub.figures.blocks;
  return *result = nacre_cuda_stub_address(std::calloc(1, size)), 0;
}
STUB CUresult cuMemFree_v2(CUdeviceptr address) {
  --stub.figures.blocks;
  return std::free(here(address)), begin("cuMemFree");
}
STUB CUresult cuMemHostAlloc(void** result, size_t size, unsigned) {
  ++stub.figures.blocks;
  *result = std::malloc(size);
  return std::memset(*result, 0xee, size), begin("cuMemHostAlloc");
}
STUB CUresult cuMemFreeHost(void* memory) {
  --stub.figures.blocks;
  return std::free(memory), 0;
}
STUB CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* result, void* host, unsigned) {
  return *result = nacre_cuda_stub_address(host), 0;
}
STUB CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  // As of memory that is not pinned: it is read at once.
  std::vector<uint8_t> bytes(static_cast<const uint8_t*>(from), static_cast<const uint8_t*>(from) + size);
  stub.figures.copied_in += size;
  queue_of(stream).push_back([=] { return std::memcpy(here(to), bytes.data(), bytes.size()), 0; });
  return begin("cuMemcpyHtoDAsync");
}
STUB CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  stub.figures.copied_out += size;
  queue_of(stream).push_back([=] { return std::memcpy(to, here(from), size), 0; });
  return begin("cuMemcpyDtoHAsync");
}
STUB CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  queue_of(stream).push_back([=] { return std::memmove(here(to), here(from), size), 0; });
  return begin("cuMemcpyDtoDAsync");
}
STUB CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream) {
  return std::memset(here(to), value, size), begin("cuMemsetD8Async");
}
STUB CUresult cuPointerGetAttribute(void* result, int, CUdeviceptr address) {
  ++stub.figures.asked;
  if (!(address & kThere)) return 1;
  return *static_cast<unsigned*>(result) = CU_MEMORY_DEVICE, 0;
}
STUB CUresult cuStreamCreate(CUstream* result, unsigned) { return *result = new CUstream_st, begin("cuStreamCreate"); }
STUB CUresult cuStreamDestroy_v2(CUstream stream) { return delete stream, 0; }
STUB CUresult cuStreamSynchronize(CUstream stream) {
  ++stub.figures.waits;
  CUresult result = begin("cuStreamSynchronize");
  Queue queue = std::move(queue_of(stream));
  queue_of(stream).clear();
  for (const auto& operation : queue)
    if (!result) result = operation();
  return result;
}
STUB CUresult cuEventCreate(CUevent* result, unsigned) { return *result = &event, begin("cuEventCreate"); }
STUB CUresult cuEventDestroy_v2(CUevent) { return 0; }
STUB CUresult cuEventRecord(CUevent, CUstream) { return begin("cuEventRecord"); }
STUB CUresult cuEventSynchronize(CUevent) { return begin("cuEventSynchronize"); }
STUB CUresult cuEventElapsedTime(float* ms, CUevent, CUevent) { return *ms = 0.5f, begin("cuEventElapsedTime"); }
STUB CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream,
                             void** parameters, void**) {
  queue_of(stream).push_back([name = function->name, words = words_of(function->name, parameters)] { return execute(name, words); });
  return begin("cuLaunchKernel");
}
STUB CUresult cuGraphCreate(CUgraph* result, unsigned) {
  ++stub.figures.graphs;
  return *result = new CUgraph_st, begin("cuGraphCreate");
}
STUB CUresult cuGraphDestroy(CUgraph graph) { return delete graph, 0; }
STUB CUresult cuGraphAddKernelNode_v2(CUgraphNode* result, CUgraph graph, const CUgraphNode*, size_t, const CUkernelParams* p) {
  graph->nodes.push_back({graph->launches.size()});
  graph->launches.push_back({p->function->name, words_of(p->function->name, p->parameters)});
  return *result = &graph->nodes.back(), begin("cuGraphAddKernelNode");
}
STUB CUresult cuGraphAddDependencies_v2(CUgraph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdge* edge, size_t count) {
  if (count != 1 || (*from)->number + 1 != (*to)->number || edge->from_port != CU_PORT_PROGRAMMATIC || edge->type != CU_EDGE_PROGRAMMATIC) return 1;
  ++stub.figures.early;
  return begin("cuGraphAddDependencies");
}
STUB CUresult cuTensorMapEncodeTiled(uint64_t* map, int, uint32_t rank, void* start, const uint64_t* sizes, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int) {
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || rank < 3 || sizes[rank - 1] == 0) return 1;
  ++stub.figures.encoded;
  map[0] = reinterpret_cast<uintptr_t>(start);
  return begin("cuTensorMapEncodeTiled");
}
STUB CUresult cuTensorMapEncodeIm2col(uint64_t*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int32_t*, const int32_t*, uint32_t, uint32_t, const uint32_t*, int, int, int, int) {
  return begin("cuTensorMapEncodeIm2col");
}
STUB CUresult cuGraphInstantiateWithFlags(CUgraphExec* result, CUgraph graph, unsigned long long) {
  return *result = new CUgraphExec_st{graph->launches}, begin("cuGraphInstantiate");
}
STUB CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUkernelParams* p) {
  ++stub.figures.told;
  exec->launches[node->number].words = words_of(p->function->name, p->parameters);
  return begin("cuGraphExecKernelNodeSetParams");
}
STUB CUresult cuGraphExecDestroy(CUgraphExec exec) { return delete exec, 0; }
STUB CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  for (const Launch& launch : exec->launches) queue_of(stream).push_back([launch] { return execute(launch.name, launch.words); });
  return begin("cuGraphLaunch");
}
STUB CUresult cuGetErrorString(CUresult result, const char** text) {
  return *text = result == 700 ? "an illegal memory access was encountered" : "a stub's error", 0;
}
