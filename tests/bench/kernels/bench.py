"""Times the kernel library beside PyTorch eager, one thread, on the shapes of the benchmark's models.

    python tests/bench/kernels/bench.py [--level x86-64-v3] [--only TEXT] [--rounds N]

Each kernel is compiled by clang++-19 as generated kernels are, with a bias and a ReLU as epilogue where PyTorch can fuse
none; its result is checked against float64. Times are minima over interleaved rounds.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
VECTOR = {"x86-64-v2": 4, "x86-64-v3": 8, "x86-64-v4": 16}
ORDER = {"x86-64-v2": (2, 3, 1), "x86-64-v3": (2, 3, 1), "x86-64-v4": (4, 3, 2, 1)}


def ceil_div(a, b):
    return -(-a // b)


def panel_vectors(level, n):
    """The kernel library's default_nv()."""
    vl, best = VECTOR[level], None
    for nv in ORDER[level]:
        cost = ceil_div(n, nv * vl) * nv * vl
        if best is None or cost * 17 < best[0] * 16:
            best = (cost, nv)
    return best[1]


def pack_panels(rows, nr):
    """[n, k] to [ceil(n / nr)][k][nr]"""
    n, k = rows.shape
    padded = torch.zeros(ceil_div(n, nr) * nr, k)
    padded[:n] = rows
    return padded.view(-1, nr, k).transpose(1, 2).contiguous()


class Case:
    """name, body of the kernel, buffers (inputs, output), PyTorch's way, exact result, operations"""

    def __init__(self, name, body, inputs, output, eager, exact, flops, scratch=1 << 22):
        self.name, self.body, self.inputs, self.output = name, body, inputs, output
        self.eager, self.exact, self.flops, self.scratch = eager, exact, flops, scratch


def gemm(level, m, n, k, dynamic=False, nv=None):
    nv = nv or panel_vectors(level, n)
    nr = nv * VECTOR[level]
    a, w, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    packed, out = pack_panels(w, nr), torch.zeros(m, n)
    size = "M" if dynamic else f"C<{m}>{{}}"
    body = f"""
      const i64 M = {m}; volatile i64 hide = M; const i64 rows = hide; (void)rows;
      gemm<{nv}>({"rows" if dynamic else size}, C<{n}>{{}}, C<{k}>{{}}, in[0], C<{k}>{{}}, C<1>{{}}, in[1], scratch, thread, threads,
        [&](i64 i, i64 j, vf v, int lanes) NACRE_LAMBDA {{
          if (lanes == VL) store(out + i * {n} + j, relu(v + load(in[2] + j)));
          else store_part(out + i * {n} + j, relu(v + load_part(in[2] + j, lanes)), lanes); }});"""
    return Case(f"gemm {m}x{n}x{k}{' dynamic' if dynamic else ''}{f' nv{nv}' if nv else ''}", body, [a, packed, bias], out,
                lambda: F.relu_(F.linear(a, w, bias)),
                lambda: F.relu(F.linear(a.double(), w.double(), bias.double())), 2 * m * n * k)


