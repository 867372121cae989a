// Which tile of nacre/cuda_mma.h or nacre/cuda_mapped.h computes a product, and which of nacre/cuda_gemv.h one with a vector.
#pragma once

#include <cstdint>
#include <string>

#include "targets/target.h"

namespace nacre {

// How float32 factors are multiplied, if they are not of 16 bits: Factors of nacre/cuda_mma.h.
enum class Factors { half, tf32, exact };

struct HalfProduct {
  int64_t batches = 1, m = 1, n = 1, k = 1;
  double epilogue = 0;    // operations on each result
  double reads = 0;       // of them, loads of what is as large as the result
  bool b_along_n = false;
  bool elements = false;  // an operand is read one by one
  bool sized = true;  // the sizes are known
  bool mapped = false;  // tensor maps can be made of the operands
  Factors factors = Factors::half;  // of float32, `k` counts each term twice, as it takes the room of two
};

struct HalfTileChoice {
  int rows = 0, columns = 0, warps_m = 0, warps_n = 0, stages = 0, splits = 1, shared_bytes = 0;
  int resident = 0;  // of nacre/cuda_mapped.h: blocks of a multiprocessor, which stay
};

// As a question to measurements.
std::string question_of(const HalfProduct& product);

// The one that the cost model thinks is the fastest, or that another answer says.
HalfTileChoice choose_half_tile(const HalfProduct& product, const Target& target);

struct GemvTile {
  int warps = 0, beside = 0, pieces = 0, rows = 0, stages = 0, shared_bytes = 0;
  int64_t blocks = 0;
};
constexpr int kMostGemvPieces = 8;
// `each`: elements in 16 bytes.
GemvTile choose_gemv_tile(int64_t rows, int64_t terms, int64_t each, const Target& target);

int multiprocessors_of(const Target& target);
int block_shared_of(const Target& target);  // bytes that a block can have, at most

}  // namespace nacre
