// nacre verify: programs at every stage of the pipeline, compared with PyTorch.
//
// Each case runs in a child process of its own: a crash, a leak or an endless loop of one is its
// failure alone. The child tells the parent through a pipe what stage it is in, and in the end what
// came of it.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "compiler/command/bisect.h"
#include "compiler/command/exporter.h"
#include "compiler/command/imports.h"
#include "compiler/command/pack.h"
#include "compiler/command/program.h"
#include "compiler/command/stages.h"
#include "compiler/command/verbs.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tuning.h"

namespace nacre {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct VerifyOptions {
  std::vector<std::string> cases;
  std::string stage;
  std::string target = "native";
  std::string precision = "fp32";
  std::string tuning;
  std::shared_ptr<Decisions> decisions;  // of that file
  std::string pack;
  bool pack_bound = false;
  bool pack_apart = false;
  std::string emit = "artifact";
  unsigned jobs = 0;
  unsigned threads = 1;
  double timeout = 0;
  ProgramOptions program;
  std::vector<std::string> imports;
  std::string bisect;  // the folder for what still fails
  bool json = false;
  bool no_cache = false;
  bool specialize = false;
  std::vector<std::string> variants;
};

struct Verdict {
  std::string name;
  bool passed = false;
  std::string stage;
  std::string reason;
  std::string summary;  // the error in the terms of the rule
  std::string reproduction;  // the file with the smallest part that fails, and how large it is
  std::optional<double> max_error;
  std::optional<double> of_limit;
};

// A variant for the sizes of each set, which then runs in it and not in the general one.
void specialize_for_sets(const Case& the_case, const Graph& graph, CompileOptions& options) {
  std::set<std::string> known;
  for (const CaseSet& set : the_case.sets) {
    if (set.refuse || !set.shared.empty()) continue;
    VariantRequest request;
    request.name = set.name;
    std::string sizes;
    std::size_t position = 0;
    for (const GraphInput& input : graph.inputs) {
      if (input.kind != InputKind::user) continue;
      const std::size_t number = position++;
      if (number >= set.inputs.size() || graph[input.value].kind != ValueKind::tensor) continue;
      InputRequest wanted;
      wanted.input = std::to_string(number);
      for (const std::int64_t size : set.inputs[number].shape) {
        wanted.dims.push_back({size, size, 1, {}});
        sizes += fmt::format("{},", size);
      }
      sizes += ';';
      request.inputs.push_back(std::move(wanted));
    }
    if (known.insert(sizes).second) options.variants.push_back(std::move(request));
  }
}

// In the child. `entered` is called with each stage before it starts.
template <typename Entered>
Verdict verify_case(const std::string& path, const VerifyOptions& options, const Entered& entered) {
  Verdict verdict;
  verdict.name = path;
  verdict.stage = options.stage.empty() ? stage_name(Stage::captured) : options.stage;
  entered(verdict.stage);
  try {
    Case the_case = read_case(path);
    verdict.name = the_case.name;
    ProgramOptions program = options.program;
    if (!the_case.examples.empty()) program.examples = the_case.examples;
    Program captured = load_program(the_case.program.string(), program);
    complete(the_case, captured);
    CompileOptions compile_options;
    compile_options.target = options.target;
    compile_options.precision = precision_named(options.precision);
    if (options.emit == "static") compile_options.library = "model";
    compile_options.decisions = options.decisions;
    compile_options.use_cache = !options.no_cache;
    compile_options.jobs = options.jobs > 1 ? 1 : 2;
    for (const std::vector<std::string>& texts : {options.variants, the_case.variants})
      for (const std::string& text : texts) compile_options.variants.push_back(parse_variant(text));
    if (options.specialize) specialize_for_sets(the_case, captured.graph, compile_options);
    const std::string imported = library_functions(captured.graph);
    Pipeline pipeline(std::move(captured), compile_options, options.threads, load_imports(options.imports));
    if (pipeline.is_random()) the_case.shape_only = true;
    if (!options.pack.empty()) {
      verdict.stage = stage_name(Stage::artifact);
      entered(verdict.stage);
      pack_case(the_case, pipeline.captured(), pipeline.model().artifact, {compile_options.precision, options.pack_bound, options.pack_apart},
                std::filesystem::path(options.pack) / std::filesystem::path(the_case.name).filename());
      verdict.passed = true;
      verdict.summary = "packed";
      return verdict;
    }
    Comparison worst;
    const auto reproduce = [&] {
      if (options.bisect.empty()) return;
      const Stage stage = stage_of(verdict.stage, kRunStages);
      entered(verdict.stage);
      if (const auto part = bisect(the_case, pipeline.captured(), stage, compile_options, options.threads, options.bisect))
        verdict.reproduction = fmt::format("{} of {} nodes in {}: {}", part->nodes, part->of_nodes, part->file.string(), part->reason);
      else
        verdict.reproduction = "no part of it: the failure does not show on one call from the initial state";
    };
    for (const Stage stage : kRunStages) {
      if (!options.stage.empty() && options.stage != stage_name(stage)) continue;
      if (!imported.empty() && options.stage.empty() && stage != Stage::artifact) continue;
      verdict.stage = stage_name(stage);
      entered(verdict.stage);
      Comparison result;
      try {
        result = check_sets(the_case, pipeline.captured(), stage, *pipeline.runner(stage));
      } catch (const Error&) {
        reproduce();
        throw;
      }
      merge(worst, result);
      if (result.passed) continue;
      reproduce();
      break;
    }
    verdict.passed = worst.passed;
    verdict.reason = worst.reason;
    verdict.summary = describe(worst);
    if (!imported.empty())
      verdict.summary += fmt::format("; the artifact alone: only the application can compute {}", imported);
    if (std::isfinite(worst.error)) verdict.max_error = worst.error;
    if (std::isfinite(worst.error) && worst.limit > 0) verdict.of_limit = worst.error / worst.limit;
  } catch (const Error& error) {
    verdict.reason =
        error.kind == ErrorKind::unsupported ? std::string("not supported: ") + error.what()
        : error.kind == ErrorKind::internal  ? std::string("internal error: ") + error.what()
                                             : error.what();
  } catch (const std::bad_alloc&) {
    verdict.reason = "out of memory";
  } catch (const std::exception& error) {
    verdict.reason = error.what();
  }
  return verdict;
}

Json to_json(const Verdict& verdict) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return {{"case", verdict.name},
          {"passed", verdict.passed},
          {"stage", verdict.stage},
          {"reason", verdict.reason},
          {"max_error", number(verdict.max_error)},
          {"error_of_limit", number(verdict.of_limit)},
          {"summary", verdict.summary},
          {"reproduction", verdict.reproduction}};
}

