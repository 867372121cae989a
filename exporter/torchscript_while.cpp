// Loops that data decide on: one round is traced on the example into a graph of its own, until what it carries settles.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/support/error.h"
#include "exporter/aten.h"
#include "exporter/torchscript_tracer.h"
#include "exporter/value_tree.h"

namespace nacre {

namespace jit = torch::jit;
using c10::IValue;

namespace {

bool is_data(const IValue& v) { return v.isTensor() && v.toTensor().defined(); }

}  // namespace

// What a loop carries: its index and condition, the values of its own variables, then attributes that the body sets and
// tensors from outside that it writes to.
class TorchScriptTracer::Loop {
 public:
  Loop(TorchScriptTracer& tracer, const jit::Node& node, Frame& frame) : tracer_(tracer), node_(node), body_(*node.blocks()[0]), frame_(frame) {}

  void run(const IValue& most, int64_t done, const IValue& go, const Values& carried) {
    counts_ = tracer_.is_number(most) || most.toInt() != std::numeric_limits<int64_t>::max();
    add({IValue(done), {}}, [&](const IValue&) { return counts_ || body_.inputs()[0]->hasUses(); });
    add({go, {}}, is_data);
    for (size_t c = 0; c < carried.size(); ++c) {
      const bool passes = body_.outputs()[c + 1] == body_.inputs()[c + 1];
      add({carried[c], {}}, [&](const IValue& v) { return !passes && (is_data(v) || is_plain_number(v)); });
    }
    own_ = roots_.size();
    settle(done);
    Recorder::Scope test = condition(most);
    record(test);
    deliver();
  }

 private:
  struct Leaf {
    IValue before;          // a tensor, number or constant
    bool varies = false;    // else it stays what it is
    bool in_place = false;  // the body writes to it
    at::Tensor inside;
    IValue after;
  };
  struct Root {
    IValue before;             // the tree of the leaves
    std::optional<Slot> slot;  // of an attribute
    bool written = false;      // a tensor from outside
    std::vector<Leaf> leaves = {};
  };
  // One round on the example.
  struct Round {
    std::vector<IValue> after;  // of each root
    std::map<Slot, IValue> set;
  };

  void add(Root root, const std::function<bool(const IValue&)>& varies) {
    for (const IValue& leaf : leaves_of(root.before)) root.leaves.push_back({leaf, varies(leaf), root.written, {}, {}});
    roots_.push_back(std::move(root));
  }

  template <class Visit>
  void each(Visit visit) {
    for (Root& root : roots_)
      for (Leaf& leaf : root.leaves) visit(root, leaf);
  }

  bool is_number(const IValue& v) const { return tracer_.is_number(v) || is_plain_number(v); }
  static bool can_vary(const IValue& v) { return is_data(v) || is_plain_number(v); }
  [[noreturn]] void refuse(const std::string& what) const { tracer_.refuse(node_, "has a loop that data decide on " + what); }

  // Until every round carries what the one before did.
  void settle(int64_t done) {
    for (int attempt = 0; attempt < 32; ++attempt) {
      open_variables();
      const Round round = trace(done);
      bool settled = true;
      for (size_t r = 0; r < roots_.size(); ++r) settled &= settle(roots_[r], round.after[r]);
      settled &= settle_attributes(round.set);
      settled &= settle_writes(!settled);
      if (settled) return;
    }
    refuse("whose variables never settle");
  }

  // Numbers become tensors, and every variable a tensor of its own, though it has the memory of the first value.
  void open_variables() {
    each([&](Root& root, Leaf& leaf) {
      if (!leaf.varies) return;
      if (is_plain_number(leaf.before)) leaf.before = tracer_.as_number(tracer_.as_tensor(node_, leaf.before));
      const at::Tensor& t = leaf.before.toTensor();
      tracer_.recorder_.id_of(t);
      leaf.inside = root.written ? t : t.detach();
      if (tracer_.is_number(t)) tracer_.as_number(leaf.inside);
    });
  }

  void bind() {
    each([&](Root&, Leaf& leaf) {
      if (leaf.varies) tracer_.recorder_.bind(leaf.inside, leaf.in_place);
    });
  }

  static IValue inside(const Root& root) {
    size_t next = 0;
    return map_leaves(root.before, [&](const IValue&) -> IValue {
      const Leaf& leaf = root.leaves[next++];
      return leaf.varies ? IValue(leaf.inside) : leaf.before;
    });
  }

