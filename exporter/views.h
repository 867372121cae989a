// Views in the captured graph: what kind each is, and how a change of the view changes what it is a
// view of.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.h"
#include "exporter/emitter.h"

namespace nacre {

// ---- Operators and their arguments.
std::string_view base_name(std::string_view op);  // `aten.add_.Tensor` -> `add_`
bool one_of(std::string_view name, std::initializer_list<std::string_view> names);
ValueId first_tensor(const Node& node);
bool true_argument(const Node& node, std::string_view name);
bool has_value(const Node& node, std::string_view name);  // a tensor that is not None

// Where these share memory with their argument they return it as it is.
bool is_identity(std::string_view op);
// In-place operators that change sizes and strides only: `unsqueeze_`.
bool is_metadata_write(std::string_view op);

// The dims of a captured value from the one with the largest step in memory to the smallest;
// Error{unsupported} if its memory has gaps or overlaps.
std::vector<int64_t> memory_order(const Value& v, const std::map<std::string, int64_t>& hints,
                                  const Provenance& where);

// New contents of the base of a view.
struct BaseContents {
  ValueId value = kNoValue;
  bool exact =
      true;  // false: reading the view again might give something else than what was written
};

// A view as a node of the captured graph makes it.
struct ViewStep {
  Node node;
  size_t output;
  ValueId parent;
};

// Whether the node's view has elements that share memory.
bool is_expansion(const Graph& captured, const Node& node);

// Whether its elements are not those of its parent: negated, say, or their bits as another type.
bool changes_elements(const Graph& captured, const ViewStep& view);

// New contents of `base`, when the contents of the last of `views`, each a view of what the one before it gives, become
// `part`: what the views, none of which changes elements, do to the positions 0, 1, 2, ... says where each element belongs.
ValueId write_by_position(const Graph& captured, const std::vector<ViewStep>& views, ValueId base, ValueId part,
                          Emitter& emitter, const std::function<Argument(const Argument&)>& other);

// `node` of `captured` makes views of `parent`, whose contents are `base`; the contents of view
// `output` become `part`. `other` gives the contents of the node's other arguments.
BaseContents write_through(const Graph& captured, const Node& node, size_t output, ValueId parent,
                           ValueId base, ValueId part, Emitter& emitter,
                           const std::function<Argument(const Argument&)>& other);

}  // namespace nacre