def conv(level, size, ic, oc, kernel, stride=1, pad=None, groups=1, batch=1, planar=False, dynamic=False, nv=None):
    h, w = size if isinstance(size, tuple) else (size, size)
    kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    sh, sw = stride if isinstance(stride, tuple) else (stride, stride)
    ph, pw = (kh // 2, kw // 2) if pad is None else pad
    oh, ow = (h + 2 * ph - kh) // sh + 1, (w + 2 * pw - kw) // sw + 1
    icg, ocg = ic // groups, oc // groups
    nv = nv or panel_vectors(level, ocg)
    nr = nv * VECTOR[level]
    x = torch.randn(batch, ic, h, w)
    x = x if planar else x.contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(oc, icg, kh, kw), torch.randn(oc)
    packed = torch.cat([pack_panels(weight[g * ocg:(g + 1) * ocg].permute(0, 2, 3, 1).reshape(ocg, -1), nr)
                        for g in range(groups)])
    out = torch.zeros(batch, oh, ow, oc)
    c = (lambda v: f"C<{v}>{{}}")
    d = (lambda v: "one * %d" % v) if dynamic else c
    strides = f".sn = {c(ic * h * w) if not dynamic else d(ic * h * w)}, .sh = {d(w) if planar else d(w * ic)}, .sw = {c(1) if planar else c(ic)}"
    epilogue = f"""[&](i64 n, i64 y, i64 x, i64 c, vf v, int lanes) NACRE_LAMBDA {{
          float* p = out + ((n * {oh} + y) * {ow} + x) * {oc} + c;
          if (lanes == VL) store(p, relu(v + load(in[2] + c)));
          else store_part(p, relu(v + load_part(in[2] + c, lanes)), lanes); }}"""
    name = f"conv{' planar' if planar else ''}{' dynamic' if dynamic else ''} {h}x{w} {ic}->{oc} k{kh}x{kw} s{sh}{f' g{groups}' if groups > 1 else ''}{f' b{batch}' if batch > 1 else ''} nv{nv}"
    if kh == kw == sh == sw == 1 and not planar:
        body = f"""gemm<{nv}>({c(batch * h * w)}, {c(oc)}, {c(ic)}, in[0], {c(ic)}, C<1>{{}}, in[1], scratch, thread, threads,
          [&](i64 i, i64 j, vf v, int lanes) NACRE_LAMBDA {{
            if (lanes == VL) store(out + i * {oc} + j, relu(v + load(in[2] + j)));
            else store_part(out + i * {oc} + j, relu(v + load_part(in[2] + j, lanes)), lanes); }});"""
    else:
        body = f"""
      volatile i64 hide = 1; const i64 one = hide; (void)one;
      conv{'_planar' if planar else ''}<{nv}>(Conv{{.batch = {d(batch)}, .h = {d(h)}, .w = {d(w)}, .ic = {c(icg)}, .oc = {c(ocg)}, .groups = {c(groups)},
        .kh = {c(kh)}, .kw = {c(kw)}, .stride_h = {c(sh)}, .stride_w = {c(sw)}, .pad_h = {c(ph)}, .pad_w = {c(pw)},
        .dilation_h = C<1>{{}}, .dilation_w = C<1>{{}}, .oh = {d(oh)}, .ow = {d(ow)}, {strides}}},
        {f'{h * w}, ' if planar else ''}in[0], in[1], scratch, thread, threads, {epilogue});"""
    wt = weight if planar else weight.contiguous(memory_format=torch.channels_last)
    return Case(name, body, [x.permute(0, 2, 3, 1) if not planar else x, packed, bias], out,
                lambda: F.relu_(F.conv2d(x, wt, bias, (sh, sw), (ph, pw), 1, groups)),
                lambda: F.relu(F.conv2d(x.double(), weight.double(), bias.double(), (sh, sw), (ph, pw), 1, groups)).permute(0, 2, 3, 1),
                2 * batch * oh * ow * oc * icg * kh * kw)


def winograd(level, size, ic, oc, m, batch=1, nv=None):
    nv = nv or min(2, panel_vectors(level, oc))
    x = torch.randn(batch, ic, size, size).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(oc, ic, 3, 3), torch.randn(oc)
    packed = pack_panels(weight.permute(0, 2, 3, 1).reshape(oc, -1), nv * VECTOR[level])
    out = torch.zeros(batch, size, size, oc)
    c = (lambda v: f"C<{v}>{{}}")
    body = f"""conv_winograd<{nv}, Winograd{m}>(Conv{{.batch = {c(batch)}, .h = {c(size)}, .w = {c(size)}, .ic = {c(ic)}, .oc = {c(oc)}, .groups = C<1>{{}},
        .kh = C<3>{{}}, .kw = C<3>{{}}, .stride_h = C<1>{{}}, .stride_w = C<1>{{}}, .pad_h = C<1>{{}}, .pad_w = C<1>{{}},
        .dilation_h = C<1>{{}}, .dilation_w = C<1>{{}}, .oh = {c(size)}, .ow = {c(size)}, .sn = {c(ic * size * size)}, .sh = {c(size * ic)}, .sw = {c(ic)}}},
        in[0], in[1], scratch, thread, threads, [&](i64 n, i64 y, i64 x, i64 c, vf v, int lanes) NACRE_LAMBDA {{
          float* p = out + ((n * {size} + y) * {size} + x) * {oc} + c;
          if (lanes == VL) store(p, relu(v + load(in[2] + c)));
          else store_part(p, relu(v + load_part(in[2] + c, lanes)), lanes); }});"""
    wt = weight.contiguous(memory_format=torch.channels_last)
    return Case(f"winograd F{m} {size}x{size} {ic}->{oc}{f' b{batch}' if batch > 1 else ''} nv{nv}", body, [x.permute(0, 2, 3, 1), packed, bias], out,
                lambda: F.relu_(F.conv2d(x, wt, bias, 1, 1)),
                lambda: F.relu(F.conv2d(x.double(), weight.double(), bias.double(), 1, 1)).permute(0, 2, 3, 1),
                2 * batch * size * size * oc * ic * 9, scratch=1 << 23)


def depthwise(level, size, c, kernel, stride=1, dilation=1):
    h, w = size if isinstance(size, tuple) else (size, size)
    kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    sh, sw = (stride, stride) if h > 1 else (1, stride)
    dh, dw = (dilation, dilation) if h > 1 else (1, dilation)
    ph, pw = kh // 2 * dh, kw // 2 * dw
    oh, ow = (h + 2 * ph - (kh - 1) * dh - 1) // sh + 1, (w + 2 * pw - (kw - 1) * dw - 1) // sw + 1
    vl = VECTOR[level]
    pitch = ceil_div(c, vl) * vl
    x = torch.randn(1, c, h, w).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(c, 1, kh, kw), torch.randn(c)
    packed = torch.zeros(kh, kw, pitch)
    packed[:, :, :c] = weight[:, 0].permute(1, 2, 0)
    out = torch.zeros(1, oh, ow, c)
    k = (lambda v: f"C<{v}>{{}}")
    body = f"""depthwise(Depthwise{{.batch = C<1>{{}}, .h = {k(h)}, .w = {k(w)}, .c = {k(c)}, .kh = {k(kh)}, .kw = {k(kw)}, .stride_h = {k(sh)},
      .stride_w = {k(sw)}, .pad_h = {k(ph)}, .pad_w = {k(pw)}, .dilation_h = {k(dh)}, .dilation_w = {k(dw)}, .oh = {k(oh)}, .ow = {k(ow)},
      .sn = {k(h * w * c)}, .sh = {k(w * c)}, .sw = {k(c)}}}, in[0], in[1], thread, threads,
      [&](i64 n, i64 y, i64 x, i64 c, vf v, int lanes) NACRE_LAMBDA {{
          float* p = out + ((n * {oh} + y) * {ow} + x) * {c} + c;
          if (lanes == VL) store(p, relu(v + load(in[2] + c)));
          else store_part(p, relu(v + load_part(in[2] + c, lanes)), lanes); }});"""
    return Case(f"depthwise {h}x{w}x{c} k{kh}x{kw} s{sw} d{dw}", body, [x.permute(0, 2, 3, 1), packed, bias], out,
                lambda: F.relu_(F.conv2d(x, weight, bias, (sh, sw), (ph, pw), (dh, dw), c)),
                lambda: F.relu(F.conv2d(x.double(), weight.double(), bias.double(), (sh, sw), (ph, pw), (dh, dw), c)).permute(0, 2, 3, 1),
                2 * oh * ow * c * kh * kw)


def attention(level, batch, heads, s, t, d, causal=False, mask=False, dynamic=False):
    qkv = torch.randn(batch, s if s == t else t, 3, heads, d)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    q = q[:, :, :s]
    bias = torch.randn(1, 1, 1, t) if mask == "row" else torch.randn(1, heads, s, t) if mask else None
    out = torch.zeros(batch, s, heads, d)
    c = (lambda x: f"C<{x}>{{}}")
    dim = (lambda x: "one * %d" % x) if dynamic else c
    row, length = 3 * heads * d, qkv.shape[1]
    head = lambda i: f"[&](i64 b, i64 h) NACRE_LAMBDA {{ return in[0] + b * {length * row} + {i * heads * d} + h * {d}; }}"
    bias_text = "NoBias{}" if bias is None else (
        f"[&](i64, i64, i64, i64 j, int lanes) NACRE_LAMBDA {{ return load_part(in[1] + j, lanes); }}" if mask == "row" else
        f"[&](i64, i64 h, i64 i, i64 j, int lanes) NACRE_LAMBDA {{ return load_part(in[1] + (h * {s} + i) * {t} + j, lanes); }}")
    body = f"""
      volatile i64 hide = 1; const i64 one = hide; (void)one;
      attention(Attention{{.batch = {c(batch)}, .heads = {c(heads)}, .s = {dim(s)}, .t = {dim(t)}, .d = {c(d)}, .e = {c(d)}, .q_s = {c(row)}, .k_t = {c(row)}, .v_t = {c(row)}}},
        {head(0)}, {head(1)}, {head(2)}, {d ** -0.5}f, C<{int(causal)}>{{}}, {bias_text}, scratch, thread, threads,
        [&](i64 b, i64 h, i64 i, i64 c, vf v, int lanes) NACRE_LAMBDA {{ store_part(out + ((b * {s} + i) * {heads} + h) * {d} + c, v, lanes); }});"""
    f = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, is_causal=causal)
    return Case(f"attention b{batch} h{heads} {s}x{t} d{d}{' causal' if causal else ''}{' mask' if mask else ''}{' dynamic' if dynamic else ''}", body,
                [qkv] + ([bias] if bias is not None else []), out, lambda: f(q, k, v, bias),
                lambda: f(q.double(), k.double(), v.double(), None if bias is None else bias.double()).transpose(1, 2),
                4 * batch * heads * s * t * d)


