// Where a program departs from PyTorch: the smallest part of it that still does, in a file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "compiler/command/stages.h"

namespace nacre {

struct Reproduction {
  std::filesystem::path file;  // FOLDER/NAME/NAME.ir, with its inputs and weights beside it
  std::size_t nodes = 0;       // of it, and of the whole graph
  std::size_t of_nodes = 0;
  std::string reason;
};

// `stage` is the first at which the case fails. Its graph before that stage is cut down, with values that PyTorch computes in
// place of what is taken away. Nothing where the failure does not show on one call that starts from the initial state.
std::optional<Reproduction> bisect(const Case& the_case, const Program& captured, Stage stage, const CompileOptions& options,
                                   unsigned threads, const std::filesystem::path& folder);

}  // namespace nacre
