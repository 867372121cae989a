// Weights as the tiles of the kernel library want them: each pack is a loop nest over the packed weight's own dimensions.
#pragma once

#include "compiler/loops/group.h"
#include "targets/target.h"

namespace nacre {

// What an output of the packing program is called, and the weight that it is made of.
struct PackedWeight {
  std::string name, from;
};

class Packer {
 public:
  Packer(LoopProgram& program, const Target& target) : program_(program), target_(target) {
    packing_.name = "packing";
  }

  // Replaces the constant operand 1 of the contraction by a packed one; sets panel_vectors. Equal requests share one weight.
  void matmul(Contraction& c);
  void conv(Contraction& c);            // packed and planar
  void conv_transpose(Contraction& c);
  void depthwise(Contraction& c);
  // Replaces operand `i`, the recurrent weights [gates * hidden, hidden], by [blocks of VL units][column][gate][VL].
  void recurrent(Contraction& c, size_t i, int64_t gates);

  LoopProgram take_packing() { return std::move(packing_); }
  std::vector<PackedWeight> take_packed() { return std::move(packed_); }

 private:
  // One region of a packed weight: `loops` in the order of memory, its place, and where an element comes from.
  struct Region {
    std::vector<LoopVar> loops;
    Expr offset;                       // of its first element
    std::vector<Expr> at;              // in the original weight
    std::vector<Expr> when;            // zero elsewhere
  };
  int panel_vectors(const Contraction& c, int64_t columns) const;
  // Sets a convolution's algorithm and panel_vectors.
  void choose_way(Contraction& c, int64_t oc);
  BufferId pack(const Operand& from, const std::string& form, const std::vector<Region>& regions, int64_t elements);

  LoopProgram& program_;
  const Target& target_;
  LoopProgram packing_;
  std::vector<PackedWeight> packed_;
  std::map<std::string, BufferId> made_;  // by the name of the packed weight
};

}  // namespace nacre
