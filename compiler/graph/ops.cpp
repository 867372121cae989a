#include "compiler/graph/ops.h"

#include <unordered_map>

#include "compiler/support/error.h"

namespace nacre {

const std::vector<Primitive>& primitives() {
  static const std::vector<Primitive> table = {
#define NACRE_POINTWISE(name, arity, result, cost, expression) {#name, PrimClass::pointwise, arity, PrimResult::result, cost, #expression},
#define NACRE_VIEW(name) {#name, PrimClass::view, 0, PrimResult::same, 0, ""},
#define NACRE_REDUCTION(name, result) {#name, PrimClass::reduction, 0, PrimResult::result, 0, ""},
#define NACRE_SCAN(name) {#name, PrimClass::scan, 0, PrimResult::same, 0, ""},
#define NACRE_SORTING(name) {#name, PrimClass::sorting, 0, PrimResult::same, 0, ""},
#define NACRE_CREATION(name) {#name, PrimClass::creation, 0, PrimResult::same, 0, ""},
#define NACRE_INDEXING(name) {#name, PrimClass::indexing, 0, PrimResult::same, 0, ""},
#define NACRE_CONTRACTION(name) {#name, PrimClass::contraction, 0, PrimResult::same, 0, ""},
#define NACRE_CONTROL(name) {#name, PrimClass::control, 0, PrimResult::same, 0, ""},
#define NACRE_WHOLE(name) {#name, PrimClass::whole, 0, PrimResult::same, 0, ""},
#define NACRE_COMPLEX(name) {#name, PrimClass::complex, 0, PrimResult::same, 0, ""},
#include "compiler/graph/ops.def"
      {"cast", PrimClass::cast, 1, PrimResult::same, 0, ""},
  };
  return table;
}

const Primitive* find_primitive(std::string_view name) {
  static const std::unordered_map<std::string, const Primitive*> by_name = [] {
    std::unordered_map<std::string, const Primitive*> map;
    for (const Primitive& p : primitives()) map[p.name] = &p;
    return map;
  }();
  if (name.starts_with("prim.")) name.remove_prefix(5);
  auto found = by_name.find(std::string(name));
  return found == by_name.end() ? nullptr : found->second;
}

PrimClass primitive_class(std::string_view name) {
  const Primitive* p = find_primitive(name);
  return p ? p->kind : PrimClass::none;
}

nacre_dtype result_dtype(const Primitive& primitive, nacre_dtype operand) {
  switch (primitive.result) {
    case PrimResult::boolean:
      return NACRE_bool_;
    case PrimResult::index:
      return NACRE_i64;
    default:
      return operand;
  }
}

bool is_library_operator(std::string_view op) { return op.starts_with(kLibrary); }

std::string library_function(std::string_view op) {
  std::string name(op.substr(kLibrary.size()));
  if (name.ends_with(".default")) name.erase(name.size() - std::string_view(".default").size());
  if (const size_t dot = name.find('.'); dot != std::string::npos) name.replace(dot, 1, "::");
  return name;
}

bool has_effect(std::string_view name) { return name == "prim.item" || name == "prim.check"; }

const std::vector<std::string>& operand_names(std::string_view op) {
  using Names = std::vector<std::string>;
  static const Names self = {"self"}, x = {"x"}, none = {}, pointwise[] = {{}, {"a"}, {"a", "b"}, {"a", "b", "c"}};
  static const std::unordered_map<std::string, Names> others = {
      {"concat", {"inputs"}},
      {"select_scatter_range", {"x", "src"}},
      {"gather", {"x", "index"}},
      {"index_put", {"x", "values"}},
      {"scatter", {"x", "index", "src"}},
      {"matmul", {"a", "b"}},
      {"conv", {"x", "w"}},
      {"conv_transpose", {"x", "w"}},
      {"attention", {"q", "k", "v"}},
      {"lstm", {"x", "h", "c", "w_ih", "w_hh"}},
      {"gru", {"x", "h", "w_ih", "w_hh"}},
      {"cond", {"predicate"}},
      {"while_loop", {}},
      {"for_loop", {}},
      {"check", {}},
      {"fft", {"re"}},
      {"import", {"inputs"}},
      {"permutation", {"pivots"}},
      {"triangular_solve", {"a", "b"}},
      {"complex", {"re", "im"}},
  };
  const Primitive* p = op.starts_with("prim.") ? find_primitive(op) : nullptr;
  if (!p) return self;
  if (p->kind == PrimClass::pointwise || p->kind == PrimClass::cast) return pointwise[p->arity];
  if (p->kind == PrimClass::creation) return none;
  auto found = others.find(p->name);
  return found == others.end() ? x : found->second;
}

const std::string& pointwise_expression(std::string_view name) {
  const Primitive* p = find_primitive(name);
  check(p && p->kind == PrimClass::pointwise, "{} is no pointwise primitive", name);
  return p->expression;
}

}  // namespace nacre
