#include "compiler/command/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "compiler/command/exporter.h"
#include "compiler/command/program.h"
#include "compiler/graph/cut.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"

namespace nacre {
namespace {

constexpr int kMostTries = 300;
constexpr std::size_t kMostBodies = 16;  // calls of bodies that are looked into

// What is wrong with a program at a stage.
struct Failure {
  std::optional<ErrorKind> error;  // absent: a wrong result
  std::string reason;

  // An error says the same up to the first name or number.
  bool is_like(const Failure& other) const { return error == other.error && (!error || head() == other.head()); }
  std::string head() const { return reason.substr(0, reason.find_first_of("0123456789%'")); }
};

class Bisection {
 public:
  Bisection(Stage stage, const CompileOptions& options, unsigned threads) : stage_(stage), options_(options), threads_(threads) {
    options_.variants.clear();  // a part has other inputs
  }

  // Nothing if the stage agrees with PyTorch, or if PyTorch itself does not run the program.
  std::optional<Failure> failure_of(const Program& program) const {
    Case alone;
    alone.name = "part";
    try {
      verify(program.graph);
      complete(alone, program);
    } catch (const Error&) {
      return std::nullopt;
    }
    try {
      Pipeline pipeline(program, options_, threads_);
      const Comparison result = check_sets(alone, program, stage_, *pipeline.runner(stage_));
      if (result.passed) return std::nullopt;
      return Failure{std::nullopt, result.reason};
    } catch (const Error& error) {
      return Failure{error.kind, error.message};
    }
  }

 private:
  Stage stage_;
  CompileOptions options_;
  unsigned threads_;
};

// The values of all symbols that are the size of a tensor.
std::map<std::string, int64_t> sizes_in(const Graph& graph, const std::map<ValueId, HostTensor>& tensors) {
  std::map<std::string, int64_t> result;
  for (const auto& [v, tensor] : tensors) {
    const std::vector<Expr>& shape = graph[v].shape;
    for (std::size_t d = 0; d < shape.size() && d < tensor.shape.size(); ++d)
      if (shape[d].op() == ExprOp::symbol) result.emplace(shape[d].name(), tensor.shape[d]);
  }
  return result;
}

// What PyTorch computes for every tensor of the graph. (Of a captured graph: what is there at the end.)
std::map<ValueId, HostTensor> all_values(const Program& program) {
  Graph graph = program.graph;
  graph.outputs.clear();
  std::map<ValueId, HostTensor> result;
  std::size_t next = 0;
  for (const GraphInput& input : graph.inputs)
    if (input.kind == InputKind::user) result.emplace(input.value, program.sample_inputs.at(next++));
  std::vector<ValueId> order;
  for (const Node& node : graph.nodes)
    for (ValueId v : node.outputs)
      if (v != kNoValue && graph[v].kind == ValueKind::tensor) {
        order.push_back(v);
        graph.outputs.push_back({ValueRef{v}, OutputKind::user, {}});
      }
  const std::vector<HostTensor> values = frontend().run_eager(graph, program.weights, program.sample_inputs, OracleType::own);
  for (std::size_t i = 0; i < order.size(); ++i) result.emplace(order[i], values.at(i));
  return result;
}

Program with_inputs(Graph graph, const Program& whole, const std::map<ValueId, HostTensor>& values) {
  Program part;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind == InputKind::user)
      part.sample_inputs.push_back(values.at(input.value));
    else if (const auto found = whole.weights.find(input.target); found != whole.weights.end())
      part.weights.insert(*found);
  }
  part.graph = std::move(graph);
  return part;
}

// Parameters and buffers as inputs: one file says all.
Program with_weights_as_inputs(const Program& program) {
  Program result;
  result.graph = program.graph;
  std::size_t next = 0;
  for (GraphInput& input : result.graph.inputs) {
    if (input.kind == InputKind::user) {
      result.sample_inputs.push_back(program.sample_inputs.at(next++));
      continue;
    }
    result.sample_inputs.push_back(program.weights.at(input.target));
    input.kind = InputKind::user;
    input.target = result.graph[input.value].name;
  }
  return result;
}

