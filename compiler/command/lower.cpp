// nacre lower: textual IR in, a later stage out. The golden tests run on it.
#include <fmt/format.h>

#include <memory>

#include "compiler/codegen/kernel.h"
#include "compiler/command/exporter.h"
#include "compiler/command/stages.h"
#include "compiler/command/verbs.h"
#include "compiler/compile.h"
#include "compiler/graph/clean.h"
#include "compiler/graph/specialize.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/fusion/device.h"
#include "compiler/layout/choose.h"
#include "compiler/loops/text.h"
#include "compiler/loops/verify.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/target.h"

namespace nacre {
namespace {

struct LowerOptions {
  std::string file;
  std::string from;
  std::string to;
  std::string target = "x86-64-v3";  // the same text on every machine
  std::string variant;
  std::int64_t memory_limit = -1;
};

std::string source_text(const LoopProgram& program, const Target& target) {
  std::string text;
  for (const Group& group : program.groups) {
    if (group.control) continue;
    const KernelSource kernel = emit_kernel(program, group, target);
    text += (kernel.import ? "// " + kernel.import->function + " of the application\n" : kernel.text(group.name)) + "\n";
  }
  return text;
}

std::string lower_loops(LoopProgram program, Stage from, Stage to, const Target& target, const LowerOptions& options) {
  if (from < Stage::loops && to >= Stage::loops) program = to_fused(std::move(program));
  if (from < Stage::layout && to >= Stage::layout && target.compute_capability) program = fuse_for_device(std::move(program));
  if (from < Stage::layout && to >= Stage::layout)
    program = choose_layout(std::move(program), target).program;
  if (options.memory_limit >= 0 && to >= Stage::layout) {
    FitOptions wanted;
    wanted.limit_bytes = options.memory_limit;
    program = fit_memory(program, wanted, kernel_costs(target)).program;
    verify(program);
  }
  return to == Stage::source ? source_text(program, target) : print(program);
}

// What was read from a text and breaks a rule of the IR is the text's mistake, not nacre's.
template <typename Ir>
Ir verified(Ir ir, const std::string& file) {
  try {
    verify(ir);
  } catch (const Error& error) {
    fail(error.kind == ErrorKind::internal ? ErrorKind::user : error.kind, "{}: {}", file,
         error.what());
  }
  return ir;
}

std::string lower_graph(Graph graph, Stage from, Stage to, const LowerOptions& options) {
  const Target& target = find_target(options.target);
  if (from < Stage::functional && to >= Stage::functional) graph = frontend().functionalize(graph);
  if (from < Stage::primitive && to >= Stage::primitive) {
    Program program;
    program.graph = std::move(graph);
    graph = to_primitive(program).graph;
  }
  Narrowing narrowing;
  if (!options.variant.empty()) {
    narrowing = narrow(graph, parse_variant(options.variant));
    graph = specialize(std::move(graph), narrowing);
    if (graph.level == Level::primitive) graph = clean(std::move(graph));
    verify(graph);
  }
  if (to <= Stage::primitive) return print(graph);
  LoopProgram program = to_lowered(graph);
  for (const std::size_t input : narrowing.channels_last) lie_channels_last(program, input);
  return lower_loops(std::move(program), Stage::lowered, to, target, options);
}

int lower_command(const LowerOptions& options) {
  const Stage from = stage_of(options.from, kTextStages);
  const Stage to = stage_of(options.to, kTextStages);
  if (from > to) fail(ErrorKind::user, "stage {} comes before {}", options.to, options.from);
  if (from == Stage::source) fail(ErrorKind::user, "kernel source cannot be read back");
  if (!options.variant.empty() && from > Stage::primitive)
    fail(ErrorKind::user, "only a graph can be specialised, not {}", options.from);
  const Target& target = find_target(options.target);
  const std::string text = read_file(options.file == "-" ? "/dev/stdin" : options.file);
  fmt::print("{}", from <= Stage::primitive
                       ? lower_graph(verified(parse_graph(text), options.file), from, to, options)
                       : lower_loops(verified(parse_loops(text), options.file), from, to, target, options));
  return 0;
}

}  // namespace

Action add_lower(CLI::App& app) {
  auto options = std::make_shared<LowerOptions>();
  CLI::App* verb = app.add_subcommand("lower", "textual IR of one stage to that of a later one");
  verb->add_option("file", options->file, "the text, - for standard input")
      ->required()
      ->type_name("FILE.ir");
  const std::string stages = stage_names(kTextStages);
  verb->add_option("--from", options->from, "stage of the file: " + stages)->required();
  verb->add_option("--to", options->to, "stage to print; the same one: read, check and print")
      ->required();
  verb->add_option("--target", options->target, "for layout and source; default: x86-64-v3");
  verb->add_option("--variant", options->variant, "specialise the primitive graph, as compile does")
      ->type_name("SHAPES");
  verb->add_option("--memory-limit", options->memory_limit, "fit the layout into so many bytes, as compile does; 0: as few as can be found")
      ->type_name("BYTES");
  return [options] { return lower_command(*options); };
}

}  // namespace nacre
