#include "compiler/layout/generic.h"

#include <algorithm>

#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

namespace {

Expr var(const LoopVar& loop) { return Expr::symbol(loop.name); }
Expr lt(const Expr& a, const Expr& b) { return Expr::make(ExprOp::lt, {a, b}); }
Expr le(const Expr& a, const Expr& b) { return Expr::make(ExprOp::le, {a, b}); }
Expr eq(const Expr& a, const Expr& b) { return Expr::make(ExprOp::eq, {a, b}); }

// Builds the code of one nest.
struct Code {
  Nest nest;
  Provenance where;

  int add(Scalar s) {
    s.where = where;
    nest.code.push_back(std::move(s));
    return static_cast<int>(nest.code.size()) - 1;
  }
  int constant(double number, nacre_dtype dtype) {
    Scalar s;
    s.op = ScalarOp::constant;
    s.dtype = dtype;
    s.number = number;
    s.expr = Expr(0);
    if (dtype != NACRE_f32 && dtype != NACRE_f64) s.expr = Expr(static_cast<int64_t>(number));
    return add(s);
  }
  int load(const Buffer& of, BufferId buffer, std::vector<Expr> at, std::vector<Expr> when = {}) {
    const nacre_dtype dtype = compute_type(of.dtype);
    Scalar s;
    s.op = ScalarOp::load;
    s.dtype = dtype;
    s.buffer = buffer;
    s.at = std::move(at);
    if (!when.empty()) s.operands = {constant(0, dtype)};
    s.when = std::move(when);
    return add(s);
  }
  int pointwise(const char* prim, std::vector<int> operands, nacre_dtype dtype) {
    Scalar s;
    s.op = ScalarOp::pointwise;
    s.prim = prim;
    s.dtype = dtype;
    s.operands = std::move(operands);
    return add(s);
  }
  int reduce(const char* prim, int operand) {
    Scalar s;
    s.op = ScalarOp::reduce;
    s.prim = prim;
    s.dtype = nest.code[static_cast<size_t>(operand)].dtype;
    s.operands = {operand};
    return add(s);
  }
  // The epilogue's code and stores behind what is there, its accumulator replaced by scalar `result`.
  void append(const Nest& epilogue, const std::map<std::string, Expr>& rename, int result) {
    std::vector<int> moved;
    std::map<std::string, Expr> names = rename;
    for (const Scalar& old : epilogue.code) {
      const std::string name = "v" + std::to_string(moved.size());
      if (old.op == ScalarOp::accumulator) {
        moved.push_back(result);
      } else {
        Scalar s = old;
        for (int& o : s.operands) o = moved[static_cast<size_t>(o)];
        for (Expr& e : s.at) e = e.substitute(names);
        for (Expr& e : s.when) e = e.substitute(names);
        s.expr = s.expr.substitute(names);
        nest.code.push_back(s);
        moved.push_back(static_cast<int>(nest.code.size()) - 1);
      }
      names[name] = Expr::symbol("v" + std::to_string(moved.back()));
    }
    for (Store s : epilogue.stores) {
      for (Expr& e : s.at) e = e.substitute(names);
      s.value = moved[static_cast<size_t>(s.value)];
      nest.stores.push_back(s);
    }
  }
};

std::map<std::string, Expr> renaming(const std::vector<LoopVar>& from, const std::vector<LoopVar>& to) {
  std::map<std::string, Expr> map;
  for (size_t i = 0; i < from.size(); ++i) map[from[i].name] = Expr::symbol(to[i].name);
  return map;
}

std::vector<Expr> at_with(const Operand& operand, const std::vector<LoopVar>& loops, const std::vector<Expr>& values) {
  std::map<std::string, Expr> map;
  for (size_t i = 0; i < loops.size(); ++i) map[loops[i].name] = values[i];
  std::vector<Expr> at;
  for (const Expr& e : operand.at) at.push_back(e.substitute(map));
  return at;
}

Group matmul_loops(const LoopProgram& program, const Group& group) {
  const Contraction& c = *group.contraction;
  Code code{{}, c.where};
  code.nest.loops = c.loops;
  code.nest.reduced = 1;
  const int a = code.load(program[c.operands[0].buffer], c.operands[0].buffer, c.operands[0].at);
  const int b = code.load(program[c.operands[1].buffer], c.operands[1].buffer, c.operands[1].at);
  const int sum = code.reduce("sum", code.pointwise("mul", {a, b}, code.nest.code[static_cast<size_t>(a)].dtype));
  const std::vector<LoopVar> kept(c.loops.begin(), c.loops.end() - 1);
  code.append(group.nests[0], renaming(group.nests[0].loops, kept), sum);
  Group result;
  result.name = group.name;
  result.nests = {code.nest};
  return result;
}

Group conv_loops(const LoopProgram& program, const Group& group, bool transposed) {
  const Contraction& c = *group.contraction;
  const std::vector<LoopVar>& x = c.operand_loops[0];
  const std::vector<LoopVar>& w = c.operand_loops[1];
  const std::vector<LoopVar> kept(c.loops.begin(), c.loops.end() - c.reduced);
  const size_t spatial = x.size() - 2;
  Code code{{}, c.where};
  code.nest.loops = kept;
  const Expr channels_in = floordiv(x[1].extent, c.groups), channels_out = floordiv(kept[1].extent, c.groups);
  LoopVar channel{"rc", channels_in};
  std::vector<LoopVar> taps;
  for (size_t i = 0; i < spatial; ++i) taps.push_back({"rk" + std::to_string(i), w[i + 2].extent});
  code.nest.loops.push_back(channel);
  for (const LoopVar& tap : taps) code.nest.loops.push_back(tap);
  code.nest.reduced = static_cast<int>(1 + spatial);

  const Expr o = var(kept[1]), g = floordiv(o, channels_out);
  std::vector<Expr> xs{var(kept[0]), g * channels_in + var(channel)}, ws;
  if (transposed)
    ws = {g * channels_in + var(channel), mod(o, channels_out)};
  else
    ws = {o, var(channel)};
  std::vector<Expr> when;
  for (size_t i = 0; i < spatial; ++i) {
    const Expr y = var(kept[i + 2]), tap = var(taps[i]);
    Expr at = transposed ? y + c.padding[i] - tap * c.dilation[i] : y * c.stride[i] - c.padding[i] + tap * c.dilation[i];
    if (transposed) {
      when.push_back(eq(mod(at, c.stride[i]), 0));
      when.push_back(le(0, at));
      at = floordiv(at, c.stride[i]);
    } else {
      when.push_back(le(0, at));
    }
    when.push_back(lt(at, x[i + 2].extent));
    xs.push_back(at);
    ws.push_back(tap);
  }
  const int a = code.load(program[c.operands[0].buffer], c.operands[0].buffer, at_with(c.operands[0], x, xs), when);
  const int b = code.load(program[c.operands[1].buffer], c.operands[1].buffer, at_with(c.operands[1], w, ws));
  const int sum = code.reduce("sum", code.pointwise("mul", {a, b}, code.nest.code[static_cast<size_t>(a)].dtype));
  code.append(group.nests[0], renaming(group.nests[0].loops, kept), sum);
  Group result;
  result.name = group.name;
  result.nests = {code.nest};
  return result;
}

// A score: the sum over d of q k, times the scale, with the mask.
int score(Code& code, const LoopProgram& program, const Contraction& c, int sum) {
  const nacre_dtype dtype = code.nest.code[static_cast<size_t>(sum)].dtype;
  int x = code.pointwise("mul", {sum, code.constant(c.scale, dtype)}, dtype);
  if (c.operands.size() > 3 && c.operands[3].buffer >= 0)
    x = code.pointwise("add", {x, code.load(program[c.operands[3].buffer], c.operands[3].buffer, c.operands[3].at)}, dtype);
  if (c.causal) {
    Scalar seen;
    seen.op = ScalarOp::index;
    seen.dtype = NACRE_bool_;
    seen.expr = le(var(c.loops[4]), var(c.loops[2]));
    x = code.pointwise("where", {code.add(seen), x, code.constant(-INFINITY, dtype)}, dtype);
  }
  return x;
}

// The greatest score of a row, 0 where it sees nothing.
int greatest_of(Code& code, const Buffer& scores, BufferId id, const std::vector<Expr>& at) {
  const nacre_dtype wide = compute_type(scores.dtype);
  const int m = code.reduce("amax", code.load(scores, id, at));
  const int sees_nothing = code.pointwise("eq", {m, code.constant(-INFINITY, wide)}, NACRE_bool_);
  return code.pointwise("where", {sees_nothing, code.constant(0, wide), m}, wide);
}

// What is summed, over the sum of all; 0 where that is 0.
int part_of_total(Code& code, int value, int total, nacre_dtype dtype) {
  const int zero = code.constant(0, compute_type(dtype));
  const int quotient = code.pointwise("div", {value, total}, dtype);
  return code.pointwise("where", {code.pointwise("eq", {total, zero}, NACRE_bool_), zero, quotient}, dtype);
}

// softmax(q k^T * scale + mask) v for every row, the row of scores being local. A row that sees nothing is 0, as in PyTorch.
Group attention_loops(LoopProgram& program, const Group& group) {
  const Contraction& c = *group.contraction;
  const LoopVar b = c.loops[0], h = c.loops[1], s = c.loops[2], e = c.loops[3], t = c.loops[4], d = c.loops[5];
  const nacre_dtype dtype = program[c.operands[0].buffer].dtype;
  auto local = [&](const char* name, std::vector<Expr> shape) {
    program.buffers.push_back({group.name + "." + name, BufferKind::local, dtype, std::move(shape), {}, -1, {}});
    return static_cast<BufferId>(program.buffers.size()) - 1;
  };
  const BufferId scores = local("scores", {t.extent}), greatest = local("greatest", {}), total = local("total", {});
  Group result;
  result.name = group.name;
  result.outer = {b, h, s};
  {
    Code code{{}, c.where};
    code.nest.loops = {t, d};
    code.nest.reduced = 1;
    const int q = code.load(program[c.operands[0].buffer], c.operands[0].buffer, c.operands[0].at);
    const int k = code.load(program[c.operands[1].buffer], c.operands[1].buffer, c.operands[1].at);
    const int x = score(code, program, c, code.reduce("sum", code.pointwise("mul", {q, k}, dtype)));
    code.nest.stores = {{scores, {var(t)}, x, StoreMode::assign}};
    result.nests.push_back(code.nest);
  }
  {
    Code code{{}, c.where};
    code.nest.loops = {t};
    code.nest.reduced = 1;
    const int m = greatest_of(code, program[scores], scores, {var(t)});
    code.nest.stores = {{greatest, {}, m, StoreMode::assign}};
    result.nests.push_back(code.nest);
  }
  {
    Code code{{}, c.where};
    code.nest.loops = {t};
    const int x = code.pointwise("sub", {code.load(program[scores], scores, {var(t)}), code.load(program[greatest], greatest, {})}, dtype);
    code.nest.stores = {{scores, {var(t)}, code.pointwise("exp", {x}, dtype), StoreMode::assign}};
    result.nests.push_back(code.nest);
  }
  {
    Code code{{}, c.where};
    code.nest.loops = {t};
    code.nest.reduced = 1;
    const int sum = code.reduce("sum", code.load(program[scores], scores, {var(t)}));
    code.nest.stores = {{total, {}, sum, StoreMode::assign}};
    result.nests.push_back(code.nest);
  }
  Code code{{}, c.where};
  code.nest.loops = {e, t};
  code.nest.reduced = 1;
  const int p = code.load(program[scores], scores, {var(t)});
  const int v = code.load(program[c.operands[2].buffer], c.operands[2].buffer, c.operands[2].at);
  const int sum = code.reduce("sum", code.pointwise("mul", {p, v}, dtype));
  const int value = part_of_total(code, sum, code.load(program[total], total, {}), dtype);
  code.append(group.nests[0], renaming(group.nests[0].loops, {b, h, s, e}), value);
  result.nests.push_back(code.nest);
  return result;
}

}  // namespace

