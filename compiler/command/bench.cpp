// nacre bench: how fast an artifact is in the real runtime.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/command/imports.h"
#include "compiler/command/inputs.h"
#include "compiler/run.h"
#include "compiler/command/verbs.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"
#include "compiler/support/print.h"
#include "compiler/tuning.h"
#include "formats/container.h"
#include "formats/writer.h"

namespace nacre {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string model;
  std::string entry;
  std::string weights;
  std::vector<std::string> imports;
  std::string inputs;
  std::vector<std::string> shapes;
  std::string output;
  unsigned threads = 1;
  std::uint32_t device = NACRE_DEVICE_ANY;
  double seconds = 2;
  bool json = false;
  bool profile = false;
  bool tune = false;
  std::string tuning;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The process's own peak. getrusage would count the memory of whoever started this process, up to
// its exec.
double peak_rss_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes / 1024;
  }
  fail(ErrorKind::environment, "/proc/self/status does not tell the peak memory");
}

struct Row {
  std::string kernel;
  std::string place;
  double time_ms = 0;  // of one call
  double share = 0;
  double gflops = 0;  // a second
  double gbytes = 0;  // a second
};

// One row for each command of the variant that ran, the most expensive first.
std::vector<Row> profile_rows(const BenchOptions& options, const RuntimeSession& session,
                              std::uint32_t entry) {
  const AlignedBytes bytes = read_artifact_file(options.model, options.weights);
  const formats::Artifact artifact = formats::read_artifact(
      std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  const formats::Variant& variant =
      artifact.entries.at(entry).variants.at(nacre_session_variant(session.get()));
  std::vector<Row> rows;
  double total = 0;
  for (std::uint32_t i = 0; i < variant.commands.size(); ++i) {
    const formats::Command& command = variant.commands[i];
    nacre_profile_record record{};
    if (nacre_profile(session.get(), i, &record) != NACRE_OK || record.calls == 0) continue;
    Row row;
    row.kernel = command.kind == NACRE_COMMAND_call     ? artifact.kernels.at(command.target).name
                 : command.kind == NACRE_COMMAND_import ? artifact.imports.at(command.target).name
                                                        : fmt::format("command {}", i);
    std::set<std::string> places;
    for (const std::uint32_t number : command.provenances) {
      const formats::Provenance& where = artifact.provenances.at(number);
      const std::string place = fmt::format("{}:{}", where.file, where.line);
      if (places.insert(place).second) row.place += (row.place.empty() ? "" : " ") + place;
    }
    const double ns = static_cast<double>(record.time_ns) / static_cast<double>(record.calls);
    row.time_ms = ns / 1e6;
    row.gflops = ns > 0 ? static_cast<double>(record.flops) / ns : 0;
    row.gbytes = ns > 0 ? static_cast<double>(record.bytes) / ns : 0;
    total += row.time_ms;
    rows.push_back(std::move(row));
  }
  // Inputs with strides that the variant does not take.
  if (nacre_profile_record record{};
      nacre_profile(session.get(), NACRE_PROFILE_INPUTS, &record) == NACRE_OK) {
    Row row;
    row.kernel = "copy of inputs";
    const double ns = static_cast<double>(record.time_ns) / static_cast<double>(record.calls);
    row.time_ms = ns / 1e6;
    row.gbytes = ns > 0 ? static_cast<double>(record.bytes) / ns : 0;
    total += row.time_ms;
    rows.push_back(std::move(row));
  }
  for (Row& row : rows) row.share = total > 0 ? row.time_ms / total : 0;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.time_ms > b.time_ms; });
  return rows;
}