using Fails = std::function<bool(const Program&)>;

// Nothing of the result can be left out alone. `whole` fails.
Program smallest_of(Program whole, const Fails& fails) {
  const std::map<ValueId, HostTensor> values = all_values(whole);
  Program fixed = whole;
  fixed.graph = specialised(whole.graph, sizes_in(whole.graph, values));
  if (!whole.graph.symbols.empty() && fails(fixed)) whole = std::move(fixed);

  const Part part = smallest_part(
      whole.graph, [&](const Graph& graph) { return fails(with_inputs(graph, whole, values)); }, kMostTries);
  const std::optional<Graph> graph = cut(whole.graph, part);
  check(graph.has_value(), "the part that fails cannot be cut out");
  Program smallest = with_inputs(*graph, whole, values);
  if (Program alone = with_weights_as_inputs(smallest); fails(alone)) smallest = std::move(alone);
  return smallest;
}

// A body of control flow that fails by itself on what it is given at some time: if it can be, at a time when a body of its own
// fails (a branch that is not taken is given nothing).
std::optional<Program> failing_body(const Program& program, const Fails& fails) {
  if (program.graph.subgraphs.empty()) return std::nullopt;
  std::optional<Program> first;
  for (BodyCall& call : frontend().body_calls(program.graph, program.weights, program.sample_inputs, kMostBodies)) {
    Program body;
    body.graph = specialised(program.graph.subgraphs.at(call.body), call.symbols);
    body.graph.level = program.graph.level;
    body.sample_inputs = std::move(call.inputs);
    if (!fails(body)) continue;
    if (body.graph.subgraphs.empty() || failing_body(body, fails)) return body;
    if (!first) first = std::move(body);
  }
  return first;
}

void write(const Program& program, const std::filesystem::path& file, const std::string& about) {
  const std::filesystem::path folder = file.parent_path();
  make_folder(folder);
  write_file(file, "# " + about + "\n" + print(program.graph));
  for (std::size_t i = 0; i < program.sample_inputs.size(); ++i)
    write_npy(folder / fmt::format("input_{}.npy", i), program.sample_inputs[i]);
  if (!program.weights.empty()) make_folder(folder / "weights");
  for (const auto& [name, tensor] : program.weights) write_npy(folder / "weights" / (weight_file(name) + ".npy"), tensor);
}

}  // namespace

std::optional<Reproduction> bisect(const Case& the_case, const Program& captured, Stage stage, const CompileOptions& options,
                                   unsigned threads, const std::filesystem::path& folder) {
  const Bisection bisection(stage, options, threads);
  Program whole = captured;
  if (stage > Stage::functional) whole.graph = frontend().functionalize(captured.graph);
  std::optional<Failure> wanted;
  for (const CaseSet& set : the_case.sets) {
    if (set.refuse || !set.shared.empty()) continue;
    whole.sample_inputs = set.inputs;
    wanted = bisection.failure_of(whole);
    if (wanted) break;
  }
  if (!wanted) return std::nullopt;

  const Fails fails = [&](const Program& part) {
    const std::optional<Failure> failure = bisection.failure_of(part);
    return failure && failure->is_like(*wanted);
  };
  const std::size_t of_nodes = whole.graph.nodes.size();
  Program smallest = smallest_of(std::move(whole), fails);
  while (std::optional<Program> body = failing_body(smallest, fails)) smallest = smallest_of(std::move(*body), fails);

  Reproduction result;
  const std::string name = std::filesystem::path(the_case.name).stem().string();
  result.file = folder / name / (name + ".ir");
  result.nodes = smallest.graph.nodes.size();
  result.of_nodes = of_nodes;
  const std::optional<Failure> failure = bisection.failure_of(smallest);
  result.reason = failure ? failure->reason : wanted->reason;
  write(smallest, result.file, fmt::format("stage {}: {}", stage_name(stage), result.reason.substr(0, result.reason.find('\n'))));
  return result;
}

}  // namespace nacre
