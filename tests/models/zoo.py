"""Deterministic, edge-relevant networks with example inputs: what the tests check and the benchmark times.

`MODELS` maps a name to a `Model`. Weights are random but seeded, and batch-norm statistics are calibrated on
seeded noise: activations keep a sane range through deep networks, and every run computes the same numbers.
"""
import os
from dataclasses import dataclass
from typing import Callable, Optional

import torch
import torch.nn.functional as F
from torch import nn

SEED = 20261129


@dataclass(frozen=True)
class Model:
    """One benchmark model.

    build       makes the module (called after the seed is set)
    example     makes the positional inputs (idem)
    dynamic     dynamic dimensions worth testing: one {dim: name} dict per input
    kind        'vision', 'language', 'audio' or 'tiny' (microcontroller class)
    stateful    forward() mutates its buffers (a key/value cache)
    stateless   for peers without mutable state: build() of the same function with the
                state passed in and out, and the names of the buffers to pass
    extra_flops operations that torch's flop counter does not see (recurrent layers)
    """
    build: Callable[[], nn.Module]
    example: Callable[[], tuple]
    dynamic: tuple = ()
    kind: str = "vision"
    stateless: Optional[Callable[[nn.Module], tuple]] = None
    extra_flops: int = 0

    @property
    def stateful(self):
        return self.stateless is not None


def create(name):
    """(module in eval mode, example inputs) of a model, the same on every call."""
    model = MODELS[name]
    torch.manual_seed(SEED)
    module = model.build()
    torch.manual_seed(SEED + 1)
    inputs = model.example()
    calibrate_batch_norm(module, inputs)
    return module.eval().requires_grad_(False), inputs


def create_stateless(name):
    """Like create(), with any mutable state turned into inputs and outputs."""
    module, inputs = create(name)
    if MODELS[name].stateful:
        module, state = MODELS[name].stateless(module)
        inputs = inputs + state
    return module, inputs


def flops(name):
    """Floating-point operations of one inference (a multiply-add counts as two)."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode
    module, inputs = create(name)
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the counter does not know the operator that a whole attention is otherwise
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs)
    torch.backends.mha.set_fastpath_enabled(fused)
    return counter.get_total_flops() + MODELS[name].extra_flops


def weight_bytes(name):
    module, _ = create(name)
    return sum(p.numel() * p.element_size() for p in module.parameters())


def calibrate_batch_norm(module, inputs):
    """Set running statistics from one pass of noise; eval mode then behaves as if trained."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    shape = inputs[0].shape
    with torch.no_grad():
        module(torch.randn(max(4, shape[0]), *shape[1:]))
        for norm in norms:
            norm.momentum = 0.1
        module.eval()(*inputs)             # detectors cache their anchors for the last shape


# ---------------------------------------------------------------- vision

def torchvision_model(name, **options):
    def build():
        import torchvision.models as zoo
        import torchvision.models.segmentation as segmentation
        make = getattr(zoo, name, None) or getattr(segmentation, name)
        return make(weights=None, **options).eval()
    return build


def vit_b_16():
    model = torchvision_model("vit_b_16")()
    nn.init.normal_(model.heads.head.weight, std=0.02)      # torchvision starts it at zero
    return model


class TakeOutput(nn.Module):
    """Segmentation models answer with a dictionary; keep its main entry."""
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)["out"]


def lraspp():
    return TakeOutput(torchvision_model("lraspp_mobilenet_v3_large", weights_backbone=None)())


def yolo11n():
    """Ultralytics' YOLO11-nano from its packaged description, random weights, raw head output."""
    os.environ.setdefault("YOLO_OFFLINE", "true")
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    from ultralytics.nn.tasks import DetectionModel
    model = DetectionModel("yolo11n.yaml", verbose=False).eval()
    head = model.model[-1]
    head.export, head.format = True, "onnx"       # one tensor (1, 84, anchors), no post-processing
    return model


