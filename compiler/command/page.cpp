#include "compiler/command/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/support/error.h"
#include "compiler/support/file.h"

namespace nacre {

extern const char* const kPageTemplate;  // page.html, made by CMake

namespace {

// JSON inside a script element must not end the element.
std::string for_script(std::string json) {
  for (std::size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3) json.replace(at, 2, "<\\/");
  return json;
}

void fill_in(std::string& page, std::string_view place, const std::string& text) {
  page.replace(page.find(place), place.size(), text);
}

}  // namespace

std::vector<Layer> read_layers(const std::filesystem::path& folder) {
  std::vector<Layer> layers;
  if (std::filesystem::is_directory(folder))
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      const std::string name = file.path().filename().string();
      const bool numbered = !name.empty() && name[0] >= '0' && name[0] <= '9' && name.find('-') != std::string::npos;
      if (numbered && file.is_regular_file()) layers.push_back({name, read_file(file.path())});
    }
  if (layers.empty()) fail(ErrorKind::user, "{} holds no layers: `nacre compile --dump` writes them", folder.string());
  std::sort(layers.begin(), layers.end(), [](const Layer& a, const Layer& b) { return a.name < b.name; });
  return layers;
}

std::string artifact_page(const std::string& artifact, const std::vector<std::vector<std::string>>& pictures, const SymbolSizes& sizes,
                          const std::vector<Layer>& layers) {
  nlohmann::json list = nlohmann::json::array();
  for (const Layer& layer : layers) list.push_back({{"name", layer.name}, {"text", layer.text}});
  std::string page = kPageTemplate;
  // The last place first: what is filled in may hold anything.
  fill_in(page, "{{LAYERS}}", for_script(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  fill_in(page, "{{SIZES}}", for_script(nlohmann::json(sizes).dump()));
  fill_in(page, "{{PICTURES}}", for_script(nlohmann::json(pictures).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  fill_in(page, "{{ARTIFACT}}", for_script(artifact));
  return page;
}

}  // namespace nacre
