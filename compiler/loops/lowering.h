// The state of lower(): private to lower.cpp, lower_indexing.cpp, lower_contraction.cpp and lower_control.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/node_args.h"
#include "compiler/graph/ops.h"
#include "compiler/loops/code.h"
#include "compiler/loops/views.h"

namespace nacre {

class Lowering {
 public:
  // What a graph and its subgraphs become together.
  struct Made {
    LoopProgram program;
    std::set<std::string> buffer_names, group_names;
    std::set<BufferId> updatable_inputs;  // states and inputs that the graph says are mutated
    std::set<std::string> bound;          // symbols that have a value at this place
  };
  Lowering(const Graph& graph, Made& made);
  void run();

 private:
  // ---- The loops of one group over the elements of a tensor.
  struct Domain {
    std::vector<LoopVar> loops;   // of the dims that are not 1
    std::vector<Expr> index;      // of every dim: a loop variable, or 0
    Simplifier simplify;
  };
  Domain domain(const std::vector<Expr>& shape) const;

  // ---- lower.cpp
  void analyse();
  void lower_inputs();
  void lower_nodes();
  void lower_node(const Node& node);
  void lower_view(const Node& node, const NodeArgs& args);
  static Scalar number_scalar(const Argument& value, nacre_dtype dtype);
  bool lower_creation(const Node& node, const NodeArgs& args);
  void lower_pointwise(const Node& node, const Primitive& prim);
  void lower_reduction(const Node& node, const Primitive& prim, const NodeArgs& args);
  void lower_scan(const Node& node, const std::string& prim, const NodeArgs& args);
  void lower_concat(const Node& node, const NodeArgs& args);
  void lower_outputs();

  // ---- lower_indexing.cpp
  void lower_select_scatter(const Node& node, const NodeArgs& args);
  void lower_index(const Node& node, const NodeArgs& args);
  void lower_gather(const Node& node, const NodeArgs& args);
  void lower_index_put(const Node& node, const NodeArgs& args);
  void lower_scatter(const Node& node, const NodeArgs& args);
  // Index of x for element `index` of prim.index' result; the indices that are data are added to `code`.
  std::vector<Expr> indexed_at(CodeBuilder& code, const std::vector<Expr>& x_shape, const std::vector<ValueId>& indices,
                               const std::vector<Expr>& index, Simplifier& simplify, bool wrap, const Provenance& where);
  // A buffer that starts as value `x` and may be written: x's own if nothing reads x after this node, else a copy.
  BufferId updatable(const Node& node, ValueId x);

  // ---- lower_control.cpp
  bool lower_control(const Node& node, const NodeArgs& args);
  void lower_cond(const Node& node, const NodeArgs& args);
  void lower_while(const Node& node, const NodeArgs& args);
  void lower_for(const Node& node, const NodeArgs& args);
  // The subgraph's groups, here; its inputs are `inputs`, of which it may update the first `own` in place. Its outputs.
  std::vector<View> lower_subgraph(std::string_view argument, const Node& node, const std::vector<View>& inputs, size_t own);
  std::vector<BufferId> carried_buffers(const Node& node, const NodeArgs& args);
  void carry_on(const std::vector<BufferId>& carried, std::vector<View> next, const Node& node);
  void control(ControlKind kind, const Provenance& where, BufferId buffer = -1, const std::string& symbol = {});
  void bind(const std::string& symbol, const Expr& value, const Provenance& where);
  BufferId number_buffer(const std::string& name, const Expr& value, nacre_dtype dtype, const Provenance& where);
  void store_number(BufferId buffer, const Expr& value, const Provenance& where);

  // ---- lower_rows.cpp
  void lower_sort(const Node& node, const NodeArgs& args);
  void lower_fft(const Node& node, const NodeArgs& args);
  void lower_bitcast(const Node& node, const NodeArgs& args);
  void lower_import(const Node& node, const NodeArgs& args);
  // `dim` brought last, as a whole buffer.
  BufferId rows_of(ValueId x, int dim, const Provenance& where);
  // A buffer for y with `dim` last; y shows it with that dim back in place. One that nothing shows where y is absent.
  BufferId rows_for(ValueId y, nacre_dtype dtype, const std::vector<Expr>& shape, int dim);

  // ---- lower_linalg.cpp
  void lower_lu(const Node& node, const NodeArgs& args);
  void lower_permutation(const Node& node, const NodeArgs& args);
  void lower_cholesky(const Node& node, const NodeArgs& args);
  void lower_triangular_solve(const Node& node, const NodeArgs& args);
  // A buffer for result `output` that starts as x.
  BufferId copied(const Node& node, ValueId x, size_t output);
  void add_steps(const std::string& name, Group steps);

  // ---- lower_contraction.cpp
  void lower_matmul(const Node& node, const NodeArgs& args);
  void lower_conv(const Node& node, const NodeArgs& args, bool transpose);
  void lower_attention(const Node& node, const NodeArgs& args);
  void lower_recurrent(const Node& node, const NodeArgs& args, bool lstm);
  // A group of the contraction, whose only nest stores the result as it is.
  void add_contraction(const Node& node, const std::string& name, Contraction contraction);
  // The operand as a function of `loops`; a copy of it if its address is not affine in `vars`.
  Operand operand(ValueId value, const std::vector<Expr>& index, const std::vector<LoopVar>& loops,
                         const std::vector<std::string>& vars);
  Operand dim_operand(ValueId value, const std::string& prefix, std::vector<LoopVar>& loops);

  // ---- Parts.
  BufferId new_buffer(const std::string& name, BufferKind kind, nacre_dtype dtype, std::vector<Expr> shape);
  BufferId result_buffer(ValueId value);
  Group& new_group(const std::string& name);
  void store_all(Nest& nest, BufferId buffer, const std::vector<Expr>& index, int value) const;
  // buffer[index moved by `offset`, with `step`] = view
  void copy(const View& from, BufferId to, const std::string& name, const Provenance& where, int dim = -1,
            const Expr& offset = 0, const Expr& step = 1);
  BufferId materialised(const View& view, const std::string& name, const Provenance& where);
  const View& materialised(ValueId value);
  const View& view(ValueId value) const;
  int read_value(CodeBuilder& code, ValueId value, const std::vector<Expr>& index, Simplifier& simplify) const;
  const Facts& symbols() const { return program_.symbols; }

  const Graph& graph_;
  Made& made_;
  LoopProgram& program_;
  std::vector<std::optional<View>> views_;
  std::vector<std::optional<View>> copies_;  // of views that a contraction needed as buffers
  std::vector<int> root_;                    // the value whose elements this one shows
  std::vector<int> last_read_;               // of a root: the last node that reads it
  int position_ = 0;                         // of the node being lowered
};

}  // namespace nacre
