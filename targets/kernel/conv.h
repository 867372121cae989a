// Convolutions over channels-last images (1-D: h = oh = kh = 1), as matrix products over taps without a copy of the image.
//
//   conv<NV>(Conv{.batch, .h, .w, .ic, .oc, .groups, .kh, .kw, .stride_h, .stride_w, .pad_h, .pad_w, .dilation_h,
//                 .dilation_w, .oh, .ow, .sn, .sh, .sw}, const float* in, const float* weights, float* scratch,
//            int thread, int threads, epilogue)
//     ic, oc    channels of one group; every field is an isize or C<...>{}; pad_* is the padding before the first element
//     in        element (n, y, x, c) at in[n * sn + y * sh + x * sw + c], c counts over all groups
//     weights   packed on the host: [group][ceil(oc / NR)][kh][kw][ic][NR], NR = NV * VL, zeros beyond oc, 64-byte aligned
//     scratch   conv_scratch(ic) floats of this thread
//   A 1x1 convolution with stride 1 and no padding is gemm over the pixels: use that.
//
//   conv_planar<NV>(Conv{...}, isize sc, in, weights, scratch, thread, threads, epilogue)
//     the same for an input whose channels lie apart (element at n * sn + c * sc + y * sh + x * sw): first layers, few
//     channels. groups must be 1. scratch: conv_planar_scratch(ic, kh, kw, stride_h, stride_w, dilation_h, dilation_w, oh, ow)
//   conv_planar<NV, Band>: Band rows of the result at a time (0: as many as fit in a part of L2), with that much less scratch:
//     conv_planar_scratch(..., Band)
//
//   conv_transposed<NV>(Conv{...}, in, weights, scratch, thread, threads, epilogue)
//     out(n, y, x, o) = sum of in(n, (y + pad - ky) / stride, ..., c) * w(c, o, ky, kx) where the division has no rest.
//     dilation must be 1. kh, kw, stride_* must be C<>. weights: for each phase (ry, rx), ry < stride_h outer, rx < stride_w:
//       [group][ceil(oc / NR)][ty][tx][ic][NR] with ty < taps(kh, stride_h, ry) = ceil((kh - ry) / stride_h) and
//       ky = ry + (taps - 1 - ty) * stride_h, likewise x.
//     scratch   conv_scratch(ic)
//
//   epilogue(isize n, isize y, isize x, isize c, vf value, int lanes)   output elements (n, y, x, c .. c + lanes - 1), c over all
//     groups; called once per element, on one thread; lanes is VL or less at the end of a group's channels.
//
// Pixels outside the image are read from a row of zeros in scratch. Tiles of pixels run across rows and images, so that
// small images leave no remainder; a tile whose pixels have all their taps inside runs without any test.
#ifndef NACRE_KERNEL_CONV_H
#define NACRE_KERNEL_CONV_H
#include "nacre/gemm.h"

