#include "compiler/command/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <variant>

#include "compiler/command/exporter.h"
#include "compiler/command/imports.h"
#include "compiler/command/library_runner.h"
#include "compiler/command/own_error.h"
#include "compiler/command/remote.h"
#include "compiler/loops/interpret.h"
#include "compiler/run.h"
#include "compiler/support/error.h"
#include "compiler/support/print.h"

namespace nacre {
namespace {

constexpr const char* kStageNames[] = {"captured", "functional", "primitive", "lowered",
                                       "loops",    "layout",     "source",    "artifact"};

// Position of a user input by its name in the signature.
int input_position(const Graph& graph, const std::string& target) {
  int position = 0;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != InputKind::user) continue;
    if (input.target == target) return position;
    ++position;
  }
  fail(ErrorKind::internal, "output mutates input '{}', which does not exist", target);
}

// A captured graph mutates in place and does not say what. As an output, an input gives what it
// holds at the end.
void show_mutations(Graph& graph) {
  std::set<std::string> told;
  for (const GraphOutput& output : graph.outputs)
    if (output.kind != OutputKind::user) told.insert(output.target);
  for (const GraphInput& input : graph.inputs) {
    const bool user = input.kind == InputKind::user;
    if (!user && input.kind != InputKind::buffer) continue;
    if (graph[input.value].kind != ValueKind::tensor || told.count(input.target)) continue;
    graph.outputs.push_back({ValueRef{input.value},
                             user ? OutputKind::input_mutation : OutputKind::buffer_mutation,
                             input.target});
  }
}

// Graphs of the three levels, operator by operator in libtorch.
class GraphRunner : public Runner {
 public:
  GraphRunner(const Program& program, OracleType type)
      : program_(program), weights_(program.weights), type_(type) {
    if (program_.graph.level == Level::captured) show_mutations(program_.graph);
  }

  void reset() override { weights_ = program_.weights; }

  CallResult call(const std::vector<HostTensor>& inputs) override {
    const Graph& graph = program_.graph;
    const std::vector<HostTensor> all = frontend().run_eager(graph, weights_, inputs, type_);
    check(all.size() == graph.outputs.size(), "the graph has {} outputs, the executor gave {}",
          graph.outputs.size(), all.size());
    CallResult result;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const GraphOutput& output = graph.outputs[i];
      switch (output.kind) {
        case OutputKind::user:
          if (!std::holds_alternative<std::monostate>(output.value))
            result.outputs.push_back(all[i]);
          break;
        case OutputKind::buffer_mutation:
          weights_[output.target] = all[i];
          result.after_buffers[output.target] = all[i];
          break;
        case OutputKind::input_mutation:
          result.after_inputs[input_position(graph, output.target)] = all[i];
          break;
      }
    }
    return result;
  }

 private:
  Program program_;
  std::map<std::string, HostTensor> weights_;
  OracleType type_;
};

// The loop program in the interpreter.
class LoopsRunner : public Runner {
 public:
  explicit LoopsRunner(const Program& primitive)
      : program_(to_loops(primitive.graph)),
        initial_(primitive.weights),
        weights_(primitive.weights) {}

  void reset() override { weights_ = initial_; }

  CallResult call(const std::vector<HostTensor>& inputs) override {
    Mutated mutated;
    CallResult result;
    result.outputs = interpret(program_, weights_, inputs, &mutated);
    for (std::size_t i = 0; i < mutated.inputs.size(); ++i)
      result.after_inputs[program_.input_mutations.at(i).input] = mutated.inputs[i];
    result.after_buffers = mutated.states;
    for (const auto& [name, value] : mutated.states) weights_[name] = value;
    return result;
  }

 private:
  LoopProgram program_;
  std::map<std::string, HostTensor> initial_;
  std::map<std::string, HostTensor> weights_;
};

