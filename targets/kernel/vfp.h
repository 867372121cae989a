// Arm microcontrollers without vectors (Cortex-M4F, M7): 32 registers of one float, and instructions that load several of them.
// No compiler arranges registers so that `vldm` could fill them, so these inner loops are assembly: a load instruction for 16
// weights or 4 activations, and no address arithmetic beside it.
//
//   NACRE_VFP                       1 on such targets; what follows exists there only
//   vfp_add(acc, a, b, k)           acc[m][:] += sum over l < k / 4 * 4 of a[m][l] * b[4 * l + :] for up to kVfpRows rows
//   vfp_row(acc, a, b, k)           the same for one row, in pieces of kVfpPieceK steps and two chains
//   vfp_clear(acc)                  acc[m][:] = 0
//   vfp_taps<Stride>(sums, p, w, ky, pitch, column, row, skip_first, skip_last)
//                                   depthwise filters of three columns: `ky` of their rows, ky > 0, make up to kVfpColumns
//                                   neighbouring results of four channels. Distances are in bytes: `pitch` from tap to tap,
//                                   `column` and `row` in the image. The image's first or last column that is reached may be skipped.
#ifndef NACRE_KERNEL_VFP_H
#define NACRE_KERNEL_VFP_H
#include "nacre/vec.h"

#if NACRE_REGISTERS == 4
#define NACRE_VFP 1
#else
#define NACRE_VFP 0
#endif