namespace nk {

template <class Batch, class H, class W, class IC, class OC, class Groups, class KH, class KW, class StrideH,
          class StrideW, class PadH, class PadW, class DilationH, class DilationW, class OH, class OW, class SN,
          class SH, class SW>
struct Conv {
  Batch batch;
  H h;
  W w;
  IC ic;
  OC oc;
  Groups groups;
  KH kh;
  KW kw;
  StrideH stride_h;
  StrideW stride_w;
  PadH pad_h;
  PadW pad_w;
  DilationH dilation_h;
  DilationW dilation_w;
  OH oh;
  OW ow;
  SN sn;
  SH sh;
  SW sw;
};

NACRE_INLINE constexpr isize conv_scratch(isize ic) { return round_up(ic, 16); }

struct Pixel {
  isize n, y, x;
};

namespace detail {

// The product of two sizes, constant if both are.
template <class A, class B>
NACRE_INLINE constexpr auto times(A a, B b) {
  if constexpr (all_constant<A, B>) {
    return C<A::value * B::value>{};
  } else {
    return isize{a} * isize{b};
  }
}
// Columns that `count` outputs read: constant if all are.
template <class Count, class Stride, class Taps, class Dilation>
NACRE_INLINE constexpr auto reach(Count count, Stride stride, Taps taps, Dilation dilation) {
  if constexpr (all_constant<Count, Stride, Taps, Dilation>) {
    return C<(Count::value - 1) * Stride::value + (Taps::value - 1) * Dilation::value + 1>{};
  } else {
    return isize{(count - 1) * stride + (taps - 1) * dilation + 1};
  }
}
template <class A, class B>
inline constexpr bool never_equal = false;
template <isize A, isize B>
inline constexpr bool never_equal<C<A>, C<B>> = A != B;
template <class T>
inline constexpr bool constant_zero = false;
template <>
inline constexpr bool constant_zero<C<0>> = true;
template <class S>
inline constexpr bool single_image = false;
template <class... Sizes>
inline constexpr bool single_image<Conv<C<1>, Sizes...>> = true;

// Whether a padding of 0 before the image means that no tap leaves it behind, either: of an image cut into bands, the last one
// ends with the padding.
template <class Size, class Count, class Stride, class Taps, class Dilation>
NACRE_INLINE constexpr bool covers(Size size, Count count, Stride stride, Taps taps, Dilation dilation) {
  if constexpr (all_constant<Size, Count, Stride, Taps, Dilation>) {
    return (count - 1) * stride + (taps - 1) * dilation < size;
  } else {
    return true;
  }
}
template <class S>
inline constexpr bool ends_inside = covers(decltype(S::h){}, decltype(S::oh){}, decltype(S::stride_h){}, decltype(S::kh){}, decltype(S::dilation_h){}) &&
                                    covers(decltype(S::w){}, decltype(S::ow){}, decltype(S::stride_w){}, decltype(S::kw){}, decltype(S::dilation_w){});

template <class S>
NACRE_INLINE Pixel pixel_at(const S& s, isize index) {
  const isize row = index / s.ow;
  if constexpr (single_image<S>) return {0, row, index % s.ow};
  return {row / s.oh, row % s.oh, index % s.ow};
}
template <class S>
NACRE_INLINE void next(const S& s, Pixel& p) {
  const bool row_end = ++p.x == s.ow;
  p.x = row_end ? 0 : p.x;
  p.y += row_end;
  if constexpr (single_image<S>) return;
  const bool image_end = p.y == s.oh;
  p.y = image_end ? 0 : p.y;
  p.n += image_end;
}

template <int R, int NV, class S, class Epilogue>
NACRE_INLINE void finish_pixels(const Tile<R, NV>& tile, const S& s, isize first, isize c, Epilogue epilogue) {
  Pixel p = pixel_at(s, first);
  NACRE_UNROLL for (int i = 0; i < R; ++i) {
    NACRE_UNROLL for (int v = 0; v < NV; ++v) epilogue(p.n, p.y, p.x, c + v * VL, tile.acc[i][v], VL);
    next(s, p);
  }
}
template <int NV, class S, class Epilogue>
NACRE_INLINE void finish_pixels(isize rows, const float* values, const S& s, isize first, isize c, isize width,
                                Epilogue epilogue) {
  Pixel p = pixel_at(s, first);
  width = imin(width, NV * VL);
  if (is_long<Epilogue> && width == NV * VL) {
    NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
      NACRE_UNROLL for (int v = 0; v < NV; ++v) epilogue(p.n, p.y, p.x, c + v * VL, load(values + (i * NV + v) * VL), VL);
      next(s, p);
    }
    return;
  }
  NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
    NACRE_ROLLED for (isize v = 0; v < width; v += VL) {
      epilogue(p.n, p.y, p.x, c + v, load(values + i * (NV * VL) + v), static_cast<int>(imin(VL, width - v)));
    }
    next(s, p);
  }
}

