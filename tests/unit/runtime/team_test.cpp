// Threads and barriers. Run under ThreadSanitizer, too.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <thread>
#include <vector>

extern "C" {
#include "runtime/team.h"
}

namespace {

// The application's threads, made for each job.
void parallel(void* self, uint32_t threads, void (*job)(void*, uint32_t, uint32_t), void* context) {
  const uint32_t most = *static_cast<uint32_t*>(self);
  const uint32_t count = threads < most ? threads : most;
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < count; ++t) others.emplace_back(job, context, t, count);
  job(context, 0, count);
  for (std::thread& thread : others) thread.join();
}

class Team {
 public:
  explicit Team(uint32_t threads, const nacre_executor* executor = nullptr)
      : memory_(static_cast<char*>(std::aligned_alloc(64, nacre_team_size_bytes(threads)))) {
    EXPECT_EQ(nacre_team_start(get(), threads, executor), NACRE_OK);
  }
  ~Team() {
    nacre_team_stop(get());
    std::free(memory_);
  }
  nacre_team* get() { return reinterpret_cast<nacre_team*>(memory_); }

 private:
  char* memory_;
};

// Each round, every thread writes its place and then reads its neighbour's: plain memory, so that a
// barrier which does not order is a data race.
struct Rounds {
  nacre_team* team;
  std::vector<int> places;
  std::vector<int> wrong;
  int rounds;
  uint32_t part;  // 0: all
};

void pass_on(void* context, uint32_t thread, uint32_t threads) {
  auto* r = static_cast<Rounds*>(context);
  const uint32_t part = r->part && r->part < threads ? r->part : threads;
  const auto meet = [&] {
    if (part == threads) {
      nacre_team_barrier(r->team, thread);
    } else {
      nacre_team_sync(r->team, thread, part);
    }
  };
  if (thread >= part) return;
  for (int i = 0; i < r->rounds; ++i) {
    r->places[thread] = i;
    meet();
    if (r->places[(thread + 1) % part] != i) ++r->wrong[thread];
    meet();
  }
}

void check(nacre_team* team, uint32_t threads, int jobs, int rounds, uint32_t part = 0) {
  Rounds r = {team, std::vector<int>(threads), std::vector<int>(threads), rounds, part};
  for (int job = 0; job < jobs; ++job) nacre_team_run(team, pass_on, &r);
  EXPECT_EQ(std::accumulate(r.wrong.begin(), r.wrong.end(), 0), 0);
}

TEST(Team, OneThreadRunsOnTheCaller) {
  Team team(1);
  check(team.get(), 1, 10, 10);
}

TEST(Team, BarriersOrderMemoryForAnyNumberOfThreads) {
  for (const uint32_t threads : {2u, 3u, 4u, 5u, 8u}) {
    Team team(threads);
    check(team.get(), threads, 50, 20);
  }
}

TEST(Team, PartsOfItMeetAlone) {
  Team team(5);
  for (const uint32_t part : {1u, 2u, 3u, 4u, 5u}) check(team.get(), 5, 30, 20, part);
}

TEST(Team, WakesAfterItSlept) {
  Team team(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    check(team.get(), 3, 2, 5);
  }
}

// One thread comes long after the others, which sleep by then.
void come_late(void* context, uint32_t thread, uint32_t) {
  auto* team = static_cast<nacre_team*>(context);
  if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  nacre_team_barrier(team, thread);
  if (thread == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  nacre_team_barrier(team, thread);
}

TEST(Team, WaitsForWhoComesLate) {
  Team team(4);
  for (int i = 0; i < 3; ++i) nacre_team_run(team.get(), come_late, team.get());
}

TEST(Team, UsesTheApplicationsThreadsHoweverManyThereAre) {
  uint32_t most = 4;
  const nacre_executor executor = {parallel, &most};
  Team team(4, &executor);
  for (const uint32_t count : {4u, 2u, 3u, 1u, 4u}) {
    most = count;
    check(team.get(), 4, 5, 10);
  }
}

TEST(Team, StartsAndStops) {
  for (int i = 0; i < 50; ++i) {
    Team team(1 + static_cast<uint32_t>(i) % 4);
    if (i % 2) check(team.get(), 1 + static_cast<uint32_t>(i) % 4, 1, 1);
  }
}

}  // namespace
