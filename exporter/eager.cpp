#include "exporter/eager.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <numeric>
#include <set>

#include "compiler/graph/ops.h"
#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/primitives.h"

namespace nacre {
namespace {

using Symbols = std::map<std::string, int64_t>;

// Gives symbols that have no value yet the values that make `e` equal to `actual`: `s`, `2*s`, `s +
// 1`. Expressions of more than one unknown are left for another size to tell.
void bind(const Expr& e, int64_t actual, Symbols& symbols) {
  if (e.constant()) return;
  std::string unknown;
  for (const std::string& s : e.symbols()) {
    if (symbols.count(s) != 0) continue;
    if (!unknown.empty()) return;
    unknown = s;
  }
  if (unknown.empty()) return;
  auto at = [&](int64_t value) {
    Symbols trial = symbols;
    trial[unknown] = value;
    return e.evaluate(trial);
  };
  if (e.op() == ExprOp::symbol) {
    symbols[unknown] = actual;
    return;
  }
  auto zero = at(0), one = at(1), two = at(2);
  if (!zero || !one || !two || *two - *one != *one - *zero || *one == *zero) return;
  int64_t slope = *one - *zero;
  if ((actual - *zero) % slope == 0 && at((actual - *zero) / slope) == actual)
    symbols[unknown] = (actual - *zero) / slope;
}

// The first calls of bodies.
struct BodyCalls {
  size_t most;
  std::vector<BodyCall> calls;
};

// A tensor, or a number of Python as one of its dtype; None is an empty tensor.
HostTensor host_of(const c10::IValue& value) {
  if (value.isTensor()) return aten::to_host(value.toTensor());
  if (value.isInt()) return aten::to_host(at::scalar_tensor(value.toInt(), at::kLong));
  if (value.isDouble()) return aten::to_host(at::scalar_tensor(value.toDouble()));
  if (value.isBool()) return aten::to_host(at::scalar_tensor(value.toBool(), at::kBool));
  return {};
}

// The variance (and mean) of float32, added up one by one in float32. PyTorch's own kernel for float32 adds up in float64,
// as that for float64 does: it says nothing of what the latter rounds.
std::vector<c10::IValue> narrow_variance(const Node& node, const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) {
  const auto given = [&](const char* name) {
    const std::optional<int> at = schema.argumentIndexWithName(name);
    return at ? arguments.at(static_cast<size_t>(*at)) : c10::IValue();
  };
  const at::Tensor x = arguments.at(0).toTensor();
  const int64_t rank = std::max<int64_t>(x.dim(), 1);  // a number has a dim that can be named
  std::vector<bool> is_reduced(static_cast<size_t>(rank), given("dim").isNone() || given("dim").toIntVector().empty());
  if (!given("dim").isNone())
    for (int64_t d : given("dim").toIntVector()) is_reduced[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  std::vector<int64_t> order, sizes;
  int64_t count = 1;
  for (const bool reduced : {false, true})
    for (int64_t d = 0; d < x.dim(); ++d)
      if (is_reduced[static_cast<size_t>(d)] == reduced) {
        order.push_back(d);
        if (reduced) count *= x.size(d);
      }
  const bool keeps = given("keepdim").isBool() && given("keepdim").toBool();
  for (int64_t d = 0; d < x.dim(); ++d)
    if (keeps || !is_reduced[static_cast<size_t>(d)]) sizes.push_back(is_reduced[static_cast<size_t>(d)] ? 1 : x.size(d));
  double correction = given("unbiased").isBool() && !given("unbiased").toBool() ? 0 : 1;
  if (given("correction").isScalar()) correction = given("correction").toScalar().toDouble();

  const at::Tensor rows = x.permute(order).contiguous();
  at::Tensor variance = at::empty(sizes, x.options()), mean = at::empty(sizes, x.options());
  for (int64_t row = 0; row < variance.numel(); ++row) {
    const float* in = rows.const_data_ptr<float>() + row * count;
    const float average = std::accumulate(in, in + count, 0.0F) / static_cast<float>(count);
    const float squares = std::accumulate(in, in + count, 0.0F, [&](float sum, float v) { return sum + (v - average) * (v - average); });
    variance.data_ptr<float>()[row] = squares / static_cast<float>(std::max(0.0, static_cast<double>(count) - correction));
    mean.data_ptr<float>()[row] = average;
  }
  std::vector<c10::IValue> results{node.op.starts_with("aten.std") ? variance.sqrt() : variance};
  if (node.op.find("_mean.") != std::string::npos) results.emplace_back(mean);
  return results;
}

class Executor {
 public:
  // `calls`, where not null, is told of the bodies that the graph's own nodes run.
  Executor(const Graph& graph, Symbols symbols, OracleType oracle, BodyCalls* calls = nullptr)
      : graph_(graph), symbols_(std::move(symbols)), values_(graph.values.size()), calls_(calls) {
    environment_.oracle = oracle;
    environment_.value = [this](ValueId id) { return value(id); };
    environment_.integer = [this](const Expr& e) { return integer(e); };
  }

  void set(ValueId id, c10::IValue v) {
    const Value& meta = graph_[id];
    if (v.isTensor() && v.toTensor().dim() == static_cast<int64_t>(meta.shape.size()) &&
        meta.kind == ValueKind::tensor) {
      for (size_t i = 0; i < meta.shape.size(); ++i)
        bind(meta.shape[i], v.toTensor().size(static_cast<int64_t>(i)), symbols_);
    }
    if (meta.kind == ValueKind::integer && v.isInt()) bind(meta.expr, v.toInt(), symbols_);
    values_[static_cast<size_t>(id)] = std::move(v);
  }
  c10::IValue value(ValueId id) const {
    const c10::IValue& v = values_[static_cast<size_t>(id)];
    if (v.isNone() && graph_[id].kind == ValueKind::integer) return integer(graph_[id].expr);
    check(!v.isNone(), "%{} has no value", graph_[id].name);
    return v;
  }
  std::vector<int64_t> sizes_of(const Value& meta) const {
    std::vector<int64_t> sizes;
    for (const Expr& e : meta.shape) sizes.push_back(std::max<int64_t>(0, integer(e)));
    return sizes;
  }
  int64_t integer(const Expr& e) const {
    for (const std::string& s : e.symbols())
      check(symbols_.count(s) != 0, "symbol {} has no value yet in {}", s, e.str());
    auto value = e.evaluate(symbols_);
    if (!value) fail(ErrorKind::user, "{} has no value: it overflows or divides by zero", e.str());
    return *value;
  }
  const Symbols& symbols() const { return symbols_; }

  std::vector<c10::IValue> run();

 private:
  std::vector<c10::IValue> results_of(const Node& node);
  void in_the_oracles_type(const Node& node, std::vector<c10::IValue>& results) const;
  c10::IValue number(const Node& node);
  std::vector<c10::IValue> run_subgraph(const std::string& name,
                                        const std::vector<c10::IValue>& operands);
  std::vector<c10::IValue> control_flow(const Node& node);
  std::vector<c10::IValue> primitive_control_flow(const Node& node);
  std::vector<c10::IValue> list(const Node& node, std::string_view name) {
    std::vector<c10::IValue> result;
    const Argument* a = node.find(name);
    if (a == nullptr) return result;
    for_each_value(*a, [&](ValueId id) { result.push_back(value(id)); });
    return result;
  }
  c10::IValue output(const Argument& a) const {
    if (auto* v = std::get_if<ValueRef>(&a))
      return v->id == kNoValue ? c10::IValue() : value(v->id);
    if (auto* e = std::get_if<Expr>(&a)) return integer(*e);
    if (auto* d = std::get_if<double>(&a)) return *d;
    if (auto* b = std::get_if<bool>(&a)) return *b;
    return {};
  }

  const Graph& graph_;
  Symbols symbols_;
  std::vector<c10::IValue> values_;
  aten::Environment environment_;
  BodyCalls* calls_;
};

std::vector<c10::IValue> Executor::run() {
  // Where each value is read last, so that memory is given back in time.
  std::vector<size_t> last(graph_.values.size(), 0);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    for (const auto& [name, argument] : graph_.nodes[n].args)
      for_each_value(argument, [&](ValueId id) { last[static_cast<size_t>(id)] = n; });
    for (ValueId id : graph_.nodes[n].outputs)
      if (id != kNoValue) last[static_cast<size_t>(id)] = n;
  }
  for (const GraphOutput& o : graph_.outputs)
    for_each_value(o.value,
                   [&](ValueId id) { last[static_cast<size_t>(id)] = graph_.nodes.size(); });
  std::vector<std::vector<ValueId>> dead(graph_.nodes.size() + 1);
  for (size_t i = 0; i < last.size(); ++i) dead[last[i]].push_back(static_cast<ValueId>(i));

  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    std::vector<c10::IValue> results;
    try {
      results = results_of(node);
    } catch (const c10::Error& error) {
      throw Error(ErrorKind::user, fmt::format("PyTorch: {}", error.what_without_backtrace()),
                  where_text(node.where));
    }
    check(results.size() >= node.outputs.size(), "{} gave {} results instead of {}", node.op,
          results.size(), node.outputs.size());
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) set(node.outputs[i], std::move(results[i]));
    for (ValueId id : dead[n]) values_[static_cast<size_t>(id)] = c10::IValue();
  }
  std::vector<c10::IValue> results;
  for (const GraphOutput& o : graph_.outputs) results.push_back(output(o.value));
  return results;
}