// One tile: R output pixels from `first` on, against one panel of weights.
template <int R, int NV, class S, class Pixels>
NACRE_INLINE void conv_tile(Tile<R, NV>& tile, const S& s, Pixels pixels, const float* in, const float* zeros,
                            const float* b, isize first, Ahead& ahead) {
  constexpr int NR = NV * VL;
  constexpr bool kNoPadding = constant_zero<decltype(s.pad_h)> && constant_zero<decltype(s.pad_w)> && ends_inside<S>;
  const isize reach_y = (s.kh - 1) * s.dilation_h, reach_x = (s.kw - 1) * s.dilation_w;
  isize y0[R], x0[R];
  const float* base[R];
  bool inside = true;
  Pixel p = pixel_at(s, first);
  NACRE_UNROLL for (int i = 0; i < R; ++i) {
    y0[i] = p.y * s.stride_h - s.pad_h;
    x0[i] = p.x * s.stride_w - s.pad_w;
    base[i] = in + (p.n * s.sn + y0[i] * s.sh + x0[i] * s.sw);
    if constexpr (!kNoPadding) {
      inside &= y0[i] >= 0 && x0[i] >= 0 && y0[i] + reach_y < s.h && x0[i] + reach_x < s.w;
    }
    if (is_constant<Pixels>::value || first + i + 1 < pixels) next(s, p);
  }
  tile.clear();
  constexpr isize kMost = 2 * kTilePieceK;
  Pieces<R, NV, kMost> pieces;
  const auto add = [&](const float* const (&a)[R], auto length) NACRE_LAMBDA {
    if (is_constant<decltype(s.kh)>::value && s.kh * s.kw * s.ic <= kMost) {
      tile.add(a, C<1>{}, b, C<NR>{}, length, ahead);
    } else {
      pieces.add(tile, a, C<1>{}, b, C<NR>{}, length, ahead);
    }
    b += length * NR;
  };
  // Inside, where the taps of a row lie side by side in memory, they are one long run.
  if constexpr (!never_equal<decltype(s.sw), decltype(s.ic)> && !never_equal<decltype(s.dilation_w), C<1>>) {
    if ((kNoPadding || inside) && s.sw == s.ic && s.dilation_w == 1) {
      NACRE_ROLLED for (isize ky = 0; ky < s.kh; ++ky) {
        const float* a[R];
        NACRE_UNROLL for (int i = 0; i < R; ++i) a[i] = base[i] + ky * s.dilation_h * s.sh;
        add(a, times(s.kw, s.ic));
      }
      pieces.finish(tile);
      return;
    }
  }
  NACRE_ROLLED for (isize ky = 0; ky < s.kh; ++ky) {
    NACRE_ROLLED for (isize kx = 0; kx < s.kw; ++kx) {
      const isize dy = ky * s.dilation_h, dx = kx * s.dilation_w, tap = dy * s.sh + dx * s.sw;
      const float* a[R];
      NACRE_UNROLL for (int i = 0; i < R; ++i) {
        const isize y = y0[i] + dy, x = x0[i] + dx;
        const bool in_image = kNoPadding || (static_cast<uint64_t>(y) < static_cast<uint64_t>(isize{s.h}) &&
                              static_cast<uint64_t>(x) < static_cast<uint64_t>(isize{s.w}));
        a[i] = in_image ? base[i] + tap : zeros;
      }
      add(a, s.ic);
    }
  }
  pieces.finish(tile);
}

template <int NV, class S, class Epilogue>
NACRE_INLINE void conv_group(const S& s, isize group, const float* __restrict in, const float* __restrict weights,
                             const float* __restrict zeros, int thread, int threads, Epilogue epilogue) {
  constexpr int MR = tile_rows(NV), NR = NV * VL;
  const auto pixels = times(times(s.batch, s.oh), s.ow);
  const isize k = s.kh * s.kw * s.ic, panels = ceil_div(s.oc, NR);
  const RowTiles tiles = row_tiles(pixels, MR);
  const isize tile_floats = MR * s.ic * imin(s.stride_h, s.kh) * imin(s.stride_w, s.kw);
  const Part part = split_grid(tiles.count, panels, tile_floats * 4, NR * k * 4, thread, threads);
  const isize block = imax(1, kBlockFloats / imax(1, tile_floats));
  NACRE_ROLLED for (isize t = part.tiles.begin; t < part.tiles.end; t += block) {
    const isize t_end = imin(part.tiles.end, t + block);
    NACRE_ROLLED for (isize panel = part.panels.begin; panel < part.panels.end; ++panel) {
      const float* b = weights + (group * panels + panel) * k * NR;
      const isize column = panel * NR, c = group * s.oc + column;
      Ahead ahead = ahead_of(b + k * NR, k * NR, t_end - t, k);
      for_tiles<MR, NV>(
          pixels, t, t_end, !is_long<Epilogue> && column + NR <= s.oc,
          [&]<int R>(Tile<R, NV>& tile, isize first)
              NACRE_LAMBDA { conv_tile(tile, s, pixels, in + group * s.ic, zeros, b, first, ahead); },
          [&](const auto& tile, isize first) NACRE_LAMBDA { finish_pixels(tile, s, first, c, epilogue); },
          [&](isize rows, isize first, const float* values)
              NACRE_LAMBDA { finish_pixels<NV>(rows, values, s, first, c, s.oc - column, epilogue); });
    }
  }
}

