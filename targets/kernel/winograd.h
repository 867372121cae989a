// 3x3 convolutions with stride 1 by Winograd's F(m x m, 3 x 3): 2.25 (m = 2) or 4 (m = 4) times fewer multiplications.
//
//   conv_winograd<NV, Scheme>(Conv{...} as conv(), with kh = kw = 3, stride 1, dilation 1, groups 1 and ic a multiple of 16,
//                             in, weights, scratch, thread, threads, epilogue as conv()'s)
//     Scheme    Winograd2 or Winograd4 (winograd_points.h). Against the direct sum's, the error is smaller with the
//               first, up to 1.7 times as large with the second
//     weights   transformed and packed on the host: U = G g GT for each pair of channels, [T * T][ceil(oc / NR)][ic][NR]
//     scratch   winograd_scratch<NV, Scheme>(ic, oc, tiles) floats of this thread; tiles = batch * ceil(oh / m) * ceil(ow / m)
//
// Tiles of the image go through in blocks: patches are transformed, T * T small matrix products follow, then the
// transform back, with the epilogue. Blocks stay in L2 beside a panel of weights; weights larger than that are read once
// for as many tiles as possible.
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

template <class W>
NACRE_INLINE constexpr isize winograd_block(isize ic, isize oc, isize tiles) {
  constexpr isize kPlanes = W::kTile * W::kTile;
  const isize fit = imax(12, NACRE_L2_BYTES / 4 * 7 / 10 / (kPlanes * (ic + oc)) / 6 * 6);
  return imin(tiles, kPlanes * ic * oc * 4 > NACRE_L2_BYTES / 2 ? imax(fit, 96) : fit);
}
// Rows of a plane start in different cache sets.
NACRE_INLINE constexpr isize winograd_pitch(isize channels) { return round_up(channels, 16) + 16; }
NACRE_INLINE constexpr isize winograd_plane(isize block, isize channels) {
  const isize size = block * winograd_pitch(channels);
  return size % 1024 == 0 ? size + 16 : size;
}

}  // namespace detail

template <int NV, class W>
NACRE_INLINE constexpr isize winograd_scratch(isize ic, isize oc, isize tiles) {
  const isize block = detail::winograd_block<W>(ic, oc, tiles);
  return W::kTile * W::kTile *
             (detail::winograd_plane(block, ic) + detail::winograd_plane(block, round_up(oc, NV * VL))) +
         round_up(ic, 16);
}

