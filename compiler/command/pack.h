// A case as files that a small program without PyTorch can run and judge on another machine (tests/cuda/run_cases.c, which says
// what is in them): the artifact, inputs, float64 references and the largest errors that pass.
#pragma once

#include <filesystem>

#include "compiler/command/cases.h"
#include "compiler/graph/graph.h"
#include "compiler/support/precision.h"
#include "formats/writer.h"

namespace nacre {

// How near results must be.
struct PackLimits {
  Precision precision;
  // Of 16 bits and TF32: 24 units of rounding. Otherwise the rule of compare.h with PyTorch's own error in that precision and that
  // precision's unit (2^-10 of TF32; the bound where PyTorch has no such operator), for which the program runs in it: on a processor,
  // whole models take minutes.
  bool bound = false;
  bool apart = false;  // weights in a file of their own
};

void pack_case(const Case& the_case, const Program& captured, const formats::Artifact& artifact, const PackLimits& limits,
               const std::filesystem::path& folder);

}  // namespace nacre
