#include "exporter/views.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {
namespace {

constexpr const char* kSharesMemory = "a write to an expanded tensor, in which elements share memory";

// Row-major order of the elements is kept.
bool is_reshape(std::string_view op) {
  return op != "aten.view.dtype" &&
         one_of(base_name(op),
                {"view", "reshape", "_unsafe_view", "_reshape_alias", "flatten", "unflatten",
                 "ravel", "squeeze", "unsqueeze", "view_as", "reshape_as", "atleast_1d",
                 "atleast_2d", "atleast_3d", "expand", "expand_as", "broadcast_to"});
}

std::optional<int64_t> constant_argument(const Node& node, std::string_view name) {
  const Argument* a = node.find(name);
  if (a == nullptr) return std::nullopt;
  if (auto* e = std::get_if<Expr>(a)) return e->constant();
  return std::nullopt;
}

std::vector<int64_t> constant_list(const Node& node, std::string_view name) {
  std::vector<int64_t> result;
  const Argument* a = node.find(name);
  if (a == nullptr) return result;
  if (auto* many = std::get_if<std::vector<Expr>>(a)) {
    for (const Expr& e : *many) result.push_back(e.constant().value_or(0));
  } else if (auto* one = std::get_if<Expr>(a)) {
    result.push_back(one->constant().value_or(0));
  }
  return result;
}

// The view of `positions` that a view of the graph is of its parent.
ValueId view_of(const Graph& captured, const ViewStep& view, ValueId positions, Emitter& emitter,
                const std::function<Argument(const Argument&)>& other) {
  const std::vector<Expr>& shape = captured[view.node.outputs[view.output]].shape;
  if (is_reshape(view.node.op) && product(shape) == product(captured[view.parent].shape)) return emitter.reshaped(positions, shape);
  std::vector<std::pair<std::string, Argument>> args;
  for (const auto& [key, value] : view.node.args) {
    bool is_parent = false;
    for_each_value(value, [&](ValueId id) { is_parent |= id == view.parent; });
    if (is_parent && std::holds_alternative<std::vector<ValueRef>>(value)) {
      std::vector<ValueRef> refs;
      for (ValueRef v : std::get<std::vector<ValueRef>>(value))
        refs.push_back(v.id != kNoValue && v.id == view.parent ? ValueRef{positions}
                       : v.id == kNoValue                      ? v
                                                               : std::get<ValueRef>(other(Argument(v))));
      args.emplace_back(key, refs);
    } else {
      args.emplace_back(key, is_parent ? Argument(ValueRef{positions}) : other(value));
    }
  }
  std::vector<Value> results;
  for (ValueId id : view.node.outputs) {
    results.push_back(captured[id]);
    results.back().name += "_positions";
    results.back().dtype = NACRE_i64;
  }
  return emitter.emit(view.node.op, std::move(args), results)[view.output];
}

}  // namespace

bool is_expansion(const Graph& captured, const Node& node) {
  return one_of(base_name(node.op), {"expand", "expand_as", "broadcast_to"}) &&
         product(captured[node.outputs[0]].shape) != product(captured[first_tensor(node)].shape);
}

bool changes_elements(const Graph& captured, const ViewStep& view) {
  return view.node.op == "aten.view.dtype" || captured[view.node.outputs[view.output]].dtype != captured[view.parent].dtype ||
         one_of(base_name(view.node.op), {"_neg_view", "conj", "_conj", "adjoint", "mH", "matrix_H"});
}

ValueId write_by_position(const Graph& captured, const std::vector<ViewStep>& views, ValueId base, ValueId part,
                          Emitter& emitter, const std::function<Argument(const Argument&)>& other) {
  const Value& whole = captured[views.front().parent];
  Expr count = product(whole.shape);
  Value positions = whole;
  positions.name = whole.name + "_positions";
  positions.dtype = NACRE_i64;
  positions.shape = {count};
  ValueId chosen = emitter.reshaped(
      emitter.emit_one("aten.arange.default", {{"end", count}, {"dtype", NACRE_i64}}, positions), whole.shape);
  for (const ViewStep& view : views) chosen = view_of(captured, view, chosen, emitter, other);
  const Value& last = captured[views.back().node.outputs[views.back().output]];
  for (size_t d = 0; d < last.strides.size(); ++d)
    if (last.strides[d].is(0) && !last.shape[d].is(0) && !last.shape[d].is(1)) fail_at(ErrorKind::user, where_text(emitter.where), kSharesMemory);
  Expr chosen_count = product(emitter[chosen].shape);
  ValueId index = emitter.reshaped(chosen, {chosen_count});
  ValueId flat = emitter.reshaped(base, {count});
  ValueId source = emitter.reshaped(part, {chosen_count});
  ValueId changed = emitter.emit_one("aten.index_put.default",
                                     {{"self", ValueRef{flat}},
                                      {"indices", std::vector<ValueRef>{{index}}},
                                      {"values", ValueRef{source}}},
                                     emitter[flat]);
  return emitter.reshaped(changed, whole.shape);
}

