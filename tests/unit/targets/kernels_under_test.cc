// Compiled by Clang for each instruction set, with the table's name in NACRE_TABLE.
#include <cstdint>

#include "nacre/attention.h"
#include "nacre/conv.h"
#include "nacre/depthwise.h"
#include "nacre/gemm.h"
#include "nacre/math.h"
#include "nacre/recurrent.h"
#include "nacre/winograd.h"
#include "tests/unit/targets/kernel_table.h"

namespace {

using namespace nk;

template <class F>
void with_nv(int nv, F f) {
  if (nv == 1) f(C<1>{});
  if (nv == 2) f(C<2>{});
  if (nv == 3) f(C<3>{});
  if constexpr (kMaxNV == 4) {
    if (nv == 4) f(C<4>{});
  }
}

// Results are added to what is there: an element stored twice, or not at all, shows.
struct Matrix {
  float* c;
  i64 n;
  const float* bias;
  NACRE_MEMBER void operator()(i64 i, i64 j, vf value, int lanes) const {
    float* p = c + i * n + j;
    store_part(p, value + load_part(p, lanes) + load_part(bias + j, lanes), lanes);
  }
};

template <int NV, class M, class N, class K>
void run_gemm(M m, N n, K k, const GemmCall& g) {
  const Matrix epilogue{g.c, n, g.bias};
  if (g.ska == 1) {
    gemm<NV>(m, n, k, g.a, g.lda, C<1>{}, g.b, g.scratch, g.thread, g.threads, epilogue);
  } else {
    gemm<NV>(m, n, k, g.a, g.lda, g.ska, g.b, g.scratch, g.thread, g.threads, epilogue);
  }
}
void gemm_any(int nv, const GemmCall& g) {
  with_nv(nv, [&](auto v) { run_gemm<decltype(v)::value>(g.m, g.n, g.k, g); });
}
void gemm_ab_any(int nv, const GemmCall& g) {
  const Matrix epilogue{g.c, g.n, g.bias};
  with_nv(nv, [&](auto v) {
    if (g.sbn == 1) {
      gemm_ab<decltype(v)::value>(g.m, g.n, g.k, g.a, g.lda, C<1>{}, g.b, g.sbk, C<1>{}, g.scratch, g.thread, g.threads,
                                  epilogue);
    } else {
      gemm_ab<decltype(v)::value>(g.m, g.n, g.k, g.a, g.lda, g.ska, g.b, g.sbk, g.sbn, g.scratch, g.thread, g.threads,
                                  epilogue);
    }
  });
}
void gemm_constant(int index, const GemmCall& g) {
  int i = 0;
#define GEMM(nv, m_, n_, k_)                                                                                        \
  if (i++ == index)                                                                                                 \
    gemm<nv>(C<m_>{}, C<n_>{}, C<k_>{}, g.a, g.lda, C<1>{}, g.b, g.scratch, g.thread, g.threads, Matrix{g.c, g.n, g.bias});
#include "tests/unit/targets/shapes.def"
}

struct Image {
  float* out;
  i64 oh, ow, channels;
  const float* bias;
  NACRE_MEMBER void operator()(i64 n, i64 y, i64 x, i64 c, vf value, int lanes) const {
    float* p = out + ((n * oh + y) * ow + x) * channels + c;
    store_part(p, value + load_part(p, lanes) + load_part(bias + c, lanes), lanes);
  }
};
Image image(const ConvCall& c) { return {c.out, c.oh, c.ow, c.groups * c.oc, c.bias}; }

auto conv_of(const ConvCall& c) {
  return Conv{.batch = c.batch, .h = c.h, .w = c.w, .ic = c.ic, .oc = c.oc, .groups = c.groups, .kh = c.kh, .kw = c.kw,
              .stride_h = c.stride_h, .stride_w = c.stride_w, .pad_h = c.pad_h, .pad_w = c.pad_w,
              .dilation_h = c.dilation_h, .dilation_w = c.dilation_w, .oh = c.oh, .ow = c.ow, .sn = c.sn, .sh = c.sh,
              .sw = c.sw};
}
void conv_any(int nv, const ConvCall& c) {
  with_nv(nv, [&](auto v) {
    conv<decltype(v)::value>(conv_of(c), c.in, c.weights, c.scratch, c.thread, c.threads, image(c));
  });
}
void conv_planar_any(int nv, const ConvCall& c) {
  with_nv(nv, [&](auto v) {
    conv_planar<decltype(v)::value>(conv_of(c), c.sc, c.in, c.weights, c.scratch, c.thread, c.threads, image(c));
  });
}
// Dense channels-last strides as constants; planar: rows and columns as constants.
#define CONV_SHAPE(batch_, h_, w_, ic_, oc_, groups_, kh_, kw_, sh_, sw_, ph_, pw_, dh_, dw_, oh_, ow_, channels)        \
  Conv {                                                                                                                 \
    .batch = C<batch_>{}, .h = C<h_>{}, .w = C<w_>{}, .ic = C<ic_>{}, .oc = C<oc_>{}, .groups = C<groups_>{},            \
    .kh = C<kh_>{}, .kw = C<kw_>{}, .stride_h = C<sh_>{}, .stride_w = C<sw_>{}, .pad_h = C<ph_>{}, .pad_w = C<pw_>{},    \
    .dilation_h = C<dh_>{}, .dilation_w = C<dw_>{}, .oh = C<oh_>{}, .ow = C<ow_>{}, .sn = C<(h_) * (w_) * (channels)>{}, \
    .sh = C<(w_) * (channels)>{}, .sw = C<channels>{}                                                                    \
  }
#define OUT(size, k, s, p, d) (((size) + 2 * (p) - ((k) - 1) * (d) - 1) / (s) + 1)
void conv_constant(int index, const ConvCall& c) {
  int i = 0;
#define CONV(nv, n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, dh, dw)                                                  \
  if (i++ == index)                                                                                                   \
    conv<nv>(CONV_SHAPE(n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, dh, dw, OUT(h, kh, sh, ph, dh),                   \
                        OUT(w, kw, sw, pw, dw), (ic) * (g)),                                                          \
             c.in, c.weights, c.scratch, c.thread, c.threads, image(c));
#include "tests/unit/targets/shapes.def"
}
void conv_planar_constant(int index, const ConvCall& c) {
  int i = 0;
#define CONV(nv, n, h_, w_, ic_, oc_, g, kh_, kw_, sh_, sw_, ph, pw, dh, dw)                                                   \
  if (i++ == index) {                                                                                                  \
    if constexpr (g == 1 && ic_ < 8) {                                                                                            \
      auto shape = CONV_SHAPE(n, h_, w_, ic_, oc_, g, kh_, kw_, sh_, sw_, ph, pw, dh, dw, OUT(h_, kh_, sh_, ph, dh),              \
                              OUT(w_, kw_, sw_, pw, dw), 1);                                                              \
      conv_planar<nv>(Conv{.batch = shape.batch, .h = shape.h, .w = shape.w, .ic = shape.ic, .oc = shape.oc,           \
                           .groups = shape.groups, .kh = shape.kh, .kw = shape.kw, .stride_h = shape.stride_h,         \
                           .stride_w = shape.stride_w, .pad_h = shape.pad_h, .pad_w = shape.pad_w,                     \
                           .dilation_h = shape.dilation_h, .dilation_w = shape.dilation_w, .oh = shape.oh,             \
                           .ow = shape.ow, .sn = C<(h_) * (w_) * (ic_)>{}, .sh = shape.sh, .sw = shape.sw},               \
                      c.sc, c.in, c.weights, c.scratch, c.thread, c.threads, image(c));                                \
    }                                                                                                                  \
  }
#include "tests/unit/targets/shapes.def"
}
void transposed_constant(int index, const ConvCall& c) {
  int i = 0;
#define TRANSPOSED(nv, n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, oh, ow)                                      \
  if (i++ == index)                                                                                             \
    conv_transposed<nv>(CONV_SHAPE(n, h, w, ic, oc, g, kh, kw, sh, sw, ph, pw, 1, 1, oh, ow, (ic) * (g)), c.in, \
                        c.weights, c.scratch, c.thread, c.threads, image(c));
#include "tests/unit/targets/shapes.def"
}
template <class F>
void with_scheme(int out, int nv, F f) {
  if (out == 2 && nv == 2) f(C<2>{}, Winograd2{});
  if (out == 4 && nv == 1) f(C<1>{}, Winograd4{});
}
i64 winograd_scratch_any(int out, int nv, const ConvCall& c) {
  i64 size = 0;
  with_scheme(out, nv, [&](auto v, auto scheme) {
    const i64 m = decltype(scheme)::kOut, tiles = c.batch * ceil_div(c.oh, m) * ceil_div(c.ow, m);
    size = winograd_scratch<decltype(v)::value, decltype(scheme)>(c.ic, tiles);
  });
  return size;
}
void winograd_any(int out, int nv, const ConvCall& c) {
  with_scheme(out, nv, [&](auto v, auto scheme) {
    conv_winograd<decltype(v)::value, decltype(scheme)>(conv_of(c), c.in, c.weights, c.scratch, c.thread, c.threads,
                                                        image(c));
  });
}
void depthwise_any(const ConvCall& c) {
  depthwise(Depthwise{.batch = c.batch, .h = c.h, .w = c.w, .c = c.groups, .kh = c.kh, .kw = c.kw,
                      .stride_h = c.stride_h, .stride_w = c.stride_w, .pad_h = c.pad_h, .pad_w = c.pad_w,
                      .dilation_h = c.dilation_h, .dilation_w = c.dilation_w, .oh = c.oh, .ow = c.ow, .sn = c.sn,
                      .sh = c.sh, .sw = c.sw},
            c.in, c.weights, c.thread, c.threads, image(c));
}
void depthwise_constant(int index, const ConvCall& c) {
  int i = 0;
#define DEPTHWISE(n, h_, w_, ch, kh_, kw_, sh_, sw_, ph, pw, dh, dw)                                                   \
  if (i++ == index)                                                                                                    \
    depthwise(Depthwise{.batch = C<n>{}, .h = C<h_>{}, .w = C<w_>{}, .c = C<ch>{}, .kh = C<kh_>{}, .kw = C<kw_>{},     \
                        .stride_h = C<sh_>{}, .stride_w = C<sw_>{}, .pad_h = C<ph>{}, .pad_w = C<pw>{},                \
                        .dilation_h = C<dh>{}, .dilation_w = C<dw>{}, .oh = C<OUT(h_, kh_, sh_, ph, dh)>{},            \
                        .ow = C<OUT(w_, kw_, sw_, pw, dw)>{}, .sn = C<(h_) * (w_) * (ch)>{}, .sh = C<(w_) * (ch)>{},   \
                        .sw = C<ch>{}},                                                                                \
              c.in, c.weights, c.thread, c.threads, image(c));
#include "tests/unit/targets/shapes.def"
}

template <class S, class Causal>
void run_attention(const S& s, Causal causal, const AttentionCall& a) {
  auto head = [&](const float* p, i64 length, i64 width) {
    return [=](i64 b, i64 h) NACRE_LAMBDA { return p + (b * length * a.heads + h) * width; };
  };
  auto epilogue = [&](i64 b, i64 h, i64 i, i64 c, vf value, int lanes) NACRE_LAMBDA {
    float* p = a.out + ((b * a.s + i) * a.heads + h) * a.e + c;
    store_part(p, value + load_part(p, lanes), lanes);
  };
  const auto q = head(a.q, a.s, a.d), k = head(a.k, a.t, a.d), v = head(a.v, a.t, a.e);
  if (a.mask == nullptr) {
    attention(s, q, k, v, a.scale, causal, NoBias{}, a.scratch, a.thread, a.threads, epilogue);
  } else {
    const float* mask = a.mask;
    const i64 t = a.t;
    attention(
        s, q, k, v, a.scale, causal,
        [=](i64, i64, i64 i, i64 j, int lanes) NACRE_LAMBDA { return load_part(mask + i * t + j, lanes); }, a.scratch,
        a.thread, a.threads, epilogue);
  }
}
void attention_any(const AttentionCall& a) {
  const Attention s{.batch = a.batch, .heads = a.heads, .s = a.s, .t = a.t, .d = a.d, .e = a.e, .q_s = a.heads * a.d,
                    .k_t = a.heads * a.d, .v_t = a.heads * a.e};
  if (a.causal) {
    run_attention(s, C<1>{}, a);
  } else {
    run_attention(s, C<0>{}, a);
  }
}
void attention_constant(int index, const AttentionCall& a) {
  int i = 0;
#define ATTENTION(b, h, s_, t_, d_, e_, causal)                                                                       \
  if (i++ == index)                                                                                                   \
    run_attention(Attention{.batch = C<b>{}, .heads = C<h>{}, .s = C<s_>{}, .t = C<t_>{}, .d = C<d_>{}, .e = C<e_>{}, \
                            .q_s = C<(h) * (d_)>{}, .k_t = C<(h) * (d_)>{}, .v_t = C<(h) * (e_)>{}},                  \
                  C<causal>{}, a);
#include "tests/unit/targets/shapes.def"
}

template <class Reverse>
void run_recurrent(const RecurrentCall& r, int gates, Reverse reverse) {
  const Recurrent s{.time = r.time, .batch = r.batch, .hidden = r.hidden, .y_t = r.batch * r.hidden, .y_b = r.hidden,
                    .h_b = r.hidden, .c_b = r.hidden};
  auto sync = [&]() NACRE_LAMBDA { r.sync(r.team); };
  if (gates == 4) {
    lstm(s, r.projected, r.weights, r.h0, r.c0, r.y, r.h, r.c, reverse, r.thread, r.threads, sync);
  } else {
    gru(s, r.projected, r.weights, r.bias, r.h0, r.y, r.h, reverse, r.thread, r.threads, sync);
  }
}
void lstm_any(const RecurrentCall& r) { r.reverse ? run_recurrent(r, 4, C<1>{}) : run_recurrent(r, 4, C<0>{}); }
void gru_any(const RecurrentCall& r) { r.reverse ? run_recurrent(r, 3, C<1>{}) : run_recurrent(r, 3, C<0>{}); }

}  // namespace

