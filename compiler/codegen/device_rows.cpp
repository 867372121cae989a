#include "compiler/codegen/device_rows.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/device_tiles.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

constexpr int kBlock = 256;

Expr row_length(const Buffer& b) { return b.shape.empty() ? Expr(1) : b.shape.back(); }

Expr row_count(const Buffer& b) {
  Expr rows = 1;
  for (size_t i = 0; i + 1 < b.shape.size(); ++i) rows = rows * b.shape[i];
  return rows;
}

// A block sorts one row after the other, with 8 bytes of scratch for each element.
KernelSource::Launch sort(KernelContext& k) {
  const RowWork& work = *k.group.rows;
  const Facts& facts = k.program.symbols;
  const Buffer& input = k.program[work.inputs[0]];
  const Expr n = simplify(row_length(input), facts), rows = simplify(row_count(input), facts);
  const auto pointer = [&](BufferId b) {
    return k.program[b].dtype == NACRE_bf16 ? fmt::format("reinterpret_cast<{}BFloat16*>({})", b == work.inputs[0] ? "const " : "", k.pointer(b)) : k.pointer(b);
  };
  const std::string from = pointer(work.inputs[0]), values = pointer(work.outputs[0]), places = pointer(work.outputs[1]);
  k.kernel.scratch_bytes = simplify(8 * n, facts);
  k.out.line("sort_rows<{}>({}, {}, {}, i64({}), i64({}), reinterpret_cast<i64*>(launch.scratch));", work.descending, from, values, places, cpp(rows, facts), cpp(n, facts));
  return {kBlock, min(rows, Expr(1024)), {}};
}

KernelSource::Launch fft(KernelContext& k) {
  const RowWork& work = *k.group.rows;
  const Facts& facts = k.program.symbols;
  const Buffer &input = k.program[work.inputs[0]], &output = k.program[work.outputs[0]];
  const auto pointer = [&](BufferId b) { return b < 0 ? std::string("nullptr") : k.pointer(b); };
  const Expr rows = simplify(row_count(input), facts), to = simplify(row_length(output), facts);
  const std::string type = storage_type(input.dtype);
  std::string pointers;
  for (size_t i = 0; i < 4; ++i) pointers += pointer(work.inputs[i]) + ", ";
  for (size_t i = 0; i < 2; ++i) pointers += pointer(i < work.outputs.size() ? work.outputs[i] : -1) + ", ";
  k.out.line("fourier_rows<{}, {}>({}i64({}), i64({}), i64({}), i64({}));", type, work.inverse, pointers, cpp(simplify(work.length, facts), facts),
             cpp(simplify(row_length(input), facts), facts), cpp(to, facts), cpp(rows, facts));
  return {kBlock, min(ceildiv(simplify(rows * to, facts), kBlock / 32), Expr(65536)), {}};
}

KernelSource::Launch bitcast(KernelContext& k) {
  const RowWork& work = *k.group.rows;
  const Facts& facts = k.program.symbols;
  const Buffer& input = k.program[work.inputs[0]];
  const Expr bytes = simplify(elements_of(input) * static_cast<int64_t>(nacre_dtype_size_bytes(input.dtype)), facts);
  const std::string from = k.pointer(work.inputs[0]), to = k.pointer(work.outputs[0]);
  k.out.line("copy_bytes({}, {}, i64({}));", to, from, cpp(bytes, facts));
  return {kBlock, min(ceildiv(bytes, kBlock * 4), Expr(4096)), {}};
}

}  // namespace

KernelSource::Launch emit_device_rows(KernelContext& k) {
  switch (k.group.rows->kind) {
    case RowKind::sort: return sort(k);
    case RowKind::fft: return fft(k);
    case RowKind::bitcast: return bitcast(k);
    case RowKind::import: break;
  }
  fail(ErrorKind::internal, "an import has no kernel");
}

namespace {

// How a cluster of blocks divides a layer's units and keeps its weights: see nacre/cuda_recurrent.h.
struct RecurrentTile {
  int64_t blocks = 0, units = 0, held = 0, shared = 0, shared_bytes = 0;
};

// The smallest cluster whose registers take all weights, or the largest.
std::optional<RecurrentTile> choose_recurrent_tile(int64_t gates, int64_t hidden, const Target& target) {
  constexpr int64_t kWarps = 16, kWords = 64, kMostUnits = 8, kShared = 200 * 1024;  // words of weights that a thread keeps
  if (target.compute_capability < 90) return std::nullopt;
  const int64_t most_blocks = target.compute_capability == 90 ? 16 : 8;  // every device with clusters has 8
  const int64_t terms = (hidden + 31) / 32;
  for (int64_t blocks = 1; blocks <= most_blocks; blocks *= 2) {
    RecurrentTile tile{blocks, 1};
    while (tile.units * kWarps * blocks < hidden) tile.units *= 2;
    const int64_t rows = gates * tile.units;
    if (tile.units > kMostUnits || terms > kWords || (rows * terms > kWords && blocks < most_blocks)) continue;
    tile.held = std::min(rows, kWords / terms);
    const int64_t row_bytes = 4 * 32 * terms * kWarps;
    tile.shared = std::min(rows - tile.held, kShared / row_bytes);
    tile.shared_bytes = tile.shared * row_bytes;
    return tile;
  }
  return std::nullopt;
}

}  // namespace

