// Matrix products: C[M, N] = A[M, K] * B[K, N], each result handed to `epilogue` once, which stores it.
//
//   gemm<NV>(M m, N n, K k, const float* a, RowStride lda, KStride ska, const float* b,
//            float* scratch, int thread, int threads, epilogue)
//     a    element (i, l) at a[i * lda + l * ska]; pass C<1>{} for ska when elements lie side by side (the fast case)
//     b    weights, packed on the host: [ceil(N / NR)][K][NR], NR = NV * VL, zeros beyond N, 64-byte aligned
//     scratch  gemm_scratch<NV>(m, n, k) floats of this thread (may be null when that is 0)
//
//   gemm_ab<NV>(M m, N n, K k, const float* a, RowStride lda, KStride ska, const float* b, BK sbk, BN sbn,
//               float* scratch, int thread, int threads, epilogue)
//     b    an activation: element (l, j) at b[l * sbk + j * sbn]. sbn = C<1>{}: [K][N]; sbk = C<1>{}: [N][K]
//     scratch  gemm_ab_scratch<NV>(m, n, k) floats of this thread
//
//   epilogue(isize i, isize j, vf value, int lanes)   elements (i, j .. j + lanes - 1); lanes is VL or, at the end of a row whose
//     length is no multiple of VL, less (then use store_part). Called exactly once per element, on one thread.
//
//   NV: vectors per panel, of 1 to kMaxNV; default_nv(n) says which is best for n columns. The host's
//       Target::panel_vectors(n) is the same function.
//
// Sizes and strides are isize or C<...>{}. Batches: the caller loops. Work is split over threads in a grid of whole register
// tiles by whole panels. Every element is summed in the same order whatever the number of threads.
#ifndef NACRE_KERNEL_GEMM_H
#define NACRE_KERNEL_GEMM_H
#include "nacre/vec.h"
#include "nacre/vfp.h"

namespace nk {

#if NACRE_REGISTERS == 32
inline constexpr int kMaxNV = 4;
NACRE_INLINE constexpr int tile_rows(int nv) { return nv == 1 ? 14 : nv == 2 ? 14 : nv == 3 ? 8 : 6; }
#elif NACRE_REGISTERS == 16
inline constexpr int kMaxNV = 3;
NACRE_INLINE constexpr int tile_rows(int nv) { return nv == 1 ? 12 : nv == 2 ? 6 : 4; }
#else
inline constexpr int kMaxNV = 1;
NACRE_INLINE constexpr int tile_rows(int) { return NACRE_REGISTERS == 8 ? 6 : 3; }
#endif

// The panel width (in vectors) that wastes the fewest columns; among equals the fastest tile.
NACRE_INLINE constexpr int default_nv(isize n) {
#if NACRE_REGISTERS == 32
  constexpr int order[] = {4, 3, 2, 1};
#elif NACRE_REGISTERS == 16
  constexpr int order[] = {2, 3, 1};
#else
  constexpr int order[] = {1};
#endif
  int best = order[0];
  isize best_cost = round_up(n, isize{best} * VL);
  for (const int nv : order) {
    const isize cost = round_up(n, isize{nv} * VL);
    // A narrower tile runs slower: it must save more than one column in sixteen.
    if (cost * 17 < best_cost * 16) {
      best = nv;
      best_cost = cost;
    }
  }
  return best;
}

// ---- one register tile ----------------------------------------------------------------------------------------------

// The weights that the next panel will need: tiles fetch them into L2 while they use this one. Every fourth step of a
// tile fetches a line and moves on by `bytes`, which may be less than a line.
struct Ahead {
  const char* next;
  isize bytes;
};
// Spreads the `floats` from `next` on over that many tiles of k steps each.
NACRE_INLINE Ahead ahead_of(const float* next, isize floats, isize tiles, isize k) {
  return {reinterpret_cast<const char*>(next), imin(64, floats * 16 / imax(1, tiles * k) + 1)};
}

inline constexpr isize kTilePieceK = 256;

template <int R, int NV>
struct Tile {
  vf acc[R][NV];

