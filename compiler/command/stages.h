// The stages of the pipeline by name; a program taken to one of them, run there, and compared with
// PyTorch.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/command/cases.h"
#include "compiler/command/compare.h"
#include "compiler/compile.h"
#include "compiler/frontend.h"
#include "compiler/graph/graph.h"

namespace nacre {

// In the order of the pipeline: graphs up to `primitive`, loop programs up to `layout`.
enum class Stage { captured, functional, primitive, lowered, loops, layout, source, artifact };
// What `nacre lower` reads and prints, and what `nacre verify` runs.
inline constexpr Stage kTextStages[] = {Stage::captured, Stage::functional, Stage::primitive,
                                        Stage::lowered,  Stage::loops,      Stage::layout,
                                        Stage::source};
inline constexpr Stage kRunStages[] = {Stage::captured, Stage::functional, Stage::primitive,
                                       Stage::loops, Stage::artifact};
const char* stage_name(Stage stage);
std::string stage_names(std::span<const Stage> stages);
// One of `among`; Error{user} lists their names.
Stage stage_of(const std::string& name, std::span<const Stage> among);

// What one call leaves behind.
struct CallResult {
  std::vector<HostTensor> outputs;
  std::map<int, HostTensor> after_inputs;           // of mutated inputs, by position
  std::map<std::string, HostTensor> after_buffers;  // of mutated buffers, by name
};

// A program at some stage that can be called; its state is carried from call to call.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void reset() = 0;  // back to the initial state
  // Throws what the stage throws; a refusal of the inputs or an error in the data is Error{user}.
  virtual CallResult call(const std::vector<HostTensor>& inputs) = 0;
  // The inputs of a set as they lie in memory; only a runner with memory of its own can tell.
  virtual CallResult call(const CaseSet& set) { return call(set.inputs); }
};

std::unique_ptr<Runner> make_graph_runner(const Program& program, OracleType type);
std::unique_ptr<Runner> make_loops_runner(const Program& primitive);
// In the runtime of this process, or, where this machine runs none of the entry's variants, in the
// emulator of the first one's; Error{environment} where that is not there.
std::unique_ptr<Runner> make_artifact_runner(const formats::Artifact& artifact, std::uint32_t entry,
                                             unsigned threads, const Imports& imports = {});

// Takes a program through the stages, one at a time, each made from the one before when it is first
// asked for.
class Pipeline {
 public:
  Pipeline(Program captured, CompileOptions options, unsigned threads, Imports imports = {});
  std::unique_ptr<Runner> runner(Stage stage);
  const Program& captured() const { return captured_; }
  const CompiledModel& model();
  // Its results are random numbers: only their shapes can be compared.
  bool is_random();

 private:
  const Program& functional();
  const Program& primitive();

  Program captured_;
  CompileOptions options_;
  unsigned threads_;
  Imports imports_;
  std::unique_ptr<Program> functional_;
  std::unique_ptr<Program> primitive_;
  std::unique_ptr<CompiledModel> model_;
};

// A program as an entry, with its form for inputs that share memory.
Method make_method(std::string name, Program functional, const Graph& captured);

// Fills in what the case does not say: the sets of a bare program (its sample inputs), PyTorch's
// results, and their float64 references. Error{user} for a program without sample inputs, and for one
// of operators that only the application can compute where the case has no results.
void complete(Case& the_case, const Program& captured);

// Runs every set and compares by the rule. The result is the output nearest to (or farthest beyond)
// its limit; its reason names the set and the output. Where one is beyond it, PyTorch's own error is
// measured on values next to the inputs, too (own_error.h), and stays with the case.
Comparison check_sets(Case& the_case, const Program& captured, Stage stage, Runner& runner);

}  // namespace nacre
