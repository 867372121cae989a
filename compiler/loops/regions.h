// Where groups stand in the control flow of a program (group.h).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/loops/group.h"

namespace nacre {

struct Region {
  int parent = -1;       // of the program itself: none
  int first = 0;         // the groups that open and close it; of the program: -1 and the number of groups
  int last = 0;
  bool repeats = false;  // a loop as a whole; its parts before and after `while` are regions in it
};

struct Regions {
  std::vector<Region> list;   // [0]: the program; a region comes after its parent
  std::vector<int> of_group;  // the innermost region; what opens, parts or closes one stands in the region around it

  bool encloses(int outer, int inner) const;  // also if they are the same
  int loop_around(int region) const;          // the innermost region that repeats, or 0
};

// Error{internal} where regions do not nest.
Regions regions_of(const LoopProgram& program);

// Symbols whose value is known only while the program runs.
std::set<std::string> bound_symbols(const LoopProgram& program);
bool has_symbol_of(const Expr& e, const std::set<std::string>& symbols);

// At most so much, known before the run. Error{unsupported} names a symbol without a bound.
Expr capacity(const Expr& e, const std::set<std::string>& bound, const Facts& facts);

Expr capacity_bytes(const Buffer& buffer, const std::set<std::string>& bound, const Facts& facts);

// Symbols that occur in a group.
std::set<std::string> symbols_of(const LoopProgram& program, const Group& group);

}  // namespace nacre
