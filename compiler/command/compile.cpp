// nacre compile: a PyTorch program in, an artifact out.
#include "compiler/compile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include "compiler/command/checks.h"
#include "compiler/command/exporter.h"
#include "compiler/command/hot_shapes.h"
#include "compiler/command/imports.h"
#include "compiler/command/library_runner.h"
#include "compiler/command/program.h"
#include "compiler/command/stages.h"
#include "compiler/command/verbs.h"
#include "compiler/firmware/library.h"
#include "compiler/flash.h"
#include "compiler/graph/limit_sizes.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/print.h"
#include "compiler/support/target.h"
#include "compiler/tuning.h"
#include "formats/costs.h"
#include "formats/writer.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct CompileCommand {
  std::vector<std::string> programs;
  std::vector<std::string> entries;
  std::vector<std::string> variants;
  std::string shapes;
  unsigned most_variants = 8;
  std::uint64_t code_budget = 0;
  std::string memory_limit;
  std::string flash_limit;
  ProgramOptions program_options;
  std::vector<std::string> imports;
  std::string artifact;
  std::string weights;
  std::string target = "native";
  std::string precision = "fp32";
  std::string emit = "artifact";
  std::string dump;
  std::string tuning;
  bool tune = false;
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

// `20000`, `64K`, `2M`.
std::int64_t bytes_in(const std::string& text, const char* option) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const std::int64_t factor = unit.empty() ? 1 : unit == "K" || unit == "k" ? 1024 : unit == "M" || unit == "m" ? 1024 * 1024 : 0;
  if (error != std::errc() || value <= 0 || factor == 0 || value > INT64_MAX / factor)
    fail(ErrorKind::user, "{} '{}': write a number of bytes, such as 20000, 64K or 2M", option, text);
  return value * factor;
}

// A program and the name of the entry that it becomes.
struct NamedProgram {
  std::string entry;  // empty: as the program calls it
  std::string path;
};

// One program keeps its own name; of several, each has its file's or the one that was given.
std::vector<NamedProgram> programs_of(const CompileCommand& command) {
  std::vector<NamedProgram> programs;
  for (const std::string& path : command.programs) programs.push_back({{}, path});
  for (const std::string& text : command.entries) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      fail(ErrorKind::user, "'{}' is no entry: write NAME=MODEL.pt2", text);
    programs.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  if (programs.empty()) fail(ErrorKind::user, "no program to compile: name a MODEL.pt2");
  std::set<std::string> names;
  for (NamedProgram& p : programs) {
    if (p.entry.empty() && programs.size() > 1) p.entry = fs::path(p.path).stem().string();
    if (!names.insert(p.entry).second)
      fail(ErrorKind::user, "two entries named '{}': give them names with --entry NAME=MODEL.pt2",
           p.entry);
  }
  return programs;
}

std::string bytes_text(std::uint64_t value) {
  return grouped(static_cast<std::int64_t>(value)) + " bytes";
}

// "1,234 bytes"; for shapes that may differ the most that any of them needs, and the expression.
std::string arena_text(const formats::Variant& variant, const std::string& expression) {
  if (variant.arena_size.is_constant())
    return bytes_text(static_cast<std::uint64_t>(variant.arena_size.raw));
  return (variant.arena_bound ? bytes_text(static_cast<std::uint64_t>(variant.arena_bound))
                              : "no upper limit") +
         " = " + expression;
}

void print_figures(const CompiledModel& model, const formats::ArtifactSizes& sizes,
                   const std::vector<std::vector<std::string>>& checks) {
  const formats::Artifact& artifact = model.artifact;
  std::uint64_t state = 0;
  for (const formats::State& s : artifact.states) state += s.size_bytes;
  fmt::print("  code     {}, {} kernels\n", bytes_text(sizes.code), artifact.kernels.size());
  fmt::print("  weights  {}\n", bytes_text(sizes.data));
  fmt::print("  state    {}\n", bytes_text(state));
  if (artifact.entries.size() == 1 && artifact.entries[0].variants.size() == 1) {
    fmt::print("  arena    {}\n", arena_text(artifact.entries[0].variants[0], model.arena_texts[0][0]));
    fmt::print("  check    {}\n", checks[0][0]);
    return;
  }
  const auto costs = formats::variant_costs(artifact);
  for (std::size_t e = 0; e < artifact.entries.size(); ++e) {
    const formats::Entry& entry = artifact.entries[e];
    fmt::print("  entry {}, {} variant{}\n", entry.name, entry.variants.size(),
               entry.variants.size() == 1 ? "" : "s, the first that fits runs");
    for (std::size_t v = 0; v < entry.variants.size(); ++v) {
      const formats::VariantCost& cost = costs[e][v];
      fmt::print("    {} {}\n", v, entry.variants[v].name);
      fmt::print("      code     {} in {} kernels; its own {} in {}\n", bytes_text(cost.code_bytes),
                 cost.kernels, bytes_text(cost.own_code_bytes), cost.own_kernels);
      fmt::print("      weights  {}; its own {}\n", bytes_text(cost.weight_bytes),
                 bytes_text(cost.own_weight_bytes));
      fmt::print("      tables   {}\n", bytes_text(cost.table_bytes));
      fmt::print("      arena    {}\n", arena_text(entry.variants[v], model.arena_texts[e][v]));
      fmt::print("      check    {}\n", checks[e][v]);
    }
  }
}

