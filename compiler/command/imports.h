// Operators of torch.library: which a program has, and the libraries in which the command finds functions for them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/run.h"

namespace nacre {

void add_import_option(CLI::App& verb, std::vector<std::string>& libraries);

// Of libraries that export `const nacre_import* nacre_imports(size_t* count)`, a table that stays. They stay loaded.
Imports load_imports(const std::vector<std::string>& libraries);

// "mylib::scale, mylib::shift" of a captured or functional graph; empty where it has none. PyTorch here cannot run such a program.
std::string library_functions(const Graph& graph);

}  // namespace nacre
