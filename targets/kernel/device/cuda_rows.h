// Work on whole rows: sorting, Fourier transforms, copies of bytes.
#ifndef NACRE_DEVICE_ROWS_H
#define NACRE_DEVICE_ROWS_H
#include "nacre/cuda_math.h"
#include "nacre/cuda_team.h"

namespace nk {

// Stable, NaN the largest. Runs of twice the length are sorted after each pass: an element's place is its place in its own run
// and the number of those of the other run that come before it.
template <bool kDescending, class T>
NACRE_INLINE void sort_rows(const T* in, T* values, i64* places, i64 rows, i64 n, i64* scratch) {
  i64* const spare = scratch + i64(blockIdx.x) * n;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const x = in + row * n;
    i64 *from = places + row * n, *to = spare;
    const auto before = [&](i64 i, i64 j) {
      const T a = x[i], b = x[j];
      if constexpr (kDescending) return a > b || (a != a && b == b);
      return a < b || (b != b && a == a);
    };
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) from[i] = i;
    __syncthreads();
    for (i64 run = 1; run < n; run *= 2) {
      for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        const i64 start = i / (2 * run) * (2 * run), middle = imin(n, start + run), end = imin(n, start + 2 * run);
        const bool left = i < middle;
        const i64 first = left ? middle : start, item = from[i];
        i64 low = first, high = left ? end : middle;
        while (low < high) {
          const i64 half = (low + high) / 2;
          const bool goes_before = left ? before(from[half], item) : !before(item, from[half]);
          if (goes_before)
            low = half + 1;
          else
            high = half;
        }
        to[start + (i - (left ? start : middle)) + (low - first)] = item;
      }
      __syncthreads();
      i64* const swap = from;
      from = to;
      to = swap;
    }
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
      const i64 item = from[i];
      values[row * n + i] = x[item];
      if (from != places + row * n) places[row * n + i] = item;
    }
    __syncthreads();
  }
}

// The discrete Fourier transform by its definition, a warp for each result; see prim.fft.
template <class T, bool kInverse>
NACRE_INLINE void fourier_rows(const T* re, const T* im, const T* cosines, const T* sines, T* to_re, T* to_im, i64 n, i64 from_size, i64 to_size,
                               i64 rows) {
  const Team<32> team;
  for (i64 at = team.index(); at < rows * to_size; at += team.count()) {
    const i64 row = at / to_size, k = at % to_size;
    double sum_re = 0, sum_im = 0;
    for (i64 i = team.rank(); i < n; i += team.size()) {
      const bool mirrored = i >= from_size;
      const i64 from = row * from_size + (mirrored ? n - i : i), turn = i * k % n;
      const double x = re[from];
      double y = im ? static_cast<double>(im[from]) : 0;
      if (mirrored) y = -y;
      if (!to_im && (i == 0 || 2 * i == n)) y = 0;
      const double c = cosines[turn], s = kInverse ? sines[turn] : -sines[turn];
      sum_re += x * c - y * s;
      sum_im += x * s + y * c;
    }
    const auto add = [](double a, double b) { return a + b; };
    sum_re = team.fold(sum_re, add);
    sum_im = team.fold(sum_im, add);
    if (team.rank()) continue;
    to_re[at] = static_cast<T>(sum_re);
    if (to_im) to_im[at] = static_cast<T>(sum_im);
  }
}

NACRE_INLINE void copy_bytes(void* to, const void* from, i64 size) {
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += i64(gridDim.x) * blockDim.x)
    static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
}

}  // namespace nk
#endif
