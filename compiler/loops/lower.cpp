#include "compiler/loops/lower.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/loops/interpret_half.h"
#include "compiler/loops/lowering.h"
#include "compiler/loops/regions.h"
#include "compiler/support/dtype.h"
#include "compiler/support/error.h"

namespace nacre {

// ---- Parts.

namespace {

// What shows the elements of its one operand.
bool is_view(const std::string& op) {
  return primitive_class(op) == PrimClass::view && op != "prim.concat" && op != "prim.select_scatter_range";
}

// Complex numbers are stored as their two parts, in a last dim of their own.
bool is_complex(const Value& v) { return nacre::is_complex(v.dtype); }

std::vector<Expr> stored_shape(const Value& v) {
  std::vector<Expr> shape = v.shape;
  if (is_complex(v)) shape.emplace_back(2);
  return shape;
}

}  // namespace

Lowering::Lowering(const Graph& graph, Made& made) : graph_(graph), made_(made), program_(made.program) {
  views_.resize(graph.values.size());
  copies_.resize(graph.values.size());
}

BufferId Lowering::new_buffer(const std::string& name, BufferKind kind, nacre_dtype dtype, std::vector<Expr> shape) {
  Buffer b;
  std::string plain = name;
  for (char& c : plain)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  b.name = unique_name(plain, made_.buffer_names);
  made_.buffer_names.insert(b.name);
  b.kind = kind;
  b.dtype = dtype;
  b.shape = std::move(shape);
  program_.buffers.push_back(std::move(b));
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

BufferId Lowering::result_buffer(ValueId value) {
  const Value& v = graph_[value];
  const BufferId b = new_buffer(v.name, BufferKind::temporary, v.dtype, v.shape);
  views_[static_cast<size_t>(value)] = whole(program_, b);
  return b;
}

Group& Lowering::new_group(const std::string& name) {
  Group g;
  g.name = unique_name(name, made_.group_names);
  made_.group_names.insert(g.name);
  program_.groups.push_back(std::move(g));
  return program_.groups.back();
}

Lowering::Domain Lowering::domain(const std::vector<Expr>& shape) const {
  std::vector<LoopVar> loops;
  std::vector<Expr> index;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is(1)) {
      index.emplace_back(0);
      continue;
    }
    loops.push_back({"i" + std::to_string(i), shape[i]});
    index.push_back(Expr::symbol(loops.back().name));
  }
  Facts facts = program_.symbols;
  add_loop_facts(facts, loops);
  return {std::move(loops), std::move(index), Simplifier(std::move(facts))};
}

const View& Lowering::view(ValueId value) const {
  const auto& v = views_[static_cast<size_t>(value)];
  check(v.has_value(), "value %{} is used before it is lowered", graph_[value].name);
  return *v;
}

int Lowering::read_value(CodeBuilder& code, ValueId value, const std::vector<Expr>& index, Simplifier& simplify) const {
  return read(code, program_, view(value), index, simplify);
}

void Lowering::store_all(Nest& nest, BufferId buffer, const std::vector<Expr>& index, int value) const {
  Store store;
  store.buffer = buffer;
  store.at = index;
  store.value = value;
  nest.stores.push_back(std::move(store));
}

