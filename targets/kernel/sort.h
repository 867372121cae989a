// Stable sorting of rows, with the positions that the elements came from.
//
//   sort_row<kDescending>(const T* in, isize n, T* values, i64* indices, i64* scratch)
//     values, indices, scratch: n elements each. NaN is the largest; equal elements keep their order.
//   BFloat16     for T: the bits of one, ordered as the number
#ifndef NACRE_KERNEL_SORT_H
#define NACRE_KERNEL_SORT_H
#include "nacre/base.h"

namespace nk {

struct BFloat16 {
  uint16_t bits;
  NACRE_MEMBER operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};

// Merge sort, bottom up: after each pass, runs of twice the length are sorted.
template <bool kDescending, class T>
NACRE_INLINE void sort_row(const T* __restrict in, isize n, T* __restrict values, i64* indices, i64* scratch) {
  auto before = [&](i64 i, i64 j) NACRE_LAMBDA {
    const T a = in[i], b = in[j];
    if constexpr (kDescending) return a > b || (a != a && b == b);
    return a < b || (b != b && a == a);
  };
  i64* from = indices;
  i64* to = scratch;
  NACRE_ROLLED for (isize i = 0; i < n; ++i) from[i] = i;
  NACRE_ROLLED for (isize run = 1; run < n; run *= 2) {
    NACRE_ROLLED for (isize start = 0; start < n; start += 2 * run) {
      const isize middle = imin(n, start + run), end = imin(n, start + 2 * run);
      isize left = start, right = middle;
      NACRE_ROLLED for (isize out = start; out < end; ++out) {
        const bool take_right = left == middle || (right < end && before(from[right], from[left]));
        to[out] = from[take_right ? right++ : left++];
      }
    }
    i64* swap = from;
    from = to;
    to = swap;
  }
  NACRE_ROLLED for (isize i = 0; i < n; ++i) {
    const i64 index = from[i];
    indices[i] = index;
    values[i] = in[index];
  }
}

}  // namespace nk
#endif