template <int NV, class S, class Epilogue>
NACRE_INLINE void conv_groups(const S& s, const float* in, const float* weights, const float* zeros, int thread,
                              int threads, Epilogue epilogue) {
  NACRE_ROLLED for (isize g = 0; g < s.groups; ++g) {
    conv_group<NV>(s, g, in, weights, zeros, thread, threads, epilogue);
  }
}

NACRE_INLINE void clear_row(float* row, isize count) {
  NACRE_ROLLED for (isize i = 0; i < count; i += VL) store(row + i, splat(0.f));
}

}  // namespace detail

template <int NV, class S, class Epilogue>
NACRE_INLINE void conv(const S& s, const float* in, const float* weights, float* scratch, int thread, int threads,
                       Epilogue epilogue) {
  detail::clear_row(scratch, conv_scratch(s.ic));
  detail::conv_groups<NV>(s, in, weights, scratch, thread, threads, epilogue);
}

// ---- input with channels apart ---------------------------------------------------------------------------------------------

// Output rows that are made from one band of copied input rows.
NACRE_INLINE constexpr isize planar_band(isize ic, isize kh, isize kw, isize stride_h, isize stride_w, isize dilation_h,
                                       isize dilation_w, isize oh, isize ow) {
  const isize row = ((ow - 1) * stride_w + (kw - 1) * dilation_w + 1) * ic;
  const isize rows = NACRE_L2_BYTES / 4 / 8 / imax(1, row);
  const isize most = imax(1, imin(16, (rows - (kh - 1) * dilation_h - 1) / imax(1, stride_h) + 1));
  // Bands of one height, if that costs little.
  for (isize band = imin(most, oh); 2 * band > most; --band) {
    if (oh % band == 0) return band;
  }
  return most;
}
NACRE_INLINE constexpr isize conv_planar_scratch(isize ic, isize kh, isize kw, isize stride_h, isize stride_w, isize dilation_h,
                                               isize dilation_w, isize oh, isize ow, isize rows = 0) {
  const isize band = rows > 0 ? rows : planar_band(ic, kh, kw, stride_h, stride_w, dilation_h, dilation_w, oh, ow);
  return round_up(((ow - 1) * stride_w + (kw - 1) * dilation_w + 1) * ic *
                      ((band - 1) * stride_h + (kh - 1) * dilation_h + 1),
                  16) +
         16;
}

namespace detail {

// The height of all bands, if it is one and known; else 0.
template <isize Rows, class B, class H, class W, class IC, class OC, class G, class KH, class KW, class StrideH, class StrideW,
          class PadH, class PadW, class DilationH, class DilationW, class OH, class OW, class... Rest>
NACRE_INLINE constexpr auto whole_bands(const Conv<B, H, W, IC, OC, G, KH, KW, StrideH, StrideW, PadH, PadW, DilationH,
                                                   DilationW, OH, OW, Rest...>&) {
  if constexpr (all_constant<IC, KH, KW, StrideH, StrideW, DilationH, DilationW, OH, OW>) {
    constexpr isize band = Rows > 0 ? Rows : planar_band(IC::value, KH::value, KW::value, StrideH::value, StrideW::value, DilationH::value,
                                     DilationW::value, OH::value, OW::value);
    return C<OH::value % band == 0 ? band : 0>{};
  } else {
    return C<0>{};
  }
}

}  // namespace detail