// The artifact's bytes in the real runtime.
class ArtifactRunner : public Runner {
 public:
  ArtifactRunner(const formats::Artifact& artifact, std::uint32_t entry, unsigned threads,
                 const Imports& imports)
      : entry_(entry),
        bytes_(artifact_memory(artifact)),
        model_(RuntimeModel::open(bytes_, "the artifact", imports)),
        session_(model_, with_threads(threads)) {}

  void reset() override { nacre_session_reset(session_.get()); }

  CallResult call(const std::vector<HostTensor>& inputs) override { return run(inputs, {}); }
  CallResult call(const CaseSet& set) override {
    return run(set.inputs, PlacedInputs(set.inputs, set.places, set.shared));
  }

 private:
  CallResult run(const std::vector<HostTensor>& inputs, PlacedInputs placed) {
    RuntimeSession::Call call = session_.prepare(entry_, inputs, std::move(placed));
    session_.run(call);
    CallResult result;
    result.outputs = call.outputs;
    for (std::uint32_t i = 0; i < call.inputs.size(); ++i)
      if (model_.input(entry_, i).mutated)
        result.after_inputs[static_cast<int>(i)] = call.input(i);
    for (std::uint32_t i = 0; i < model_.state_count(); ++i)
      result.after_buffers[model_.state_name(i)] = session_.state(i);
    return result;
  }

  static nacre_session_options with_threads(unsigned threads) {
    nacre_session_options options{};
    options.threads = threads;
    return options;
  }

  std::uint32_t entry_;
  AlignedBytes bytes_;
  RuntimeModel model_;
  RuntimeSession session_;
};

bool is_double_of(const HostTensor& wide, const HostTensor& narrow) {
  return is_double(wide.dtype) && wide.shape == narrow.shape;
}

// By the case's own tolerance, the way torch.isclose has it.
bool within(const std::optional<Tolerance>& tolerance, const HostTensor& result,
            const HostTensor& expected) {
  if (!tolerance || result.dtype != expected.dtype || result.shape != expected.shape) return false;
  const std::optional<std::vector<double>> ours = as_doubles(result);
  const std::optional<std::vector<double>> torch = as_doubles(expected);
  if (!ours || !torch) return false;
  for (std::size_t i = 0; i < ours->size(); ++i) {
    const double a = (*ours)[i];
    const double b = (*torch)[i];
    if (a == b || (a != a && b != b)) continue;
    if (!(std::abs(a - b) <= tolerance->absolute + tolerance->relative * std::abs(b))) return false;
  }
  return true;
}

// True if export assumed something of the sizes that does not hold for these inputs: PyTorch's own
// exported program refuses them, even where eager code answers.
bool breaks_an_assumption(const Graph& graph, const CaseSet& set) {
  std::map<std::string, std::int64_t> sizes;
  std::size_t next = 0;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind != InputKind::user) continue;
    if (next == set.inputs.size()) return false;
    const Value& value = graph[input.value];
    const HostTensor& given = set.inputs[next++];
    if (value.kind == ValueKind::integer && value.expr.op() == ExprOp::symbol &&
        given.dtype == NACRE_i64 && given.elements() == 1)
      sizes[value.expr.name()] = given.as<std::int64_t>()[0];
    if (value.kind != ValueKind::tensor || value.shape.size() != given.shape.size()) continue;
    for (std::size_t d = 0; d < given.shape.size(); ++d)
      if (value.shape[d].op() == ExprOp::symbol) sizes[value.shape[d].name()] = given.shape[d];
  }
  const auto is_not = [&](const Expr& e, std::int64_t value) {
    const std::set<std::string> names = e.symbols();
    const bool is_known = std::all_of(names.begin(), names.end(), [&](const std::string& name) { return sizes.count(name) != 0; });
    return is_known && e.evaluate(sizes) != value;
  };
  for (const Expr& e : graph.assumptions)
    if (is_not(e, 1)) return true;
  // The program has a result of another shape than eager code: `x[-2:]` of one row, `x.squeeze()` where a size is 1.
  std::size_t position = 0;
  for (const GraphOutput& output : graph.outputs) {
    if (output.kind != OutputKind::user || std::holds_alternative<std::monostate>(output.value)) continue;
    if (position == set.outputs.size()) break;
    const std::vector<std::int64_t>& shape = set.outputs[position++].shape;
    const auto* value = std::get_if<ValueRef>(&output.value);
    if (!value || graph[value->id].kind != ValueKind::tensor) continue;
    const std::vector<Expr>& recorded = graph[value->id].shape;
    if (recorded.size() != shape.size()) return true;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (is_not(recorded[d], shape[d])) return true;
  }
  return false;
}

