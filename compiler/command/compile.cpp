// nacre compile: a PyTorch program in, an artifact out.
#include "compiler/compile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "compiler/command/exporter.h"
#include "compiler/command/program.h"
#include "compiler/command/stages.h"
#include "compiler/command/verbs.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/print.h"
#include "formats/writer.h"
#include "targets/target.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct CompileCommand {
  std::string program;
  ProgramOptions program_options;
  std::string artifact;
  std::string target = "native";
  std::string dump;
  unsigned threads = 0;
  bool no_check = false;
  bool no_cache = false;
  bool quiet = false;
};

// What is being done, on stderr: on a terminal one line that changes, elsewhere a line for each
// step that took longer than people like to wait in silence.
class Progress {
 public:
  explicit Progress(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() { clear(); }

  void show(const std::string& what, std::size_t done, std::size_t total) {
    const auto now = Clock::now();
    const bool next_step = what != what_;
    what_ = what;
    if (quiet_) return;
    // Nothing at all where it is quick.
    if (now - start_ < std::chrono::milliseconds(terminal_ ? 500 : 2000)) return;
    if (terminal_) {
      if (!next_step && done != total && now - last_ < std::chrono::milliseconds(50)) return;
      fmt::print(stderr, "\r\033[K{}", line(done, total));
    } else {
      if (now - last_ < std::chrono::seconds(2)) return;
      fmt::print(stderr, "{}\n", line(done, total));
    }
    std::fflush(stderr);
    last_ = now;
    shown_ = true;
  }

  void clear() {
    if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  std::string line(std::size_t done, std::size_t total) const {
    return total ? fmt::format("{} {}/{}", what_, done, total) : what_ + " ...";
  }

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::string what_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

// The artifact's own answer to the program's sample inputs, before anything is written.
std::string check_artifact(const Program& captured, const CompiledModel& model,
                           const std::string& path) {
  Case the_case;
  the_case.name = path;
  the_case.program = path;
  for (const formats::Image& image : model.artifact.images)
    if (image.features & ~host_features())
      return "not checked: this machine does not run " + image.target;
  if (captured.sample_inputs.empty() && !captured.graph.inputs.empty()) {
    for (const GraphInput& input : captured.graph.inputs)
      if (input.kind == InputKind::user) return "not checked: the program holds no sample inputs";
  }
  complete(the_case, captured);
  const Comparison result = check_sets(the_case, Stage::artifact, *make_artifact_runner(model, 1));
  if (!result.passed)
    fail(ErrorKind::internal,
         "the artifact does not give PyTorch's result, so it was not written (--no-check writes it "
         "all "
         "the same): {}",
         result.reason);
  return describe(result);
}

int compile_command(const CompileCommand& command) {
  const auto start = Clock::now();
  Progress progress(command.quiet);
  CompileOptions options;
  options.target = command.target;
  options.use_cache = !command.no_cache;
  if (command.threads) options.jobs = command.threads;
  options.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    progress.show(what, done, total);
  };
  if (!command.dump.empty()) {
    make_folder(command.dump);
    options.dump = [&](const std::string& file, const std::string& text) {
      write_file(fs::path(command.dump) / file, text);
    };
  }
  // Not to be found out after minutes of work.
  expect_writable(command.artifact);
  if (std::error_code code; fs::equivalent(command.program, command.artifact, code))
    fail(ErrorKind::user, "{} would be written over the program that it is made of",
         command.artifact);

  progress.show("reading " + command.program, 0, 0);
  const Program captured = load_program(command.program, command.program_options);
  if (options.dump) options.dump("0-captured.ir", print(captured.graph));
  Program functional = captured;
  functional.graph = frontend().functionalize(captured.graph);
  const CompiledModel model = compile(std::move(functional), options);
  std::string checked = "not checked (--no-check)";
  if (!command.no_check) {
    progress.show("checking", 0, 0);
    checked = check_artifact(captured, model, command.program);
  }
  progress.show("writing " + command.artifact, 0, 0);
  formats::ArtifactSizes sizes{};
  write_file(command.artifact,
             [&](const Sink& sink) { sizes = formats::write_artifact(model.artifact, sink); });
  progress.clear();

  const auto bytes_text = [](std::uint64_t value) {
    return grouped(static_cast<std::int64_t>(value)) + " bytes";
  };
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{}: {} in {:.1f} s\n", command.artifact, bytes_text(sizes.file), seconds);
  fmt::print("  code     {}, {} kernels\n", bytes_text(model.code_bytes),
             model.artifact.kernels.size());
  fmt::print("  weights  {}\n", bytes_text(model.weight_bytes));
  // Where sizes depend on shapes, the expression; else it is the number again.
  const bool depends = model.arena_text.find_first_not_of("0123456789") != std::string::npos;
  fmt::print("  arena    {}\n",
             depends && model.arena_bytes == 0 ? "no upper limit" : bytes_text(model.arena_bytes));
  if (depends) fmt::print("           = {}\n", model.arena_text);
  fmt::print("  state    {}\n", bytes_text(model.state_bytes));
  fmt::print("  check    {}\n", checked);
  return 0;
}

}  // namespace

Action add_compile(CLI::App& app) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App* verb = app.add_subcommand("compile", "make an artifact of a PyTorch program");
  verb->add_option("program", command->program, "a program that torch.export.save wrote, or TorchScript")
      ->required()
      ->type_name("MODEL.pt2");
  add_program_options(*verb, command->program_options);
  verb->add_option("-o,--output", command->artifact, "the artifact to write")
      ->required()
      ->type_name("MODEL.nacre");
  verb->add_option("--target", command->target,
                   "native (default) or a name that `nacre targets` lists");
  verb->add_option("--threads", command->threads, "kernels compiled at the same time; default: 2")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--dump", command->dump,
                   "a folder for the product of every layer, named in order, with Python lines")
      ->type_name("DIR");
  verb->add_flag("--no-check", command->no_check,
                 "do not run the artifact on the program's sample inputs");
  verb->add_flag("--no-cache", command->no_cache, "compile every kernel anew");
  verb->add_flag("--quiet", command->quiet, "show no progress");
  return [command] { return compile_command(*command); };
}

}  // namespace nacre
