#include "compiler/codegen/kernel.h"

#include <algorithm>

#include "compiler/codegen/cpp.h"
#include "compiler/codegen/contraction.h"
#include "compiler/codegen/device.h"
#include "compiler/codegen/nest.h"
#include "compiler/codegen/rows.h"
#include "compiler/graph/ops.h"
#include "compiler/loops/address.h"
#include "compiler/loops/code.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

std::string storage_type(nacre_dtype dtype) {
  switch (dtype) {
    case NACRE_bool_: return "bool";
    case NACRE_u8: return "uint8_t";
    case NACRE_i8: return "int8_t";
    case NACRE_i16: return "int16_t";
    case NACRE_i32: return "int32_t";
    case NACRE_i64: return "i64";
    case NACRE_u16: case NACRE_bf16: return "uint16_t";
    case NACRE_u32: return "uint32_t";
    case NACRE_u64: return "uint64_t";
    case NACRE_f16: return "_Float16";
    case NACRE_f32: return "float";
    case NACRE_f64: return "double";
    default: fail(ErrorKind::unsupported, "tensors of {} have no kernels yet", nacre_dtype_name(dtype));
  }
}

std::string scalar_type(nacre_dtype dtype) {
  return storage_type(compute_type(dtype));
}

std::string KernelContext::pointer(BufferId id) {
  auto found = pointers.find(id);
  if (found != pointers.end()) return found->second;
  check(program[id].kind != BufferKind::local, "local buffer {} has no place", program[id].name);
  const std::string name = "data" + std::to_string(kernel.buffers.size());
  kernel.buffers.push_back(id);
  kernel.starts.push_back(start(id));
  return pointers[id] = name;
}

std::string KernelContext::expression(const std::string& primitive) const {
  static const std::map<std::string, std::string> rough{{"exp", "exp_16(a)"}, {"erf", "erf_16(a)"}, {"sigmoid", "sigmoid_16(a)"}, {"div", "div_16(a, b)"}};
  const auto found = rounds_to_half ? rough.find(primitive) : rough.end();
  return found == rough.end() ? std::string(pointwise_expression(primitive)) : found->second;
}

int KernelContext::provenance(const Provenance& where) {
  auto same = [&](const Provenance& p) { return p.op == where.op && p.file == where.file && p.line == where.line && p.module == where.module; };
  auto found = std::find_if(kernel.where.begin(), kernel.where.end(), same);
  if (found == kernel.where.end()) found = kernel.where.insert(kernel.where.end(), where);
  return static_cast<int>(found - kernel.where.begin());
}

std::string KernelSource::text(const std::string& symbol) const {
  if (launch)
    return fmt::format("{}#include \"nacre/cuda.h\"\nnamespace nk {{\n\nextern \"C\" __global__ void __launch_bounds__({}{}) {}{}{}\n}}  // namespace nk\n", comment,
                       launch->threads, launch->resident > 1 ? fmt::format(", {}", launch->resident) : "", launch->cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", launch->cluster) : "", symbol, body);
  return fmt::format("{}#include \"nacre/kernels.h\"\nusing namespace nk;\n\nextern \"C\" __attribute__((visibility(\"hidden\"))) int32_t {}(const nacre_kernel_args* args) {}", comment, symbol, body);
}

Expr points_of(const std::vector<LoopVar>& loops) {
  Expr points = 1;
  for (const LoopVar& loop : loops) points = points * loop.extent;
  return points;
}

std::vector<std::pair<std::string, std::string>> values_of(const std::vector<LoopVar>& loops, const std::string& counter, const Facts& facts) {
  std::vector<std::pair<std::string, std::string>> values(loops.size());
  Expr step = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    std::string value = step.is(1) ? counter : fmt::format("{} / {}", counter, cpp(simplify(step, facts), facts));
    if (i > 0) value = fmt::format("{} % {}", value, cpp(simplify(loops[i].extent, facts), facts));
    values[i] = {loops[i].name, std::move(value)};
    step = step * loops[i].extent;
  }
  return values;
}

