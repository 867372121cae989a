// Loop IR: what the primitive graph becomes, and what fusion, layout, schedules and code generation work on.
//
// A loop program is a list of groups in order of execution. A group is what becomes one kernel: loop nests under shared
// outer loops, and in a contraction group also one contraction whose result the nest (the epilogue) takes in registers.
// Index expressions are symbolic/expr.h expressions over loop variables and the graph's symbols; they index *logical*
// dimensions, whatever the layout of the buffer. A nest's scalars are SSA; an index that is data (gather, embedding)
// appears in an index expression as the symbol `v3`: scalar 3 of the same nest.
//
//   group softmax
//     outer i0: 12
//     nest i1: 64 reduce            # the last loop is reduced
//       v0 = load %x[i0, i1]
//       v1 = reduce amax v0
//       store %m[] = v1             # local: one value an iteration of the outer loops
//     nest i1: 64
//       v0 = load %x[i0, i1]
//       v1 = load %m[]
//       v2 = sub v0 v1
//       v3 = exp v2
//       store %y[i0, i1] = v3
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace nacre {

enum class BufferKind : uint8_t {
  input,      // a user input; `index` is its position
  weight,     // `target` names it in the program's weights
  state,      // a mutated buffer: read and written in place; `target` names its initial value in the weights
  output,     // a user output; `index` is its position among the user outputs
  temporary,  // in the arena
  local,      // lives within one iteration of its group's outer loops; indexed by inner loops only
};

struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::temporary;
  nacre_dtype dtype{};
  std::vector<Expr> shape;  // logical
  std::vector<int> order;   // logical dims from outermost to innermost in memory; empty: as they are (contiguous)
  int index = -1;
  std::string target;
  bool complex = false;     // an input, weight, state or output of complex numbers: the last dim is their parts
};
using BufferId = int;

struct LoopVar {
  std::string name;  // unique within its group
  Expr extent;
};

enum class ScalarOp : uint8_t {
  load,         // buffer[at]; where a condition of `when` is 0, `operands[0]` instead and nothing is read
  constant,     // `number` (exact for integers up to 2^53, else `expr`)
  index,        // the value of `expr` (as `dtype`: an integer, or bool for a comparison)
  pointwise,    // `prim` of ops.def over operands
  cast,         // operands[0] to `dtype`; rounded to `prim` (f16, bf16) before, where one is named
  check_index,  // operands[0] as an index of a dimension of extent `expr`: negative counts from the end (is out of range if `prim` is below); out of range: an error in data
  reduce,       // `prim` (sum, prod, amax, amin, any, all, argmax, argmin) of operands[0] over the nest's reduced loops
  scan,         // `prim` (cumsum, ...) of operands[0] along the nest's last loop, inclusive
  accumulator,  // the result of the group's contraction at this point; `number`: which result (attention, matmul, conv have one)
};

struct Scalar {
  ScalarOp op = ScalarOp::constant;
  nacre_dtype dtype{};
  std::string prim;
  std::vector<int> operands;  // scalars before this one in the nest
  BufferId buffer = -1;
  std::vector<Expr> at;
  std::vector<Expr> when;     // of a load: all must hold; over loop variables, symbols and `vN`
  Expr expr;
  double number = 0;
  Provenance where;
};

enum class StoreMode : uint8_t { assign, add, mul, amax, amin };
struct Store {
  BufferId buffer = -1;
  std::vector<Expr> at;  // may contain `vN` (scatter)
  int value = -1;        // a scalar
  StoreMode mode = StoreMode::assign;
};

// Runs `code` for every point of `loops` (inside the group's outer loops). With reduced loops, the scalars that a reduce
// depends on run at every point, the others once for every point of the loops that are not reduced.
struct Nest {
  std::vector<LoopVar> loops;  // outermost first; the last `reduced` are reduced over
  int reduced = 0;
  std::vector<Scalar> code;
  std::vector<Store> stores;
};

enum class ContractionKind : uint8_t { matmul, conv, conv_transpose, attention, lstm, gru };
inline bool is_recurrent(ContractionKind kind) { return kind == ContractionKind::lstm || kind == ContractionKind::gru; }

// Which tile of the kernel library computes a contraction; chosen with the layout (layout/choose.h).
//   generic: none, plain loop nests        packed: a matrix product with packed weights (or a convolution over channels-last
//   images with packed weights, or a recurrent layer)        direct: both operands are activations, or attention
//   planar: a convolution that reads channels which lie apart        depthwise: one filter a channel
enum class ContractionForm : uint8_t { undecided, generic, packed, direct, planar, depthwise };

// An operand of a contraction: the element that it contributes, as a function of the contraction's loop variables.
struct Operand {
  BufferId buffer = -1;
  std::vector<Expr> at;
};