// What PyTorch does on a GPU where TF32 is allowed: to the nearest number of 11 bits, halves away from 0.
at::Tensor in_11_bits(const at::Tensor& x) {
  if (x.scalar_type() != c10::kFloat) return x;
  const at::Tensor bits = x.contiguous().view(c10::kInt);
  return at::where(at::isfinite(x), at::bitwise_and(at::add(bits, 0x1000), c10::Scalar(~0x1fff)).view(c10::kFloat), x);
}

void round_factors(const std::string& op, std::vector<c10::IValue>& arguments) {
  static const std::map<std::string, std::pair<size_t, size_t>, std::less<>> kFactors = {  // first, and how many
      {"mm", {0, 2}}, {"bmm", {0, 2}}, {"matmul", {0, 2}}, {"linear", {0, 2}}, {"addmm", {1, 2}}, {"baddbmm", {1, 2}}, {"addbmm", {1, 2}},
      {"conv1d", {0, 2}}, {"conv2d", {0, 2}}, {"conv3d", {0, 2}}, {"convolution", {0, 2}}, {"_convolution", {0, 2}},
      {"conv_transpose1d", {0, 2}}, {"conv_transpose2d", {0, 2}}, {"conv_transpose3d", {0, 2}}, {"scaled_dot_product_attention", {0, 3}}};
  if (!op.starts_with("aten.")) return;
  const size_t dot = op.find('.', 5);
  const auto found = kFactors.find(std::string_view(op).substr(5, dot == std::string::npos ? dot : dot - 5));
  if (found == kFactors.end()) return;
  for (size_t i = found->second.first; i < found->second.first + found->second.second && i < arguments.size(); ++i)
    if (arguments[i].isTensor()) arguments[i] = in_11_bits(arguments[i].toTensor());
}

