// Products of matrices of 16-bit floats on tensor cores, accumulated in float32: with what sm_80 and later have (mma.sync, ldmatrix,
// cp.async), and wgmma and clusters where the device has them. Of float32, too: of which tensor cores take the 11 bits of TF32 (to the
// nearest, but for what wgmma reads, which it cuts), or exact, without tensor cores, in partial sums of 128 terms so that the error does not grow with the length. Then what is said of 8
// elements is said of 4, and of 64 terms of 32.
//
//   gemm_half<Tile>(batches, m, n, k, a, b, epilogue, launch)
//     a(batch, m)(k), b(batch, n)(k)   a row of an operand, and then the address of 8 elements along k, a multiple of 8, or null:
//                                      zeros; where the row gives a float, it is one element. If Tile::kBAlongN, b(batch, n)(k) is
//                                      the address of 8 elements along n
//     epilogue(batch, m, n, value)     takes each result once. If kPieces is 8, epilogue(batch, m, n)(values) takes 8 at a time, along n:
//                                      the first call loads what it needs, so that this of several pieces is on its way
//
//   HalfTile<kRows, kColumns, kWarpsM, kWarpsN, kStages, kSplits, kPieces, kBAlongN, kBFloat, kWeights, kFactors>
//     kPieces    8: so many results at a time; else one: neighbours take those along n (1) or m (0)
//     kSplits    blocks that share the terms of a tile: they are side by side, and a cluster where the device has those
//     kWeights   b is there before the kernels ahead of this one are done
//
// Where operands come as addresses, k is a multiple of 8 (n, if B lies along n). The block has kWarpsM * kWarpsN warps, and
// kStages * (kRows + kColumns) * 128 bytes of dynamic shared memory (kRows * (kColumns + 8) * 4 if that is more), and 1024 to align
// it; where B lies along n, (kColumns + 8) * 128 for its part.
#ifndef NACRE_DEVICE_MMA_H
#define NACRE_DEVICE_MMA_H
#include "nacre/cuda_base.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NACRE_WARPGROUPS 1
#endif

namespace nk {

enum class Factors { half, tf32, exact };

template <int kRows, int kColumns, int kWarpsDown, int kWarpsAcross, int kDeep, int kParts, int kTogether, bool kAlongN, bool kBFloat, bool kConstant, Factors kFactors = Factors::half>
struct HalfTile {
  static constexpr int rows = kRows, columns = kColumns, warps_m = kWarpsDown, warps_n = kWarpsAcross, stages = kDeep, splits = kParts, pieces = kTogether;
  static constexpr bool b_along_n = kAlongN, bfloat = kBFloat, weights = kConstant, floats = kFactors != Factors::half, exact = kFactors == Factors::exact;
};

namespace detail {

NACRE_INLINE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// 16 bytes to shared memory; zeros from nowhere. Where no lane of a warp reads, sm_90 looks up the address all the same.
__device__ const uint4 kNowhere = {};
NACRE_INLINE void copy_later(uint32_t to, const void* from) {
  const int bytes = from ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from ? from : &kNowhere)), "r"(bytes) : "memory");
}
NACRE_INLINE void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kOpen>
NACRE_INLINE void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

