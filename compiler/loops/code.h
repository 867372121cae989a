// Reading and editing the scalar code of nests: what lowering, fusion and the interpreter share.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/loops/group.h"
#include "compiler/support/dtype.h"

namespace nacre {

// ---- Scalars as symbols of index expressions.

std::string scalar_symbol(int index);                             // 3 -> `v3`
std::optional<int> scalar_of_symbol(const std::string& symbol);   // `v3` -> 3

// Every index expression of a scalar or store, to read or to edit.
template <class S, class Visit>
void for_each_expr(S& scalar, Visit visit) {
  for (auto& e : scalar.at) visit(e);
  if constexpr (requires { scalar.when; }) {
    for (auto& e : scalar.when) visit(e);
    visit(scalar.expr);
  }
}
// Scalars that this one needs: operands and the `vN` of its expressions.
std::vector<int> inputs_of(const Scalar& scalar);
std::vector<int> inputs_of(const Store& store);

// ---- Simplification with a memory: one for each set of facts.

class Simplifier {
 public:
  explicit Simplifier(Facts facts) : facts_(std::move(facts)) {}
  Expr operator()(const Expr& e);
  const Facts& facts() const { return facts_; }

 private:
  Facts facts_;
  std::unordered_map<Expr, Expr> known_;
};

void add_loop_facts(Facts& facts, const std::vector<LoopVar>& loops);

// ---- Building code.

// Appends scalars to a nest; an equal scalar is not added twice.
class CodeBuilder {
 public:
  explicit CodeBuilder(std::vector<Scalar>& code) : code_(code) {}
  int add(Scalar scalar);
  int constant(double number, nacre_dtype dtype);
  int index(Expr value, nacre_dtype dtype);  // a constant if it is a number
  int load(BufferId buffer, nacre_dtype stored, std::vector<Expr> at);
  int pointwise(const std::string& prim, std::vector<int> operands, const Provenance& where);
  int cast(int operand, nacre_dtype dtype, const Provenance& where);
  const Scalar& operator[](int i) const { return code_[static_cast<size_t>(i)]; }

 private:
  std::vector<Scalar>& code_;
  std::unordered_multimap<size_t, int> known_;
};

size_t hash_of(const Scalar& scalar);
bool same_scalar(const Scalar& a, const Scalar& b);  // but for where they came from

// Replaces loop variables (and symbols) in all of a scalar's or store's expressions, and simplifies them.
template <class S>
void substitute(S& scalar, const std::map<std::string, Expr>& values, Simplifier& simplify) {
  for_each_expr(scalar, [&](Expr& e) {
    if (e.constant()) return;
    e = simplify(e.substitute(values));
  });
}
// Renumbers operands and `vN` by `numbers`.
void renumber(Scalar& scalar, const std::vector<int>& numbers);
void renumber(Store& store, const std::vector<int>& numbers);

// Removes scalars that nothing needs and equal ones. Of a nest with reduced loops: no scalar is needed both by a reduce and
// after it, so that what runs at every point and what runs once are apart; those that a reduce needs come first.
void clean(Nest& nest);

// True for each scalar that runs at every point of the reduced loops.
std::vector<bool> under_reduction(const Nest& nest);

// ---- Accesses.

std::set<BufferId> buffers_read(const Group& group);
std::set<BufferId> buffers_written(const Group& group);

// ---- Operands of contractions: what code generation can address (lower.h).

// Affine in each of `vars`, with a stride that no loop variable occurs in.
bool is_affine(const Expr& e, const std::vector<std::string>& vars, const std::vector<LoopVar>& loops, Simplifier& simplify);
// For matmul and attention: each index is, or the address in C order.
bool address_is_affine(const Buffer& buffer, const std::vector<Expr>& at, const std::vector<std::string>& vars,
                       const std::vector<LoopVar>& loops, Simplifier& simplify);
// For the others: each index is affine in one variable of its own, and all of them occur.
bool dims_are_apart(const std::vector<Expr>& at, const std::vector<LoopVar>& loops);

// As textual IR spells it.
std::string row_work_name(RowKind kind);

// A name not in `taken`: base, base_1, ...
std::string unique_name(const std::string& base, const std::set<std::string>& taken);

}  // namespace nacre
