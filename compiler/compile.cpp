#include "compiler/compile.h"

#include <fmt/format.h>

#include "compiler/codegen/program.h"
#include "compiler/fusion/fuse.h"
#include "compiler/graph/clean.h"
#include "compiler/graph/constants.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/layout/choose.h"
#include "compiler/loops/lower.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/memory/plan.h"
#include "compiler/package.h"
#include "compiler/run.h"
#include "compiler/support/error.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/toolchain.h"

namespace nacre {

namespace {

struct Kernels {
  std::vector<KernelSource> of_group;
  std::vector<uint32_t> number;     // of each group's kernel
  std::vector<Source> sources;      // the different ones
  std::vector<std::string> names;
};

// Groups whose code is the same share a kernel.
Kernels emit_kernels(const LoopProgram& program, const Target& target) {
  Kernels result;
  std::map<std::string, uint32_t> known;
  for (const Group& group : program.groups) {
    KernelSource kernel = emit_kernel(program, group, target);
    auto [place, added] = known.try_emplace(kernel.body, static_cast<uint32_t>(result.sources.size()));
    if (added) {
      const std::string symbol = fmt::format("k{}_{}", result.sources.size(), kernel.name);
      result.sources.push_back({symbol, kernel.text(symbol)});
      result.names.push_back(kernel.name);
    }
    result.number.push_back(place->second);
    result.of_group.push_back(std::move(kernel));
  }
  return result;
}

void report(const CompileOptions& options, const std::string& what, size_t done = 0, size_t total = 0) {
  if (options.progress) options.progress(what, done, total);
}

void dump(const CompileOptions& options, const std::string& file, const std::function<std::string()>& text) {
  if (options.dump) options.dump(file, text());
}

// Fused loops -> an artifact.
CompiledModel compile_loops(const LoopProgram& fused, std::map<std::string, HostTensor> weights, const Graph& graph, const Target& target,
                            const CompileOptions& options) {
  LaidOut laid_out = choose_layout(fused, target);
  if (!laid_out.packed_names.empty()) {
    report(options, "pack weights");
    const std::vector<HostTensor> packed = run_on_host(laid_out.packing, weights, options);
    for (size_t i = 0; i < packed.size(); ++i) weights[laid_out.packed_names[i]] = packed[i];
  }
  const LoopProgram& program = laid_out.program;
  dump(options, "5-layout.loops", [&] { return print(program); });
  Kernels kernels = emit_kernels(program, target);
  dump(options, "6-kernels.cpp", [&] {
    std::string text;
    for (const Source& source : kernels.sources) text += source.text + "\n";
    return text;
  });
  ToolchainOptions toolchain;
  toolchain.threads = static_cast<int>(options.jobs);
  toolchain.use_cache = options.use_cache;
  toolchain.progress = [&](size_t done, size_t total) { report(options, "compile kernels", done, total); };
  CodeImage image = compile_image(kernels.sources, target, toolchain);
  const MemoryPlan plan = plan_memory(program);
  ProgramTables tables = make_program(program, kernels.of_group, kernels.number, plan, graph, target.feature_bits);
  return package(std::move(tables), std::move(image), kernels.names, weights, target, options.producer);
}

}  // namespace

Program to_primitive(const Program& functional) {
  Program result = functional;
  result.graph = clean(decompose(functional.graph));
  verify(result.graph);
  return result;
}

LoopProgram to_lowered(const Graph& primitive) {
  LoopProgram lowered = lower(primitive);
  verify(lowered);
  return lowered;
}

LoopProgram to_fused(LoopProgram lowered) {
  LoopProgram fused = fuse(std::move(lowered));
  verify(fused);
  return fused;
}

LoopProgram to_loops(const Graph& primitive) { return to_fused(to_lowered(primitive)); }

Program fold(Program primitive, const CompileOptions& options) {
  CompileOptions quiet = options;
  quiet.dump = nullptr;
  Program result = fold_constants(std::move(primitive), [&](const Graph& constants, const std::map<std::string, HostTensor>& weights) {
    report(options, "compute constants");
    return run_on_host(to_loops(constants), weights, quiet);
  });
  verify(result.graph);
  return result;
}

std::vector<HostTensor> run_on_host(const LoopProgram& program, const std::map<std::string, HostTensor>& weights, const CompileOptions& options) {
  CompileOptions quiet = options;
  quiet.dump = nullptr;
  quiet.progress = nullptr;
  // One level for all hosts that have it, so that constants do not depend on the machine.
  const Target* target = host_target();
  if (!target) fail(ErrorKind::environment, "this machine runs none of the targets, and constants are computed on it");
  const CompiledModel compiled = compile_loops(program, weights, Graph{}, *target, quiet);
  const AlignedBytes bytes = artifact_memory(compiled.artifact);
  const RuntimeModel model = RuntimeModel::open(bytes, "the program of constants");
  RuntimeSession session(model, {});
  RuntimeSession::Call call = session.prepare(0, {});
  session.run(call);
  return std::move(call.outputs);
}

CompiledModel compile(Program functional, const CompileOptions& options) {
  const Target& target = find_target(options.target);
  dump(options, "1-functional.ir", [&] { return print(functional.graph); });
  report(options, "decompose");
  Program primitive = to_primitive(functional);
  dump(options, "2-primitive.ir", [&] { return print(primitive.graph); });
  primitive = fold(std::move(primitive), options);
  dump(options, "3-folded.ir", [&] { return print(primitive.graph); });
  report(options, "fuse");
  const LoopProgram fused = to_loops(primitive.graph);
  dump(options, "4-fused.loops", [&] { return print(fused); });
  return compile_loops(fused, std::move(primitive.weights), primitive.graph, target, options);
}

}  // namespace nacre
