// Vectors of VL floats: VL = 16 with AVX-512, 8 with AVX2 and with SVE registers of 256 bits, else 4. (-DNACRE_VL=16 with less
// runs the code for wide vectors on a narrower machine: for tests.) A machine without vectors has them all the same: Clang
// splits their operations, and what counts is that several are under way at a time.
//
//   vf, vi                          VL floats, VL int32 (compiler vector types: + - * / < == [] work)
//   vf splat(float)                 vi isplat(int32_t)             vi iota()  0, 1, 2, ...
//   vf load(const float*)           any alignment                  void store(float*, vf)
//   vf load_part(const float*, int n)   the first n lanes (0 <= n <= VL), the rest 0; touches no other memory
//   void store_part(float*, vf, int n)  the first n lanes; touches no other memory
//   vf load_strided(const float*, isize stride, int n)    n lanes (the rest 0), one element each
//   V fma(V a, V b, V c)            a * b + c; one rounding where the target has FMA, two otherwise
//   V maximum(V, V), minimum(V, V)  NaN if either is NaN (torch.maximum, relu, clamp); float, double, vf
//   V select(mask, V a, V b)        lanes of a where the mask is true
//   V absolute(V), copysign(V magnitude, V sign), relu(V)
//   float reduce_sum(vf), reduce_max(vf) (NaN propagates), reduce_min(vf)
//   void transpose(vf (&rows)[VL])  in place
#ifndef NACRE_KERNEL_VEC_H
#define NACRE_KERNEL_VEC_H
#include "nacre/base.h"

#ifndef NACRE_VL
#if defined(__AVX512F__)
#define NACRE_VL 16
#elif defined(__AVX2__)
#define NACRE_VL 8
#elif defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 256
#define NACRE_VL 8
#else
#define NACRE_VL 4
#endif
#endif

// Vectors that registers hold: the targets' `registers`.
#ifndef NACRE_REGISTERS
#if NACRE_VL == 16 || defined(__aarch64__) || defined(__riscv_vector)
#define NACRE_REGISTERS 32
#elif defined(__arm__) && !defined(__ARM_FEATURE_MVE) && !defined(__ARM_NEON)
#define NACRE_REGISTERS 4  // beside 16 registers of one float each that weights are loaded into: vfp.h
#elif defined(__riscv) || defined(__ARM_FEATURE_MVE)
#define NACRE_REGISTERS 8  // 32 registers of one float each, or MVE
#else
#define NACRE_REGISTERS 16
#endif
#endif

#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__) || defined(__riscv_flen) || defined(__ARM_FEATURE_FMA)
#define NACRE_FMA 1
#else
#define NACRE_FMA 0
#endif

// Doubles of a processor that computes them in functions have none.
#if NACRE_FMA && !(defined(__arm__) && !(__ARM_FP & 8))
#define NACRE_FMA_DOUBLE 1
#else
#define NACRE_FMA_DOUBLE 0
#endif

namespace nk {

inline constexpr int VL = NACRE_VL;
inline constexpr int kRegisters = NACRE_REGISTERS;

typedef float vf __attribute__((ext_vector_type(VL)));
typedef int32_t vi __attribute__((ext_vector_type(VL)));
typedef float vf_any __attribute__((ext_vector_type(VL), aligned(4)));
typedef int32_t vi_any __attribute__((ext_vector_type(VL), aligned(4)));

NACRE_INLINE vf splat(float x) { return (vf)(x); }
NACRE_INLINE vi isplat(int32_t x) { return (vi)(x); }
NACRE_INLINE vf load(const float* p) { return *reinterpret_cast<const vf_any*>(p); }
NACRE_INLINE void store(float* p, vf v) { *reinterpret_cast<vf_any*>(p) = v; }

NACRE_INLINE vi iota() {
#if NACRE_VL == 16
  return vi{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif NACRE_VL == 8
  return vi{0, 1, 2, 3, 4, 5, 6, 7};
#else
  return vi{0, 1, 2, 3};
#endif
}

NACRE_INLINE vf load_part(const float* p, int n) {
#if defined(__AVX512F__)
  typedef float raw __attribute__((vector_size(64)));
  return __builtin_bit_cast(
      vf, __builtin_ia32_loadups512_mask(p, raw{}, static_cast<unsigned short>((1u << n) - 1u)));
#elif defined(__AVX2__) && NACRE_VL == 8
  typedef float raw __attribute__((vector_size(32)));
  typedef int32_t raw_mask __attribute__((vector_size(32)));
  return __builtin_bit_cast(
      vf, __builtin_ia32_maskloadps256(reinterpret_cast<const raw*>(p),
                                       __builtin_bit_cast(raw_mask, iota() < isplat(n))));
#else
  vf v = splat(0.f);
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < n) v[i] = p[i];
  }
  return v;
#endif
}

