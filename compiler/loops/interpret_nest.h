// One nest, many points at a time: private to the interpreter.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/loops/group.h"

namespace nacre::interpreting {

// A buffer's elements, in C order of its logical dims.
struct Array {
  nacre_dtype dtype{};
  std::vector<int64_t> shape;
  std::shared_ptr<std::byte> data;
  std::string name;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};

using Symbols = std::map<std::string, int64_t>;

// The result of a contraction over the loops of its epilogue, in C order, as the type in which it is accumulated.
struct Accumulated {
  nacre_dtype dtype{};  // f32, f64 or i64
  const std::byte* data = nullptr;
};

class NestRunner {
 public:
  NestRunner(const LoopProgram& program, const Group& group, const Nest& nest, const Symbols& symbols,
             std::vector<Array>& arrays);
  ~NestRunner();
  // Runs the nest for one iteration of the outer loops: their values, in order.
  void run(const std::vector<int64_t>& outer, const Accumulated* accumulated);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// array[at] at every point of `loops`, in C order, in registers' type: an operand of a contraction as a dense array.
// `symbols` has the values of all other variables in `at`.
std::vector<std::byte> gathered(const Array& array, const std::vector<Expr>& at, const std::vector<LoopVar>& loops,
                                const Symbols& symbols);

int64_t evaluated(const Expr& e, const Symbols& symbols);

}  // namespace nacre::interpreting