NACRE_INLINE void load_matrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
NACRE_INLINE void load_matrices_turned(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

template <bool kBFloat>
NACRE_INLINE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kBFloat)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// To the nearest number of 11 bits.
NACRE_INLINE uint32_t rounded(uint32_t x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
// Four floats are 16 bytes: a matrix of 8 x 8 halves is one of 8 x 4 floats.
NACRE_INLINE void multiply_floats(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <bool kBFloat>
NACRE_INLINE uint32_t packed(float low, float high) {
  uint32_t both;
  if constexpr (kBFloat)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// ---- Products by four warps together, operands in shared memory.
#ifdef NACRE_WARPGROUPS
NACRE_INLINE void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
NACRE_INLINE void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kOpen>
NACRE_INLINE void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// Rows of 128 bytes, eight of which are 1024 bytes whose pieces of 16 have changed places.
NACRE_INLINE uint64_t described(uint32_t at) { return (at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

#define NACRE_C4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define NACRE_C16(j) NACRE_C4(j), NACRE_C4(j + 1), NACRE_C4(j + 2), NACRE_C4(j + 3)
#define NACRE_P16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NACRE_P32 NACRE_P16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NACRE_P64                                                                                                                       \
  NACRE_P32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
            "%56, %57, %58, %59, %60, %61, %62, %63"
#define NACRE_P96                                                                                                                        \
  NACRE_P64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, " \
            "%88, %89, %90, %91, %92, %93, %94, %95"
#define NACRE_P48 NACRE_P32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NACRE_P128                                                                                                                     \
  NACRE_P64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, " \
            "%88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "   \
            "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define NACRE_WGMMA(shape, type, turns, places, first, second, ...)                                                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned." #shape ".f32." #type "." #type " {" places "}, " \
               first ", " second ", p, 1, 1" turns ";\n}\n"                                                                              \
               : __VA_ARGS__                                                                                                             \
               : "l"(a), "l"(b))
#define NACRE_MULTIPLY(n, ...)                            \
  if constexpr (kFloats)                                  \
    NACRE_WGMMA(m64n##n##k8, tf32, "", __VA_ARGS__);       \
  else if constexpr (kBFloat)                             \
    NACRE_WGMMA(m64n##n##k16, bf16, ", 0, 0", __VA_ARGS__); \
  else                                                    \
    NACRE_WGMMA(m64n##n##k16, f16, ", 0, 0", __VA_ARGS__)
template <bool kBFloat, bool kFloats>
NACRE_INLINE void multiply_wide(float (&c)[4][4], uint64_t a, uint64_t b) {
  NACRE_MULTIPLY(32, NACRE_P16, "%16", "%17", NACRE_C16(0));
}
template <bool kBFloat, bool kFloats>
NACRE_INLINE void multiply_wide(float (&c)[8][4], uint64_t a, uint64_t b) {
  NACRE_MULTIPLY(64, NACRE_P32, "%32", "%33", NACRE_C16(0), NACRE_C16(4));
}
template <bool kBFloat, bool kFloats>
NACRE_INLINE void multiply_wide(float (&c)[12][4], uint64_t a, uint64_t b) {
  NACRE_MULTIPLY(96, NACRE_P48, "%48", "%49", NACRE_C16(0), NACRE_C16(4), NACRE_C16(8));
}
template <bool kBFloat, bool kFloats>
NACRE_INLINE void multiply_wide(float (&c)[24][4], uint64_t a, uint64_t b) {
  NACRE_MULTIPLY(192, NACRE_P96, "%96", "%97", NACRE_C16(0), NACRE_C16(4), NACRE_C16(8), NACRE_C16(12), NACRE_C16(16), NACRE_C16(20));
}
template <bool kBFloat, bool kFloats>
NACRE_INLINE void multiply_wide(float (&c)[16][4], uint64_t a, uint64_t b) {
  NACRE_MULTIPLY(128, NACRE_P64, "%64", "%65", NACRE_C16(0), NACRE_C16(4), NACRE_C16(8), NACRE_C16(12));
}
template <bool kBFloat, bool kFloats>
NACRE_INLINE void multiply_wide(float (&c)[32][4], uint64_t a, uint64_t b) {
  NACRE_MULTIPLY(256, NACRE_P128, "%128", "%129", NACRE_C16(0), NACRE_C16(4), NACRE_C16(8), NACRE_C16(12), NACRE_C16(16), NACRE_C16(20), NACRE_C16(24), NACRE_C16(28));
}
#undef NACRE_MULTIPLY
#undef NACRE_WGMMA
#undef NACRE_P128
#undef NACRE_P96
#undef NACRE_P48
#undef NACRE_P64
#undef NACRE_P32
#undef NACRE_P16
#undef NACRE_C16
#undef NACRE_C4
#endif

// ---- Blocks of a cluster.
#if __CUDA_ARCH__ >= 900
constexpr bool kClusters = true;
NACRE_INLINE void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
NACRE_INLINE void wait_in_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
NACRE_INLINE void sync_cluster() {
  arrive_in_cluster();
  wait_in_cluster();
}
NACRE_INLINE void store_of_block(const float* there, int block, float x) {
  asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nst.shared::cluster.f32 [there], %2;\n}\n" ::"r"(shared_address(there)), "r"(block), "f"(x) : "memory");
}
NACRE_INLINE float4 load_of_block(uint32_t at, int block) {
  float4 x;
  asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %4, %5;\nld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}\n"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(at), "r"(block)
               : "memory");
  return x;
}
NACRE_INLINE float load_one_of_block(uint32_t at, int block) {
  float x;
  asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f32 %0, [there];\n}\n" : "=f"(x) : "r"(at), "r"(block) : "memory");
  return x;
}
#else
constexpr bool kClusters = false;
NACRE_INLINE void arrive_in_cluster() {}
NACRE_INLINE void wait_in_cluster() {}
NACRE_INLINE void sync_cluster() {}
NACRE_INLINE void store_of_block(const float*, int, float) {}
NACRE_INLINE float4 load_of_block(uint32_t, int) { return {}; }
NACRE_INLINE float load_one_of_block(uint32_t, int) { return 0; }
#endif

// As many of a kind that has no default, each made by f(0), f(1), ...
template <class R, int N>
struct Several {
  R at[N];
};
template <int... Is>
struct Numbers {};
template <int N, int... Is>
struct Below : Below<N - 1, N - 1, Is...> {};
template <int... Is>
struct Below<0, Is...> {
  using type = Numbers<Is...>;
};
template <class F, int... Is>
NACRE_INLINE auto several(F f, Numbers<Is...>) -> Several<decltype(f(0)), static_cast<int>(sizeof...(Is))> {
  return {{f(Is)...}};
}

template <class T>
constexpr bool is_pointer = false;
template <class T>
constexpr bool is_pointer<T*> = true;

// Rows of 64 terms (32 floats), 128 bytes, whose pieces change places by the row.
NACRE_INLINE uint32_t piece_of(int row, int column) { return static_cast<uint32_t>(row * 128 + ((column ^ (row & 7)) << 4)); }

NACRE_INLINE float load_float(uint32_t at) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at));
  return x;
}
NACRE_INLINE void load_floats(float (&x)[4], uint32_t at) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(at));
}

