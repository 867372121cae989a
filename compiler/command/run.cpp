// nacre run: one call of an artifact, arrays in files.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/command/imports.h"
#include "compiler/command/inputs.h"
#include "compiler/run.h"
#include "compiler/command/verbs.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  std::string model;
  std::string entry;
  std::string weights;
  std::vector<std::string> imports;
  std::vector<std::string> inputs;
  std::string input_folder;
  std::string output_folder;
  std::string state_folder;
  unsigned threads = 1;
  std::uint32_t device = NACRE_DEVICE_ANY;
  std::optional<std::uint64_t> seed;
};

// Names of buffers are dotted; a separator in one must not lead out of the folder.
fs::path state_path(const fs::path& folder, std::string file) {
  std::replace(file.begin(), file.end(), '/', '_');
  return folder / (file + ".npy");
}

void read_state(const RuntimeModel& model, RuntimeSession& session, const fs::path& folder) {
  std::uint32_t missing = 0;
  for (std::uint32_t i = 0; i < model.state_count(); ++i)
    missing += !fs::exists(state_path(folder, model.state_name(i)));
  if (missing == model.state_count()) return;  // before the first call
  for (std::uint32_t i = 0; i < model.state_count(); ++i) {
    const fs::path path = state_path(folder, model.state_name(i));
    try {
      session.set_state(i, read_npy(path));
    } catch (const Error& error) {
      throw Error(error.kind, path.string() + ": " + error.message, error.location);
    }
  }
}

// Files that are all written, or, as far as a failing disk lets us, not at all.
class Results {
 public:
  void add(fs::path path, const HostTensor& tensor) {
    try {
      write_npy(path, tensor);
    } catch (...) {
      for (const fs::path& done : written_) {
        std::error_code ignored;
        fs::remove(done, ignored);
      }
      throw;
    }
    written_.push_back(std::move(path));
  }

 private:
  std::vector<fs::path> written_;
};

void write_state(const RuntimeModel& model, const RuntimeSession& session, const fs::path& folder) {
  make_folder(folder);
  for (std::uint32_t i = 0; i < model.state_count(); ++i)
    write_npy(state_path(folder, model.state_name(i)), session.state(i));
}

int run(const RunOptions& options) {
  const RuntimeModel model = RuntimeModel::open(options.model, load_imports(options.imports), options.device, options.weights);
  const std::uint32_t entry = model.entry(options.entry);
  std::vector<HostTensor> inputs;
  for (const std::string& path : options.inputs) inputs.push_back(read_npy(path));
  if (!options.input_folder.empty())
    inputs = read_inputs(options.input_folder, model.input_count(entry));

  nacre_session_options session_options{};
  session_options.threads = options.threads;
  RuntimeSession session(model, session_options);
  if (!options.state_folder.empty() && fs::exists(options.state_folder))
    read_state(model, session, options.state_folder);
  if (options.seed) nacre_session_seed(session.get(), *options.seed);  // nothing to a model without random numbers
  RuntimeSession::Call call = session.prepare(entry, inputs);
  session.run(call);

  const fs::path folder = options.output_folder;
  make_folder(folder);
  Results results;
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    results.add(folder / fmt::format("output_{}.npy", i), call.outputs[i]);
  for (std::uint32_t i = 0; i < call.inputs.size(); ++i)
    if (model.input(entry, i).mutated)
      results.add(folder / fmt::format("after_input_{}.npy", i), call.inputs[i]);
  if (!options.state_folder.empty()) write_state(model, session, options.state_folder);
  return 0;
}

}  // namespace

Action add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* verb = app.add_subcommand("run", "run an artifact once on arrays in files");
  verb->add_option("model", options->model, "the artifact")->required()->type_name("MODEL.nacre");
  auto* files =
      verb->add_option("--input", options->inputs, "an input as .npy; once for each, in order")
          ->type_name("FILE.npy")
          ->take_all();
  verb->add_option("--inputs", options->input_folder, "a folder with input_0.npy, input_1.npy, ...")
      ->type_name("DIR")
      ->excludes(files);
  verb->add_option(
          "--output-dir", options->output_folder,
          "where output_I.npy go, and after_input_I.npy for inputs that the model writes into")
      ->type_name("DIR")
      ->required();
  verb->add_option("--state", options->state_folder,
                   "a folder that keeps the model's state between calls")
      ->type_name("DIR");
  add_import_option(*verb, options->imports);
  add_device_option(*verb, options->device);
  add_weights_option(*verb, options->weights);
  verb->add_option("--entry", options->entry, "which entry of the artifact; default: the first");
  verb->add_option("--seed", options->seed, "of the model's random numbers; default: PyTorch's, or what --state holds");
  verb->add_option("--threads", options->threads, "default: 1")->check(CLI::Range(1, 256));
  return [options] { return run(*options); };
}

}  // namespace nacre
