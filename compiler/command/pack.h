// A case as files that a small program without PyTorch can run and judge on another machine (tests/cuda/run_cases.c, which says
// what is in them): the artifact, inputs, float64 references and the largest errors that pass.
#pragma once

#include <filesystem>

#include "compiler/command/cases.h"
#include "formats/writer.h"

namespace nacre {

// `precision`: of what a device keeps between kernels; the limits of errors grow with it.
void pack_case(const Case& the_case, const formats::Artifact& artifact, nacre_dtype precision, const std::filesystem::path& folder);

}  // namespace nacre
