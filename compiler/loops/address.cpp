#include "compiler/loops/address.h"

#include <algorithm>

#include "compiler/loops/code.h"
#include "compiler/support/error.h"

namespace nacre {

std::vector<Expr> strides_of(const Buffer& buffer) {
  const size_t rank = buffer.shape.size();
  std::vector<Expr> strides(rank, Expr(1));
  Expr step = 1;
  for (size_t i = rank; i-- > 0;) {
    const size_t dim = buffer.order.empty() ? i : static_cast<size_t>(buffer.order[i]);
    strides[dim] = step;
    step = step * buffer.shape[dim];
  }
  return strides;
}

Expr elements_of(const Buffer& buffer) { return product(buffer.shape); }

Expr address(const Buffer& buffer, const std::vector<Expr>& at, const Facts& facts) {
  check(at.size() == buffer.shape.size(), "buffer {} has {} dims and is indexed with {}", buffer.name,
        buffer.shape.size(), at.size());
  const std::vector<Expr> strides = strides_of(buffer);
  Expr sum = 0;
  for (size_t i = 0; i < at.size(); ++i) sum = sum + at[i] * strides[i];
  return simplify(sum, facts);
}

int64_t typical(const Expr& e, const Facts& symbols) {
  std::map<std::string, int64_t> values;
  for (const std::string& name : e.symbols()) {
    auto known = symbols.find(name);
    int64_t value = 0;
    if (known != symbols.end() && !known->second.below) {
      const SymbolFacts& f = known->second;
      value = f.hint > 0 ? f.hint : std::max<int64_t>(f.range.min, std::min<int64_t>(f.range.max, 16));
    }
    values[name] = value;
  }
  return e.evaluate(values).value_or(0);
}

std::optional<Strided> strided(const LoopProgram& program, const Operand& operand, const std::vector<LoopVar>& all,
                               const std::vector<std::string>& along) {
  Facts facts = program.symbols;
  add_loop_facts(facts, all);
  Strided result;
  result.base = address(program[operand.buffer], operand.at, facts);
  for (const std::string& name : along) {
    auto stride = coefficient(result.base, name, facts);
    if (!stride) return std::nullopt;
    for (const LoopVar& loop : all)
      if (stride->symbols().contains(loop.name)) return std::nullopt;
    result.strides.push_back(*stride);
  }
  for (const std::string& name : along) result.base = without(result.base, name, facts);
  return result;
}

bool stores_are_apart(const Facts& of_one, const Store& one, const Facts& of_other, const Store& other) {
  for (size_t d = 0; d < one.at.size() && d < other.at.size(); ++d) {
    const Interval a = interval(one.at[d], of_one), b = interval(other.at[d], of_other);
    if (a.max < b.min || b.max < a.min) return true;
  }
  return false;
}

}  // namespace nacre