// -o NAME as a static library: NAME.o and NAME.h, and NAME's last part as a C name.
struct LibraryFiles {
  fs::path object, header;
  std::string name;
};
LibraryFiles library_files(const std::string& output) {
  fs::path base = output;
  if (base.extension() == ".o" || base.extension() == ".h") base.replace_extension();
  if (base.filename().empty()) fail(ErrorKind::user, "'{}' is no name for a library: -o NAME, for NAME.o and NAME.h", output);
  return {base.string() + ".o", base.string() + ".h", identifier(base.filename().string())};
}

// Decisions of the file that is named, and, with --tune, of this machine, which go there, too.
std::optional<TuningReport> take_decisions(const CompileCommand& command, const std::vector<Method>& methods, CompileOptions& options) {
  if (!command.tune && command.tuning.empty()) return std::nullopt;
  options.decisions = std::make_shared<Decisions>();
  if (!command.tuning.empty() && !(command.tune && !fs::exists(command.tuning))) *options.decisions = parse_decisions(read_file(command.tuning), command.tuning);
  if (!command.tune) return std::nullopt;
  const std::vector<const Target*> targets = find_targets(options.target);
  options.candidates = std::any_of(targets.begin(), targets.end(), [](const Target* t) { return t->compute_capability != 0; });
  const bool measured_here = std::any_of(targets.begin(), targets.end(), [](const Target* t) { return !t->compute_capability && runs_here(*t); });
  if (options.candidates && !measured_here) return std::nullopt;
  const TuningReport report = tune(methods, options);
  if (!command.tuning.empty()) write_file(command.tuning, print(*options.decisions));
  return report;
}

void print_tuning(const std::optional<TuningReport>& report) {
  if (!report) return;
  fmt::print("  tuned    {} of {} shapes measured are faster otherwise than the cost models have it, which lose {:.1f}% (geometric mean)\n", report->changed, report->measured,
             100 * (report->loss - 1));
  if (!report->left_out.empty()) fmt::print("  untuned  {}: not for this machine\n", joined(report->left_out));
}

// The last part of `nacre compile --emit static`.
int finish_library(const CompileCommand& command, const std::vector<NamedProgram>& programs,
                   const std::vector<Program>& captured,
                   const CompiledModel& model, const StaticLibrary& library, Progress& progress,
                   const std::optional<TuningReport>& tuned, Clock::time_point start) {
  const LibraryFiles files = library_files(command.artifact);
  std::vector<std::string> checks;
  for (std::uint32_t e = 0; e < programs.size(); ++e) {
    progress.show("checking", 0, 0);
    checks.push_back(command.no_check
                         ? "not checked (--no-check)"
                         : check_library(captured[e], model, library, e, programs[e].path));
  }
  write_file(files.object, library.object);
  write_file(files.header, library.header);
  progress.clear();
  fmt::print("{}: {} in {:.1f} s, and {}\n", files.object.string(),
             bytes_text(library.object.size()),
             std::chrono::duration<double>(Clock::now() - start).count(), files.header.string());
  fmt::print("  code     {}, {} kernels; {} of entries and helpers\n",
             bytes_text(static_cast<std::uint64_t>(library.code_bytes)), model.sources.size(),
             bytes_text(static_cast<std::uint64_t>(library.runtime_bytes)));
  fmt::print("  weights  {}\n", bytes_text(static_cast<std::uint64_t>(library.data_bytes)));
  fmt::print("  state    {}\n", bytes_text(static_cast<std::uint64_t>(library.plan.state_bytes)));
  fmt::print("  arena    {}\n", bytes_text(static_cast<std::uint64_t>(library.plan.arena_bytes)));
  print_tuning(tuned);
  for (std::size_t e = 0; e < programs.size(); ++e) {
    fmt::print("  {}\n", library.signatures[e].text());
    fmt::print("  stack    {}\n", bytes_text(static_cast<std::uint64_t>(library.stack_bytes[e])));
    fmt::print("  check    {}\n", checks[e]);
  }
  if (!library.undefined.empty()) fmt::print("  needs    {}\n", joined(library.undefined));
  return 0;
}

