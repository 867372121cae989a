// A static library, tried: linked into a program that makes one call (targets/harness), which runs
// here, under QEMU's emulation of a processor, or on a board that QEMU emulates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/command/stages.h"
#include "compiler/firmware/library.h"

namespace nacre {

// How such programs run: the words before the program's name (none: as it is). `missing` says what
// would have to be there.
struct LibraryMachine {
  std::vector<std::string> command;
  std::string missing;
};
LibraryMachine library_machine(const Target& target);

// Each call is a run of the program. Error{internal} where a call takes more stack than the
// library's header says.
std::unique_ptr<Runner> make_library_runner(const CompiledModel& model,
                                            const StaticLibrary& library, std::uint32_t entry);

// Compares an entry with PyTorch on the program's sample inputs: one line, or Error{internal}.
std::string check_library(const Program& captured, const CompiledModel& model,
                          const StaticLibrary& library, std::uint32_t entry,
                          const std::string& path);

}  // namespace nacre
