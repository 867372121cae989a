#include <nacre/openmp.h>
#include <omp.h>

static void parallel(void* self, uint32_t threads,
                     void (*job)(void* context, uint32_t thread, uint32_t threads), void* context) {
  (void)self;
  // OpenMP may give fewer threads than asked for; all are told how many there are.
#pragma omp parallel num_threads((int)threads)
  job(context, (uint32_t)omp_get_thread_num(), (uint32_t)omp_get_num_threads());
}

const nacre_executor nacre_openmp = {parallel, 0};