std::vector<c10::IValue> Executor::results_of(const Node& node) {
  if (primitive_class(node.op) == PrimClass::control) return primitive_control_flow(node);
  if (environment_.oracle != OracleType::own && node.op == "aten.view.dtype")
    fail_at(ErrorKind::user, where_text(node.where), "the bytes of a number in another type are others");
  if (node.op.starts_with("prim.")) return run_primitive(graph_, node, environment_);
  if (node.op.starts_with("sym.")) return {number(node)};
  if (node.op.starts_with("higher_order.")) return control_flow(node);
  c10::OperatorHandle op = aten::require_operator(node);
  std::vector<c10::IValue> arguments = aten::arguments(node, op.schema(), environment_);
  const bool varies = node.op.starts_with("aten.var.") || node.op.starts_with("aten.std.") || node.op.starts_with("aten.var_mean.") || node.op.starts_with("aten.std_mean.");
  if (environment_.oracle == OracleType::narrow && varies && arguments[0].toTensor().scalar_type() == c10::kFloat)
    return narrow_variance(node, op.schema(), arguments);
  if (environment_.oracle == OracleType::tf32) round_factors(node.op, arguments);
  std::vector<c10::IValue> results = aten::call(op, std::move(arguments));
  if (environment_.oracle != OracleType::own) in_the_oracles_type(node, results);
  return results;
}

