// Lowering of contractions: each a group of its own, whose epilogue only stores the result.
#include <algorithm>

#include "compiler/graph/text.h"
#include "compiler/loops/lowering.h"
#include "compiler/support/error.h"

namespace nacre {
bool is_affine(const Expr& e, const std::vector<std::string>& vars, const std::vector<LoopVar>& loops, Simplifier& simplify) {
  const std::set<std::string> used = e.symbols();
  for (const std::string& var : vars) {
    if (!used.contains(var)) continue;
    const Expr step = simplify(e.substitute({{var, Expr::symbol(var) + 1}}) - e);
    const std::set<std::string> in_step = step.symbols();
    for (const LoopVar& loop : loops)
      if (in_step.contains(loop.name)) return false;
  }
  return true;
}

bool address_is_affine(const Buffer& buffer, const std::vector<Expr>& at, const std::vector<std::string>& vars,
                       const std::vector<LoopVar>& loops, Simplifier& simplify) {
  if (std::all_of(at.begin(), at.end(), [&](const Expr& e) { return is_affine(e, vars, loops, simplify); })) return true;
  Expr address = 0;
  for (size_t i = 0; i < at.size(); ++i) address = address * buffer.shape[i] + at[i];
  return is_affine(simplify(address), vars, loops, simplify);
}

bool dims_are_apart(const std::vector<Expr>& at, const std::vector<LoopVar>& loops) {
  std::set<std::string> used;
  for (const Expr& e : at) {
    if (e.constant()) continue;
    std::string variable;
    const std::set<std::string> symbols = e.symbols();
    for (const LoopVar& loop : loops) {
      if (!symbols.contains(loop.name)) continue;
      if (!variable.empty()) return false;
      variable = loop.name;
    }
    if (variable.empty()) continue;
    if (!used.insert(variable).second) return false;
    const Expr step = e.substitute({{variable, Expr::symbol(variable) + 1}}) - e;
    if (step.symbols().contains(variable)) return false;
  }
  // No element stands for several.
  return std::all_of(loops.begin(), loops.end(), [&](const LoopVar& l) { return l.extent.is(1) || used.contains(l.name); });
}

Operand Lowering::operand(ValueId value, const std::vector<Expr>& index, const std::vector<LoopVar>& loops,
                          const std::vector<std::string>& vars) {
  Facts facts = program_.symbols;
  add_loop_facts(facts, loops);
  Simplifier simplify(std::move(facts));
  auto resolve = [&](const View& v) {
    Operand o;
    o.buffer = v.buffer;
    std::map<std::string, Expr> values;
    for (size_t i = 0; i < index.size(); ++i) values.emplace(dim_symbol(i).name(), index[i]);
    for (const Expr& e : v.at) o.at.push_back(e.constant() ? e : simplify(e.substitute(values)));
    return o;
  };
  const View& v = view(value);
  if (v.buffer >= 0 && v.when.empty()) {
    Operand o = resolve(v);
    if (address_is_affine(program_[v.buffer], o.at, vars, loops, simplify)) return o;
  }
  return resolve(materialised(value));
}

Operand Lowering::dim_operand(ValueId value, const std::string& prefix, std::vector<LoopVar>& loops) {
  const std::vector<Expr>& shape = graph_[value].shape;
  loops.clear();
  std::map<std::string, Expr> values;
  for (size_t i = 0; i < shape.size(); ++i) {
    loops.push_back({prefix + std::to_string(i), shape[i]});
    values.emplace(dim_symbol(i).name(), shape[i].is(1) ? Expr(0) : Expr::symbol(loops.back().name));
  }
  const auto resolve = [&](const View& v) {
    Operand o;
    o.buffer = v.buffer;
    for (const Expr& e : v.at) o.at.push_back(e.substitute(values));
    return o;
  };
  const View& v = view(value);
  if (v.buffer >= 0 && v.when.empty()) {
    Operand o = resolve(v);
    if (dims_are_apart(o.at, loops)) return o;
  }
  return resolve(materialised(value));
}

void Lowering::add_contraction(const Node& node, const std::string& name, Contraction contraction) {
  contraction.where = node.where;
  const ValueId y = node.outputs[0];
  const BufferId b = result_buffer(y);
  contraction.dtype = compute_type(program_[b].dtype);
  Nest nest;
  nest.loops.assign(contraction.loops.begin(), contraction.loops.end() - contraction.reduced);
  std::vector<Expr> index;
  for (const LoopVar& loop : nest.loops) index.push_back(loop.extent.is(1) ? Expr(0) : Expr::symbol(loop.name));
  Scalar s;
  s.op = ScalarOp::accumulator;
  s.dtype = contraction.dtype;
  nest.code.push_back(std::move(s));
  store_all(nest, b, index, 0);
  Group& group = new_group(name);
  group.contraction = std::move(contraction);
  group.nests.push_back(std::move(nest));
}

void Lowering::lower_matmul(const Node& node, const NodeArgs& args) {
  const ValueId a = args.value("a"), b = args.value("b");
  const std::vector<Expr>& left = graph_[a].shape;
  const std::vector<Expr>& right = graph_[b].shape;
  check(left.size() >= 2 && left.size() == right.size(), "matmul of {} and {} dims", left.size(), right.size());
  const size_t batch = left.size() - 2;
  Contraction c;
  c.kind = ContractionKind::matmul;
  std::vector<Expr> at_a, at_b;
  for (size_t i = 0; i < batch; ++i) {
    const std::string name = "b" + std::to_string(i);
    c.loops.push_back({name, left[i]});
    at_a.push_back(left[i].is(1) ? Expr(0) : Expr::symbol(name));
    at_b.push_back(right[i].is(1) ? Expr(0) : Expr::symbol(name));
  }
  c.loops.push_back({"m", left[batch]});
  c.loops.push_back({"n", right[batch + 1]});
  c.loops.push_back({"k", left[batch + 1]});
  c.reduced = 1;
  const auto variable = [&](const char* name, const Expr& size) { return size.is(1) ? Expr(0) : Expr::symbol(name); };
  at_a.push_back(variable("m", left[batch]));
  at_a.push_back(variable("k", left[batch + 1]));
  at_b.push_back(variable("k", left[batch + 1]));
  at_b.push_back(variable("n", right[batch + 1]));
  c.operands.push_back(operand(a, at_a, c.loops, {"m", "k"}));
  c.operands.push_back(operand(b, at_b, c.loops, {"k", "n"}));
  add_contraction(node, "matmul", std::move(c));
}

void Lowering::lower_conv(const Node& node, const NodeArgs& args, bool transpose) {
  ValueId x = args.value("x");
  const ValueId w = args.value("w"), y = node.outputs[0];
  Contraction c;
  c.kind = transpose ? ContractionKind::conv_transpose : ContractionKind::conv;
  c.stride = args.exprs("stride");
  c.padding = args.exprs("padding");
  c.dilation = args.exprs("dilation");
  c.groups = args.expr("groups");
  if (transpose)
    c.output_padding = args.exprs("output_padding");
  else
    c.output_padding.assign(c.stride.size(), Expr(0));

  // Zeros around the image, as many on either side, are the convolution's own padding.
  if (!transpose) {
    for (const Node& producer : graph_.nodes) {
      if (producer.op != "prim.pad" || producer.outputs[0] != x) continue;
      const NodeArgs pad(graph_, producer);
      const std::vector<Expr> low = pad.exprs("low"), high = pad.exprs("high");
      bool zeros = pad.number("value") == 0 && low[0].is(0) && low[1].is(0) && high[0].is(0) && high[1].is(0);
      for (size_t i = 2; i < low.size(); ++i) zeros = zeros && low[i] == high[i];
      if (!zeros) break;
      x = pad.value("x");
      for (size_t i = 2; i < low.size(); ++i) c.padding[i - 2] = c.padding[i - 2] + low[i];
      break;
    }
  }
  const std::vector<Expr>& shape = graph_[y].shape;
  c.loops.push_back({"n", shape[0]});
  c.loops.push_back({"o", shape[1]});
  for (size_t i = 2; i < shape.size(); ++i) c.loops.push_back({"y" + std::to_string(i - 2), shape[i]});
  c.operand_loops.resize(2);
  c.operands.push_back(dim_operand(x, "x", c.operand_loops[0]));
  c.operands.push_back(dim_operand(w, "w", c.operand_loops[1]));
  add_contraction(node, transpose ? "conv_transpose" : "conv", std::move(c));
}

void Lowering::lower_attention(const Node& node, const NodeArgs& args) {
  const ValueId q = args.value("q"), k = args.value("k"), v = args.value("v"), mask = args.optional_value("mask");
  const std::vector<Expr>& qs = graph_[q].shape;
  const std::vector<Expr>& vs = graph_[v].shape;
  check(qs.size() == 4 && vs.size() == 4, "attention of {} dims", qs.size());
  Contraction c;
  c.kind = ContractionKind::attention;
  c.loops = {{"b", qs[0]}, {"h", qs[1]}, {"s", qs[2]}, {"e", vs[3]}, {"t", vs[2]}, {"d", qs[3]}};
  c.reduced = 2;
  c.scale = args.number("scale");
  c.causal = args.flag("is_causal", false);
  std::map<std::string, Expr> index;
  for (const LoopVar& loop : c.loops) index[loop.name] = loop.extent.is(1) ? Expr(0) : Expr::symbol(loop.name);
  const auto at = [&](const char* row, const char* column) {
    return std::vector<Expr>{index["b"], index["h"], index[row], index[column]};
  };
  c.operands.push_back(operand(q, at("s", "d"), c.loops, {"s", "d"}));
  c.operands.push_back(operand(k, at("t", "d"), c.loops, {"t", "d"}));
  c.operands.push_back(operand(v, at("t", "e"), c.loops, {"t", "e"}));
  if (mask == kNoValue) {
    c.operands.emplace_back();
  } else {
    std::vector<Expr> where = at("s", "t");
    for (size_t i = 0; i < 4; ++i)
      if (graph_[mask].shape[i].is(1)) where[i] = 0;
    c.operands.push_back(operand(mask, where, c.loops, {"s", "t"}));
  }
  add_contraction(node, "attention", std::move(c));
}

void Lowering::lower_recurrent(const Node& node, const NodeArgs& args, bool lstm) {
  Contraction c;
  c.kind = lstm ? ContractionKind::lstm : ContractionKind::gru;
  c.where = node.where;
  c.reverse = args.flag("reverse", false);
  std::vector<std::string> names = {"x", "h"};
  if (lstm) names.push_back("c");
  for (const char* name : {"w_ih", "w_hh", "b_ih", "b_hh"}) names.push_back(name);
  const std::vector<Expr>& x = graph_[args.value("x")].shape;
  const std::vector<Expr>& h = graph_[args.value("h")].shape;
  c.loops = {{"t", x[0]}, {"b", x[1]}, {"u", h[1]}};
  for (const std::string& name : names) {
    const ValueId v = args.optional_value(name);
    c.operand_loops.emplace_back();
    if (v == kNoValue) {
      c.operands.emplace_back();
      continue;
    }
    c.operands.push_back(dim_operand(v, "a", c.operand_loops.back()));
  }
  c.dtype = compute_type(graph_[args.value("x")].dtype);
  const size_t results = lstm ? 3 : 2;
  check(node.outputs.size() == results, "{} has {} results", node.op, node.outputs.size());
  for (size_t i = 0; i < results; ++i) {
    // A result that nothing uses has a buffer all the same: the kernel writes all of them.
    if (node.outputs[i] == kNoValue)
      c.results.push_back(new_buffer("unused", BufferKind::temporary, graph_[args.value("x")].dtype,
                                     i == 0 ? std::vector<Expr>{x[0], x[1], h[1]} : h));
    else
      c.results.push_back(result_buffer(node.outputs[i]));
  }
  new_group(lstm ? "lstm" : "gru").contraction = std::move(c);
}

}  // namespace nacre
