// Reads torch.export's archive: no Python, and no code of the file is run.
#pragma once

#include <filesystem>

#include "compiler/graph/graph.h"

namespace nacre {

// The captured graph with its weights and sample inputs. Outputs are the user's, then mutated
// buffers, then mutated inputs; a mutation that happens inside the graph is listed with the input
// itself as its value.
//
// User inputs that are numbers are inputs of kind integer, floating or boolean: `expr` is a symbol
// for a dynamic integer and a constant for one that export took as given, `number` the same of the
// others. None and strings, which export also takes as given, are no inputs.
//
// Error{user} for a damaged or foreign file, Error{environment} for an unreadable path,
// Error{unsupported} for a program that needs what nacre does not have.
Program load_pt2(const std::filesystem::path& path);

}  // namespace nacre
