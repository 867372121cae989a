// `if` and loops that data decide on: both branches, or one round of the loop, are traced on the example into graphs of their
// own.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/torchscript_tracer.h"
#include "exporter/value_tree.h"

namespace nacre {

namespace jit = torch::jit;
using c10::IValue;

namespace {

bool is_uninitialized(const IValue& v) { return v.tagKind() == "Uninitialized"; }
bool is_plain_number(const IValue& v) { return v.isInt() || v.isDouble() || v.isBool(); }

std::string described(const IValue& v) { return v.isNone() ? "None" : is_uninitialized(v) ? "nothing" : structure(v); }

// The same tree with every leaf replaced, in order.
IValue map_leaves(const IValue& value, const std::function<IValue(const IValue&)>& replace) {
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& item : items_of(value)) items.push_back(map_leaves(item, replace));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isList()) {
    c10::impl::GenericList items(value.toList().elementType());
    for (const IValue& item : items_of(value)) items.push_back(map_leaves(item, replace));
    return items;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::impl::GenericDict items(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) items.insert(entry.key(), map_leaves(entry.value(), replace));
    return items;
  }
  return replace(value);
}

std::vector<IValue> leaves_of(const IValue& value) {
  std::vector<IValue> leaves;
  map_leaves(value, [&](const IValue& leaf) {
    leaves.push_back(leaf);
    return leaf;
  });
  return leaves;
}

}  // namespace

// ---------------------------------------------------------------- branches

// The values that two branches give, as values of the graph around them.
struct TorchScriptTracer::Join {
  TorchScriptTracer& tracer;
  const jit::Node& node;
  const at::Tensor& condition;
  bool taken;                             // for the example
  std::array<Recorder::Scope, 2>& scopes;  // yes, no
  std::vector<std::array<at::Tensor, 3>> results;  // of yes, of no, and the tensor for both

  [[noreturn]] void differ(const IValue& a, const IValue& b) const {
    tracer.refuse(node, fmt::format("decides by data between values that are no results of one graph: {} and {}", described(a), described(b)));
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
  for (const auto& [key, value] : changed)
    set_attribute(ObjectPtr::reclaim_copy(const_cast<c10::ivalue::Object*>(key.first)), key.second, value);  // NOLINT: as it was counted
  return results;
}

// Within a graph, memory is known by one name: a write through another would not be seen.
void TorchScriptTracer::refuse_views_of_written(const jit::Node& node, const Recorder::Scope& scope) const {
  for (const auto& [storage, memory] : scope.written)
    if (std::count_if(scope.captured.begin(), scope.captured.end(), [&](const auto& c) { return c.first.is_alias_of(memory.tensor); }) > 1)
      refuse(node, "writes in place, within a branch that data decide on, to memory that the branch also reads through another view: write to a "
                   "clone()");
}

// ---------------------------------------------------------------- loops

// What a loop carries: the values of its own variables, attributes that the body sets, and tensors from outside that it
// writes to.
struct TorchScriptTracer::Loop {
  struct Leaf {
    IValue before;          // a tensor, number or constant
    bool varies = false;    // else it stays what it is
    bool in_place = false;  // the body writes to it
    at::Tensor inside;
    IValue after;
  };
  struct Root {
    IValue before;               // the tree of the leaves
    std::optional<Slot> slot;    // of an attribute
    bool written = false;        // a tensor from outside
    std::vector<Leaf> leaves = {};
  };
  std::vector<Root> roots;

