#include "compiler/codegen/rows.h"

#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/graph/text.h"
#include "compiler/loops/address.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Expr row_length(const Buffer& b) { return b.shape.empty() ? Expr(1) : b.shape.back(); }

Expr row_count(const Buffer& b) {
  Expr rows = 1;
  for (size_t i = 0; i + 1 < b.shape.size(); ++i) rows = rows * b.shape[i];
  return rows;
}

// Of what is known to be small or to have only small prime factors, VL rows at a time are in cache and exact enough.
bool fits_lanes(const Expr& length, nacre_dtype dtype) {
  if (dtype != NACRE_f32 || !length.constant() || *length.constant() > 8192) return false;
  int64_t n = std::max<int64_t>(1, *length.constant());
  for (int64_t p = 2; p <= 61; ++p)
    while (n % p == 0) n /= p;
  return n == 1;
}

void emit_sort(KernelContext& k) {
  const RowWork& sort = *k.group.rows;
  const Facts& facts = k.program.symbols;
  const Buffer& input = k.program[sort.inputs[0]];
  const Expr n = row_length(input), rows = row_count(input);
  const std::string length = cpp(simplify(n, facts), facts);
  auto pointer = [&](BufferId b) {
    return k.program[b].dtype == NACRE_bf16 ? fmt::format("reinterpret_cast<BFloat16*>({})", k.pointer(b)) : k.pointer(b);
  };
  const std::string from = pointer(sort.inputs[0]), values = pointer(sort.outputs[0]), indices = pointer(sort.outputs[1]);
  k.kernel.scratch_bytes = simplify(8 * n, facts);
  k.out.line("const Range range = split({}, thread, threads);", cpp(simplify(rows, facts), facts));
  k.out.open("for (isize row = range.begin; row < range.end; ++row) {{");
  k.out.line("sort_row<{0}>({1} + row * {4}, {4}, {2} + row * {4}, {3} + row * {4}, static_cast<i64*>(args->scratch));", sort.descending, from, values, indices, length);
  k.out.close();
  if (rows.is(1)) k.kernel.serial = true;
}

void emit_fft(KernelContext& k) {
  const RowWork& fft = *k.group.rows;
  const Facts& facts = k.program.symbols;
  const Buffer &input = k.program[fft.inputs[0]], &output = k.program[fft.outputs[0]];
  const Expr n = simplify(fft.length, facts), rows = simplify(row_count(input), facts);
  const bool lanes = fits_lanes(n, input.dtype);
  const int64_t side = lanes ? k.target.vector_floats() : 1;
  auto pointer = [&](BufferId b) { return b < 0 ? std::string("nullptr") : k.pointer(b); };
  const std::string type = storage_type(input.dtype);
  k.out.line("const FftRows<{}> fft{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}};", type, pointer(fft.inputs[0]), pointer(fft.inputs[1]),
             pointer(fft.inputs[2]), pointer(fft.inputs[3]), pointer(fft.outputs[0]), pointer(fft.outputs[1]), cpp(n, facts),
             cpp(simplify(row_length(input), facts), facts), cpp(simplify(row_length(output), facts), facts), cpp(rows, facts));
  k.out.line("fft_rows<{}>(fft, {}, split(ceil_div(fft.rows, {}), thread, threads), args->scratch);", lanes, fft.inverse, side);
  k.kernel.scratch_bytes = simplify(n * (4 * side * static_cast<int64_t>(nacre_dtype_size_bytes(input.dtype))), facts);
  if (rows.is(1)) k.kernel.serial = true;
}

void emit_bitcast(KernelContext& k) {
  const RowWork& work = *k.group.rows;
  const Facts& facts = k.program.symbols;
  const Buffer& input = k.program[work.inputs[0]];
  const Expr bytes = simplify(elements_of(input) * static_cast<int64_t>(nacre_dtype_size_bytes(input.dtype)), facts);
  const std::string from = k.pointer(work.inputs[0]), to = k.pointer(work.outputs[0]);
  k.out.line("copy_bytes({}, {}, {}, thread, threads);", to, from, cpp(bytes, facts));
}

}  // namespace

KernelSource import_of(KernelContext& k) {
  const RowWork& work = *k.group.rows;
  for (BufferId b : work.inputs)
    if (!k.program[b].order.empty())
      fail_at(ErrorKind::unsupported, where_text(work.where), "{} takes {}, which a variant wants channels-last", work.function, k.program[b].name);
  k.kernel.buffers = work.inputs;
  k.kernel.buffers.insert(k.kernel.buffers.end(), work.outputs.begin(), work.outputs.end());
  k.kernel.import = {work.function, work.arguments, work.inputs.size()};
  k.kernel.serial = true;
  if (!work.where.op.empty()) k.kernel.where = {work.where};
  return std::move(k.kernel);
}

void emit_rows(KernelContext& k) {
  const RowWork& work = *k.group.rows;
  for (const std::vector<BufferId>* list : {&work.inputs, &work.outputs})
    for (BufferId b : *list) check(b < 0 || k.program[b].order.empty(), "the rows of {} are not in order", k.program[b].name);
  switch (work.kind) {
    case RowKind::sort: return emit_sort(k);
    case RowKind::fft: return emit_fft(k);
    case RowKind::bitcast: return emit_bitcast(k);
    case RowKind::import: fail(ErrorKind::internal, "an import has no kernel");
  }
}

}  // namespace nacre
