// Attention: out[i] = sum over j of softmax_j(scale q[i] . k[j] + bias(i, j)) v[j], for every batch and head.
//
//   attention(Attention{.batch, .heads, .s, .t, .d, .e, .q_s, .k_t, .v_t}, q, k, v, float scale, causal, bias,
//             float* scratch, int thread, int threads, epilogue)
//     s queries, t keys; d elements in q and k, e in v; q_s, k_t, v_t: distance of their rows; elements lie side by side.
//       Each an isize or C<...>{}
//     q, k, v   q(isize b, isize h) -> const float*: row 0 of that head (grouped queries: k may use h / 3)
//     causal    C<1>{}: query i sees keys j <= i; C<0>{}: all
//     bias      bias(isize b, isize h, isize i, isize j, int lanes) -> vf, added to the scaled scores of keys j .. j + lanes - 1
//               (a vector condition becomes select(condition, 0, -inf)); or NoBias{}
//     scratch   attention_scratch(s, t, d, e) floats of this thread
//   epilogue(isize b, isize h, isize i, isize c, vf value, int lanes)   output elements (b, h, i, c .. c + lanes - 1)
//
// A query whose keys are all masked with -inf gives 0, as torch.nn.functional.scaled_dot_product_attention does; NaN
// scores give NaN. The softmax is exact in two passes: the scores of a few queries stay whole in cache. Work is split over
// batch, heads and blocks of queries.
#ifndef NACRE_KERNEL_ATTENTION_H
#define NACRE_KERNEL_ATTENTION_H
#include "nacre/gemm.h"
#include "nacre/math.h"