// Arithmetic of a group, for profiles: multiply-adds of a contraction count two, every pointwise scalar one.
void count_work(KernelContext& k) {
  Expr flops = 0, bytes = 0;
  Expr outer = 1;
  for (const LoopVar& loop : k.group.outer) outer = outer * loop.extent;
  for (const Nest& nest : k.group.nests) {
    Expr points = outer;
    for (const LoopVar& loop : nest.loops) points = points * loop.extent;
    int64_t operations = 0;
    for (const Scalar& s : nest.code)
      if (s.op == ScalarOp::pointwise || s.op == ScalarOp::reduce || s.op == ScalarOp::scan) ++operations;
    flops = flops + points * operations;
  }
  if (k.group.contraction) {
    const Contraction& c = *k.group.contraction;
    Expr work = 2;
    for (const LoopVar& loop : c.loops) work = work * loop.extent;
    if (c.kind == ContractionKind::attention) {  // b, h, s, e, t, d: two products, over d and over t
      work = 2 * (c.loops[3].extent + c.loops[5].extent);
      for (size_t i : {0, 1, 2, 4}) work = work * c.loops[i].extent;
    }
    if (c.kind == ContractionKind::conv || c.kind == ContractionKind::conv_transpose) {
      const auto& w = c.operand_loops[1];
      Expr taps = 1;
      for (size_t i = 2; i < w.size(); ++i) taps = taps * w[i].extent;
      work = c.kind == ContractionKind::conv ? work * w[1].extent * taps
                                             : 2 * product({c.operand_loops[0][0].extent, c.operand_loops[0][1].extent}) * w[1].extent * taps;
      if (c.kind == ContractionKind::conv_transpose)
        for (size_t i = 2; i < c.operand_loops[0].size(); ++i) work = work * c.operand_loops[0][i].extent;
    }
    flops = flops + work;
  }
  for (BufferId b : k.kernel.buffers)
    bytes = bytes + elements_of(k.program[b]) * static_cast<int64_t>(nacre_dtype_size_bytes(k.program[b].dtype));
  k.kernel.flops = simplify(flops, k.program.symbols);
  k.kernel.bytes = simplify(bytes, k.program.symbols);
}

namespace {

// What every access of the group to a buffer adds to the address.
std::map<BufferId, int64_t> starts_of(const LoopProgram& program, const Group& group) {
  std::map<BufferId, int64_t> starts;
  if (group.rows) return starts;
  const auto access = [&](BufferId id, const std::vector<Expr>& at, const Facts& facts) {
    if (id < 0 || program[id].kind == BufferKind::local) return;
    const Expr where = address(program[id], at, facts);
    std::map<std::string, Expr> zero;
    for (const std::string& name : where.symbols()) zero.emplace(name, Expr(0));
    const int64_t start = std::max<int64_t>(0, where.substitute(zero).constant().value_or(0));
    const auto [known, added] = starts.try_emplace(id, start);
    known->second = std::min(known->second, start);
  };
  for (const Nest& nest : group.nests) {
    const Facts facts = facts_in(program, group, nest);
    for (const Scalar& s : nest.code)
      if (s.op == ScalarOp::load) access(s.buffer, s.at, facts);
    for (const Store& s : nest.stores) access(s.buffer, s.at, facts);
  }
  if (group.contraction) {
    const Contraction& c = *group.contraction;
    for (size_t i = 0; i < c.operands.size(); ++i) {
      Facts facts = program.symbols;
      add_loop_facts(facts, i < c.operand_loops.size() ? c.operand_loops[i] : c.loops);
      access(c.operands[i].buffer, c.operands[i].at, facts);
    }
    for (BufferId id : c.results) starts[id] = 0;
  }
  std::erase_if(starts, [&](const auto& found) {
    const auto elements = simplify(elements_of(program[found.first]), program.symbols).constant();
    return found.second == 0 || !elements || found.second >= *elements;
  });
  return starts;
}

// Numbers that may be larger than sizes of the smallest machine stay as wide as they come.
const char* symbol_type(const SymbolFacts& facts) { return facts.range.min >= INT32_MIN && facts.range.max <= INT32_MAX ? "isize" : "i64"; }

}  // namespace

std::string comment_of(const KernelContext& k) {
  std::string text = "// " + k.group.name + "\n";
  for (const Provenance& p : k.kernel.where) {
    if (p.op.empty() && p.file.empty()) continue;
    text += "//   " + p.op;
    if (!p.file.empty()) text += fmt::format("  {}:{}", p.file, p.line);
    if (!p.module.empty()) text += "  " + p.module;
    text += "\n";
  }
  return text;
}

KernelSource emit_kernel(const LoopProgram& program, const Group& group, const Target& target) {
  SymbolNodes nodes;
  for (const auto& [name, symbol] : program.symbols) nodes.emplace(name, static_cast<uint32_t>(nodes.size()));
  return emit_kernel(program, group, target, nodes);
}

