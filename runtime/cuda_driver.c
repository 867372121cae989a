#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static struct nacre_cuda_driver driver;
static bool opened;

static void open_driver(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
#define X(name, symbol, parameters)                                            \
  *(void**)(&driver.name) = dlsym(library, #symbol);                           \
  if (!driver.name) return;
  NACRE_CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, parameters) *(void**)(&driver.name) = dlsym(library, #symbol);
  NACRE_CUDA_NEWER_FUNCTIONS(X)
#undef X
  opened = driver.cuInit(0) == 0;
}

const struct nacre_cuda_driver* nacre_cuda_driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_driver);
  return opened ? &driver : NULL;
}
