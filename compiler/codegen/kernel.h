// One group -> one kernel: the text of a C++ function and what the program needs to know to call it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/loops/group.h"
#include "formats/device_image.h"
#include "targets/target.h"

namespace nacre {

struct KernelSource {
  std::string name;               // of the group; not unique
  std::string comment;            // where it came from: operators and Python lines
  std::string body;               // from the opening brace on; equal bodies are one kernel
  std::vector<BufferId> buffers;  // in the order of nacre_kernel_args::buffers
  std::vector<int64_t> starts;    // of each, or none: the element that its pointer points to
  Expr scratch_bytes = 0;         // of each thread
  Expr flops = 0, bytes = 0;      // of one call, for profiles
  bool serial = false;            // one thread only
  bool team = false;              // uses the barrier inside
  std::vector<Provenance> where;  // a data error's `which` is an index into it
  std::string question;           // that measurements can answer better than a cost model (targets/decisions.h); empty: none

  // Of a device's kernel: `body` begins with the parameters.
  struct Launch {
    int threads = 0;              // of a block
    Expr blocks = 1;
    std::vector<uint32_t> nodes;  // whose values are parameters, after the buffers
    int shared_bytes = 0;         // dynamic
    int cluster = 1;              // blocks of a cluster
    bool awaits = false;          // it waits for the kernels before it where it has to
    int resident = 0;             // blocks of a multiprocessor, for which there have to be registers
    std::vector<nacre_device_map> maps{};  // the first parameters
  };
  std::optional<Launch> launch;

  // Set in place of a body: a function of the application's.
  struct Import {
    std::string function, arguments;
    size_t input_count = 0;  // of the buffers
  };
  std::optional<Import> import;

  // The whole file for Clang, the function under `symbol`.
  std::string text(const std::string& symbol) const;
};

// Where a kernel finds the values of symbols: their expression nodes.
using SymbolNodes = std::map<std::string, uint32_t>;

KernelSource emit_kernel(const LoopProgram& program, const Group& group, const Target& target, const SymbolNodes& nodes);
// Of a program whose symbols are the first expression nodes, in their order.
KernelSource emit_kernel(const LoopProgram& program, const Group& group, const Target& target);

}  // namespace nacre
