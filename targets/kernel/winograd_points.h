// The transforms of Winograd's convolution F(m x m, 3 x 3) by their points.
//
// With T = m + 2 points 0, p, -p, ..., infinity:  Y = AT [ (G g GT) . (BT d B) ] A  for a filter g and a patch d of T x T. Row i of
// G is kScale[i] * (1, p, p * p); at infinity it is (0, 0, 1).
// Small points keep the rounding error near that of the direct sum; for m = 4 the textbook's 0, 1, 2 do not.
#ifndef NACRE_KERNEL_WINOGRAD_POINTS_H
#define NACRE_KERNEL_WINOGRAD_POINTS_H

namespace nk {

// m = 2: 0, 1, -1, infinity
struct Winograd2 {
  static constexpr int kOut = 2, kTile = 4;
  static constexpr double kPoints[kTile] = {0, 1, -1, 0}, kScale[kTile] = {-1, 0.5, 0.5, 1};
  static constexpr double kBT[kTile][kTile] = {{-1, 0, 1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}};
  static constexpr double kAT[kOut][kTile] = {{1, 1, 1, 0}, {0, 1, -1, 1}};
};

// m = 4: 0, a, -a, b, -b, infinity with a = 11/16, b = 23/16
struct Winograd4 {
  static constexpr int kOut = 4, kTile = 6;
  static constexpr double a = 11.0 / 16, b = 23.0 / 16, a2 = a * a, b2 = b * b;
  static constexpr double fa = 2 * a2 * (a2 - b2), fb = 2 * b2 * (b2 - a2), f0 = a2 * b2;
  static constexpr double kPoints[kTile] = {0, a, -a, b, -b, 0}, kScale[kTile] = {1 / f0, 1 / fa, 1 / fa, 1 / fb, 1 / fb, 1};
  static constexpr double kBT[kTile][kTile] = {{f0, 0, -(a2 + b2), 0, 1, 0}, {0, -a * b2, -b2, a, 1, 0},
                                               {0, a * b2, -b2, -a, 1, 0},   {0, -b * a2, -a2, b, 1, 0},
                                               {0, b * a2, -a2, -b, 1, 0},   {0, f0, 0, -(a2 + b2), 0, 1}};
  static constexpr double kAT[kOut][kTile] = {{1, 1, 1, 1, 1, 0},
                                              {0, a, -a, b, -b, 0},
                                              {0, a2, a2, b2, b2, 0},
                                              {0, a * a2, -a * a2, b * b2, -b * b2, 1}};
};

}  // namespace nk
#endif