  Round trace(int64_t done) {
    const auto overlay = tracer_.overlay_;
    const auto attributes = tracer_.attributes_;
    scope_ = Recorder::Scope();
    scope_.repeats = true;
    tracer_.recorder_.enter(scope_);
    bind();
    for (size_t r = own_; r < roots_.size(); ++r)
      if (const auto& slot = roots_[r].slot) tracer_.overlay_[*slot] = inside(roots_[r]);
    Round round;
    try {
      frame_[body_.inputs()[0]] = inside(roots_[0]);
      for (size_t i = 1; i < body_.inputs().size(); ++i) frame_[body_.inputs()[i]] = inside(roots_[i + 1]);
      tracer_.run_block(body_, frame_);
      const Leaf& index = roots_[0].leaves[0];
      round.after.push_back(index.varies ? tracer_.as_number(tracer_.apply(node_, "aten.add.Scalar", {index.inside, int64_t{1}})) : IValue(done));
      for (const jit::Value* v : body_.outputs()) round.after.push_back(frame_.at(v));
    } catch (Raised& error) {
      tracer_.recorder_.leave();
      fail_at(ErrorKind::unsupported, where_text(error.where), "a loop that data decide on raises {} in every round", error.text);
    }
    for (size_t r = own_; r < roots_.size(); ++r)
      round.after.push_back(roots_[r].slot ? tracer_.overlay_.at(*roots_[r].slot) : roots_[r].before);
    tracer_.recorder_.leave();
    round.set = std::move(tracer_.overlay_);
    tracer_.overlay_ = overlay;
    tracer_.attributes_ = attributes;
    return round;
  }

  // A variable that is not read before the body gives it starts as zeros.
  IValue zeros_like(const IValue& after) {
    return map_leaves(after, [&](const IValue& leaf) -> IValue {
      if (!is_data(leaf)) return leaf;
      const at::Tensor& t = leaf.toTensor();
      const at::Tensor zeros = tracer_.apply(node_, "aten.full.default", {t.sizes().vec(), int64_t{0}, static_cast<int64_t>(t.scalar_type())});
      return tracer_.is_number(leaf) ? tracer_.as_number(zeros) : IValue(zeros);
    });
  }

  // These tell whether the loop is as it was.
  bool settle(Root& root, const IValue& after) {
    if (root.leaves.size() == 1 && is_uninitialized(root.before) && !is_uninitialized(after)) {
      root.before = zeros_like(after);
      root.leaves.clear();
      for (const IValue& leaf : leaves_of(root.before)) root.leaves.push_back({leaf, can_vary(leaf), false, {}, {}});
      return false;
    }
    const std::vector<IValue> leaves = leaves_of(after);
    if (leaves.size() != root.leaves.size())
      refuse(fmt::format("with a list that changes its length, from {} to {} values", root.leaves.size(), leaves.size()));
    bool settled = true;
    for (size_t l = 0; l < leaves.size(); ++l) settled &= settle(root, root.leaves[l], leaves[l]);
    return settled;
  }

  bool settle(const Root& root, Leaf& leaf, const IValue& after) {
    leaf.after = after;
    if (!leaf.varies) {
      if (is_uninitialized(leaf.before) || leaf.before.isSameIdentity(after)) return true;
      if (can_vary(leaf.before) && can_vary(after)) {
        leaf.varies = true;
        return false;
      }
    }
    const bool number = is_number(leaf.before);
    if (number != is_number(after) || (!number && !(is_data(leaf.before) && is_data(after) && structure(leaf.before) == structure(after))))
      refuse(fmt::format("with a variable that changes from {} to {}", structure(leaf.before), structure(after)));
    bool settled = true;
    if (!number && !leaf.in_place && after.isSameIdentity(leaf.inside) && !root.slot) {
      // Only read, or written to in place.
      const bool writes = std::any_of(scope_.written.begin(), scope_.written.end(),
                                      [&](const auto& w) { return w.second.tensor.is_alias_of(leaf.inside); });
      (writes ? leaf.in_place : leaf.varies) = writes;
      settled = false;
    }
    if (leaf.in_place && !after.isSameIdentity(leaf.inside)) refuse_write_and_replace();
    return settled;
  }

  [[noreturn]] void refuse_write_and_replace() const {
    refuse("which writes in place to a variable and then gives it another tensor: write to a clone()");
  }

  bool settle_attributes(const std::map<Slot, IValue>& set) {
    bool settled = true;
    for (const auto& [key, value] : set) {
      const auto known = tracer_.overlay_.find(key);
      if (known == tracer_.overlay_.end() && !tracer_.objects_.contains(key.first)) continue;  // an object that the body made
      const IValue before = known == tracer_.overlay_.end() ? key.first->getSlot(key.second) : known->second;
      const bool carries = std::any_of(roots_.begin(), roots_.end(), [&](const Root& root) { return root.slot == key; });
      if (carries || value.isSameIdentity(before)) continue;
      add({before, key}, can_vary);
      settled = false;
    }
    return settled;
  }

