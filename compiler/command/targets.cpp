// nacre targets: what can be compiled for.
#include <fmt/format.h>

#include "compiler/command/verbs.h"
#include "compiler/support/print.h"
#include "targets/target.h"

namespace nacre {
namespace {

int list_targets() {
  const Target* native = target_named("native");
  // A tile: rows by vectors of a matrix product that registers hold.
  Table table({"target", "vector", "tile", "", "description", "features"});
  for (const Target& target : all_targets()) {
    const int vectors = target.panel_vectors(1 << 20);
    table.add({target.name, fmt::format("{} bits", target.vector_bytes * 8),
               fmt::format("{} x {}", target.tile_rows(vectors), vectors),
               &target == native    ? "native"
               : runs_here(target) ? "runs here"
                                   : "",
               target.description, feature_names(target.feature_bits)});
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