// A warp's results without tensor cores: a thread has every fourth row and every eighth column, so that no two ask one bank for
// different words.
NACRE_INLINE int exact_row(int i) { return i * 4 + threadIdx.x % 32 / 8; }
NACRE_INLINE int exact_column(int j) { return j * 8 + threadIdx.x % 8; }

// 32 terms of float32; rows of both operands begin where the warp's results do.
template <int kTM, int kTN, bool kBAlongN, int kBPitch>
NACRE_INLINE void multiply_exactly(float (&c)[kTM][kTN], uint32_t from_a, uint32_t from_b) {
#pragma unroll 2
  for (int piece = 0; piece < 8; ++piece) {
    float y[kTN][4];
    NACRE_UNROLL for (int j = 0; j < kTN; ++j) {
      if constexpr (kBAlongN) {
        NACRE_UNROLL for (int e = 0; e < 4; ++e) y[j][e] = load_float(from_b + ((piece * 4 + e) * kBPitch + exact_column(j)) * 4);
      } else {
        load_floats(y[j], from_b + piece_of(exact_column(j), piece));
      }
    }
    NACRE_UNROLL for (int i = 0; i < kTM; ++i) {
      float x[4];
      load_floats(x, from_a + piece_of(exact_row(i), piece));
      NACRE_UNROLL for (int e = 0; e < 4; ++e) {
        NACRE_UNROLL for (int j = 0; j < kTN; ++j) c[i][j] = fmaf(x[e], y[j][e], c[i][j]);
      }
    }
  }
}

// One operand's way into shared memory: a thread takes the same piece of several rows.
template <int kRows, int kThreads, bool kBFloat, bool kFloat, class I, class Row>
struct Feed {
  static constexpr int kCount = kRows * 8 / kThreads, kEach = kFloat ? 4 : 8;
  static_assert(kCount >= 1 && kThreads % 64 == 0);
  static constexpr bool kLater = is_pointer<decltype(static_cast<Row*>(nullptr)->operator()(I()))>;
  Several<Row, kCount> rows;
  I first, extent, k;  // rows from `first` on are this thread's, in steps
  uint32_t here;
  uint32_t kept[kLater ? 1 : kCount][4];