#if NACRE_VFP
namespace nk {

inline constexpr int kVfpRows = 3, kVfpColumns = 4;
inline constexpr isize kVfpPieceK = 32;  // of sums of a few rows

// Accumulator i as an operand; four of them plus x times four weights.
#define NACRE_VFP_SUM(i) [c##i] "+t"(c[i])
#define NACRE_VFP_SUMS4(a, b, c_, d) NACRE_VFP_SUM(a), NACRE_VFP_SUM(b), NACRE_VFP_SUM(c_), NACRE_VFP_SUM(d)
#define NACRE_VFP_FMA(i, x, w) "vfma.f32 %[c" #i "], " #x ", " #w "\n\t"
#define NACRE_VFP_STEP(i0, i1, i2, i3, x, w0, w1, w2, w3) \
  NACRE_VFP_FMA(i0, x, w0) NACRE_VFP_FMA(i1, x, w1) NACRE_VFP_FMA(i2, x, w2) NACRE_VFP_FMA(i3, x, w3)
// A row of the tile, four steps of K.
#define NACRE_VFP_ROW(row, i0, i1, i2, i3)                        \
  "vldmia %[" #row "]!, {s12-s15}\n\t"                            \
  NACRE_VFP_STEP(i0, i1, i2, i3, s12, s16, s17, s18, s19)         \
  NACRE_VFP_STEP(i0, i1, i2, i3, s13, s20, s21, s22, s23)         \
  NACRE_VFP_STEP(i0, i1, i2, i3, s14, s24, s25, s26, s27)         \
  NACRE_VFP_STEP(i0, i1, i2, i3, s15, s28, s29, s30, s31)
#define NACRE_VFP_ROW0 NACRE_VFP_ROW(a0, 0, 1, 2, 3)
#define NACRE_VFP_ROW1 NACRE_VFP_ROW(a1, 4, 5, 6, 7)
#define NACRE_VFP_ROW2 NACRE_VFP_ROW(a2, 8, 9, 10, 11)
#define NACRE_VFP_HIGH "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", "s28", "s29", "s30", "s31"
#define NACRE_VFP_STEPS4(rows) "vldmia %[b]!, {s16-s31}\n\t" rows
#define NACRE_VFP_LOOP(body) "1:\n\t" body "subs %[n], #1\n\tbne 1b"
#define NACRE_VFP_CLOBBERS "s12", "s13", "s14", "s15", NACRE_VFP_HIGH, "cc", "memory"

static constexpr float kVfpZeros[16] = {};

// c[i] = 0 for i < Count, in one instruction.
template <int Count>
NACRE_INLINE void vfp_clear(float* c) {
  register float c0 asm("s0"), c1 asm("s1"), c2 asm("s2"), c3 asm("s3"), c4 asm("s4"), c5 asm("s5"), c6 asm("s6"), c7 asm("s7");
  register float c8 asm("s8"), c9 asm("s9"), c10 asm("s10"), c11 asm("s11"), c12 asm("s12"), c13 asm("s13"), c14 asm("s14"), c15 asm("s15");
#define NACRE_VFP_CLEARED4(a, b, c_, d) "=t"(c##a), "=t"(c##b), "=t"(c##c_), "=t"(c##d)
#define NACRE_VFP_ZERO(last, ...) asm("vldmia %[zeros], {s0-" last "}" : __VA_ARGS__ : [zeros] "r"(&kVfpZeros), "m"(kVfpZeros))
  if constexpr (Count == 4) {
    NACRE_VFP_ZERO("s3", NACRE_VFP_CLEARED4(0, 1, 2, 3));
  } else if constexpr (Count == 8) {
    NACRE_VFP_ZERO("s7", NACRE_VFP_CLEARED4(0, 1, 2, 3), NACRE_VFP_CLEARED4(4, 5, 6, 7));
  } else if constexpr (Count == 12) {
    NACRE_VFP_ZERO("s11", NACRE_VFP_CLEARED4(0, 1, 2, 3), NACRE_VFP_CLEARED4(4, 5, 6, 7), NACRE_VFP_CLEARED4(8, 9, 10, 11));
  } else {
    NACRE_VFP_ZERO("s15", NACRE_VFP_CLEARED4(0, 1, 2, 3), NACRE_VFP_CLEARED4(4, 5, 6, 7), NACRE_VFP_CLEARED4(8, 9, 10, 11),
                   NACRE_VFP_CLEARED4(12, 13, 14, 15));
  }
#define NACRE_VFP_TAKE(i) if constexpr (i < Count) c[i] = c##i
  NACRE_VFP_TAKE(0); NACRE_VFP_TAKE(1); NACRE_VFP_TAKE(2); NACRE_VFP_TAKE(3); NACRE_VFP_TAKE(4); NACRE_VFP_TAKE(5);
  NACRE_VFP_TAKE(6); NACRE_VFP_TAKE(7); NACRE_VFP_TAKE(8); NACRE_VFP_TAKE(9); NACRE_VFP_TAKE(10); NACRE_VFP_TAKE(11);
  NACRE_VFP_TAKE(12); NACRE_VFP_TAKE(13); NACRE_VFP_TAKE(14); NACRE_VFP_TAKE(15);
}
template <int R>
NACRE_INLINE void vfp_clear(vf (&acc)[R][1]) {
  float c[4 * R];
  vfp_clear<4 * R>(c);
  NACRE_UNROLL for (int i = 0; i < 4 * R; ++i) acc[i / 4][0][i % 4] = c[i];
}

template <int R>
NACRE_INLINE void vfp_add(vf (&acc)[R][1], const float* const (&a)[R], const float* b, isize k) {
  static_assert(R <= kVfpRows);
  isize n = k / 4;
  if (n == 0) return;
  float c[4 * R];
  NACRE_UNROLL for (int i = 0; i < 4 * R; ++i) c[i] = acc[i / 4][0][i % 4];
  const float *a0 = a[0], *a1 = a[R > 1 ? 1 : 0], *a2 = a[R > 2 ? 2 : 0];
  if constexpr (R == 1) {
    asm volatile(NACRE_VFP_LOOP(NACRE_VFP_STEPS4(NACRE_VFP_ROW0))
                 : NACRE_VFP_SUMS4(0, 1, 2, 3), [a0] "+r"(a0), [b] "+r"(b), [n] "+r"(n)::NACRE_VFP_CLOBBERS);
  } else if constexpr (R == 2) {
    asm volatile(NACRE_VFP_LOOP(NACRE_VFP_STEPS4(NACRE_VFP_ROW0 NACRE_VFP_ROW1))
                 : NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7), [a0] "+r"(a0), [a1] "+r"(a1), [b] "+r"(b),
                   [n] "+r"(n)::NACRE_VFP_CLOBBERS);
  } else {
    asm volatile(NACRE_VFP_LOOP(NACRE_VFP_STEPS4(NACRE_VFP_ROW0 NACRE_VFP_ROW1 NACRE_VFP_ROW2))
                 : NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7), NACRE_VFP_SUMS4(8, 9, 10, 11), [a0] "+r"(a0),
                   [a1] "+r"(a1), [a2] "+r"(a2), [b] "+r"(b), [n] "+r"(n)::NACRE_VFP_CLOBBERS);
  }
  NACRE_UNROLL for (int i = 0; i < 4 * R; ++i) acc[i / 4][0][i % 4] = c[i];
}

// Two chains of a piece in s0 to s7: of even and of odd steps.
#define NACRE_VFP_CHAIN(x, s0, s1, s2, s3, w0, w1, w2, w3)                                              \
  "vfma.f32 " #s0 ", " #x ", " #w0 "\n\tvfma.f32 " #s1 ", " #x ", " #w1 "\n\tvfma.f32 " #s2 ", " #x ", " #w2 \
  "\n\tvfma.f32 " #s3 ", " #x ", " #w3 "\n\t"
