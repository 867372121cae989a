// One ATen call that is being decomposed, and the tables of decompositions.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/decompose_tensor.h"

namespace nacre {

// Inputs of a subgraph, `count` of them from `first` on, of which it takes the whole and uses
// element `row` of the first dim, of `row_count`.
struct Rows {
  size_t first = 0, count = 0;
  Expr row, row_count;
};

// The state that the graph's random numbers come from; an input and a mutated buffer of the graph from its first use on. The
// graph of a branch or of a loop's body takes it as its last input, and gives the next one as its last output.
class RandomSource {
 public:
  // Operators are numbered as they come, from `first` on; all draws of one node have its number.
  explicit RandomSource(bool in_body, int64_t first = 0) : in_body_(in_body), streams_(first) {}
  ValueId state(Builder& builder);
  int64_t stream(const Node& node);
  // The new state, if there is one.
  void finish(Builder& builder);

 private:
  bool in_body_;
  ValueId state_ = kNoValue;
  const Node* last_ = nullptr;
  int64_t streams_;
};

// Reads the arguments of a node by the names of the operator's schema. An argument that the node
// leaves out has the default that the reader names; None counts as left out.
class Call {
 public:
  // `mapped[v]` is the primitive value of the functional graph's value v; `used[v]`: something
  // reads it.
  // `bound`: the symbols that have a value by now.
  Call(const Graph& functional, const Node& node, Builder& builder,
       const std::vector<ValueId>& mapped, const std::vector<bool>& used,
       std::set<std::string>& bound, RandomSource& random)
      : graph_(functional),
        node_(node),
        builder_(builder),
        mapped_(mapped),
        used_(used),
        bound_(bound),
        random_(random) {}

  const std::string& op() const { return node_.op; }
  const Node& node() const { return node_; }
  Builder& builder() const { return builder_; }
  const Facts& facts() const { return builder_.graph().symbols; }