  NACRE_MEMBER void begin(uint32_t to, I step) {
    const I term = step * (8 * kEach) + threadIdx.x % 8 * kEach;
    NACRE_UNROLL for (int i = 0; i < kCount; ++i) {
      const bool row_there = first + i * (kThreads / 8) < extent;
      if constexpr (kLater) {
        copy_later(to + here + i * (kThreads / 8 * 128), row_there && term < k ? rows.at[i](term) : nullptr);
      } else {
        NACRE_UNROLL for (int e = 0; e < 4; ++e) {
          const I low = term + (kFloat ? e : 2 * e);
          if constexpr (kFloat)
            kept[i][e] = __float_as_uint(row_there && low < k ? rows.at[i](low) : 0.f);
          else
            kept[i][e] = packed<kBFloat>(row_there && low < k ? rows.at[i](low) : 0.f, row_there && low + 1 < k ? rows.at[i](low + 1) : 0.f);
        }
      }
    }
  }
  NACRE_MEMBER void end(uint32_t to) {
    if constexpr (!kLater) {
      NACRE_UNROLL for (int i = 0; i < kCount; ++i)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + here + i * (kThreads / 8 * 128)), "r"(kept[i][0]), "r"(kept[i][1]), "r"(kept[i][2]), "r"(kept[i][3])
                     : "memory");
    }
  }
};
template <int kRows, int kThreads, bool kBFloat, bool kFloat, class I, class F>
NACRE_INLINE auto feed_of(F row, I first, I extent, I k) {
  const int thread = threadIdx.x, own = thread / 8;
  const auto make = [&](int i) {
    const I at = first + own + i * (kThreads / 8);
    return row(at < extent ? at : extent - 1);
  };
  using Row = decltype(make(0));
  using Made = Feed<kRows, kThreads, kBFloat, kFloat, I, Row>;
  return Made{several(make, typename Below<Made::kCount>::type()), first + own, extent, k, piece_of(own, thread % 8), {}};
}

// The same where 8 elements lie along the rows: 64 rows, one a term, of all columns, padded so that they begin in other banks.
template <int kColumns, int kThreads, bool kFloat, class I, class Column>
struct TurnedFeed {
  static constexpr int kEach = kFloat ? 4 : 8, kTerms = 8 * kEach, kAcross = kColumns / kEach, kCount = kTerms * kAcross / kThreads, kPitch = kColumns + 8;
  static_assert(kThreads % kAcross == 0 && kCount >= 1);
  Column column;
  I first, extent, k;

  NACRE_MEMBER void begin(uint32_t to, I step) {
    NACRE_UNROLL for (int i = 0; i < kCount; ++i) {
      const int row = threadIdx.x / kAcross + i * (kThreads / kAcross);
      const I term = step * kTerms + row;
      copy_later(to + (row * kPitch + threadIdx.x % kAcross * kEach) * (16 / kEach), first < extent && term < k ? column(term) : nullptr);
    }
  }
  NACRE_MEMBER void end(uint32_t) {}
};

}  // namespace detail