#define NACRE_VFP_CHAINS                                            \
  "vldmia %[b]!, {s16-s31}\n\tvldmia %[a]!, {s12-s15}\n\t"          \
  NACRE_VFP_CHAIN(s12, s0, s1, s2, s3, s16, s17, s18, s19)          \
  NACRE_VFP_CHAIN(s13, s4, s5, s6, s7, s20, s21, s22, s23)          \
  NACRE_VFP_CHAIN(s14, s0, s1, s2, s3, s24, s25, s26, s27)          \
  NACRE_VFP_CHAIN(s15, s4, s5, s6, s7, s28, s29, s30, s31)
#define NACRE_VFP_JOIN(i, even, odd) "vadd.f32 " #even ", " #even ", " #odd "\n\tvadd.f32 %[c" #i "], %[c" #i "], " #even "\n\t"
// `n` pieces of `count` turns of as many blocks of four steps.
#define NACRE_VFP_PIECES(count, blocks)                                                                               \
  asm volatile("2:\n\tvldmia %[zeros], {s0-s7}\n\tmov %[turn], %[turns]\n1:\n\t.rept " blocks "\n\t" NACRE_VFP_CHAINS     \
               ".endr\n\tsubs %[turn], #1\n\tbne 1b\n\t" NACRE_VFP_JOIN(0, s0, s4) NACRE_VFP_JOIN(1, s1, s5)             \
               NACRE_VFP_JOIN(2, s2, s6) NACRE_VFP_JOIN(3, s3, s7) "subs %[n], #1\n\tbne 2b"                              \
               : NACRE_VFP_SUMS4(0, 1, 2, 3), [a] "+&r"(a), [b] "+&r"(b), [n] "+&r"(n), [turn] "=&r"(turn)               \
               : [zeros] "r"(&kVfpZeros), [turns] "ri"(count)                                                           \
               : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", NACRE_VFP_CLOBBERS)

NACRE_INLINE void vfp_row(vf (&acc)[1][1], const float* a, const float* b, isize k) {
  float c[4];
  NACRE_UNROLL for (int i = 0; i < 4; ++i) c[i] = acc[0][0][i];
  static_assert(kVfpPieceK == 2 * 4 * 4);
  isize n = k / kVfpPieceK, turn;
  if (n > 0) NACRE_VFP_PIECES(2, "4");
  const isize rest = k % kVfpPieceK / 4;
  n = 1;
  if (rest > 0) NACRE_VFP_PIECES(rest, "1");
  NACRE_UNROLL for (int i = 0; i < 4; ++i) acc[0][0][i] = c[i];
}

// Depthwise filters. Weights of a row's three taps are in s16 to s27, a column of the image in s28 to s31.
// Result t takes column kx of its filter; then the columns, of which the first and the last may lie outside the image.
#define NACRE_VFP_TAP_0(kx) NACRE_VFP_COLUMN_##kx(0, 1, 2, 3)
#define NACRE_VFP_TAP_1(kx) NACRE_VFP_COLUMN_##kx(4, 5, 6, 7)
#define NACRE_VFP_TAP_2(kx) NACRE_VFP_COLUMN_##kx(8, 9, 10, 11)
#define NACRE_VFP_TAP_3(kx) NACRE_VFP_COLUMN_##kx(12, 13, 14, 15)
#define NACRE_VFP_COLUMN_0(i0, i1, i2, i3) NACRE_VFP_CHANNELS(i0, i1, i2, i3, s16, s17, s18, s19)
#define NACRE_VFP_COLUMN_1(i0, i1, i2, i3) NACRE_VFP_CHANNELS(i0, i1, i2, i3, s20, s21, s22, s23)
#define NACRE_VFP_COLUMN_2(i0, i1, i2, i3) NACRE_VFP_CHANNELS(i0, i1, i2, i3, s24, s25, s26, s27)
#define NACRE_VFP_CHANNELS(i0, i1, i2, i3, w0, w1, w2, w3) \
  NACRE_VFP_FMA(i0, s28, w0) NACRE_VFP_FMA(i1, s29, w1) NACRE_VFP_FMA(i2, s30, w2) NACRE_VFP_FMA(i3, s31, w3)
#define NACRE_VFP_LOAD_COLUMN "vldmia %[p], {s28-s31}\n\t"
#define NACRE_VFP_NEXT_COLUMN "add %[p], %[column]\n\t"
#define NACRE_VFP_LOAD_TAP(registers) "vldmia %[w], {" registers "}\n\tadd %[w], %[pitch]\n\t"
#define NACRE_VFP_TAPS(first, middle, last)                                                                                    \
  "1:\n\t" NACRE_VFP_LOAD_TAP("s16-s19") NACRE_VFP_LOAD_TAP("s20-s23") NACRE_VFP_LOAD_TAP("s24-s27")                            \
  "cbnz %[skip_first], 2f\n\t" NACRE_VFP_LOAD_COLUMN first "2:\n\t" NACRE_VFP_NEXT_COLUMN middle                              \
  "cbnz %[skip_last], 3f\n\t" NACRE_VFP_LOAD_COLUMN last "3:\n\t"                                                            \
  "add %[p], %[rest]\n\tsubs %[ky], #1\n\tbne 1b"
#define NACRE_VFP_MIDDLE(taps) NACRE_VFP_LOAD_COLUMN taps NACRE_VFP_NEXT_COLUMN
#define NACRE_VFP_TAPS_ASM(text, ...)                                                                                          \
  asm volatile(text : __VA_ARGS__, [p] "+&r"(p), [w] "+&r"(w), [ky] "+&r"(ky) : [pitch] "r"(pitch), [column] "r"(column), [rest] "r"(rest), \
               [skip_first] "l"(skip_first), [skip_last] "l"(skip_last) : NACRE_VFP_HIGH, "cc", "memory")

template <int Stride, int T>
NACRE_INLINE void vfp_taps(vf (&sums)[T], const float* p, const float* w, isize ky, isize pitch, isize column, isize row, int skip_first,
                           int skip_last) {
  static_assert(T <= kVfpColumns && (Stride == 1 || Stride == 2));
  float c[4 * T];
  vfp_clear<4 * T>(c);
  const isize rest = row - ((T - 1) * Stride + 2) * column;
  if constexpr (T == 1) {
    NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0), NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1)), NACRE_VFP_TAP_0(2)),
                       NACRE_VFP_SUMS4(0, 1, 2, 3));
  } else if constexpr (Stride == 1) {
    if constexpr (T == 2) {
      NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0),
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1) NACRE_VFP_TAP_1(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(2) NACRE_VFP_TAP_1(1)),
                                        NACRE_VFP_TAP_1(2)),
                         NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7));
    } else if constexpr (T == 3) {
      NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0),
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1) NACRE_VFP_TAP_1(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(2) NACRE_VFP_TAP_1(1) NACRE_VFP_TAP_2(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(2) NACRE_VFP_TAP_2(1)),
                                        NACRE_VFP_TAP_2(2)),
                         NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7), NACRE_VFP_SUMS4(8, 9, 10, 11));
    } else {
      NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0),
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1) NACRE_VFP_TAP_1(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(2) NACRE_VFP_TAP_1(1) NACRE_VFP_TAP_2(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(2) NACRE_VFP_TAP_2(1) NACRE_VFP_TAP_3(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_2(2) NACRE_VFP_TAP_3(1)),
                                        NACRE_VFP_TAP_3(2)),
                         NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7), NACRE_VFP_SUMS4(8, 9, 10, 11),
                         NACRE_VFP_SUMS4(12, 13, 14, 15));
    }
  } else {
    if constexpr (T == 2) {
      NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0),
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1)) NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(2) NACRE_VFP_TAP_1(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(1)),
                                        NACRE_VFP_TAP_1(2)),
                         NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7));
    } else if constexpr (T == 3) {
      NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0),
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1)) NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(2) NACRE_VFP_TAP_1(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(1)) NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(2) NACRE_VFP_TAP_2(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_2(1)),
                                        NACRE_VFP_TAP_2(2)),
                         NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7), NACRE_VFP_SUMS4(8, 9, 10, 11));
    } else {
      NACRE_VFP_TAPS_ASM(NACRE_VFP_TAPS(NACRE_VFP_TAP_0(0),
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(1)) NACRE_VFP_MIDDLE(NACRE_VFP_TAP_0(2) NACRE_VFP_TAP_1(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(1)) NACRE_VFP_MIDDLE(NACRE_VFP_TAP_1(2) NACRE_VFP_TAP_2(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_2(1)) NACRE_VFP_MIDDLE(NACRE_VFP_TAP_2(2) NACRE_VFP_TAP_3(0))
                                        NACRE_VFP_MIDDLE(NACRE_VFP_TAP_3(1)),
                                        NACRE_VFP_TAP_3(2)),
                         NACRE_VFP_SUMS4(0, 1, 2, 3), NACRE_VFP_SUMS4(4, 5, 6, 7), NACRE_VFP_SUMS4(8, 9, 10, 11),
                         NACRE_VFP_SUMS4(12, 13, 14, 15));
    }
  }
  NACRE_UNROLL for (int i = 0; i < 4 * T; ++i) sums[i / 4][i % 4] = c[i];
}

}  // namespace nk
#endif
#endif