void Lowering::copy(const View& from, BufferId to, const std::string& name, const Provenance& where, int dim,
                    const Expr& offset, const Expr& step) {
  Group& group = new_group(name);
  Nest nest;
  Domain d = domain(from.shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  const int value = read(code, program_, from, d.index, d.simplify);
  nest.code[static_cast<size_t>(value)].where = where;
  std::vector<Expr> at = d.index;
  if (dim >= 0) at[static_cast<size_t>(dim)] = d.simplify(offset + step * at[static_cast<size_t>(dim)]);
  store_all(nest, to, at, value);
  group.nests.push_back(std::move(nest));
}

BufferId Lowering::materialised(const View& from, const std::string& name, const Provenance& where) {
  const BufferId b = new_buffer(name, BufferKind::temporary, from.dtype, from.shape);
  copy(from, b, "copy", where);
  return b;
}

const View& Lowering::materialised(ValueId value) {
  if (is_whole(program_, view(value))) return view(value);
  auto& known = copies_[static_cast<size_t>(value)];
  if (!known) known = whole(program_, materialised(view(value), graph_[value].name, {}));
  return *known;
}

// ---- Order of reads, inputs.

void Lowering::analyse() {
  root_.resize(graph_.values.size());
  last_read_.assign(graph_.values.size(), -1);
  for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<int>(i);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    for (const auto& [name, argument] : node.args)
      for_each_value(argument, [&](ValueId v) {
        const int root = root_[static_cast<size_t>(v)];
        last_read_[static_cast<size_t>(root)] = static_cast<int>(n);
        if (is_view(node.op) && node.outputs.size() == 1) root_[static_cast<size_t>(node.outputs[0])] = root;
      });
    // A concat of parts of one value may turn out to be a view of it.
    if (node.op == "prim.concat") {
      std::set<int> roots;
      for (const auto& [name, argument] : node.args)
        for_each_value(argument, [&](ValueId v) { roots.insert(root_[static_cast<size_t>(v)]); });
      if (roots.size() == 1) root_[static_cast<size_t>(node.outputs[0])] = *roots.begin();
    }
  }
  for (const GraphOutput& output : graph_.outputs)
    for_each_value(output.value, [&](ValueId v) {
      last_read_[static_cast<size_t>(root_[static_cast<size_t>(v)])] = static_cast<int>(graph_.nodes.size());
    });
}

void Lowering::lower_inputs() {
  std::set<std::string> states, mutated_inputs;
  for (const GraphOutput& output : graph_.outputs) {
    if (output.kind == OutputKind::buffer_mutation) states.insert(output.target);
    if (output.kind == OutputKind::input_mutation) mutated_inputs.insert(output.target);
  }
  for (const GraphInput& input : graph_.inputs) {
    const Value& v = graph_[input.value];
    for (const Expr& e : v.shape) made_.bound.merge(e.symbols());
    made_.bound.merge(v.expr.symbols());
    BufferId b = -1;
    if (v.kind == ValueKind::tensor) {
      const bool state = input.kind == InputKind::buffer && states.contains(input.target);
      const BufferKind kind = input.kind == InputKind::user ? BufferKind::input
                              : state                       ? BufferKind::state
                                                            : BufferKind::weight;
      b = new_buffer(v.name, kind, real_of(v.dtype), stored_shape(v));
      program_[b].complex = is_complex(v);
      if (kind == BufferKind::input)
        program_[b].index = static_cast<int>(program_.inputs.size());
      else
        program_[b].target = input.target;
      if (state || (kind == BufferKind::input && mutated_inputs.contains(input.target))) made_.updatable_inputs.insert(b);
      views_[static_cast<size_t>(input.value)] = whole(program_, b);
    }
    if (input.kind != InputKind::user) continue;
    if (v.kind == ValueKind::integer) program_.input_numbers[static_cast<int>(program_.inputs.size())] = v.expr;
    program_.inputs.push_back(b);
  }
}

// ---- Nodes.

void Lowering::run() {
  program_.name = graph_.name;
  program_.symbols = graph_.symbols;
  program_.assumptions = graph_.assumptions;
  analyse();
  lower_inputs();
  lower_nodes();
  lower_outputs();
}

void Lowering::lower_nodes() {
  for (; position_ < static_cast<int>(graph_.nodes.size()); ++position_)
    lower_node(graph_.nodes[static_cast<size_t>(position_)]);
}

