#include "compiler/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "compiler/support/error.h"
#include "compiler/support/hash.h"
#include "compiler/support/target.h"
#include "compiler/toolchain/cache.h"
#include "compiler/variants.h"

namespace nacre {

namespace {

constexpr double kClearly = 1.02;

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

// A variant that this machine can time, and what it is called with.
struct Timed {
  uint32_t entry;
  size_t variant;
  std::vector<HostTensor> inputs;
};

bool runs_on_processor_here(const formats::Image& image) {
  const Target* target = target_named(image.target);
  return target && !target->compute_capability && runs_here(*target);
}

std::vector<Timed> what_to_time(const std::vector<Method>& methods, const CompiledModel& model) {
  std::vector<Timed> found;
  for (uint32_t e = 0; e < methods.size(); ++e)
    for (size_t v = 0; v < model.artifact.entries[e].variants.size(); ++v) {
      const formats::Variant& variant = model.artifact.entries[e].variants[v];
      const bool asks = std::any_of(variant.commands.begin(), variant.commands.end(), [&](const formats::Command& c) {
        return c.kind == NACRE_COMMAND_call && !model.questions[c.target].empty() && runs_on_processor_here(model.artifact.images[model.artifact.kernels[c.target].image]);
      });
      // Inputs that share memory are no case of their own: its kernels are those of the general one.
      if (!asks || model.kinds[e][v] == VariantKind::sharing) continue;
      if (auto inputs = fit_samples(methods[e].functional, model.narrowings[e][v])) found.push_back({e, v, std::move(*inputs)});
    }
  return found;
}

// A variant's time by question, in microseconds: of each command the least of all rounds.
class Clocked {
 public:
  Clocked(const CompiledModel& model, const Timed& what)
      : racer_(variant_alone(model.artifact, what.entry, what.variant), what.entry, what.inputs, true) {
    for (const formats::Command& c : model.artifact.entries[what.entry].variants[what.variant].commands)
      commands_.push_back({c.kind == NACRE_COMMAND_call ? model.questions[c.target] : "", 1e300});
  }

  double round() {
    nacre_profile_clear(racer_.session());
    const double took = racer_.run();
    for (uint32_t i = 0; i < commands_.size(); ++i) {
      nacre_profile_record record{};
      if (commands_[i].question.empty() || nacre_profile(racer_.session(), i, &record) != NACRE_OK || record.calls == 0) continue;
      commands_[i].least = std::min(commands_[i].least, static_cast<double>(record.time_ns) / 1e3);
    }
    return took;
  }

  void add_to(std::map<std::string, double>& times) const {
    for (const Command& c : commands_)
      if (!c.question.empty() && c.least < 1e300) times[c.question] += c.least;
  }

 private:
  struct Command {
    std::string question;
    double least;
  };
  Racer racer_;
  std::vector<Command> commands_;
};

// Times of both by question, measured in turns, so that what else the machine does hits both alike.
std::pair<std::map<std::string, double>, std::map<std::string, double>> race(const CompiledModel& first, const CompiledModel& second, const std::vector<Timed>& list) {
  constexpr int kLeastRounds = 5, kMostRounds = 100;
  constexpr double kEnough = 2e9;  // nanoseconds
  std::pair<std::map<std::string, double>, std::map<std::string, double>> times;
  for (const Timed& what : list) {
    Clocked a(first, what), b(second, what);
    double spent = 0;
    for (int round = 0; round < kMostRounds && (round < kLeastRounds || spent * static_cast<double>(list.size()) < kEnough); ++round) spent += a.round() + b.round();
    a.add_to(times.first);
    b.add_to(times.second);
  }
  return times;
}

// What a race depends on: all code, and the shapes.
std::string race_key(const CompiledModel& first, const CompiledModel& second, const std::vector<Timed>& list) {
  std::string key = fmt::format("tuning 1 {:x}", host_features());
  for (const CompiledModel* model : {&first, &second})
    for (const formats::Image& image : model->artifact.images) key += hash128_hex({reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()});
  for (const Timed& what : list) {
    key += fmt::format(" {} {}", what.entry, what.variant);
    for (const HostTensor& t : what.inputs) key += fmt::format(" {}", fmt::join(t.shape, "x"));
  }
  return hash128_hex(key);
}

}  // namespace

Decisions parse_decisions(std::string_view text, const std::string& file) {
  Decisions decisions;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const size_t hash = line.find('#');
    const std::string note = hash == std::string::npos ? "" : trimmed(std::string_view(line).substr(hash + 1));
    const std::string rest = trimmed(std::string_view(line).substr(0, hash));
    if (rest.empty()) continue;
    const size_t colon = rest.find(": "), equals = rest.rfind(" = ");
    if (colon == std::string::npos || equals == std::string::npos || equals <= colon + 2 || equals + 3 >= rest.size())
      fail(ErrorKind::user, "{}:{}: '{}' is no decision: write TARGET: WHAT = CHOICE", file, number, rest);
    const std::string target = rest.substr(0, colon);
    if (target == "native" || !target_named(target)) fail(ErrorKind::user, "{}:{}: there is no target '{}'", file, number, target);
    if (!decisions.made.try_emplace(trimmed(rest.substr(0, equals)), Decisions::Decision{trimmed(rest.substr(equals + 3)), note}).second)
      fail(ErrorKind::user, "{}:{}: '{}' is decided before", file, number, trimmed(rest.substr(0, equals)));
  }
  return decisions;
}