class UNet(nn.Module):
    def __init__(self, channels=(16, 32, 64, 128), inputs=3, classes=2):
        super().__init__()
        self.down = nn.ModuleList()
        for c in channels:
            self.down.append(double_conv(inputs, c))
            inputs = c
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for c in reversed(channels[:-1]):
            self.up.append(nn.ConvTranspose2d(inputs, c, 2, stride=2))
            self.merge.append(double_conv(2 * c, c))
            inputs = c
        self.head = nn.Conv2d(inputs, classes, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            if i:
                x = F.max_pool2d(x, 2)
            x = block(x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def double_conv(cin, cout):
    return nn.Sequential(conv_norm(cin, cout, 3, padding=1), conv_norm(cout, cout, 3, padding=1))


def conv_norm(cin, cout, kernel, stride=1, padding=0, groups=1, act=True):
    layers = [nn.Conv2d(cin, cout, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, nn.ReLU()) if act else nn.Sequential(*layers)


# ---------------------------------------------------------------- MLPerf Tiny

def depthwise_separable(cin, cout, stride=1):
    return nn.Sequential(conv_norm(cin, cin, 3, stride, 1, groups=cin), conv_norm(cin, cout, 1))


def ds_cnn():
    """Keyword spotting: 49x10 MFCC features, 12 words."""
    return nn.Sequential(
        nn.ZeroPad2d((1, 1, 4, 5)), conv_norm(1, 64, (10, 4), 2),
        *[depthwise_separable(64, 64) for _ in range(4)],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12), nn.Softmax(-1))


class ResNet8(nn.Module):
    """Image classification at 32x32."""
    def __init__(self):
        super().__init__()
        self.stem = conv_norm(3, 16, 3, padding=1)
        self.body, self.skip = nn.ModuleList(), nn.ModuleList()
        for cin, cout, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
            self.body.append(nn.Sequential(conv_norm(cin, cout, 3, stride, 1),
                                           conv_norm(cout, cout, 3, 1, 1, act=False)))
            self.skip.append(nn.Identity() if stride == 1 else nn.Conv2d(cin, cout, 1, stride))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.stem(x)
        for body, skip in zip(self.body, self.skip):
            x = F.relu(body(x) + skip(x))
        return self.head(x.mean((2, 3))).softmax(-1)


def mobilenet_v1_025():
    """Visual wake words at 96x96."""
    widths = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2),
              *[(128, 128, 1)] * 5, (128, 256, 2), (256, 256, 1)]
    return nn.Sequential(conv_norm(3, 8, 3, 2, 1), *[depthwise_separable(*w) for w in widths],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2), nn.Softmax(-1))


def autoencoder():
    """Anomaly detection: 640-128x4-8-128x4-640."""
    widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


# ---------------------------------------------------------------- audio

class LSTMSpeech(nn.Module):
    """Frame classifier: two LSTM layers of 256 over 100 frames of 40 features."""
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(40, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 29)

    def forward(self, x):
        return self.head(self.rnn(x)[0]).log_softmax(-1)


class GRUKeyword(nn.Module):
    """Keyword spotter: one GRU layer of 154 over 25 frames of 40 features."""
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(40, 154, batch_first=True)
        self.head = nn.Linear(154, 12)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1]).softmax(-1)


class TCNDenoiser(nn.Module):
    """Mask-based 1-D denoiser (Conv-TasNet style) on one second of 16 kHz audio."""
    def __init__(self, channels=64, hidden=128, blocks=8):
        super().__init__()
        self.encode = nn.Conv1d(1, channels, 16, 8)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv1d(channels, hidden, 1), nn.PReLU(), nn.BatchNorm1d(hidden),
                          nn.Conv1d(hidden, hidden, 3, padding=2 ** i, dilation=2 ** i, groups=hidden),
                          nn.PReLU(), nn.BatchNorm1d(hidden), nn.Conv1d(hidden, channels, 1))
            for i in range(blocks))
        self.mask = nn.Conv1d(channels, channels, 1)
        self.decode = nn.ConvTranspose1d(channels, 1, 16, 8)

    def forward(self, x):
        code = F.relu(self.encode(x))
        y = code
        for block in self.blocks:
            y = y + block(y)
        return self.decode(code * torch.sigmoid(self.mask(y)))