void Lowering::lower_node(const Node& node) {
  check(node.op.starts_with("prim."), "{} is not a primitive", node.op);
  const std::string prim = node.op.substr(5);
  const NodeArgs args(graph_, node);
  const Primitive* p = find_primitive(prim);
  const PrimClass kind = p ? p->kind : PrimClass::none;
  if (kind == PrimClass::pointwise || kind == PrimClass::cast) return lower_pointwise(node, *p);
  if (is_view(node.op)) return lower_view(node, args);
  if (kind == PrimClass::reduction) return lower_reduction(node, *p, args);
  if (kind == PrimClass::scan) return lower_scan(node, prim, args);
  if (lower_creation(node, args)) return;
  if (lower_control(node, args)) return;
  if (prim == "concat") return lower_concat(node, args);
  if (prim == "select_scatter_range") return lower_select_scatter(node, args);
  if (prim == "sort") return lower_sort(node, args);
  if (prim == "fft") return lower_fft(node, args);
  if (prim == "bitcast") return lower_bitcast(node, args);
  if (prim == "import") return lower_import(node, args);
  if (prim == "lu") return lower_lu(node, args);
  if (prim == "permutation") return lower_permutation(node, args);
  if (prim == "cholesky") return lower_cholesky(node, args);
  if (prim == "triangular_solve") return lower_triangular_solve(node, args);
  if (prim == "index") return lower_index(node, args);
  if (prim == "gather") return lower_gather(node, args);
  if (prim == "index_put") return lower_index_put(node, args);
  if (prim == "scatter") return lower_scatter(node, args);
  if (prim == "matmul") return lower_matmul(node, args);
  if (prim == "conv" || prim == "conv_transpose") return lower_conv(node, args, prim == "conv_transpose");
  if (prim == "attention") return lower_attention(node, args);
  if (prim == "lstm" || prim == "gru") return lower_recurrent(node, args, prim == "lstm");
  fail_at(ErrorKind::unsupported, where_text(node.where), "no lowering to loops for {}", node.op);
}

void Lowering::lower_view(const Node& node, const NodeArgs& args) {
  const std::string prim = node.op.substr(5);
  if (prim == "view_as_real" || prim == "view_as_complex") {  // as the loops have complex numbers, nothing happens
    views_[static_cast<size_t>(node.outputs[0])] = view(args.value("x"));
    return;
  }
  const View& x = view(args.value("x"));
  const ValueId y = node.outputs[0];
  const Facts& facts = symbols();
  View result;
  if (prim == "broadcast") {
    result = broadcast_view(x, args.exprs("shape"), args.integers("dims"), facts);
  } else if (prim == "reshape") {
    result = reshape_view(x, args.exprs("shape"), facts);
  } else if (prim == "permute") {
    result = permute_view(x, args.integers("dims"), facts);
  } else if (prim == "slice") {
    result = slice_view(x, args.integer("dim"), args.expr("start"), args.expr("end"), args.expr("step"), facts);
  } else if (prim == "flip") {
    result = flip_view(x, args.integers("dims"), facts);
  } else if (prim == "window") {
    result = window_view(x, args.integer("dim"), args.expr("size"), args.expr("step"), args.expr("dilation"), facts);
  } else if (prim == "pad") {
    const Scalar value = number_scalar(args.get("value"), x.dtype);
    std::optional<View> padded = pad_view(x, args.exprs("low"), args.exprs("high"), value, facts);
    if (!padded) {
      // Padded with another value already, or no buffer at all: a copy of it is padded.
      const View base = whole(program_, materialised(x, graph_[args.value("x")].name, node.where));
      padded = pad_view(base, args.exprs("low"), args.exprs("high"), value, facts);
    }
    result = std::move(*padded);
  }
  result.shape = graph_[y].shape;
  views_[static_cast<size_t>(y)] = std::move(result);
}

// A number, as a scalar for elements of `dtype`.
Scalar Lowering::number_scalar(const Argument& value, nacre_dtype dtype) {
  std::vector<Scalar> code;
  CodeBuilder builder(code);
  if (const Expr* e = std::get_if<Expr>(&value)) {
    builder.index(*e, dtype);
  } else if (const bool* b = std::get_if<bool>(&value)) {
    builder.constant(*b, dtype);
  } else {
    const double* d = std::get_if<double>(&value);
    check(d, "a number was expected");
    double number = *d;
    if (dtype == NACRE_f16) number = interpreting::from_f16(interpreting::to_f16(static_cast<float>(number)));
    if (dtype == NACRE_bf16) number = interpreting::from_bf16(interpreting::to_bf16(static_cast<float>(number)));
    builder.constant(number, dtype);
  }
  return code[0];
}