std::string profile_text(const std::vector<Row>& rows) {
  Table table({"ms", "%", "GFLOP/s", "GB/s", "kernel", "line"});
  for (const Row& row : rows)
    table.add({fmt::format("{:.4f}", row.time_ms), fmt::format("{:.1f}", 100 * row.share),
               row.gflops > 0 ? fmt::format("{:.1f}", row.gflops) : "-",
               row.gbytes > 0 ? fmt::format("{:.1f}", row.gbytes) : "-", row.kernel, row.place});
  return table.text();
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

// Measures the kernels that the artifact's commands could call, and writes the artifact with the best.
int tune_there(const BenchOptions& options) {
  const AlignedBytes bytes = read_artifact_file(options.model, options.weights);
  formats::Artifact artifact = formats::read_artifact(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  const Imports imports = load_imports(options.imports);
  Decisions decisions;
  if (!options.tuning.empty()) {
    if (std::filesystem::exists(options.tuning)) decisions = parse_decisions(read_file(options.tuning), options.tuning);
    expect_writable(options.tuning);
  }
  const auto named = std::find_if(artifact.entries.begin(), artifact.entries.end(), [&](const formats::Entry& e) { return options.entry.empty() || e.name == options.entry; });
  if (named == artifact.entries.end()) fail(ErrorKind::user, "{} has no entry '{}'", options.model, options.entry);
  const auto entry = static_cast<std::uint32_t>(named - artifact.entries.begin());
  const auto inputs = [&] {
    if (!options.inputs.empty()) return read_input_archive(options.inputs);
    return random_inputs(RuntimeModel::open(options.model, imports, options.device, options.weights), entry, options.shapes);
  };
  const TuningReport report = tune(artifact, entry, inputs, options.device, imports, decisions);
  if (!options.tuning.empty()) write_file(options.tuning, print(decisions));
  nacre_file_header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  // Weights that lie apart stay as they are.
  const std::function<void(std::span<const std::uint8_t>)> no_weights = [](std::span<const std::uint8_t>) {};
  write_file(options.model, [&](const Sink& sink) { formats::write_artifact(artifact, sink, header.apart ? no_weights : nullptr); });
  fmt::print("{}: {} of {} shapes measured are faster otherwise than the cost models have it, which lose {:.1f}% (geometric mean)\n", options.model, report.changed, report.measured,
             100 * (report.loss - 1));
  for (const std::string& failed : report.failed) fmt::print("  does not run: {}\n", failed);
  return 0;
}

int bench(const BenchOptions& options) {
  if (options.tune) return tune_there(options);
  auto start = Clock::now();
  const RuntimeModel model = RuntimeModel::open(options.model, load_imports(options.imports), options.device, options.weights);
  nacre_session_options session_options{};
  session_options.threads = options.threads;
  session_options.profile = options.profile;
  RuntimeSession session(model, session_options);
  const double load_ms = milliseconds_since(start);

  const std::uint32_t entry = model.entry(options.entry);
  RuntimeSession::Call call =
      session.prepare(entry, options.inputs.empty() ? random_inputs(model, entry, options.shapes)
                                                    : read_input_archive(options.inputs));
  start = Clock::now();
  session.run(call);
  const double first_ms = milliseconds_since(start);
  // Before anything else changes it: the first call's result from the initial state.
  if (!options.output.empty()) {
    if (call.outputs.empty()) fail(ErrorKind::user, "{} has no outputs to write", options.model);
    write_npy(options.output, call.outputs[0]);
  }

  if (options.profile) nacre_profile_clear(session.get());
  std::vector<double> times_ms;
  const auto begin = Clock::now();
  // A model that counts its calls (a cache of a fixed length) comes to an end: then it begins
  // again.
  const bool has_state = nacre_state_count(model.get()) > 0;
  do {
    start = Clock::now();
    try {
      session.run(call);
    } catch (const Error&) {
      if (!has_state || times_ms.empty()) throw;
      nacre_session_reset(session.get());
      start = Clock::now();
      session.run(call);
    }
    times_ms.push_back(milliseconds_since(start));
  } while (milliseconds_since(begin) < options.seconds * 1e3);
  const double peak_mb = peak_rss_mb();

  std::vector<Row> rows;
  if (options.profile) rows = profile_rows(options, session, entry);
  nacre_memory_info memory{};
  nacre_session_memory(session.get(), &memory);
  if (options.json) {
    nlohmann::ordered_json json{{"load_ms", load_ms},
                                {"first_ms", first_ms},
                                {"peak_rss_mb", peak_mb},
                                {"min_ms", quantile(times_ms, 0)},
                                {"median_ms", quantile(times_ms, 0.5)},
                                {"p99_ms", quantile(times_ms, 0.99)},
                                {"threads", options.threads},
                                {"arena_bytes", memory.arena_bytes},
                                {"state_bytes", memory.state_bytes},
                                {"times_ms", times_ms}};
    for (const Row& row : rows)
      json["profile"].push_back({{"kernel", row.kernel},
                                 {"line", row.place},
                                 {"time_ms", row.time_ms},
                                 {"gflops", row.gflops},
                                 {"gbytes", row.gbytes}});
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("latency  min {:.4f} ms, median {:.4f} ms, p99 {:.4f} ms ({} calls, {} thread{})\n",
             quantile(times_ms, 0), quantile(times_ms, 0.5), quantile(times_ms, 0.99),
             times_ms.size(), options.threads, options.threads == 1 ? "" : "s");
  fmt::print("load     {:.3f} ms, first call {:.3f} ms\n", load_ms, first_ms);
  fmt::print("memory   peak {:.1f} MB; arena {} bytes, state {} bytes\n", peak_mb,
             grouped(static_cast<std::int64_t>(memory.arena_bytes)),
             grouped(static_cast<std::int64_t>(memory.state_bytes)));
  if (options.profile) fmt::print("\n{}", profile_text(rows));
  return 0;
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = app.add_subcommand("bench", "measure an artifact: latency, load time, memory");
  verb->add_option("model", options->model, "the artifact")->required()->type_name("MODEL.nacre");
  verb->add_option("--threads", options->threads, "default: 1")->check(CLI::Range(1, 256));
  verb->add_option("--seconds", options->seconds, "how long to measure; default: 2")
      ->check([](const std::string& text) {
        double seconds = -1;
        const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= 1e9;
        return good ? std::string() : "'" + text + "' is no number of seconds";
      });
  auto* inputs = verb->add_option("--inputs", options->inputs,
                                  "inputs, in the archive's order; default: random ones")
                     ->type_name("FILE.npz");
  verb->add_option("--shape", options->shapes,
                   "shape of a random input, `1,3,224,224` or `0=1,3,224,224`; once for each")
      ->type_name("SHAPE")
      ->take_all()
      ->excludes(inputs);
  verb->add_option("--output", options->output, "write the first output of the first call")
      ->type_name("FILE.npy");
  add_import_option(*verb, options->imports);
  add_device_option(*verb, options->device);
  add_weights_option(*verb, options->weights);
  verb->add_option("--entry", options->entry, "which entry of the artifact; default: the first");
  verb->add_flag("--json", options->json, "one JSON object on standard output");
  verb->add_flag("--tune", options->tune, "measure the kernels that nacre compile --tune has put into the artifact for this device, and write it with the best");
  verb->add_option("--tuning", options->tuning, "with --tune: a file of decisions to respect and to add to, for nacre compile --tuning")->type_name("FILE");
  verb->add_flag("--profile", options->profile, "time, GFLOP/s and GB/s of each kernel");
  return [options] { return bench(*options); };
}

}  // namespace nacre
