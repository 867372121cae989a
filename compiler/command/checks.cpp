#include "compiler/command/checks.h"

#include "compiler/command/cases.h"
#include "compiler/command/imports.h"
#include "compiler/command/remote.h"
#include "compiler/command/stages.h"
#include "compiler/support/error.h"
#include "compiler/variants.h"

namespace nacre {
namespace {

std::vector<std::int64_t> dense(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

void place_together(CaseSet& set) {
  std::int64_t end = 0;  // in bytes
  for (std::size_t i = 0; i < set.inputs.size(); ++i) {
    const HostTensor& tensor = set.inputs[i];
    set.places.push_back({dense(tensor.shape), end / nacre_dtype_size_bytes(tensor.dtype)});
    end += static_cast<std::int64_t>(tensor.size_bytes + 63) / 64 * 64;
    set.shared.push_back(i);
  }
}

// The inputs that are named lie channels-last, all others as they do.
void place_channels_last(CaseSet& set, const std::vector<std::size_t>& inputs) {
  for (const HostTensor& tensor : set.inputs) set.places.push_back({dense(tensor.shape), 0});
  for (const std::size_t i : inputs) {
    const std::vector<std::int64_t>& shape = set.inputs[i].shape;
    std::vector<std::int64_t>& strides = set.places[i].strides;
    std::int64_t step = shape[1];
    strides[1] = 1;
    for (std::size_t d = shape.size(); d-- > 2; step *= shape[d]) strides[d] = step;
    strides[0] = step;
  }
}

}  // namespace

std::vector<std::string> check_variants(const Program& captured, const CompiledModel& model,
                                        std::uint32_t entry, const std::string& path,
                                        const Imports& imports) {
  const std::vector<formats::Variant>& variants = model.artifact.entries[entry].variants;
  std::vector<std::string> lines;
  std::string excuse;
  if (captured.sample_inputs.empty())
    for (const GraphInput& input : captured.graph.inputs)
      if (input.kind == InputKind::user) excuse = "not checked: the program holds no sample inputs";
  const std::string imported = library_functions(captured.graph);
  if (!imported.empty() && imports.empty())
    excuse = fmt::format("not checked: only the application can compute {} (--import LIBRARY.so runs it)", imported);
  if (!excuse.empty()) return std::vector<std::string>(variants.size(), excuse);

  for (std::size_t v = 0; v < variants.size(); ++v) {
    const Target& target = target_of(model.artifact, variants[v]);
    const Remote remote = runs_here(target) ? Remote{} : find_remote(target);
    if (!remote.missing.empty()) {
      lines.push_back("not checked: " + remote.missing);
      continue;
    }
    const VariantKind kind = model.kinds[entry][v];
    Case the_case;
    the_case.name = path;
    the_case.program = path;
    if (kind != VariantKind::general) {
      auto inputs = fit_samples(captured, model.narrowings[entry][v]);
      if (!inputs) {
        lines.push_back("not checked: no sizes were found that it takes");
        continue;
      }
      CaseSet set;
      set.name = "sample inputs";
      set.inputs = std::move(*inputs);
      the_case.sets.push_back(std::move(set));
    }
    const std::unique_ptr<Runner> runner = make_artifact_runner(
        variants.size() == 1 ? model.artifact : variant_alone(model.artifact, entry, v), entry, 1, imports);
    if (!imported.empty()) {
      (void)runner->call(the_case.sets.empty() ? captured.sample_inputs : the_case.sets[0].inputs);
      lines.push_back(fmt::format("runs; not compared with PyTorch: only the application can compute {}", imported));
      continue;
    }
    for (const formats::State& state : model.artifact.states)
      if (state.name == kRandomState) the_case.shape_only = true;
    complete(the_case, captured);
    // Inputs in one storage, where they lie side by side: what they give apart.
    if (kind == VariantKind::sharing) place_together(the_case.sets[0]);
    const std::vector<std::size_t>& channels_last = model.narrowings[entry][v].channels_last;
    if (!channels_last.empty()) place_channels_last(the_case.sets[0], channels_last);
    const Comparison result = check_sets(the_case, captured, Stage::artifact, *runner);
    if (!result.passed)
      fail(ErrorKind::internal,
           "the artifact{} does not give PyTorch's result, so it was not written (--no-check writes "
           "it all the same): {}",
           variants.size() == 1 ? "" : fmt::format("'s variant '{}'", variants[v].name), result.reason);
    lines.push_back(the_case.shape_only ? "random numbers: the shapes are as PyTorch's" : describe(result));
    if (!remote.command.empty()) lines.back() += " (under " + remote.command[0] + ")";
  }
  return lines;
}

}  // namespace nacre
