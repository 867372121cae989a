#include "compiler/graph/decompose_call.h"

#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {

ValueId RandomSource::state(Builder& builder) {
  if (state_ != kNoValue) return state_;
  Value value;
  value.name = kRandomState;
  value.dtype = NACRE_i64;
  value.shape = {2};
  state_ = builder.graph().add_value(std::move(value));
  builder.graph().inputs.push_back({state_, in_body_ ? InputKind::user : InputKind::buffer, kRandomState});
  return state_;
}

int64_t RandomSource::stream(const Node& node) {
  if (last_ != &node) ++streams_;
  last_ = &node;
  return streams_;
}

void RandomSource::finish(Builder& builder) {
  if (state_ == kNoValue) return;
  const Tensor state(builder, state_);
  const Tensor next = state + iota(builder, 2);  // the seed stays, the count grows
  builder.graph().outputs.push_back({ValueRef{next.id()}, in_body_ ? OutputKind::user : OutputKind::buffer_mutation, kRandomState});
}

const Argument* Call::find(std::string_view name) const {
  const Argument* argument = node_.find(name);
  return argument && !std::holds_alternative<std::monostate>(*argument) ? argument : nullptr;
}

void Call::missing(std::string_view name, const char* kind) const {
  fail(ErrorKind::user, "{}: the argument {} must be {}", node_.op, name, kind);
}

void Call::unsupported(const std::string& what) const {
  fail(ErrorKind::unsupported, "{}: {}", node_.op, what);
}

bool Call::has(std::string_view name) const { return find(name) != nullptr; }

namespace {

// A value that stands for a number: an integer is its expression.
std::optional<Expr> integer_value(const Graph& graph, const Argument& argument) {
  if (auto* e = std::get_if<Expr>(&argument)) return *e;
  if (auto* v = std::get_if<ValueRef>(&argument))
    if (v->id != kNoValue && graph[v->id].kind == ValueKind::integer) return graph[v->id].expr;
  if (auto* b = std::get_if<bool>(&argument)) return Expr(*b ? 1 : 0);
  return std::nullopt;
}

}  // namespace

Tensor Call::optional(std::string_view name) const {
  const Argument* argument = find(name);
  if (!argument) return {};
  auto* v = std::get_if<ValueRef>(argument);
  if (!v) missing(name, "a tensor");
  if (v->id == kNoValue) return {};
  if (graph_[v->id].kind != ValueKind::tensor) missing(name, "a tensor");
  ValueId id = mapped_[static_cast<size_t>(v->id)];
  check(id != kNoValue, "{}: {} has no primitive value", node_.op, graph_[v->id].name);
  return {builder_, id};
}

Tensor Call::tensor(std::string_view name) const {
  Tensor t = optional(name);
  if (!t) missing(name, "a tensor");
  return t;
}

Tensor Call::self() const {
  if (node_.args.empty()) missing("self", "a tensor");
  return tensor(node_.args.front().first);
}

std::vector<Tensor> Call::tensors(std::string_view name) const {
  const Argument* argument = find(name);
  std::vector<Tensor> result;
  if (!argument) return result;
  if (auto* v = std::get_if<std::vector<ValueRef>>(argument)) {
    for (ValueRef ref : *v) {
      if (ref.id == kNoValue)
        result.emplace_back();
      else
        result.emplace_back(builder_, mapped_[static_cast<size_t>(ref.id)]);
    }
  } else if (std::holds_alternative<ValueRef>(*argument)) {
    result.push_back(tensor(name));
  } else if (auto* none = std::get_if<std::vector<Expr>>(argument); !none || !none->empty()) {
    missing(name, "a list of tensors");
  }
  return result;
}

std::optional<Number> Call::optional_number(std::string_view name) const {
  const Argument* argument = find(name);
  if (!argument) return std::nullopt;
  return number_at(name, *argument);
}

