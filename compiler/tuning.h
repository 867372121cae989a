// Choice by measurement: questions that cost models answer (targets/decisions.h) are put to the machine, and its answers kept in a file.
//
// The whole program is compiled once for every choice, and all kernels are timed where they stand: trial 0 has the cost models' choices,
// trial i the i-th of every question that has so many. What a choice takes is what all kernels together take that ask the same question.
//
//   x86-64-v4: matmul 1x196x256x1024 = panel 4  # us: panel 4 91.2, panel 3 103.4
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "compiler/run.h"

namespace nacre {

// `file` is for messages: Error{user} with it and the line of what is no decision.
Decisions parse_decisions(std::string_view text, const std::string& file);
std::string print(const Decisions& decisions);

// Microseconds that each choice of a question takes, in their order; infinite: it does not run.
using ChoiceTimes = std::map<std::string, std::vector<double>>;

// Decides the open questions that have times. A choice other than the first must be clearly faster.
void decide(Decisions& decisions, const ChoiceTimes& times);

struct TuningReport {
  size_t measured = 0, changed = 0;  // questions, and of these those that the cost model answers otherwise
  double loss = 1;                   // of the cost models' choices over the fastest: the geometric mean of the questions
  std::vector<std::string> left_out; // processors' targets that this machine does not run
  std::vector<std::string> failed;   // choices that do not run, and why
};
TuningReport report_of(const Decisions& before, const ChoiceTimes& times);

// Every command of the artifact that could call other kernels calls the one that is decided for its question.
void apply(const Decisions& decisions, formats::Artifact& artifact);

// Times the kernels that an entry's commands could call on this machine, decides, and applies it to the whole artifact. Whatever runs does
// so in processes of their own, which this one must not have touched the device for: a kernel that fails there, and that a compiler on
// another machine could not know of, costs no more than its choice. Error{user} where the variant that takes the inputs here has none.
TuningReport tune(formats::Artifact& artifact, uint32_t entry, const std::function<std::vector<HostTensor>()>& inputs, uint32_t device, const Imports& imports, Decisions& decisions);

// Answers what `options.decisions` leaves open, on this machine's processor, on the programs' sample inputs. Error{user} where it runs none
// of the targets' code. Of GPUs nothing is measured here: CompileOptions::candidates puts the choices into the artifact.
TuningReport tune(const std::vector<Method>& methods, const CompileOptions& options);

}  // namespace nacre