extern "C" const KernelTable NACRE_TABLE = {
    VL,
    kMaxNV,
    [](int64_t n) { return default_nv(n); },
    [](int nv, int64_t m, int64_t n, int64_t k) {
      i64 size = 0;
      with_nv(nv, [&](auto v) { size = gemm_scratch<decltype(v)::value>(m, n, k); });
      return size;
    },
    [](int nv, int64_t m, int64_t n, int64_t k) {
      i64 size = 0;
      with_nv(nv, [&](auto v) { size = gemm_ab_scratch<decltype(v)::value>(m, n, k); });
      return size;
    },
    [](const ConvCall& c) { return conv_scratch(c.ic); },
    [](const ConvCall& c) {
      return conv_planar_scratch(c.ic, c.kh, c.kw, c.stride_h, c.stride_w, c.dilation_h, c.dilation_w, c.oh, c.ow);
    },
    [](const AttentionCall& a) { return attention_scratch(a.s, a.t, a.d, a.e); },
    gemm_any,
    gemm_ab_any,
    gemm_constant,
    conv_any,
    conv_planar_any,
    conv_constant,
    conv_planar_constant,
    transposed_constant,
    winograd_scratch_any,
    winograd_any,
    depthwise_any,
    depthwise_constant,
    attention_any,
    attention_constant,
    lstm_any,
    gru_any,
    [](const float* x) { return reduce_sum(load(x)); },
    [](const float* x) { return reduce_max(load(x)); },
    [](float* x) {
      vf r[VL];
      NACRE_UNROLL for (int i = 0; i < VL; ++i) r[i] = load(x + i * VL);
      transpose(r);
      NACRE_UNROLL for (int i = 0; i < VL; ++i) store(x + i * VL, r[i]);
    },
    [](const float* from, float* to, int n) { store_part(to, load_part(from, n), n); },
};