Number Call::number_at(std::string_view name, const Argument& argument) const {
  if (auto* b = std::get_if<bool>(&argument)) return Number(*b);
  if (auto* d = std::get_if<double>(&argument)) return Number(*d);
  if (auto* z = std::get_if<std::complex<double>>(&argument)) return Number(*z);
  if (auto e = integer_value(graph_, argument)) return Number(*e);
  if (std::holds_alternative<ValueRef>(argument))
    unsupported("a number that is computed at run time (argument " + std::string(name) + ")");
  missing(name, "a number");
}

Number Call::number(std::string_view name, std::optional<Number> otherwise) const {
  if (auto n = optional_number(name)) return *n;
  if (!otherwise) missing(name, "a number");
  return *otherwise;
}

std::optional<Operand> Call::optional_operand(std::string_view name) const {
  const Argument* argument = find(name);
  return argument ? operand_at(name, *argument) : std::nullopt;
}

std::optional<Operand> Call::operand_at(std::string_view name, const Argument& argument) const {
  if (auto* v = std::get_if<ValueRef>(&argument)) {
    if (v->id == kNoValue) return std::nullopt;
    if (graph_[v->id].kind == ValueKind::tensor) return Operand(tensor(name));
    // A number that is computed at run time.
    if (ValueId id = mapped_[static_cast<size_t>(v->id)];
        id != kNoValue && builder_[id].kind == ValueKind::tensor)
      return Operand(Tensor(builder_, id).as_number());
  }
  return Operand(number_at(name, argument));
}

Operand Call::operand(std::string_view name, const Operand& otherwise) const {
  return optional_operand(name).value_or(otherwise);
}

Operand Call::operand(std::string_view name) const {
  auto o = optional_operand(name);
  if (!o) missing(name, "a tensor or a number");
  return *o;
}

std::optional<double> Call::optional_real(std::string_view name) const {
  auto n = optional_number(name);
  if (!n) return std::nullopt;
  auto c = n->constant();
  if (!c) unsupported("the argument " + std::string(name) + " depends on sizes");
  return *c;
}

double Call::real(std::string_view name, std::optional<double> otherwise) const {
  if (auto d = optional_real(name)) return *d;
  if (!otherwise) missing(name, "a number");
  return *otherwise;
}

std::vector<double> Call::reals(std::string_view name) const {
  const Argument* argument = find(name);
  if (!argument) return {};
  if (auto* v = std::get_if<std::vector<double>>(argument)) return *v;
  if (auto* d = std::get_if<double>(argument)) return {*d};
  std::vector<double> result;
  for (int64_t i : integers(name)) result.push_back(static_cast<double>(i));
  return result;
}

std::optional<Expr> Call::optional_size(std::string_view name) const {
  const Argument* argument = find(name);
  if (!argument) return std::nullopt;
  if (auto e = integer_value(graph_, *argument)) return *e;
  if (std::holds_alternative<ValueRef>(*argument))
    unsupported("the argument " + std::string(name) + " depends on data");
  missing(name, "an integer");
}

Expr Call::size(std::string_view name, std::optional<Expr> otherwise) const {
  if (auto e = optional_size(name)) return *e;
  if (!otherwise) missing(name, "an integer");
  return *otherwise;
}

Shape Call::sizes(std::string_view name) const {
  const Argument* argument = find(name);
  Shape result;
  if (!argument) return result;
  if (auto* v = std::get_if<std::vector<Expr>>(argument)) return *v;
  if (auto e = integer_value(graph_, *argument)) return {*e};
  if (auto* refs = std::get_if<std::vector<ValueRef>>(argument)) {
    for (ValueRef r : *refs) {
      auto e = integer_value(graph_, Argument(r));
      if (!e) missing(name, "a list of integers");
      result.push_back(*e);
    }
    return result;
  }
  if (auto* d = std::get_if<std::vector<double>>(argument); d && d->empty()) return result;
  if (auto* b = std::get_if<std::vector<bool>>(argument); b && b->empty()) return result;
  missing(name, "a list of integers");
}