  NACRE_MEMBER void clear() {
#if NACRE_VFP
    if constexpr (R <= kVfpRows) {
      vfp_clear(acc);
      return;
    }
#endif
    NACRE_UNROLL for (int m = 0; m < R; ++m) {
      NACRE_UNROLL for (int n = 0; n < NV; ++n) acc[m][n] = splat(0.f);
    }
  }
  NACRE_MEMBER void read(const float* p) {
    NACRE_UNROLL for (int m = 0; m < R; ++m) {
      NACRE_UNROLL for (int n = 0; n < NV; ++n) acc[m][n] = load(p + (m * NV + n) * VL);
    }
  }
  NACRE_MEMBER void write(float* p) const {
    NACRE_UNROLL for (int m = 0; m < R; ++m) {
      NACRE_UNROLL for (int n = 0; n < NV; ++n) store(p + (m * NV + n) * VL, acc[m][n]);
    }
  }
  NACRE_MEMBER void add(const float* p) {  // what `write` wrote
    NACRE_UNROLL for (int m = 0; m < R; ++m) {
      NACRE_UNROLL for (int n = 0; n < NV; ++n) acc[m][n] += load(p + (m * NV + n) * VL);
    }
  }
  NACRE_MEMBER void add(const Tile& other) {
    NACRE_UNROLL for (int m = 0; m < R; ++m) {
      NACRE_UNROLL for (int n = 0; n < NV; ++n) acc[m][n] += other.acc[m][n];
    }
  }
  // acc[m][:] += sum over l of a[m][l * ska] * b[l * ldb + :]
  template <class K, class SKA, class LDB>
  NACRE_MEMBER void add(const float* const (&a)[R], SKA ska, const float* __restrict b, LDB ldb, K k) {
    steps(a, ska, b, ldb, k, []() NACRE_LAMBDA {});
  }
  // The same, fetching ahead.
  template <class K, class SKA, class LDB>
  NACRE_MEMBER void add(const float* const (&a)[R], SKA ska, const float* __restrict b, LDB ldb, K k, Ahead& ahead) {
    steps(a, ska, b, ldb, k, [&]() NACRE_LAMBDA {
      NACRE_PREFETCH(ahead.next, 2);
      ahead.next += ahead.bytes;
    });
  }
  template <class K, class SKA, class LDB, class F>
  NACRE_MEMBER void steps(const float* const (&a)[R], SKA ska, const float* __restrict b, LDB ldb, K k, F every_fourth) {
#if NACRE_VFP
    if constexpr (constant_is<SKA, 1> && constant_is<LDB, VL>) {
      vfp_add(acc, a, b, k);
      if constexpr (is_constant<K>::value) {
        NACRE_UNROLL for (isize l = K::value / 4 * 4; l < K::value; ++l) step(a, ska, b, ldb, l);
      } else {
        NACRE_ROLLED for (isize l = k / 4 * 4; l < k; ++l) step(a, ska, b, ldb, l);
      }
      return;
    }
#endif
    if constexpr (is_constant<K>::value) {
      if constexpr (K::value <= 24) {  // a row of a small filter
        every_fourth();
        NACRE_UNROLL for (isize l = 0; l < K::value; ++l) step(a, ska, b, ldb, l);
        return;
      }
    }
    const isize whole = k / 4 * 4;
    NACRE_ROLLED for (isize l = 0; l < whole; l += 4) {
      every_fourth();
      NACRE_UNROLL for (int u = 0; u < 4; ++u) step(a, ska, b, ldb, l + u);
    }
    if constexpr (is_constant<K>::value) {
      NACRE_UNROLL for (isize u = 0; u < K::value % 4; ++u) step(a, ska, b, ldb, whole + u);
    } else {
      NACRE_ROLLED for (isize l = whole; l < k; ++l) step(a, ska, b, ldb, l);
    }
  }
  template <class SKA, class LDB>
  NACRE_MEMBER void step(const float* const (&a)[R], SKA ska, const float* __restrict b, LDB ldb, isize l) {
    vf bv[NV];
    NACRE_UNROLL for (int n = 0; n < NV; ++n) bv[n] = load(b + l * ldb + n * VL);
    NACRE_UNROLL for (int m = 0; m < R; ++m) {
      const vf av = splat(a[m][l * ska]);
      NACRE_UNROLL for (int n = 0; n < NV; ++n) acc[m][n] = fma(av, bv[n], acc[m][n]);
    }
  }
};

// A long sum in pieces of at most `Most` steps, which meet in memory: its error grows with the pieces' length and number, not
// with their product, at the price of one percent.
template <int R, int NV, isize Most = kTilePieceK>
struct Pieces {
  NACRE_ALIGNED float sum[R * NV * VL];
  isize steps = 0;        // that are in the tile
  bool waiting = false; // something is in `sum`