BaseContents write_through(const Graph& captured, const Node& node, size_t output, ValueId parent,
                           ValueId base, ValueId part, Emitter& emitter,
                           const std::function<Argument(const Argument&)>& other) {
  const Value& whole = captured[parent];
  const Value& view = captured[node.outputs[output]];
  auto one = [&](std::string op, Emitter::Args args) {
    return BaseContents{emitter.emit_one(std::move(op), std::move(args), whole)};
  };
  std::string_view name = base_name(node.op);
  auto rank = static_cast<int64_t>(whole.shape.size());
  auto wrap = [](int64_t dim, int64_t r) { return dim < 0 ? dim + r : dim; };

  if (view.dtype != whole.dtype || node.op == "aten.view.dtype") {
    if (name == "view_as_real")
      return one("aten.view_as_complex.default", {{"self", ValueRef{part}}});
    if (name == "view_as_complex")
      return one("aten.view_as_real.default", {{"self", ValueRef{part}}});
    if (node.op == "aten.view.dtype")
      return one("aten.view.dtype", {{"self", ValueRef{part}}, {"dtype", whole.dtype}});
    if (name == "real" || name == "imag") {
      ValueId kept = emitter.emit_one(name == "real" ? "aten.imag.default" : "aten.real.default",
                                      {{"self", ValueRef{base}}}, view);
      return one("aten.complex.default", {{"real", ValueRef{name == "real" ? part : kept}},
                                          {"imag", ValueRef{name == "real" ? kept : part}}});
    }
    fail_at(ErrorKind::unsupported, where_text(emitter.where), "a write through {}", node.op);
  }
  if (is_identity(node.op) && view.shape == whole.shape) return {part};
  if (name == "conj" || name == "_conj")
    return one("aten.conj.default", {{"self", ValueRef{part}}});
  if (name == "_neg_view") return one("aten.neg.default", {{"self", ValueRef{part}}});
  if (is_reshape(node.op) && product(view.shape) == product(whole.shape))
    return {emitter.reshaped(part, whole.shape)};
  if (is_expansion(captured, node))
    fail_at(ErrorKind::user, where_text(emitter.where), kSharesMemory);

  // Permutations: view dim i is base dim order[i].
  std::vector<int64_t> order(whole.shape.size());
  std::iota(order.begin(), order.end(), 0);
  bool permutes = true;
  if (name == "permute") {
    order = constant_list(node, "dims");
    for (int64_t& d : order) d = wrap(d, rank);
  } else if (one_of(name, {"transpose", "transpose_", "swapaxes", "swapdims", "swapaxes_",
                           "swapdims_"})) {
    bool axes = name.starts_with("swapaxes");
    int64_t a = wrap(constant_argument(node, axes ? "axis0" : "dim0").value_or(0), rank);
    int64_t b = wrap(constant_argument(node, axes ? "axis1" : "dim1").value_or(0), rank);
    if (rank > 0) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  } else if (name == "t" || name == "t_" || name == "numpy_T" || name == "T") {
    std::reverse(order.begin(), order.end());
  } else if (name == "mT" || name == "matrix_H" || name == "adjoint" || name == "mH") {
    if (rank >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
    permutes = name == "mT";
  } else if (name == "movedim" || name == "moveaxis") {
    std::vector<int64_t> from = constant_list(node, "source"),
                         to = constant_list(node, "destination");
    std::fill(order.begin(), order.end(), -1);
    std::set<int64_t> moved;
    for (size_t i = 0; i < from.size(); ++i) {
      order[static_cast<size_t>(wrap(to[i], rank))] = wrap(from[i], rank);
      moved.insert(wrap(from[i], rank));
    }
    int64_t next = 0;
    for (int64_t& d : order) {
      if (d >= 0) continue;
      while (moved.count(next) != 0) ++next;
      d = next++;
    }
  } else {
    permutes = false;
  }
  if (permutes) {
    std::vector<int64_t> inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return {emitter.permuted(part, inverse)};
  }

  // Parts of the whole.
  auto scatter = [&](std::string op, std::initializer_list<std::string_view> kept) {
    Emitter::Args args = {{"self", ValueRef{base}}, {"src", ValueRef{part}}};
    for (std::string_view key : kept)
      if (const Argument* a = node.find(key)) args.emplace_back(std::string(key), other(*a));
    return one(std::move(op), std::move(args));
  };
  auto slice_scatter = [&](int64_t dim, const Expr& start, const Expr& end) {
    return one("aten.slice_scatter.default", {{"self", ValueRef{base}},
                                              {"src", ValueRef{part}},
                                              {"dim", Expr(dim)},
                                              {"start", start},
                                              {"end", end}});
  };
  if (node.op == "aten.slice.Tensor")
    return scatter("aten.slice_scatter.default", {"dim", "start", "end", "step"});
  if (node.op == "aten.select.int") return scatter("aten.select_scatter.default", {"dim", "index"});
  if (node.op == "aten.diagonal.default")
    return scatter("aten.diagonal_scatter.default", {"offset", "dim1", "dim2"});
  if (node.op == "aten.narrow.default") {
    int64_t dim = wrap(constant_argument(node, "dim").value_or(0), rank);
    Expr start = std::get<Expr>(*node.find("start"));
    if (start.constant() && *start.constant() < 0) start += whole.shape[static_cast<size_t>(dim)];
    return slice_scatter(dim, start, start + view.shape[static_cast<size_t>(dim)]);
  }
  if (name == "unbind") {
    int64_t dim = wrap(constant_argument(node, "dim").value_or(0), rank);
    return one("aten.select_scatter.default", {{"self", ValueRef{base}},
                                               {"src", ValueRef{part}},
                                               {"dim", Expr(dim)},
                                               {"index", Expr(static_cast<int64_t>(output))}});
  }
  if (one_of(name, {"split", "split_with_sizes", "chunk", "tensor_split", "unsafe_chunk"}) &&
      node.op != "aten.tensor_split.tensor_indices_or_sections") {
    auto dim = static_cast<size_t>(wrap(constant_argument(node, "dim").value_or(0), rank));
    Expr start(0);
    for (size_t i = 0; i < output; ++i) start += captured[node.outputs[i]].shape[dim];
    return slice_scatter(static_cast<int64_t>(dim), start, start + view.shape[dim]);
  }
  return {write_by_position(captured, {{node, output, parent}}, base, part, emitter, other), false};
}

std::vector<int64_t> memory_order(const Value& v, const std::map<std::string, int64_t>& hints,
                                  const Provenance& where) {
  std::vector<int64_t> order(v.shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (v.strides.empty()) return order;
  auto at = [](const std::vector<Expr>& list, int64_t i) -> const Expr& {
    return list[static_cast<size_t>(i)];
  };
  auto step = [&](int64_t i) { return at(v.strides, i).evaluate(hints).value_or(0); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return step(a) > step(b); });
  Expr expected(1);  // dense: the steps are the products of the smaller sizes
  for (size_t k = order.size(); k-- > 0;) {
    if (!at(v.shape, order[k]).is(1) && at(v.strides, order[k]) != expected)
      fail_at(ErrorKind::unsupported, where_text(where),
              "as_strided of %{}, whose memory has gaps or overlaps", v.name);
    expected *= at(v.shape, order[k]);
  }
  return order;
}

// `aten.add_.Tensor` -> `add_`
std::string_view base_name(std::string_view op) {
  size_t first = op.find('.');
  if (first == std::string_view::npos) return op;
  size_t second = op.find('.', first + 1);
  return op.substr(first + 1,
                   second == std::string_view::npos ? std::string_view::npos : second - first - 1);
}

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Where these share memory with their argument they return it as it is.
bool is_identity(std::string_view op) {
  return one_of(base_name(op),
                {"detach", "alias", "lift_fresh", "contiguous", "to", "type_as", "positive",
                 "resolve_conj", "resolve_neg", "dropout", "feature_dropout", "alpha_dropout",
                 "feature_alpha_dropout", "real", "rrelu"});
}

bool is_metadata_write(std::string_view op) {
  return one_of(base_name(op), {"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_",
                                "swapdims_", "as_strided_"});
}

ValueId first_tensor(const Node& node) {
  for (const auto& [name, argument] : node.args) {
    ValueId found = kNoValue;
    for_each_value(argument, [&](ValueId id) {
      if (found == kNoValue) found = id;
    });
    if (found != kNoValue) return found;
  }
  return kNoValue;
}

bool true_argument(const Node& node, std::string_view name) {
  const Argument* a = node.find(name);
  return a != nullptr && std::holds_alternative<bool>(*a) && std::get<bool>(*a);
}

bool has_value(const Node& node, std::string_view name) {
  const Argument* a = node.find(name);
  if (a == nullptr) return false;
  auto* v = std::get_if<ValueRef>(a);
  return v != nullptr && v->id != kNoValue;
}

}  // namespace nacre
