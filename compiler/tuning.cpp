#include "compiler/tuning.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
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

// The kernels of a variant, and what they take by question.
class Clocked {
 public:
  // `questions`: of each command.
  Clocked(const formats::Artifact& artifact, uint32_t entry, const std::vector<HostTensor>& inputs, std::vector<std::string> questions, uint32_t device = NACRE_DEVICE_ANY,
          const Imports& imports = {})
      : racer_(artifact, entry, inputs, true, device, imports), questions_(std::move(questions)) {
    round();
    spent_ = 0;
  }

  // Microseconds of one call.
  std::map<std::string, double> round() {
    std::map<std::string, double> times;
    nacre_profile_clear(racer_.session());
    spent_ += racer_.run();
    for (uint32_t i = 0; i < questions_.size(); ++i) {
      nacre_profile_record record{};
      if (!questions_[i].empty() && nacre_profile(racer_.session(), i, &record) == NACRE_OK && record.calls > 0) times[questions_[i]] += static_cast<double>(record.time_ns) / 1e3;
    }
    return times;
  }

  double spent() const { return spent_; }  // nanoseconds

 private:
  Racer racer_;
  std::vector<std::string> questions_;
  double spent_ = 0;
};

// By question: what the first takes, and how many times as long the second does.
struct Race {
  double first_us = 0;
  double ratio = 1;
};

// Of several variants, or of one, called in turns, so that what else the machine does hits both alike.
class Races {
 public:
  void run(Clocked& a, Clocked& b, double enough_ns) {
    constexpr int kLeastRounds = 15, kMostRounds = 100;
    std::map<std::string, std::vector<double>> times[2];
    for (int round = 0; round < kMostRounds && (round < kLeastRounds || a.spent() + b.spent() < enough_ns); ++round)
      for (int side = 0; side < 2; ++side)
        for (const auto& [question, us] : (side ? b : a).round()) times[side][question].push_back(us);
    for (auto& [question, first] : times[0]) {
      const auto second = times[1].find(question);
      if (second == times[1].end()) continue;
      sums_[question].first += undisturbed(first);
      sums_[question].second += undisturbed(second->second);
    }
  }

  std::map<std::string, Race> result() const {
    std::map<std::string, Race> result;
    for (const auto& [question, us] : sums_)
      if (us.first > 0 && us.second > 0) result[question] = {us.first, us.second / us.first};
    return result;
  }

 private:
  // Of five calls the second fastest: some are interrupted, and a clock that jumps can make one look faster than any is.
  static double undisturbed(std::vector<double>& us) {
    const auto fifth = us.begin() + static_cast<std::ptrdiff_t>(us.size() / 5);
    std::nth_element(us.begin(), fifth, us.end());
    return *fifth;
  }

  std::map<std::string, std::pair<double, double>> sums_;
};

constexpr double kEnough = 3e9;  // nanoseconds of a race

std::map<std::string, Race> race(const CompiledModel& first, const CompiledModel& second, const std::vector<Timed>& list) {
  Races races;
  for (const Timed& what : list) {
    const auto clocked = [&](const CompiledModel& model) {
      std::vector<std::string> questions;
      for (const formats::Command& c : model.artifact.entries[what.entry].variants[what.variant].commands)
        questions.push_back(c.kind == NACRE_COMMAND_call ? model.questions[c.target] : "");
      return Clocked(variant_alone(model.artifact, what.entry, what.variant), what.entry, what.inputs, std::move(questions));
    };
    Clocked a = clocked(first), b = clocked(second);
    races.run(a, b, kEnough / static_cast<double>(list.size()));
  }
  return races.result();
}

// What the races of the trials came to, as times of each choice.
class Answers {
 public:
  explicit Answers(const Decisions& before) : before_(before) {}

  size_t trials() const {
    size_t most = 1;
    for (const auto& [question, choices] : before_.open) most = std::max(most, choices.size());
    return most;
  }

  void add(size_t trial, const std::map<std::string, Race>& raced) {
    for (const auto& [question, race] : raced) {
      const auto choices = before_.open.find(question);
      if (choices == before_.open.end() || trial >= choices->second.size()) continue;
      if (race.first_us > 0) {
        const auto known = first_.try_emplace(question, race.first_us).first;
        known->second = std::min(known->second, race.first_us);
      }
      std::vector<double>& all = ratios_[question];
      all.resize(choices->second.size(), 1);
      all[trial] = race.ratio;
    }
  }