  // Adds to the tile, which is clear at first, as Tile::add does.
  template <class K, class SKA, class LDB, class... Ahead>
  NACRE_MEMBER void add(Tile<R, NV>& tile, const float* const (&a)[R], SKA ska, const float* __restrict b, LDB ldb, K k,
                        Ahead&... ahead) {
    if (k <= Most) {
      make_room(tile, k);
      tile.add(a, ska, b, ldb, k, ahead...);
      return;
    }
    NACRE_ROLLED for (isize l = 0; l < k; l += Most) {
      const float* from[R];
      NACRE_UNROLL for (int m = 0; m < R; ++m) from[m] = a[m] + l * ska;
      const isize length = imin(Most, k - l);
      make_room(tile, length);
      tile.add(from, ska, b + l * ldb, ldb, length, ahead...);
    }
  }
  NACRE_MEMBER void finish(Tile<R, NV>& tile) {
    if (waiting) tile.add(sum);
  }

 private:
  NACRE_MEMBER void make_room(Tile<R, NV>& tile, isize next) {
    if (steps > 0 && steps + next > Most) {
      finish(tile);
      tile.write(sum);
      tile.clear();
      waiting = true;
      steps = 0;
    }
    steps += next;
  }
};

// tile = sum over l of a[m][l * ska] * b[l * ldb + :]
template <int R, int NV, class K, class SKA, class LDB, class... Ahead>
NACRE_INLINE void whole_product(Tile<R, NV>& tile, const float* const (&a)[R], SKA ska, const float* __restrict b, LDB ldb, K k,
                                Ahead&... ahead) {
  tile.clear();
  Pieces<R, NV> pieces;
  pieces.add(tile, a, ska, b, ldb, k, ahead...);
  pieces.finish(tile);
}

// The rows of C in tiles of at most `height` rows. A constant number of rows is spread evenly, so that no tile is nearly
// empty: `tall` tiles of short_rows + 1 rows, then tiles of short_rows. A run-time number has whole tiles and a rest.
struct RowTiles {
  isize m, count, short_rows, tall;
  NACRE_MEMBER constexpr isize row(isize tile) const { return imin(m, tile * short_rows + imin(tile, tall)); }
};
template <class M>
NACRE_INLINE constexpr RowTiles row_tiles(M m, isize height) {
  const isize count = ceil_div(m, height);
  if (count == 0) return {m, 0, height, 0};
  if constexpr (is_constant<M>::value) {
    return {m, count, m / count, m % count};
  } else {
    return {m, count, height, 0};
  }
}

// A tile's i-th row. Tiles of a run-time number of rows have two heights only; in the last one, rows beyond the end repeat
// the last row, and their results are dropped.
template <class M>
NACRE_INLINE isize row_of(M m, isize first, isize i) {
  return is_constant<M>::value ? first + i : imin(first + i, m - 1);
}
template <int MR, class F>
NACRE_INLINE void with_height(isize rows, F f) {
  if (rows > MR / 2) {
    f(C<MR>{});
  } else {
    f(C<MR / 2>{});
  }
}

// Computes tiles [begin, end) of m rows by one panel and hands them on. compute(tile, first_row) fills a Tile<R, NV>;
// whole(tile, first_row) takes one out of registers and is used where `in_registers` is and heights are constants (there
// are then at most two: the more frequent one goes this way); buffered(rows, first_row, values) takes it from memory,
// [row][NV * VL], with a run-time number of rows, so that its code stands there once.
template <int MR, int NV, class M, class Compute, class Whole, class Buffered>
NACRE_INLINE void for_tiles(M m, isize begin, isize end, bool in_registers, Compute compute, Whole whole, Buffered buffered) {
  auto through_memory = [&](auto rows, isize first, float* out) NACRE_LAMBDA {
    Tile<decltype(rows)::value, NV> tile;
    compute(tile, first);
    tile.write(out);
  };
  NACRE_ALIGNED float out[MR * NV * VL];
  if constexpr (is_constant<M>::value) {
    constexpr RowTiles t = row_tiles(M{}, MR);
    constexpr isize kTall = t.short_rows + 1, kShort = t.short_rows;
    constexpr bool kMoreTall = 2 * t.tall >= t.count;
    auto run = [&](auto rows, auto frequent, isize from, isize to) NACRE_LAMBDA {
      NACRE_ROLLED for (isize i = from; i < to; ++i) {
        const isize first = t.row(i);
        if (decltype(frequent)::value && in_registers) {
          Tile<decltype(rows)::value, NV> tile;
          compute(tile, first);
          whole(tile, first);
        } else {
          through_memory(rows, first, out);
          buffered(decltype(rows)::value, first, out);
        }
      }
    };
    if constexpr (t.tall > 0) run(C<kTall>{}, C<kMoreTall>{}, begin, imin(end, t.tall));
    if constexpr (t.tall < t.count) run(C<kShort>{}, C<!kMoreTall>{}, imax(begin, t.tall), end);
  } else {
    const RowTiles t = row_tiles(m, MR);
    NACRE_ROLLED for (isize i = begin; i < end; ++i) {
      const isize first = t.row(i), rows = t.row(i + 1) - first;
      with_height<MR>(rows, [&](auto fixed) NACRE_LAMBDA { through_memory(fixed, first, out); });
      buffered(rows, first, out);
    }
  }
}

// Hands a tile's results to the epilogue: all of its vectors are whole.
template <int R, int NV, class Epilogue>
NACRE_INLINE void finish_registers(const Tile<R, NV>& tile, isize row, isize column, Epilogue epilogue) {
  NACRE_UNROLL for (int i = 0; i < R; ++i) {
    NACRE_UNROLL for (int v = 0; v < NV; ++v) epilogue(row + i, column + v * VL, tile.acc[i][v], VL);
  }
}
template <int NV, class N, class Epilogue>
NACRE_INLINE void finish_buffer(isize rows, isize row, isize column, N n, const float* values, Epilogue epilogue) {
  const isize width = imin(NV * VL, n - column);
  if (is_long<Epilogue> && width == NV * VL) {
    NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
      NACRE_UNROLL for (int v = 0; v < NV; ++v) epilogue(row + i, column + v * VL, load(values + (i * NV + v) * VL), VL);
    }
    return;
  }
  NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
    NACRE_ROLLED for (isize v = 0; v < width; v += VL) {
      epilogue(row + i, column + v, load(values + i * (NV * VL) + v), static_cast<int>(imin(VL, width - v)));
    }
  }
}
// The usual case of both: a product's results.
template <int MR, int NV, class M, class N, class Compute, class Epilogue>
NACRE_INLINE void product_tiles(M m, isize begin, isize end, isize column, N n, Compute compute, Epilogue epilogue) {
  for_tiles<MR, NV>(
      m, begin, end, !is_long<Epilogue> && column + NV * VL <= n, compute,
      [&](const auto& tile, isize first) NACRE_LAMBDA { finish_registers(tile, first, column, epilogue); },
      [&](isize rows, isize first, const float* values)
          NACRE_LAMBDA { finish_buffer<NV>(rows, first, column, n, values, epilogue); });
}

