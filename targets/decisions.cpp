#include "targets/decisions.h"

#include <algorithm>

namespace nacre {

size_t Decisions::choose(const std::string& question, const std::vector<std::string>& choices) {
  if (choices.size() < 2) return 0;
  if (const auto found = made.find(question); found != made.end())
    if (const auto choice = std::find(choices.begin(), choices.end(), found->second.choice); choice != choices.end())
      return static_cast<size_t>(choice - choices.begin());
  open[question] = choices;
  return trial < choices.size() ? trial : 0;
}

}  // namespace nacre