template <class T, class I, class A, class B, class E>
NACRE_INLINE void gemm_half(I batches, I m, I n, I k, A a, B b, E epilogue, const Launch& launch) {
  using namespace detail;
  constexpr int kThreads = T::warps_m * T::warps_n * 32, kDepth = T::floats ? 32 : 64, kM = T::rows, kN = T::columns, kStages = T::stages, kSplits = T::splits;
#ifdef NACRE_WARPGROUPS
  constexpr bool kWide = !T::exact && !T::b_along_n && kM % 64 == 0 && T::warps_m * 16 == kM && T::warps_n == 1 && (kN == 32 || kN == 64 || kN == 128 || kN == 256);
#else
  constexpr bool kWide = false;
#endif
  // Stages are filled again when the step that read them, or the one after that, is done.
  constexpr int kLag = kWide ? 2 : 1;
  static_assert(kStages > kLag);
  constexpr int kWM = kWide ? 16 : kM / T::warps_m, kWN = kWide ? kN : kN / T::warps_n, kFM = kWM / 16, kFN = kWN / 8;
  static_assert(kFM >= 1 && kFN >= 2 && kFN % 2 == 0);
  // Of a thread, where there are no tensor cores.
  constexpr int kTM = T::exact ? kWM / 4 : 1, kTN = T::exact ? kWN / 8 : 1, kPartial = 128;
  constexpr int kBPitch = kN + 8, kABytes = kM * 128, kBBytes = T::b_along_n ? kBPitch * 128 : kN * 128, kPitch = kN + 8;
  extern __shared__ char dynamic_memory[];
  [[maybe_unused]] __shared__ bool last;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int wm = kWide ? warp * 16 : warp % T::warps_m * kWM, wn = kWide ? 0 : warp / T::warps_m * kWN;
  const uint32_t base = (shared_address(dynamic_memory) + 1023) & ~1023u;
  float* const results = reinterpret_cast<float*>(dynamic_memory + (base - shared_address(dynamic_memory)));
  const I tiles_m = (m + kM - 1) / kM, tiles_n = (n + kN - 1) / kN, tiles = batches * tiles_m * tiles_n;
  const int steps = static_cast<int>((k + kDepth - 1) / kDepth), rank = blockIdx.x % kSplits;
  if (tiles == 0) await_previous();  // what comes after this kernel counts on the ones before
  const int first = steps * rank / kSplits, count = steps * (rank + 1) / kSplits - first;
  for (I tile = blockIdx.x / kSplits; tile < tiles; tile += gridDim.x / kSplits) {
    const I batch = tile / (tiles_m * tiles_n), m0 = tile % tiles_m * kM, n0 = tile / tiles_m % tiles_n * kN;
    auto feed_a = feed_of<kM, kThreads, T::bfloat, T::floats, I>([&](I row) { return a(batch, row); }, m0, m, k);
    auto feed_b = [&] {
      if constexpr (T::b_along_n) {
        constexpr int kEach = T::floats ? 4 : 8;
        const I column = n0 + threadIdx.x % (kN / kEach) * kEach;
        auto turned = b(batch, column < n ? column : 0);
        return TurnedFeed<kN, kThreads, T::floats, I, decltype(turned)>{turned, column, n, k};
      } else {
        return feed_of<kN, kThreads, T::bfloat, T::floats, I>([&](I row) { return b(batch, row); }, n0, n, k);
      }
    }();
    const auto at_a = [&](int stage) { return base + stage * (kABytes + kBBytes); };
    const auto at_b = [&](int stage) { return at_a(stage) + kABytes; };
    float sums[kFM][kFN][4] = {};
    [[maybe_unused]] float part[kTM][kTN] = {};
    [[maybe_unused]] const auto exact_sum = [&](int i, int j) -> float& { return sums[(i * kTN + j) / (kFN * 4)][(i * kTN + j) / 4 % kFN][(i * kTN + j) % 4]; };
    __syncthreads();
    if constexpr (!T::weights) await_previous();
    NACRE_UNROLL for (int s = 0; s < kStages - 1; ++s) {
      if (s < count) {
        feed_b.begin(at_b(s), first + s);
        feed_b.end(at_b(s));
      }
    }
    if constexpr (T::weights) await_previous();
    NACRE_UNROLL for (int s = 0; s < kStages - 1; ++s) {
      if (s < count) {
        feed_a.begin(at_a(s), first + s);
        feed_a.end(at_a(s));
      }
      close_copies();
    }
    int stage = 0, next = kStages - 1;
    for (int step = 0; step < count; ++step) {
      if (step == 0)
        await_copies<kStages - 2>();
      else
        await_copies<kStages - 1 - kLag>();
      const bool more = step >= kLag - 1 && step + kStages - kLag < count;
      const auto begin = [&] {
        if (!more) return;
        feed_a.begin(at_a(next), first + step + kStages - kLag);
        feed_b.begin(at_b(next), first + step + kStages - kLag);
      };
      const auto end = [&] {
        if (more) {
          feed_a.end(at_a(next));
          feed_b.end(at_b(next));
        }
        if (step >= kLag - 1) {
          close_copies();
          next = next + 1 == kStages ? 0 : next + 1;
        }
      };
      const uint32_t from_a = at_a(stage), from_b = at_b(stage);
      stage = stage + 1 == kStages ? 0 : stage + 1;
#ifdef NACRE_WARPGROUPS
      if constexpr (kWide) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        open_products();
        NACRE_UNROLL for (int quarter = 0; quarter < 4; ++quarter)
          multiply_wide<T::bfloat, T::floats>(sums[0], described(from_a + warp / 4 * 8192 + quarter * 32), described(from_b + quarter * 32));
        close_products();
        await_products<1>();
        begin();
        end();
        continue;
      }
#endif
      __syncthreads();
      begin();
      if constexpr (T::exact) {
        multiply_exactly<kTM, kTN, T::b_along_n, kBPitch>(part, from_a + wm * 128, from_b + wn * (T::b_along_n ? 4 : 128));
        if ((step + 1) * kDepth % kPartial == 0 || step + 1 == count) {
          NACRE_UNROLL for (int i = 0; i < kTM; ++i) {
            NACRE_UNROLL for (int j = 0; j < kTN; ++j) {
              exact_sum(i, j) += part[i][j];
              part[i][j] = 0;
            }
          }
        }
        end();
        continue;
      }
      NACRE_UNROLL for (int quarter = 0; quarter < 4; ++quarter) {
        uint32_t x[kFM][4], y[kFN / 2][4];
        NACRE_UNROLL for (int i = 0; i < kFM; ++i) load_matrices(x[i], from_a + piece_of(wm + i * 16 + lane % 16, quarter * 2 + lane / 16));
        NACRE_UNROLL for (int j = 0; j < kFN / 2; ++j) {
          if constexpr (T::b_along_n && T::floats) {
            const auto one = [&](int term, int column) { return __float_as_uint(load_float(from_b + ((quarter * 8 + term + lane % 4) * kBPitch + wn + j * 16 + column + lane / 4) * 4)); };
            y[j][0] = one(0, 0), y[j][1] = one(4, 0), y[j][2] = one(0, 8), y[j][3] = one(4, 8);
          } else if constexpr (T::b_along_n)
            load_matrices_turned(y[j], from_b + ((quarter * 16 + lane % 16) * kBPitch + wn + j * 16 + lane / 16 * 8) * 2);
          else
            load_matrices(y[j], from_b + piece_of(wn + j * 16 + lane % 8 + lane / 16 * 8, quarter * 2 + lane / 8 % 2));
        }
        if constexpr (T::floats) {
          NACRE_UNROLL for (int e = 0; e < 4; ++e) {
            NACRE_UNROLL for (int i = 0; i < kFM; ++i) x[i][e] = rounded(x[i][e]);
            NACRE_UNROLL for (int j = 0; j < kFN / 2; ++j) y[j][e] = rounded(y[j][e]);
          }
          NACRE_UNROLL for (int i = 0; i < kFM; ++i) {
            NACRE_UNROLL for (int j = 0; j < kFN; ++j) multiply_floats(sums[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
          }
          continue;
        }
        NACRE_UNROLL for (int i = 0; i < kFM; ++i) {
          NACRE_UNROLL for (int j = 0; j < kFN; ++j) multiply<T::bfloat>(sums[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
        }
      }
      end();
    }
#ifdef NACRE_WARPGROUPS
    if constexpr (kWide) await_products<0>();
#endif
    await_copies<0>();
    if constexpr (kSplits > 1 && !kClusters) {
      // Parts lie in the order of threads, so that each reads what the same thread of another block wrote.
      constexpr int kPart = kFM * kFN * 4;
      float* const parts = reinterpret_cast<float*>(launch.scratch) + i64(tile) * kSplits * (kPart * kThreads);
      NACRE_UNROLL for (int i = 0; i < kPart; ++i) parts[(rank * kPart + i) * kThreads + thread] = sums[i / (kFN * 4)][i / 4 % kFN][i % 4];
      __threadfence();
      __syncthreads();
      if (thread == 0) last = atomicAdd(&launch.counters[tile], 1u) == static_cast<unsigned>(kSplits - 1);
      __syncthreads();
      if (!last) continue;
      __threadfence();
      if (thread == 0) launch.counters[tile] = 0;
      NACRE_UNROLL for (int i = 0; i < kPart; ++i) {
        float sum = 0;
        for (int s = 0; s < kSplits; ++s) sum += parts[(s * kPart + i) * kThreads + thread];
        sums[i / (kFN * 4)][i / 4 % kFN][i % 4] = sum;
      }
    }
    __syncthreads();
    NACRE_UNROLL for (int i = 0; i < kTM && T::exact; ++i) {
      NACRE_UNROLL for (int j = 0; j < kTN; ++j) results[(wm + exact_row(i)) * kPitch + wn + exact_column(j)] = exact_sum(i, j);
    }
    NACRE_UNROLL for (int i = 0; i < kFM && !T::exact; ++i) {
      NACRE_UNROLL for (int j = 0; j < kFN; ++j) {
        float* const to = results + (wm + i * 16 + lane / 4) * kPitch + wn + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = {sums[i][j][0], sums[i][j][1]};
        *reinterpret_cast<float2*>(to + 8 * kPitch) = {sums[i][j][2], sums[i][j][3]};
      }
    }
    // Of a cluster each block takes some rows of the tile, from all of them.
    constexpr bool kShared = kSplits > 1 && kClusters;
    constexpr int kOwn = kShared ? kM / kSplits : kM;
    kShared ? sync_cluster() : __syncthreads();
    const int from = kShared ? rank * kOwn : 0;
    if constexpr (T::pieces == 8) {
      constexpr int kAll = kOwn * kN / 8, kRounds = (kAll + kThreads - 1) / kThreads, kTogether = kRounds < 4 ? kRounds : 4;
      static_assert(kRounds % kTogether == 0);
      NACRE_UNROLL for (int round = 0; round < kRounds; round += kTogether) {
        const auto row_of = [&](int i) { return from + (thread + (round + i) * kThreads) / (kN / 8); };
        const auto column_of = [&](int i) { return (thread + (round + i) * kThreads) % (kN / 8) * 8; };
        const auto prepared = several(
            [&](int i) {
              const I row = m0 + row_of(i), column = n0 + column_of(i);
              return epilogue(batch, row < m ? row : m - 1, column < n ? column : n - 8);
            },
            typename Below<kTogether>::type());
        NACRE_UNROLL for (int i = 0; i < kTogether; ++i) {
          const int row = row_of(i), column = column_of(i);
          if ((kAll % kThreads != 0 && thread + (round + i) * kThreads >= kAll) || m0 + row >= m || n0 + column >= n) continue;
          float values[8] = {};
          const auto add = [&](const float4& low, const float4& high) {
            values[0] += low.x, values[1] += low.y, values[2] += low.z, values[3] += low.w;
            values[4] += high.x, values[5] += high.y, values[6] += high.z, values[7] += high.w;
          };
          if constexpr (kShared) {
            const uint32_t there = base + (row * kPitch + column) * 4;
            NACRE_UNROLL for (int s = 0; s < kSplits; ++s) add(load_of_block(there, s), load_of_block(there + 16, s));
          } else {
            const float4* const there = reinterpret_cast<const float4*>(results + row * kPitch + column);
            add(there[0], there[1]);
          }
          prepared.at[i](values);
        }
      }
    } else {
      for (int at = thread; at < kOwn * kN; at += kThreads) {
        const int row = from + (T::pieces == 0 ? at % kOwn : at / kN), column = T::pieces == 0 ? at / kOwn : at % kN;
        if (m0 + row >= m || n0 + column >= n) continue;
        float value = 0;
        if constexpr (kShared) {
          NACRE_UNROLL for (int s = 0; s < kSplits; ++s) value += load_one_of_block(base + (row * kPitch + column) * 4, s);
        } else {
          value = results[row * kPitch + column];
        }
        epilogue(batch, m0 + row, n0 + column, value);
      }
    }
    if constexpr (kShared) sync_cluster();
  }
}

}  // namespace nk
#endif
