#include "compiler/symbolic/affine.h"

namespace nacre {

std::optional<Expr> coefficient(const Expr& e, const std::string& var, const Facts& facts) {
  if (!e.symbols().contains(var)) return Expr(0);
  const Expr step = simplify(e.substitute({{var, Expr::symbol(var) + 1}}) - e, facts);
  if (step.symbols().contains(var)) return std::nullopt;
  return step;
}

Expr without(const Expr& e, const std::string& var, const Facts& facts) {
  return simplify(e.substitute({{var, Expr(0)}}), facts);
}

std::optional<Affine> affine(const Expr& e, const Facts& facts) {
  const auto symbols = e.symbols();
  if (symbols.size() != 1) return std::nullopt;
  const std::string& name = *symbols.begin();
  const auto k = coefficient(e, name, facts);
  if (!k || !k->constant() || *k->constant() <= 0) return std::nullopt;
  const auto c = without(e, name, facts).constant();
  if (!c) return std::nullopt;
  return Affine{name, *k->constant(), *c};
}

}  // namespace nacre