// ---- work split ------------------------------------------------------------------------------------------------------

struct Part {
  Range tiles, panels;
};

// Splits tiles x panels over threads as a grid: the one whose largest part is smallest; among equals the one that reads
// the least (every thread reads its rows of A and its panels of B).
NACRE_INLINE Part split_grid(isize tiles, isize panels, isize tile_bytes, isize panel_bytes, int thread, int threads) {
  if (threads == 1) return {{0, tiles}, {0, panels}};
  isize best_work = -1, best_bytes = 0, rows = 1;
  for (isize r = 1; r <= threads; ++r) {
    if (threads % r != 0) continue;
    const isize t = ceil_div(tiles, r), p = ceil_div(panels, threads / r);
    const isize work = t * p, bytes = t * tile_bytes + p * panel_bytes;
    if (best_work < 0 || work < best_work || (work == best_work && bytes < best_bytes)) {
      best_work = work;
      best_bytes = bytes;
      rows = r;
    }
  }
  const isize columns = threads / rows;
  return {split(tiles, thread / columns, rows), split(panels, thread % columns, columns)};
}

// ---- a few rows (matrix times vector) --------------------------------------------------------------------------------

// At most R rows. The weights are read once, as one stream with prefetch; K is summed in kSplit chains to hide the latency
// of FMA, and in pieces of kPieceK, so that a long sum's rounding grows with its pieces' length and number and not with
// their product: what a library's product of a few rows does too. Both are free, since memory is what this waits for.
inline constexpr isize kPieceK = 64;
inline constexpr int kFewRows = NACRE_REGISTERS == 4 ? 3 : 4;

