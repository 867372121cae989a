#include "compiler/support/target.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "compiler/support/error.h"

namespace nacre {

const Target& find_target(const std::string& name) {
  if (const Target* found = target_named(name)) return *found;
  std::string names = "native";
  for (const Target& target : all_targets()) names += ", " + target.name;
  if (name == "native")
    fail(ErrorKind::user, "this machine runs none of the targets; name one of: {}", names);
  fail(ErrorKind::user, "no target '{}'; there are {}", name, names);
}

std::vector<const Target*> find_targets(const std::string& names) {
  std::vector<const Target*> found;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    const Target* target = &find_target(name);
    if (std::find(found.begin(), found.end(), target) == found.end()) found.push_back(target);
  }
  if (found.empty()) fail(ErrorKind::user, "no target is named");
  std::sort(found.begin(), found.end(), std::greater<>());  // all of them lie in one list, in the opposite order
  return found;
}

}  // namespace nacre
