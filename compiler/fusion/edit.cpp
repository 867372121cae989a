#include "compiler/fusion/edit.h"

namespace nacre {

Appended append(CodeBuilder& code, const std::vector<Scalar>& source, const std::map<std::string, Expr>& values,
                Simplifier& simplify, const std::function<int(const Scalar&, const Scalar&)>& take) {
  Appended result;
  result.values = values;
  result.numbers.assign(source.size(), -1);
  for (size_t i = 0; i < source.size(); ++i) {
    Scalar s = source[i];
    for (int& o : s.operands) o = result.numbers[static_cast<size_t>(o)];
    substitute(s, result.values, simplify);
    if (s.op == ScalarOp::load) std::erase_if(s.when, [](const Expr& e) { return e.is(1); });
    if (s.op == ScalarOp::load && s.when.empty()) s.operands.clear();
    int id = take ? take(s, source[i]) : -1;
    if (id < 0) id = s.op == ScalarOp::index ? code.index(s.expr, s.dtype) : code.add(s);
    result.numbers[i] = id;
    const char kind = kind_of(source[i].dtype);
    if (kind == 'i' || kind == 'u')
      result.values[scalar_symbol(static_cast<int>(i))] = Expr::symbol(scalar_symbol(id));
  }
  return result;
}

Store rewritten(const Store& store, const Appended& appended, Simplifier& simplify) {
  Store s = store;
  substitute(s, appended.values, simplify);
  s.value = appended.numbers[static_cast<size_t>(store.value)];
  return s;
}

Simplifier loop_facts(const LoopProgram& program, const std::vector<LoopVar>& outer, const std::vector<LoopVar>& loops) {
  Facts facts = program.symbols;
  add_loop_facts(facts, outer);
  add_loop_facts(facts, loops);
  return Simplifier(std::move(facts));
}

bool points_are_independent(const Nest& nest) {
  const std::vector<bool> under = under_reduction(nest);
  for (const Store& store : nest.stores)
    for (size_t i = 0; i < nest.code.size(); ++i) {
      const Scalar& s = nest.code[i];
      if (s.op == ScalarOp::load && s.buffer == store.buffer && (under[i] || s.at != store.at)) return false;
    }
  return true;
}

}  // namespace nacre
