// `if` that data decide on: both branches are traced on the example into graphs of their own.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/torchscript_tracer.h"
#include "exporter/value_tree.h"

namespace nacre {

namespace jit = torch::jit;
using c10::IValue;

// The values that two branches give, as values of the graph around them.
struct TorchScriptTracer::Join {
  TorchScriptTracer& tracer;
  const jit::Node& node;
  const at::Tensor& condition;
  bool taken;                             // for the example
  std::array<Recorder::Scope, 2>& scopes;  // yes, no
  std::vector<std::array<at::Tensor, 3>> results;  // of yes, of no, and the tensor for both

  [[noreturn]] void differ(const IValue& a, const IValue& b) const {
    tracer.refuse(node, fmt::format("decides by data between values that are no results of one graph: {} and {}", structure(a), structure(b)));
  }

  // Runs `make` as part of a branch.
  template <class Make>
  at::Tensor within(size_t side, Make make) {
    tracer.recorder_.enter(scopes[side]);
    at::Tensor made = make();
    tracer.recorder_.leave();
    return made;
  }

  IValue tensors(const at::Tensor& a, const at::Tensor& b) {
    if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) differ(a, b);
    const at::Tensor both = (taken ? a : b).clone();
    results.push_back({a, b, both});
    return both;
  }

  // A branch that leaves the value open is one that is not read afterwards.
  IValue with_nothing(const IValue& value, size_t side) {
    return map_leaves(value, [&](const IValue& leaf) -> IValue {
      if (!leaf.isTensor() || !leaf.toTensor().defined()) return leaf;
      const at::Tensor& t = leaf.toTensor();
      const at::Tensor zeros = within(1 - side, [&] {
        return tracer.apply(node, "aten.full.default", {t.sizes().vec(), int64_t{0}, static_cast<int64_t>(t.scalar_type())});
      });
      IValue both = side == 0 ? tensors(t, zeros) : tensors(zeros, t);
      return tracer.is_number(leaf) ? tracer.as_number(both.toTensor()) : both;
    });
  }

  IValue numbers(const IValue& a, const IValue& b) {
    if (a.isBool() && b.isBool() && a.toBool()) return tracer.as_number(condition);
    std::array<at::Tensor, 2> sides;
    for (size_t side = 0; side < 2; ++side) sides[side] = within(side, [&] { return tracer.as_tensor(node, side == 0 ? a : b); });
    return tracer.as_number(tensors(sides[0], sides[1]).toTensor());
  }

  IValue join(const IValue& a, const IValue& b) {
    if (is_uninitialized(a)) return is_uninitialized(b) ? a : with_nothing(b, 1);
    if (is_uninitialized(b)) return with_nothing(a, 0);
    if (a.isSameIdentity(b)) return a;
    const bool number_a = tracer.is_number(a) || is_plain_number(a), number_b = tracer.is_number(b) || is_plain_number(b);
    if (number_a && number_b) return numbers(a, b);
    if (number_a || number_b) differ(a, b);
    if (a.isTensor() && b.isTensor() && a.toTensor().defined() && b.toTensor().defined()) return tensors(a.toTensor(), b.toTensor());
    if ((a.isTuple() && b.isTuple()) || (a.isList() && b.isList())) {
      const auto of_a = items_of(a), of_b = items_of(b);
      if (of_a.size() != of_b.size()) differ(a, b);
      std::vector<IValue> items;
      for (size_t i = 0; i < of_a.size(); ++i) items.push_back(join(of_a[i], of_b[i]));
      if (a.isTuple()) return c10::ivalue::Tuple::create(std::move(items));
      c10::impl::GenericList list(a.toList().elementType());
      for (IValue& item : items) list.push_back(std::move(item));
      tracer.lists_.try_emplace(IValue(list).internalToPointer(), list, tracer.recorder_.depth());
      return list;
    }
    differ(a, b);
  }
};