int compile_command(const CompileCommand& command) {
  const auto start = Clock::now();
  ::unsetenv("NACRE_RECORD_SHAPES");  // what runs here is no evidence of what users run
  Progress progress(command.quiet);
  CompileOptions options;
  options.target = command.target;
  options.use_cache = !command.no_cache;
  options.code_budget = command.code_budget;
  if (!command.memory_limit.empty())
    options.memory_limit = command.memory_limit == "least" ? 0 : bytes_in(command.memory_limit, "--memory-limit");
  if (!command.flash_limit.empty()) options.flash_limit = bytes_in(command.flash_limit, "--flash-limit");
  if (command.threads) options.jobs = command.threads;
  options.precision = precision_named(command.precision);
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
  const Imports imports = load_imports(command.imports);
  if (command.emit == "static") {
    const LibraryFiles files = library_files(command.artifact);
    options.library = files.name;
    expect_writable(files.object);
    expect_writable(files.header);
    if (!command.weights.empty()) fail(ErrorKind::user, "a static library has its weights in its object: --weights is for artifacts");
  } else {
    expect_writable(command.artifact);
    if (!command.weights.empty()) expect_writable(command.weights);
    if (command.tune && !command.tuning.empty()) expect_writable(command.tuning);
    if (std::error_code code; command.weights == command.artifact || fs::equivalent(command.weights, command.artifact, code))
      fail(ErrorKind::user, "{} cannot be artifact and weights at once", command.artifact);
  }
  for (const std::string& text : command.variants)
    options.variants.push_back(parse_variant(text));
  if (!command.shapes.empty())
    for (VariantRequest& request : hot_shapes(command.shapes, command.most_variants))
      options.variants.push_back(std::move(request));
  std::vector<NamedProgram> programs = programs_of(command);
  for (const NamedProgram& p : programs)
    if (std::error_code code; fs::equivalent(p.path, command.artifact, code))
      fail(ErrorKind::user, "{} would be written over the program that it is made of",
           command.artifact);
  std::vector<Program> captured;
  std::vector<Method> methods;
  for (NamedProgram& p : programs) {
    progress.show("reading " + p.path, 0, 0);
    captured.push_back(load_program(p.path, command.program_options));
    if (p.entry.empty()) p.entry = captured.back().graph.name;
    if (options.dump)
      options.dump(programs.size() == 1 ? "0-captured.ir" : "0-captured." + p.entry + ".ir",
                   print(captured.back().graph));
    Program functional = captured.back();
    functional.graph = frontend().functionalize(captured.back().graph);
    methods.push_back(make_method(p.entry, std::move(functional), captured.back().graph));
  }
  const std::optional<TuningReport> tuned = take_decisions(command, methods, options);
  StaticLibrary library;
  std::vector<std::string> from;
  for (const NamedProgram& p : programs) from.push_back(fs::path(p.path).filename().string());
  const auto make = [&](const CompiledModel& model, const CompileOptions& with) {
    if (!options.library.empty()) library = make_library(model, options.library, joined(from), with);
  };
  const auto flash_use = [&](const CompiledModel& model, const CompileOptions& with) {
    make(model, with);
    return options.library.empty() ? flash_of_artifact(model.artifact) : flash_of_library(library);
  };
  CompiledModel model;
  if (options.flash_limit) {
    model = compile_into_flash(methods, options, flash_use);
  } else {
    model = compile(std::move(methods), options);
    make(model, options);
  }
  if (!options.library.empty())
    return finish_library(command, programs, captured, model, library, progress, tuned, start);
  std::vector<std::vector<std::string>> checks;
  for (std::uint32_t e = 0; e < programs.size(); ++e) {
    if (command.no_check) {
      checks.emplace_back(model.artifact.entries[e].variants.size(), "not checked (--no-check)");
      continue;
    }
    progress.show("checking", 0, 0);
    checks.push_back(check_variants(captured[e], model, e, programs[e].path, imports));
  }
  progress.show("writing " + command.artifact, 0, 0);
  formats::ArtifactSizes sizes{};
  if (command.weights.empty()) {
    write_file(command.artifact,
               [&](const Sink& sink) { sizes = formats::write_artifact(model.artifact, sink); });
  } else {
    if (model.artifact.weights.empty()) fail(ErrorKind::user, "the program has no weights to be written to {}", command.weights);
    write_file(command.weights, [&](const Sink& weights) {
      write_file(command.artifact, [&](const Sink& sink) { sizes = formats::write_artifact(model.artifact, sink, weights); });
    });
  }
  progress.clear();

  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{}: {} in {:.1f} s\n", command.artifact, bytes_text(sizes.file), seconds);
  print_figures(model, sizes, checks);
  print_tuning(tuned);
  std::size_t candidates = 0;
  for (const formats::Entry& entry : model.artifact.entries)
    for (const formats::Variant& variant : entry.variants) candidates += variant.candidates.size();
  if (candidates) fmt::print("  choices  {} kernels that commands could call: nacre bench --tune measures them on the device\n", candidates);
  for (const Program& program : captured)
    for (const std::string& line : program.narrowed) fmt::print("  narrowed {}\n", line);
  for (const std::string& size : model.assumed_limits)
    fmt::print("  limited  {} depends on data and has no upper limit in the program: up to {} are run; torch._check({} <= LIMIT) gives it another\n",
               size, kSizeLimit, size);
  return 0;
}

}  // namespace