// A buffer's own dtype: a file of bfloat16 has its bits as integers.
void name_dtypes(CaseSet& set, const Program& captured) {
  for (auto& [name, after] : set.after_buffers)
    if (const HostTensor* before = found_in(captured.weights, name); before && before->dtype == NACRE_bf16 && after.dtype == NACRE_u16)
      after.dtype = NACRE_bf16;
}

void name_reason(Comparison& comparison, const std::string& what) {
  if (!comparison.passed) comparison.reason = what + ": " + comparison.reason;
}

Comparison failure(std::string reason) {
  Comparison result;
  result.passed = false;
  result.reason = std::move(reason);
  result.error = std::numeric_limits<double>::infinity();
  return result;
}

template <typename Key>
double value_or_0(const std::map<Key, double>& map, const Key& key) {
  const double* found = found_in(map, key);
  return found ? *found : 0;
}

Comparison compare_call(const Case& the_case, const CaseSet& set, const CallResult& result) {
  Comparison worst;
  const auto add = [&](const HostTensor& ours, const HostTensor& expected,
                       const HostTensor* reference, double own_error, const std::string& what) {
    Comparison one = the_case.shape_only ? compare_shape(ours, expected)
                                         : compare(ours, expected, reference, own_error, the_case.neighbours);
    if (!one.passed && within(the_case.tolerance, ours, expected)) one = {};
    name_reason(one, fmt::format("{}, {}", set.name, what));
    merge(worst, one);
  };
  if (result.outputs.size() != set.outputs.size())
    return failure(fmt::format("{}: {} outputs, PyTorch has {}", set.name, result.outputs.size(),
                               set.outputs.size()));
  const OwnErrors& own = set.own_errors;
  for (std::size_t i = 0; i < set.outputs.size(); ++i)
    add(result.outputs[i], set.outputs[i], set.output64(i),
        i < own.outputs.size() ? own.outputs[i] : 0, fmt::format("output {}", i));
  if (the_case.shape_only) return worst;
  for (const auto& [position, ours] : result.after_inputs)
    if (const auto found = set.after_inputs.find(position); found != set.after_inputs.end())
      add(ours, found->second, found_in(set.after_inputs64, position), value_or_0(own.after_inputs, position),
          fmt::format("input {} after the call", position));
  for (const auto& [name, ours] : result.after_buffers)
    if (const auto found = set.after_buffers.find(name); found != set.after_buffers.end())
      add(ours, found->second, found_in(set.after_buffers64, name), value_or_0(own.after_buffers, name),
          fmt::format("buffer {} after the call", name));
  return worst;
}

}  // namespace

const char* stage_name(Stage stage) { return kStageNames[static_cast<int>(stage)]; }

std::string stage_names(std::span<const Stage> stages) {
  std::vector<std::string> names;
  for (const Stage stage : stages) names.push_back(stage_name(stage));
  return joined(names);
}

Stage stage_of(const std::string& name, std::span<const Stage> among) {
  for (const Stage stage : among)
    if (name == stage_name(stage)) return stage;
  fail(ErrorKind::user, "no stage '{}'; there are {}", name, stage_names(among));
}