// Loop variables by kind, in this order in `loops` (those that are not reduced span the result):
//   matmul          batch..., m, n | k                 operands a[batch, m, k], b[batch, k, n]
//   conv            n, o, spatial... | -               operands x[n, c, y...], w[o, c/groups, k...]; see below
//   conv_transpose  the same, w[c, o/groups, k...]
//   attention       b, h, s, e | t, d                  operands q[b,h,s,d], k[b,h,t,d], v[b,h,t,e], mask[b,h,s,t] or none;
//                                                      of a device, perhaps more such that are added to scores
//   lstm, gru       t, b, u | -                        operands x, h0, c0 (lstm), w_ih, w_hh, b_ih, b_hh (buffer -1: absent)
// For conv the operands' `at` are over the variables of `operand_loops[i]` (one list of fresh variables for each operand's
// own logical dims), since which input element meets which weight follows from the attributes. For lstm and gru idem.
// The others use the variables of `loops`.
struct Contraction {
  ContractionKind kind = ContractionKind::matmul;
  std::vector<LoopVar> loops;
  int reduced = 0;
  std::vector<Operand> operands;
  std::vector<std::vector<LoopVar>> operand_loops;
  nacre_dtype dtype{};                 // of the results
  std::vector<Expr> stride, padding, dilation, output_padding;  // conv, by spatial dim
  Expr groups = 1;
  double scale = 1;                    // attention
  bool causal = false;                 // attention: row s sees t <= s
  bool written_out = false;            // attention: a row that sees nothing is NaN, as its softmax is, and not 0; of a device
  bool reverse = false;                // lstm, gru
  bool tf32 = false;                   // of a device: factors may be rounded to 11 bits
  ContractionForm form = ContractionForm::undecided;
  int panel_vectors = 0;               // packed, planar: vectors a panel of packed weights
  int winograd = 0;                    // packed: by Winograd's algorithm, so many rows and columns of the result at a time; 0: not
  int64_t copied_rows = 0;             // planar: rows of the result for which the image is copied at a time; 0: as many as caches take
  std::vector<BufferId> results;       // lstm, gru: y, h[, c], written by the contraction itself; the others hand each
                                       // result to the epilogue, which stores it
  Provenance where;
};

// Instead of work, a group may say where the groups after it run, or what they may assume. Regions nest; without control the
// groups run from first to last, once.
//   if %p[] ... else ... end            the groups of one side run; there may be no else
//   loop ... while %more[] ... end      everything between loop and end again and again; `while` leaves where the bool is false
//   bind u0 = %n[]                      from here on symbol u0 has the value of the int64; one out of its range is an error in data
//   check u0 <= s0                      an error in data where the condition is 0
enum class ControlKind : uint8_t { if_, else_, loop, while_, end, bind, check };
struct Control {
  ControlKind kind = ControlKind::end;
  BufferId buffer = -1;    // if, while: a bool; bind: an int64; of one element
  std::string symbol;      // bind
  Expr condition;          // check
  std::string message;     // check
  Provenance where;
};

// The rows are those of the buffers' last logical dim.
//   sort       x -> values, positions (i64)              stable, NaN the largest
//   fft        re, im, cos, sin -> re, im                the discrete Fourier transform of length `length`; see prim.fft
//   bitcast    x -> y                                    the same bytes
//   import     any -> any                                a function of the application's
enum class RowKind : uint8_t { sort, fft, bitcast, import };
struct RowWork {
  RowKind kind = RowKind::sort;
  std::vector<BufferId> inputs, outputs;  // -1: absent
  bool descending = false;  // sort
  bool inverse = false;     // fft
  Expr length;              // fft
  std::string function;     // import: its name
  std::string arguments;    // import: what it takes beside tensors, a JSON object
  Provenance where;         // import
};

struct Group {
  std::string name;                    // from its main operators: `conv_add_relu`
  std::vector<LoopVar> outer;          // shared by all nests, split over the threads; empty: the nest's own loops may be split
  std::vector<Nest> nests;             // run in order; of a contraction: exactly one, the epilogue, over the result's loops
  std::optional<Contraction> contraction;
  bool serial = false;                 // the order of iterations matters (scatter with duplicates): one thread
  // Work on rows of whole buffers, which is a kind of its own; the only work of its group.
  std::optional<RowWork> rows;
  std::optional<Control> control;
};

struct LoopProgram {
  std::string name;
  Facts symbols;
  std::vector<Expr> assumptions;
  std::vector<Buffer> buffers;
  std::vector<Group> groups;
  std::vector<BufferId> inputs;   // of the user inputs, in order; -1: a number
  std::map<int, Expr> input_numbers;  // of an input that is an integer, by position: the symbol that it stands for
  // What the user gets, in order: an output buffer (kind output), or another buffer that is returned as it is (an input
  // returned unchanged is copied by a group, so this is always an output buffer), or a number known from the symbols.
  struct Output { BufferId buffer = -1; std::optional<Expr> number; };
  std::vector<Output> outputs;
  // Mutated user inputs: buffer `from` must be copied back to input `input` at the end (the two may be one buffer if the
  // mutation happens in place).
  struct Mutation { int input = -1; BufferId from = -1; };
  std::vector<Mutation> input_mutations;

  const Buffer& operator[](BufferId id) const { return buffers[static_cast<size_t>(id)]; }
  Buffer& operator[](BufferId id) { return buffers[static_cast<size_t>(id)]; }
};

// What is known inside a nest: the program's symbols and the ranges of its loop variables.
Facts facts_in(const LoopProgram& program, const Group& group, const Nest& nest);

}  // namespace nacre
