// Views in the captured graph: what kind each is, and how a change of the view changes what it is a
// view of.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

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

// Appends functional operators to a graph.
class Emitter {
 public:
  using Args = std::vector<std::pair<std::string, Argument>>;

  explicit Emitter(Graph& graph) : graph_(graph) {}

  Provenance where;  // of the nodes made from now on

  // `results` as in the captured graph: their strides are dropped, names made unique.
  std::vector<ValueId> emit(std::string op, Args args, const std::vector<Value>& results);
  ValueId emit_one(std::string op, Args args, const Value& result) {
    return emit(std::move(op), std::move(args), {result})[0];
  }

  // These give back `v` where nothing would change.
  ValueId reshaped(ValueId v, const std::vector<Expr>& shape);
  ValueId permuted(ValueId v, const std::vector<int64_t>& dims);
  ValueId converted(ValueId v, nacre_dtype dtype);
  ValueId expanded(ValueId v, const std::vector<Expr>& shape);

  const Value& operator[](ValueId v) const { return graph_[v]; }

 private:
  Graph& graph_;
};

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

// `node` of `captured` makes views of `parent`, whose contents are `base`; the contents of view
// `output` become `part`. `other` gives the contents of the node's other arguments.
BaseContents write_through(const Graph& captured, const Node& node, size_t output, ValueId parent,
                           ValueId base, ValueId part, Emitter& emitter,
                           const std::function<Argument(const Argument&)>& other);

}  // namespace nacre