namespace nk {

template <class Batch, class Heads, class S, class T, class D, class E, class QS, class KT, class VT>
struct Attention {
  Batch batch;
  Heads heads;
  S s;
  T t;
  D d;
  E e;
  QS q_s;
  KT k_t;
  VT v_t;
};
struct NoBias {};

namespace detail {

inline constexpr int kAttentionNV = kRegisters == 32 ? 4 : kRegisters == 16 ? 2 : 1;
inline constexpr int kAttentionNR = kAttentionNV * VL;
inline constexpr int kAttentionRows = tile_rows(kAttentionNV);
// Fewer queries than this: not worth packing keys and values.
inline constexpr int kFewQueries = 4;

// Vectors in the last panel of keys, where their number is known.
template <class T>
inline constexpr int last_vectors = kAttentionNV;
template <isize T>
inline constexpr int last_vectors<C<T>> =
    T % kAttentionNR == 0 ? kAttentionNV : static_cast<int>((T % kAttentionNR + VL - 1) / VL);

// Distance of rows of scores: not a multiple of 4 KB, so that the rows of a tile do not share cache sets.
NACRE_INLINE constexpr isize score_pitch(isize t) { return round_up(t, kAttentionNR) + 16; }

template <class A>
inline constexpr bool has_bias = true;
template <>
inline constexpr bool has_bias<NoBias> = false;

// The greatest score so far; NaN is not greater than anything, and comes back in the exponentials.
NACRE_INLINE vf greater(vf m, vf x) { return select(x > m, x, m); }

// Exponentials of one row of scores in place, given the greatest of each lane; returns the factor that makes them add up
// to 1. Elements [t, round_up(t, VL)) are -inf.
__attribute__((noinline)) static inline float softmax_row(float* row, isize t, const float* greatest_lanes) {
  const isize end = round_up(t, VL);
  const float greatest = reduce_max(load(greatest_lanes));
  if (greatest == -__builtin_inff()) {
    // Nothing to attend to: 0, but for a score that is NaN.
    bool nan = false;
    NACRE_ROLLED for (isize j = 0; j < t; ++j) {
      nan |= row[j] != row[j];
      row[j] = 0.f;
    }
    return nan ? __builtin_nanf("") : 0.f;
  }
  const vf m = splat(greatest);
  vf s0 = splat(0.f), s1 = splat(0.f);
  isize j = 0;
  NACRE_ROLLED for (; j + 2 * VL <= end; j += 2 * VL) {
    const vf e0 = exp_negative(load(row + j) - m), e1 = exp_negative(load(row + j + VL) - m);
    store(row + j, e0);
    store(row + j + VL, e1);
    s0 += e0;
    s1 += e1;
  }
  if (j < end) {
    const vf e0 = exp_negative(load(row + j) - m);
    store(row + j, e0);
    s0 += e0;
  }
  return 1.f / reduce_sum(s0 + s1);
}

// One vector of scores: scaled, biased, masked by order.
template <class Causal, class Bias>
NACRE_INLINE vf finish_score(vf x, float scale, Causal causal, Bias bias, isize b, isize h, isize i, isize j, isize t) {
  x *= splat(scale);
  if constexpr (has_bias<Bias>) {
    const int lanes = static_cast<int>(imin(VL, t - j));
    if (lanes > 0) x += bias(b, h, i, j, lanes);
  }
  if (causal && j + VL > i + 1) {
    x = select(iota() <= isplat(static_cast<int32_t>(i - j)), x, splat(-__builtin_inff()));
  }
  return x;
}

// All of a row: scores [0, t) are finished and become weights; returns their factor.
template <class Causal, class Bias>
NACRE_INLINE float weigh_row(float* row, float scale, Causal causal, Bias bias, isize b, isize h, isize i, isize t, isize all) {
  vf m = splat(-__builtin_inff());
  isize j = 0;
  NACRE_ROLLED for (; j + VL <= t; j += VL) {
    const vf x = finish_score(load(row + j), scale, causal, bias, b, h, i, j, all);
    store(row + j, x);
    m = greater(m, x);
  }
  if (j < t) {
    vf x = finish_score(load(row + j), scale, causal, bias, b, h, i, j, all);
    x = select(iota() < isplat(static_cast<int32_t>(t - j)), x, splat(-__builtin_inff()));
    store(row + j, x);
    m = greater(m, x);
  }
  NACRE_ALIGNED float greatest[VL];
  store(greatest, m);
  return softmax_row(row, t, greatest);
}

// A few queries (a decoding step): keys and values are read where they lie.
template <class A, class Causal, class Bias, class Epilogue>
NACRE_INLINE void attention_row(const A& a, const float* __restrict q, const float* __restrict k,
                                const float* __restrict v, float scale, Causal causal, Bias bias, float* __restrict row,
                                isize b, isize h, isize i, Epilogue epilogue) {
  const isize t = causal ? imin(a.t, i + 1) : isize{a.t};
  const isize whole = a.d / VL * VL;
  const int rest = static_cast<int>(a.d - whole);
  auto dot = [&](auto keys, isize j) NACRE_LAMBDA {
    constexpr int kKeys = decltype(keys)::value;
    vf sum[kKeys];
    NACRE_UNROLL for (int n = 0; n < kKeys; ++n) sum[n] = splat(0.f);
    NACRE_ROLLED for (isize l = 0; l < whole; l += VL) {
      const vf x = load(q + l);
      NACRE_UNROLL for (int n = 0; n < kKeys; ++n) sum[n] = fma(x, load(k + (j + n) * a.k_t + l), sum[n]);
    }
    if (rest > 0) {
      const vf x = load_part(q + whole, rest);
      NACRE_UNROLL for (int n = 0; n < kKeys; ++n) {
        sum[n] = fma(x, load_part(k + (j + n) * a.k_t + whole, rest), sum[n]);
      }
    }
    NACRE_UNROLL for (int n = 0; n < kKeys; ++n) row[j + n] = reduce_sum(sum[n]);
  };
  isize j = 0;
  NACRE_ROLLED for (; j + 4 <= t; j += 4) dot(C<4>{}, j);
  NACRE_ROLLED for (; j < t; ++j) dot(C<1>{}, j);
  const float inverse = weigh_row(row, scale, C<0>{}, bias, b, h, i, t, t);
  auto columns = [&](auto vectors, isize c) NACRE_LAMBDA {
    constexpr int kVectors = decltype(vectors)::value;
    vf sum[kVectors];
    const int lanes = static_cast<int>(imin(VL, a.e - c));
    NACRE_UNROLL for (int n = 0; n < kVectors; ++n) sum[n] = splat(0.f);
    NACRE_ROLLED for (isize l = 0; l < t; ++l) {
      const vf p = splat(row[l]);
      const float* x = v + l * a.v_t + c;
      if constexpr (kVectors == 1) {
        sum[0] = fma(p, lanes == VL ? load(x) : load_part(x, lanes), sum[0]);
      } else {
        NACRE_UNROLL for (int n = 0; n < kVectors; ++n) sum[n] = fma(p, load(x + n * VL), sum[n]);
      }
    }
    NACRE_ROLLED for (int n = 0; n < kVectors; ++n) {
      epilogue(b, h, i, c + n * VL, sum[n] * splat(inverse), kVectors == 1 ? lanes : VL);
    }
  };
  isize c = 0;
  NACRE_ROLLED for (; c + 4 * VL <= a.e; c += 4 * VL) columns(C<4>{}, c);
  NACRE_ROLLED for (; c < a.e; c += VL) columns(C<1>{}, c);
}

}  // namespace detail

NACRE_INLINE constexpr isize attention_scratch(isize s, isize t, isize d, isize e) {
  const isize packed = s <= detail::kFewQueries
                         ? 0
                         : round_up(t, detail::kAttentionNR) * d + t * round_up(e, detail::kAttentionNR);
  return packed + detail::kAttentionRows * detail::score_pitch(t);
}

template <class A, class Q, class K, class V, class Causal, class Bias, class Epilogue>
NACRE_INLINE void attention(const A& a, Q q, K k, V v, float scale, Causal causal, Bias bias, float* __restrict scratch,
                            int thread, int threads, Epilogue epilogue) {
  constexpr int NV = detail::kAttentionNV, NR = detail::kAttentionNR, MR = detail::kAttentionRows;
  if (a.s <= detail::kFewQueries) {
    const Range rows = split(a.batch * a.heads * a.s, thread, threads);
    NACRE_ROLLED for (isize r = rows.begin; r < rows.end; ++r) {
      const isize i = r % a.s, h = r / a.s % a.heads, b = r / a.s / a.heads;
      detail::attention_row(a, q(b, h) + i * a.q_s, k(b, h), v(b, h), scale, causal, bias, scratch, b, h, i, epilogue);
    }
    return;
  }
  if constexpr (is_constant<decltype(a.s)>::value) {
    if constexpr (decltype(a.s)::value <= detail::kFewQueries) return;
  }

  const RowTiles tiles = row_tiles(a.s, MR);
  const isize pitch = detail::score_pitch(a.t);
  float* keys = scratch;
  float* values = keys + round_up(a.t, NR) * a.d;
  float* scores = values + a.t * round_up(a.e, NR);
  const Range work = split(a.batch * a.heads * tiles.count, thread, threads);
  isize unit = work.begin;
  NACRE_ROLLED while (unit < work.end) {
    const isize head = unit / tiles.count, b = head / a.heads, h = head % a.heads;
    const isize first_tile = unit - head * tiles.count, last_tile = imin(tiles.count, first_tile + (work.end - unit));
    unit += last_tile - first_tile;
    const float* kp = k(b, h);
    const float* vp = v(b, h);
    const float* qp = q(b, h);
    NACRE_ROLLED for (isize j = 0; j < a.t; j += NR) pack_panel<NV>(a.t, a.d, kp, C<1>{}, a.k_t, j, keys + j * a.d);
    NACRE_ROLLED for (isize c = 0; c < a.e; c += NR) pack_panel<NV>(a.e, a.t, vp, a.v_t, C<1>{}, c, values + c * a.t);

    auto block = [&](auto run, isize rows, isize first) NACRE_LAMBDA {
      // Keys that some query of this tile sees.
      const isize t = causal ? imin(a.t, first + rows) : isize{a.t};
      run([&](auto fixed) NACRE_LAMBDA {
        constexpr int R = decltype(fixed)::value;
        const float* p[R];
        NACRE_UNROLL for (int i = 0; i < R; ++i) p[i] = qp + row_of(a.s, first, i) * a.q_s;
        auto panel = [&](auto vectors, isize j) NACRE_LAMBDA {
          constexpr int kVectors = decltype(vectors)::value;
          Tile<R, kVectors> tile;
          tile.clear();
          tile.add(p, C<1>{}, keys + j * a.d, C<NR>{}, a.d);
          NACRE_UNROLL for (int i = 0; i < R; ++i) {
            NACRE_UNROLL for (int n = 0; n < kVectors; ++n) store(scores + i * pitch + j + n * VL, tile.acc[i][n]);
          }
        };
        // The last panel may be narrower; that is worth a tile of its own where its width is known.
        constexpr int kLast = detail::last_vectors<decltype(a.t)>;
        const isize whole = kLast == NV ? t : imin(t, a.t / NR * NR);
        isize j = 0;
        NACRE_ROLLED for (; j < whole; j += NR) panel(C<NV>{}, j);
        if constexpr (kLast != NV) {
          if (j < t) panel(C<kLast>{}, j);
        }
      });
      float inverse[MR];
      NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
        inverse[i] = detail::weigh_row(scores + i * pitch, scale, causal, bias, b, h, first + i, t, a.t);
      }
      NACRE_ROLLED for (isize c = 0; c < a.e; c += NR) {
        NACRE_ALIGNED float out[MR * NR];
        run([&](auto fixed) NACRE_LAMBDA {
          constexpr int R = decltype(fixed)::value;
          const float* p[R];
          NACRE_UNROLL for (int i = 0; i < R; ++i) p[i] = scores + i * pitch;
          Tile<R, NV> tile;
          tile.clear();
          tile.add(p, C<1>{}, values + c * a.t, C<NR>{}, t);
          tile.write(out);
        });
        const isize width = imin(NR, a.e - c);
        NACRE_ROLLED for (isize i = 0; i < rows; ++i) {
          NACRE_ROLLED for (isize n = 0; n < width; n += VL) {
            epilogue(b, h, first + i, c + n, load(out + i * NR + n) * splat(inverse[i]),
                     static_cast<int>(imin(VL, width - n)));
          }
        }
      }
    };
    NACRE_ROLLED for (isize tile = first_tile; tile < last_tile; ++tile) {
      const isize first = tiles.row(tile), rows = tiles.row(tile + 1) - first;
      if constexpr (is_constant<decltype(a.s)>::value) {
        // Two heights at most.
        constexpr RowTiles t = row_tiles(decltype(a.s){}, MR);
        constexpr int kTall = static_cast<int>(t.short_rows + 1), kShort = static_cast<int>(t.short_rows);
        block(
            [&](auto f) NACRE_LAMBDA {
              if constexpr (t.tall == 0) {
                f(C<kShort>{});
              } else {
                if (t.tall == t.count || tile < t.tall) {
                  f(C<kTall>{});
                } else {
                  f(C<kShort>{});
                }
              }
            },
            rows, first);
      } else {
        block([&](auto f) NACRE_LAMBDA { with_height<MR>(rows, f); }, rows, first);
      }
    }
  }
}

}  // namespace nk
#endif
