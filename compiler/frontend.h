// The way into exporter/: a table of functions that the tool loads with dlopen only when an input needs PyTorch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/overlap.h"

namespace nacre {

// An example of an argument, for programs that do not hold their sample inputs.
struct Example {
  enum class Kind { none, tensor, integer, floating, boolean, sequence };
  Kind kind = Kind::none;
  HostTensor tensor;
  int64_t integer = 0;  // of a boolean too
  double floating = 0;
  std::vector<Example> items;  // of a tuple or list
};

// A subgraph that control flow runs, with what it is given.
struct BodyCall {
  std::string body;
  std::vector<HostTensor> inputs;          // numbers as tensors of one element
  std::map<std::string, int64_t> symbols;  // all that it sees
};

// The floating-point type in which the oracle computes: for its inputs, its weights and the dtypes that operators name.
enum class OracleType {
  own,      // as the graph has it
  wide,     // float32 and lower become float64
  rounded,  // the same, and what is float64 in the graph is rounded to float32 before
  narrow,   // float64 becomes float32
  float16,  // float32 becomes float16
  bfloat16,
  tf32,  // as the graph has it, but float32 factors of products have 11 bits
};

struct Frontend {
  int version;  // kFrontendVersion of the build; the tool refuses another
  // Reads a .pt2 archive into the captured graph with its weights and sample inputs.
  // Error{user} for a damaged or foreign file, Error{environment} for an unreadable path.
  Program (*load_pt2)(const std::string& path);
  // A file of torch.jit.save, traced with the examples (exporter/torchscript.h).
  bool (*is_torchscript)(const std::string& path);
  Program (*load_torchscript)(const std::string& path, const std::string& method, const std::vector<Example>& examples);
  // In-place operators and views made pure; mutated buffers and inputs become outputs.
  Graph (*functionalize)(const Graph& captured);
  // The captured graph for inputs that share memory with each other, where that makes a difference.
  std::optional<OverlapGraph> (*overlapping)(const Graph& captured);
  // The oracle: runs a graph of any level, operator by operator, on libtorch. `inputs` are the user inputs in order.
  // Returns all graph outputs in order (user outputs and mutations).
  std::vector<HostTensor> (*run_eager)(const Graph& graph, const std::map<std::string, HostTensor>& weights,
                                       const std::vector<HostTensor>& inputs, OracleType type);
  // The first `most` calls of bodies of control flow (not those within bodies) when the oracle runs the graph.
  std::vector<BodyCall> (*body_calls)(const Graph& graph, const std::map<std::string, HostTensor>& weights,
                                      const std::vector<HostTensor>& inputs, size_t most);
};

inline constexpr int kFrontendVersion = 5;

}  // namespace nacre

// The one symbol that libnacre_exporter.so exports.
extern "C" const nacre::Frontend* nacre_frontend();
