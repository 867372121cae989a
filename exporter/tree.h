// How a program's arguments and results are nested: PyTorch's tree specifications (`in_spec`,
// `out_spec`), and paths into them as Python writes them: `batch.image`, `options['scales'][0]`.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exporter/archive.h"

namespace nacre {

// Visits the leaves in order, each with its path from the root and with what `object`, which is
// nested in the same way, holds there (null: nothing is known of it).
void walk_tree(
    const nlohmann::json& spec, const PickledObject* object,
    const std::function<void(const std::string& path, const PickledObject* object)>& leaf);

// A leaf of `in_spec` below positional argument `number`; nullopt for a named one.
struct Positional {
  std::size_t number = 0;
  std::string rest;  // of the path
};
std::optional<Positional> positional(const std::string& path);

// The path of a leaf of `in_spec`, which holds the positional and the named arguments, from the
// argument's name on. `names` are those of the positional ones.
std::string argument_path(const std::string& path, const std::vector<std::string>& names);

}  // namespace nacre
