// The threads of a session. One team works through a whole call; within it, threads meet at
// barriers.
#ifndef NACRE_RUNTIME_TEAM_H
#define NACRE_RUNTIME_TEAM_H

#include <nacre/nacre.h>
#include <stdint.h>

#define NACRE_MAX_THREADS 256u

typedef void (*nacre_job)(void* context, uint32_t thread, uint32_t threads);

struct nacre_team;

// A team lives in memory of the caller's, aligned to 64 bytes.
size_t nacre_team_size_bytes(uint32_t threads);

// `threads` in [1, NACRE_MAX_THREADS]. With an executor, no thread is started; the executor is
// copied. NACRE_THREAD_ERROR: nothing is left running.
nacre_status nacre_team_start(struct nacre_team* team, uint32_t threads,
                              const nacre_executor* executor);
void nacre_team_stop(struct nacre_team* team);

// job(context, t, n) for each t, thread 0 being the caller; returns when all have returned.
void nacre_team_run(struct nacre_team* team, nacre_job job, void* context);

// Within a job: waits for all threads of it, or for the first `count` threads, of which the caller
// is one.
void nacre_team_barrier(struct nacre_team* team, uint32_t thread);
void nacre_team_sync(struct nacre_team* team, uint32_t thread, uint32_t count);

#endif
