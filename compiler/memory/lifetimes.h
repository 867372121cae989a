// When buffers live: from the first group that touches them to the last.
#pragma once

#include <functional>
#include <vector>

#include "compiler/loops/group.h"

namespace nacre {

struct Lifetime {
  BufferId buffer = -1;
  int first = 0, last = 0;  // groups, inclusive
  Expr size_bytes;          // a multiple of 64
};

// Every temporary, in the order in which they are first touched.
std::vector<Lifetime> lifetimes(const LoopProgram& program);

// Every buffer that a group reads or writes, but for weights' and locals' own sake: each use once or more.
void for_each_buffer(const Group& group, const std::function<void(BufferId)>& visit);

// What lives at the worst moment for sizes as `typical` gives them: no arena is smaller.
struct Peak {
  int64_t bytes = 0;
  int group = -1;
};
Peak peak_of(const std::vector<Lifetime>& lives, const Facts& symbols);
Peak peak_of_sizes(const std::vector<Lifetime>& lives, const std::vector<int64_t>& bytes);  // of each of them

}  // namespace nacre
