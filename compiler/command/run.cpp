// nacre run: one call of an artifact, arrays in files.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "compiler/command/inputs.h"
#include "compiler/command/model.h"
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
  std::vector<std::string> inputs;
  std::string input_folder;
  std::string output_folder;
  std::string state_folder;
  unsigned threads = 1;
};

// Names of buffers are dotted; a separator in one must not lead out of the folder.
fs::path state_path(const fs::path& folder, const char* name) {
  std::string file = name;
  std::replace(file.begin(), file.end(), '/', '_');
  return folder / (file + ".npy");
}

struct StateInfo {
  nacre_tensor_info info{};
  std::vector<std::int64_t> shape;
};

StateInfo state_info(const Model& model, std::uint32_t state) {
  StateInfo out;
  std::int64_t shape[16] = {};
  require(nacre_state_info(model.get(), state, &out.info, shape), "");
  out.shape.assign(shape, shape + out.info.rank);
  return out;
}

void read_state(const Model& model, Session& session, const fs::path& folder) {
  for (std::uint32_t i = 0; i < nacre_state_count(model.get()); ++i) {
    const StateInfo state = state_info(model, i);
    const fs::path path = state_path(folder, state.info.name);
    if (!fs::exists(path)) continue;
    const HostTensor tensor = read_npy(path);
    if (tensor.shape != state.shape || tensor.size_bytes != nacre_state_size_bytes(model.get(), i))
      fail(ErrorKind::user, "{} does not fit the state of {}: it is another model's", path.string(),
           model.name());
    std::copy_n(tensor.data.get(), tensor.size_bytes,
                static_cast<std::byte*>(nacre_session_state(session.get(), i)));
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

void write_state(const Model& model, Session& session, const fs::path& folder) {
  make_folder(folder);
  for (std::uint32_t i = 0; i < nacre_state_count(model.get()); ++i) {
    const StateInfo state = state_info(model, i);
    std::byte* bytes = nullptr;
    const HostTensor tensor =
        make_tensor(static_cast<nacre_dtype>(state.info.dtype), state.shape, &bytes);
    std::copy_n(static_cast<const std::byte*>(nacre_session_state(session.get(), i)),
                tensor.size_bytes, bytes);
    write_npy(state_path(folder, state.info.name), tensor);
  }
}

int run(const RunOptions& options) {
  const Model model = Model::open(options.model);
  const std::uint32_t entry = model.entry(options.entry);
  std::vector<HostTensor> inputs;
  for (const std::string& path : options.inputs) inputs.push_back(read_npy(path));
  if (!options.input_folder.empty())
    inputs = read_inputs(options.input_folder, model.input_count(entry));

  nacre_session_options session_options{};
  session_options.threads = options.threads;
  Session session(model, session_options);
  if (!options.state_folder.empty() && fs::exists(options.state_folder))
    read_state(model, session, options.state_folder);
  Session::Call call = session.prepare(entry, inputs);
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
  verb->add_option("--entry", options->entry, "which entry of the artifact; default: the first");
  verb->add_option("--threads", options->threads, "default: 1")->check(CLI::Range(1, 1024));
  return [options] { return run(*options); };
}

}  // namespace nacre
