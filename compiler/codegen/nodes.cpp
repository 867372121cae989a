#include "compiler/codegen/nodes.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace nacre {

using formats::Size;

NodeList::NodeList(const Facts& symbols, uint32_t first_symbol) {
  for (const auto& [name, facts] : symbols) {
    const uint32_t number = static_cast<uint32_t>(numbers_.size());
    numbers_[name] = number;
    push({NACRE_EXPR_symbol, first_symbol + number, 0});
  }
}

uint32_t NodeList::push(formats::Node node) {
  const auto key = std::make_tuple(static_cast<int>(node.kind), node.number, node.a, node.b);
  auto [place, added] = known_.try_emplace(key, static_cast<uint32_t>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return place->second;
}

uint32_t NodeList::node_of(Operand o) {
  return o.number ? push({NACRE_EXPR_constant, 0, o.value}) : static_cast<uint32_t>(o.value);
}

NodeList::Operand NodeList::operand(Size size) const {
  if (size.is_constant()) return {true, size.raw};
  const formats::Node& n = nodes_[size.node_number()];
  return n.kind == NACRE_EXPR_constant ? Operand{true, n.b} : Operand{false, size.node_number()};
}

NodeList::Operand NodeList::operand(const Expr& e) {
  if (auto n = e.constant()) return {true, *n};
  return operand(add(e));
}

Size NodeList::combine(nacre_expr_kind kind, Operand a, Operand b) {
  constexpr nacre_expr_kind kCommutative[] = {NACRE_EXPR_add, NACRE_EXPR_mul,  NACRE_EXPR_min, NACRE_EXPR_max,
                                              NACRE_EXPR_eq,  NACRE_EXPR_ne, NACRE_EXPR_and_, NACRE_EXPR_or_};
  if (a.number && std::find(std::begin(kCommutative), std::end(kCommutative), kind) != std::end(kCommutative)) std::swap(a, b);
  const uint32_t first = node_of(a);
  if (kind == NACRE_EXPR_add && !b.number) {
    // Buffers of 4*s0 and 2*s0 bytes, one above the other, end at 6*s0, which may be another's size.
    const auto multiple = [&](uint32_t node) {
      const formats::Node& n = nodes_[node];
      return n.kind == NACRE_EXPR_mul && n.number ? std::pair(n.a, n.b) : std::pair(node, int64_t{1});
    };
    const auto [of, times] = multiple(first);
    const auto [same, more] = multiple(static_cast<uint32_t>(b.value));
    int64_t sum = 0;
    if (of == same && !__builtin_add_overflow(times, more, &sum)) return Size::node(push({NACRE_EXPR_mul, of, sum, true}));
  }
  return Size::node(push({kind, first, b.value, b.number}));
}

Size NodeList::add_symbol(uint32_t number) { return Size::node(push({NACRE_EXPR_symbol, number, 0})); }

uint32_t NodeList::add_symbol(const std::string& name, uint32_t number) { return numbers_[name] = add_symbol(number).node_number(); }

Size NodeList::add(const Expr& e) {
  if (auto n = e.constant()) return *n >= 0 ? Size::constant(*n) : Size::node(push({NACRE_EXPR_constant, 0, *n}));
  const auto& operands = e.operands();
  auto fold = [&](nacre_expr_kind kind) {
    // A number times a product: products of the same symbols share nodes.
    const size_t first = kind == NACRE_EXPR_mul && operands.size() > 2 && operands[0].constant() ? 1 : 0;
    Operand result = operand(operands[first]);
    for (size_t i = first + 1; i < operands.size(); ++i) result = operand(combine(kind, result, operand(operands[i])));
    if (first) result = operand(combine(kind, operand(operands[0]), result));
    return Size::node(node_of(result));
  };
  switch (e.op()) {
    case ExprOp::constant: break;
    case ExprOp::symbol: {
      auto found = numbers_.find(e.name());
      check(found != numbers_.end(), "size expression over unknown symbol {}", e.name());
      return Size::node(found->second);
    }
    case ExprOp::add: return fold(NACRE_EXPR_add);
    case ExprOp::mul: return fold(NACRE_EXPR_mul);
    case ExprOp::floordiv: return fold(NACRE_EXPR_floor_div);
    case ExprOp::mod: return fold(NACRE_EXPR_mod);
    case ExprOp::min: return fold(NACRE_EXPR_min);
    case ExprOp::max: return fold(NACRE_EXPR_max);
    case ExprOp::eq: return fold(NACRE_EXPR_eq);
    case ExprOp::ne: return fold(NACRE_EXPR_ne);
    case ExprOp::lt: return fold(NACRE_EXPR_lt);
    case ExprOp::le: return fold(NACRE_EXPR_le);
    case ExprOp::and_: return fold(NACRE_EXPR_and_);
    case ExprOp::or_: return fold(NACRE_EXPR_or_);
    case ExprOp::not_: return Size::node(push({NACRE_EXPR_not_, node_of(operand(operands[0])), 0}));
    case ExprOp::select: {  // c * a + (1 - c) * b, with c 0 or 1
      const Expr c = Expr::make(ExprOp::ne, {operands[0], Expr(0)});
      return add(NACRE_EXPR_add, add(NACRE_EXPR_mul, add(c), add(operands[1])),
                 add(NACRE_EXPR_mul, add(Expr::make(ExprOp::eq, {operands[0], Expr(0)})), add(operands[2])));
    }
  }
  fail(ErrorKind::internal, "an expression of unknown kind");
}

namespace {

// Calls visit(node number, whether a run needs its value) for each reference from outside of the list; the number may be changed.
template <class Visit>
void each_reference(formats::Variant& v, Visit visit) {
  const auto size = [&](Size& s, bool run) {
    if (s.is_constant()) return;
    uint32_t node = s.node_number();
    visit(node, run);
    s = Size::node(node);
  };
  // Functions of the application are told shapes: then a run needs all.
  const bool imports = std::any_of(v.commands.begin(), v.commands.end(), [](const formats::Command& c) { return c.kind == NACRE_COMMAND_import; });
  for (formats::Guard& g : v.guards) {
    if (g.kind != NACRE_GUARD_equal_node && g.kind != NACRE_GUARD_node) continue;
    uint32_t node = static_cast<uint32_t>(g.ref);
    visit(node, true);
    g.ref = node;
  }
  size(v.arena_size, true);
  for (formats::Slot& s : v.slots) {
    size(s.offset, true);
    size(s.size, true);
  }
  for (formats::Command& c : v.commands) {
    if (c.kind == NACRE_COMMAND_check) visit(c.target, true);
    if (c.grid) {
      --c.grid;
      visit(c.grid, true);
      ++c.grid;
    }
    size(c.scratch, true);
    size(c.flops, imports);
    size(c.bytes, imports);
  }
  for (formats::Candidate& c : v.candidates) {
    if (c.grid) {
      --c.grid;
      visit(c.grid, true);
      ++c.grid;
    }
    size(c.scratch, true);
  }
  for (formats::Tensor& t : v.slot_tensors)
    for (std::vector<Size>* list : {&t.dims, &t.bounds})
      for (Size& s : *list) size(s, imports);
}

}  // namespace

void settle_nodes(formats::Variant& variant, uint32_t first) {
  enum Use { none, spare, run };
  std::vector<Use> uses(variant.nodes.size(), none);
  const auto use = [&](uint32_t node, Use as) {
    if (node >= first) uses[node - first] = std::max(uses[node - first], as);
  };
  each_reference(variant, [&](uint32_t node, bool needed) { use(node, needed ? run : spare); });
  const auto operands = [](formats::Node& n, auto visit) {
    if (n.kind == NACRE_EXPR_constant || n.kind == NACRE_EXPR_symbol) return;
    visit(n.a);
    if (n.kind == NACRE_EXPR_not_ || n.number) return;
    uint32_t b = static_cast<uint32_t>(n.b);
    visit(b);
    n.b = b;
  };
  for (size_t i = variant.nodes.size(); i-- > 0;) {
    if (variant.nodes[i].kind == NACRE_EXPR_symbol) uses[i] = run;
    if (uses[i] != none) operands(variant.nodes[i], [&](uint32_t node) { use(node, uses[i]); });
  }
  std::vector<uint32_t> places(variant.nodes.size());
  std::vector<formats::Node> nodes;
  for (const Use kind : {run, spare}) {
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i] != kind) continue;
      places[i] = first + static_cast<uint32_t>(nodes.size());
      nodes.push_back(variant.nodes[i]);
    }
    if (kind == run) variant.spare_nodes = static_cast<uint32_t>(nodes.size());
  }
  variant.spare_nodes = static_cast<uint32_t>(nodes.size()) - variant.spare_nodes;
  const auto move = [&](uint32_t& node) {
    if (node >= first) node = places[node - first];
  };
  for (formats::Node& n : nodes) operands(n, move);
  each_reference(variant, [&](uint32_t& node, bool) { move(node); });
  variant.nodes = std::move(nodes);
}

}  // namespace nacre