NACRE_INLINE void store_part(float* p, vf v, int n) {
#if defined(__AVX512F__)
  typedef float raw __attribute__((vector_size(64)));
  __builtin_ia32_storeups512_mask(p, __builtin_bit_cast(raw, v),
                                  static_cast<unsigned short>((1u << n) - 1u));
#elif defined(__AVX2__) && NACRE_VL == 8
  typedef float raw __attribute__((vector_size(32)));
  typedef int32_t raw_mask __attribute__((vector_size(32)));
  __builtin_ia32_maskstoreps256(reinterpret_cast<raw*>(p),
                                __builtin_bit_cast(raw_mask, iota() < isplat(n)),
                                __builtin_bit_cast(raw, v));
#else
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < n) p[i] = v[i];
  }
#endif
}

NACRE_INLINE vf load_strided(const float* p, isize stride, int n) {
  vf v = splat(0.f);
  NACRE_UNROLL for (int i = 0; i < VL; ++i) {
    if (i < n) v[i] = p[i * stride];
  }
  return v;
}

#if NACRE_FMA
NACRE_INLINE float fma(float a, float b, float c) { return __builtin_elementwise_fma(a, b, c); }
#if defined(__riscv) && !defined(__riscv_vector)
// LLVM 19 says that it cannot tell what a splat costs here, and then unrolls no loop that has one.
NACRE_INLINE vf fma(vf a, vf b, vf c) {
  NACRE_UNROLL for (int i = 0; i < VL; ++i) c[i] = fma(float(a[i]), float(b[i]), float(c[i]));
  return c;
}
#else
NACRE_INLINE vf fma(vf a, vf b, vf c) { return __builtin_elementwise_fma(a, b, c); }
#endif
#else
NACRE_INLINE float fma(float a, float b, float c) { return a * b + c; }
NACRE_INLINE vf fma(vf a, vf b, vf c) { return a * b + c; }
#endif
#if NACRE_FMA_DOUBLE
NACRE_INLINE double fma(double a, double b, double c) { return __builtin_elementwise_fma(a, b, c); }
#else
NACRE_INLINE double fma(double a, double b, double c) { return a * b + c; }
#endif

NACRE_INLINE float select(bool m, float a, float b) { return m ? a : b; }
NACRE_INLINE double select(bool m, double a, double b) { return m ? a : b; }
NACRE_INLINE int32_t select(bool m, int32_t a, int32_t b) { return m ? a : b; }
NACRE_INLINE i64 select(bool m, i64 a, i64 b) { return m ? a : b; }
NACRE_INLINE vf select(vi m, vf a, vf b) { return m ? a : b; }
NACRE_INLINE vi select(vi m, vi a, vi b) { return m ? a : b; }

