#include "compiler/layout/winograd.h"

#include <algorithm>
#include <cmath>

namespace nacre {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles that go through together at most: winograd_block() of the kernel library.
int64_t most_tiles(const Target& target, int outputs, int panel_vectors, int64_t ic) {
  const int64_t side = outputs + 2, columns = panel_vectors * target.vector_floats(), pitch = ceil_div(ic, 16) * 16 + 16;
  return std::max<int64_t>(target.tile_rows(panel_vectors), (target.l2_bytes / 4 * 9 / 10 - side * ic * columns) / (side * side * (pitch + columns)));
}

// What one vector of channels takes, in the time of a multiply-add of two vectors: the transform of a patch, that of a tile of
// products with its epilogue, and that of a filter. Measured on AVX-512.
struct Transforms {
  double patch, products, filter;
};
constexpr Transforms kTransforms2{70, 80, 110}, kTransforms4{200, 240, 190};

// Products of tiles of so few rows are slower than a direct sum's.
constexpr double kProduct = 1.2;

// What reading a byte of weights takes: no algorithm is faster than that.
constexpr double kByte = 0.84;

// The part of the time that has to be saved at least, for an algorithm that rounds more.
constexpr double kWorthwhile = 0.05;

}  // namespace

int winograd_panel_vectors(int64_t oc, const Target& target) {
  // Four wide, a panel of transformed weights would not stay in L1.
  return std::min(target.panel_vectors(oc), target.panel_vectors(oc) == 4 ? 2 : 3);
}

std::vector<int> winograd_choices(const Contraction& c, const Target& target) {
  // Where vectors are few, transforms cost as much as they save.
  if (target.registers < 16 || target.firmware || c.kind != ContractionKind::conv || c.form != ContractionForm::packed || c.operand_loops[0].size() != 4 || !c.groups.is(1))
    return {0};
  const auto all_ones = [](const std::vector<Expr>& list) { return std::all_of(list.begin(), list.end(), [](const Expr& e) { return e.is(1); }); };
  const std::vector<LoopVar>& w = c.operand_loops[1];
  if (!w[2].extent.is(3) || !w[3].extent.is(3) || !all_ones(c.stride) || !all_ones(c.dilation)) return {0};
  const auto batch = c.loops[0].extent.constant(), oh = c.loops[2].extent.constant(), ow = c.loops[3].extent.constant();
  const int64_t oc = *w[0].extent.constant(), ic = *w[1].extent.constant(), lanes = target.vector_floats();
  if (!oh || !ow || ic % lanes != 0 || *oh * *ow == 0) return {0};

  const auto vectors = [&](int panel) { return static_cast<double>(ceil_div(oc, panel * lanes) * panel); };
  const double images = batch ? static_cast<double>(*batch) : 1;
  const double reading = kByte * 36 * static_cast<double>(ic * oc);
  double least = std::max(reading, images * static_cast<double>(*oh * *ow * 9 * ic) * vectors(target.panel_vectors(oc)));
  int best = 0;
  for (int m : {2, 4}) {
    const Transforms& cost = m == 2 ? kTransforms2 : kTransforms4;
    const int panel = winograd_panel_vectors(oc, target);
    const double tiles = images * static_cast<double>(ceil_div(*oh, m) * ceil_div(*ow, m));
    const double blocks = std::ceil(tiles / static_cast<double>(most_tiles(target, m, panel, ic)));
    const double rows = static_cast<double>(ic) / static_cast<double>(lanes), width = vectors(panel);
    const double time = kProduct * tiles * (m + 2) * (m + 2) * static_cast<double>(ic) * width + tiles * (rows * cost.patch + width * cost.products) +
                        blocks * static_cast<double>(ic) * width * cost.filter;
    if (std::max(reading, time) < (1 - kWorthwhile) * least) {
      least = std::max(reading, time);
      best = m;
    }
  }
  std::vector<int> choices{0, 2, 4};
  std::stable_partition(choices.begin(), choices.end(), [&](int m) { return m == best; });
  return choices;
}

Expr winograd_scratch(const Target& target, int outputs, int panel_vectors, int64_t ic, const Expr& tiles) {
  const int64_t side = outputs + 2, columns = panel_vectors * target.vector_floats(), pitch = ceil_div(ic, 16) * 16 + 16;
  const Expr block = min(tiles, Expr(most_tiles(target, outputs, panel_vectors, ic)));
  return 4 * (block * (side * side * (pitch + columns)) + side * side * (16 + pitch) + side * ic * columns);
}

}  // namespace nacre
