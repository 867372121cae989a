#include "compiler/command/cases.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/npy.h"

namespace nacre {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// bfloat16 and uint16 look the same in a file: case.json knows which it is.
HostTensor read_as(const fs::path& path, const std::string& dtype) {
  HostTensor tensor = read_npy(path);
  if (dtype == "bfloat16" && tensor.dtype == NACRE_u16) tensor.dtype = NACRE_bf16;
  return tensor;
}

std::string dtype_of(const Json& list, std::size_t index) {
  return list.is_array() && index < list.size() ? list[index].value("dtype", "") : "";
}

CaseSet read_set(const fs::path& folder, const std::string& name, const Json& info) {
  CaseSet set;
  set.name = name;
  set.refuse = info.value("refuse", false);
  set.continues = info.value("continues", false);
  set.eager_answers = info.value("eager", "answers") == "answers";
  const Json inputs = info.value("inputs", Json::array());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    set.inputs.push_back(read_as(folder / fmt::format("input_{}.npy", i), dtype_of(inputs, i)));
    InputPlace place;
    place.offset = inputs[i].value("offset", std::int64_t{0});
    place.strides = inputs[i].value("stride", std::vector<std::int64_t>{});
    if (place.strides.size() == set.inputs.back().shape.size())
      set.places.push_back(std::move(place));
    const fs::path after = folder / fmt::format("after_input_{}.npy", i);
    if (fs::exists(after))
      set.after_inputs.emplace(static_cast<int>(i), read_as(after, dtype_of(inputs, i)));
  }
  if (set.places.size() != set.inputs.size()) set.places.clear();
  const Json outputs = info.value("outputs", Json::array());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    set.outputs.push_back(read_as(folder / fmt::format("output_{}.npy", i), dtype_of(outputs, i)));
    const fs::path wide = folder / fmt::format("output64_{}.npy", i);
    set.outputs64.push_back(fs::exists(wide) ? std::optional(read_npy(wide)) : std::nullopt);
    // Of several outputs, those of 16 bits may not have been widened: such a file is the result itself.
    if (const auto& w = set.outputs64.back(); w && w->dtype != NACRE_f64 && w->dtype != NACRE_c128) set.outputs64.back().reset();
  }
  set.known = info.contains("outputs");
  constexpr std::string_view kBuffer = "after_buffer_";
  if (!fs::is_directory(folder)) return set;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().stem().string();
    if (file.starts_with(kBuffer) && entry.path().extension() == ".npy")
      set.after_buffers.emplace(file.substr(kBuffer.size()), read_npy(entry.path()));
  }
  return set;
}

}  // namespace

Case read_case(const fs::path& path) {
  Case result;
  if (!fs::is_directory(path)) {
    result.name = path.string();
    result.program = path;
    return result;
  }
  const fs::path folder = path.lexically_normal();
  result.name =
      folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
  result.program = folder / "model.pt2";
  const fs::path file = folder / "case.json";
  if (!fs::exists(file)) return result;
  try {
    const nlohmann::ordered_json info = nlohmann::ordered_json::parse(read_file(file));
    if (info.contains("capture_error"))
      fail(ErrorKind::user, "{}: torch.export refused this case: {}", file.string(),
           info["capture_error"].get<std::string>());
    result.name = info.value("name", result.name);
    result.program = folder / info.value("program", "model.pt2");
    result.examples = info.value("examples", std::vector<std::string>());
    result.variants = info.value("variants", std::vector<std::string>());
    result.shape_only = info.value("expect", "value") == "shape_only";
    if (info.contains("tol") && info["tol"].is_array() && info["tol"].size() == 2)
      result.tolerance = {info["tol"][0].get<double>(), info["tol"][1].get<double>()};
    for (const auto& [name, set] : info.at("sets").items())
      result.sets.push_back(read_set(folder / name, name, Json(set)));
    // Of a case about aliased inputs, the last of the other sets is the one whose inputs overlap.
    if (info.contains("alias") && info["alias"].is_array())
      for (std::size_t i = result.sets.size(); i-- > 0;)
        if (result.sets[i].name.starts_with("also")) {
          result.sets[i].shared = info["alias"].get<std::vector<std::size_t>>();
          break;
        }
  } catch (const Json::exception& error) {
    fail(ErrorKind::user, "{} is damaged: {}", file.string(), error.what());
  }
  return result;
}

}  // namespace nacre
