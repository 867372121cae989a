// Lowering of work on whole rows: sorting, Fourier transforms, bytes as another type, and functions of the application's.
#include <algorithm>
#include <numeric>

#include "compiler/loops/lowering.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

// Brings `dim` last; it swaps with the last, so that the same dims bring it back.
std::vector<int> swapped(size_t rank, int dim) {
  std::vector<int> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(dim)], dims.back());
  return dims;
}

bool is_last(size_t rank, int dim) { return rank == 0 || dim + 1 == static_cast<int>(rank); }

}  // namespace

BufferId Lowering::rows_of(ValueId x, int dim, const Provenance& where) {
  const size_t rank = graph_[x].shape.size();
  const View from = is_last(rank, dim) ? view(x) : permute_view(view(x), swapped(rank, dim), symbols());
  return is_whole(program_, from) ? from.buffer : materialised(from, graph_[x].name, where);
}

BufferId Lowering::rows_for(ValueId y, nacre_dtype dtype, const std::vector<Expr>& shape, int dim) {
  std::vector<Expr> stored = shape;
  if (!is_last(shape.size(), dim)) std::swap(stored[static_cast<size_t>(dim)], stored.back());
  const BufferId b = new_buffer(y == kNoValue ? "unused" : graph_[y].name, BufferKind::temporary, dtype, stored);
  if (y == kNoValue) return b;
  const View v = whole(program_, b);
  views_[static_cast<size_t>(y)] = is_last(shape.size(), dim) ? v : permute_view(v, swapped(shape.size(), dim), symbols());
  return b;
}

void Lowering::lower_sort(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x");
  check(node.outputs.size() == 2, "sort has {} results", node.outputs.size());
  const int dim = args.integer("dim");
  RowWork sort;
  sort.kind = RowKind::sort;
  sort.inputs = {rows_of(x, dim, node.where)};
  sort.descending = args.flag("descending", false);
  // A result that nothing uses has a buffer all the same: the kernel writes both.
  sort.outputs = {rows_for(node.outputs[0], graph_[x].dtype, graph_[x].shape, dim),
                  rows_for(node.outputs[1], NACRE_i64, graph_[x].shape, dim)};
  new_group("sort").rows = sort;
}

void Lowering::lower_fft(const Node& node, const NodeArgs& args) {
  const ValueId re = args.value("re"), im = args.optional_value("im");
  const int dim = args.integer("dim");
  const std::string form = args.text("form", "c2c");
  RowWork fft;
  fft.kind = RowKind::fft;
  fft.length = args.expr("length");
  fft.inverse = args.flag("inverse", false);
  fft.inputs = {rows_of(re, dim, node.where), im == kNoValue ? -1 : rows_of(im, dim, node.where),
                rows_of(args.value("cos"), 0, node.where), rows_of(args.value("sin"), 0, node.where)};
  std::vector<Expr> shape = graph_[re].shape;
  shape[static_cast<size_t>(dim)] = form == "r2c" ? floordiv(fft.length, 2) + 1 : fft.length;
  const nacre_dtype dtype = graph_[re].dtype;
  fft.outputs = {rows_for(node.outputs[0], dtype, shape, dim),
                 form == "c2r" ? -1 : rows_for(node.outputs.at(1), dtype, shape, dim)};
  new_group("fft").rows = fft;
}

void Lowering::lower_bitcast(const Node& node, const NodeArgs& args) {
  const ValueId x = args.value("x");
  RowWork work;
  work.kind = RowKind::bitcast;
  work.inputs = {rows_of(x, static_cast<int>(graph_[x].shape.size()) - 1, node.where)};
  work.outputs = {result_buffer(node.outputs[0])};
  new_group("bitcast").rows = work;
}

void Lowering::lower_import(const Node& node, const NodeArgs& args) {
  RowWork work;
  work.kind = RowKind::import;
  work.function = args.text("function", "");
  work.arguments = args.text("arguments", "{}");
  work.where = node.where;
  for (ValueId x : args.values("inputs")) work.inputs.push_back(materialised(x).buffer);
  for (ValueId y : node.outputs) work.outputs.push_back(result_buffer(y));
  new_group("import").rows = work;
}

}  // namespace nacre