def recurrent(level, time_, hidden, lstm):
    gates, vl = (4 if lstm else 3), VECTOR[level]
    blocks = ceil_div(hidden, vl)
    module = (torch.nn.LSTM if lstm else torch.nn.GRU)(8, hidden).requires_grad_(False)
    x = torch.randn(time_, 1, 8)
    w = torch.zeros(gates, blocks * vl, hidden)
    w[:, :hidden] = module.weight_hh_l0.view(gates, hidden, hidden)
    packed = w.view(gates, blocks, vl, hidden).permute(1, 3, 0, 2).contiguous()
    bias = module.bias_ih_l0 + (module.bias_hh_l0 if lstm else 0)
    projected = (x @ module.weight_ih_l0.T + bias).contiguous()
    zeros, y, h, c = torch.zeros(hidden), torch.zeros(time_, 1, hidden), torch.zeros(hidden), torch.zeros(hidden)
    shape = f"Recurrent{{.time = C<{time_}>{{}}, .batch = C<1>{{}}, .hidden = C<{hidden}>{{}}, .y_t = C<{hidden}>{{}}, .y_b = C<{hidden}>{{}}, .h_b = C<{hidden}>{{}}, .c_b = C<{hidden}>{{}}}}"
    tail = "C<0>{}, thread, threads, []() NACRE_LAMBDA {});"
    mutable = "const_cast<float*>"
    body = (f"lstm({shape}, in[0], in[1], in[2], in[2], out, {mutable}(in[3]), {mutable}(in[4]), {tail}" if lstm else
            f"gru({shape}, in[0], in[1], in[5], in[2], out, {mutable}(in[3]), {tail}")
    double = (torch.nn.LSTM if lstm else torch.nn.GRU)(8, hidden).requires_grad_(False).double()
    double.load_state_dict(module.state_dict())
    return Case(f"{'lstm' if lstm else 'gru'} {time_} steps of {hidden}", body,
                [projected, packed, zeros, h, c, module.bias_hh_l0], y, lambda: module(x)[0], lambda: double(x.double())[0],
                2 * time_ * gates * hidden * hidden)


