// Discrete Fourier transforms of rows, of any length.
//
//   fft_rows<kLanes>(FftRows<T>, bool inverse, Range blocks, void* scratch)
//     kLanes   VL rows (of float) side by side in the lanes of vectors; blocks counts VL rows. Else a row at a time.
//     scratch  4 * n elements for each row that is transformed at once, aligned to 64 bytes
//
// Stockham's algorithm: a pass for each prime factor of n (two factors 2 together) reads one array and writes the other,
// and the last leaves the result in order. Passes of 2, 3, 4 and 5 are written out; another factor p costs p^2
// multiplications for p elements, which the row-at-a-time form sums in double. Error: about eps * sqrt(log2 n) of the
// result's root mean square.
#ifndef NACRE_KERNEL_FFT_H
#define NACRE_KERNEL_FFT_H
#include "nacre/loops.h"

namespace nk {

template <class T>
struct FftRows {
  const T* re;       // rows of `from` elements
  const T* im;       // null: a real signal
  const T* cosine;   // of 2 pi k / n for k in [0, n)
  const T* sine;
  T* to_re;          // rows of `to` elements
  T* to_im;          // null: the rows in are the first half of a spectrum, and the result is real
  isize n, from, to, rows;
};

namespace fft_detail {

// One element of each row: VL of them, or one.
template <class V, class T>
struct Pass {
  const V *xr, *xi;
  V *yr, *yi;
  const T *cosine, *sine;  // of the whole length
  isize n;                   // the length that is left; n * s is the whole
  isize s;                   // sequences side by side
  T sign;                  // of the sines: -1 forward, 1 inverse
};

template <class V>
struct Number {
  V re, im;
};
template <class V>
NACRE_INLINE Number<V> operator+(Number<V> a, Number<V> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
NACRE_INLINE Number<V> operator-(Number<V> a, Number<V> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class V, class T>
NACRE_INLINE Number<V> scaled(Number<V> a, T c) {
  return {a.re * V(c), a.im * V(c)};
}
// a times sign * i
template <class V, class T>
NACRE_INLINE Number<V> turned(Number<V> a, T sign) {
  return {V(-sign) * a.im, V(sign) * a.re};
}
template <class V, class T>
NACRE_INLINE Number<V> times(Number<V> a, T c, T s) {
  return {a.re * V(c) - a.im * V(s), a.re * V(s) + a.im * V(c)};
}

// The transform of p elements, in place.
template <class V, class T>
NACRE_INLINE void butterfly(Number<V> (&a)[2], T) {
  const Number<V> b = a[0] - a[1];
  a[0] = a[0] + a[1];
  a[1] = b;
}
template <class V, class T>
NACRE_INLINE void butterfly(Number<V> (&a)[3], T sign) {
  const T h = T(0.866025403784438646763723170752936);
  const Number<V> sum = a[1] + a[2], side = turned(scaled(a[1] - a[2], h), sign);
  const Number<V> middle = a[0] - scaled(sum, T(0.5));
  a[0] = a[0] + sum;
  a[1] = middle + side;
  a[2] = middle - side;
}
template <class V, class T>
NACRE_INLINE void butterfly(Number<V> (&a)[4], T sign) {
  const Number<V> p = a[0] + a[2], q = a[0] - a[2], r = a[1] + a[3], t = turned(a[1] - a[3], sign);
  a[0] = p + r;
  a[1] = q + t;
  a[2] = p - r;
  a[3] = q - t;
}
template <class V, class T>
NACRE_INLINE void butterfly(Number<V> (&a)[5], T sign) {
  const T c1 = T(0.309016994374947424102293417182819), c2 = T(-0.809016994374947424102293417182819);
  const T s1 = T(0.951056516295153572116439333379382), s2 = T(0.587785252292473129168705954639073);
  const Number<V> p = a[1] + a[4], q = a[2] + a[3], u = a[1] - a[4], w = a[2] - a[3];
  const Number<V> m1 = a[0] + scaled(p, c1) + scaled(q, c2), m2 = a[0] + scaled(p, c2) + scaled(q, c1);
  const Number<V> n1 = turned(scaled(u, s1) + scaled(w, s2), sign), n2 = turned(scaled(u, s2) - scaled(w, s1), sign);
  a[0] = a[0] + p + q;
  a[1] = m1 + n1;
  a[2] = m2 + n2;
  a[3] = m2 - n2;
  a[4] = m1 - n1;
}

template <int P, class V, class T>
NACRE_INLINE void pass(const Pass<V, T>& w) {
  const isize m = w.n / P;
  NACRE_ROLLED for (isize j = 0; j < m; ++j) {
    T c[P], s[P];
    NACRE_UNROLL for (int k = 1; k < P; ++k) {
      c[k] = w.cosine[j * k * w.s];
      s[k] = w.sign * w.sine[j * k * w.s];
    }
    for (isize q = 0; q < w.s; ++q) {
      Number<V> a[P];
      NACRE_UNROLL for (int r = 0; r < P; ++r) a[r] = {w.xr[q + w.s * (j + m * r)], w.xi[q + w.s * (j + m * r)]};
      butterfly(a, w.sign);
      NACRE_UNROLL for (int k = 0; k < P; ++k) {
        const Number<V> b = k == 0 ? a[0] : times(a[k], c[k], s[k]);
        w.yr[q + w.s * (P * j + k)] = b.re;
        w.yi[q + w.s * (P * j + k)] = b.im;
      }
    }
  }
}

template <class V>
struct sum_type {
  using type = V;
};
template <>
struct sum_type<float> {
  using type = double;
};

template <class V, class T>
NACRE_INLINE void general_pass(const Pass<V, T>& w, isize p) {
  using S = typename sum_type<V>::type;
  const isize m = w.n / p, whole = w.n * w.s;
  NACRE_ROLLED for (isize j = 0; j < m; ++j) {
    NACRE_ROLLED for (isize k = 0; k < p; ++k) {
      const T c = w.cosine[j * k * w.s], s = w.sign * w.sine[j * k * w.s];
      NACRE_ROLLED for (isize q = 0; q < w.s; ++q) {
        S re = S(0), im = S(0);
        isize turn = 0;
        NACRE_ROLLED for (isize r = 0; r < p; ++r) {
          const S xr = S(w.xr[q + w.s * (j + m * r)]), xi = S(w.xi[q + w.s * (j + m * r)]);
          const S tc = S(w.cosine[turn]), ts = S(w.sign * w.sine[turn]);
          re += xr * tc - xi * ts;
          im += xr * ts + xi * tc;
          turn += k * (whole / p);
          if (turn >= whole) turn -= whole;
        }
        const Number<V> b = times(Number<V>{V(re), V(im)}, c, s);
        w.yr[q + w.s * (p * j + k)] = b.re;
        w.yi[q + w.s * (p * j + k)] = b.im;
      }
    }
  }
}

// Transforms the arrays x with the help of y; true if the result is in y.
template <class V, class T>
NACRE_INLINE bool transform(V* xr, V* xi, V* yr, V* yi, const T* cosine, const T* sine, isize n, T sign) {
  bool in_y = false;
  Pass<V, T> w{xr, xi, yr, yi, cosine, sine, n, 1, sign};
  NACRE_ROLLED while (w.n > 1) {
    isize p = 0;
    if (w.n % 4 == 0) {
      pass<4>(w);
      p = 4;
    } else if (w.n % 2 == 0) {
      pass<2>(w);
      p = 2;
    } else if (w.n % 3 == 0) {
      pass<3>(w);
      p = 3;
    } else if (w.n % 5 == 0) {
      pass<5>(w);
      p = 5;
    } else {
      p = 7;
      NACRE_ROLLED while (p * p <= w.n && w.n % p != 0) p += 2;
      if (w.n % p != 0) p = w.n;
      general_pass(w, p);
    }
    w.n /= p;
    w.s *= p;
    in_y = !in_y;
    w.xr = in_y ? yr : xr;
    w.xi = in_y ? yi : xi;
    w.yr = in_y ? xr : yr;
    w.yi = in_y ? xi : yi;
  }
  return in_y;
}

// `count` rows of `length` elements become `length` vectors with a row in each lane; the other lanes are 0.
NACRE_INLINE void rows_to_lanes(const float* from, isize pitch, isize length, isize count, vf* to) {
  NACRE_ROLLED for (isize i = 0; i < length; i += VL) {
    vf r[VL];
    const int width = static_cast<int>(imin(VL, length - i));
    NACRE_UNROLL for (int l = 0; l < VL; ++l) {
      r[l] = splat(0.f);
      if (l < count) r[l] = width == VL ? load(from + l * pitch + i) : load_part(from + l * pitch + i, width);
    }
    transpose(r);
    NACRE_UNROLL for (int l = 0; l < VL; ++l) {
      if (l < width) to[i + l] = r[l];
    }
  }
}
NACRE_INLINE void lanes_to_rows(const vf* from, isize pitch, isize length, isize count, float* to) {
  NACRE_ROLLED for (isize i = 0; i < length; i += VL) {
    vf r[VL];
    const int width = static_cast<int>(imin(VL, length - i));
    NACRE_UNROLL for (int l = 0; l < VL; ++l) r[l] = l < width ? from[i + l] : splat(0.f);
    transpose(r);
    NACRE_UNROLL for (int l = 0; l < VL; ++l) {
      if (l < count) {
        if (width == VL)
          store(to + l * pitch + i, r[l]);
        else
          store_part(to + l * pitch + i, r[l], width);
      }
    }
  }
}

// One row, in the form of the lanes' functions.
template <class T>
NACRE_INLINE void rows_to_lanes(const T* from, isize, isize length, isize, T* to) {
  for (isize i = 0; i < length; ++i) to[i] = from[i];
}
template <class T>
NACRE_INLINE void lanes_to_rows(const T* from, isize, isize length, isize, T* to) {
  for (isize i = 0; i < length; ++i) to[i] = from[i];
}

template <class V, class T>
NACRE_INLINE void rows(const FftRows<T>& f, bool inverse, Range blocks, isize side, V* scratch) {
  V *xr = scratch, *xi = xr + f.n, *yr = xi + f.n, *yi = yr + f.n;
  NACRE_ROLLED for (isize block = blocks.begin; block < blocks.end; ++block) {
    const isize row = block * side, count = imin(side, f.rows - row);
    const isize used = imin(f.from, f.n);
    rows_to_lanes(f.re + row * f.from, f.from, used, count, xr);
    if (f.im)
      rows_to_lanes(f.im + row * f.from, f.from, used, count, xi);
    else
      for (isize i = 0; i < f.n; ++i) xi[i] = V(T(0));
    if (!f.to_im) {  // the other half of the spectrum mirrors the first
      xi[0] = V(T(0));
      if (f.n % 2 == 0) xi[f.n / 2] = V(T(0));
      for (isize i = f.n / 2 + 1; i < f.n; ++i) {
        xr[i] = xr[f.n - i];
        xi[i] = -xi[f.n - i];
      }
    }
    const bool in_y = transform(xr, xi, yr, yi, f.cosine, f.sine, f.n, T(inverse ? 1 : -1));
    lanes_to_rows(in_y ? yr : xr, f.to, f.to, count, f.to_re + row * f.to);
    if (f.to_im) lanes_to_rows(in_y ? yi : xi, f.to, f.to, count, f.to_im + row * f.to);
  }
}

}  // namespace fft_detail

template <bool kLanes, class T>
NACRE_INLINE void fft_rows(const FftRows<T>& f, bool inverse, Range blocks, void* scratch) {
  if constexpr (kLanes)
    fft_detail::rows<vf, T>(f, inverse, blocks, VL, static_cast<vf*>(scratch));
  else
    fft_detail::rows<T, T>(f, inverse, blocks, 1, static_cast<T*>(scratch));
}

}  // namespace nk
#endif
