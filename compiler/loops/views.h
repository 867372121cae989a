// Views as index maps: how an element of a value is read from the buffer that holds it.
#pragma once

#include <optional>
#include <vector>

#include "compiler/loops/code.h"
#include "compiler/loops/group.h"

namespace nacre {

// `at` and `when` are over dim_symbol(0), dim_symbol(1), ...: the index of each dim of the value.
struct View {
  BufferId buffer = -1;        // -1: every element is `fill`
  nacre_dtype dtype{};
  std::vector<Expr> shape;     // of the value
  std::vector<Expr> at;        // into the buffer
  std::vector<Expr> when;      // where one of these is 0 the element is `fill`
  Scalar fill;                 // a constant, or an index expression over the dim symbols
};

Expr dim_symbol(size_t dim);

// The whole of `buffer`.
View whole(const LoopProgram& program, BufferId buffer);
// True if the view is its buffer: same shape, same order.
bool is_whole(const LoopProgram& program, const View& view);
// Every element is `fill`.
View filled(Scalar fill, std::vector<Expr> shape, nacre_dtype dtype);

// The view of a view that has `shape`, and whose element [d0, d1, ...] is the given view's element `index`; that is over
// the new view's dim symbols. `symbols`: facts of the program.
View reindexed(const View& view, std::vector<Expr> shape, const std::vector<Expr>& index, const Facts& symbols);

View broadcast_view(const View& x, std::vector<Expr> shape, const std::vector<int>& dims, const Facts& symbols);
View reshape_view(const View& x, std::vector<Expr> shape, const Facts& symbols);
View permute_view(const View& x, const std::vector<int>& dims, const Facts& symbols);
View slice_view(const View& x, int dim, const Expr& start, const Expr& end, const Expr& step, const Facts& symbols);
View flip_view(const View& x, const std::vector<int>& dims, const Facts& symbols);
View window_view(const View& x, int dim, const Expr& size, const Expr& step, const Expr& dilation, const Facts& symbols);
// None if x is padded already with another value.
std::optional<View> pad_view(const View& x, const std::vector<Expr>& low, const std::vector<Expr>& high,
                             const Scalar& value, const Facts& symbols);

// The index into a tensor of shape `from`, of the element whose index into the same elements of shape `to` is `index`
// (over symbols with facts in `simplify`). Runs of dims with equal products are converted each on its own, so dims that a
// reshape leaves alone keep their index.
std::vector<Expr> reshape_index(const std::vector<Expr>& from, const std::vector<Expr>& to, const std::vector<Expr>& index,
                                Simplifier& simplify);

// The scalar that holds element `index` of the view, added to `code`.
int read(CodeBuilder& code, const LoopProgram& program, const View& view, const std::vector<Expr>& index,
         Simplifier& simplify);

}  // namespace nacre
