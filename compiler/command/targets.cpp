// nacre targets: what can be compiled for.
#include <fmt/format.h>

#include "compiler/command/verbs.h"
#include "compiler/support/print.h"
#include "targets/target.h"

namespace nacre {
namespace {

int list_targets() {
  const Target* native = target_named("native");
  Table table({"target", "vector", "", "description"});
  for (const Target& target : all_targets()) {
    const bool here = (target.feature_bits & ~host_features()) == 0;
    table.add({target.name, fmt::format("{} bits", target.vector_bytes * 8),
               &target == native ? "native"
               : here            ? "runs here"
                                 : "",
               target.description});
  }
  fmt::print("{}", table.text());
  return 0;
}

}  // namespace

Action add_targets(CLI::App& app) {
  app.add_subcommand("targets", "list the machines that can be compiled for");
  return list_targets;
}

}  // namespace nacre
