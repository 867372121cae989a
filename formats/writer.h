// Builds an artifact: plain structs in, bytes out. The only code that writes one. The same structs
// give the same bytes, on any machine.
//
// The structs mirror META (meta.fbs, where every field is explained); what is a table index there
// is an index into a vector here. `read_artifact` is the inverse, for tools and tests.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/dtype.h"
#include "formats/kinds.h"
#include "formats/meta.h"
#include "formats/verify.h"

namespace nacre::formats {

// What `write_artifact` and `read_artifact` throw. formats/ knows no other folder, so this is not
// nacre::Error.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A constant, or the value of an expression node.
struct Size {
  nacre_size raw = 0;

  static Size constant(int64_t value) { return {value}; }
  static Size node(uint32_t number) { return {~static_cast<int64_t>(number)}; }
  bool is_constant() const { return raw >= 0; }
  uint32_t node_number() const { return static_cast<uint32_t>(~raw); }
  bool operator==(const Size&) const = default;
};

struct Node {
  nacre_expr_kind kind = NACRE_EXPR_constant;
  uint32_t a = 0;  // first operand's node, or the symbol's number
  int64_t b = 0;   // second operand's node, or the constant
  bool number = false;  // the second operand is b itself
  nacre_node in_file() const { return {static_cast<uint32_t>(kind) | (number ? NACRE_EXPR_NUMBER : 0u), a, b}; }
  bool operator==(const Node&) const = default;
};

struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t multiple = 1;
  bool operator==(const Symbol&) const = default;
};

struct Provenance {
  std::string op;
  std::string module;
  std::string file;
  uint32_t line = 0;
  bool operator==(const Provenance&) const = default;
};

struct Tensor {
  std::string name;
  nacre_dtype dtype = NACRE_f32;
  uint32_t flags = 0;  // NACRE_TENSOR_*
  std::vector<Size> dims;
  std::vector<uint8_t>
      layout;  // dimensions in the order of memory, outermost first; empty: as they are
  std::vector<Size> bounds = {};  // of dims that depend on data; empty: none do
  std::string path = {};  // of an input or output, where it lies in what the model takes or gives
  bool operator==(const Tensor&) const = default;
};

struct Guard {
  nacre_guard_kind kind = NACRE_GUARD_rank;
  uint16_t input = 0;
  uint16_t dim = 0;
  int64_t ref = 0;
  int64_t lo = 0;
  int64_t hi = 0;
  bool operator==(const Guard&) const = default;
};

struct Slot {
  nacre_slot_kind kind = NACRE_SLOT_ARENA;
  uint32_t index = 0;
  Size offset;
  Size size;
  bool operator==(const Slot&) const = default;
};

struct Command {
  nacre_command_kind kind = NACRE_COMMAND_end;
  uint16_t flags = 0;              // NACRE_COMMAND_BARRIER, NACRE_COMMAND_TEAM
  uint32_t threads = 0;            // at most so many; 0: all
  uint32_t target = 0;             // kernel, import or command
  std::vector<uint32_t> operands;  // slot numbers
  std::vector<uint32_t>
      provenances;  // most important first: a data error names the one that the kernel gives
  Size scratch;     // bytes for each thread
  Size flops;
  Size bytes;
  uint32_t grid = 0;  // GPU: 1 + the node of the number of blocks
  bool operator==(const Command&) const = default;
};

// What a command could be instead, for `nacre bench --tune`: another kernel, how it is started, and which choice that is. Of the
// command's own there is one, too. In the file, a line of NACRE_SECTION_CHOICES:
//   ENTRY VARIANT COMMAND KERNEL THREADS GRID SCRATCH QUESTION = CHOICE
struct Candidate {
  uint32_t command = 0, kernel = 0, threads = 0, grid = 0;  // the last two as in Command
  Size scratch;
  std::string question, choice;
  bool operator==(const Candidate&) const = default;
};

struct Variant {
  std::string name;
  std::vector<Guard> guards;  // in the order of stages (guards.def)
  std::vector<Node> nodes;    // numbered after the entry's
  std::vector<Slot> slots;
  std::vector<Command> commands;
  Size arena_size;
  int64_t arena_bound =
      0;  // bytes at the upper limits of all symbols; 0: unlimited. Constant sizes need none
  int64_t scratch_bound = 0;
  std::vector<Tensor> slot_tensors;  // empty, or one for each slot
  uint32_t spare_nodes = 0;          // of nodes, the last ones: for profiles and people alone
  std::vector<Candidate> candidates = {};
  bool operator==(const Variant&) const = default;
};

struct Entry {
  std::string name;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Node> nodes;
  std::vector<Variant> variants;  // from special to general
  bool operator==(const Entry&) const = default;
};

struct Image {
  std::string target;
  uint16_t machine = 0;   // ELF's e_machine
  uint64_t features = 0;  // features.def
  std::vector<uint8_t> bytes;
  bool operator==(const Image&) const = default;
};

struct Kernel {
  std::string name;
  uint32_t image = 0;
  uint32_t index = 0;
  uint32_t size_bytes = 0;
  std::vector<uint32_t> provenances;
  bool operator==(const Kernel&) const = default;
};

// The bytes stay the caller's: weights may be large, and lie in a mapping.
struct Weight {
  std::string name;
  nacre_dtype dtype = NACRE_f32;
  std::vector<int64_t> dims;
  std::span<const uint8_t> bytes;
};

struct State {
  std::string name;
  nacre_dtype dtype = NACRE_f32;
  std::vector<int64_t> dims;
  uint64_t size_bytes = 0;
  int32_t initial = -1;  // weight that it starts from, or -1: zeros
  bool operator==(const State&) const = default;
};

struct Import {
  std::string name;
  std::string arguments;     // a JSON object
  uint32_t input_count = 0;  // of a command's operands; the others are results
  bool operator==(const Import&) const = default;
};

struct Artifact {
  std::string producer;  // tool and version; no time, no path
  std::vector<Symbol> symbols;
  std::vector<Provenance> provenances;
  std::vector<Image> images;
  std::vector<Kernel> kernels;
  std::vector<Weight> weights;  // two with equal bytes share one place in the file
  std::vector<State> states;
  std::vector<Import> imports;
  std::vector<Entry> entries;
};

// Sizes in the file, for reports.
struct ArtifactSizes {
  uint64_t file = 0, meta = 0, code = 0, data = 0;
};

// Gives the file piece by piece to `sink`, in order; weights are not copied. FormatError where the
// structs contradict each other.
// With `weights`, which is given a file of its own (container.h), they are no part of the first.
ArtifactSizes write_artifact(const Artifact& artifact,
                             const std::function<void(std::span<const uint8_t>)>& sink,
                             const std::function<void(std::span<const uint8_t>)>& weights = {});

std::vector<uint8_t> artifact_bytes(const Artifact& artifact);

// Of verified bytes, into which weights and their names point, so that they must outlive the result.
Artifact read_artifact(const nacre_container& verified);
// Verifies, too: FormatError where the bytes are not well formed. They must start at a multiple of 64.
Artifact read_artifact(std::span<const uint8_t> bytes);

}  // namespace nacre::formats
