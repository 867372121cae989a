// The verbs of the `nacre` command. Each adds its options to the command line and returns what runs
// when it was chosen; the result is the exit status. Errors are exceptions, which main maps to an
// exit status by kind.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace nacre {

using Action = std::function<int()>;

Action add_compile(CLI::App& app);
Action add_run(CLI::App& app);
Action add_verify(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_lower(CLI::App& app);
Action add_targets(CLI::App& app);

}  // namespace nacre
