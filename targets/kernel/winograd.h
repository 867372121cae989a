// 3x3 convolutions with stride 1 by Winograd's F(m x m, 3 x 3): 2.25 (m = 2) or 4 (m = 4) times fewer multiplications.
//
//   conv_winograd<NV, Scheme>(Conv{...} as conv(), with kh = kw = 3, stride 1, dilation 1, groups 1 and ic a multiple of VL,
//                             in, weights, scratch, thread, threads, epilogue as conv()'s)
//     Scheme    Winograd2 or Winograd4 (winograd_points.h). Against the direct sum's, the error is smaller with the
//               first, up to twice as large with the second
//     weights   packed as for conv()
//     scratch   winograd_scratch<NV, Scheme>(ic, tiles) floats of this thread; tiles = batch * ceil(oh / m) * ceil(ow / m)
//
// Tiles of the image go through in blocks. Patches of a block are transformed; then, a panel of output channels at a time, the
// weights are, T points after T points, and T products of tiles by channels follow each time; the transform back ends with the
// epilogue. All that waits in between stays in L2. Transforming the weights anew for each block takes a few percent of what
// the products do, and reading them transformed would take four times the memory and its time.
#ifndef NACRE_KERNEL_WINOGRAD_H
#define NACRE_KERNEL_WINOGRAD_H
#include "nacre/conv.h"
#include "nacre/winograd_points.h"

