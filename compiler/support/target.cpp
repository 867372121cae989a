#include "compiler/support/target.h"

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

}  // namespace nacre