bool Lowering::lower_creation(const Node& node, const NodeArgs& args) {
  const ValueId y = node.outputs.empty() ? kNoValue : node.outputs[0];
  if (node.op == "prim.full") {
    Scalar s = number_scalar(args.get("value"), graph_[y].dtype);
    s.where = node.where;
    views_[static_cast<size_t>(y)] = filled(std::move(s), graph_[y].shape, graph_[y].dtype);
    return true;
  }
  if (node.op != "prim.iota") return false;
  const nacre_dtype dtype = graph_[y].dtype;
  const Argument &start = args.get("start"), &step = args.get("step");
  const bool real = std::holds_alternative<double>(start) || std::holds_alternative<double>(step);
  if (!real) {
    Scalar s;
    s.op = ScalarOp::index;
    s.dtype = compute_type(dtype);
    s.expr = args.expr("start") + args.expr("step") * (graph_[y].shape[0].is(1) ? Expr(0) : dim_symbol(0));
    s.where = node.where;
    views_[static_cast<size_t>(y)] = filled(std::move(s), graph_[y].shape, dtype);
    return true;
  }
  Nest nest;
  Domain d = domain(graph_[y].shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  int v = code.cast(code.index(d.index[0], NACRE_i64), NACRE_f64, node.where);
  v = code.pointwise("mul", {v, code.constant(args.number("step"), NACRE_f64)}, node.where);
  v = code.pointwise("add", {code.constant(args.number("start"), NACRE_f64), v}, node.where);
  v = code.cast(v, dtype, node.where);
  store_all(nest, result_buffer(y), d.index, v);
  new_group("iota").nests.push_back(std::move(nest));
  return true;
}

namespace {

// Of 16-bit floats it gives a 16-bit float, which needs no rounding.
bool is_exact(const std::string& prim) {
  static const std::set<std::string> kExact{"neg", "abs", "sign", "ceil", "floor", "trunc", "round", "maximum", "minimum", "fmax", "fmin",
                                            "copysign", "where"};
  return kExact.contains(prim);
}

}  // namespace

void Lowering::lower_pointwise(const Node& node, const Primitive& prim) {
  const ValueId y = node.outputs[0];
  Nest nest;
  Domain d = domain(graph_[y].shape);
  nest.loops = d.loops;
  CodeBuilder code(nest.code);
  std::vector<int> operands;
  const size_t arity = static_cast<size_t>(prim.arity);
  check(node.args.size() >= arity, "{} has {} arguments", node.op, node.args.size());
  for (size_t i = 0; i < arity; ++i) {
    auto* v = std::get_if<ValueRef>(&node.args[i].second);
    check(v && v->id != kNoValue, "{}: operand {} is not a value", node.op, i);
    operands.push_back(read_value(code, v->id, d.index, d.simplify));
  }
  int result = prim.kind == PrimClass::cast ? code.cast(operands[0], graph_[y].dtype, node.where)
                                            : code.pointwise(prim.name, operands, node.where);
  if (is_half(graph_[y].dtype) && !is_exact(prim.name)) result = code.cast(result, graph_[y].dtype, node.where);
  const BufferId b = result_buffer(y);
  store_all(nest, b, d.index, result);
  new_group(prim.name).nests.push_back(std::move(nest));
}

void Lowering::lower_reduction(const Node& node, const Primitive& prim, const NodeArgs& args) {
  const ValueId x = args.value("x"), y = node.outputs[0];
  const std::vector<int> dims = args.integers("dims");
  const std::vector<Expr>& shape = graph_[x].shape;
  Nest nest;
  Domain d = domain(shape);
  std::vector<Expr> kept;
  std::vector<LoopVar> reduced;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduces = std::find(dims.begin(), dims.end(), static_cast<int>(i)) != dims.end();
    if (!reduces) kept.push_back(d.index[i]);
    if (shape[i].is(1)) continue;
    (reduces ? reduced : nest.loops).push_back({"i" + std::to_string(i), shape[i]});
  }
  // Of one element at least one loop is left, so that a reduction is always over some loop.
  if (reduced.empty()) reduced.push_back({"i" + std::to_string(dims.at(0)), Expr(1)});
  nest.reduced = static_cast<int>(reduced.size());
  nest.loops.insert(nest.loops.end(), reduced.begin(), reduced.end());
  CodeBuilder code(nest.code);
  Scalar s;
  s.op = ScalarOp::reduce;
  s.prim = prim.name;
  s.operands = {read_value(code, x, d.index, d.simplify)};
  if (prim.result == PrimResult::boolean && code[s.operands[0]].dtype != NACRE_bool_)
    s.operands = {code.cast(s.operands[0], NACRE_bool_, node.where)};
  s.dtype = result_dtype(prim, code[s.operands[0]].dtype);
  s.where = node.where;
  const int result = code.add(std::move(s));
  store_all(nest, result_buffer(y), kept, result);
  new_group(prim.name).nests.push_back(std::move(nest));
}

