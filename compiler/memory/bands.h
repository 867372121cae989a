// Partial execution: a chain of layers computed in bands of rows, one band through all layers after the other.
//
// What lies between the first layer and the last never exists as a whole: each band's last layer writes its rows of the
// result where they belong, and the layers before it make the rows that those need, some of them (the halo) again for the
// next band.
//
//   conv a -> %t[0, o, y]   y: 32         conv a_b0 -> %t_b0   rows 0 to 16     conv a_b1 -> %t_b1   rows 15 to 31
//   conv b -> %u[0, o, y]   y: 32    ->   conv b_b0 -> %u      rows 0 to 15     conv b_b1 -> %u      rows 16 to 31
//
// Rows are the outermost dimension in memory that has more than one element, so that layouts must be chosen before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/loops/group.h"

namespace nacre {

struct Rows {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// A buffer that a group reads: for rows [begin, end) of its result, rows [stride * begin + low, stride * (end - 1) + high].
struct RowUse {
  BufferId buffer = -1;
  bool all = false;  // every row, whatever the result's are
  int64_t stride = 0, low = 0, high = 0;
};

// A group that can compute some rows of its result alone.
struct RowWise {
  int group = -1;
  BufferId result = -1;
  std::string variable;  // the loop that its rows are
  std::vector<RowUse> uses;
};

// The dimension that is cut into bands, or -1.
int row_dim(const Buffer& buffer);
int64_t rows_of(const Buffer& buffer);

// Nothing where the group cannot.
std::optional<RowWise> row_wise(const LoopProgram& program, int group);

// Groups that make one result out of buffers that exist as a whole, each result but the last for others of them only.
struct Chain {
  std::vector<RowWise> groups;  // in order; the last one makes the result
  BufferId result() const { return groups.back().result; }
};

// Of the groups from `first` on, those through which the row-wise group `last` can be computed in bands; `row_wise`: of each
// group. Fewer than two: there is nothing to gain.
Chain chain_to(const LoopProgram& program, const std::vector<std::optional<RowWise>>& row_wise, int first, int last);

// For some rows of the result, the rows that each group of the chain makes.
std::vector<Rows> rows_needed(const LoopProgram& program, const Chain& chain, Rows rows);

// The rows of the result in so many bands, equal but for the last one.
std::vector<Rows> bands_of(const LoopProgram& program, const Chain& chain, int64_t count);

// A reduction over the rows of a temporary as one over equal parts of them and one over the parts' results, so that a chain can end
// with it: `parts` must divide the rows. The first of the two takes the group's place. Nothing where the group is none.
//   %m[o] = reduce sum %x[o, y]   y: 25     ->   %m_parts[p, o] = reduce sum %x[o, 5*p + y]   y: 5;   %m[o] = reduce sum %m_parts[p, o]   p: 5
std::optional<LoopProgram> split_reduction(const LoopProgram& program, int group, int64_t parts);
// The rows that can be split, or 0.
int64_t reduced_rows(const LoopProgram& program, int group);

// The chain in bands. Nothing where a band would see nothing but padding.
std::optional<LoopProgram> in_bands(const LoopProgram& program, const Chain& chain, int64_t count);

}  // namespace nacre
