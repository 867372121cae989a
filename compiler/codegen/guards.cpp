#include "compiler/codegen/guards.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "compiler/loops/regions.h"
#include "compiler/support/error.h"
#include "compiler/symbolic/affine.h"

namespace nacre {

using formats::Guard;
using formats::Size;

namespace {

class Row {
 public:
  Row(const Graph& entry, const LoopProgram& variant, const Bindings& bindings, NodeList& nodes)
      : general_(entry.symbols), narrow_(variant.symbols), variant_(variant), bindings_(bindings), nodes_(nodes), later_(bound_symbols(variant)) {
    for (const GraphInput& input : entry.inputs)
      if (input.kind == InputKind::user) values_.push_back(&entry[input.value]);
  }

  std::vector<Guard> make(const std::vector<SharedInput>& shared, uint64_t features) {
    row_.push_back({NACRE_GUARD_features, 0, 0, 0, static_cast<int64_t>(features), 0});
    for (size_t i = 0; i < values_.size(); ++i) {
      const uint16_t number = static_cast<uint16_t>(i);
      row_.push_back({NACRE_GUARD_dtype, number, 0, 0, static_cast<int64_t>(values_[i]->dtype), 0});
      row_.push_back({NACRE_GUARD_rank, number, 0, 0, static_cast<int64_t>(values_[i]->shape.size()), 0});
    }
    // The simplest place first: another that has the symbol is compared with what was found there.
    for (const bool plain : {true, false})
      each_dim([&](uint16_t i, uint16_t d, const Expr& e) {
        auto a = affine(e, general_);
        if (a && !done_.contains({i, d}) && !bound_.contains(a->symbol) && (!plain || (a->k == 1 && a->c == 0))) bind(i, d, *a);
      });
    each_dim([&](uint16_t i, uint16_t d, const Expr& e) { size(i, d, e); });
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i]->kind != ValueKind::tensor) number(*values_[i], static_cast<uint16_t>(i));
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i]->kind == ValueKind::tensor && !variant_[variant_.inputs[i]].order.empty())
        checks_.push_back({NACRE_GUARD_strides, static_cast<uint16_t>(i), 0, 0, NACRE_STRIDES_CHANNELS_LAST, 0});
    for (const auto& [name, facts] : general_)
      if (!bound_.contains(name) && !later_.contains(name))
        fail(ErrorKind::unsupported, "the size {} depends on data, or on no input: no guard can bind it", name);
    apart(shared);
    for (const Expr& e : variant_.assumptions) {
      const Expr s = simplify(e, narrow_);
      if (!s.constant() && !has_symbol_of(s, later_)) late_.push_back(holds(nodes_.add(s)));
    }
    for (std::vector<Guard>* part : {&checks_, &late_}) row_.insert(row_.end(), part->begin(), part->end());
    return std::move(row_);
  }

 private:
  template <class Visit>
  void each_dim(Visit visit) {
    for (size_t i = 0; i < values_.size(); ++i)
      for (size_t d = 0; d < values_[i]->shape.size(); ++d)
        visit(static_cast<uint16_t>(i), static_cast<uint16_t>(d), simplify(values_[i]->shape[d], general_));
  }

  int64_t symbol_number(const std::string& name) const {
    return static_cast<int64_t>(bindings_.first_symbol) + std::distance(general_.begin(), general_.find(name));
  }

  void bind(uint16_t i, uint16_t d, const Affine& a) {
    row_.push_back({NACRE_GUARD_bind, i, d, symbol_number(a.symbol), a.k, a.c});
    bound_.insert(a.symbol);
    done_.insert({i, d});
    const SymbolFacts& facts = narrow_.at(a.symbol);
    const int64_t lo = std::max<int64_t>(facts.range.min, 0) * a.k + a.c;
    int64_t hi = INT64_MAX;
    if (facts.range.max != kUnbounded && (__builtin_mul_overflow(facts.range.max, a.k, &hi) || __builtin_add_overflow(hi, a.c, &hi))) hi = INT64_MAX;
    if (lo == hi) {
      checks_.push_back({NACRE_GUARD_equal, i, d, 0, lo, 0});
      return;
    }
    if (lo > 0 || hi != INT64_MAX) checks_.push_back({NACRE_GUARD_range, i, d, 0, lo, hi});
    if (facts.multiple > 1 && a.c == 0) checks_.push_back({NACRE_GUARD_multiple, i, d, 0, facts.multiple * a.k, 0});
    if (facts.multiple > 1 && a.c != 0) late_.push_back(divisible(a.symbol, facts.multiple));
  }

  // A dimension that binds nothing.
  void size(uint16_t i, uint16_t d, const Expr& general) {
    if (done_.contains({i, d})) return;
    const Expr e = simplify(general, narrow_);
    if (auto n = e.constant())
      checks_.push_back({NACRE_GUARD_equal, i, d, 0, *n, 0});
    else
      late_.push_back({NACRE_GUARD_equal_node, i, d, static_cast<int64_t>(nodes_.add(e).node_number()), 0, 0});
  }

  // What an input that is a number must be: the one that export took as given; or an integer, which becomes the value of
  // its symbol, or is compared with what the symbols bound before make of its expression.
  void number(const Value& value, uint16_t input) {
    auto equal = [&](int64_t wanted) { checks_.push_back({NACRE_GUARD_value_equal, input, 0, 0, wanted, 0}); };
    if (value.kind == ValueKind::boolean) {
      if (value.number) equal(static_cast<int64_t>(*value.number));
    } else if (value.kind == ValueKind::floating) {
      if (!value.number) return;
      // As the input's type can hold it.
      const double wanted = value.dtype == NACRE_f32 ? static_cast<double>(static_cast<float>(*value.number)) : *value.number;
      equal(std::bit_cast<int64_t>(wanted));
    } else if (auto n = value.expr.constant()) {
      equal(*n);
    } else if (value.expr.op() == ExprOp::symbol && bound_.insert(value.expr.name()).second) {
      const std::string& name = value.expr.name();
      const SymbolFacts& facts = narrow_.at(name);
      row_.push_back({NACRE_GUARD_bind_value, input, 0, symbol_number(name), 0, 0});
      if (facts.range.min > -kUnbounded || facts.range.max != kUnbounded)
        checks_.push_back({NACRE_GUARD_value_range, input, 0, 0, facts.range.min, facts.range.max});
      if (facts.multiple > 1) late_.push_back(divisible(name, facts.multiple));
    } else {
      const uint32_t symbol = bindings_.numbers.at(input);
      row_.push_back({NACRE_GUARD_bind_value, input, 0, static_cast<int64_t>(symbol), 0, 0});
      late_.push_back(holds(nodes_.add(NACRE_EXPR_eq, nodes_.add_symbol(symbol), nodes_.add(simplify(value.expr, narrow_)))));
    }
  }

  // Inputs that share memory: either none of them does, or the variant knows how.
  void apart(const std::vector<SharedInput>& shared) {
    std::map<size_t, int> group;
    auto bind = [&](nacre_guard_kind kind, const SharedInput& s, size_t dim, const std::string& symbol) {
      row_.push_back({kind, static_cast<uint16_t>(s.input), static_cast<uint16_t>(dim), static_cast<int64_t>(bindings_.shared.at(symbol)), s.group, 0});
    };
    for (const SharedInput& s : shared) {
      group[s.input] = s.group;
      for (size_t d = 0; d < s.strides.size(); ++d) bind(NACRE_GUARD_bind_stride, s, d, s.strides[d]);
      bind(NACRE_GUARD_bind_offset, s, 0, s.offset);
    }
    for (const auto& [a, b] : bindings_.apart) {
      const bool together = group.contains(a) && group.contains(b) && group[a] == group[b];
      if (!together) checks_.push_back({NACRE_GUARD_disjoint, static_cast<uint16_t>(a), 0, static_cast<int64_t>(b), 0, 0});
    }
  }

  // The value of a node is not 0.
  static Guard holds(Size node) { return {NACRE_GUARD_node, 0, 0, static_cast<int64_t>(node.node_number()), 0, 0}; }
  Guard divisible(const std::string& symbol, int64_t by) {
    const Size rest = nodes_.add(NACRE_EXPR_mod, nodes_.add(Expr::symbol(symbol)), Size::constant(by));
    return holds(nodes_.add(NACRE_EXPR_eq, rest, Size::constant(0)));
  }

  const Facts& general_;
  const Facts& narrow_;
  const LoopProgram& variant_;
  const Bindings& bindings_;
  NodeList& nodes_;
  std::vector<const Value*> values_;  // of the user inputs
  const std::set<std::string> later_;  // symbols that get their values during the run
  std::set<std::string> bound_;
  std::set<std::pair<uint16_t, uint16_t>> done_;  // dimensions that bind
  std::vector<Guard> row_, checks_, late_;        // up to the bindings; then single sizes and values; then what reads nodes
};

}  // namespace

std::vector<Guard> make_guards(const Graph& entry, const LoopProgram& variant, const Bindings& bindings, NodeList& nodes,
                               const std::vector<SharedInput>& shared, uint64_t features) {
  return Row(entry, variant, bindings, nodes).make(shared, features);
}

}  // namespace nacre
