// A loop program while groups merge: who reads and writes what, and what may move where.
#pragma once

#include <set>
#include <vector>

#include "compiler/loops/regions.h"

namespace nacre {

// Groups keep their number, which is their place in the order of execution; a group that merged into another is dead.
class FusionState {
 public:
  explicit FusionState(LoopProgram program);
  LoopProgram finish();  // without dead groups; buffers that nothing uses are removed

  LoopProgram program;   // `groups` of it are edited through replace() and kill()
  int count() const { return static_cast<int>(program.groups.size()); }
  bool alive(int group) const { return alive_[static_cast<size_t>(group)]; }
  const Group& operator[](int group) const { return program.groups[static_cast<size_t>(group)]; }
  const Buffer& buffer(BufferId b) const { return program[b]; }

  const std::set<int>& readers(BufferId b) const { return readers_[static_cast<size_t>(b)]; }
  const std::set<int>& writers(BufferId b) const { return writers_[static_cast<size_t>(b)]; }
  const std::set<BufferId>& reads(int group) const { return reads_[static_cast<size_t>(group)]; }
  const std::set<BufferId>& writes(int group) const { return writes_[static_cast<size_t>(group)]; }
  // The one group that writes it, or -1.
  int producer(BufferId b) const { return writers(b).size() == 1 ? *writers(b).begin() : -1; }
  // True if both run as often as each other, one after the other: rules merge groups of one region only.
  bool same_region(int a, int b) const { return regions_.of_group[static_cast<size_t>(a)] == regions_.of_group[static_cast<size_t>(b)]; }
  const Regions& regions() const { return regions_; }
  // True if the value must be in memory after the program: an output, a state, what a mutated input gets.
  bool leaves(BufferId b) const;

  BufferId add_buffer(Buffer buffer);
  void replace(int group, Group with);
  void kill(int group);

  // True if group `from`, run at the place of group `to` instead, sees and leaves the same as before to all groups strictly
  // between the two.
  bool can_move(int from, int to) const;
  // The place at which a and b (a before b) can run as one group, or -1.
  int meeting_place(int a, int b) const;

 private:
  void index(int group);
  void forget(int group);

  Regions regions_;  // groups keep their places, so it holds
  std::vector<bool> alive_;
  std::vector<std::set<BufferId>> reads_, writes_;
  std::vector<std::set<int>> readers_, writers_;
};

}  // namespace nacre