  bool has(std::string_view name) const;
  Tensor tensor(std::string_view name) const;                // Error if left out
  Tensor self() const;                                       // the first argument
  Tensor optional(std::string_view name) const;              // absent Tensor if left out
  std::vector<Tensor> tensors(std::string_view name) const;  // entries may be absent
  Operand operand(std::string_view name) const;              // a tensor, or a number in its place
  Operand operand(std::string_view name, const Operand& otherwise) const;
  std::optional<Operand> optional_operand(std::string_view name) const;
  Number number(std::string_view name, std::optional<Number> otherwise = std::nullopt) const;
  std::optional<Number> optional_number(std::string_view name) const;
  double real(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
  std::optional<double> optional_real(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;  // empty if left out
  Expr size(std::string_view name, std::optional<Expr> otherwise = std::nullopt) const;
  std::optional<Expr> optional_size(std::string_view name) const;
  Shape sizes(std::string_view name) const;  // empty if left out
  Shape sizes(std::string_view name, size_t n,
              const Expr& otherwise) const;  // one number stands for n
  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = std::nullopt) const;
  std::optional<int64_t> optional_integer(std::string_view name) const;
  Dims integers(std::string_view name) const;
  Dims integers(std::string_view name, size_t n, int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name, const std::string& otherwise) const;
  std::optional<nacre_dtype> dtype(std::string_view name) const;

  int64_t dim(std::string_view name, int64_t rank,
              std::optional<int64_t> otherwise = std::nullopt) const;
  // None and [] mean all dims.
  Dims dims(std::string_view name, int64_t rank) const;

  // What export says of the results.
  size_t outputs() const { return node_.outputs.size(); }
  bool needs(size_t output) const;
  bool is_given(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != kNoValue; }
  bool is_number(size_t output) const;  // given as a tensor of no dims all the same
  nacre_dtype output_dtype(size_t output = 0) const;
  Shape output_shape(size_t output = 0) const;

  Tensor full(Shape shape, const Number& value, nacre_dtype dtype) const {
    return nacre::full(builder_, std::move(shape), value, dtype);
  }
  // Of the random numbers: [seed, count] as int64, a state of the session or of what runs this body; and a number for each
  // operator that asks.
  Tensor random_state() const { return {builder_, random_.state(builder_)}; }
  int64_t random_stream() const { return random_.stream(node_); }

  [[noreturn]] void unsupported(const std::string& what) const;

  // ---- Numbers that depend on data.
  // From here on the number that export calls `expected` (a symbol, as a rule) has the value of the
  // tensor, of no dims; at most `most`, if that is known.
  Expr bind(const Tensor& value, const Expr& expected, std::optional<Expr> most = std::nullopt);
  // A number that export has no name for.
  Expr count(const Tensor& value, const Expr& most);
  // The same as bind, of a symbol that gets its value elsewhere.
  void bound_by(const Expr& symbol, const Expr& most);
  // A symbol that nothing uses yet.
  Expr new_symbol(const std::string& prefix, SymbolFacts facts);

  // ---- Control flow.
  // All arguments, which are numbers, as tensors of no dims: int64, float64 or bool.
  std::vector<Tensor> numbers() const;
  // Tensors, and numbers as tensors of no dims.
  std::vector<Tensor> operands(std::string_view name) const;
  const Graph& functional_subgraph(std::string_view name) const;
  // Makes the functional subgraph a subgraph of the primitive graph, which takes and gives tensors. One that draws random
  // numbers, from the stream `first_stream` on, takes and gives their state as well (see RandomSource).
  std::string subgraph(std::string_view name, const Rows& rows = {}, int64_t first_stream = 0);
  bool is_bound(const Expr& e) const;

 private:
  const Argument* find(std::string_view name) const;
  Number number_at(std::string_view name, const Argument& argument) const;
  std::optional<Operand> operand_at(std::string_view name, const Argument& argument) const;
  [[noreturn]] void missing(std::string_view name, const char* kind) const;
  const Value& output(size_t i) const;

  const Graph& graph_;
  const Node& node_;
  Builder& builder_;
  const std::vector<ValueId>& mapped_;
  const std::vector<bool>& used_;
  std::set<std::string>& bound_;
  RandomSource& random_;
};

// The results of a decomposition, in the order of the node's outputs. An absent Tensor stands for a
// result that is not needed.
struct Results {
  std::vector<Tensor> list;
  Results(Tensor one) : list{std::move(one)} {}  // NOLINT(google-explicit-constructor)
  Results(std::vector<Tensor> many)
      : list(std::move(many)) {}  // NOLINT(google-explicit-constructor)
  Results(std::initializer_list<Tensor> many) : list(many) {}
};

// One line of a table: the operator with its overload, without `aten.`, and how it becomes
// primitives.
struct Decomposition {
  const char* op;
  Results (*function)(Call& call);
};
using Decompositions = std::span<const Decomposition>;

// The tables, by family.
Decompositions pointwise_decompositions();
Decompositions creation_decompositions();
Decompositions view_decompositions();
Decompositions reduction_decompositions();
Decompositions sorting_decompositions();
Decompositions indexing_decompositions();
Decompositions contraction_decompositions();
Decompositions convolution_decompositions();
Decompositions pooling_decompositions();
Decompositions resampling_decompositions();
Decompositions padding_decompositions();
Decompositions normalization_decompositions();
Decompositions attention_decompositions();
Decompositions recurrent_decompositions();
Decompositions loss_decompositions();
Decompositions quantization_decompositions();
Decompositions backward_decompositions();
Decompositions complex_decompositions();
Decompositions fourier_decompositions();
Decompositions linalg_decompositions();
Decompositions random_decompositions();
Decompositions distribution_decompositions();
Decompositions control_decompositions();
Decompositions number_decompositions();
Decompositions selection_decompositions();

// A subgraph as Call::subgraph makes it. `symbols` and `bound` are those of the graph around it; facts that it finds out
// about symbols come back.
Graph decompose_body(const Graph& functional, Facts& symbols, std::set<std::string> bound, const Rows& rows, int64_t first_stream);

// Shared between families.
// Where a mask of one dim is true, in order: int64. `expected`: what export calls their number, if it does.
Tensor true_positions(Call& c, const Tensor& mask, const std::optional<Expr>& expected);
// The same of any mask, as one index for each of its dims.
std::vector<Tensor> mask_indices(Call& c, const Tensor& mask, const std::optional<Expr>& expected);
Tensor softmax(const Tensor& x, int64_t dim);  // in x's dtype, computed in compute_type
Tensor log_softmax(const Tensor& x, int64_t dim);
Tensor lgamma(const Tensor& x);
Tensor bessel_i0(const Tensor& x, bool scaled);  // scaled: times exp(-|x|)
Tensor inverse_matrix(const Tensor& a);  // of the last two dims, in float64
// Along two dims: that of `name`, or of `order` where there is none. Those that need singular values are refused.
Tensor matrix_norm(Call& c, const Tensor& x, const std::string& name, double order, Dims dims, bool keep);
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);  // bias may be absent
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 bool is_causal, std::optional<double> scale, bool enable_gqa);

}  // namespace nacre
