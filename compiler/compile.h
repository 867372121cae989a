// The pipeline from a functional graph to an artifact, as a value in and a value out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/specialize.h"
#include "compiler/loops/group.h"
#include "compiler/memory/fit.h"
#include "compiler/overlap.h"
#include "compiler/support/precision.h"
#include "compiler/toolchain/toolchain.h"
#include "formats/writer.h"
#include "targets/target.h"

namespace nacre {

struct CompileOptions {
  std::string target = "native";  // or several, separated by commas
  bool use_cache = true;  // of compiled kernels
  Precision precision = Precision::fp32;  // of a device (layout/precision.h)
  unsigned jobs = 2;      // kernels compiled at the same time
  std::string producer = "nacre";
  // The C name of a static library (firmware/library.h), for which kernels are kept as text; empty: an artifact is made.
  std::string library;
  // Specialised variants beside the general one, for every entry that has the inputs they name.
  std::vector<VariantRequest> variants;
  // Bytes of code that variants which nobody asked for may take together; 0: none of them.
  uint64_t code_budget = 0;
  // Bytes that a variant may take at most: arena and scratch of one thread (0: as few as can be found).
  std::optional<int64_t> memory_limit;
  int64_t most_bands = 64;  // of a chain of layers in partial execution
  // Bytes that code, weights and tables may take together: of compile_into_flash (flash.h) alone.
  std::optional<int64_t> flash_limit;
  bool small_code = false;  // kernels compiled for size
  // What takes the place of what cost models choose (tuning.h); null: nothing does.
  std::shared_ptr<Decisions> decisions;
  bool candidates = false;  // of devices: kernels for every choice of what `decisions`, which must be there, leave open
  // What is being done, and how far: `done` of `total` (0: not counted).
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
  // Receives the product of each layer: a file name that sorts in the order of the pipeline, and its text.
  std::function<void(const std::string& file, const std::string& text)> dump;
};

// One exported program: an entry of the artifact.
struct Method {
  std::string name;
  Program functional;
  // The same for inputs that share memory, where that makes a difference: functional, too.
  std::optional<OverlapGraph> overlap = {};
};

enum class VariantKind {
  special,
  general,  // takes all shapes
  sharing,  // for inputs that share memory
};

struct CompiledModel {
  formats::Artifact artifact;
  std::vector<HostTensor> weights;                 // what artifact.weights points into
  // By entry and variant: the shapes that it is for, and the size of its arena as an expression over the symbols.
  std::vector<std::vector<Narrowing>> narrowings;
  std::vector<std::vector<std::string>> arena_texts;
  std::vector<std::string> assumed_limits;         // sizes that depend on data and may be kSizeLimit at most, for lack of another limit
  std::vector<std::vector<VariantKind>> kinds;     // of each entry's variants
  std::vector<Source> sources;                     // of the kernels, for a library
  std::vector<std::string> questions;              // of each kernel, or empty: KernelSource::question
};

// Entries share weights by content, state by name, and kernels by code.
CompiledModel compile(std::vector<Method> methods, const CompileOptions& options);
CompiledModel compile(Program functional, const CompileOptions& options);  // a lone entry, named as its graph

// The same in parts, for `nacre verify` and `nacre lower`. Each verifies its result.
Program to_primitive(const Program& functional);  // decompose, clean
LoopProgram to_lowered(const Graph& primitive);
LoopProgram to_fused(LoopProgram lowered);
LoopProgram to_loops(const Graph& primitive);     // lowered, fused

// What fit_memory() asks about the kernels of a program that is laid out for the target.
CostOf kernel_costs(const Target& target);

// Functional -> primitive with what is constant computed: `weights` of the result has the new constants.
// `prefix` goes before the names of the new constants.
Program fold(Program primitive, const CompileOptions& options, const std::string& prefix = {});

// Compiles a program without inputs for this machine and runs it in the real runtime: constant work at compile time.
// Results in the order of the program's outputs.
std::vector<HostTensor> run_on_host(const LoopProgram& program, const std::map<std::string, HostTensor>& weights,
                                    const CompileOptions& options);

}  // namespace nacre
