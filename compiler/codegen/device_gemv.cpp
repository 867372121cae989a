// A nest that multiplies a matrix with one vector: a call of the tile in nacre/cuda_gemv.h, with the vector, the rows of the matrix
// and what becomes of a result as lambdas.
#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/device_rows.h"
#include "compiler/codegen/device_tiles.h"
#include "compiler/codegen/nest.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int64_t kPiece = 8;
constexpr int64_t kLeastBytes = 128 * 1024;  // of a matrix, for which it pays

int64_t each_of(nacre_dtype dtype) { return 16 / static_cast<int64_t>(nacre_dtype_size_bytes(dtype)); }

}  // namespace

std::optional<NestEmitter::MatrixVector> NestEmitter::matrix_vector() const {
  if (loops_.size() != 1 || reduced_.size() != 1 || scans()) return std::nullopt;
  const std::string &n = loops_[0].name, &k = reduced_[0].name;
  const auto rows = loops_[0].extent.constant(), terms = reduced_[0].extent.constant();
  if (!rows || !terms || *terms % kPiece != 0) return std::nullopt;
  MatrixVector found;
  found.rows = *rows;
  found.terms = *terms;
  for (size_t i = 0; i < nest_.code.size(); ++i)
    if (nest_.code[i].op == ScalarOp::reduce) {
      if (found.sum >= 0) return std::nullopt;
      found.sum = static_cast<int>(i);
    }
  if (found.sum < 0) return std::nullopt;
  const Scalar& sum = nest_.code[static_cast<size_t>(found.sum)];
  const Scalar& term = nest_.code[static_cast<size_t>(sum.operands[0])];
  if (sum.prim != "sum" || sum.dtype != NACRE_f32 || term.op != ScalarOp::pointwise || term.prim != "mul") return std::nullopt;
  NestEmitter with = *this;
  with.pieces_ = k;
  const auto is_matrix = [&](int i) {
    const Scalar& s = nest_.code[static_cast<size_t>(i)];
    if (s.op != ScalarOp::load || !s.when.empty() || s.dtype != NACRE_f32 || !depends_[static_cast<size_t>(i)].contains(n)) return false;
    const nacre_dtype dtype = context_.program[s.buffer].dtype;
    return (dtype == NACRE_f32 || is_half(dtype)) && with.is_piece(s.buffer, address_[static_cast<size_t>(i)]);
  };
  for (int side = 0; side < 2; ++side)
    if (is_matrix(term.operands[static_cast<size_t>(side)])) {
      found.matrix = term.operands[static_cast<size_t>(side)];
      found.vector = term.operands[static_cast<size_t>(1 - side)];
    }
  if (found.matrix < 0 || found.vector == found.matrix) return std::nullopt;
  const std::vector<bool> inside = under_reduction(nest_);
  for (size_t i = 0; i < inside.size(); ++i)
    if (inside[i] && static_cast<int>(i) != found.matrix && static_cast<int>(i) != sum.operands[0] && depends_[i].contains(n)) return std::nullopt;
  for (const Scalar& s : nest_.code)
    if (s.op == ScalarOp::check_index && std::any_of(s.operands.begin(), s.operands.end(), [&](int o) { return depends_[static_cast<size_t>(o)].contains(k); })) return std::nullopt;
  const nacre_dtype dtype = context_.program[nest_.code[static_cast<size_t>(found.matrix)].buffer].dtype;
  found.each = each_of(dtype);
  found.constant = context_.program[nest_.code[static_cast<size_t>(found.matrix)].buffer].kind == BufferKind::weight;
  if (found.rows * found.terms * 16 / found.each < kLeastBytes) return std::nullopt;
  if (found.terms > kMostGemvPieces * 512 * found.each) return std::nullopt;
  // The sums of a block's rows lie in its shared memory, too.
  if (choose_gemv_tile(found.rows, found.terms, found.each, context_.target).shared_bytes + kFoldBytes > block_shared_of(context_.target)) return std::nullopt;
  return found;
}