void Lowering::lower_scan(const Node& node, const std::string& prim, const NodeArgs& args) {
  const ValueId x = args.value("x"), y = node.outputs[0];
  const size_t dim = static_cast<size_t>(args.integer("dim"));
  const std::vector<Expr>& shape = graph_[x].shape;
  Nest nest;
  Domain d = domain(shape);
  for (const LoopVar& loop : d.loops)
    if (loop.name != "i" + std::to_string(dim)) nest.loops.push_back(loop);
  nest.loops.push_back({"i" + std::to_string(dim), shape[dim]});
  CodeBuilder code(nest.code);
  Scalar s;
  s.op = ScalarOp::scan;
  s.prim = prim;
  s.operands = {read_value(code, x, d.index, d.simplify)};
  s.dtype = code[s.operands[0]].dtype;
  s.where = node.where;
  const int result = code.add(std::move(s));
  store_all(nest, result_buffer(y), d.index, result);
  new_group(prim).nests.push_back(std::move(nest));
}

namespace {

// True if `b` shows the elements of a buffer that follow, along dim `d`, on those that `a` shows.
bool continues(const View& a, const View& b, size_t d, const Facts& symbols) {
  // A dim of one element has lost its variable.
  if (a.buffer < 0 || a.buffer != b.buffer || !a.when.empty() || !b.when.empty() || a.shape[d].is(1)) return false;
  for (size_t i = 0; i < a.shape.size(); ++i)
    if (i != d && a.shape[i] != b.shape[i]) return false;
  std::vector<Expr> index;
  for (size_t i = 0; i < a.shape.size(); ++i) index.push_back(dim_symbol(i));
  index[d] = index[d] + a.shape[d];
  return reindexed(a, b.shape, index, symbols).at == b.at;
}

}  // namespace

void Lowering::lower_concat(const Node& node, const NodeArgs& args) {
  const ValueId y = node.outputs[0];
  const int dim = args.integer("dim");
  const size_t d = static_cast<size_t>(dim);
  std::vector<View> parts;
  for (ValueId x : args.values("inputs")) {
    View v = view(x);
    if (v.shape[d].is(0)) continue;
    if (!parts.empty() && continues(parts.back(), v, d, symbols())) {
      parts.back().shape[d] = parts.back().shape[d] + v.shape[d];
      continue;
    }
    parts.push_back(std::move(v));
  }
  // All of one buffer, rotated: an index map. (Along the last dim copies are better, since they can be vectors.)
  if (parts.size() == 2 && d + 1 < parts[0].shape.size() &&
      continues(parts[1], parts[0], d, symbols())) {
    std::vector<Expr> shape = parts[0].shape, index;
    for (size_t i = 0; i < shape.size(); ++i) index.push_back(dim_symbol(i));
    const Expr first = parts[1].shape[d];
    shape[d] = parts[0].shape[d] + first;
    index[d] = mod(index[d] + first, shape[d]);
    View rotated = reindexed(parts[1], shape, index, symbols());
    rotated.shape = graph_[y].shape;
    views_[static_cast<size_t>(y)] = std::move(rotated);
    return;
  }
  const BufferId b = result_buffer(y);
  Expr offset = 0;
  for (const View& part : parts) {
    copy(part, b, "concat", node.where, dim, offset);
    offset += part.shape[d];
  }
}

// ---- Outputs.