// A conversion between types that the oracle makes one gives memory of its own all the same: a write into it must not
// reach what was converted. Operators that give float64 by themselves (float_power) are narrow, too.
void Executor::in_the_oracles_type(const Node& node, std::vector<c10::IValue>& results) const {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue || !results[i].isTensor()) continue;
    at::Tensor result = results[i].toTensor();
    if (environment_.oracle == OracleType::narrow) results[i] = result = result.to(aten::oracle_type(result.scalar_type(), OracleType::narrow));
    for (const auto& [name, argument] : node.args) {
      const auto* from = std::get_if<ValueRef>(&argument);
      if (!from || graph_[from->id].kind != ValueKind::tensor || graph_[from->id].dtype == graph_[node.outputs[i]].dtype) continue;
      const c10::IValue source = output(argument);
      if (source.isTensor() && source.toTensor().scalar_type() == result.scalar_type() && result.is_alias_of(source.toTensor())) results[i] = result.clone();
    }
  }
}

// Arithmetic of numbers that are not integer expressions of sizes: Python's rules.
c10::IValue Executor::number(const Node& node) {
  std::vector<c10::IValue> a;
  for (const auto& [name, argument] : node.args) a.push_back(output(argument));
  std::string f = node.op.substr(4);
  for (const c10::IValue& v : a)
    if (!v.isScalar())
      fail_at(ErrorKind::user, where_text(node.where), "{} of something that is no number",
              node.op);
  bool integers = true;
  for (const c10::IValue& v : a) integers &= !v.isDouble();
  auto d = [&](size_t i) { return a.at(i).toScalar().toDouble(); };
  auto n = [&](size_t i) { return a.at(i).toScalar().toLong(); };
  auto floored = [](int64_t x, int64_t y) {
    return x / y - ((x % y != 0 && (x % y < 0) != (y < 0)) ? 1 : 0);
  };
  auto divisor = [&](size_t i) {
    if (n(i) == 0) fail_at(ErrorKind::user, where_text(node.where), "integer division by zero");
    return n(i);
  };
  if (f == "number") return a.at(0);
  if (f == "float") return d(0);
  if (f == "int" || f == "trunc") return integers ? n(0) : static_cast<int64_t>(std::trunc(d(0)));
  if (f == "floor") return integers ? n(0) : static_cast<int64_t>(std::floor(d(0)));
  if (f == "ceil") return integers ? n(0) : static_cast<int64_t>(std::ceil(d(0)));
  if (f == "round") return integers ? n(0) : static_cast<int64_t>(std::nearbyint(d(0)));
  if (f == "sqrt") return std::sqrt(d(0));
  if (f == "not") return !a.at(0).toScalar().toBool();
  if (f == "ite") return a.at(0).toScalar().toBool() ? a.at(1) : a.at(2);
  if (f == "truediv") return d(0) / d(1);
  if (f == "pow") {
    if (!integers || n(1) < 0) return std::pow(d(0), d(1));
    int64_t result = 1;
    for (int64_t i = 0; i < n(1); ++i) result *= n(0);
    return result;
  }
  auto both = [&](auto integer_op, auto double_op) -> c10::IValue {
    return integers ? c10::IValue(integer_op()) : c10::IValue(double_op());
  };
  if (f == "neg") return both([&] { return -n(0); }, [&] { return -d(0); });
  if (f == "pos") return a.at(0);
  if (f == "abs") return both([&] { return std::abs(n(0)); }, [&] { return std::abs(d(0)); });
  if (f == "add") return both([&] { return n(0) + n(1); }, [&] { return d(0) + d(1); });
  if (f == "sub") return both([&] { return n(0) - n(1); }, [&] { return d(0) - d(1); });
  if (f == "mul") return both([&] { return n(0) * n(1); }, [&] { return d(0) * d(1); });
  if (f == "max")
    return both([&] { return std::max(n(0), n(1)); }, [&] { return std::max(d(0), d(1)); });
  if (f == "min")
    return both([&] { return std::min(n(0), n(1)); }, [&] { return std::min(d(0), d(1)); });
  if (f == "floordiv")
    return both([&] { return floored(n(0), divisor(1)); }, [&] { return std::floor(d(0) / d(1)); });
  if (f == "mod")
    return both([&] { return n(0) - floored(n(0), divisor(1)) * n(1); },
                [&] { return d(0) - std::floor(d(0) / d(1)) * d(1); });
  if (f == "eq") return both([&] { return n(0) == n(1); }, [&] { return d(0) == d(1); });
  if (f == "ne") return both([&] { return n(0) != n(1); }, [&] { return d(0) != d(1); });
  if (f == "lt") return both([&] { return n(0) < n(1); }, [&] { return d(0) < d(1); });
  if (f == "le") return both([&] { return n(0) <= n(1); }, [&] { return d(0) <= d(1); });
  if (f == "gt") return both([&] { return n(0) > n(1); }, [&] { return d(0) > d(1); });
  if (f == "ge") return both([&] { return n(0) >= n(1); }, [&] { return d(0) >= d(1); });
  if (f == "and_") return both([&] { return n(0) & n(1); }, [&] { return 0.0; });
  if (f == "or_") return both([&] { return n(0) | n(1); }, [&] { return 0.0; });
  if (f == "lshift") return n(0) << n(1);
  if (f == "rshift") return n(0) >> n(1);
  fail_at(ErrorKind::unsupported, where_text(node.where), "{} of numbers", node.op);
}