// A recurrent layer whose input has been projected: a cluster of blocks for each row of the batch, or one block, step by step.
KernelSource::Launch emit_device_recurrent(KernelContext& k) {
  const Contraction& c = *k.group.contraction;
  const bool lstm = c.kind == ContractionKind::lstm;
  const Facts& facts = k.program.symbols;
  const auto size = [&](const Expr& e) { return "i64(" + cpp(simplify(e, facts), facts) + ")"; };
  const Expr time = c.loops[0].extent, batch = c.loops[1].extent, hidden = c.loops[2].extent;
  const auto view = [&](size_t i) {
    std::vector<std::string> names;
    for (const LoopVar& loop : c.operand_loops[i]) names.push_back(loop.name);
    auto lies = strided(k.program, c.operands[i], c.operand_loops[i], names);
    check(lies.has_value(), "operand {} of {} is not affine", i, k.group.name);
    return *lies;
  };
  const auto at = [&](size_t i, const Strided& lies) { return fmt::format("{} + {}", k.pointer(c.operands[i].buffer), cpp(simplify(lies.base - k.start(c.operands[i].buffer), facts), facts)); };
  const size_t w_hh = lstm ? 4 : 3, b_hh = lstm ? 6 : 5;
  const Strided h0 = view(1), w = view(w_hh);
  const std::vector<Expr> y = strides_of(k.program[c.results[0]]);
  k.out.line("Recurrent cell;");
  const auto set = [&](const char* field, const std::string& value) { k.out.line("cell.{} = {};", field, value); };
  set("time", size(time));
  set("batch", size(batch));
  set("hidden", size(hidden));
  set("y_t", size(y[0]));
  set("y_b", size(y[1]));
  set("h_b", size(h0.strides[0]));
  set("h_u", size(h0.strides[1]));
  set("w_g", size(w.strides[0]));
  set("w_u", size(w.strides[1]));
  set("input", k.pointer(c.operands[0].buffer));
  set("weights", at(w_hh, w));
  set("h0", at(1, h0));
  if (lstm) {
    const Strided c0 = view(2);
    set("c0", at(2, c0));
    set("c_b", size(c0.strides[0]));
    set("c_u", size(c0.strides[1]));
  }
  if (!lstm && b_hh < c.operands.size() && c.operands[b_hh].buffer >= 0) {
    const Strided bias = view(b_hh);
    set("bias", at(b_hh, bias));
    set("bias_g", size(bias.strides[0]));
  }
  set("y", k.pointer(c.results[0]));
  set("h", k.pointer(c.results[1]));
  if (lstm) set("c", k.pointer(c.results[2]));
  const auto units = simplify(hidden, facts).constant();
  const auto tile = units ? choose_recurrent_tile(lstm ? 4 : 3, *units, k.target) : std::nullopt;
  if (tile) {
    const auto is_computed = [&](size_t i) { return i < c.operands.size() && c.operands[i].buffer >= 0 && k.program[c.operands[i].buffer].kind != BufferKind::weight; };
    if (is_computed(w_hh) || (!lstm && is_computed(b_hh))) k.out.line("await_previous();");
    k.out.line("recurrent_in_cluster<{}, {}, {}, {}, {}, {}, {}>(cell);", lstm, c.reverse, *units, tile->blocks, tile->units, tile->held, tile->shared);
    KernelSource::Launch launch{512, simplify(min(max(batch, Expr(1)), Expr(multiprocessors_of(k.target) / tile->blocks)) * tile->blocks, facts), {}};
    launch.shared_bytes = static_cast<int>(tile->shared_bytes);
    launch.cluster = static_cast<int>(tile->blocks);
    launch.awaits = true;
    return launch;
  }
  k.kernel.scratch_bytes = simplify(4 * hidden * (lstm ? 7 : 5), facts);
  k.out.line("recurrent<{}, {}>(cell, reinterpret_cast<float*>(launch.scratch + i64(blockIdx.x) * ({})));", lstm, c.reverse, cpp(k.kernel.scratch_bytes, facts));
  return {1024, min(batch, Expr(1024)), {}};
}

}  // namespace nacre
