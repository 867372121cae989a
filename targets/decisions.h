// What was measured on a machine, and takes the place of what a cost model would choose: which of several ways to compute something is the
// fastest there. A cost model names its choices, the best first as it thinks, and takes the one that it is told.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace nacre {

class Decisions {
 public:
  struct Decision {
    std::string choice;
    std::string note;  // for people
    bool operator==(const Decision&) const = default;
  };

  // Which of `choices` to take. `question`: the target, and what is computed, in words and sizes.
  size_t choose(const std::string& question, const std::vector<std::string>& choices);

  std::map<std::string, Decision> made;                  // by question
  std::map<std::string, std::vector<std::string>> open;  // what was asked and not decided, or decided for what is no choice (any more)
  size_t trial = 0;                                      // such a question is answered with this choice, or the first where there are fewer
};

}  // namespace nacre