std::vector<c10::IValue> Executor::run_subgraph(const std::string& name,
                                                const std::vector<c10::IValue>& operands) {
  auto found = graph_.subgraphs.find(name);
  check(found != graph_.subgraphs.end(), "{} has no subgraph {}", graph_.name, name);
  const Graph& sub = found->second;
  check(sub.inputs.size() == operands.size(), "{} takes {} operands, not {}", name,
        sub.inputs.size(), operands.size());
  Symbols known;
  for (const auto& [symbol, v] : symbols_) known[symbol] = v;
  for (const GraphInput& input : sub.inputs)  // a loop carries new values of its own symbols
    if (sub[input.value].kind == ValueKind::integer && sub[input.value].expr.op() == ExprOp::symbol)
      known.erase(sub[input.value].expr.name());
  Executor inner(sub, std::move(known), environment_.oracle);
  for (size_t i = 0; i < operands.size(); ++i) inner.set(sub.inputs[i].value, operands[i]);
  if (calls_ && calls_->calls.size() < calls_->most) {
    BodyCall call{name, {}, {}};
    for (const c10::IValue& operand : operands) call.inputs.push_back(host_of(operand));
    for (const auto& [symbol, v] : inner.symbols()) call.symbols[symbol] = v;
    calls_->calls.push_back(std::move(call));
  }
  return inner.run();
}

bool truth(const c10::IValue& v) {
  return v.isTensor() ? v.toTensor().item().toBool() : v.toScalar().toBool();
}

