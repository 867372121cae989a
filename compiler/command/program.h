// How the command gets a program: a .pt2 file, TorchScript with examples of its arguments, or the text of a graph.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "compiler/frontend.h"

namespace nacre {

struct ProgramOptions {
  std::vector<std::string> examples;
  std::string method = "forward";
};

void add_program_options(CLI::App& verb, ProgramOptions& options);

// `f32[1,3,224,224]` (random values), `FILE.npy`, `16000`, `0.5`, `true`, `none`, `(f32[2,1,128], none)`.
// `seed` is for random values. Error{user} for anything else.
Example parse_example(const std::string& text, unsigned seed);

// A weight's name as the name of a file.
std::string weight_file(std::string name);

// Of a text, FILE.ir, the user inputs are input_0.npy, ... and the weights weights/NAME.npy beside it, where they are there.
Program load_program(const std::string& path, const ProgramOptions& options);

}  // namespace nacre