# ---------------------------------------------------------------- language

class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rope_tables(length, dim):
    angle = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
    return torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def repeat_heads(x, times):
    b, h, s, d = x.shape
    return x[:, :, None].expand(b, h, times, s, d).reshape(b, h * times, s, d)


class LlamaLayer(nn.Module):
    def __init__(self, dim, heads, kv_heads, hidden):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin, cache=None, position=None, mask=None):
        b, s, _ = x.shape
        y = self.norm1(x)
        q = self.wq(y).view(b, s, self.heads, self.head_dim).transpose(1, 2)
        k = self.wk(y).view(b, s, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(y).view(b, s, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            k, v = cache(k, v, position)
        times = self.heads // self.kv_heads
        y = F.scaled_dot_product_attention(q, repeat_heads(k, times), repeat_heads(v, times),
                                           attn_mask=mask, is_causal=cache is None)
        x = x + self.wo(y.transpose(1, 2).reshape(b, s, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A Llama-style decoder of 100 M parameters, tied embedding; forward() is the prefill."""
    DIM, LAYERS, HEADS, KV_HEADS, HIDDEN, VOCAB, CONTEXT = 768, 12, 12, 4, 2048, 32000, 256

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(self.VOCAB, self.DIM)
        self.layers = nn.ModuleList(LlamaLayer(self.DIM, self.HEADS, self.KV_HEADS, self.HIDDEN)
                                    for _ in range(self.LAYERS))
        self.norm = RMSNorm(self.DIM)
        cos, sin = rope_tables(self.CONTEXT, self.DIM // self.HEADS)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens):
        s = tokens.shape[1]
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos[:s], self.sin[:s])
        return F.linear(self.norm(x[:, -1:]), self.embed.weight)


class StaticCache(nn.Module):
    """Keys and values of one layer in buffers that every step updates in place."""
    def __init__(self, kv_heads, length, head_dim):
        super().__init__()
        self.register_buffer("k", torch.randn(1, kv_heads, length, head_dim))
        self.register_buffer("v", torch.randn(1, kv_heads, length, head_dim))

    def forward(self, k, v, position):
        self.k[:, :, position] = k
        self.v[:, :, position] = v
        return self.k, self.v


class LlamaDecode(Llama):
    """One decode step at a given position against a static, in-place key/value cache."""
    def __init__(self):
        super().__init__()
        self.caches = nn.ModuleList(StaticCache(self.KV_HEADS, self.CONTEXT, self.DIM // self.HEADS)
                                    for _ in range(self.LAYERS))

    def step(self, token, position, caches):
        x = self.embed(token)
        mask = (torch.arange(self.CONTEXT, device=token.device) <= position)[None, None, None]
        cos, sin = self.cos[position], self.sin[position]
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cos, sin, cache, position, mask)
        return F.linear(self.norm(x), self.embed.weight)

    def forward(self, token, position):
        return self.step(token, position, self.caches)


class LlamaDecodeStateless(nn.Module):
    """The same step with the caches as inputs and outputs."""
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, token, position, keys, values):
        new_keys, new_values = [], []
        where = (torch.arange(Llama.CONTEXT) == position)[None, None, :, None]

        def cache(i):
            def update(k, v, _):
                new_keys.append(torch.where(where, k, keys[i]))
                new_values.append(torch.where(where, v, values[i]))
                return new_keys[i], new_values[i]
            return update
        logits = self.model.step(token, position, [cache(i) for i in range(Llama.LAYERS)])
        return logits, torch.stack(new_keys), torch.stack(new_values)


def decode_stateless(model):
    state = (torch.stack([c.k for c in model.caches]), torch.stack([c.v for c in model.caches]))
    model.caches = None
    return LlamaDecodeStateless(model).eval(), state


class BertLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-12), nn.LayerNorm(dim, eps=1e-12)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(b, s, d)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class MiniLM(nn.Module):
    """A BERT encoder of MiniLM size with mean pooling (sentence embedding)."""
    def __init__(self, vocab=30522, dim=384, layers=6, heads=12, length=512):
        super().__init__()
        self.word, self.position = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(dim, heads) for _ in range(layers))

    def forward(self, tokens, attention_mask):
        s = tokens.shape[1]
        x = self.norm(self.word(tokens) + self.position.weight[:s])
        keep = attention_mask.to(x.dtype)
        mask = (1.0 - keep[:, None, None, :]) * -1e4
        for layer in self.layers:
            x = layer(x, mask)
        keep = keep[:, :, None]
        return F.normalize((x * keep).sum(1) / keep.sum(1), dim=-1)


class Floor(nn.Module):
    """Almost no work: what remains is a peer's cost of one call."""
    def forward(self, x):
        return x * 2.0 + 1.0


# ---------------------------------------------------------------- the zoo

def image(size, batch=1, channels=3):
    return lambda: (torch.randn(batch, channels, size, size),)


def noise(*shape):
    return lambda: (torch.randn(*shape),)


def tokens(length, vocab):
    return torch.randint(0, vocab, (1, length))


BATCH = ({0: "batch"},)
VISION = dict(dynamic=BATCH, kind="vision")
TINY = dict(dynamic=BATCH, kind="tiny")

MODELS = {
    "floor": Model(Floor, noise(1, 16), kind="tiny"),
    "ds_cnn": Model(ds_cnn, noise(1, 1, 49, 10), **TINY),
    "resnet8": Model(ResNet8, image(32), **TINY),
    "mobilenet_v1_025": Model(mobilenet_v1_025, image(96), **TINY),
    "autoencoder": Model(autoencoder, noise(1, 640), **TINY),
    "gru_keyword": Model(GRUKeyword, noise(1, 25, 40), kind="audio", dynamic=({0: "batch", 1: "time"},),
                         extra_flops=2 * 25 * 3 * 154 * (40 + 154)),
    "lstm_speech": Model(LSTMSpeech, noise(1, 100, 40), kind="audio", dynamic=({0: "batch", 1: "time"},),
                         extra_flops=2 * 100 * 4 * 256 * (40 + 256 + 256 + 256)),
    "tcn_denoiser": Model(TCNDenoiser, noise(1, 1, 16000), kind="audio"),
    "shufflenet_v2": Model(torchvision_model("shufflenet_v2_x1_0"), image(224), **VISION),
    "mobilenet_v2": Model(torchvision_model("mobilenet_v2"), image(224), **VISION),
    "mobilenet_v3_large": Model(torchvision_model("mobilenet_v3_large"), image(224), **VISION),
    "efficientnet_b0": Model(torchvision_model("efficientnet_b0"), image(224), **VISION),
    "resnet18": Model(torchvision_model("resnet18"), image(224), **VISION),
    "resnet50": Model(torchvision_model("resnet50"), image(224), **VISION),
    "resnet50_b8": Model(torchvision_model("resnet50"), image(224, batch=8), **VISION),
    "convnext_tiny": Model(torchvision_model("convnext_tiny"), image(224), **VISION),
    "vit_b_16": Model(vit_b_16, image(224), **VISION),
    "swin_t": Model(torchvision_model("swin_t"), image(224), **VISION),
    "lraspp_mobilenet_v3": Model(lraspp, image(320), **VISION),
    "unet_small": Model(UNet, image(256), **VISION),
    "yolo11n": Model(yolo11n, image(640), **VISION),
    "minilm": Model(MiniLM, lambda: (tokens(128, 30522), torch.ones(1, 128, dtype=torch.long)),
                    kind="language", dynamic=({1: "length"}, {1: "length"})),
    "llama_prefill": Model(Llama, lambda: (tokens(128, Llama.VOCAB),), kind="language",
                           dynamic=({1: "length"},)),
    "llama_decode": Model(LlamaDecode, lambda: (tokens(1, Llama.VOCAB), torch.tensor([128])),
                          kind="language", stateless=decode_stateless),
}