// `b > a ? b : a` is one instruction on x86 and gives a when either is NaN, so only b's NaN needs a select: none where b is a
// number. Of equals a stays, as in torch.clamp: relu(-0.) is -0.
NACRE_INLINE vf maximum(vf a, vf b) { return select(b != b, b, select(b > a, b, a)); }
NACRE_INLINE vf minimum(vf a, vf b) { return select(b != b, b, select(b < a, b, a)); }
// LLVM 19 takes x > 0 ? x : 0 for 0 > x ? 0 : x where x was a narrower number, so equals are chosen by themselves.
#define NACRE_MOST(T)                                                                                     \
  NACRE_INLINE T maximum(T a, T b) { return select(b != b, b, select(a == b, a, select(b > a, b, a))); } \
  NACRE_INLINE T minimum(T a, T b) { return select(b != b, b, select(a == b, a, select(b < a, b, a))); }
NACRE_MOST(float)
NACRE_MOST(double)
#undef NACRE_MOST
template <class V>
NACRE_INLINE V relu(V x) {
  return select(x < V(0), V(0), x);
}
template <class V>
NACRE_INLINE V absolute(V x) {
  return __builtin_elementwise_abs(x);
}
// LLVM 19 takes |x| > 0 for x > 0 where it joins that comparison with one for NaN, as in maximum(0, |x|). In scalars it does,
// so it must not see that this is |x|. The sum makes -0 a 0.
NACRE_INLINE float absolute(float x) { return (x < 0 ? -x : x) + 0.f; }
NACRE_INLINE double absolute(double x) { return (x < 0 ? -x : x) + 0.; }

NACRE_INLINE float copysign(float m, float s) { return __builtin_copysignf(m, s); }
NACRE_INLINE double copysign(double m, double s) { return __builtin_copysign(m, s); }
NACRE_INLINE vf copysign(vf m, vf s) {
  const vi sign = isplat(static_cast<int32_t>(0x80000000u));
  return __builtin_bit_cast(vf,
                            (__builtin_bit_cast(vi, s) & sign) | (__builtin_bit_cast(vi, m) & ~sign));
}

typedef float vf4 __attribute__((ext_vector_type(4)));
typedef float vf8 __attribute__((ext_vector_type(8)));

// Folds a vector's halves with `f` down to one float.
template <class F>
NACRE_INLINE float fold(vf v, F f) {
#if NACRE_VL == 16
  const vf8 h = f(vf8(v.lo), vf8(v.hi));
  const vf4 q = f(vf4(h.lo), vf4(h.hi));
#elif NACRE_VL == 8
  const vf4 q = f(vf4(v.lo), vf4(v.hi));
#else
  const vf4 q = v;
#endif
  const vf4 d = f(q, vf4(q.zwxy));
  const vf4 r = f(d, vf4(d.yxwz));
  return r[0];
}
NACRE_INLINE float reduce_sum(vf v) {
  return fold(v, [](auto a, auto b) NACRE_LAMBDA { return a + b; });
}
NACRE_INLINE float reduce_max(vf v) {
  return fold(v, [](auto a, auto b) NACRE_LAMBDA {
    auto m = a > b ? a : b;
    return a != a ? a : m;
  });
}
NACRE_INLINE float reduce_min(vf v) {
  return fold(v, [](auto a, auto b) NACRE_LAMBDA {
    auto m = a < b ? a : b;
    return a != a ? a : m;
  });
}

#if NACRE_VL == 16
#define NACRE_INTERLEAVE_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define NACRE_INTERLEAVE_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif NACRE_VL == 8
#define NACRE_INTERLEAVE_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define NACRE_INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define NACRE_INTERLEAVE_LOW 0, 4, 1, 5
#define NACRE_INTERLEAVE_HIGH 2, 6, 3, 7
#endif

NACRE_INLINE void transpose(vf (&r)[VL]) {
  vf t[VL];
  NACRE_UNROLL for (int step = 1; step < VL; step *= 2) {
    NACRE_UNROLL for (int i = 0; i < VL / 2; ++i) {
      t[2 * i] = __builtin_shufflevector(r[i], r[i + VL / 2], NACRE_INTERLEAVE_LOW);
      t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + VL / 2], NACRE_INTERLEAVE_HIGH);
    }
    NACRE_UNROLL for (int i = 0; i < VL; ++i) r[i] = t[i];
  }
}

}  // namespace nk
#endif