#if NACRE_VFP
template <int R, class K>
NACRE_INLINE void few_rows_sum(Tile<R, 1>& sum, const float* const (&a)[R], const float* b, K k) {
  if constexpr (R == 1) {
    vfp_row(sum.acc, a[0], b, k);
    NACRE_ROLLED for (isize l = k / 4 * 4; l < k; ++l) sum.step(a, C<1>{}, b, C<VL>{}, l);
  } else {
    NACRE_ROLLED for (isize piece = 0; piece < k; piece += kVfpPieceK) {
      const float* from[R];
      NACRE_UNROLL for (int i = 0; i < R; ++i) from[i] = a[i] + piece;
      Tile<R, 1> part;
      part.clear();
      part.add(from, C<1>{}, b + piece * VL, C<VL>{}, imin(kVfpPieceK, k - piece));
      sum.add(part);
    }
  }
}
#endif

template <int R, int NV, class Rows, class N, class K, class SKA, class Epilogue>
NACRE_INLINE void gemv_panels(Rows rows, const float* const (&a)[R], SKA ska, const float* b, N n, K k, Range panels,
                              Epilogue epilogue) {
  constexpr int NR = NV * VL;
  constexpr int kMany = kRegisters / 2, kSplit = R * NV >= kMany ? 1 : R * NV >= kMany / 2 ? 2 : 4;
  constexpr isize kAhead = 1024;  // floats
  NACRE_ROLLED for (isize panel = panels.begin; panel < panels.end; ++panel) {
    const float* __restrict p = b + panel * k * NR;
    Tile<R, NV> sum;
    sum.clear();
#if NACRE_VFP
    if constexpr (constant_is<SKA, 1>) {
      few_rows_sum(sum, a, p, k);
    } else
#endif
    {
      NACRE_ROLLED for (isize piece = 0; piece < k; piece += kPieceK) {
        const isize end = imin(k, piece + kPieceK);
        const isize whole = piece + (end - piece) / (2 * kSplit) * (2 * kSplit);
        Tile<R, NV> t[kSplit];
        NACRE_UNROLL for (int s = 0; s < kSplit; ++s) t[s].clear();
        NACRE_ROLLED for (isize l = piece; l < whole; l += 2 * kSplit) {
          NACRE_UNROLL for (int u = 0; u < 2 * kSplit; ++u) {
            NACRE_UNROLL for (int v = 0; v < NV; v += (16 / VL)) {
              NACRE_PREFETCH(p + (l + u) * NR + v * VL + kAhead, 3);
            }
            t[u % kSplit].step(a, ska, p, C<NR>{}, l + u);
          }
        }
        NACRE_ROLLED for (isize l = whole; l < end; ++l) t[0].step(a, ska, p, C<NR>{}, l);
        NACRE_UNROLL for (int s = 0; s < kSplit; ++s) sum.add(t[s]);
      }
    }
    NACRE_ALIGNED float out[R * NR];
    sum.write(out);
    finish_buffer<NV>(rows, 0, panel * NR, n, out, epilogue);
  }
}