std::vector<c10::IValue> Executor::control_flow(const Node& node) {
  auto graph = [&](std::string_view name) {
    const Argument* a = node.find(name);
    check(a != nullptr && std::holds_alternative<SubgraphRef>(*a), "{} without {}", node.op, name);
    return std::get<SubgraphRef>(*a).name;
  };
  auto slices = [](const std::vector<c10::IValue>& xs, int64_t i) {
    std::vector<c10::IValue> result;
    for (const c10::IValue& x : xs) result.push_back(x.toTensor().select(0, i));
    return result;
  };
  auto append = [](std::vector<c10::IValue>& to, const std::vector<c10::IValue>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  auto stacked = [&](const std::vector<std::vector<c10::IValue>>& rows, const Node& of,
                     size_t column, size_t result) -> c10::IValue {
    std::vector<at::Tensor> tensors;
    if (rows.empty()) {
      const Value& meta = graph_[of.outputs[result]];
      return at::empty(sizes_of(meta), aten::to_torch(meta.dtype));
    }
    for (const auto& row : rows) tensors.push_back(row.at(column).toTensor());
    return at::stack(tensors);
  };

  if (node.op == "higher_order.cond") {
    bool taken = truth(output(*node.find("predicate")));
    return run_subgraph(graph(taken ? "true_graph" : "false_graph"), list(node, "operands"));
  }
  if (node.op == "higher_order.while_loop") {
    std::vector<c10::IValue> carried = list(node, "carried_inputs"),
                             additional = list(node, "additional_inputs");
    for (;;) {
      std::vector<c10::IValue> operands = carried;
      append(operands, additional);
      if (!truth(run_subgraph(graph("cond_graph"), operands).at(0))) return carried;
      carried = run_subgraph(graph("body_graph"), operands);
    }
  }
  if (node.op == "higher_order.map_impl") {
    std::vector<c10::IValue> xs = list(node, "xs"), additional = list(node, "pos_args");
    std::vector<std::vector<c10::IValue>> rows;
    for (int64_t i = 0; i < xs.at(0).toTensor().size(0); ++i) {
      std::vector<c10::IValue> operands = slices(xs, i);
      append(operands, additional);
      rows.push_back(run_subgraph(graph("body_graph"), operands));
    }
    std::vector<c10::IValue> results;
    for (size_t c = 0; c < node.outputs.size(); ++c) results.push_back(stacked(rows, node, c, c));
    return results;
  }
  if (node.op == "higher_order.scan") {
    std::vector<c10::IValue> carried = list(node, "init"), xs = list(node, "xs"),
                             additional = list(node, "additional_inputs");
    size_t count = carried.size();
    std::vector<std::vector<c10::IValue>> rows;
    for (int64_t i = 0; i < xs.at(0).toTensor().size(0); ++i) {
      std::vector<c10::IValue> operands = carried;
      append(operands, slices(xs, i));
      append(operands, additional);
      std::vector<c10::IValue> results = run_subgraph(graph("combine_graph"), operands);
      carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
      rows.emplace_back(results.begin() + static_cast<std::ptrdiff_t>(count), results.end());
    }
    std::vector<c10::IValue> results = carried;
    for (size_t c = 0; count + c < node.outputs.size(); ++c)
      results.push_back(stacked(rows, node, c, count + c));
    return results;
  }
  if (node.op == "higher_order.associative_scan") {
    std::vector<c10::IValue> xs = list(node, "xs"), additional = list(node, "additional_inputs");
    std::vector<std::vector<c10::IValue>> rows;
    for (int64_t i = 0; i < xs.at(0).toTensor().size(0); ++i) {
      if (i == 0) {
        rows.push_back(slices(xs, 0));
        continue;
      }
      std::vector<c10::IValue> operands = rows.back();
      append(operands, slices(xs, i));
      append(operands, additional);
      rows.push_back(run_subgraph(graph("combine_graph"), operands));
    }
    if (rows.empty()) return xs;
    std::vector<c10::IValue> results;
    for (size_t c = 0; c < rows[0].size(); ++c) results.push_back(stacked(rows, node, c, c));
    return results;
  }
  fail_at(ErrorKind::unsupported, where_text(node.where), "{}", node.op);
}

std::vector<c10::IValue> Executor::primitive_control_flow(const Node& node) {
  auto graph = [&](std::string_view name) { return std::get<SubgraphRef>(*node.find(name)).name; };
  if (node.op == "prim.item") return {output(*node.find("x")).toTensor().item().toLong()};
  if (node.op == "prim.check") {
    if (integer(std::get<Expr>(*node.find("condition"))) == 0)
      fail_at(ErrorKind::user, where_text(node.where), "{}",
              std::get<std::string>(*node.find("message")));
    return {};
  }
  if (node.op == "prim.cond") {
    bool taken = truth(output(*node.find("predicate")));
    return run_subgraph(graph(taken ? "true_graph" : "false_graph"), list(node, "operands"));
  }
  std::vector<c10::IValue> carried = list(node, "carried"), others = list(node, "operands");
  const size_t count = carried.size();
  auto step = [&](std::string_view name) {
    std::vector<c10::IValue> operands = carried;
    operands.insert(operands.end(), others.begin(), others.end());
    return run_subgraph(graph(name), operands);
  };
  if (node.op == "prim.while_loop") {
    while (truth(step("cond_graph").at(0))) carried = step("body_graph");
    return carried;
  }
  const int64_t length = integer(std::get<Expr>(*node.find("length")));
  const std::string index = std::get<Expr>(*node.find("index")).name();
  std::vector<std::vector<at::Tensor>> rows(node.outputs.size() - count);
  for (int64_t i = 0; i < length; ++i) {
    symbols_[index] = i;  // subgraphs see the symbols around them
    std::vector<c10::IValue> results = step("body_graph");
    for (size_t c = 0; c < rows.size(); ++c) rows[c].push_back(results.at(count + c).toTensor());
    carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (size_t c = 0; c < rows.size(); ++c) {
    const Value& meta = graph_[node.outputs[count + c]];
    carried.push_back(rows[c].empty() ? at::empty(sizes_of(meta), aten::to_torch(meta.dtype))
                                      : at::stack(rows[c]));
  }
  return carried;
}

// The tensor in memory of its own, laid out as the graph says.
at::Tensor laid_out(const HostTensor& host, const Value& meta, const Executor& executor,
                    OracleType oracle, bool may_borrow) {
  at::Tensor plain = aten::borrow(host);
  const c10::ScalarType type = aten::oracle_type(plain.scalar_type(), oracle);
  if (oracle == OracleType::rounded) plain = plain.to(aten::oracle_type(type, OracleType::narrow));
  if (type != plain.scalar_type()) {
    plain = plain.to(type);
    may_borrow = true;
  }
  std::vector<int64_t> strides;
  for (const Expr& e : meta.strides) strides.push_back(executor.integer(e));
  bool strided = !strides.empty() && strides != plain.strides().vec();
  if (!strided) return may_borrow ? plain : plain.clone();
  // A step of 0 stands for one element that is there many times.
  at::Tensor small = plain;
  std::vector<int64_t> sizes = plain.sizes().vec();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] == 0 && sizes[i] > 1) {
      small = small.narrow(static_cast<int64_t>(i), 0, 1);
      sizes[i] = 1;
    }
  }
  at::Tensor result = at::empty_strided(sizes, strides, plain.options());
  result.copy_(small);
  return result.expand(plain.sizes());
}

