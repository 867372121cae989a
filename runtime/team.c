// Own threads, the application's, or none; the barriers are the same.
//
// The barrier is a dissemination barrier: in round r, a thread tells the one 2^r further on that it
// has come, and waits for the one 2^r before it. No two threads write the same word, which makes it
// about a third faster than a counter. A part of the team (`sync` with fewer threads) uses a
// counter, of which there is one for each number of threads.
//
// Who waits spins first, then yields, then sleeps: spinning alone costs hundreds of milliseconds
// where threads outnumber processors.
#include "runtime/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "formats/container.h"
#include "runtime/os.h"

enum { kSpins = 2000, kYields = 1000 };

// A word that one thread waits on and others change.
struct signal {
  _Alignas(64) atomic_uint word;
  atomic_uint sleepers;
};

struct lane {
  _Alignas(64) uint32_t generation;  // of barriers; its own thread's alone
  uint32_t number;
  struct nacre_team* team;
  pthread_t handle;
  struct signal arrived[];  // by round
};

struct counter {
  struct signal generation;
  atomic_uint count;
};

struct nacre_team {
  uint32_t threads;    // that were asked for
  atomic_uint active;  // that take part in the running job
  uint32_t started;
  int spins;
  size_t lane_bytes;
  bool has_executor;
  nacre_executor executor;
  nacre_job job;
  void* context;
  atomic_bool stopping;
  struct signal work;  // counts jobs
  // Behind it, where there is more than one thread: lanes, and a counter for each smaller number
  // of threads from 2 on.
};

// Rounds of a barrier.
static uint32_t rounds_of(uint32_t threads) {
  uint32_t rounds = 0;
  while (1u << rounds < threads) ++rounds;
  return rounds;
}

static size_t lane_bytes(uint32_t threads) {
  return sizeof(struct lane) + rounds_of(threads) * sizeof(struct signal);
}

static struct lane* lane_of(struct nacre_team* team, uint32_t thread) {
  return (struct lane*)(void*)((char*)(team + 1) + thread * team->lane_bytes);
}

static struct counter* counter_of(struct nacre_team* team, uint32_t count) {
  return (struct counter*)(void*)lane_of(team, team->threads) + (count - 2);
}

size_t nacre_team_size_bytes(uint32_t threads) {
  if (threads == 1) return offsetof(struct nacre_team, work);  // nobody waits
  return sizeof(struct nacre_team) + threads * lane_bytes(threads) +
         (threads - 2) * sizeof(struct counter);
}

static inline void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#elif defined(__riscv)
  __asm__ volatile(".4byte 0x0100000f");  // `pause`: without its extension, a fence that orders nothing
#endif
}

// Waits until the word has left `old`, or, when it counts, has reached `old` + 1.
static void wait_for_change(const struct nacre_team* team, struct signal* s, uint32_t old) {
  for (int i = 0; i < team->spins; ++i) {
    if (atomic_load_explicit(&s->word, memory_order_acquire) != old) return;
    pause_briefly();
  }
  for (int i = 0; i < kYields; ++i) {
    if (atomic_load_explicit(&s->word, memory_order_acquire) != old) return;
    nacre_os_yield();
  }
  // Sequentially consistent, as in `announce`: either this thread sees the new word, or the other
  // sees a sleeper.
  atomic_fetch_add(&s->sleepers, 1);
  while (atomic_load(&s->word) == old) nacre_os_wait(&s->word, old);
  atomic_fetch_sub(&s->sleepers, 1);
}

static void announce(struct signal* s, uint32_t word) {
  atomic_store(&s->word, word);
  if (atomic_load(&s->sleepers)) nacre_os_wake(&s->word);
}

void nacre_team_barrier(struct nacre_team* team, uint32_t thread) {
  uint32_t threads = atomic_load_explicit(&team->active, memory_order_relaxed);
  if (threads == 1) return;
  struct lane* lane = lane_of(team, thread);
  uint32_t generation = lane->generation++;
  for (uint32_t round = 0, distance = 1; distance < threads; ++round, distance *= 2) {
    uint32_t to = thread + distance;
    if (to >= threads) to -= threads;
    announce(&lane_of(team, to)->arrived[round], generation + 1);
    // The partner may be one barrier ahead already, so that this word is not `generation` but two
    // further; it is never behind.
    wait_for_change(team, &lane->arrived[round], generation);
  }
}

void nacre_team_sync(struct nacre_team* team, uint32_t thread, uint32_t count) {
  if (count <= 1) return;
  if (count == atomic_load_explicit(&team->active, memory_order_relaxed)) {
    nacre_team_barrier(team, thread);
    return;
  }
  struct counter* c = counter_of(team, count);
  uint32_t generation = atomic_load_explicit(&c->generation.word, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&c->count, 1, memory_order_acq_rel) + 1 == count) {
    atomic_store_explicit(&c->count, 0, memory_order_relaxed);
    announce(&c->generation, generation + 1);
  } else {
    wait_for_change(team, &c->generation, generation);
  }
}

static void* worker(void* argument) {
  struct lane* lane = argument;
  struct nacre_team* team = lane->team;
  for (uint32_t seen = 0;; ++seen) {
    wait_for_change(team, &team->work, seen);
    if (atomic_load_explicit(&team->stopping, memory_order_relaxed)) return NULL;
    team->job(team->context, lane->number, team->threads);
    nacre_team_barrier(team, lane->number);
  }
}

nacre_status nacre_team_start(struct nacre_team* team, uint32_t threads,
                              const nacre_executor* executor) {
  memset(team, 0, nacre_team_size_bytes(threads));
  team->threads = threads;
  atomic_store(&team->active, threads);
  team->lane_bytes = lane_bytes(threads);
  team->spins = nacre_os_processors() >= threads ? kSpins : 0;
  if (executor) {
    team->has_executor = true;
    team->executor = *executor;
    return NACRE_OK;
  }
  for (uint32_t i = 1; i < threads; ++i) {
    struct lane* lane = lane_of(team, i);
    lane->number = i;
    lane->team = team;
    if (pthread_create(&lane->handle, NULL, worker, lane)) {
      nacre_team_stop(team);
      return NACRE_THREAD_ERROR;
    }
    team->started = i;
  }
  return NACRE_OK;
}

void nacre_team_stop(struct nacre_team* team) {
  if (!team->started) return;
  atomic_store_explicit(&team->stopping, true, memory_order_relaxed);
  announce(&team->work, atomic_load(&team->work.word) + 1);
  for (uint32_t i = 1; i <= team->started; ++i) pthread_join(lane_of(team, i)->handle, NULL);
  team->started = 0;
}

// What an executor runs. It may have fewer threads than were asked for; all calls are told the same
// number.
static void executor_job(void* context, uint32_t thread, uint32_t threads) {
  struct nacre_team* team = context;
  atomic_store_explicit(&team->active, threads, memory_order_relaxed);
  team->job(team->context, thread, threads);
}

void nacre_team_run(struct nacre_team* team, nacre_job job, void* context) {
  team->job = job;
  team->context = context;
  if (team->threads == 1) {
    job(context, 0, 1);
  } else if (team->has_executor) {
    // The number of threads may differ from the last job's, and with it who waits for whom.
    memset(lane_of(team, 0), 0, team->threads * team->lane_bytes);
    team->executor.parallel(team->executor.self, team->threads, executor_job, team);
  } else {
    announce(&team->work, atomic_load_explicit(&team->work.word, memory_order_relaxed) + 1);
    job(context, 0, team->threads);
    nacre_team_barrier(team, 0);
  }
}
