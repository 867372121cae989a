// What generated loop nests are written with: loops over vectors with a tail, lane-wise loads, masks, checked indices.
//
//   for_vectors(begin, end, f)       f(isize j, lanes): VL elements from j on; `lanes` is C<VL>{} or, at the end, an int
//   for_vectors4(begin, end, f)      f(j, lanes, u): as above; u = 0 ... 3 tells accumulators apart
//   load(p, lanes), store(p, v, lanes), load_strided(p, stride, lanes)   with either kind of `lanes`
//   load_lanes(j, lanes, f), mask_lanes(j, lanes, f)   lane i is f(j + i); lanes beyond are 0 and not asked for
//   keep(lanes, v, other)            v with the lanes beyond replaced by `other`
//   mask(bool)                       a vector condition from a scalar one
//   index_in(index, extent, status, error)   a checked index: negative ones count from the end; one out of range gives 0 and
//                                    sets status to `error`
//   nonzero(divisor, status, error)  a checked integer divisor
//   split_vectors(n, thread, threads)  like split, at multiples of 16 elements
#ifndef NACRE_KERNEL_LOOPS_H
#define NACRE_KERNEL_LOOPS_H
#include "nacre/vec.h"

namespace nk {

NACRE_INLINE vf load(const float* p, C<VL>) { return load(p); }
NACRE_INLINE vf load(const float* p, int lanes) { return load_part(p, lanes); }
NACRE_INLINE void store(float* p, vf v, C<VL>) { store(p, v); }
NACRE_INLINE void store(float* p, vf v, int lanes) { store_part(p, v, lanes); }
NACRE_INLINE vf load_strided(const float* p, isize stride, C<VL>) { return load_strided(p, stride, VL); }

template <class Lanes>
NACRE_INLINE void store_strided(float* p, isize stride, vf v, Lanes lanes) {
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < lanes) p[i * stride] = v[i];
  }
}

template <class Lanes, class F>
NACRE_INLINE vf load_lanes(isize j, Lanes lanes, F f) {
  vf v = splat(0.f);
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < lanes) v[i] = f(j + i);
  }
  return v;
}

template <class Lanes, class F>
NACRE_INLINE vi mask_lanes(isize j, Lanes lanes, F f) {
  vi v = isplat(0);
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < lanes) v[i] = f(j + i) ? -1 : 0;
  }
  return v;
}

template <class Lanes, class F>
NACRE_INLINE void store_lanes(isize j, Lanes lanes, vf v, F f) {
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < lanes) f(j + i, v[i]);
  }
}

NACRE_INLINE vf keep(C<VL>, vf v, vf) { return v; }
NACRE_INLINE vf keep(int lanes, vf v, vf other) { return select(iota() < isplat(lanes), v, other); }

NACRE_INLINE vi mask(bool b) { return isplat(b ? -1 : 0); }
NACRE_INLINE vi mask(vi m) { return m; }
NACRE_INLINE vf as_float(vi m) { return select(m, splat(1.f), splat(0.f)); }

template <class F>
NACRE_INLINE void for_vectors(isize begin, isize end, F f) {
  isize j = begin;
  NACRE_ROLLED for (; j + VL <= end; j += VL) f(j, C<VL>{});
  if (j < end) f(j, static_cast<int>(end - j));
}

template <class F>
NACRE_INLINE void for_vectors4(isize begin, isize end, F f) {
  isize j = begin;
  NACRE_ROLLED for (; j + 4 * VL <= end; j += 4 * VL) {
    f(j, C<VL>{}, C<0>{});
    f(j + VL, C<VL>{}, C<1>{});
    f(j + 2 * VL, C<VL>{}, C<2>{});
    f(j + 3 * VL, C<VL>{}, C<3>{});
  }
  NACRE_ROLLED for (; j + VL <= end; j += VL) f(j, C<VL>{}, C<0>{});
  if (j < end) f(j, static_cast<int>(end - j), C<1>{});
}

NACRE_INLINE Range split_vectors(isize n, int thread, int threads) {
  const Range r = split(ceil_div(n, 16), thread, threads);
  return {imin(n, r.begin * 16), imin(n, r.end * 16)};
}

NACRE_INLINE isize index_in(i64 index, isize extent, int32_t& status, int32_t error) {
  const i64 wrapped = index < 0 ? index + extent : index;
  if (static_cast<uint64_t>(wrapped) >= static_cast<uint64_t>(extent)) {
    status = error;
    return 0;
  }
  return static_cast<isize>(wrapped);
}

// The same of an index that must not be negative.
NACRE_INLINE isize index_below(i64 index, isize extent, int32_t& status, int32_t error) {
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) {
    status = error;
    return 0;
  }
  return static_cast<isize>(index);
}

template <class T>
NACRE_INLINE T nonzero(T divisor, int32_t& status, int32_t error) {
  if (divisor == 0) {
    status = error;
    return 1;
  }
  return divisor;
}

// The thread's part of a copy of bytes.
NACRE_INLINE void copy_bytes(void* to, const void* from, isize size, int thread, int threads) {
  const Range part = split(ceil_div(size, 64), thread, threads);
  char* __restrict t = static_cast<char*>(to);
  const char* __restrict f = static_cast<const char*>(from);
  for (isize i = part.begin * 64; i < imin(size, part.end * 64); ++i) t[i] = f[i];
}

// Floor division and modulo with the divisor's sign, for index expressions that may be negative.
template <class A, class B>
NACRE_INLINE constexpr auto floordiv(A a, B b) -> decltype(a + b + isize()) {
  const decltype(a + b + isize()) q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
template <class A, class B>
NACRE_INLINE constexpr auto floormod(A a, B b) -> decltype(a + b + isize()) { return a - floordiv(a, b) * b; }

}  // namespace nk
#endif
