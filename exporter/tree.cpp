#include "exporter/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/support/error.h"

namespace nacre {
namespace {

using nlohmann::json;

// What the children of a node are called, if they have names: the keys of a dictionary, the fields
// of a dataclass. The context is a list of them, or has one beside a type's own words.
std::vector<json> names_of_children(const json& spec) {
  if (!spec.at("context").is_string()) return {};
  const json context = json::parse(spec.at("context").get<std::string>(), nullptr, false);
  if (!context.is_array()) return {};
  std::vector<json> lists{context};
  lists.insert(lists.end(), context.begin(), context.end());
  for (const json& list : lists)
    if (list.is_array() && list.size() == spec.at("children_spec").size() &&
        std::none_of(list.begin(), list.end(), [](const json& name) { return name.is_structured(); }))
      return list;
  return {};
}

void walk(const json& spec, const PickledObject* object, const std::string& path, int depth,
          const std::function<void(const std::string&, const PickledObject*)>& leaf) {
  if (depth > 100)
    fail(ErrorKind::user, "the program is malformed: its arguments are nested too deeply");
  const json& type = spec.at("type");
  const json& children = spec.at("children_spec");
  if (type.is_null()) {
    leaf(path, object);
    return;
  }
  const std::string kind = type.get<std::string>();
  const bool dictionary = kind.ends_with("dict") || kind.ends_with("Dict");
  const std::vector<json> names = names_of_children(spec);
  for (std::size_t i = 0; i < children.size(); ++i) {
    std::string name = std::to_string(i);
    if (!names.empty()) name = names[i].is_string() ? names[i].get<std::string>() : names[i].dump();
    std::string step = fmt::format("[{}]", name);
    if (!names.empty() && !dictionary) step = "." + name;
    if (!names.empty() && dictionary && names[i].is_string()) step = fmt::format("['{}']", name);
    const PickledObject* item = nullptr;
    if (object != nullptr && dictionary && !names.empty()) {
      auto found = std::find(object->keys.begin(), object->keys.end(), name);
      if (found != object->keys.end())
        item = &object->items[static_cast<std::size_t>(found - object->keys.begin())];
    } else if (object != nullptr && i < object->items.size()) {
      item = &object->items[i];
    }
    walk(children[i], item, path + step, depth + 1, leaf);
  }
}

}  // namespace

void walk_tree(const json& spec, const PickledObject* object,
               const std::function<void(const std::string&, const PickledObject*)>& leaf) {
  walk(spec, object, "", 0, leaf);
}

std::optional<Positional> positional(const std::string& path) {
  if (!path.starts_with("[0][")) return std::nullopt;
  const std::size_t close = path.find(']', 4);
  Positional result;
  if (std::from_chars(path.data() + 4, path.data() + close, result.number).ptr != path.data() + close)
    return std::nullopt;  // positional arguments that are no tuple
  result.rest = path.substr(close + 1);
  return result;
}

std::string argument_path(const std::string& path, const std::vector<std::string>& names) {
  if (const auto place = positional(path)) {
    const std::string name = place->number < names.size() ? names[place->number] : fmt::format("args[{}]", place->number);
    return name + place->rest;
  }
  if (path.starts_with("[1]['")) {
    const std::size_t close = path.find("']", 5);
    return path.substr(5, close - 5) + path.substr(close + 2);
  }
  return path;
}

}  // namespace nacre
