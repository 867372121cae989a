// The graph: one class for three levels of the pipeline. graph/verify.h says what each level may contain.
//   captured    ATen operators as exported, in-place operators and views included; values carry strides
//   functional  ATen operators without mutation; state and mutated inputs are explicit outputs
//   primitive   `prim.*` operators of ops.def
// A Graph is a plain value: copy it, edit it, print it (text.h). Values are SSA and are named by their index.
#pragma once

#include <complex>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/support/tensor.h"
#include "compiler/symbolic/expr.h"
#include "compiler/symbolic/simplify.h"
#include "formats/dtype.h"

namespace nacre {

enum class Level { captured, functional, primitive };

// Where a node came from. Survives to the kernel, the profile and the error message.
struct Provenance {
  std::string op;      // the captured operator: `aten.linear.default`
  std::string module;  // `encoder.layers.0.fc`
  std::string file;    // the user's Python file, last component only
  int line = 0;
};

enum class ValueKind : uint8_t { tensor, integer, floating, boolean };

// A tensor (dtype, shape, and at the captured level strides and offset in elements) or a number: an integer is `expr`, a
// symbol where it is known at run time only; another is `number` where export took it as given, else known at run time only.
struct Value {
  std::string name;  // without the `%`; unique in its graph
  ValueKind kind = ValueKind::tensor;
  nacre_dtype dtype{};
  std::vector<Expr> shape;
  std::vector<Expr> strides;  // empty: contiguous
  Expr offset;
  Expr expr;                  // of an integer
  std::optional<double> number;  // of a floating one, or a boolean (0 or 1)
};

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

struct ValueRef {
  ValueId id = kNoValue;  // kNoValue in a list: an absent optional tensor
  bool operator==(const ValueRef&) const = default;
};
struct Keyword {  // a memory format, layout or device: printed bare
  std::string text;
  bool operator==(const Keyword&) const = default;
};
struct SubgraphRef {
  std::string name;
  bool operator==(const SubgraphRef&) const = default;
};

// An argument of a node. std::monostate is None.
using Argument = std::variant<std::monostate, ValueRef, std::vector<ValueRef>, Expr, std::vector<Expr>, double,
                              std::vector<double>, bool, std::vector<bool>, std::string, nacre_dtype, Keyword, SubgraphRef,
                              std::complex<double>>;

struct Node {
  std::string op;  // `aten.add.Tensor`, `prim.add`
  std::vector<std::pair<std::string, Argument>> args;  // named as in the schema; an absent one has its default
  std::vector<ValueId> outputs;  // a returned list is flattened; kNoValue: a None among the results
  Provenance where;

  const Argument* find(std::string_view name) const;
};

enum class InputKind : uint8_t { user, parameter, buffer, constant };
struct GraphInput {
  ValueId value = kNoValue;
  InputKind kind = InputKind::user;
  std::string target;  // the parameter's, buffer's or constant's name; for a user input its name in the signature
  std::string path = {};  // of a user input that is nested in an argument: where, as Python writes it (`batch['x'][0]`)
};

enum class OutputKind : uint8_t { user, buffer_mutation, input_mutation };
struct GraphOutput {
  Argument value;      // a value, or a number or None that export found constant
  OutputKind kind = OutputKind::user;
  std::string target;  // the buffer's name, the mutated user input's, or where a user output lies in the result (`['logits']`)
};

struct Graph {
  Level level = Level::captured;
  std::string name = "forward";
  Facts symbols;
  std::vector<Expr> assumptions;  // what export assumed beyond ranges: each is 1
  std::vector<Value> values;
  std::vector<GraphInput> inputs;
  std::vector<Node> nodes;  // in order of execution
  std::vector<GraphOutput> outputs;
  std::map<std::string, Graph> subgraphs;

  // Appends a value and makes its name unique: `x`, `x_1`, `x_2`, ...
  ValueId add_value(Value value);
  // Appends a subgraph under its name, made unique in the same way; gives that name.
  std::string add_subgraph(Graph sub);
  const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& operator[](ValueId id) { return values[static_cast<size_t>(id)]; }

  // The names in use, for add_value alone.
  struct Names {
    std::unordered_set<std::string> taken;
    std::unordered_map<std::string, int> next;  // the last number tried for a name
    size_t counted = 0;                         // values whose names are in `taken`
  } names;
};

// Every value that an argument refers to.
template <class Visit>
void for_each_value(const Argument& argument, Visit visit) {
  if (auto* one = std::get_if<ValueRef>(&argument)) {
    if (one->id != kNoValue) visit(one->id);
  } else if (auto* many = std::get_if<std::vector<ValueRef>>(&argument)) {
    for (ValueRef v : *many)
      if (v.id != kNoValue) visit(v.id);
  }
}

// The buffer that random numbers come from: [seed, how often the entry has run since it was set], int64.
inline constexpr const char* kRandomState = "random_state";
inline constexpr int64_t kDefaultSeed = 67280421310721;  // PyTorch's

// A graph with the data that it needs: what an exported program holds.
struct Program {
  Graph graph;
  std::map<std::string, HostTensor> weights;  // by GraphInput::target, of parameters, buffers and constants
  std::vector<HostTensor> sample_inputs;      // of the user inputs, in order (numbers as 0-d tensors)
  std::vector<std::string> narrowed;          // what export took for granted about sizes, with the Python line, if it was kept
};

}  // namespace nacre
