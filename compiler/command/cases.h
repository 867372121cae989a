// What `nacre verify` is given: programs, with the inputs and the results that they are checked on.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/run.h"
#include "compiler/support/tensor.h"

namespace nacre {

// What is known of PyTorch's own errors beside what its results and references tell (own_error.h).
struct OwnErrors {
  std::vector<double> outputs;
  std::map<int, double> after_inputs;
  std::map<std::string, double> after_buffers;
};

// One call. The results are absent where the program itself has to be asked: see `complete` in
// stages.h.
struct CaseSet {
  std::string name;
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;                   // PyTorch's, flattened
  std::vector<std::optional<HostTensor>> outputs64;  // the same in float64, where the case has it
  std::map<int, HostTensor> after_inputs;            // by position
  std::map<std::string, HostTensor> after_buffers;   // by name
  std::map<int, HostTensor> after_inputs64;          // these two in float64, where PyTorch can
  std::map<std::string, HostTensor> after_buffers64;
  OwnErrors own_errors;
  bool known = false;                                // outputs were read from the case
  bool refuse = false;  // the program does not promise to accept these inputs
  bool eager_answers =
      true;                // of one to be refused: eager, which has no guards, answers all the same
  bool continues = false;  // state carries on from the set before
  std::vector<InputPlace> places;  // of the inputs; empty: contiguous
  std::vector<std::size_t> shared;    // inputs that are views of one storage

  const HostTensor* output64(std::size_t i) const { return i < outputs64.size() && outputs64[i] ? &*outputs64[i] : nullptr; }
};

// The value under a key, or null.
template <typename Map, typename Key>
const typename Map::mapped_type* found_in(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

struct Case {
  std::string name;
  std::filesystem::path program;       // .pt2, or TorchScript
  std::vector<std::string> examples;   // of TorchScript's arguments, as --example takes them
  std::vector<std::string> variants;   // beside the general one, as --variant takes them
  std::vector<CaseSet> sets;           // empty: the program's own sample inputs
  bool shape_only = false;             // results are random by design
  bool neighbours = false;             // PyTorch's own errors were measured on values next to the inputs, too
  std::optional<Tolerance> tolerance;  // the case's own, where the rule does not suit it
};

// A program, or a folder with model.pt2 (case.json may name another file), case.json and a folder for each set.
Case read_case(const std::filesystem::path& path);

}  // namespace nacre
