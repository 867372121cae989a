// The verbs of the `nacre` command. Each adds its options to the command line and returns what runs
// when it was chosen; the result is the exit status. Errors are exceptions, which main maps to an
// exit status by kind.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "nacre/nacre.h"

namespace nacre {

using Action = std::function<int()>;

Action add_compile(CLI::App& app);
Action add_run(CLI::App& app);
Action add_verify(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_lower(CLI::App& app);
Action add_targets(CLI::App& app);

// --device: where an artifact runs, as NACRE_DEVICE_...
inline void add_weights_option(CLI::App& verb, std::string& weights) {
  verb.add_option("--weights", weights, "the weights of an artifact that has them apart; default: MODEL.nacre.weights")->type_name("FILE");
}
inline void add_device_option(CLI::App& verb, std::uint32_t& device) {
  verb.add_option_function<std::string>(
          "--device",
          [&device](const std::string& name) {
            device = name == "cuda" ? NACRE_DEVICE_CUDA : name == "cpu" ? NACRE_DEVICE_CPU : NACRE_DEVICE_ANY;
          },
          "any (a GPU where there is one that the artifact has code for), cpu or cuda; default: any")
      ->check(CLI::IsMember({"any", "cpu", "cuda"}))
      ->type_name("DEVICE");
}

}  // namespace nacre