void NestEmitter::emit_matrix_vector(const MatrixVector& product, const GemvTile& tile, const std::function<void()>& before) {
  Writer& out = context_.out;
  const Scalar& matrix = nest_.code[static_cast<size_t>(product.matrix)];
  const nacre_dtype dtype = context_.program[matrix.buffer].dtype;
  const std::string &n = loops_[0].name, &k = reduced_[0].name;
  out.line("Gemv<{}, {}, {}, {}, {}, {}, {}> product({});", dtype == NACRE_bf16 ? "BFloat16" : dtype == NACRE_f16 ? "Half" : "float", product.terms, tile.warps, tile.beside, tile.pieces,
           tile.rows, tile.stages, product.rows);
  const Expr row = address_[static_cast<size_t>(product.matrix)].substitute({{k, Expr(0)}});
  const bool known = std::all_of(depends_[static_cast<size_t>(product.matrix)].begin(), depends_[static_cast<size_t>(product.matrix)].end(), [&](const std::string& v) { return v == n || v == k; }) &&
                     row.symbols() == std::set<std::string>{n};
  if (!known || !product.constant) {
    out.line("await_previous();");
    before();
    emit_ready();
  }
  out.line("const auto row = [&](isize {}) {{ return {} + {}; }};", n, context_.pointer(matrix.buffer), cpp(simplify(row, facts_), facts_));
  out.line("product.begin(row);");
  if (known && product.constant) {
    out.line("await_previous();");
    before();
    emit_ready();
  }

  // The vector.
  out.open("product.take([&](isize first, float (&values)[{}]) {{", product.each);
  lanes_ = product.each;
  pieces_ = k;
  piece_loads_.clear();
  const auto outside = open_;
  const std::vector<bool> inside = under_reduction(nest_);
  held_.assign(nest_.code.size(), false);
  for (size_t i = 0; i < inside.size(); ++i) held_[i] = !inside[i] || static_cast<int>(i) == product.matrix || depends_[i].contains(n);
  load_pieces("first");
  out.open("NACRE_UNROLL for (int lane = 0; lane < {}; ++lane) {{", product.each);
  out.line("[[maybe_unused]] const isize {} = first + lane;", k);
  open_.insert(k);
  emit_ready();
  out.line("values[lane] = {};", scalar_symbol(product.vector));
  out.close();
  out.close("});");
  open_ = outside;
  pieces_.clear();
  piece_loads_.clear();
  held_.clear();
  out.line("product.sum(row);");

  // What becomes of a result.
  out.open("product.each([&]([[maybe_unused]] isize {}, float value) {{", n);
  open_.insert(n);
  for (size_t i = 0; i < inside.size(); ++i)
    if (inside[i]) emitted_[i] = true;
  emitted_[static_cast<size_t>(product.sum)] = true;
  out.line("const float {} = value;", scalar_symbol(product.sum));
  emit_ready();
  for (size_t i = 0; i < nest_.code.size(); ++i) check(emitted_[i], "scalar v{} of {} has no place beside its product", i, context_.group.name);
  emit_stores();
  out.close("});");
  open_ = outside;
}

bool is_matrix_vector(const LoopProgram& program, const Group& group, const Target& target) {
  if (group.contraction || group.rows || group.control || group.serial || !group.outer.empty() || group.nests.size() != 1) return false;
  KernelContext context{program, group, target, {}, {}, {}, {}};
  NestEmitter nest(context, group.nests[0], {});
  nest.prepare_device();
  return nest.matrix_vector().has_value();
}

GemvTile choose_gemv_tile(int64_t rows, int64_t terms, int64_t each, const Target& target) {
  const auto ceiling = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t pieces = terms / each, warps = ceiling(pieces, 32), processors = multiprocessors_of(target);
  GemvTile tile;
  tile.warps = static_cast<int>(warps <= 16 ? std::min<int64_t>(warps, 8) : 16);
  tile.pieces = static_cast<int>(ceiling(pieces, 32 * tile.warps));
  tile.beside = std::max(1, 8 / tile.warps);
  // Two blocks for each multiprocessor, with room for both.
  tile.blocks = std::min<int64_t>(ceiling(rows, tile.beside), 2 * processors);
  const int64_t share = ceiling(rows, tile.blocks * tile.beside);
  // Steps of 16 KiB where that is a row or more, so that blocks of two kernels have room beside each other.
  const int threads = 32 * tile.warps * tile.beside, row = tile.pieces * threads * 16;
  tile.rows = 8;
  while (tile.rows > 1 && (tile.rows * row > 16 * 1024 || (tile.rows > 4 && tile.rows > share / 3))) tile.rows /= 2;
  const int step = tile.rows * row;
  tile.stages = std::clamp(48 * 1024 / step, 2, 6);
  const int64_t most = ceiling(rows, tile.blocks);
  tile.shared_bytes = static_cast<int>(16 + tile.stages * step + 4 * tile.warps * most);
  return tile;
}

}  // namespace nacre