template <int NV, isize Rows = 0, class S, class Epilogue>
NACRE_INLINE void conv_planar(const S& s, isize sc, const float* __restrict in, const float* __restrict weights,
                              float* __restrict scratch, int thread, int threads, Epilogue epilogue) {
  const isize band = Rows > 0 ? Rows : planar_band(s.ic, s.kh, s.kw, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w, s.oh, s.ow);
  const auto width = detail::reach(s.ow, s.stride_w, s.kw, s.dilation_w);
  const auto pitch = detail::times(width, s.ic);
  const isize bands = ceil_div(s.oh, band);
  const Range mine = split(s.batch * bands, thread, threads);
  NACRE_ROLLED for (isize i = mine.begin; i < mine.end; ++i) {
    const isize n = i / bands, y_begin = i % bands * band, y_end = imin(s.oh, y_begin + band);
    const isize rows = (y_end - y_begin - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
    const isize top = y_begin * s.stride_h - s.pad_h;
    const isize left = imin(s.pad_w, width), right = imax(left, imin(width, s.w + s.pad_w));
    NACRE_ROLLED for (isize r = 0; r < rows; ++r) {
      float* to = scratch + r * pitch;
      const isize y = top + r;
      if (y < 0 || y >= s.h) {
        NACRE_ROLLED for (isize x = 0; x < pitch; ++x) to[x] = 0.f;
        continue;
      }
      NACRE_ROLLED for (isize x = 0; x < left * s.ic; ++x) to[x] = 0.f;
      NACRE_ROLLED for (isize x = right * s.ic; x < pitch; ++x) to[x] = 0.f;
      NACRE_ROLLED for (isize c = 0; c < s.ic; ++c) {
        const float* from = in + n * s.sn + c * sc + y * s.sh - s.pad_w * s.sw;
        NACRE_UNROLL4 for (isize x = left; x < right; ++x) to[x * s.ic + c] = from[x * s.sw];
      }
    }
    auto run = [&](auto height) NACRE_LAMBDA {
      const Conv whole{.batch = C<1>{},
                       .h = rows,
                       .w = width,
                       .ic = s.ic,
                       .oc = s.oc,
                       .groups = C<1>{},
                       .kh = s.kh,
                       .kw = s.kw,
                       .stride_h = s.stride_h,
                       .stride_w = s.stride_w,
                       .pad_h = C<0>{},
                       .pad_w = C<0>{},
                       .dilation_h = s.dilation_h,
                       .dilation_w = s.dilation_w,
                       .oh = height,
                       .ow = s.ow,
                       .sn = isize{0},
                       .sh = pitch,
                       .sw = s.ic};
      detail::conv_groups<NV>(whole, scratch, weights, scratch, 0, 1,
                              as_long_as<Epilogue>([&](isize, isize y, isize x, isize c, vf value, int lanes)
                                                       NACRE_LAMBDA { epilogue(n, y_begin + y, x, c, value, lanes); }));
    };
    using Whole = decltype(detail::whole_bands<Rows>(s));
    if constexpr (Whole::value > 0) {
      run(Whole{});
    } else {
      run(isize{y_end - y_begin});
    }
  }
}

// ---- transposed ------------------------------------------------------------------------------------------------------------

namespace detail {

template <int RY, int RX, int NV, class S, class Epilogue>
NACRE_INLINE void transposed_phase(const S& s, const float* in, const float* weights, const float* zeros, int thread,
                                   int threads, Epilogue epilogue) {
  constexpr isize kStrideH = decltype(s.stride_h)::value, kStrideW = decltype(s.stride_w)::value;
  constexpr isize kTapsY = imax(0, ceil_div(decltype(s.kh)::value - RY, kStrideH));
  constexpr isize kTapsX = imax(0, ceil_div(decltype(s.kw)::value - RX, kStrideW));
  // Output row y = q * stride + RY - pad for q in [q0, q1).
  auto first = [](isize pad, isize r, isize stride) NACRE_LAMBDA { return pad > r ? ceil_div(pad - r, stride) : 0; };
  auto end = [](isize size, isize pad, isize r, isize stride) NACRE_LAMBDA {
    return size + pad > r ? ceil_div(size + pad - r, stride) : 0;
  };
  const isize q0 = first(s.pad_h, RY, kStrideH), q1 = end(s.oh, s.pad_h, RY, kStrideH);
  const isize p0 = first(s.pad_w, RX, kStrideW), p1 = end(s.ow, s.pad_w, RX, kStrideW);
  if (q1 <= q0 || p1 <= p0) return;
  const isize y0 = q0 * kStrideH + RY - s.pad_h, x0 = p0 * kStrideW + RX - s.pad_w;
  const Conv phase{.batch = s.batch,
                   .h = s.h,
                   .w = s.w,
                   .ic = s.ic,
                   .oc = s.oc,
                   .groups = s.groups,
                   .kh = C<kTapsY>{},
                   .kw = C<kTapsX>{},
                   .stride_h = C<1>{},
                   .stride_w = C<1>{},
                   .pad_h = kTapsY - 1 - q0,
                   .pad_w = kTapsX - 1 - p0,
                   .dilation_h = C<1>{},
                   .dilation_w = C<1>{},
                   .oh = q1 - q0,
                   .ow = p1 - p0,
                   .sn = s.sn,
                   .sh = s.sh,
                   .sw = s.sw};
  conv_groups<NV>(phase, in, weights, zeros, thread, threads,
                  [&](isize n, isize y, isize x, isize c, vf value, int lanes) NACRE_LAMBDA {
                    epilogue(n, y0 + y * kStrideH, x0 + x * kStrideW, c, value, lanes);
                  });
}

template <int Phase, int NV, class S, class Epilogue>
NACRE_INLINE void transposed_phases(const S& s, const float* in, const float* weights, const float* zeros, int thread,
                                    int threads, Epilogue epilogue) {
  constexpr isize kStrideH = decltype(s.stride_h)::value, kStrideW = decltype(s.stride_w)::value;
  if constexpr (Phase < kStrideH * kStrideW) {
    constexpr isize kRY = Phase / kStrideW, kRX = Phase % kStrideW;
    transposed_phase<kRY, kRX, NV>(s, in, weights, zeros, thread, threads, epilogue);
    constexpr isize kTaps = imax(0, ceil_div(decltype(s.kh)::value - kRY, kStrideH)) *
                          imax(0, ceil_div(decltype(s.kw)::value - kRX, kStrideW));
    const isize size = s.groups * ceil_div(s.oc, NV * VL) * kTaps * s.ic * (NV * VL);
    transposed_phases<Phase + 1, NV>(s, in, weights + size, zeros, thread, threads, epilogue);
  }
}

// Whether each result is made of one pixel: steps as long as the filter, and nothing beyond.
template <class S>
inline constexpr bool takes_one_pixel = false;
template <class B, isize H, isize W, class IC, class OC, isize KH, isize KW, isize OH, isize OW, class... Strides>
inline constexpr bool takes_one_pixel<Conv<B, C<H>, C<W>, IC, OC, C<1>, C<KH>, C<KW>, C<KH>, C<KW>, C<0>, C<0>, C<1>, C<1>, C<OH>, C<OW>, Strides...>> =
    OH == H * KH && OW == W * KW;

// Then the phases are columns of one product over the pixels of the image: as many of them as registers hold share each pixel.
template <int NV, class S, class Epilogue>
NACRE_INLINE void transposed_product(const S& s, const float* __restrict in, const float* __restrict weights, int thread, int threads,
                                     Epilogue epilogue) {
  constexpr int kStrideH = decltype(s.stride_h)::value, kStrideW = decltype(s.stride_w)::value, kPhases = kStrideH * kStrideW;
  constexpr int kMost = kMaxNV / NV, kShared = kMost >= 4 && kPhases % 4 == 0 ? 4 : kMost >= 2 && kPhases % 2 == 0 ? 2 : 1;
  constexpr int kVectors = kShared * NV, MR = tile_rows(kVectors), NR = NV * VL;
  const Conv image{.batch = s.batch, .h = s.h, .w = s.w, .ic = s.ic, .oc = s.oc, .groups = C<1>{}, .kh = C<1>{}, .kw = C<1>{}, .stride_h = C<1>{},
                   .stride_w = C<1>{}, .pad_h = C<0>{}, .pad_w = C<0>{}, .dilation_h = C<1>{}, .dilation_w = C<1>{}, .oh = s.h, .ow = s.w, .sn = s.sn,
                   .sh = s.sh, .sw = s.sw};
  const auto pixels = times(times(s.batch, s.h), s.w);
  const isize panels = ceil_div(s.oc, NR), size = panels * s.ic * NR;
  const Range mine = split(row_tiles(pixels, MR).count, thread, threads);
  // Few enough tiles that what they read, and the rows of results that they write between each other's, stay in cache.
  const isize block = imax(1, kBlockFloats / 2 / (MR * (s.ic + kPhases * s.oc)));
  NACRE_ROLLED for (isize t = mine.begin; t < mine.end; t += block) {
    const isize t_end = imin(mine.end, t + block);
    NACRE_ROLLED for (isize phase = 0; phase < kPhases; phase += kShared) {
      NACRE_ROLLED for (isize panel = 0; panel < panels; ++panel) {
        const float* b = weights + phase * size + panel * s.ic * NR;
        const auto result = [&](const Pixel& p, int q, isize lane, vf value, int lanes) NACRE_LAMBDA {
          const isize own = phase + q;
          epilogue(p.n, p.y * kStrideH + own / kStrideW, p.x * kStrideW + own % kStrideW, panel * NR + lane, value, lanes);
        };
        for_tiles<MR, kVectors>(
            pixels, t, t_end, !is_long<Epilogue> && (panel + 1) * NR <= s.oc,
            [&]<int R>(Tile<R, kVectors>& tile, isize first) NACRE_LAMBDA {
              const float* a[R];
              Pixel p = pixel_at(image, first);
              NACRE_UNROLL for (int i = 0; i < R; ++i) {
                a[i] = in + (p.n * s.sn + p.y * s.sh + p.x * s.sw);
                if (is_constant<decltype(pixels)>::value || first + i + 1 < pixels) next(image, p);
              }
              NACRE_ALIGNED float sum[R * kVectors * VL];
              NACRE_ROLLED for (isize piece = 0; piece < s.ic; piece += kTilePieceK) {
                if (piece > 0) tile.write(sum);
                tile.clear();
                NACRE_ROLLED for (isize l = piece; l < imin(s.ic, piece + kTilePieceK); ++l) {
                  vf bv[kVectors];
                  NACRE_UNROLL for (int q = 0; q < kShared; ++q) {
                    NACRE_UNROLL for (int v = 0; v < NV; ++v) bv[q * NV + v] = load(b + q * size + l * NR + v * VL);
                  }
                  NACRE_UNROLL for (int i = 0; i < R; ++i) {
                    const vf av = splat(a[i][l]);
                    NACRE_UNROLL for (int q = 0; q < kVectors; ++q) tile.acc[i][q] = fma(av, bv[q], tile.acc[i][q]);
                  }
                }
                if (piece > 0) tile.add(sum);
              }
            },
            [&]<int R>(const Tile<R, kVectors>& tile, isize first) NACRE_LAMBDA {
              Pixel p = pixel_at(image, first);
              NACRE_UNROLL for (int i = 0; i < R; ++i) {
                NACRE_UNROLL for (int q = 0; q < kVectors; ++q) result(p, q / NV, q % NV * VL, tile.acc[i][q], VL);
                next(image, p);
              }
            },
            [&](isize rows, isize first, const float* values) NACRE_LAMBDA {
              Pixel p = pixel_at(image, first);
              const isize width = imin(NR, s.oc - panel * NR);
              NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
                NACRE_ROLLED for (int q = 0; q < kShared; ++q) {
                  NACRE_ROLLED for (isize v = 0; v < width; v += VL) {
                    result(p, q, v, load(values + (i * kVectors + q * NV) * VL + v), static_cast<int>(imin(VL, width - v)));
                  }
                }
                next(image, p);
              }
            });
      }
    }
  }
}

}  // namespace detail

template <int NV, class S, class Epilogue>
NACRE_INLINE void conv_transposed(const S& s, const float* in, const float* weights, float* scratch, int thread,
                                  int threads, Epilogue epilogue) {
  if constexpr (detail::takes_one_pixel<S>) {
    detail::transposed_product<NV>(s, in, weights, thread, threads, epilogue);
    return;
  }
  detail::clear_row(scratch, conv_scratch(s.ic));
  detail::transposed_phases<0, NV>(s, in, weights, scratch, thread, threads, epilogue);
}

}  // namespace nk
#endif
