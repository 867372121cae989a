// The pipeline from a functional graph to an artifact, as a value in and a value out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/loops/group.h"
#include "formats/writer.h"

namespace nacre {

struct CompileOptions {
  std::string target = "native";
  bool use_cache = true;  // of compiled kernels
  unsigned jobs = 2;      // kernels compiled at the same time
  std::string producer = "nacre";
  // What is being done, and how far: `done` of `total` (0: not counted).
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
  // Receives the product of each layer: a file name that sorts in the order of the pipeline, and its text.
  std::function<void(const std::string& file, const std::string& text)> dump;
};

struct CompiledModel {
  formats::Artifact artifact;
  std::vector<HostTensor> weights;  // what artifact.weights points into
  uint64_t code_bytes = 0, weight_bytes = 0, state_bytes = 0;
  uint64_t arena_bytes = 0;         // at the upper limits of the symbols; 0: not limited
  std::string arena_text;           // as an expression where it depends on shapes
};

CompiledModel compile(Program functional, const CompileOptions& options);

// The same in parts, for `nacre verify` and `nacre lower`. Each verifies its result.
Program to_primitive(const Program& functional);  // decompose, clean
LoopProgram to_lowered(const Graph& primitive);
LoopProgram to_fused(LoopProgram lowered);
LoopProgram to_loops(const Graph& primitive);     // lowered, fused

// Functional -> primitive with what is constant computed: `weights` of the result has the new constants.
Program fold(Program primitive, const CompileOptions& options);

// Compiles a program without inputs for this machine and runs it in the real runtime: constant work at compile time.
// Results in the order of the program's outputs.
std::vector<HostTensor> run_on_host(const LoopProgram& program, const std::map<std::string, HostTensor>& weights,
                                    const CompileOptions& options);

}  // namespace nacre