std::unique_ptr<Runner> make_graph_runner(const Program& program, OracleType type) {
  return std::make_unique<GraphRunner>(program, type);
}

std::unique_ptr<Runner> make_loops_runner(const Program& primitive) {
  return std::make_unique<LoopsRunner>(primitive);
}

std::unique_ptr<Runner> make_artifact_runner(const formats::Artifact& artifact, std::uint32_t entry,
                                             unsigned threads, const Imports& imports) {
  for (const formats::Variant& variant : artifact.entries.at(entry).variants)
    // Whether there is a device for it, the runtime finds out.
    if (const Target& target = target_of(artifact, variant); target.compute_capability || runs_here(target)) return std::make_unique<ArtifactRunner>(artifact, entry, threads, imports);
  const Remote remote = find_remote(target_of(artifact, artifact.entries[entry].variants[0]));
  if (remote.command.empty()) fail(ErrorKind::environment, "{}", remote.missing);
  return make_remote_runner(artifact, entry, threads, remote.command);
}

Pipeline::Pipeline(Program captured, CompileOptions options, unsigned threads, Imports imports)
    : captured_(std::move(captured)),
      options_(std::move(options)),
      threads_(threads),
      imports_(std::move(imports)) {}

const Program& Pipeline::functional() {
  if (!functional_) {
    auto made = std::make_unique<Program>(captured_);
    if (made->graph.level == Level::captured) made->graph = frontend().functionalize(captured_.graph);
    functional_ = std::move(made);
  }
  return *functional_;
}

const Program& Pipeline::primitive() {
  if (!primitive_) primitive_ = std::make_unique<Program>(to_primitive(functional()));
  return *primitive_;
}

bool Pipeline::is_random() {
  try {
    const std::vector<GraphInput>& inputs = primitive().graph.inputs;
    return std::any_of(inputs.begin(), inputs.end(), [](const GraphInput& input) { return input.target == kRandomState; });
  } catch (const Error&) {
    return false;  // the stage at which it fails tells
  }
}

const CompiledModel& Pipeline::model() {
  if (!model_) {
    std::vector<Method> methods;
    methods.push_back(make_method(captured_.graph.name, functional(), captured_.graph));
    model_ = std::make_unique<CompiledModel>(compile(std::move(methods), options_));
  }
  return *model_;
}

std::unique_ptr<Runner> Pipeline::runner(Stage stage) {
  switch (stage) {
    case Stage::captured:
      return make_graph_runner(captured_, OracleType::own);
    case Stage::functional:
      return make_graph_runner(functional(), OracleType::own);
    case Stage::primitive:
      return make_graph_runner(primitive(), OracleType::own);
    case Stage::loops:
      return make_loops_runner(primitive());
    case Stage::artifact:
      model();
      if (!options_.library.empty())
        return make_library_runner(
            *model_, make_library(*model_, options_.library, captured_.graph.name, options_), 0);
      return make_artifact_runner(model_->artifact, 0, threads_, imports_);
    default:
      break;
  }
  fail(ErrorKind::internal, "no such stage");
}

Method make_method(std::string name, Program functional, const Graph& captured) {
  Method method{std::move(name), std::move(functional)};
  method.overlap = frontend().overlapping(captured);
  if (method.overlap) method.overlap->graph = frontend().functionalize(method.overlap->graph);
  return method;
}