Shape Call::sizes(std::string_view name, size_t n, const Expr& otherwise) const {
  Shape result = sizes(name);
  if (result.empty()) result.push_back(otherwise);
  if (result.size() == 1) result.resize(n, result[0]);
  if (result.size() != n) missing(name, "one integer a dimension");
  return result;
}

std::optional<int64_t> Call::optional_integer(std::string_view name) const {
  auto e = optional_size(name);
  if (!e) return std::nullopt;
  auto c = simplify(*e, facts()).constant();
  if (!c)
    unsupported("the argument " + std::string(name) + " is " + e->str() +
                ", but must be known at compile time");
  return *c;
}

int64_t Call::integer(std::string_view name, std::optional<int64_t> otherwise) const {
  if (auto i = optional_integer(name)) return *i;
  if (!otherwise) missing(name, "an integer");
  return *otherwise;
}

Dims Call::integers(std::string_view name) const {
  Dims result;
  for (const Expr& e : sizes(name)) {
    auto c = simplify(e, facts()).constant();
    if (!c)
      unsupported("the argument " + std::string(name) + " contains " + e.str() +
                  ", but must be known at compile time");
    result.push_back(*c);
  }
  return result;
}

Dims Call::integers(std::string_view name, size_t n, int64_t otherwise) const {
  Dims result = integers(name);
  if (result.empty()) result.push_back(otherwise);
  if (result.size() == 1) result.resize(n, result[0]);
  if (result.size() != n) missing(name, "one integer a dimension");
  return result;
}

bool Call::flag(std::string_view name, bool otherwise) const {
  const Argument* argument = find(name);
  if (!argument) return otherwise;
  if (auto* b = std::get_if<bool>(argument)) return *b;
  if (auto* e = std::get_if<Expr>(argument); e && e->constant()) return !e->is(0);
  missing(name, "a bool");
}

std::string Call::text(std::string_view name, const std::string& otherwise) const {
  const Argument* argument = find(name);
  if (!argument) return otherwise;
  if (auto* s = std::get_if<std::string>(argument)) return *s;
  if (auto* k = std::get_if<Keyword>(argument)) return k->text;
  missing(name, "a string");
}

std::optional<nacre_dtype> Call::dtype(std::string_view name) const {
  const Argument* argument = find(name);
  if (!argument) return std::nullopt;
  if (auto* t = std::get_if<nacre_dtype>(argument)) return *t;
  missing(name, "a dtype");
}

int64_t Call::dim(std::string_view name, int64_t rank, std::optional<int64_t> otherwise) const {
  return normalized_dim(integer(name, otherwise), rank);
}

Dims Call::dims(std::string_view name, int64_t rank) const {
  Dims given = integers(name);
  if (rank == 0) return {};
  return given.empty() ? all_dims(rank) : normalized_dims(given, rank);
}

bool Call::is_number(size_t i) const { return output(i).kind != ValueKind::tensor; }

// ---- Numbers that depend on data.

Expr Call::new_symbol(const std::string& prefix, SymbolFacts facts) {
  Facts& known = builder_.graph().symbols;
  for (int i = 0;; ++i) {
    std::string name = prefix + std::to_string(i);
    if (!known.emplace(name, facts).second) continue;
    bound_.insert(name);
    return Expr::symbol(name);
  }
}

void Call::bound_by(const Expr& symbol, const Expr& most) {
  Facts& known = builder_.graph().symbols;
  bound_.insert(symbol.name());
  SymbolFacts& facts = known[symbol.name()];
  if (!facts.below) facts.below = simplify(most + 1, known);
}

bool Call::is_bound(const Expr& e) const {
  for (const std::string& s : e.symbols())
    if (!bound_.contains(s)) return false;
  return true;
}

