#include "compiler/graph/node_args.h"

#include <utility>

#include "compiler/graph/text.h"
#include "compiler/support/error.h"

namespace nacre {

const Argument& NodeArgs::get(std::string_view name) const {
  const Argument* a = node_.find(name);
  if (!a) fail_at(ErrorKind::internal, where_text(node_.where), "{}: argument {} is missing", print(graph_, node_), name);
  return *a;
}

void NodeArgs::refuse(std::string_view name, const char* wanted) const {
  fail_at(ErrorKind::internal, where_text(node_.where), "{}: argument {} is not {}", print(graph_, node_), name, wanted);
}

ValueId NodeArgs::value(std::string_view name) const {
  const ValueId v = optional_value(name);
  if (v == kNoValue) refuse(name, "a value");
  return v;
}

ValueId NodeArgs::optional_value(std::string_view name) const {
  const Argument* a = node_.find(name);
  if (!a || std::holds_alternative<std::monostate>(*a)) return kNoValue;
  if (auto* v = std::get_if<ValueRef>(a)) return v->id;
  refuse(name, "a value");
}

std::vector<ValueId> NodeArgs::values(std::string_view name) const {
  std::vector<ValueId> result;
  const Argument& a = get(name);
  if (auto* many = std::get_if<std::vector<ValueRef>>(&a)) {
    for (ValueRef v : *many) result.push_back(v.id);
  } else if (auto* list = std::get_if<std::vector<Expr>>(&a); !list || !list->empty()) {
    refuse(name, "a list of values");
  }
  return result;
}

Expr NodeArgs::expr(std::string_view name) const {
  const Argument& a = get(name);
  if (auto* e = std::get_if<Expr>(&a)) return *e;
  if (auto* v = std::get_if<ValueRef>(&a); v && v->id != kNoValue && graph_[v->id].kind == ValueKind::integer) return graph_[v->id].expr;
  refuse(name, "an integer");
}

std::vector<Expr> NodeArgs::exprs(std::string_view name) const {
  const Argument& a = get(name);
  if (auto* list = std::get_if<std::vector<Expr>>(&a)) return *list;
  if (auto* list = std::get_if<std::vector<ValueRef>>(&a); list && list->empty()) return {};
  refuse(name, "a list of integers");
}

int NodeArgs::integer(std::string_view name) const {
  auto c = expr(name).constant();
  if (!c || !std::in_range<int>(*c)) refuse(name, "a constant");
  return static_cast<int>(*c);
}

std::vector<int> NodeArgs::integers(std::string_view name) const {
  std::vector<int> result;
  for (const Expr& e : exprs(name)) {
    if (!e.constant() || !std::in_range<int>(*e.constant())) refuse(name, "a list of constants");
    result.push_back(static_cast<int>(*e.constant()));
  }
  return result;
}

double NodeArgs::number(std::string_view name) const {
  const Argument& a = get(name);
  if (auto* d = std::get_if<double>(&a)) return *d;
  if (auto* b = std::get_if<bool>(&a)) return *b ? 1 : 0;
  if (auto* e = std::get_if<Expr>(&a); e && e->constant()) return static_cast<double>(*e->constant());
  refuse(name, "a number");
}

bool NodeArgs::flag(std::string_view name, bool otherwise) const {
  const Argument* a = node_.find(name);
  if (!a) return otherwise;
  if (auto* b = std::get_if<bool>(a)) return *b;
  refuse(name, "a bool");
}

std::string NodeArgs::text(std::string_view name, const std::string& otherwise) const {
  const Argument* a = node_.find(name);
  if (!a) return otherwise;
  if (auto* s = std::get_if<std::string>(a)) return *s;
  refuse(name, "a string");
}

nacre_dtype NodeArgs::dtype(std::string_view name) const {
  auto* d = std::get_if<nacre_dtype>(&get(name));
  if (!d || *d == NACRE_DTYPE_NONE) refuse(name, "a dtype");
  return *d;
}

}  // namespace nacre