def pointwise(level, name, function, eager, scale=4.0):
    n = 1 << 16
    x = torch.randn(n) * scale
    if name in ("log", "sqrt", "rsqrt"):
        x = x.abs()
    out = torch.zeros(n)
    body = f"const float* __restrict a = in[0]; float* __restrict o = out; for_vectors(0, {n}, [&](i64 i, auto lanes) NACRE_LAMBDA {{ store(o + i, {function}(load(a + i, lanes)), lanes); }});"
    return Case(f"{name} of 65536", body, [x], out, lambda: eager(x), lambda: eager(x.double()), n)


def cases(level):
    L = level
    # resnet
    yield lambda: conv(L, 224, 3, 64, 7, 2, planar=True)
    yield lambda: conv(L, 56, 64, 64, 3)
    yield lambda: conv(L, 28, 128, 128, 3)
    yield lambda: conv(L, 14, 256, 256, 3)
    yield lambda: conv(L, 7, 512, 512, 3)
    yield lambda: conv(L, 56, 64, 128, 3, 2)
    yield lambda: conv(L, 14, 256, 512, 3, 2)
    yield lambda: conv(L, 56, 64, 64, 1)
    yield lambda: conv(L, 56, 64, 256, 1)
    yield lambda: conv(L, 56, 256, 64, 1)
    yield lambda: conv(L, 28, 512, 128, 1)
    yield lambda: conv(L, 14, 1024, 256, 1)
    yield lambda: conv(L, 14, 256, 1024, 1)
    yield lambda: conv(L, 7, 512, 2048, 1)
    yield lambda: conv(L, 7, 2048, 512, 1)
    yield lambda: conv(L, 56, 256, 512, 1, 2)
    yield lambda: conv(L, 14, 256, 256, 3, batch=8)
    yield lambda: gemm(L, 1, 1000, 2048)
    # mobilenet, efficientnet, shufflenet, yolo, unet, tiny
    yield lambda: conv(L, 224, 3, 32, 3, 2, planar=True)
    yield lambda: conv(L, 640, 3, 16, 3, 2, planar=True)
    yield lambda: conv(L, 112, 32, 16, 1)
    yield lambda: conv(L, 112, 16, 96, 1)
    yield lambda: conv(L, 56, 144, 24, 1)
    yield lambda: conv(L, 56, 24, 144, 1)
    yield lambda: conv(L, 14, 64, 384, 1)
    yield lambda: conv(L, 14, 384, 64, 1)
    yield lambda: conv(L, 7, 960, 320, 1)
    yield lambda: conv(L, 7, 320, 1280, 1)
    yield lambda: conv(L, 28, 58, 58, 1)
    yield lambda: conv(L, 256, 16, 16, 3)
    yield lambda: conv(L, 128, 32, 32, 3)
    yield lambda: conv(L, 160, 16, 32, 3, 2)
    yield lambda: conv(L, 80, 32, 32, 3)
    yield lambda: conv(L, 20, 128, 128, 3)
    yield lambda: conv(L, 32, 16, 16, 3)
    yield lambda: conv(L, 256, 16, 2, 1)
    yield lambda: conv(L, (58, 12), 1, 64, (10, 4), 2, pad=(0, 0))
    yield lambda: conv(L, 96, 3, 8, 3, 2, planar=True)
    yield lambda: conv(L, (1, 16000), 1, 64, (1, 16), (1, 8), pad=(0, 0))
    yield lambda: conv(L, (1, 1999), 64, 128, 1)
    yield lambda: conv(L, (1, 1999), 128, 64, 1)
    yield lambda: conv(L, 28, 64, 64, 3, dynamic=True)
    yield lambda: conv(L, 100, 3, 10, 3, planar=True, dynamic=True)
    for size, ic, oc in ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512), (256, 16, 16), (128, 32, 32), (64, 64, 64), (32, 128, 128),
                         (80, 32, 32), (40, 64, 64), (20, 128, 128), (32, 16, 16)):
        for m in (2, 4):
            yield lambda: winograd(L, size, ic, oc, m)
    for size, c, k, s in ((112, 32, 3, 1), (112, 96, 3, 2), (56, 144, 3, 1), (56, 144, 3, 2), (28, 192, 3, 1), (14, 384, 3, 1), (14, 576, 3, 1),
                          (7, 960, 3, 1), (14, 672, 5, 1), (28, 240, 5, 1), (56, 72, 5, 2), (7, 1152, 5, 1), (28, 58, 3, 1), (56, 96, 7, 1), (28, 192, 7, 1), (14, 384, 7, 1),
                          (7, 768, 7, 1), (80, 64, 3, 1)):
        yield lambda: depthwise(L, size, c, k, s)
    yield lambda: depthwise(L, (1, 1999), 128, (1, 3), 1, 16)
    # transformers
    for m, n, k in ((197, 2304, 768), (197, 768, 768), (197, 3072, 768), (197, 768, 3072), (128, 1152, 384), (128, 384, 384), (128, 1536, 384),
                    (128, 384, 1536), (128, 2048, 768), (128, 768, 2048), (3136, 288, 96), (3136, 384, 96), (3136, 96, 384), (784, 576, 192), (784, 768, 192), (784, 192, 768), (196, 1536, 384), (49, 3072, 768), (49, 768, 3072),
                    (1, 768, 768), (1, 2048, 768), (1, 768, 2048), (1, 32000, 768), (1, 128, 640), (100, 1024, 256), (1024, 1024, 1024)):
        yield lambda: gemm(L, m, n, k)
    yield lambda: gemm(L, 128, 1536, 384, dynamic=True)
    yield lambda: attention(L, 1, 12, 197, 197, 64)
    yield lambda: attention(L, 1, 12, 128, 128, 32, mask="row")
    yield lambda: attention(L, 1, 12, 128, 128, 32, mask="row", dynamic=True)
    yield lambda: attention(L, 1, 12, 128, 128, 64, causal=True)
    yield lambda: attention(L, 64, 3, 49, 49, 32, mask=True)
    yield lambda: attention(L, 1, 24, 49, 49, 32, mask=True)
    yield lambda: attention(L, 1, 12, 1, 256, 64, mask="row")
    yield lambda: attention(L, 1, 12, 512, 512, 64)
    yield lambda: recurrent(L, 100, 256, True)
    yield lambda: recurrent(L, 25, 154, False)
    for name, function, eager in (("exp", "exp", torch.exp), ("log", "log", torch.log), ("tanh", "tanh", torch.tanh), ("sigmoid", "sigmoid", torch.sigmoid),
                                  ("erf", "erf", torch.erf), ("gelu", "gelu", F.gelu), ("silu", "silu", F.silu), ("hardswish", "hardswish", F.hardswish),
                                  ("sin", "sin", torch.sin), ("sqrt", "sqrt", torch.sqrt), ("rsqrt", "rsqrt", torch.rsqrt)):
        yield lambda: pointwise(L, name, function, eager)