void Lowering::lower_outputs() {
  // States and mutated inputs get their last value at the very end, when nothing reads the old one any more. A last value
  // that lies in one of those buffers, unless it lies in the right one already, is copied out of it before.
  struct Final {
    const GraphOutput* output;
    BufferId buffer = -1;  // of the state or mutated input
    std::optional<View> value;
  };
  std::vector<Final> finals;
  for (const GraphOutput& output : graph_.outputs) {
    if (output.kind == OutputKind::user) continue;
    Final f{&output, -1, std::nullopt};
    for (const GraphInput& input : graph_.inputs) {
      const bool matches = output.kind == OutputKind::buffer_mutation
                               ? input.kind == InputKind::buffer && input.target == output.target
                               : input.kind == InputKind::user && input.target == output.target;
      if (matches && views_[static_cast<size_t>(input.value)]) f.buffer = view(input.value).buffer;
    }
    check(f.buffer >= 0, "no input for the mutated '{}'", output.target);
    auto* v = std::get_if<ValueRef>(&output.value);
    check(v && v->id != kNoValue, "the mutated '{}' has no value", output.target);
    f.value = view(v->id);
    finals.push_back(std::move(f));
  }
  auto in_place = [&](const Final& f) { return f.value->buffer == f.buffer && is_whole(program_, *f.value); };

  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const GraphOutput& output = graph_.outputs[i];
    if (output.kind != OutputKind::user || std::holds_alternative<std::monostate>(output.value)) continue;
    LoopProgram::Output out;
    // A number is given as a tensor of one element.
    auto give = [&](const Argument& number, nacre_dtype dtype) {
      out.buffer = new_buffer("number", BufferKind::output, dtype, {});
      program_[out.buffer].index = static_cast<int>(program_.outputs.size());
      copy(filled(number_scalar(number, dtype), {}, dtype), out.buffer, "number", {});
    };
    if (auto* v = std::get_if<ValueRef>(&output.value)) {
      if (graph_[v->id].kind == ValueKind::integer) {
        give(graph_[v->id].expr, NACRE_i64);
      } else {
        const View& from = view(v->id);
        const bool own = is_whole(program_, from) && program_[from.buffer].kind == BufferKind::temporary;
        if (own) {
          out.buffer = from.buffer;
          program_[out.buffer].kind = BufferKind::output;
        } else {
          out.buffer = new_buffer(graph_[v->id].name, BufferKind::output, from.dtype, stored_shape(graph_[v->id]));
          View shaped = from;
          shaped.shape = program_[out.buffer].shape;
          copy(shaped, out.buffer, "copy", {});
        }
        program_[out.buffer].index = static_cast<int>(program_.outputs.size());
        program_[out.buffer].complex = is_complex(graph_[v->id]);
      }
    } else if (std::holds_alternative<Expr>(output.value)) {
      give(output.value, NACRE_i64);
    } else if (std::holds_alternative<bool>(output.value)) {
      give(output.value, NACRE_bool_);
    } else if (std::holds_alternative<double>(output.value)) {
      give(output.value, NACRE_f32);
    } else {
      fail(ErrorKind::unsupported, "output {} of {} is neither a tensor nor a number", i, graph_.name);
    }
    program_.outputs.push_back(std::move(out));
  }

  for (Final& f : finals) {
    if (in_place(f) || f.value->buffer < 0) continue;
    const BufferKind kind = program_[f.value->buffer].kind;
    const bool is_input = f.output->kind == OutputKind::input_mutation;
    const bool safe = kind == BufferKind::weight || kind == BufferKind::temporary || kind == BufferKind::output ||
                      (kind == BufferKind::input && !made_.updatable_inputs.contains(f.value->buffer));
    if (!safe || (is_input && kind != BufferKind::temporary && kind != BufferKind::output) ||
        (is_input && !is_whole(program_, *f.value)))
      f.value = whole(program_, materialised(*f.value, f.output->target + "_next", {}));
  }
  for (Final& f : finals) {
    if (f.output->kind == OutputKind::buffer_mutation) {
      if (in_place(f)) continue;
      View shaped = *f.value;
      shaped.shape = program_[f.buffer].shape;
      copy(shaped, f.buffer, "update", {});
    } else {
      if (f.value->buffer < 0) f.value = whole(program_, materialised(*f.value, f.output->target + "_next", {}));
      program_.input_mutations.push_back({program_[f.buffer].index, f.value->buffer});
    }
  }
}

LoopProgram lower(const Graph& primitive) {
  check(primitive.level == Level::primitive, "only a primitive graph is lowered to loops");
  Lowering::Made made;
  Lowering(primitive, made).run();
  // Symbols that nothing has a use for, such as one that export replaced by another, have no value.
  std::set<std::string> used = made.bound;
  for (const Group& group : made.program.groups) used.merge(symbols_of(made.program, group));
  for (const Expr& e : made.program.assumptions) used.merge(e.symbols());
  std::erase_if(made.program.symbols, [&](const auto& symbol) { return !used.contains(symbol.first); });
  return std::move(made.program);
}

}  // namespace nacre