KernelSource emit_kernel(const LoopProgram& program, const Group& group, const Target& target, const SymbolNodes& nodes) {
  KernelContext k{program, group, target, {}, {}, {}, starts_of(program, group)};
  k.kernel.name = group.name;
  if (group.contraction) k.provenance(group.contraction->where);
  for (const Nest& nest : group.nests)
    for (const Scalar& s : nest.code)
      if (!s.where.op.empty()) k.provenance(s.where);
  if (group.rows && group.rows->kind == RowKind::import) return import_of(k);
  if (target.compute_capability) {
    const std::set<BufferId> written = buffers_written(group);
    k.rounds_to_half = std::all_of(written.begin(), written.end(), [&](BufferId b) { return program[b].kind == BufferKind::local || is_half(program[b].dtype); });
    return emit_device_kernel(k, nodes);
  }

  // Local buffers: one element in a register, longer ones in scratch.
  Expr scratch = 0;
  const Facts facts = facts_in(program, group, Nest{});
  for (const Nest& nest : group.nests)
    for (const Store& s : nest.stores) {
      const Buffer& b = program[s.buffer];
      if (b.kind != BufferKind::local || k.pointers.contains(s.buffer)) continue;
      const std::string name = "l" + std::to_string(k.pointers.size());
      k.pointers[s.buffer] = name;
      const Expr elements = simplify(elements_of(b), program.symbols);
      if (elements.is(1)) {
        k.out.line("{} {}[1];", storage_type(b.dtype), name);
        continue;
      }
      k.out.line("{0}* {1} = reinterpret_cast<{0}*>(static_cast<char*>(args->scratch) + {2});", storage_type(b.dtype), name, cpp(scratch, program.symbols));
      scratch = simplify(scratch + ceildiv(elements * static_cast<int64_t>(nacre_dtype_size_bytes(b.dtype)), 64) * 64, program.symbols);
    }
  k.kernel.scratch_bytes = scratch;

  if (group.rows) {
    emit_rows(k);
  } else if (group.contraction) {
    emit_contraction(k);
  } else if (!group.outer.empty()) {
    const Expr total = points_of(group.outer);
    k.out.line("const Range range = split({}, thread, threads);", cpp(simplify(total, facts), facts));
    k.out.open("for (isize outer = range.begin; outer < range.end; ++outer) {{");
    for (const auto& [name, value] : values_of(group.outer, "outer", facts)) k.out.line("[[maybe_unused]] const isize {} = {};", name, value);
    for (const Nest& nest : group.nests) {
      k.out.open("{{");
      NestEmitter(k, nest, group.outer).emit(false);
      k.out.close();
    }
    k.out.close();
    if (group.serial || (total.constant() && *total.constant() == 1)) k.kernel.serial = true;
  } else {
    const bool split = group.nests.size() == 1 && !group.serial && NestEmitter(k, group.nests[0], {}).splittable();
    k.kernel.serial = !split;
    for (const Nest& nest : group.nests) {
      k.out.open("{{");
      NestEmitter(k, nest, {}).emit(split);
      k.out.close();
    }
  }

  Writer head;
  for (size_t i = 0; i < k.kernel.buffers.size(); ++i) {
    const BufferId id = k.kernel.buffers[i];
    head.line("{0}* __restrict data{1} = static_cast<{0}*>(args->buffers[{1}]);", storage_type(program[id].dtype), i);
  }
  // Clang does not look at __restrict of a variable, and weights would be loaded again after every store.
  const auto is_weight = [&](BufferId id) { return program[id].kind == BufferKind::weight; };
  if (target.registers == 4)
    for (size_t i = 0; i < k.kernel.buffers.size(); ++i)
      for (size_t j = 0; j < k.kernel.buffers.size(); ++j)
        if (is_weight(k.kernel.buffers[i]) && !is_weight(k.kernel.buffers[j])) head.line("__builtin_assume_separate_storage(data{}, data{});", i, j);
  for (const auto& [name, symbol] : program.symbols)
    if (k.out.text().find(name) != std::string::npos) head.line("[[maybe_unused]] const {} {} = args->nodes[{}];", symbol_type(symbol), name, nodes.at(name));
  head.line("[[maybe_unused]] float* const scratch = static_cast<float*>(args->scratch);");
  head.line("[[maybe_unused]] const int thread = {}, threads = {};", target.firmware ? "0" : "static_cast<int>(args->thread)",
            target.firmware ? "1" : "static_cast<int>(args->threads)");
  head.line("int32_t status = 0;");
  k.kernel.body = "{\n" + head.text() + k.out.text() + "  return status;\n}\n";
  count_work(k);
  k.kernel.comment = comment_of(k);

  // Little work is not worth a second thread.
  if (auto flops = k.kernel.flops.constant(), bytes = k.kernel.bytes.constant(); flops && bytes && *flops < 16384 && *bytes < 65536)
    k.kernel.serial = true;
  return std::move(k.kernel);
}

}  // namespace nacre