def compile_case(case, level, folder, keep_headers):
    source, library = os.path.join(folder, "case.cc"), os.path.join(folder, f"case{compile_case.count}.so")
    compile_case.count += 1
    with open(source, "w") as f:
        f.write('#include "nacre/kernels.h"\nusing namespace nk;\n'
                'extern "C" __attribute__((visibility("default"))) void kernel(const float* const* in, float* out, float* scratch, int thread, int threads) {\n'
                '  (void)scratch; (void)thread; (void)threads;\n'
                f'  {case.body}\n}}\n')
    started = time.process_time(), os.times().children_user
    subprocess.run(["clang++-19", "-std=c++20", "-O2", f"-march={level}", "-mprefer-vector-width=512", "-ffreestanding", "-nostdinc",
                    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fno-rtti", "-fPIC", "-shared", "-nostdlib", "-fvisibility=hidden",
                    *os.environ.get("KERNEL_FLAGS", "").split(),
                    f"-I{keep_headers}", source, "-o", library], check=True)
    case.compile_s = os.times().children_user - started[1]
    case.size = os.path.getsize(library)
    function = ctypes.CDLL(library).kernel
    function.restype = None
    return function


compile_case.count = 0


def include_folder(path, kernel):
    """A folder for -I in which `nacre/` is the kernel library in `kernel`."""
    nacre = os.path.join(path, "nacre")
    os.makedirs(nacre)
    for name in os.listdir(kernel):
        os.symlink(os.path.abspath(os.path.join(kernel, name)), os.path.join(nacre, name))
    os.symlink(os.path.abspath(os.path.join(ROOT, "formats", "kernel_abi.h")), os.path.join(nacre, "kernel_abi.h"))
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--level", default="x86-64-v3")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.15, help="at least this long for each side of a case")
    parser.add_argument("--against", help="another folder of kernel headers to time instead of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    worst = []
    with tempfile.TemporaryDirectory() as folder:
        headers = include_folder(os.path.join(folder, "include"), os.path.join(ROOT, "targets", "kernel"))
        others = include_folder(os.path.join(folder, "others"), os.path.abspath(arguments.against)) if arguments.against else None
        print(f"{'case':44} {'nacre us':>9} {'other us' if others else 'torch us':>9} {'ratio':>6} {'GFLOP/s':>8} {'error':>8} {'cc s':>5} {'KB':>4}")
        for make in cases(arguments.level):
            case = make()
            if arguments.only not in case.name:
                continue
            function = compile_case(case, arguments.level, folder, headers)
            inputs = [t.contiguous() for t in case.inputs]
            pointers = (ctypes.c_void_p * len(inputs))(*[t.data_ptr() for t in inputs])
            scratch = torch.zeros(case.scratch)
            call = lambda: function(pointers, ctypes.c_void_p(case.output.data_ptr()), ctypes.c_void_p(scratch.data_ptr()), 0, 1)
            call()
            exact = case.exact().reshape(case.output.shape)
            error = ((case.output.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30)).item()
            clock = time.thread_time  # of this thread alone: other work on the machine counts less
            sides = [call, case.eager]
            if others:
                other = compile_case(case, arguments.level, folder, others)
                sides[1] = lambda: other(pointers, ctypes.c_void_p(case.output.data_ptr()), ctypes.c_void_p(scratch.data_ptr()), 0, 1)
            sides[1]()
            best = [1e9, 1e9]
            until, rounds = clock() + arguments.seconds * 2, 0
            while rounds < arguments.rounds or clock() < until:
                rounds += 1
                for i, side in enumerate(sides):
                    side()
                    t = clock()
                    side()
                    best[i] = min(best[i], clock() - t)
            mine, theirs = best
            ratio = theirs / mine
            worst.append((ratio, case.name))
            print(f"{case.name:44} {mine * 1e6:9.1f} {theirs * 1e6:9.1f} {ratio:6.2f} {case.flops / mine * 1e-9:8.1f} {error:8.1e} {case.compile_s:5.2f} {case.size // 1024:4}", flush=True)
    print("slower than PyTorch:", ", ".join(f"{n} ({r:.2f})" for r, n in sorted(worst) if r < 1) or "none")


main()