Verdict from_json(const Json& json) {
  const auto number = [](const Json& value) {
    return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
  };
  return {json.at("case"),
          json.at("passed"),
          json.at("stage"),
          json.at("reason"),
          json.at("summary"),
          json.at("reproduction"),
          number(json.at("max_error")),
          number(json.at("error_of_limit"))};
}

void write_line(int to, std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t done = ::write(to, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return;
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
}

struct Child {
  std::size_t number = 0;
  pid_t pid = -1;
  int from = -1;
  Clock::time_point deadline;
  std::string text;
};

Child start(std::size_t number, const VerifyOptions& options) {
  int ends[2];
  if (::pipe(ends) != 0)
    fail(ErrorKind::environment, "cannot make a pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) fail(ErrorKind::environment, "cannot start a process: {}", std::strerror(errno));
  if (pid == 0) {
    ::close(ends[0]);
    const Verdict verdict =
        verify_case(options.cases[number], options, [&](const std::string& stage) {
          write_line(ends[1], Json{{"entered", stage}}.dump());
        });
    write_line(ends[1], to_json(verdict).dump(-1, ' ', true, Json::error_handler_t::replace));
    // No destructors: libtorch's threads do not live in this process.
    ::_exit(0);
  }
  ::close(ends[1]);
  Child child;
  child.number = number;
  child.pid = pid;
  child.from = ends[0];
  child.deadline = Clock::time_point::max();
  if (options.timeout > 0)
    child.deadline =
        Clock::now() + std::chrono::milliseconds(static_cast<long>(options.timeout * 1e3));
  return child;
}

// What the child said, or how it ended where it could not say it.
Verdict finish(const Child& child, const VerifyOptions& options, bool timed_out) {
  ::close(child.from);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  Verdict verdict;
  verdict.name = options.cases[child.number];
  std::size_t at = 0;
  while (at < child.text.size()) {
    const std::size_t end = std::min(child.text.find('\n', at), child.text.size());
    const Json line = Json::parse(child.text.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (line.is_discarded()) continue;
    if (line.contains("passed")) return from_json(line);
    if (line.contains("entered")) verdict.stage = line["entered"].get<std::string>();
  }
  if (timed_out)
    verdict.reason = fmt::format("no result after {} s", options.timeout);
  else if (WIFSIGNALED(status))
    verdict.reason = fmt::format("crashed: {}", ::strsignal(WTERMSIG(status)));
  else
    verdict.reason = fmt::format("ended early with status {}", WEXITSTATUS(status));
  return verdict;
}

std::vector<Verdict> verify_all(const VerifyOptions& options) {
  std::vector<std::optional<Verdict>> verdicts(options.cases.size());
  std::vector<Child> running;
  std::size_t next = 0;
  std::size_t shown = 0;
  while (shown < verdicts.size()) {
    while (next < options.cases.size() && running.size() < options.jobs)
      running.push_back(start(next++, options));
    std::vector<pollfd> waiting;
    for (const Child& child : running) waiting.push_back({child.from, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), 200) < 0 && errno != EINTR)
      fail(ErrorKind::environment, "cannot wait for the cases: {}", std::strerror(errno));
    for (std::size_t i = running.size(); i-- > 0;) {
      Child& child = running[i];
      bool ended = false;
      if (waiting[i].revents) {
        char buffer[4096];
        const ssize_t got = ::read(child.from, buffer, sizeof buffer);
        if (got > 0) child.text.append(buffer, static_cast<std::size_t>(got));
        ended = got == 0 || (got < 0 && errno != EINTR);
      }
      const bool timed_out = !ended && Clock::now() > child.deadline;
      if (timed_out) ::kill(child.pid, SIGKILL);
      if (!ended && !timed_out) continue;
      verdicts[child.number] = finish(child, options, timed_out);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (; shown < verdicts.size() && verdicts[shown]; ++shown) {
      const Verdict& verdict = *verdicts[shown];
      if (options.json) continue;
      if (verdict.passed)
        fmt::print("ok      {}: {}\n", verdict.name, verdict.summary);
      else
        fmt::print("FAILED  {}: stage {}: {}\n", verdict.name, verdict.stage, verdict.reason);
      if (!verdict.reproduction.empty()) fmt::print("        smallest part: {}\n", verdict.reproduction);
      std::fflush(stdout);
    }
  }
  std::vector<Verdict> all;
  for (std::optional<Verdict>& verdict : verdicts) all.push_back(std::move(*verdict));
  return all;
}

int verify(VerifyOptions options) {
  if (!options.stage.empty()) stage_of(options.stage, kRunStages);
  if (!options.tuning.empty()) options.decisions = std::make_shared<Decisions>(parse_decisions(read_file(options.tuning), options.tuning));
  if (!options.pack.empty()) {
    std::map<std::string, std::string> packed;  // folder: case
    for (const std::string& path : options.cases) {
      const std::string folder = (std::filesystem::absolute(path).lexically_normal() / "").parent_path().filename().string();
      if (const auto [other, added] = packed.emplace(folder, path); !added)
        fail(ErrorKind::user, "--pack would write {} and {} into the same folder, {}: give them in calls of their own, with other folders", other->second, path,
             (std::filesystem::path(options.pack) / folder).string());
    }
  }
  if (options.jobs == 0) {
    cpu_set_t set;
    options.jobs = ::sched_getaffinity(0, sizeof set, &set) == 0
                       ? static_cast<unsigned>(std::max(CPU_COUNT(&set), 1))
                       : 1;
  }
  // Loaded once for all children. Neither starts a thread by that.
  frontend();
  if (options.stage.empty() || options.stage == stage_name(Stage::artifact)) load_toolchain();
  const std::vector<Verdict> verdicts = verify_all(options);
  const auto passed = std::count_if(verdicts.begin(), verdicts.end(),
                                    [](const Verdict& verdict) { return verdict.passed; });
  if (options.json) {
    Json list = Json::array();
    for (const Verdict& verdict : verdicts) list.push_back(to_json(verdict));
    fmt::print("{}\n", list.dump(1, ' ', false, Json::error_handler_t::replace));
  } else if (verdicts.size() > 1) {
    fmt::print("{} of {} cases passed\n", passed, verdicts.size());
  }
  return passed == static_cast<std::ptrdiff_t>(verdicts.size()) ? 0 : 1;
}

}  // namespace

Action add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb = app.add_subcommand(
      "verify", "run programs at each stage of the pipeline and compare with PyTorch");
  verb->add_option(
          "case", options->cases,
          "a program, checked on its sample inputs, or a folder with model.pt2, case.json and sets "
          "of inputs and results")
      ->required()
      ->type_name("MODEL.pt2|MODEL.ir|CASE_DIR");
  add_program_options(*verb, options->program);
  add_import_option(*verb, options->imports);
  verb->add_option("--stage", options->stage,
                   "one stage only: " + stage_names(kRunStages))
      ->type_name("STAGE");
  verb->add_option("--target", options->target, "of the artifact; default: native");
  verb->add_option("--precision", options->precision, "as in compile")
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16"}));
  verb->add_option("--tuning", options->tuning, "as in compile")->type_name("FILE");
  verb->add_option("--pack", options->pack,
                   "instead of running them: compile, and write what a machine without PyTorch needs to run and judge them (tests/cuda)")
      ->type_name("FOLDER");
  verb->add_flag("--pack-bound", options->pack_bound,
                 "with --pack and a precision below fp32: a bound of 24 units of its rounding instead of the rule, for which the program runs in it here");
  verb->add_flag("--pack-apart", options->pack_apart, "with --pack: weights in a file of their own, as --weights of compile has them");
  verb->add_option("--emit", options->emit,
                   "what stands for the artifact: `artifact` (default) or a `static` library, as "
                   "nacre compile makes it")
      ->check(CLI::IsMember({"artifact", "static"}));
  verb->add_option("--threads", options->threads, "of the runtime; default: 1")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--jobs", options->jobs, "cases at the same time; default: one a processor")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--timeout", options->timeout, "seconds for one case; default: no limit")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--bisect", options->bisect,
                   "of what fails, find the smallest part that still does: FOLDER/NAME/NAME.ir, with its inputs beside it")
      ->type_name("FOLDER");
  verb->add_flag("--json", options->json, "a list of verdicts on standard output");
  verb->add_flag("--no-cache", options->no_cache, "compile every kernel anew");
  verb->add_option("--variant", options->variants, "as in compile")
      ->type_name("SHAPES")
      ->allow_extra_args(false);
  verb->add_flag("--specialize", options->specialize,
                 "a variant of the artifact for the sizes of each set, which runs in it");
  return [options] { return verify(*options); };
}

}  // namespace nacre