// ---- packed weights ----------------------------------------------------------------------------------------------------

// Blocking: rows of A that stay in L2 while the panels of B pass; when a row is too long for that, K is cut as well and the
// sums of a block of rows by a group of panels wait in scratch.
inline constexpr isize kBlockFloats = NACRE_L2_BYTES / 4 * 2 / 5;  // of A
inline constexpr isize kPartFloats = NACRE_L2_BYTES / 4 / 4;       // of waiting sums
inline constexpr isize kBlockK = NACRE_L1_BYTES / 2 / 64;          // a panel of this length takes half of L1

// Distance of the copied pieces of rows: no multiple of 4 KB, so that they do not share cache sets.
NACRE_INLINE constexpr isize cut_pitch(isize k) { return round_up(round_up(ceil_div(k, ceil_div(k, kBlockK)), 4), 16) + 16; }
NACRE_INLINE constexpr bool cuts_k(isize m, isize n, isize k) {
  return k > 2 * kBlockK && m > 24 && m * k > kBlockFloats && n * k > kBlockFloats;
}
template <int NV>
NACRE_INLINE constexpr isize gemm_scratch(isize m, isize n, isize k) {
  return cuts_k(m, n, k) ? kPartFloats + kBlockFloats + tile_rows(NV) * cut_pitch(k) : 0;
}
// A piece of one row of A, side by side.
template <class SKA>
NACRE_INLINE void copy_row(const float* __restrict from, SKA ska, isize count, float* __restrict to) {
  isize l = 0;
  if (ska == 1) {
    NACRE_ROLLED for (; l + VL <= count; l += VL) store(to + l, load(from + l));
  }
  NACRE_ROLLED for (; l < count; ++l) to[l] = from[l * ska];
}

