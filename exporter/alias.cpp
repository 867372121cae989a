#include "exporter/alias.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/graph/ops.h"
#include "compiler/support/error.h"
#include "exporter/aten.h"

namespace nacre {
namespace {

// An operator of torch.library writes nothing and shares nothing: torch.export has made it
// functional, or the reader has refused it.
bool has_schema(const std::string& op) {
  return !op.starts_with("sym.") && !op.starts_with("higher_order.") && !is_library_operator(op);
}

bool writes(const c10::Argument& a) {
  return a.alias_info() != nullptr && a.alias_info()->isWrite();
}

// True if the result is annotated as (part of) the memory of the parameter.
bool annotated_alias(const c10::Argument& parameter, const c10::Argument& result) {
  const c10::AliasInfo* p = parameter.alias_info();
  const c10::AliasInfo* r = result.alias_info();
  if (p == nullptr || r == nullptr) return false;
  auto sets = [](const c10::AliasInfo& info) {
    std::vector<c10::Symbol> all(info.beforeSets().begin(), info.beforeSets().end());
    for (const c10::AliasInfo& inner : info.containedTypes())
      all.insert(all.end(), inner.beforeSets().begin(), inner.beforeSets().end());
    return all;
  };
  for (c10::Symbol a : sets(*p))
    for (c10::Symbol b : sets(*r))
      if (a == b) return true;
  return false;
}

void values_of(const Argument* argument, std::vector<ValueId>& ids) {
  if (argument != nullptr) for_each_value(*argument, [&](ValueId id) { ids.push_back(id); });
}

// One run of a node on tensors of which only the sizes count.
struct Probe {
  std::unordered_map<ValueId, at::Tensor> inputs;
  std::vector<c10::IValue> results;
};

std::optional<Probe> probe_on(c10::DeviceType device, const Graph& graph, const Node& node, const c10::OperatorHandle& op) {
  std::map<std::string, int64_t> symbols = hints(graph);
  Probe p;
  aten::Environment env;
  env.device = device;
  env.integer = [&](const Expr& e) {
    auto value = e.evaluate(symbols);
    if (!value) fail(ErrorKind::internal, "no value for {}", e.str());
    return *value;
  };
  env.value = [&](ValueId id) -> c10::IValue {
    const Value& v = graph[id];
    if (v.kind == ValueKind::integer) return env.integer(v.expr);
    if (v.kind == ValueKind::floating) return 1.0;
    if (v.kind == ValueKind::boolean) return true;
    at::Tensor& t = p.inputs[id];
    if (!t.defined()) {
      std::vector<int64_t> shape, strides;
      for (const Expr& e : v.shape) shape.push_back(env.integer(e));
      for (const Expr& e : v.strides) strides.push_back(env.integer(e));
      auto options = at::TensorOptions().dtype(aten::to_torch(v.dtype)).device(device);
      t = v.strides.empty() ? at::empty(shape, options)
                            : at::empty_strided(shape, strides, options);
      if (device == c10::kCPU) {
        constexpr int64_t kMostElements = 1 << 20;
        if (t.numel() > kMostElements) fail(ErrorKind::unsupported, "too large for a probe");
        t.zero_();
      }
    }
    return t;
  };
  try {
    c10::InferenceMode inference;
    p.results = aten::call(op, aten::arguments(node, op.schema(), env));
  } catch (const c10::Error&) {
    return std::nullopt;  // no kernel for tensors without memory, or one that reads values
  } catch (const Error& error) {
    if (error.kind == ErrorKind::user) throw;
    return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return p;
}

// On tensors without memory where the operator can be run on them: not all can (`logical_not`).
std::optional<Probe> probe(const Graph& graph, const Node& node, const c10::OperatorHandle& op) {
  auto p = probe_on(c10::kMeta, graph, node, op);
  return p ? std::move(p) : probe_on(c10::kCPU, graph, node, op);
}

}  // namespace

bool is_custom(const std::string& op) {
  static const auto* spaces = [] {
    auto* all = new std::set<std::string>{"prims", "quantized_decomposed"};  // in PyTorch's own Python
    for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames())
      all->insert(each.name.substr(0, each.name.find("::")));
    return all;
  }();
  return !spaces->contains(op.substr(0, op.find('.')));
}

std::map<std::string, int64_t> hints(const Graph& graph) {
  std::map<std::string, int64_t> result;
  for (const auto& [name, facts] : graph.symbols) {
    int64_t value = facts.hint != 0 ? facts.hint : std::max<int64_t>(facts.range.min, 3);
    result[name] = std::min(value, facts.range.max);
  }
  return result;
}

NodeEffects effects_of(const Graph& graph, const Node& node) {
  NodeEffects effects;
  effects.shares.assign(node.outputs.size(), kNoValue);
  if (!has_schema(node.op)) return effects;
  c10::OperatorHandle op = aten::require_operator(node);
  const c10::FunctionSchema& schema = op.schema();
  for (const c10::Argument& parameter : schema.arguments())
    if (writes(parameter)) values_of(node.find(parameter.name()), effects.written);

  // What the schema says. A list among the results makes the positions of the outputs after it
  // unknown, but no operator has a list beside an alias of something else.
  bool may_share = false;
  const auto& returns = schema.returns();
  for (size_t r = 0; r < returns.size(); ++r) {
    for (const c10::Argument& parameter : schema.arguments()) {
      if (!annotated_alias(parameter, returns[r])) continue;
      may_share = true;
      std::vector<ValueId> ids;
      values_of(node.find(parameter.name()), ids);
      bool list = returns[r].type()->kind() == c10::TypeKind::ListType;
      if (list) {
        for (size_t i = 0; i < effects.shares.size(); ++i)
          effects.shares[i] = ids.size() == 1 ? ids[0] : i < ids.size() ? ids[i] : kNoValue;
      } else if (r < effects.shares.size() && !ids.empty()) {
        effects.shares[r] = ids[0];
      }
      break;
    }
  }
  if (!effects.written.empty()) return effects;  // its results are the written arguments themselves
  bool composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (!may_share && !composite) return effects;
  auto p = probe(graph, node, op);
  if (!p || p->results.size() != node.outputs.size()) return effects;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    effects.shares[i] = kNoValue;
    if (!p->results[i].isTensor()) continue;
    const at::Tensor& result = p->results[i].toTensor();
    for (const auto& [id, input] : p->inputs)
      if (result.has_storage() &&
          result.storage().unsafeGetStorageImpl() == input.storage().unsafeGetStorageImpl())
        effects.shares[i] = id;
  }
  return effects;
}