Action add_compile(CLI::App& app) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App* verb = app.add_subcommand("compile", "make an artifact of a PyTorch program");
  verb->add_option("program", command->programs,
                   "a program that torch.export.save wrote, or TorchScript; of several, each becomes "
                   "an entry named after its file")
      ->type_name("MODEL.pt2");
  verb->add_option("--entry", command->entries, "a program and the name of its entry; once for each")
      ->type_name("NAME=MODEL.pt2")
      ->allow_extra_args(false);
  verb->add_option("--variant", command->variants,
                   "a specialised variant beside the general one, `x: [1, 3, 2..32, 8*W]`; once for "
                   "each")
      ->type_name("SHAPES")
      ->allow_extra_args(false);
  add_program_options(*verb, command->program_options);
  add_import_option(*verb, command->imports);
  verb->add_option("--emit", command->emit,
                   "`artifact` (default), or `static`: a relocatable object NAME.o and its header "
                   "NAME.h, for firmware")
      ->check(CLI::IsMember({"artifact", "static"}));
  verb->add_option("-o,--output", command->artifact,
                   "the artifact to write; NAME of a static library")
      ->required()
      ->type_name("MODEL.nacre");
  verb->add_option("--weights", command->weights,
                   "write the weights to a file of their own; MODEL.nacre.weights is found beside the artifact")
      ->type_name("FILE");
  verb->add_option("--shapes", command->shapes,
                   "variants for the shapes of most calls, as NACRE_RECORD_SHAPES=FILE recorded them")
      ->type_name("FILE");
  verb->add_option("--most-variants", command->most_variants,
                   "how many of --shapes at most; default: 8")
      ->check(CLI::Range(1, 64));
  verb->add_option("--code-budget", command->code_budget,
                   "bytes of code for variants that pay although nobody asked for them: size 1, whole "
                   "vectors, the sample's sizes; default: none")
      ->type_name("BYTES");
  // A variable of a script that is not set must not stand for no limit.
  const CLI::Validator said([](std::string& text) { return std::string(text.empty() ? "write a number of bytes, such as 20000, 64K or 2M" : ""); }, "");
  verb->add_option("--memory-limit", command->memory_limit,
                   "bytes (or 64K, 2M) of arena and scratch that each variant may take with one thread, beside the "
                   "caller's inputs and outputs: layers are reordered and computed in parts until it fits; least: as "
                   "few as can be found")
      ->check(said)
      ->type_name("BYTES");
  verb->add_option("--flash-limit", command->flash_limit,
                   "bytes (or 64K, 2M) that code, weights and tables may take together")
      ->check(said)
      ->type_name("BYTES");
  verb->add_option("--target", command->target,
                   "native (default) or a name that `nacre targets` lists; several, separated by commas, "
                   "share program and weights")
      ->type_name("TARGET,...");
  verb->add_option("--precision", command->precision,
                   "fp32 (default), tf32, fp16 or bf16: what a GPU keeps between kernels, and matrices of weights; sums stay float32. "
                   "tf32 keeps float32, and rounds what it multiplies to 11 bits")
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16"}));
  verb->add_flag("--tune", command->tune, "measure on this machine what cost models choose otherwise; with --tuning, decisions are added to the file");
  verb->add_option("--tuning", command->tuning, "a file of decisions that --tune has made, here or on another machine")->type_name("FILE");
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
