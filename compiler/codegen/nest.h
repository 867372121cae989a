// A loop nest as C++.
//
// Two forms. With *vectors*, one loop advances by VL and what depends on its variable is a `vf` (a float vector) or `vi` (a
// vector condition); this needs everything that varies with that loop to be float32 or a condition. Otherwise the loops are
// scalar and Clang's vectoriser does what it can.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/device_tiles.h"
#include "compiler/codegen/writer.h"

namespace nacre {

// Whether 8 elements lie side by side, at a multiple of 8, where the variable goes on from a multiple of 8.
bool lies_in_pieces(const Expr& address, const std::string& variable);

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
  // The same with the result at this point as the float `value`.
  void emit_scalar_epilogue();

  // On a device, 8 neighbours along a variable at once, which lie side by side in the first store. An epilogue: inside a function
  // that is told where they begin, `first`, and returns one that takes them, the floats `values`.
  bool fits_in_pieces(const std::string& along) const;
  void emit_epilogue_in_pieces(const std::string& along);

  // On a device (device.h): prepare_device() first. Over the teams of the whole grid, in each of which `width` threads share the
  // work of one point; or within one team, whose threads share the points or, where these are few, the reduced loops.
  void prepare_device();
  void emit_over_grid(int width, bool pieces);
  void emit_in_team(int width);
  bool spreads(int width) const;  // the points, and not the terms of a reduction, are divided among the threads of a team
  bool reads_in_rows() const;  // what a reduction reads lies side by side
  std::string piece_loop() const;    // the loop whose points are taken 8 at a time, if there is one
  int64_t choose_lanes(int64_t threads);  // how many neighbours a thread takes, so that there are so many threads
  bool reduces_in_pieces() const;    // the terms of a reduction are
  int64_t work() const;              // what a team divides among its threads, in such pieces where there are any
  Expr kept_points() const;
  Expr reduced_points() const;

  // Over rows that threads keep in registers: the loop of the nest is one, from the row's first element to its last.
  std::string row_variable() const;
  std::optional<int64_t> row_length() const;
  bool fits_in_registers() const;
  std::map<std::string, std::string> row_keys() const;  // what it reads along the row, and the types of its pieces
  struct KeptRow {
    std::string name;  // of an array of pieces
    bool loaded = false;
  };
  // `width` threads, each with `pieces` pieces of a row. `kept`: what several nests read, by key.
  void emit_in_registers(int width, int64_t pieces, std::map<std::string, KeptRow>& kept);

  // A sum, over the only reduced loop, of an element of a matrix times an expression that is the same for all of its rows: those of the
  // only other loop. The numbers are scalars. `before` emits what stands between the wait for earlier kernels and the use of what they wrote.
  struct MatrixVector {
    int matrix = -1, vector = -1, sum = -1;
    int64_t rows = 0, terms = 0, each = 8;  // elements in 16 bytes
    bool constant = false;                  // it is there before earlier kernels are done
  };
  std::optional<MatrixVector> matrix_vector() const;
  void emit_matrix_vector(const MatrixVector& product, const GemvTile& tile, const std::function<void()>& before);

  // True if the nest's own loops can be divided among threads.
  bool splittable() const;
  bool scans() const;
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
  bool in_row(BufferId buffer, const std::vector<Expr>& at) const;
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
  void open_points(const std::vector<LoopVar>& loops, const std::string& counter, const std::string& begin, const std::string& step);
  void emit_pieces(const std::string& along, const std::string& first, bool epilogue, int width);
  void open_pieces(const std::string& along, const std::string& begin, const std::string& step);
  std::string sum_type(int reduce) const;
  std::string piece_type(BufferId buffer) const;
  static std::string stored_piece(size_t store) { return "stored" + std::to_string(store); }  // symbols are called s0, s1, ...
  void load_pieces(const std::string& first, const std::vector<LoopVar>& at_once = {});
  bool is_piece(BufferId buffer, const Expr& address) const;
  std::string row_key(size_t load) const;
  void emit_team_reduced();
  void emit_team_stores(bool alone);
  void emit_body_in_team(bool alone);
  void open_loop(const LoopVar& loop, const std::string& begin, const std::string& end);
  void close_loop();

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
  int64_t lanes_ = 8;                          // of these
  std::string pieces_;                         // the variable along which 8 neighbours are computed at once; empty: none
  std::string row_element_;                    // where in a local row that lies in registers; empty: it does not
  std::vector<bool> held_;                     // scalars that are not to be emitted yet; may be empty
  std::map<int, std::string> piece_loads_;     // scalars that are loaded so, and the names of their pieces
  std::set<std::string> open_;                 // variables of open loops
  std::set<std::string> variables_;            // of all loops, also around the nest
  std::vector<char> closers_;
};

}  // namespace nacre
