// Moving the code of one nest into another, for the rules and what is like them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/fusion/state.h"
#include "compiler/loops/code.h"

namespace nacre {

struct Appended {
  std::vector<int> numbers;             // of each scalar of the source in the new code
  std::map<std::string, Expr> values;   // what its loop variables and `vN` became
};

// Adds `source` to `code` with its loop variables replaced by `values`. `take`, for a scalar so rewritten, may name one of the
// new code that stands for it (-1: none); it is also given the scalar as it was.
Appended append(CodeBuilder& code, const std::vector<Scalar>& source, const std::map<std::string, Expr>& values,
                Simplifier& simplify, const std::function<int(const Scalar&, const Scalar& source)>& take = nullptr);
Store rewritten(const Store& store, const Appended& appended, Simplifier& simplify);

// `nest`, of the consumer, with each load of what `store` stores replaced by the producer's code.
Nest inlined(const FusionState& state, const Group& consumer, const Nest& nest, const Nest& producer, const Store& store);

// Facts of the loops of a nest, without its scalars (whose numbers change while code moves).
Simplifier loop_facts(const LoopProgram& program, const std::vector<LoopVar>& outer, const std::vector<LoopVar>& loops);

// False if a point of the nest reads what another point of it writes.
bool points_are_independent(const Nest& nest);

}  // namespace nacre
