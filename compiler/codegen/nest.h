// A loop nest as C++.
//
// Two forms. With *vectors*, one loop advances by VL and what depends on its variable is a `vf` (a float vector) or `vi` (a
// vector condition); this needs everything that varies with that loop to be float32 or a condition. Otherwise the loops are
// scalar and Clang's vectoriser does what it can.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/writer.h"

namespace nacre {

class NestEmitter {
 public:
  // `outer`: variables of loops that are already open around the nest.
  NestEmitter(KernelContext& context, Nest nest, std::vector<LoopVar> outer);

  // A whole nest with its own loops. `split`: its parallel loops are divided among the threads here.
  void emit(bool split);

  // The epilogue of a contraction, inside a function that has the nest's variables as i64s and the result at this point as
  // the vector `value`, with `lanes` elements along `vector`. False (and nothing is written) if it cannot be vectors.
  bool epilogue_fits(const std::string& vector);
  void emit_epilogue(const std::string& vector);

  // True if the nest's own loops can be divided among threads.
  bool splittable() const;
  // Estimates of one pass over the nest.
  Expr points() const;

 private:
  void analyse();
  Expr address_of(BufferId buffer, const std::vector<Expr>& at) const;
  void depend_on_result(const std::string& vector);
  void drop_unit_loops();
  void order_loops();
  void collapse_loops();
  bool choose_vector();
  bool vectors_fit(const std::string& variable) const;
  bool unit_stride(const Expr& address, const std::string& variable) const;

  bool varies(int scalar) const { return !vector_.empty() && depends_[static_cast<size_t>(scalar)].contains(vector_); }
  std::string operand(int scalar, bool as_vector) const;
  std::string literal(const Scalar& s) const;
  std::string conditions(const std::vector<Expr>& when) const;
  void emit_ready();
  void emit_scalar(int i);
  void emit_load(int i);
  void emit_pointwise(int i);
  void emit_stores();
  void emit_body();
  void emit_reduced();
  void open_loop(const LoopVar& loop, const std::string& begin, const std::string& end);
  void close_loop();
  bool scans() const;

  KernelContext& context_;
  Nest nest_;
  std::vector<LoopVar> outer_;
  Facts facts_;
  std::vector<LoopVar> loops_, reduced_;       // in the order of emission
  std::string vector_;                         // the vector loop's variable; empty: scalar form
  bool vector_reduced_ = false;                // it is a reduced loop
  std::vector<Expr> address_;                  // of each load
  std::vector<Expr> store_address_;
  std::vector<std::set<std::string>> depends_; // variables that each scalar changes with
  std::vector<bool> emitted_;
  std::set<std::string> open_;                 // variables of open loops
  std::set<std::string> variables_;            // of all loops, also around the nest
  std::vector<char> closers_;
};

}  // namespace nacre