  ChoiceTimes times() const {
    ChoiceTimes times;
    for (const auto& [question, all] : ratios_) {
      const auto first = first_.find(question);
      for (double ratio : all) times[question].push_back(ratio * (first == first_.end() ? 1 : first->second));
    }
    return times;
  }

 private:
  const Decisions before_;
  std::map<std::string, std::vector<double>> ratios_;  // to the first choice
  std::map<std::string, double> first_;                // that one's least time
};

std::string text_of(const std::map<std::string, Race>& races) {
  std::string text;
  for (const auto& [question, race] : races) text += fmt::format("{} {} {}\n", race.first_us, race.ratio, question);
  return text;
}
std::map<std::string, Race> races_in(const std::string& text) {
  std::map<std::string, Race> races;
  std::istringstream lines(text);
  std::string question;
  for (Race race; lines >> race.first_us >> race.ratio && std::getline(lines >> std::ws, question);) races[question] = race;
  return races;
}

// What a process of its own came to: its text, or what was wrong.
struct Outcome {
  bool good = false;
  ErrorKind kind = ErrorKind::internal;
  std::string text;
};
Outcome in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) fail(ErrorKind::environment, "cannot make a pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorKind::environment, "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    std::string text;
    try {
      text = "g" + work();
    } catch (const Error& error) {
      text = std::string(1, static_cast<char>('0' + static_cast<int>(error.kind))) + error.what();
    } catch (const std::exception& error) {
      text = std::string(1, static_cast<char>('0' + static_cast<int>(ErrorKind::internal))) + error.what();
    }
    for (std::string_view rest = text; !rest.empty();) {
      const ssize_t done = ::write(ends[1], rest.data(), rest.size());
      if (done < 0 && errno != EINTR) break;
      if (done > 0) rest.remove_prefix(static_cast<size_t>(done));
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);)
    if ((got = ::read(ends[0], buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {false, ErrorKind::internal, fmt::format("crashed: {}", ::strsignal(WTERMSIG(status)))};
  if (text.empty()) return {false, ErrorKind::internal, "ended early"};
  return {text[0] == 'g', text[0] == 'g' ? ErrorKind::internal : static_cast<ErrorKind>(text[0] - '0'), text.substr(1)};
}

// What a race depends on: all code, and the shapes.
std::string race_key(const CompiledModel& first, const CompiledModel& second, const std::vector<Timed>& list) {
  std::string key = fmt::format("tuning 3 {:x}", host_features());
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
    for (size_t i = 0; i < us.size(); ++i) note += fmt::format("{} {} {}", i ? "," : "", choices[i], std::isinf(us[i]) ? "fails" : fmt::format("{:.1f}", us[i]));
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

void apply(const Decisions& decisions, formats::Artifact& artifact) {
  for (formats::Entry& entry : artifact.entries)
    for (formats::Variant& variant : entry.variants)
      for (const formats::Candidate& c : variant.candidates) {
        const auto made = decisions.made.find(c.question);
        if (made == decisions.made.end() || made->second.choice != c.choice) continue;
        formats::Command& command = variant.commands[c.command];
        command.target = c.kernel;
        command.threads = c.threads;
        command.grid = c.grid;
        command.scratch = c.scratch;
      }
}

TuningReport tune(formats::Artifact& artifact, uint32_t entry, const std::function<std::vector<HostTensor>()>& inputs, uint32_t device, const Imports& imports, Decisions& decisions) {
  // With the first choices of all; what fails then is no choice's fault.
  const Outcome variant_there = in_child([&] {
    Decisions all;
    for (const formats::Variant& v : artifact.entries[entry].variants)
      for (const formats::Candidate& c : v.candidates) all.made.try_emplace(c.question, Decisions::Decision{c.choice, ""});
    formats::Artifact decided = artifact;
    apply(all, decided);
    Racer racer(decided, entry, inputs(), false, device, imports);
    racer.run();
    return std::to_string(nacre_session_variant(racer.session()));
  });
  if (!variant_there.good) throw Error(variant_there.kind, variant_there.text);
  const formats::Variant& variant = artifact.entries[entry].variants.at(std::stoul(variant_there.text));
  std::map<std::string, std::vector<std::string>> choices;
  std::vector<std::string> questions(variant.commands.size());
  for (const formats::Candidate& c : variant.candidates) {
    std::vector<std::string>& known = choices[c.question];
    if (std::find(known.begin(), known.end(), c.choice) == known.end()) known.push_back(c.choice);
    questions[c.command] = c.question;
  }
  if (choices.empty())
    fail(ErrorKind::user, "variant '{}', which takes these inputs here, has no kernels to choose from: nacre compile --tune puts them into artifacts for CUDA devices", variant.name);
  decisions.open.clear();
  for (const auto& [question, list] : choices) decisions.choose(question, list);  // notes what is open
  const Decisions before = decisions;
  Answers answers(before);
  TuningReport failures;
  // The i-th choice of these questions, beside the first of all.
  const std::function<void(size_t, const std::vector<std::string>&)> race_trial = [&](size_t i, const std::vector<std::string>& asked) {
    const Outcome outcome = in_child([&] {
      const std::vector<HostTensor> given = inputs();
      const auto clocked = [&](size_t trial) {
        Decisions all = before;
        for (const auto& [question, list] : before.open) all.made[question].choice = list[0];
        for (const std::string& question : asked) all.made[question].choice = before.open.at(question)[trial];
        formats::Artifact decided = artifact;
        apply(all, decided);
        return Clocked(decided, entry, given, questions, device, imports);
      };
      Clocked first = clocked(0), other = clocked(i);
      Races races;
      races.run(first, other, kEnough);
      return text_of(races.result());
    });
    if (outcome.good) {
      std::map<std::string, Race> raced = races_in(outcome.text);
      std::erase_if(raced, [&](const auto& race) { return std::find(asked.begin(), asked.end(), race.first) == asked.end(); });
      answers.add(i, raced);
    } else if (asked.size() == 1) {
      answers.add(i, {{asked[0], {0, HUGE_VAL}}});
      failures.failed.push_back(fmt::format("{} = {}: {}", asked[0], before.open.at(asked[0])[i], outcome.text));
    } else {
      const auto half = asked.begin() + static_cast<std::ptrdiff_t>(asked.size() / 2);
      race_trial(i, {asked.begin(), half});
      race_trial(i, {half, asked.end()});
    }
  };
  for (size_t i = 1; i < answers.trials(); ++i) {
    std::vector<std::string> asked;
    for (const auto& [question, list] : before.open)
      if (i < list.size()) asked.push_back(question);
    race_trial(i, asked);
  }
  const ChoiceTimes times = answers.times();
  TuningReport report = report_of(before, times);
  report.failed = std::move(failures.failed);
  decide(decisions, times);
  apply(decisions, artifact);
  return report;
}

TuningReport tune(const std::vector<Method>& methods, const CompileOptions& options) {
  Decisions& decisions = *options.decisions;
  std::vector<std::string> here, left_out;
  for (const Target* target : find_targets(options.target))
    if (!target->compute_capability) (runs_here(*target) ? here : left_out).push_back(target->name);
  if (here.empty())
    fail(ErrorKind::user, "--tune measures on this machine, which does not run code for {}: compile with --tune --tuning FILE on one that does, and here with --tuning FILE",
         left_out.empty() ? options.target : fmt::format("{}", fmt::join(left_out, ", ")));
  CompileOptions trial = options;
  trial.target = fmt::format("{}", fmt::join(here, ","));
  trial.precision = Precision::fp32;
  trial.candidates = false;
  trial.dump = nullptr;
  trial.library.clear();
  trial.code_budget = 0;
  decisions.open.clear();
  decisions.trial = 0;
  const CompiledModel model = compile(methods, trial);
  if (!model.artifact.imports.empty()) fail(ErrorKind::user, "--tune cannot run a program with functions of the application's ({})", model.artifact.imports[0].name);
  const std::vector<Timed> list = what_to_time(methods, model);
  const Decisions before = decisions;
  Answers answers(before);
  const ObjectCache cache(options.use_cache ? ObjectCache::default_folder() : std::filesystem::path());
  for (size_t i = 1; i < answers.trials() && !list.empty(); ++i) {
    decisions.trial = i;
    const CompiledModel other = compile(methods, trial);
    if (options.progress) options.progress("measure", i, answers.trials() - 1);
    const std::string key = race_key(model, other, list);
    std::map<std::string, Race> raced;
    if (const auto known = cache.find(key)) {
      raced = races_in(*known);
    } else {
      raced = race(model, other, list);
      cache.store(key, text_of(raced));
    }
    answers.add(i, raced);
  }
  decisions.trial = 0;
  const ChoiceTimes times = answers.times();
  TuningReport report = report_of(before, times);
  report.left_out = std::move(left_out);
  decide(decisions, times);
  return report;
}

}  // namespace nacre