std::optional<std::vector<ResultType>> result_types(const Graph& graph, const Node& node) {
  auto op = aten::find_operator(node.op);
  if (!op) return std::nullopt;
  auto p = probe(graph, node, *op);
  if (!p) return std::nullopt;
  std::vector<ResultType> types;
  for (const c10::IValue& value : p->results) {
    ResultType type;
    if (value.isTensor()) {
      type.dtype = aten::from_torch(value.toTensor().scalar_type());
      type.shape = value.toTensor().sizes().vec();
    }
    types.push_back(std::move(type));
  }
  return types;
}

std::optional<FunctionalVariant> functional_variant(const std::string& op) {
  auto handle = aten::find_operator(op);
  if (!handle) return std::nullopt;
  const c10::FunctionSchema& schema = handle->schema();

  std::vector<std::string> bases;
  std::string name = schema.name();  // aten::add_
  std::string plain = name.substr(name.find("::") + 2);
  std::string space = name.substr(0, name.find("::") + 2);
  if (plain == "_index_put_impl_") {
    bases = {"index_put"};
  } else if (plain.starts_with("__i") && plain.ends_with("__")) {
    bases = {"__" + plain.substr(3)};
  } else if (plain.ends_with("_")) {
    bases = {plain.substr(0, plain.size() - 1), plain.substr(0, plain.size() - 1) + "_functional"};
  } else {
    bases = {plain, plain + "_functional"};
  }

  auto is_out = [&](const c10::Argument& a) { return writes(a) && a.kwarg_only(); };
  size_t fresh = 0, written = 0;
  for (const c10::Argument& r : schema.returns()) fresh += r.alias_info() == nullptr;
  for (const c10::Argument& a : schema.arguments()) written += writes(a);

  // The candidate has the same parameters but for `out`, writes nothing, and returns one more
  // result for each that `op` writes.
  auto fits = [&](const c10::FunctionSchema& candidate, bool drop_unsafe) {
    if (candidate.is_mutable() || candidate.returns().size() != fresh + written) return false;
    size_t next = 0;
    for (const c10::Argument& a : schema.arguments()) {
      if (is_out(a) || (drop_unsafe && a.name() == "unsafe")) continue;
      if (next == candidate.arguments().size()) return false;
      const c10::Argument& b = candidate.arguments()[next++];
      if (*a.real_type() != *b.real_type()) return false;
    }
    return next == candidate.arguments().size();
  };

  static const auto* overloads = [] {
    auto* all = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames())
      (*all)[each.name].push_back(each);
    return all;
  }();
  for (const std::string& base : bases) {
    auto found = overloads->find(space + base);
    if (found == overloads->end()) continue;
    std::vector<c10::OperatorName> names = found->second;
    std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
      auto rank = [&](const c10::OperatorName& n) {
        return n.overload_name != schema.overload_name();
      };
      return std::pair(rank(a), a.overload_name) < std::pair(rank(b), b.overload_name);
    });
    for (const c10::OperatorName& candidate : names) {
      auto other = c10::Dispatcher::singleton().findSchema(candidate);
      bool drop_unsafe = plain == "_index_put_impl_";
      if (!other || !fits(other->schema(), drop_unsafe)) continue;
      FunctionalVariant result;
      result.op = space.substr(0, space.size() - 2) + "." + base + "." +
                  (candidate.overload_name.empty() ? "default" : candidate.overload_name);
      size_t position = 0;
      for (const c10::Argument& a : schema.arguments()) {
        bool dropped = is_out(a) || (drop_unsafe && a.name() == "unsafe");
        result.parameters[a.name()] = dropped ? "" : other->schema().arguments()[position++].name();
      }
      int next = 0;
      for (const c10::Argument& r : schema.returns())
        result.results.push_back(r.alias_info() == nullptr ? next++ : -1);
      for (size_t i = 0; i < written; ++i) result.written.push_back(next++);
      return result;
    }
  }
  return std::nullopt;
}

}  // namespace nacre