template <int NV, class M, class N, class K, class LDA, class SKA, class Epilogue>
NACRE_INLINE void gemm(M m, N n, K k, const float* __restrict a, LDA lda, SKA ska, const float* __restrict b,
                       float* __restrict scratch, int thread, int threads, Epilogue epilogue) {
  constexpr int MR = tile_rows(NV), NR = NV * VL;
  const isize panels = ceil_div(n, NR);
  const auto few_rows = [&](auto most) NACRE_LAMBDA {
    const float* row[decltype(most)::value];
    NACRE_UNROLL for (int i = 0; i < decltype(most)::value; ++i) row[i] = a + row_of(m, 0, i) * lda;
    gemv_panels<decltype(most)::value, NV>(m, row, ska, b, n, k, split(panels, thread, threads), epilogue);
  };
  if (m == 1) {
    few_rows(C<1>{});
    return;
  }
  if constexpr (is_constant<M>::value) {
    if constexpr (M::value >= 2 && M::value <= kFewRows) {
      few_rows(m);
      return;
    }
  } else if (m >= 2 && m <= kFewRows) {
    few_rows(C<kFewRows>{});
    return;
  }
  const RowTiles tiles = row_tiles(m, MR);
  const Part part = split_grid(tiles.count, panels, MR * k * 4, NR * k * 4, thread, threads);

  if (!cuts_k(m, n, k)) {
    // When all of this thread's B fits, the order does not matter much: then blocks of A that fit in half of L1 or more.
    const isize block = imax(1, kBlockFloats / imax(1, MR * k));
    NACRE_ROLLED for (isize t = part.tiles.begin; t < part.tiles.end; t += block) {
      const isize t_end = imin(part.tiles.end, t + block);
      NACRE_ROLLED for (isize panel = part.panels.begin; panel < part.panels.end; ++panel) {
        const float* bp = b + panel * k * NR;
        Ahead ahead = ahead_of(bp + k * NR, k * NR, t_end - t, k);
        product_tiles<MR, NV>(
            m, t, t_end, panel * NR, n,
            [&]<int R>(Tile<R, NV>& tile, isize first) NACRE_LAMBDA {
              const float* p[R];
              NACRE_UNROLL for (int i = 0; i < R; ++i) p[i] = a + row_of(m, first, i) * lda;
              whole_product(tile, p, ska, bp, C<NR>{}, k, ahead);
            },
            epilogue);
      }
    }
    return;
  }

  const isize cuts = ceil_div(k, kBlockK), cut = round_up(ceil_div(k, cuts), 4), pitch = cut_pitch(k);
  const isize block = imax(1, kBlockFloats / (MR * pitch));
  const isize group = imax(1, kPartFloats / (imin(block, part.tiles.end - part.tiles.begin) * MR * NR));
  float* rows = scratch + kPartFloats;
  NACRE_ROLLED for (isize t = part.tiles.begin; t < part.tiles.end; t += block) {
    const isize t_end = imin(part.tiles.end, t + block), top = tiles.row(t), bottom = tiles.row(t_end);
    NACRE_ROLLED for (isize g = part.panels.begin; g < part.panels.end; g += group) {
      const isize g_end = imin(part.panels.end, g + group);
      NACRE_ROLLED for (isize k0 = 0; k0 < k; k0 += cut) {
        const isize kc = imin(cut, k - k0);
        NACRE_ROLLED for (isize i = top; i < bottom; ++i) {
          copy_row(a + i * lda + k0 * ska, ska, kc, rows + (i - top) * pitch);
        }
        NACRE_ROLLED for (isize panel = g; panel < g_end; ++panel) {
          const float* bp = b + (panel * k + k0) * NR;
          float* sums = scratch + (panel - g) * (t_end - t) * MR * NR - top * NR;
          Ahead ahead = ahead_of(bp + k * NR, kc * NR, t_end - t, kc);
          const auto add = [&]<int R>(Tile<R, NV>& tile, isize first) NACRE_LAMBDA {
            const float* p[R];
            NACRE_UNROLL for (int i = 0; i < R; ++i) p[i] = rows + (row_of(m, first, i) - top) * pitch;
            whole_product(tile, p, C<1>{}, bp, C<NR>{}, kc, ahead);
            if (k0 > 0) tile.add(sums + first * NR);
          };
          if (k0 + kc == k) {
            product_tiles<MR, NV>(m, t, t_end, panel * NR, n, add, epilogue);
          } else {
            for_tiles<MR, NV>(
                m, t, t_end, true, add,
                [&](const auto& tile, isize first) NACRE_LAMBDA { tile.write(sums + first * NR); },
                [&](isize rows, isize first, const float* values) NACRE_LAMBDA {
                  NACRE_ROLLED for (isize i = 0; i < rows * NR; i += VL) store(sums + first * NR + i, load(values + i));
                });
          }
        }
      }
    }
  }
}

// ---- two activations -----------------------------------------------------------------------------------------------------

