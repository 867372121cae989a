#include "compiler/tuning.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "compiler/support/target.h"
#include "tests/unit/compiler/scale_artifact.h"

namespace nacre {
namespace {

constexpr const char* kText =
    "x86-64-v3: matmul 1x7x1000x512 = panel 3  # us: panel 2 46.1, panel 3 40.8\n"
    "x86-64-v3: matmul 1x7x64x512 = panel 1\n"
    "x86-64-v4: matmul 1x7x64x512 = panel 2\n";

std::string message_of(const std::string& text) {
  try {
    parse_decisions(text, "fleet.tuning");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    return error.what();
  }
  ADD_FAILURE() << text << " is accepted";
  return {};
}

TEST(Tuning, AFileOfDecisionsRoundTrips) {
  const Decisions decisions = parse_decisions(kText, "fleet.tuning");
  ASSERT_EQ(decisions.made.size(), 3u);
  EXPECT_EQ(decisions.made.at("x86-64-v3: matmul 1x7x1000x512"), (Decisions::Decision{"panel 3", "us: panel 2 46.1, panel 3 40.8"}));
  EXPECT_EQ(print(decisions), kText);
  EXPECT_EQ(print(parse_decisions("# by hand\n\n  x86-64-v4: a = b # c\r\n", "f")), "x86-64-v4: a = b  # c\n");
}

TEST(Tuning, WhatIsNoDecisionIsNamedByFileAndLine) {
  EXPECT_EQ(message_of(std::string(kText) + "x86-64-v3 panel 3\n"), "fleet.tuning:4: 'x86-64-v3 panel 3' is no decision: write TARGET: WHAT = CHOICE");
  EXPECT_NE(message_of("\nx86-64-v3: = panel 3\n").find("fleet.tuning:2: "), std::string::npos);
  EXPECT_NE(message_of("x86-64-v3: matmul 1x2x3x4 =\n").find("fleet.tuning:1: "), std::string::npos);
  EXPECT_EQ(message_of("pdp-11: matmul 1x2x3x4 = panel 1\n"), "fleet.tuning:1: there is no target 'pdp-11'");
  EXPECT_EQ(message_of(std::string(kText) + "x86-64-v4: matmul 1x7x64x512 = panel 1\n"), "fleet.tuning:4: 'x86-64-v4: matmul 1x7x64x512' is decided before");
}

TEST(Tuning, WhatIsDecidedIsChosenAndTheRestIsTried) {
  Decisions decisions = parse_decisions("x86-64-v3: a = second\nx86-64-v3: b = gone\n", "f");
  const std::vector<std::string> choices{"first", "second", "third"};
  EXPECT_EQ(decisions.choose("x86-64-v3: a", choices), 1u);
  EXPECT_EQ(decisions.choose("x86-64-v3: b", choices), 0u);  // decided for what is no choice any more
  EXPECT_EQ(decisions.choose("x86-64-v3: c", choices), 0u);
  EXPECT_EQ(decisions.choose("x86-64-v3: d", {"only"}), 0u);
  decisions.trial = 2;
  EXPECT_EQ(decisions.choose("x86-64-v3: a", choices), 1u);
  EXPECT_EQ(decisions.choose("x86-64-v3: c", choices), 2u);
  EXPECT_EQ(decisions.choose("x86-64-v3: e", {"first", "second"}), 0u);
  std::vector<std::string> open;
  for (const auto& [question, asked] : decisions.open) open.push_back(question);
  EXPECT_EQ(open, (std::vector<std::string>{"x86-64-v3: b", "x86-64-v3: c", "x86-64-v3: e"}));
}

TEST(Tuning, AnotherChoiceMustBeClearlyFaster) {
  Decisions decisions;
  for (const char* question : {"x86-64-v3: a", "x86-64-v3: b", "x86-64-v3: never run"}) decisions.choose(question, {"first", "second"});
  const ChoiceTimes times{{"x86-64-v3: a", {100, 50}}, {"x86-64-v3: b", {100, 99.5}}};
  const TuningReport report = report_of(decisions, times);
  EXPECT_EQ(report.measured, 2u);
  EXPECT_EQ(report.changed, 1u);
  EXPECT_NEAR(report.loss, std::sqrt(2 * 100 / 99.5), 1e-9);
  decide(decisions, times);
  EXPECT_EQ(print(decisions), "x86-64-v3: a = second  # us: first 100.0, second 50.0\nx86-64-v3: b = first  # us: first 100.0, second 99.5\n");
  EXPECT_EQ(decisions.open.size(), 1u);
}

Method product() {
  Method method;
  method.name = "forward";
  method.functional.graph = parse_graph(R"(graph forward functional {
    input %x: f32[40, 64] user "x"
    input %a: f32[64, 80] user "a"
    input %w: f32[96, 64] parameter "w"
    %y: f32[40, 96] = aten.linear.default(input=%x, weight=%w)
    %z: f32[40, 80] = aten.mm.default(self=%x, mat2=%a)
    output %y user
    output %z user
  })");
  std::byte* bytes = nullptr;
  HostTensor w = make_tensor(NACRE_f32, {96, 64}, &bytes);
  std::memset(bytes, 0, w.size_bytes);
  method.functional.weights.emplace("w", w);
  for (const auto& shape : {std::vector<int64_t>{40, 64}, {64, 80}}) {
    method.functional.sample_inputs.push_back(make_tensor(NACRE_f32, shape, &bytes));
    std::memset(bytes, 0, method.functional.sample_inputs.back().size_bytes);
  }
  return method;
}

TEST(Tuning, DecisionsAreHonouredByKernelsAndPackedWeights) {
  const auto kernels = [](const std::string& text) {
    CompileOptions options;
    options.target = "x86-64-v3";
    options.decisions = std::make_shared<Decisions>(parse_decisions(text, "f"));
    std::string found;
    options.dump = [&](const std::string& file, const std::string& contents) {
      if (file == "6-kernels.cpp" || file == "5-layout.loops") found += contents;
    };
    compile({product()}, options);
    EXPECT_EQ(options.decisions->open.size(), text.empty() ? 2u : 0u);
    return found;
  };
  const std::string model = kernels("");
  EXPECT_NE(model.find("gemm<2>("), std::string::npos) << model;
  EXPECT_NE(model.find("panels16"), std::string::npos) << model;
  EXPECT_NE(model.find("gemm_ab<default_nv(80)>("), std::string::npos) << model;
  const std::string decided = kernels("x86-64-v3: matmul 40x96x64 = panel 3\nx86-64-v3: matmul 40x80x64 of two activations = panel 1\n");
  EXPECT_NE(decided.find("gemm<3>("), std::string::npos) << decided;
  EXPECT_NE(decided.find("panels24"), std::string::npos) << decided;
  EXPECT_NE(decided.find("gemm_ab<1>("), std::string::npos) << decided;
}

TEST(Tuning, EveryQuestionOfAProgramIsAnsweredOnThisMachineAndKeptInTheFile) {
  CompileOptions options;
  options.decisions = std::make_shared<Decisions>();
  const TuningReport report = tune({product()}, options);
  EXPECT_EQ(report.measured, options.decisions->made.size());
  EXPECT_TRUE(options.decisions->open.empty());
  EXPECT_EQ(options.decisions->trial, 0u);
  EXPECT_EQ(report.left_out, std::vector<std::string>());
  CompileOptions again;
  again.decisions = std::make_shared<Decisions>(parse_decisions(print(*options.decisions), "f"));
  EXPECT_EQ(tune({product()}, again).measured, 0u);
  EXPECT_EQ(formats::artifact_bytes(compile({product()}, again).artifact), formats::artifact_bytes(compile({product()}, options).artifact));
}

TEST(Tuning, AnArtifactIsWrittenWithTheKernelsThatAreDecidedFor) {
  const Target& target = find_target("native");
  const AlignedBytes bytes = scale_artifact(target);
  formats::Artifact artifact = formats::read_artifact(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  const std::string question = target.name + ": scale";
  formats::Variant& variant = artifact.entries[0].variants[0];
  variant.candidates = {{0, 0, 0, 0, formats::Size::constant(0), question, "by two"}, {0, 1, 1, 0, formats::Size::constant(64), question, "by three"}};
  std::byte* x = nullptr;
  const HostTensor input = make_tensor(NACRE_f32, {1000}, &x);
  std::memset(x, 0, input.size_bytes);
  Decisions decisions;
  EXPECT_EQ(tune(artifact, 0, [&] { return std::vector<HostTensor>{input}; }, NACRE_DEVICE_ANY, {}, decisions).measured, 1u);
  const std::string choice = decisions.made.at(question).choice;
  EXPECT_EQ(variant.commands[0].target, choice == "by two" ? 0u : 1u) << choice;
  // What is decided is not measured again.
  for (const auto& [other, kernel] : {std::pair{"by three", 1u}, {"by two", 0u}}) {
    decisions.made.at(question).choice = other;
    EXPECT_EQ(tune(artifact, 0, [&] { return std::vector<HostTensor>{input}; }, NACRE_DEVICE_ANY, {}, decisions).measured, 0u);
    EXPECT_EQ(variant.commands[0].target, kernel);
    EXPECT_EQ(variant.commands[0].threads, kernel);
    EXPECT_EQ(variant.commands[0].scratch, formats::Size::constant(kernel ? 64 : 0));
    EXPECT_EQ(variant.commands[1].target, 1u);
    EXPECT_NO_THROW(formats::artifact_bytes(artifact));
  }
  variant.candidates[1].kernel = 99;
  decisions.made.at(question).choice = "by three";
  apply(decisions, artifact);
  EXPECT_THROW(formats::artifact_bytes(artifact), formats::FormatError);
  variant.candidates.clear();
  variant.commands[0].target = 0;
  EXPECT_THROW(tune(artifact, 0, [&] { return std::vector<HostTensor>{input}; }, NACRE_DEVICE_ANY, {}, decisions), Error);
}

TEST(Tuning, AKernelThatDoesNotRunCostsNoMoreThanItsChoice) {
  const Target& target = find_target("native");
  const AlignedBytes bytes = scale_artifact(target);
  formats::Artifact artifact = formats::read_artifact(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  const formats::Size none = formats::Size::constant(0);
  const std::string first = target.name + ": first", second = target.name + ": second";
  formats::Variant& variant = artifact.entries[0].variants[0];
  variant.candidates = {{0, 0, 1, 0, none, first, "own"}, {0, 99, 1, 0, none, first, "broken"}, {1, 1, 1, 0, none, second, "own"}, {1, 0, 1, 0, none, second, "other"}};
  std::byte* x = nullptr;
  const HostTensor input = make_tensor(NACRE_f32, {1000}, &x);
  std::memset(x, 0, input.size_bytes);
  const auto inputs = [&] { return std::vector<HostTensor>{input}; };
  Decisions decisions;
  const TuningReport report = tune(artifact, 0, inputs, NACRE_DEVICE_ANY, {}, decisions);
  EXPECT_EQ(report.measured, 2u);
  ASSERT_EQ(report.failed.size(), 1u);
  EXPECT_NE(report.failed[0].find("first = broken: "), std::string::npos) << report.failed[0];
  EXPECT_EQ(decisions.made.at(first).choice, "own");
  EXPECT_EQ(variant.commands[0].target, 0u);
  EXPECT_EQ(variant.commands[1].target, decisions.made.at(second).choice == "own" ? 1u : 0u);
  // What is broken without any other choice is nobody's.
  variant.candidates[0].kernel = 99;
  decisions = {};
  EXPECT_THROW(tune(artifact, 0, inputs, NACRE_DEVICE_ANY, {}, decisions), Error);
}

TEST(Tuning, OtherMachinesAreNotMeasured) {
  CompileOptions options;
  options.target = "cortex-m4";
  options.decisions = std::make_shared<Decisions>();
  try {
    tune({product()}, options);
    FAIL() << "a microcontroller was measured";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_NE(std::string(error.what()).find("does not run code for cortex-m4: compile with --tune --tuning FILE on one that does"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nacre