std::vector<Group> as_loops(LoopProgram& program, const Group& group) {
  const Contraction& c = *group.contraction;
  switch (c.kind) {
    case ContractionKind::matmul: return {matmul_loops(program, group)};
    case ContractionKind::conv: return {conv_loops(program, group, false)};
    case ContractionKind::conv_transpose: return {conv_loops(program, group, true)};
    case ContractionKind::attention: return {attention_loops(program, group)};
    case ContractionKind::lstm:
    case ContractionKind::gru: break;
  }
  throw Error(ErrorKind::unsupported, fmt::format("{} over {} has no kernel", c.where.op, nacre_dtype_name(c.dtype)),
              fmt::format("{}:{}, {}", c.where.file, c.where.line, c.where.module));
}

std::vector<Group> attention_as_products(LoopProgram& program, const Group& group) {
  const Contraction& c = *group.contraction;
  const LoopVar b = c.loops[0], h = c.loops[1], s = c.loops[2], e = c.loops[3], t = c.loops[4], d = c.loops[5];
  const auto buffer = [&](const char* name, BufferKind kind, std::vector<Expr> shape) {
    program.buffers.push_back({group.name + "." + name, kind, NACRE_f32, std::move(shape), {}, -1, {}});
    return static_cast<BufferId>(program.buffers.size()) - 1;
  };
  const std::vector<Expr> all{b.extent, h.extent, s.extent, t.extent}, at{var(b), var(h), var(s), var(t)};
  const BufferId scores = buffer("scores", BufferKind::temporary, all), parts = buffer("parts", BufferKind::temporary, all);
  const BufferId greatest = buffer("greatest", BufferKind::local, {}), total = buffer("total", BufferKind::local, {});
  const auto product = [&](const char* name, std::vector<LoopVar> loops, std::vector<Operand> operands) {
    Group result;
    result.name = group.name + "_" + name;
    Contraction part;
    part.loops = std::move(loops);
    part.reduced = 1;
    part.operands = std::move(operands);
    part.dtype = NACRE_f32;
    part.tf32 = c.tf32;
    part.where = c.where;
    result.contraction = std::move(part);
    return result;
  };
  const auto epilogue = [&](std::vector<LoopVar> loops) {
    Code code{{}, c.where};
    code.nest.loops = std::move(loops);
    Scalar sum;
    sum.op = ScalarOp::accumulator;
    sum.dtype = NACRE_f32;
    code.add(sum);
    return code;
  };

  Group first = product("scores", {b, h, s, t, d}, {c.operands[0], c.operands[1]});
  Code scored = epilogue({b, h, s, t});
  scored.nest.stores = {{scores, at, score(scored, program, c, 0), StoreMode::assign}};
  first.nests = {scored.nest};

  Group softmax;
  softmax.name = group.name + "_softmax";
  softmax.outer = {b, h, s};
  const auto exponential = [&](Code& code) {
    const int x = code.load(program[scores], scores, at), m = code.load(program[greatest], greatest, {});
    return code.pointwise("exp", {code.pointwise("sub", {x, m}, NACRE_f32)}, NACRE_f32);
  };
  Code most{{}, c.where}, sum{{}, c.where}, divided{{}, c.where};
  for (Code* code : {&most, &sum, &divided}) code->nest.loops = {t};
  most.nest.reduced = sum.nest.reduced = 1;
  most.nest.stores = {{greatest, {}, greatest_of(most, program[scores], scores, at), StoreMode::assign}};
  sum.nest.stores = {{total, {}, sum.reduce("sum", exponential(sum)), StoreMode::assign}};
  const int own = exponential(divided);
  divided.nest.stores = {{parts, at, part_of_total(divided, own, divided.load(program[total], total, {}), NACRE_f32), StoreMode::assign}};
  softmax.nests = {most.nest, sum.nest, divided.nest};

  Group last = product("values", {b, h, s, e, t}, {{parts, at}, c.operands[2]});
  last.nests = {group.nests[0]};
  return {first, softmax, last};
}

std::vector<Group> split_epilogue(LoopProgram& program, const Group& group) {
  Group first = group, second;
  const Nest& epilogue = group.nests[0];
  Buffer buffer;
  buffer.name = group.name + ".result";
  buffer.dtype = group.contraction->dtype;
  for (const LoopVar& loop : epilogue.loops) buffer.shape.push_back(loop.extent);
  program.buffers.push_back(buffer);
  const BufferId id = static_cast<BufferId>(program.buffers.size()) - 1;
  std::vector<Expr> at;
  for (const LoopVar& loop : epilogue.loops) at.push_back(var(loop));

  Code store{{}, group.contraction->where};
  store.nest.loops = epilogue.loops;
  Scalar result;
  result.op = ScalarOp::accumulator;
  result.dtype = buffer.dtype;
  store.nest.stores = {{id, at, store.add(result), StoreMode::assign}};
  first.nests = {store.nest};

  Code rest{{}, group.contraction->where};
  rest.nest.loops = epilogue.loops;
  rest.append(epilogue, {}, rest.load(buffer, id, at));
  second.name = group.name + "_rest";
  second.nests = {rest.nest};
  second.serial = group.serial;
  return {first, second};
}

}  // namespace nacre