void complete(Case& the_case, const Program& captured) {
  if (the_case.sets.empty()) {
    CaseSet sample;
    sample.name = "sample inputs";
    sample.inputs = captured.sample_inputs;
    std::size_t wanted = 0;
    for (const GraphInput& input : captured.graph.inputs) wanted += input.kind == InputKind::user;
    if (sample.inputs.size() != wanted)
      fail(ErrorKind::user,
           "{} holds no sample inputs to check on: export it with torch.export.save, which keeps "
           "them",
           the_case.program.string());
    the_case.sets.push_back(std::move(sample));
  }
  if (the_case.shape_only && the_case.sets[0].known) return;

  const std::unique_ptr<Runner> eager = make_graph_runner(captured, OracleType::own);
  const std::unique_ptr<Runner> exact = make_graph_runner(captured, OracleType::wide);
  const std::string imported = library_functions(captured.graph);
  std::optional<OwnErrorEstimator> estimator;
  bool eager_in_step = true;  // false: an earlier set of the sequence did not run in float64
  for (CaseSet& set : the_case.sets) {
    name_dtypes(set, captured);
    if (breaks_an_assumption(captured.graph, set)) set.refuse = true;
    if (set.refuse || !set.shared.empty()) continue;
    if (!imported.empty()) {
      if (set.known) continue;
      fail(ErrorKind::user,
           "{} has no results of PyTorch to compare with, and only the application can compute {}: "
           "give a case folder that has them",
           set.name, imported);
    }
    if (!set.continues) {
      eager->reset();
      exact->reset();
      if (estimator) estimator->reset();
      eager_in_step = true;
    }
    if (!set.known) {
      CallResult result = eager->call(set.inputs);
      set.outputs = std::move(result.outputs);
      set.after_inputs = std::move(result.after_inputs);
      set.after_buffers = std::move(result.after_buffers);
      set.outputs64.assign(set.outputs.size(), std::nullopt);
    }
    if (!eager_in_step || the_case.shape_only) continue;
    try {
      CallResult wide = exact->call(set.inputs);
      for (std::size_t i = 0; i < std::min(wide.outputs.size(), set.outputs.size()); ++i)
        if (!set.outputs64[i] && is_double_of(wide.outputs[i], set.outputs[i]))
          set.outputs64[i] = std::move(wide.outputs[i]);
      for (auto& [position, after] : wide.after_inputs)
        if (const HostTensor* own = found_in(set.after_inputs, position); own && is_double_of(after, *own))
          set.after_inputs64.emplace(position, std::move(after));
      for (auto& [name, after] : wide.after_buffers)
        if (const HostTensor* own = found_in(set.after_buffers, name); own && is_double_of(after, *own))
          set.after_buffers64.emplace(name, std::move(after));
      if (!has_float64(set)) continue;
      if (!estimator) estimator = float64_estimator(captured);
      estimator->add(set);
    } catch (const Error& error) {
      // An operator without a float64 kernel: the result in the model's dtype stands alone.
      if (error.kind == ErrorKind::internal) throw;
      eager_in_step = false;
    }
  }
}

namespace {

Comparison check_once(const Case& the_case, Stage stage, Runner& runner) {
  Comparison worst;
  for (const CaseSet& set : the_case.sets) {
    // Only an artifact has guards, and memory in which inputs can overlap.
    if ((set.refuse || !set.shared.empty()) && stage != Stage::artifact) continue;
    if (!set.continues) runner.reset();
    CallResult result;
    try {
      result = runner.call(set);
    } catch (const Error& error) {
      if (set.refuse && error.kind == ErrorKind::user) continue;
      throw Error(error.kind, set.name + ": " + error.message, error.location);
    }
    if (set.refuse && !set.eager_answers) {
      merge(worst, failure(set.name + ": answered what must be refused"));
      continue;
    }
    if (!set.refuse || set.known) merge(worst, compare_call(the_case, set, result));
  }
  return worst;
}

}  // namespace

Comparison check_sets(Case& the_case, const Program& captured, Stage stage, Runner& runner) {
  const Comparison once = check_once(the_case, stage, runner);
  // One run of PyTorch's can round luckily where the values amplify what is rounded.
  if (once.passed || std::isinf(once.error) || the_case.neighbours || !library_functions(captured.graph).empty()) return once;
  measure_neighbours(the_case, captured);
  return check_once(the_case, stage, runner);
}

}  // namespace nacre
