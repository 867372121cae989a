// Artifacts for another machine than this one: run by nacre-remote (runtime/remote.c), in QEMU's
// emulation of a program's processor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/command/stages.h"
#include "formats/writer.h"
#include "targets/target.h"

namespace nacre {

struct Remote {
  std::vector<std::string> command;  // starts nacre-remote for the target; empty: nothing here does
  std::string missing;               // then, what would have to be there
};
Remote find_remote(const Target& target);

// Why the emulator of a target's processor cannot be started; empty where it can.
std::string missing_emulator(const Target& target);

// The target that an entry's variant was compiled for.
const Target& target_of(const formats::Artifact& artifact, const formats::Variant& variant);

// `command` starts nacre-remote. It runs until the runner is gone.
std::unique_ptr<Runner> make_remote_runner(const formats::Artifact& artifact, std::uint32_t entry,
                                           unsigned threads,
                                           const std::vector<std::string>& command);

}  // namespace nacre