std::string print(const Decisions& decisions) {
  std::string text;
  for (const auto& [question, decision] : decisions.made) text += fmt::format("{} = {}{}{}\n", question, decision.choice, decision.note.empty() ? "" : "  # ", decision.note);
  return text;
}

void decide(Decisions& decisions, const ChoiceTimes& times) {
  for (const auto& [question, choices] : decisions.open) {
    const auto measured = times.find(question);
    if (measured == times.end()) continue;
    const std::vector<double>& us = measured->second;
    size_t best = static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
    if (us[0] < kClearly * us[best]) best = 0;
    std::string note = "us:";
    for (size_t i = 0; i < us.size(); ++i) note += fmt::format("{} {} {:.1f}", i ? "," : "", choices[i], us[i]);
    decisions.made[question] = {choices[best], note};
  }
  std::erase_if(decisions.open, [&](const auto& question) { return times.contains(question.first); });
}

TuningReport report_of(const Decisions& before, const ChoiceTimes& times) {
  TuningReport report;
  double sum = 0;
  for (const auto& [question, us] : times) {
    if (!before.open.contains(question)) continue;
    const double best = *std::min_element(us.begin(), us.end());
    ++report.measured;
    report.changed += us[0] >= kClearly * best;
    sum += std::log(us[0] / best);
  }
  if (report.measured) report.loss = std::exp(sum / static_cast<double>(report.measured));
  return report;
}

TuningReport tune(const std::vector<Method>& methods, const CompileOptions& options) {
  Decisions& decisions = *options.decisions;
  std::vector<std::string> left_out;
  const std::vector<const Target*> targets = find_targets(options.target);
  for (const Target* target : targets)
    if (target->compute_capability || !runs_here(*target)) left_out.push_back(target->name);
  if (left_out.size() == targets.size())
    fail(ErrorKind::user, "--tune measures on this machine, which does not run code for {}: compile with --tune --tuning FILE on one that does, and here with --tuning FILE",
         fmt::join(left_out, ", "));
  CompileOptions trial = options;
  trial.dump = nullptr;
  trial.library.clear();
  trial.code_budget = 0;
  decisions.open.clear();
  decisions.trial = 0;
  const CompiledModel model = compile(methods, trial);
  if (!model.artifact.imports.empty()) fail(ErrorKind::user, "--tune cannot run a program with functions of the application's ({})", model.artifact.imports[0].name);
  const std::vector<Timed> list = what_to_time(methods, model);
  const Decisions before = decisions;
  size_t trials = 1;
  for (const auto& [question, choices] : before.open) trials = std::max(trials, choices.size());
  if (list.empty()) trials = 1;
  // How many times as long as the first choice each takes, and that one's least time.
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, double> first;
  const ObjectCache cache(options.use_cache ? ObjectCache::default_folder() : std::filesystem::path());
  for (size_t i = 1; i < trials; ++i) {
    decisions.trial = i;
    const CompiledModel other = compile(methods, trial);
    if (options.progress) options.progress("measure", i, trials - 1);
    const std::string key = race_key(model, other, list);
    std::pair<std::map<std::string, double>, std::map<std::string, double>> times;
    if (const auto known = cache.find(key)) {
      std::istringstream lines(*known);
      std::string question;
      for (double a = 0, b = 0; lines >> a >> b && std::getline(lines >> std::ws, question);) times.first[question] = a, times.second[question] = b;
    } else {
      times = race(model, other, list);
      std::string text;
      for (const auto& [question, us] : times.first) text += fmt::format("{:.3f} {:.3f} {}\n", us, times.second[question], question);
      cache.store(key, text);
    }
    for (const auto& [question, us] : times.first) {
      const auto choices = before.open.find(question);
      if (choices == before.open.end() || i >= choices->second.size() || us <= 0) continue;
      const auto known = first.try_emplace(question, us).first;
      known->second = std::min(known->second, us);
      std::vector<double>& list_of = ratios[question];
      list_of.resize(choices->second.size(), 1);
      list_of[i] = times.second[question] / us;
    }
  }
  decisions.trial = 0;
  ChoiceTimes times;
  for (auto& [question, all] : ratios)
    for (double& ratio : all) times[question].push_back(ratio * first[question]);
  TuningReport report = report_of(before, times);
  report.left_out = std::move(left_out);
  decide(decisions, times);
  return report;
}

}  // namespace nacre