  bool settle_writes(bool again) {
    for (const auto& [storage, memory] : scope_.written) {
      std::vector<at::Tensor> names;
      bool handled = false;
      for (const auto& [tensor, id] : scope_.captured)
        if (tensor.is_alias_of(memory.tensor)) names.push_back(tensor);
      each([&](Root&, Leaf& leaf) {
        if (!leaf.inside.defined() || !leaf.inside.is_alias_of(memory.tensor)) return;
        handled |= leaf.in_place;
        names.push_back(leaf.inside);
      });
      if (names.size() > 1) refuse("which writes in place to memory that it also reads as another value: write to a clone()");
      if (handled || again || names.empty()) continue;
      if (std::none_of(scope_.captured.begin(), scope_.captured.end(), [&](const auto& c) { return c.first.is_same(names[0]); }))
        refuse_write_and_replace();
      Root root{names[0], {}};
      root.written = true;
      add(std::move(root), is_data);
      again = true;
    }
    return !again;
  }

  Recorder::Scope condition(const IValue& most) {
    Recorder::Scope test;
    tracer_.recorder_.enter(test);
    bind();
    const Leaf& go = roots_[1].leaves[0];
    IValue holds = go.varies ? IValue(go.inside) : IValue();
    if (counts_) {
      const at::Tensor below = tracer_.apply(node_, "aten.lt.Tensor", {roots_[0].leaves[0].inside, tracer_.as_tensor(node_, most)});
      holds = holds.isNone() ? below : tracer_.apply(node_, "aten.logical_and.default", {holds, below});
    }
    check(holds.isTensor(), "a loop that nothing ends");
    tracer_.recorder_.leave();
    tracer_.recorder_.add_result(test, holds.toTensor());
    return test;
  }

  // What the body gives for a variable, in the type that the variable starts with.
  at::Tensor result_of(const Leaf& leaf) {
    tracer_.recorder_.enter(scope_);
    at::Tensor after = tracer_.as_tensor(node_, leaf.after);
    if (tracer_.is_number(leaf.before)) after = tracer_.converted(node_, after, leaf.before.toTensor().scalar_type());
    tracer_.recorder_.leave();
    return after;
  }

  // The node; each leaf that varies has its result in `after`.
  void record(Recorder::Scope& test) {
    Recorder& recorder = tracer_.recorder_;
    std::vector<ValueRef> initial;
    std::vector<at::Tensor> results;
    each([&](Root&, Leaf& leaf) {
      if (!leaf.varies) return;
      initial.push_back({recorder.id_of(leaf.before.toTensor())});
      const at::Tensor after = result_of(leaf);
      recorder.add_result(scope_, after);
      results.push_back(after.clone());
      if (tracer_.is_number(leaf.before)) {
        tracer_.as_number(results.back());
      } else if (!leaf.in_place) {
        recorder.may_share(leaf.before.toTensor(), results.back());  // where the body does not run
        for (const auto& [tensor, id] : scope_.captured)
          if (tensor.is_alias_of(after)) recorder.may_share(tensor, results.back());
      }
      leaf.after = results.back();
    });
    Node made;
    made.op = "higher_order.while_loop";
    made.where = tracer_.where(node_);
    made.where.op = made.op;
    const std::vector<ValueRef> operands = recorder.close({&test, &scope_});
    recorder.record(std::move(made), {{"cond_graph", &test}, {"body_graph", &scope_}},
                    {{"carried_inputs", initial}, {"additional_inputs", operands}}, results);
  }

  void deliver() {
    for (size_t r = 0; r < roots_.size(); ++r) {
      const Root& root = roots_[r];
      size_t next = 0;
      const IValue value = map_leaves(root.before, [&](const IValue&) -> IValue {
        const Leaf& leaf = root.leaves[next++];
        if (!leaf.varies) return leaf.before;
        if (!leaf.in_place) return leaf.after;
        tracer_.permit_write(node_, leaf.before);
        return tracer_.apply(node_, "aten.copy_.default", {leaf.before, leaf.after});
      });
      if (r >= 2 && r < own_) frame_[node_.outputs()[r - 2]] = value;
      if (root.slot) tracer_.set_attribute(*root.slot, value);
    }
  }

  TorchScriptTracer& tracer_;
  const jit::Node& node_;
  const jit::Block& body_;
  Frame& frame_;
  bool counts_ = false;      // rounds end it, besides the condition
  std::vector<Root> roots_;
  size_t own_ = 0;           // how many roots come before the attributes
  Recorder::Scope scope_;    // of the body
};

void TorchScriptTracer::run_while(const jit::Node& node, Frame& frame, const IValue& most, int64_t done, const IValue& go, const Values& carried) {
  Loop(*this, node, frame).run(most, done, go, carried);
}

}  // namespace nacre