namespace nk {

namespace detail {

// y = c x for a row or column of constants: zeros cost nothing, ones no multiplication.
template <class Coefficient>
NACRE_INLINE vf combine(int count, Coefficient c, const vf* x) {
  vf y = splat(0.f);
  bool first = true;
  NACRE_UNROLL for (int i = 0; i < count; ++i) {
    const double k = c(i);
    if (k == 0) continue;
    const vf term = x[i];
    if (k == 1) {
      y = first ? term : y + term;
    } else if (k == -1) {
      y = first ? -term : y - term;
    } else {
      y = first ? splat(static_cast<float>(k)) * term : fma(splat(static_cast<float>(k)), term, y);
    }
    first = false;
  }
  return y;
}

// BT x. Rows 2 i + 1 and 2 i + 2 belong to p and -p: they share even and odd part.
template <class W>
NACRE_INLINE void transform_input(const vf* x, vf* y) {
  constexpr int T = W::kTile;
  y[0] = combine(T, [](int j) NACRE_LAMBDA { return W::kBT[0][j]; }, x);
  NACRE_UNROLL for (int i = 1; i + 1 < T; i += 2) {
    const vf even = combine(T, [i](int j) NACRE_LAMBDA { return j % 2 == 0 ? W::kBT[i][j] : 0.0; }, x);
    const vf odd = combine(T, [i](int j) NACRE_LAMBDA { return j % 2 == 1 ? W::kBT[i][j] : 0.0; }, x);
    y[i] = even + odd;
    y[i + 1] = even - odd;
  }
  y[T - 1] = combine(T, [](int j) NACRE_LAMBDA { return W::kBT[T - 1][j]; }, x);
}
// AT x, likewise by sums and differences of columns.
template <class W>
NACRE_INLINE void transform_output(const vf* x, vf* y) {
  constexpr int T = W::kTile, kPairs = (T - 2) / 2;
  vf sum[kPairs + 2], difference[kPairs + 1];
  sum[0] = x[0];
  difference[kPairs] = x[T - 1];
  NACRE_UNROLL for (int p = 0; p < kPairs; ++p) {
    sum[p + 1] = x[2 * p + 1] + x[2 * p + 2];
    difference[p] = x[2 * p + 1] - x[2 * p + 2];
  }
  sum[kPairs + 1] = x[T - 1];
  NACRE_UNROLL for (int i = 0; i < W::kOut; ++i) {
    if (i % 2 == 0) {
      y[i] = combine(
          kPairs + 2,
          [i](int j) NACRE_LAMBDA { return j == 0 ? W::kAT[i][0] : j == kPairs + 1 ? W::kAT[i][T - 1] : W::kAT[i][2 * j - 1]; },
          sum);
    } else {
      y[i] = combine(
          kPairs + 1, [i](int j) NACRE_LAMBDA { return j == kPairs ? W::kAT[i][T - 1] : W::kAT[i][2 * j + 1]; }, difference);
    }
  }
}

// g[0] + p g[1] + p^2 g[2] for the i-th point p; at infinity, g[2].
template <class W>
NACRE_INLINE vf at_point(int i, const vf* g) {
  constexpr int T = W::kTile;
  if (i == 0) return g[0];
  if (i == T - 1) return g[2];
  return combine(3, [i](int k) NACRE_LAMBDA { return k == 1 ? W::kPoints[i] : k == 2 ? W::kPoints[i] * W::kPoints[i] : 1.0; }, g);
}

// Row `i` of G g GT for `channels` rows of NV vectors: [T][channels][NV * VL]. `taps`: [3][3][channels][NV * VL]
template <class W, int NV, int I>
NACRE_INLINE void transform_weights(const float* __restrict taps, isize channels, float* __restrict to) {
  constexpr int T = W::kTile;
  constexpr bool kFirst = I == 0, kLast = I == T - 1;
  const isize plane = channels * (NV * VL);
  NACRE_ROLLED for (isize c = 0; c < plane; c += VL) {
    vf across[3];
    NACRE_UNROLL for (int x = 0; x < 3; ++x) {
      vf g[3];
      NACRE_UNROLL for (int y = 0; y < 3; ++y) {
        if ((kFirst && y > 0) || (kLast && y < 2)) continue;
        g[y] = load(taps + (y * 3 + x) * plane + c);
      }
      across[x] = at_point<W>(I, g);
    }
    NACRE_UNROLL for (int j = 0; j < T; ++j) {
      const double scale = W::kScale[I] * W::kScale[j];
      const vf u = at_point<W>(j, across);
      store(to + j * plane + c, scale == 1 ? u : splat(static_cast<float>(scale)) * u);
    }
  }
}

// The transforms amplify the rounding of the products, so these are summed in short pieces.
inline constexpr isize kWinogradPieceK = 32;

// Rows of a plane start in different cache sets.
NACRE_INLINE constexpr isize winograd_pitch(isize channels) { return round_up(channels, 16) + 16; }

// Tiles that go through together: patches, products and weights of a panel stay in L2.
template <int NV, class W>
NACRE_INLINE constexpr isize winograd_block(isize ic, isize tiles) {
  constexpr isize T = W::kTile, kPlanes = T * T, NR = NV * VL;
  const isize room = NACRE_L2_BYTES / 4 * 9 / 10 - T * ic * NR;
  const isize most = imin(tiles, imax(tile_rows(NV), room / (kPlanes * (winograd_pitch(ic) + NR))));
  return ceil_div(tiles, ceil_div(tiles, most));
}
template <class W>
NACRE_INLINE constexpr isize winograd_plane(isize block, isize ic) {
  const isize size = block * winograd_pitch(ic);
  return size % 1024 == 0 ? size + 16 : size;
}
// Rows of a register tile of the products: such that few are computed twice.
NACRE_INLINE constexpr isize even_rows(isize count, isize most) { return imax(1, ceil_div(count, imax(1, ceil_div(count, most)))); }

template <class S, class W>
NACRE_INLINE constexpr auto winograd_tiles(const S& s) {
  if constexpr (all_constant<decltype(S::batch), decltype(S::oh), decltype(S::ow)>) {
    return C<decltype(S::batch)::value * ceil_div(decltype(S::oh)::value, W::kOut) * ceil_div(decltype(S::ow)::value, W::kOut)>{};
  } else {
    return isize{s.batch * ceil_div(s.oh, W::kOut) * ceil_div(s.ow, W::kOut)};
  }
}
// The height of register tiles, constant: it suits the blocks of one thread.
template <int NV, class W, class IC, class Tiles>
NACRE_INLINE constexpr int winograd_rows(IC, Tiles) {
  if constexpr (all_constant<IC, Tiles>) {
    return static_cast<int>(even_rows(winograd_block<NV, W>(IC::value, Tiles::value), tile_rows(NV)));
  } else {
    return tile_rows(NV);
  }
}

// BT d B of a patch, T * T planes apart.
template <class W, class PitchY, class PitchX>
NACRE_INLINE void transform_patch(const float* __restrict in, PitchY pitch_y, PitchX pitch_x, isize channels, float* __restrict to, isize plane) {
  constexpr int T = W::kTile;
  NACRE_ROLLED for (isize c = 0; c < channels; c += VL) {
    vf half[T][T];
    NACRE_UNROLL for (int j = 0; j < T; ++j) {
      vf x[T], y[T];
      NACRE_UNROLL for (int i = 0; i < T; ++i) x[i] = load(in + i * pitch_y + j * pitch_x + c);
      transform_input<W>(x, y);
      NACRE_UNROLL for (int i = 0; i < T; ++i) half[i][j] = y[i];
    }
    NACRE_UNROLL for (int i = 0; i < T; ++i) {
      vf y[T];
      transform_input<W>(half[i], y);
      NACRE_UNROLL for (int j = 0; j < T; ++j) store(to + (i * T + j) * plane + c, y[j]);
    }
  }
}

}  // namespace detail

template <int NV, class W>
NACRE_INLINE constexpr isize winograd_scratch(isize ic, isize tiles) {
  constexpr isize T = W::kTile, NR = NV * VL;
  const isize block = detail::winograd_block<NV, W>(ic, tiles);
  return T * T * (detail::winograd_plane<W>(block, ic) + block * NR + round_up(ic, 16)) + T * ic * NR;
}

template <int NV, class W, class S, class Epilogue>
NACRE_INLINE void conv_winograd(const S& s, const float* __restrict in, const float* __restrict weights,
                                float* __restrict scratch, int thread, int threads, Epilogue epilogue) {
  constexpr int T = W::kTile, kOut = W::kOut, NR = NV * VL;
  const auto tiles = detail::winograd_tiles<S, W>(s);
  constexpr int R = detail::winograd_rows<NV, W>(decltype(s.ic){}, decltype(tiles){});
  const isize rows = ceil_div(s.oh, kOut), columns = ceil_div(s.ow, kOut);
  const isize panels = ceil_div(s.oc, NR), block = detail::winograd_block<NV, W>(s.ic, tiles);
  const isize pitch = detail::winograd_pitch(s.ic), plane = detail::winograd_plane<W>(block, s.ic), patch_pitch = round_up(s.ic, 16);
  float* __restrict patches = scratch;                        // [T * T][block][pitch]
  float* __restrict products = patches + T * T * plane;       // [block][T * T][NR]
  float* __restrict filters = products + block * T * T * NR;  // [T][ic][NR]
  float* __restrict patch = filters + T * s.ic * NR;          // [T * T][ic]
  const Range mine = split(tiles, thread, threads);
  const isize blocks = ceil_div(mine.end - mine.begin, block);
  NACRE_ROLLED for (isize g = 0; g < blocks; ++g) {
    const Range part = split(mine.end - mine.begin, g, blocks);
    const isize first = mine.begin + part.begin, count = part.end - part.begin;

    NACRE_ROLLED for (isize t = 0; t < count; ++t) {
      const isize tile = first + t, n = tile / (rows * columns);
      const isize y0 = tile / columns % rows * kOut - s.pad_h, x0 = tile % columns * kOut - s.pad_w;
      const float* from = in + (n * s.sn + y0 * s.sh + x0 * s.sw);
      if (y0 >= 0 && x0 >= 0 && y0 + T <= s.h && x0 + T <= s.w) {
        if (s.h * s.sh > NACRE_L2_BYTES / 4) {  // what the next patch has beyond this one, in rows that are far apart
          NACRE_ROLLED for (int i = 0; i < T; ++i) {
            NACRE_ROLLED for (isize c = 0; c < kOut * s.ic; c += 16) NACRE_PREFETCH(from + (i * s.sh + T * s.sw + c), 3);
          }
        }
        detail::transform_patch<W>(from, s.sh, s.sw, s.ic, patches + t * pitch, plane);
        continue;
      }
      NACRE_ROLLED for (int i = 0; i < T; ++i) {
        NACRE_ROLLED for (int j = 0; j < T; ++j) {
          const isize y = y0 + i, x = x0 + j;
          const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
          const float* p = from + (i * s.sh + j * s.sw);
          float* to = patch + (i * T + j) * patch_pitch;
          NACRE_ROLLED for (isize c = 0; c < s.ic; c += VL) store(to + c, inside ? load(p + c) : splat(0.f));
        }
      }
      detail::transform_patch<W>(patch, T * patch_pitch, patch_pitch, s.ic, patches + t * pitch, plane);
    }

    NACRE_ROLLED for (isize panel = 0; panel < panels; ++panel) {
      const float* taps = weights + panel * 9 * s.ic * NR;
      const auto row_of_points = [&](auto row) NACRE_LAMBDA {
        constexpr int I = decltype(row)::value;
        detail::transform_weights<W, NV, I>(taps, s.ic, filters);
        const isize share = 9 * s.ic * NR / T;  // of the next panel
        Ahead ahead = ahead_of(taps + 9 * s.ic * NR + I * share, share, T * ceil_div(count, R), s.ic);
        NACRE_ROLLED for (int j = 0; j < T; ++j) {
          const float* b = filters + j * s.ic * NR;
          const float* v = patches + (I * T + j) * plane;
          float* to = products + (I * T + j) * NR;
          NACRE_ROLLED for (isize done = 0; done < count; done += R) {
            const isize t = imax(0, imin(done, count - R));  // the last rows may be computed twice
            const float* a[R];
            NACRE_UNROLL for (int i = 0; i < R; ++i) a[i] = v + imin(t + i, count - 1) * pitch;
            Tile<R, NV> tile;
            tile.clear();
            Pieces<R, NV, detail::kWinogradPieceK> pieces;
            pieces.add(tile, a, C<1>{}, b, C<NR>{}, s.ic, ahead);
            pieces.finish(tile);
            NACRE_UNROLL for (int i = 0; i < R; ++i) {
              float* row = to + imin(t + i, count - 1) * (T * T * NR);
              NACRE_UNROLL for (int n = 0; n < NV; ++n) store(row + n * VL, tile.acc[i][n]);
            }
          }
        }
      };
      row_of_points(C<0>{});
      row_of_points(C<1>{});
      row_of_points(C<2>{});
      row_of_points(C<3>{});
      if constexpr (T > 4) {
        row_of_points(C<4>{});
        row_of_points(C<5>{});
      }

      NACRE_ROLLED for (isize t = 0; t < count; ++t) {
        const isize tile = first + t, n = tile / (rows * columns);
        const isize y0 = tile / columns % rows * kOut, x0 = tile % columns * kOut;
        const isize y_count = imin(kOut, s.oh - y0), x_count = imin(kOut, s.ow - x0);
        const isize width = imin(NR, s.oc - panel * NR);
        NACRE_ROLLED for (isize c = 0; c < width; c += VL) {
          const float* p = products + t * (T * T * NR) + c;
          vf half[kOut][T];
          NACRE_UNROLL for (int j = 0; j < T; ++j) {
            vf x[T], y[kOut];
            NACRE_UNROLL for (int i = 0; i < T; ++i) x[i] = load(p + (i * T + j) * NR);
            detail::transform_output<W>(x, y);
            NACRE_UNROLL for (int i = 0; i < kOut; ++i) half[i][j] = y[i];
          }
          NACRE_ALIGNED float out[kOut * kOut * VL];
          NACRE_UNROLL for (int i = 0; i < kOut; ++i) {
            vf y[kOut];
            detail::transform_output<W>(half[i], y);
            NACRE_UNROLL for (int j = 0; j < kOut; ++j) store(out + (i * kOut + j) * VL, y[j]);
          }
          const int lanes = static_cast<int>(imin(VL, width - c));
          NACRE_ROLLED for (isize i = 0; i < y_count; ++i) {
            NACRE_ROLLED for (isize j = 0; j < x_count; ++j) {
              epilogue(n, y0 + i, x0 + j, panel * NR + c, load(out + (i * kOut + j) * VL), lanes);
            }
          }
        }
      }
    }
  }
}

}  // namespace nk
#endif