TorchScriptTracer::Values TorchScriptTracer::branch(const jit::Node& node, const at::Tensor condition, const std::function<Values()>& yes,
                                                    const std::function<Values()>& no) {
  const std::array<const std::function<Values()>*, 2> sides = {&yes, &no};
  const bool taken = condition.item().toBool();
  const auto overlay = overlay_;
  const auto attributes = attributes_;
  const size_t path = path_.size();
  const int calls = depth_;
  std::array<Recorder::Scope, 2> scopes;
  std::array<Values, 2> given;
  std::array<decltype(overlay_), 2> set;
  std::array<std::optional<Raised>, 2> raised;
  // What raises without more ado is told first, so that the other branch is traced once.
  std::array<size_t, 2> order = {0, 1};
  const auto raises = [&](size_t side) {
    if (node.kind() != c10::prim::If) return false;
    const auto nodes = node.blocks()[side]->nodes();
    return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node* n) { return n->kind() == c10::prim::RaiseException; });
  };
  if (raises(1)) order = {1, 0};
  for (size_t side : order) {
    if (raised[1 - side]) break;
    recorder_.enter(scopes[side]);
    try {
      given[side] = (*sides[side])();
    } catch (Raised& error) {
      raised[side] = std::move(error);
      path_.resize(path);
      depth_ = calls;
    }
    recorder_.leave();
    set[side] = std::move(overlay_);
    overlay_ = overlay;
    attributes_ = attributes;
  }
  for (size_t side = 0; side < 2; ++side) {
    if (!raised[side]) continue;
    if (taken == (side == 0) && recorder_.depth() == 0)
      fail_at(ErrorKind::user, where_text(raised[side]->where), "the model raises {} for these examples", raised[side]->text);
    const at::Tensor holds = side == 1 ? condition : apply(node, "aten.logical_not.default", {condition});
    Provenance at = raised[side]->where;
    at.op = "aten._assert_scalar.default";
    recorder_.require(holds, fmt::format("the model raises {} ({}:{})", raised[side]->text, at.file, at.line), at);
    return (*sides[1 - side])();
  }

  Join join{*this, node, condition, taken, scopes, {}};
  Values results;
  for (size_t i = 0; i < given[0].size(); ++i) results.push_back(join.join(given[0][i], given[1][i]));
  // Attributes that a branch sets are results too.
  const auto before = [&](const Slot& key) {
    const auto known = overlay.find(key);
    return known == overlay.end() ? key.first->getSlot(key.second) : known->second;
  };
  std::map<Slot, IValue> changed;
  for (const auto& entries : set) {
    for (const auto& [key, value] : entries) {
      const auto first = set[0].find(key), second = set[1].find(key);
      if (!overlay.contains(key) && !objects_.contains(key.first)) continue;  // an object that the branch made
      const IValue a = first == set[0].end() ? before(key) : first->second, b = second == set[1].end() ? before(key) : second->second;
      if (!changed.contains(key) && !(a.isSameIdentity(before(key)) && b.isSameIdentity(before(key)))) changed[key] = join.join(a, b);
    }
  }
  for (size_t side = 0; side < 2; ++side)
    for (const auto& result : join.results) {
      recorder_.add_result(scopes[side], result[side]);
      for (const auto& [tensor, id] : scopes[side].captured)
        if (tensor.is_alias_of(result[side])) recorder_.may_share(tensor, result[2]);
    }
  for (const auto& scope : scopes) refuse_views_of_written(node, scope);
  recorder_.apply_writes(scopes[taken ? 0 : 1]);

  Node made;
  made.op = "higher_order.cond";
  made.where = where(node);
  made.where.op = made.op;
  made.args = {{"predicate", ValueRef{recorder_.id_of(condition)}}};
  std::vector<ValueRef> operands = recorder_.close({&scopes[0], &scopes[1]});
  std::vector<at::Tensor> tensors;
  for (const auto& result : join.results) tensors.push_back(result[2]);
  recorder_.record(std::move(made), {{"true_graph", &scopes[0]}, {"false_graph", &scopes[1]}}, {{"operands", operands}}, tensors);
  for (const auto& [slot, value] : changed) set_attribute(slot, value);
  return results;
}

// Within a graph, memory is known by one name: a write through another would not be seen.
void TorchScriptTracer::refuse_views_of_written(const jit::Node& node, const Recorder::Scope& scope) const {
  for (const auto& [storage, memory] : scope.written)
    if (std::count_if(scope.captured.begin(), scope.captured.end(), [&](const auto& c) { return c.first.is_alias_of(memory.tensor); }) > 1)
      refuse(node, "writes in place, within a branch that data decide on, to memory that the branch also reads through another view: write to a "
                   "clone()");
}

}  // namespace nacre
