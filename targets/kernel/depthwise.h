// Depthwise convolution over channels-last images: one filter per channel, channels in the vector lanes.
//
//   depthwise(Depthwise{.batch, .h, .w, .c, .kh, .kw, .stride_h, .stride_w, .pad_h, .pad_w, .dilation_h, .dilation_w,
//                       .oh, .ow, .sn, .sh, .sw}, const float* in, const float* weights, int thread, int threads, epilogue)
//     in        element (n, y, x, c) at in[n * sn + y * sh + x * sw + c]
//     weights   packed on the host: [kh][kw][round_up(c, VL)], zeros beyond c, 64-byte aligned
//   epilogue(isize n, isize y, isize x, isize c, vf value, int lanes)   as in conv.h
//
// Several output columns at once share the loads of weights (and, for unit stride and small kernels, of the image).
// Columns whose taps leave the image are computed one by one with the taps that are inside.
#ifndef NACRE_KERNEL_DEPTHWISE_H
#define NACRE_KERNEL_DEPTHWISE_H
#include "nacre/vec.h"
#include "nacre/vfp.h"

namespace nk {

template <class Batch, class H, class W, class Channels, class KH, class KW, class StrideH, class StrideW, class PadH,
          class PadW, class DilationH, class DilationW, class OH, class OW, class SN, class SH, class SW>
struct Depthwise {
  Batch batch;
  H h;
  W w;
  Channels c;
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

namespace detail {

template <class S>
inline constexpr bool small_kernel = false;
template <class S>
  requires requires { S::value; }
inline constexpr bool small_kernel<S> = S::value <= 3;

// Output columns [x, x + T) of row y, all taps inside horizontally; rows [ky_begin, ky_end) of the filter.
template <int T, class S, class Load>
NACRE_INLINE void depthwise_columns(const S& s, vf (&acc)[T], const float* __restrict row, const float* __restrict w,
                                    isize ky_begin, isize ky_end, isize pitch, Load load_lanes) {
  NACRE_UNROLL for (int t = 0; t < T; ++t) acc[t] = splat(0.f);
  NACRE_ROLLED for (isize ky = ky_begin; ky < ky_end; ++ky) {
    const float* __restrict p = row + ky * s.dilation_h * s.sh;
    const float* __restrict f = w + ky * s.kw * pitch;
    if constexpr (small_kernel<decltype(s.kw)>) {
      NACRE_UNROLL for (int kx = 0; kx < decltype(s.kw)::value; ++kx) {
        const vf fv = load(f + kx * pitch);
        NACRE_UNROLL for (int t = 0; t < T; ++t) {
          acc[t] = fma(load_lanes(p + (t * s.stride_w + kx * s.dilation_w) * s.sw), fv, acc[t]);
        }
      }
    } else {
      NACRE_ROLLED for (isize kx = 0; kx < s.kw; ++kx) {
        const vf fv = load(f + kx * pitch);
        NACRE_UNROLL for (int t = 0; t < T; ++t) {
          acc[t] = fma(load_lanes(p + (t * s.stride_w + kx * s.dilation_w) * s.sw), fv, acc[t]);
        }
      }
    }
  }
}

#if NACRE_VFP
// Filters of three columns whose padding is one column at most, in images of constant size with whole vectors of channels; every
// result has a tap in the image.
template <class S>
inline constexpr bool takes_vfp_taps = false;
template <class B, isize H, isize W, isize Channels, isize KH, isize StrideH, isize StrideW, isize PadH, isize PadW, isize OH, isize OW, class SN, class SH,
          class SW>
inline constexpr bool takes_vfp_taps<Depthwise<B, C<H>, C<W>, C<Channels>, C<KH>, C<3>, C<StrideH>, C<StrideW>, C<PadH>, C<PadW>, C<1>, C<1>, C<OH>, C<OW>,
                                               SN, SH, SW>> =
    Channels % VL == 0 && StrideW <= 2 && PadW <= 1 && (OW - 1) * StrideW - PadW + 2 <= W && PadH < KH && (OH - 1) * StrideH - PadH < H;

// Row y of image n: kVfpColumns results at a time, then the rest of the row.
template <class S, class Epilogue>
NACRE_INLINE void depthwise_row(const S& s, isize n, isize y, const float* image, const float* weights, isize ky_begin, isize ky_end, Epilogue epilogue) {
  constexpr isize kStride = decltype(s.stride_w)::value, kPad = decltype(s.pad_w)::value, kWidth = decltype(s.ow)::value;
  constexpr bool kLastOutside = (kWidth - 1) * kStride - kPad + 2 == decltype(s.w)::value;
  const auto columns = [&](auto count, isize x) NACRE_LAMBDA {
    constexpr int T = decltype(count)::value;
    const float* p = image + ky_begin * s.sh + (x * kStride - kPad) * s.sw;
    const float* w = weights + ky_begin * 3 * s.c;
    NACRE_ROLLED for (isize c = 0; c < s.c; c += VL) {
      vf acc[T];
      vfp_taps<kStride>(acc, p + c, w + c, ky_end - ky_begin, 4 * s.c, 4 * s.sw, 4 * s.sh, kPad && x == 0, kLastOutside && x + T == kWidth);
      NACRE_UNROLL for (int t = 0; t < T; ++t) epilogue(n, y, x + t, c, acc[t], VL);
    }
  };
  constexpr isize kRest = kWidth % kVfpColumns, kWhole = kWidth - kRest;
  NACRE_ROLLED for (isize x = 0; x < kWhole; x += kVfpColumns) columns(C<kVfpColumns>{}, x);
  if constexpr (kRest > 0) columns(C<kRest>{}, kWhole);
}
#endif

}  // namespace detail

template <class S, class Epilogue>
NACRE_INLINE void depthwise(const S& s, const float* __restrict in, const float* __restrict weights, int thread,
                            int threads, Epilogue epilogue) {
  constexpr int T = detail::small_kernel<decltype(s.kw)> ? (kRegisters == 32 ? 8 : 4) : (kRegisters <= 8 ? 4 : 8);
  const isize pitch = round_up(s.c, VL);
  const isize reach_x = (s.kw - 1) * s.dilation_w;
  // Columns [x_begin, x_end) have all their taps inside.
  const isize x_begin = imin(s.ow, ceil_div(s.pad_w, s.stride_w));
  const isize last = s.w - 1 - reach_x + s.pad_w;
  const isize x_end = imax(x_begin, imin(s.ow, last < 0 ? 0 : last / s.stride_w + 1));
  const Range rows = split(s.batch * s.oh, thread, threads);
  const isize whole_c = s.c / VL * VL;

  NACRE_ROLLED for (isize row = rows.begin; row < rows.end; ++row) {
    const isize n = row / s.oh, y = row % s.oh;
    const isize y0 = y * s.stride_h - s.pad_h;
    const isize ky_begin = y0 < 0 ? imin(s.kh, ceil_div(-y0, s.dilation_h)) : 0;
    const isize ky_end = imax(ky_begin, imin(s.kh, s.h > y0 ? ceil_div(s.h - y0, s.dilation_h) : 0));
    const float* image = in + n * s.sn + y0 * s.sh;
#if NACRE_VFP
    if constexpr (detail::takes_vfp_taps<S>) {
      detail::depthwise_row(s, n, y, image, weights, ky_begin, ky_end, epilogue);
      continue;
    }
#endif
    // One column at the image's edge, with the filter columns that are inside.
    auto edge = [&](isize x) NACRE_LAMBDA {
      const isize x0 = x * s.stride_w - s.pad_w;
      const isize kx_begin = x0 < 0 ? imin(s.kw, ceil_div(-x0, s.dilation_w)) : 0;
      const isize kx_end = imin(s.kw, s.w > x0 ? ceil_div(s.w - x0, s.dilation_w) : 0);
      NACRE_ROLLED for (isize c = 0; c < s.c; c += VL) {
        const int lanes = static_cast<int>(imin(VL, s.c - c));
        vf acc = splat(0.f);
        NACRE_ROLLED for (isize ky = ky_begin; ky < ky_end; ++ky) {
          NACRE_ROLLED for (isize kx = kx_begin; kx < kx_end; ++kx) {
            const float* p = image + ky * s.dilation_h * s.sh + (x0 + kx * s.dilation_w) * s.sw + c;
            acc = fma(lanes == VL ? load(p) : load_part(p, lanes), load(weights + (ky * s.kw + kx) * pitch + c), acc);
          }
        }
        epilogue(n, y, x, c, acc, lanes);
      }
    };
    auto inner = [&](auto columns, isize x) NACRE_LAMBDA {
      constexpr int kColumns = decltype(columns)::value;
      const float* p = image + (x * s.stride_w - s.pad_w) * s.sw;
      vf acc[kColumns];
      NACRE_ROLLED for (isize c = 0; c < whole_c; c += VL) {
        detail::depthwise_columns(s, acc, p + c, weights + c, ky_begin, ky_end, pitch,
                                  [](const float* q) NACRE_LAMBDA { return load(q); });
        if constexpr (is_long<Epilogue>) {
          NACRE_ALIGNED float out[kColumns * VL];
          NACRE_UNROLL for (int t = 0; t < kColumns; ++t) store(out + t * VL, acc[t]);
          NACRE_ROLLED for (int t = 0; t < kColumns; ++t) epilogue(n, y, x + t, c, load(out + t * VL), VL);
        } else {
          NACRE_UNROLL for (int t = 0; t < kColumns; ++t) epilogue(n, y, x + t, c, acc[t], VL);
        }
      }
      if (whole_c < s.c) {
        const int lanes = static_cast<int>(s.c - whole_c);
        detail::depthwise_columns(s, acc, p + whole_c, weights + whole_c, ky_begin, ky_end, pitch,
                                  [lanes](const float* q) NACRE_LAMBDA { return load_part(q, lanes); });
        NACRE_UNROLL for (int t = 0; t < kColumns; ++t) epilogue(n, y, x + t, whole_c, acc[t], lanes);
      }
    };
    NACRE_ROLLED for (isize x = 0; x < x_begin; ++x) edge(x);
    isize x = x_begin;
    NACRE_ROLLED for (; x + T <= x_end; x += T) inner(C<T>{}, x);
    NACRE_ROLLED for (; x < x_end; ++x) inner(C<1>{}, x);
    NACRE_ROLLED for (x = x_end; x < s.ow; ++x) edge(x);
  }
}

}  // namespace nk
#endif