struct DefaultDtype {
  explicit DefaultDtype(bool wide) : saved(c10::get_default_dtype()) {
    if (wide) c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  ~DefaultDtype() { c10::set_default_dtype(saved); }
  DefaultDtype(const DefaultDtype&) = delete;
  DefaultDtype& operator=(const DefaultDtype&) = delete;
  caffe2::TypeMeta saved;
};

std::vector<HostTensor> run(const Graph& graph, const std::map<std::string, HostTensor>& weights,
                            const std::vector<HostTensor>& inputs, OracleType oracle,
                            BodyCalls* calls) {
  at::set_num_threads(1);
  c10::NoGradGuard no_gradients;
  const bool wide = oracle == OracleType::wide || oracle == OracleType::rounded;
  DefaultDtype default_dtype(wide);

  // Sizes first: strides are expressions over them.
  std::vector<const HostTensor*> given;
  size_t next = 0;
  Symbols symbols;
  for (const GraphInput& input : graph.inputs) {
    if (input.kind == InputKind::user) {
      if (next == inputs.size())
        fail(ErrorKind::user, "the program takes more inputs than the {} given", inputs.size());
      given.push_back(&inputs[next++]);
    } else {
      auto found = weights.find(input.target);
      if (found == weights.end()) fail(ErrorKind::user, "there is no weight `{}`", input.target);
      given.push_back(&found->second);
    }
    const Value& meta = graph[input.value];
    const HostTensor& host = *given.back();
    if (meta.kind == ValueKind::tensor && host.shape.size() != meta.shape.size())
      fail(ErrorKind::user, "input `{}` has {} dimensions instead of {}", input.target,
           host.shape.size(), meta.shape.size());
    // State that an earlier call in the oracle's type left.
    const bool left = input.kind == InputKind::buffer &&
                      aten::to_torch(host.dtype) == aten::oracle_type(aten::to_torch(meta.dtype), oracle);
    if (meta.kind == ValueKind::tensor && host.dtype != meta.dtype && !left)
      fail(ErrorKind::user, "input `{}` has type {} instead of {}", input.target,
           nacre_dtype_name(host.dtype), nacre_dtype_name(meta.dtype));
    if (meta.kind == ValueKind::tensor)
      for (size_t i = 0; i < meta.shape.size(); ++i) bind(meta.shape[i], host.shape[i], symbols);
    if (meta.kind == ValueKind::integer && host.elements() == 1)
      bind(meta.expr, aten::borrow(host).item().toLong(), symbols);
  }
  if (next != inputs.size())
    fail(ErrorKind::user, "the program takes {} inputs, not {}", next, inputs.size());
  Executor sized(graph, std::move(symbols), oracle, calls);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphInput& input = graph.inputs[i];
    const Value& meta = graph[input.value];
    if (meta.kind == ValueKind::tensor) {
      for (size_t d = 0; d < meta.shape.size(); ++d)
        if (sized.integer(meta.shape[d]) != given[i]->shape[d])
          fail(ErrorKind::user, "input `{}` has size {} in dimension {} instead of {}",
               input.target, given[i]->shape[d], d, sized.integer(meta.shape[d]));
      bool may_borrow = input.kind == InputKind::parameter || graph.level != Level::captured;
      at::Tensor tensor = laid_out(*given[i], meta, sized, oracle, may_borrow);
      // As in a module: some operators (gru) choose another kernel for tensors that could have
      // gradients, even where none are computed.
      if (input.kind == InputKind::parameter && at::isFloatingType(tensor.scalar_type()))
        tensor.set_requires_grad(true);
      sized.set(input.value, std::move(tensor));
    } else {
      at::Scalar number = aten::borrow(*given[i]).item();
      sized.set(input.value, meta.kind == ValueKind::integer    ? c10::IValue(number.toLong())
                             : meta.kind == ValueKind::floating ? c10::IValue(number.toDouble())
                                                                : c10::IValue(number.toBool()));
    }
  }
  std::vector<HostTensor> results;
  for (const c10::IValue& value : sized.run()) results.push_back(host_of(value));
  return results;
}

}  // namespace

std::vector<HostTensor> run_eager(const Graph& graph,
                                  const std::map<std::string, HostTensor>& weights,
                                  const std::vector<HostTensor>& inputs, OracleType oracle) {
  return run(graph, weights, inputs, oracle, nullptr);
}

std::vector<BodyCall> body_calls(const Graph& graph,
                                 const std::map<std::string, HostTensor>& weights,
                                 const std::vector<HostTensor>& inputs, size_t most) {
  BodyCalls calls{most, {}};
  run(graph, weights, inputs, OracleType::own, &calls);
  return calls.calls;
}

}  // namespace nacre