Expr Call::bind(const Tensor& value, const Expr& expected, std::optional<Expr> most) {
  ValueId x = reshape(cast(value, NACRE_i64), {}).id();
  Facts& known = builder_.graph().symbols;
  auto limited = [&](SymbolFacts facts) {
    if (most && !facts.below) facts.below = simplify(*most + 1, known);
    return facts;
  };
  if (expected.op() == ExprOp::symbol && !bound_.contains(expected.name())) {
    known[expected.name()] = limited(known[expected.name()]);
    bound_.insert(expected.name());
    builder_.item(x, expected);
    return expected;
  }
  // A bool is exported as `u0 == 1`.
  if (expected.op() == ExprOp::eq && expected.operands()[1].is(1) && expected.operands()[0].op() == ExprOp::symbol &&
      !is_bound(expected)) {
    bind(value, expected.operands()[0], Expr(1));
    return expected;
  }
  // A number that must be what export says it is.
  Expr found = new_symbol("number", limited({}));
  builder_.item(x, found);
  builder_.require(Expr::make(ExprOp::eq, {found, expected}),
                 "the number is not " + expected.str() + ", as it was exported");
  return expected;
}

Expr Call::count(const Tensor& value, const Expr& most) {
  SymbolFacts facts;
  facts.below = simplify(most + 1, this->facts());
  Expr symbol = new_symbol("number", std::move(facts));
  builder_.item(reshape(cast(value, NACRE_i64), {}).id(), symbol);
  return symbol;
}

// ---- Control flow.

std::vector<Tensor> Call::numbers() const {
  std::vector<Tensor> result;
  for (const auto& [name, argument] : node_.args) {
    std::optional<Operand> o = operand_at(name, argument);
    if (!o) missing(name, "a number");
    nacre_dtype dtype = NACRE_f64;  // a float counts as float32 in promotion only
    if (const Number* n = o->number(); n && !is_floating(n->dtype())) dtype = n->dtype();
    result.push_back(o->tensor() ? Tensor(builder_, o->tensor()->id()) : full({}, *o->number(), dtype));
  }
  return result;
}

std::vector<Tensor> Call::operands(std::string_view name) const {
  std::vector<Tensor> result;
  const Argument* argument = find(name);
  if (!argument) return result;
  auto add = [&](ValueId v) {
    ValueId id = mapped_[static_cast<size_t>(v)];
    if (id != kNoValue) {
      result.emplace_back(builder_, id);
      return;
    }
    check(graph_[v].kind == ValueKind::integer, "{}: {} has no primitive value", node_.op,
          graph_[v].name);
    result.push_back(full({}, graph_[v].expr, NACRE_i64));
  };
  for_each_value(*argument, add);
  return result;
}

const Graph& Call::functional_subgraph(std::string_view name) const {
  const Argument* argument = find(name);
  auto* ref = argument ? std::get_if<SubgraphRef>(argument) : nullptr;
  if (!ref) missing(name, "a subgraph");
  return graph_.subgraphs.at(ref->name);
}

std::string Call::subgraph(std::string_view name, const Rows& rows, int64_t first_stream) {
  const Graph& functional = functional_subgraph(name);
  Graph& graph = builder_.graph();
  return graph.add_subgraph(decompose_body(functional, graph.symbols, bound_, rows, first_stream));
}

const Value& Call::output(size_t i) const {
  check(i < node_.outputs.size() && node_.outputs[i] != kNoValue, "{} has no output {}", node_.op,
        i);
  return graph_[node_.outputs[i]];
}

bool Call::needs(size_t i) const {
  return i < node_.outputs.size() && node_.outputs[i] != kNoValue &&
         used_[static_cast<size_t>(node_.outputs[i])];
}

nacre_dtype Call::output_dtype(size_t i) const { return output(i).dtype; }
Shape Call::output_shape(size_t i) const { return output(i).shape; }

}  // namespace nacre