template <int NV, class W, class S, class Epilogue>
NACRE_INLINE void conv_winograd(const S& s, const float* __restrict in, const float* __restrict weights,
                                float* __restrict scratch, int thread, int threads, Epilogue epilogue) {
  constexpr int T = W::kTile, kOut = W::kOut, MR = tile_rows(NV), NR = NV * VL;
  const isize rows = ceil_div(s.oh, kOut), columns = ceil_div(s.ow, kOut), tiles = s.batch * rows * columns;
  const isize panels = ceil_div(s.oc, NR), block = detail::winograd_block<W>(s.ic, s.oc, tiles);
  const isize v_pitch = detail::winograd_pitch(s.ic), v_plane = detail::winograd_plane(block, s.ic);
  const isize m_pitch = detail::winograd_pitch(panels * NR), m_plane = detail::winograd_plane(block, panels * NR);
  float* __restrict v = scratch;
  float* __restrict products = v + T * T * v_plane;
  float* zeros = products + T * T * m_plane;
  detail::clear_row(zeros, s.ic);
  const Range mine = split(tiles, thread, threads);
  // Blocks of nearly equal size.
  const isize blocks = ceil_div(mine.end - mine.begin, block);
  NACRE_ROLLED for (isize g = 0; g < blocks; ++g) {
    const Range part = split(mine.end - mine.begin, g, blocks);
    const isize first = mine.begin + part.begin, count = part.end - part.begin;

    NACRE_ROLLED for (isize t = 0; t < count; ++t) {
      const isize tile = first + t, n = tile / (rows * columns);
      const isize y0 = tile / columns % rows * kOut - s.pad_h, x0 = tile % columns * kOut - s.pad_w;
      const float* from[T * T];
      NACRE_UNROLL for (int i = 0; i < T; ++i) {
        NACRE_UNROLL for (int j = 0; j < T; ++j) {
          const isize y = y0 + i, x = x0 + j;
          from[i * T + j] = y >= 0 && y < s.h && x >= 0 && x < s.w ? in + (n * s.sn + y * s.sh + x * s.sw) : zeros;
        }
      }
      NACRE_ROLLED for (isize c = 0; c < s.ic; c += VL) {
        vf half[T][T];
        NACRE_UNROLL for (int j = 0; j < T; ++j) {
          vf x[T], y[T];
          NACRE_UNROLL for (int i = 0; i < T; ++i) x[i] = load(from[i * T + j] + c);
          detail::transform_input<W>(x, y);
          NACRE_UNROLL for (int i = 0; i < T; ++i) half[i][j] = y[i];
        }
        NACRE_UNROLL for (int i = 0; i < T; ++i) {
          vf y[T];
          detail::transform_input<W>(half[i], y);
          NACRE_UNROLL for (int j = 0; j < T; ++j) store(v + (i * T + j) * v_plane + t * v_pitch + c, y[j]);
        }
      }
    }

    NACRE_ROLLED for (isize p = 0; p < T * T; ++p) {
      NACRE_ROLLED for (isize panel = 0; panel < panels; ++panel) {
        const float* b = weights + (p * panels + panel) * s.ic * NR;
        Ahead ahead = ahead_of(b + s.ic * NR, s.ic * NR, ceil_div(count, MR), s.ic);
        NACRE_ROLLED for (isize t = 0; t < count; t += MR) {
          with_height<MR>(imin(MR, count - t), [&](auto height) NACRE_LAMBDA {
            constexpr int R = decltype(height)::value;
            const float* a[R];
            NACRE_UNROLL for (int i = 0; i < R; ++i) a[i] = v + p * v_plane + imin(t + i, count - 1) * v_pitch;
            Tile<R, NV> tile;
            tile.clear();
            tile.add(a, C<1>{}, b, C<NR>{}, s.ic, ahead);
            float* to = products + p * m_plane + panel * NR;
            NACRE_UNROLL for (int i = 0; i < R; ++i) {
              NACRE_UNROLL for (int n = 0; n < NV; ++n) {
                store(to + imin(t + i, count - 1) * m_pitch + n * VL, tile.acc[i][n]);
              }
            }
          });
        }
      }
    }

    NACRE_ROLLED for (isize t = 0; t < count; ++t) {
      const isize tile = first + t, n = tile / (rows * columns);
      const isize y0 = tile / columns % rows * kOut, x0 = tile % columns * kOut;
      const isize y_count = imin(kOut, s.oh - y0), x_count = imin(kOut, s.ow - x0);
      NACRE_ROLLED for (isize c = 0; c < s.oc; c += VL) {
        vf half[kOut][T];
        NACRE_UNROLL for (int j = 0; j < T; ++j) {
          vf x[T], y[kOut];
          NACRE_UNROLL for (int i = 0; i < T; ++i) x[i] = load(products + (i * T + j) * m_plane + t * m_pitch + c);
          detail::transform_output<W>(x, y);
          NACRE_UNROLL for (int i = 0; i < kOut; ++i) half[i][j] = y[i];
        }
        NACRE_ALIGNED float out[kOut * kOut * VL];
        NACRE_UNROLL for (int i = 0; i < kOut; ++i) {
          vf y[kOut];
          detail::transform_output<W>(half[i], y);
          NACRE_UNROLL for (int j = 0; j < kOut; ++j) store(out + (i * kOut + j) * VL, y[j]);
        }
        const int lanes = static_cast<int>(imin(VL, s.oc - c));
        NACRE_ROLLED for (isize i = 0; i < y_count; ++i) {
          NACRE_ROLLED for (isize j = 0; j < x_count; ++j) {
            epilogue(n, y0 + i, x0 + j, c, load(out + (i * kOut + j) * VL), lanes);
          }
        }
      }
    }
  }
}

}  // namespace nk
#endif
