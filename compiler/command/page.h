// One HTML page, which needs no network, about an artifact and the layers that it came from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/command/memory_picture.h"

namespace nacre {

struct Layer {
  std::string name;  // `2-primitive.ir`
  std::string text;
};

// The files of a folder that `nacre compile --dump` wrote, in their order. Error{user} if it holds none.
std::vector<Layer> read_layers(const std::filesystem::path& folder);

// `artifact` is what formats::dump_json says of it; `pictures` are the SVG drawings of its memory plans, by entry and variant;
// `sizes` those of symbols to begin with, where they are not near 64.
std::string artifact_page(const std::string& artifact, const std::vector<std::vector<std::string>>& pictures, const SymbolSizes& sizes,
                          const std::vector<Layer>& layers);

}  // namespace nacre