// Packs columns [column, column + NR) of B into [K][NR] with zeros beyond n.
template <int NV, class N, class K, class SBK, class SBN>
NACRE_INLINE void pack_panel(N n, K k, const float* __restrict b, SBK sbk, SBN sbn, isize column, float* __restrict to) {
  constexpr int NR = NV * VL;
  NACRE_ROLLED for (int v = 0; v < NV; ++v) {
    const isize j = column + v * VL;
    const int lanes = static_cast<int>(imax(0, imin(VL, n - j)));
    float* out = to + v * VL;
    if (lanes == 0) {
      NACRE_ROLLED for (isize l = 0; l < k; ++l) store(out + l * NR, splat(0.f));
    } else if (sbn == 1 && lanes == VL) {
      NACRE_ROLLED for (isize l = 0; l < k; ++l) store(out + l * NR, load(b + l * sbk + j));
    } else if (sbn == 1) {
      NACRE_ROLLED for (isize l = 0; l < k; ++l) store(out + l * NR, load_part(b + l * sbk + j, lanes));
    } else if (sbk == 1) {
      const isize whole = k / VL * VL;
      NACRE_ROLLED for (isize l = 0; l < whole; l += VL) {
        vf r[VL];
        NACRE_UNROLL for (int i = 0; i < VL; ++i) r[i] = i < lanes ? load(b + (j + i) * sbn + l) : splat(0.f);
        transpose(r);
        NACRE_UNROLL for (int i = 0; i < VL; ++i) store(out + (l + i) * NR, r[i]);
      }
      NACRE_ROLLED for (isize l = whole; l < k; ++l) store(out + l * NR, load_strided(b + j * sbn + l, sbn, lanes));
    } else {
      NACRE_ROLLED for (isize l = 0; l < k; ++l) {
        NACRE_ROLLED for (int i = 0; i < VL; ++i) out[l * NR + i] = i < lanes ? b[l * sbk + (j + i) * sbn] : 0.f;
      }
    }
  }
}

// Panels that are packed together.
template <int NV>
NACRE_INLINE constexpr isize packed_group(isize n, isize k) {
  return imax(1, imin(ceil_div(n, NV * VL), kBlockFloats / imax(1, k * NV * VL)));
}
template <int NV>
NACRE_INLINE constexpr isize gemm_ab_scratch([[maybe_unused]] isize m, isize n, isize k) {
  return packed_group<NV>(n, k) * k * NV * VL;
}

template <int NV, class M, class N, class K, class LDA, class SKA, class SBK, class SBN, class Epilogue>
NACRE_INLINE void gemm_ab(M m, N n, K k, const float* __restrict a, LDA lda, SKA ska, const float* __restrict b, SBK sbk,
                          SBN sbn, float* __restrict scratch, int thread, int threads, Epilogue epilogue) {
  constexpr int MR = tile_rows(NV), NR = NV * VL;
  const isize panels = ceil_div(n, NR), group = packed_group<NV>(n, k);
  const RowTiles tiles = row_tiles(m, MR);
  // Each thread packs the panels that it uses: splitting rows packs them once per thread.
  const Part part = split_grid(tiles.count, panels, MR * k * 4, NR * k * 12, thread, threads);
  if (part.tiles.begin == part.tiles.end) return;
  NACRE_ROLLED for (isize g = part.panels.begin; g < part.panels.end; g += group) {
    const isize g_end = imin(part.panels.end, g + group);
    NACRE_ROLLED for (isize panel = g; panel < g_end; ++panel) {
      pack_panel<NV>(n, k, b, sbk, sbn, panel * NR, scratch + (panel - g) * k * NR);
    }
    const isize block = imax(1, kBlockFloats / imax(1, MR * k));
    NACRE_ROLLED for (isize t = part.tiles.begin; t < part.tiles.end; t += block) {
      const isize t_end = imin(part.tiles.end, t + block);
      NACRE_ROLLED for (isize panel = g; panel < g_end; ++panel) {
        const float* bp = scratch + (panel - g) * k * NR;
        product_tiles<MR, NV>(
            m, t, t_end, panel * NR, n,
            [&]<int R>(Tile<R, NV>& tile, isize first) NACRE_LAMBDA {
              const float* p[R];
              NACRE_UNROLL for (int i = 0; i < R; ++i) p[i] = a + row_of(m, first, i) * lda;
              whole_product(tile, p, ska, bp, C<NR>{}, k);
            },
            epilogue);
      }
    }
  }
}

}  // namespace nk
#endif
