#include "compiler/firmware/stack.h"

#include <algorithm>
#include <map>

#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr uint16_t kX86 = 62;

// What a call takes beside the frame that is recorded: on x86 the return address, and where vectors are aligned more than the
// stack is, what lies between.
int64_t beside_frame(const Target& target) {
  const int stack_alignment = target.pointer_bytes == 4 ? 8 : 16;
  return (target.machine == kX86 ? 8 : 0) + std::max(0, (target.firmware ? target.vector_bytes : 64) - stack_alignment);
}

}  // namespace

int64_t worst_stack(const std::vector<ObjectFacts>& objects, const std::string& function, const Target& target) {
  std::map<std::string, const FunctionFacts*> known;
  for (const ObjectFacts& object : objects)
    for (const FunctionFacts& f : object.functions) known.try_emplace(f.name, &f);
  std::map<std::string, int64_t> done;
  std::vector<std::string> open;
  const auto visit = [&](const auto& self, const std::string& name) -> int64_t {
    if (const auto found = done.find(name); found != done.end()) return found->second;
    const auto place = known.find(name);
    if (place == known.end()) return 0;
    if (std::find(open.begin(), open.end(), name) != open.end()) fail(ErrorKind::internal, "{} calls itself, and its stack has no limit", name);
    const FunctionFacts& f = *place->second;
    if (f.frame_bytes < 0) fail(ErrorKind::internal, "the compiler recorded no stack for {}", name);
    open.push_back(name);
    int64_t deepest = 0;
    for (const std::string& callee : f.calls) deepest = std::max(deepest, self(self, callee));
    open.pop_back();
    return done[name] = f.frame_bytes + beside_frame(target) + deepest;
  };
  check(known.contains(function), "no function {}", function);
  return visit(visit, function);
}

}  // namespace nacre