  void add(Root root, const std::function<bool(const IValue&)>& varies) {
    for (const IValue& leaf : leaves_of(root.before)) root.leaves.push_back({leaf, varies(leaf), root.written, {}, {}});
    roots.push_back(std::move(root));
  }
  template <class Visit>
  void each(Visit visit) {
    for (Root& root : roots)
      for (Leaf& leaf : root.leaves) visit(root, leaf);
  }
};

void TorchScriptTracer::run_while(const jit::Node& node, Frame& frame, const IValue& most, int64_t done, const IValue& go, const Values& carried) {
  const jit::Block& body = *node.blocks()[0];
  const bool counts = is_number(most) || most.toInt() != std::numeric_limits<int64_t>::max();
  const auto is_data = [&](const IValue& v) { return v.isTensor() && v.toTensor().defined(); };
  // The first roots are the index, the condition and the loop's own variables.
  Loop loop;
  loop.add({IValue(done), {}}, [&](const IValue&) { return counts || body.inputs()[0]->hasUses(); });
  loop.add({go, {}}, is_data);
  for (size_t c = 0; c < carried.size(); ++c) {
    const bool passes = body.outputs()[c + 1] == body.inputs()[c + 1];
    loop.add({carried[c], {}}, [&](const IValue& v) { return !passes && (is_data(v) || is_plain_number(v)); });
  }
  const size_t own = loop.roots.size();

  const auto overlay = overlay_;
  const auto attributes = attributes_;
  const auto bind = [&] {
    loop.each([&](Loop::Root&, Loop::Leaf& leaf) {
      if (leaf.varies) recorder_.bind(leaf.inside, leaf.in_place);
    });
  };
  const auto inside = [&](const Loop::Root& root) {
    size_t next = 0;
    return map_leaves(root.before, [&](const IValue&) -> IValue {
      const Loop::Leaf& leaf = root.leaves[next++];
      return leaf.varies ? IValue(leaf.inside) : leaf.before;
    });
  };

  Recorder::Scope round;
  for (int attempt = 0;; ++attempt) {
    if (attempt == 32) refuse(node, "has a loop that data decide on whose variables never settle");
    bool again = false;
    // Numbers become tensors, and every variable a tensor of its own, though it has the memory of the first value.
    loop.each([&](Loop::Root& root, Loop::Leaf& leaf) {
      if (!leaf.varies) return;
      if (is_plain_number(leaf.before)) leaf.before = as_number(as_tensor(node, leaf.before));
      const at::Tensor& t = leaf.before.toTensor();
      recorder_.id_of(t);
      leaf.inside = root.written ? t : t.detach();
      if (is_number(t)) as_number(leaf.inside);
    });
    round = Recorder::Scope();
    round.repeats = true;
    recorder_.enter(round);
    bind();
    for (size_t r = own; r < loop.roots.size(); ++r)
      if (const auto& slot = loop.roots[r].slot) overlay_[*slot] = inside(loop.roots[r]);
    std::vector<IValue> after;
    try {
      frame[body.inputs()[0]] = inside(loop.roots[0]);
      for (size_t c = 0; c < carried.size(); ++c) frame[body.inputs()[c + 1]] = inside(loop.roots[c + 2]);
      run_block(body, frame);
      if (loop.roots[0].leaves[0].varies)
        after.push_back(as_number(apply(node, "aten.add.Scalar", {loop.roots[0].leaves[0].inside, int64_t{1}})));
      else
        after.push_back(done);
      for (const jit::Value* v : body.outputs()) after.push_back(frame.at(v));
    } catch (Raised& error) {
      recorder_.leave();
      fail_at(ErrorKind::unsupported, where_text(error.where), "a loop that data decide on raises {} in every round", error.text);
    }
    for (size_t r = own; r < loop.roots.size(); ++r)
      after.push_back(loop.roots[r].slot ? overlay_.at(*loop.roots[r].slot) : loop.roots[r].before);
    recorder_.leave();
    const auto set = std::move(overlay_);
    overlay_ = overlay;
    attributes_ = attributes;

    for (size_t r = 0; r < loop.roots.size(); ++r) {
      Loop::Root& root = loop.roots[r];
      if (root.leaves.size() == 1 && is_uninitialized(root.before) && !is_uninitialized(after[r])) {
        // Not read before the body gives it.
        const IValue start = map_leaves(after[r], [&](const IValue& leaf) -> IValue {
          if (!is_data(leaf)) return leaf;
          const at::Tensor& t = leaf.toTensor();
          const at::Tensor zeros = apply(node, "aten.full.default", {t.sizes().vec(), int64_t{0}, static_cast<int64_t>(t.scalar_type())});
          return is_number(leaf) ? as_number(zeros) : IValue(zeros);
        });
        root.before = start;
        root.leaves.clear();
        for (const IValue& leaf : leaves_of(start)) root.leaves.push_back({leaf, is_data(leaf) || is_plain_number(leaf), false, {}, {}});
        again = true;
        continue;
      }
      const std::vector<IValue> leaves = leaves_of(after[r]);
      if (leaves.size() != root.leaves.size())
        refuse(node, fmt::format("has a loop that data decide on with a list that changes its length, from {} to {} values", root.leaves.size(),
                                 leaves.size()));
      for (size_t l = 0; l < leaves.size(); ++l) {
        Loop::Leaf& leaf = root.leaves[l];
        leaf.after = leaves[l];
        if (!leaf.varies) {
          if (is_uninitialized(leaf.before) || leaf.before.isSameIdentity(leaf.after)) continue;
          if ((is_plain_number(leaf.before) || is_data(leaf.before)) && (is_plain_number(leaf.after) || is_data(leaf.after))) {
            leaf.varies = again = true;
            continue;
          }
        }
        const bool number = is_number(leaf.before) || is_plain_number(leaf.before);
        const bool same_kind = number ? is_number(leaf.after) || is_plain_number(leaf.after) : is_data(leaf.before) && is_data(leaf.after);
        const bool same_type = same_kind && (number || (leaf.before.toTensor().scalar_type() == leaf.after.toTensor().scalar_type() &&
                                                        leaf.before.toTensor().sizes() == leaf.after.toTensor().sizes()));
        if (!same_type)
          refuse(node, fmt::format("has a loop that data decide on with a variable that changes from {} to {}", described(leaf.before),
                                   described(leaf.after)));
        if (!number && !leaf.in_place && leaf.after.isSameIdentity(leaf.inside) && !root.slot) {
          // Only read, or written to in place.
          const bool writes = std::any_of(round.written.begin(), round.written.end(),
                                          [&](const auto& w) { return w.second.tensor.is_alias_of(leaf.inside); });
          (writes ? leaf.in_place : leaf.varies) = writes;
          again = true;
        }
        if (leaf.in_place && !leaf.after.isSameIdentity(leaf.inside))
          refuse(node, "has a loop that data decide on which writes in place to a variable and then gives it another tensor: write to a clone()");
      }
    }
    for (const auto& [key, value] : set) {
      const auto known = overlay.find(key);
      if (known == overlay.end() && !objects_.contains(key.first)) continue;  // an object that the body made
      const IValue before = known == overlay.end() ? key.first->getSlot(key.second) : known->second;
      const bool carries = std::any_of(loop.roots.begin(), loop.roots.end(), [&](const Loop::Root& root) { return root.slot == key; });
      if (carries || value.isSameIdentity(before)) continue;
      loop.add({before, key}, [&](const IValue& v) { return is_data(v) || is_plain_number(v); });
      again = true;
    }
    for (const auto& [storage, memory] : round.written) {
      std::vector<at::Tensor> names;
      bool handled = false;
      for (const auto& [tensor, id] : round.captured)
        if (tensor.is_alias_of(memory.tensor)) names.push_back(tensor);
      loop.each([&](Loop::Root&, Loop::Leaf& leaf) {
        if (!leaf.inside.defined() || !leaf.inside.is_alias_of(memory.tensor)) return;
        handled |= leaf.in_place;
        names.push_back(leaf.inside);
      });
      if (names.size() > 1)
        refuse(node, "has a loop that data decide on which writes in place to memory that it also reads as another value: write to a clone()");
      if (handled || again || names.empty()) continue;
      const bool own_variable = std::none_of(round.captured.begin(), round.captured.end(), [&](const auto& c) { return c.first.is_same(names[0]); });
      if (own_variable)
        refuse(node, "has a loop that data decide on which writes in place to a variable and then gives it another tensor: write to a clone()");
      Loop::Root root{names[0], {}};
      root.written = true;
      loop.add(std::move(root), is_data);
      again = true;
    }
    if (!again) break;
  }

  Recorder::Scope test;
  recorder_.enter(test);
  bind();
  IValue holds = loop.roots[1].leaves[0].varies ? IValue(loop.roots[1].leaves[0].inside) : IValue();
  if (counts) {
    const at::Tensor below = apply(node, "aten.lt.Tensor", {loop.roots[0].leaves[0].inside, as_tensor(node, most)});
    holds = holds.isNone() ? below : apply(node, "aten.logical_and.default", {holds, below});
  }
  check(holds.isTensor(), "a loop that nothing ends");
  recorder_.leave();
  recorder_.add_result(test, holds.toTensor());

  std::vector<ValueRef> initial;
  std::vector<at::Tensor> results;
  loop.each([&](Loop::Root&, Loop::Leaf& leaf) {
    if (!leaf.varies) return;
    initial.push_back({recorder_.id_of(leaf.before.toTensor())});
    at::Tensor after;
    if (leaf.after.isTensor()) {
      after = leaf.after.toTensor();
    } else {
      recorder_.enter(round);
      after = as_tensor(node, leaf.after);
      recorder_.leave();
    }
    if (is_number(leaf.before) && after.scalar_type() != leaf.before.toTensor().scalar_type()) {
      recorder_.enter(round);
      after = converted(node, after, leaf.before.toTensor().scalar_type());
      recorder_.leave();
    }
    recorder_.add_result(round, after);
    results.push_back(after.clone());
    if (is_number(leaf.before)) {
      as_number(results.back());
    } else if (!leaf.in_place) {
      recorder_.may_share(leaf.before.toTensor(), results.back());  // where the body does not run
      for (const auto& [tensor, id] : round.captured)
        if (tensor.is_alias_of(after)) recorder_.may_share(tensor, results.back());
    }
    leaf.after = results.back();
  });
  Node made;
  made.op = "higher_order.while_loop";
  made.where = where(node);
  made.where.op = made.op;
  const std::vector<ValueRef> operands = recorder_.close({&test, &round});
  recorder_.record(std::move(made), {{"cond_graph", &test}, {"body_graph", &round}},
                   {{"carried_inputs", initial}, {"additional_inputs", operands}}, results);

  const auto outcome = [&](const Loop::Root& root) {
    size_t next = 0;
    return map_leaves(root.before, [&](const IValue&) -> IValue {
      const Loop::Leaf& leaf = root.leaves[next++];
      if (!leaf.varies) return leaf.before;
      if (!leaf.in_place) return leaf.after;
      permit_write(node, leaf.before);
      return apply(node, "aten.copy_.default", {leaf.before, leaf.after});
    });
  };
  for (size_t r = 0; r < loop.roots.size(); ++r) {
    const IValue value = outcome(loop.roots[r]);
    if (r >= 2 && r < own) frame[node.outputs()[r - 2]] = value;
    if (const auto& slot = loop.roots[r].slot)
      set_attribute(ObjectPtr::reclaim_copy(const_cast<c10::ivalue::Object*>(slot->first)), slot->second, value);  // NOLINT: as it was counted
  }
}

}  // namespace nacre
