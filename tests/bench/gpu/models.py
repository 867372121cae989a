"""The networks of the GPU bench. `create(name, batch, dtype)` gives a module and its inputs.

Weights are random but the same everywhere: whole numbers of a generator that every version of PyTorch has, times a scale,
so that a machine with a GPU makes again what the machine that compiled had (carry.py).
"""
import math
import zlib

import torch
import torch.nn.functional as F
from torch import nn

# name: (batches, precisions) of the whole table; `decode` and `prefill` are one network with a cache
MODELS = {
    "mobilenet_v3_large": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "efficientnet_b0": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "resnet50": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "convnext_tiny": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "swin_t": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "vit_b_16": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "detector": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "unet": ((1, 8), ("fp16", "bf16", "tf32", "fp32")),
    "bert_base": ((1, 8, 32), ("fp16", "bf16", "tf32", "fp32")),
    "lstm": ((1, 8, 32), ("fp16", "fp32")),
    "gru": ((1, 8, 32), ("fp16", "fp32")),
    "llama100m_prefill": ((1,), ("bf16",)),
    "llama100m_decode": ((1,), ("bf16",)),
    "llama1b_prefill": ((1,), ("bf16",)),
    "llama1b_decode": ((1,), ("bf16",)),
}
CONVOLUTIONAL = {"mobilenet_v3_large", "efficientnet_b0", "resnet50", "convnext_tiny", "detector", "unet"}
TORCHVISION = {"mobilenet_v3_large", "efficientnet_b0", "resnet50", "convnext_tiny", "swin_t", "vit_b_16"}
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
CACHE = 1024
PROMPT = 512


# ---------------------------------------------------------------- BERT

class BertLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(dim, 1e-12), nn.LayerNorm(dim, 1e-12)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        query, key, value = (linear(x).view(batch, length, self.heads, dim // self.heads).transpose(1, 2)
                             for linear in (self.query, self.key, self.value))
        seen = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, length, dim)
        x = self.norm1(x + self.out(seen))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, dim=768, layers=12, heads=12, hidden=3072, words=30522, positions=512):
        super().__init__()
        self.words, self.positions, self.kinds = nn.Embedding(words, dim), nn.Embedding(positions, dim), nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, 1e-12)
        self.layers = nn.ModuleList([BertLayer(dim, heads, hidden) for _ in range(layers)])
        self.pool = nn.Linear(dim, dim)

    def forward(self, tokens):
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.words(tokens) + self.positions(place) + self.kinds(torch.zeros_like(tokens)))
        for layer in self.layers:
            x = layer(x)
        return x, torch.tanh(self.pool(x[:, 0]))


# ---------------------------------------------------------------- Llama with a static cache

class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.float() if x.dtype != torch.float64 else x
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat((-b, a), -1) * sin).type_as(x)


class LlamaLayer(nn.Module):
    def __init__(self, dim, heads, kv_heads, hidden):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.qkv = nn.Linear(dim, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gate_up, self.down = nn.Linear(dim, 2 * hidden, bias=False), nn.Linear(hidden, dim, bias=False)
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.register_buffer("keys", torch.zeros(1, kv_heads, CACHE, self.head_dim))
        self.register_buffer("values", torch.zeros(1, kv_heads, CACHE, self.head_dim))

    def forward(self, x, position, cos, sin, mask):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim], -1)
        q = rotate(q.view(batch, length, self.heads, self.head_dim).transpose(1, 2), cos, sin)
        k = rotate(k.view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2), cos, sin)
        v = v.view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        self.keys[:, :, position] = k
        self.values[:, :, position] = v
        if length == 1:  # the queries of a group are rows
            group = self.heads // self.kv_heads
            seen = F.scaled_dot_product_attention(q.view(batch, self.kv_heads, group, self.head_dim), self.keys, self.values, attn_mask=mask).reshape(batch, 1, dim)
        else:
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).reshape(batch, length, dim)
        x = x + self.out(seen)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, dim, layers, heads, kv_heads, hidden, words):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.layers = nn.ModuleList([LlamaLayer(dim, heads, kv_heads, hidden) for _ in range(layers)])
        self.norm = RMSNorm(dim)
        head_dim = dim // heads
        angle = torch.arange(CACHE).float()[:, None] * (10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim))[None]
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, position):
        x, cos, sin = self.words(tokens), self.cos[position], self.sin[position]
        mask = None
        if tokens.shape[1] == 1:
            mask = (torch.arange(CACHE, device=tokens.device) <= position[-1])[None, None, None, :]
        for layer in self.layers:
            x = layer(x, position, cos, sin, mask)
        return F.linear(self.norm(x[:, -1]), self.words.weight)


LLAMAS = {"llama100m": dict(dim=768, layers=12, heads=12, kv_heads=4, hidden=2048, words=32000),
          "llama1b": dict(dim=2048, layers=16, heads=32, kv_heads=8, hidden=8192, words=128256)}


# ---------------------------------------------------------------- a detector of the kind of YOLOv8n, a U-Net, recurrent networks

class ConvNormAct(nn.Module):
    def __init__(self, cin, cout, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(cout, 1e-3)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, channels, add):
        super().__init__()
        self.first, self.second, self.add = ConvNormAct(channels, channels, 3), ConvNormAct(channels, channels, 3), add

    def forward(self, x):
        y = self.second(self.first(x))
        return x + y if self.add else y


class SplitBlock(nn.Module):
    def __init__(self, cin, cout, count, add=True):
        super().__init__()
        self.half = cout // 2
        self.first, self.last = ConvNormAct(cin, cout), ConvNormAct((2 + count) * self.half, cout)
        self.blocks = nn.ModuleList([Bottleneck(self.half, add) for _ in range(count)])

    def forward(self, x):
        y = self.first(x)
        parts = [y[:, :self.half], y[:, self.half:]]
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.last = ConvNormAct(channels, channels // 2), ConvNormAct(2 * channels, channels)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    def __init__(self, classes=80, w=(16, 32, 64, 128, 256)):
        super().__init__()
        self.stem = nn.Sequential(ConvNormAct(3, w[0], 3, 2), ConvNormAct(w[0], w[1], 3, 2), SplitBlock(w[1], w[1], 1))
        self.third = nn.Sequential(ConvNormAct(w[1], w[2], 3, 2), SplitBlock(w[2], w[2], 2))
        self.fourth = nn.Sequential(ConvNormAct(w[2], w[3], 3, 2), SplitBlock(w[3], w[3], 2))
        self.fifth = nn.Sequential(ConvNormAct(w[3], w[4], 3, 2), SplitBlock(w[4], w[4], 1), Pyramid(w[4]))
        self.up4, self.up3 = SplitBlock(w[4] + w[3], w[3], 1, False), SplitBlock(w[3] + w[2], w[2], 1, False)
        self.down3, self.out4 = ConvNormAct(w[2], w[2], 3, 2), SplitBlock(w[2] + w[3], w[3], 1, False)
        self.down4, self.out5 = ConvNormAct(w[3], w[3], 3, 2), SplitBlock(w[3] + w[4], w[4], 1, False)

        def head(channels, width, results):
            return nn.Sequential(ConvNormAct(channels, width, 3), ConvNormAct(width, width, 3), nn.Conv2d(width, results, 1))
        self.boxes = nn.ModuleList([head(channels, 64, 64) for channels in w[2:]])
        self.classes = nn.ModuleList([head(channels, 80, classes) for channels in w[2:]])

    def forward(self, x):
        p3 = self.third(self.stem(x))
        p4 = self.fourth(p3)
        p5 = self.fifth(p4)
        m4 = self.up4(torch.cat((F.interpolate(p5, scale_factor=2.0), p4), 1))
        m3 = self.up3(torch.cat((F.interpolate(m4, scale_factor=2.0), p3), 1))
        m4 = self.out4(torch.cat((self.down3(m3), m4), 1))
        m5 = self.out5(torch.cat((self.down4(m4), p5), 1))
        return torch.cat([torch.cat((box(x), kind(x)), 1).flatten(2) for box, kind, x in zip(self.boxes, self.classes, (m3, m4, m5))], 2)


class UNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        channels = [width << level for level in range(5)]

        def pair(cin, cout):
            layers = []
            for c in (cin, cout):
                layers += [nn.Conv2d(c, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
            return nn.Sequential(*layers)
        self.down = nn.ModuleList([pair(3 if level == 0 else channels[level - 1], channels[level]) for level in range(5)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(channels[level], channels[level - 1], 2, 2) for level in (4, 3, 2, 1)])
        self.up = nn.ModuleList([pair(channels[level], channels[level - 1]) for level in (4, 3, 2, 1)])
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for level in range(4):
            x = self.up[level](torch.cat((kept[3 - level], self.grow[level](x)), 1))
        return self.out(x)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = getattr(nn, kind)(256, 512, 2, batch_first=True)
        self.out = nn.Linear(512, 64)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


# ---------------------------------------------------------------- products and rows by themselves

class Chain(nn.Module):
    """Linear layers one after the other, so that a product neither reads an input nor finds its weights in a cache."""
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Rows(nn.Module):
    def __init__(self, kind, width=4096):
        super().__init__()
        self.kind, self.width = kind, width
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        if self.kind == "softmax":
            return torch.softmax(x, -1)
        if self.kind == "layernorm":
            return F.layer_norm(x, (self.width,), self.weight, self.bias)
        return F.gelu(x + self.bias)


# name: (module, rows, layers). Exported in 16 bits, as what they are compared with.
KERNELS = {
    "gemm_4096": (lambda: Chain(4096, 4), 4096, 4),
    "gemv_4096": (lambda: Chain(4096, 16), 1, 16),
    "softmax_16384x4096": (lambda: Rows("softmax"), 16384, 1),
    "layernorm_16384x4096": (lambda: Rows("layernorm"), 16384, 1),
    "bias_gelu_16384x4096": (lambda: Rows("bias_gelu"), 16384, 1),
}


# ---------------------------------------------------------------- weights and inputs

def whole_numbers(name, shape, most):
    """Whole numbers from -most to most that depend on the name alone."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randint(-most, most + 1, shape, generator=generator, dtype=torch.int16 if most < 32768 else torch.int64)


def spread(module_kind, name, shape):
    """(middle, half of the width) of a parameter's or buffer's values: activations keep a sane range."""
    last = name.rsplit(".", 1)[-1]
    if last == "running_var":
        return 1.0, 0.5
    if last == "running_mean":
        return 0.0, 0.125
    if issubclass(module_kind, (nn.BatchNorm2d, nn.LayerNorm, RMSNorm, Rows)):
        return (1.0, 0.25) if last == "weight" else (0.0, 0.125)
    if last == "layer_scale":
        return 0.25, 0.125
    if "bias" in last or len(shape) < 2 or last in ("class_token", "pos_embedding"):
        return 0.0, 0.03125
    if last in ("keys", "values"):
        return 0.0, 1.0
    return 0.0, math.sqrt(3 / math.prod(shape[1:])) if not issubclass(module_kind, nn.Embedding) else math.sqrt(3 / shape[1]) * 4


@torch.no_grad()
def seed_weights(module):
    for path, part in module.named_modules():
        for name, tensor in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
            if not tensor.is_floating_point() or name in ("cos", "sin", "attn_mask"):
                continue
            full = f"{path}.{name}" if path else name
            middle, half = spread(type(part), full, tensor.shape)
            most = 1024
            tensor.copy_((whole_numbers(full, tensor.shape, most).to(torch.float32) * torch.tensor(half / most, dtype=torch.float32) + middle))
    return module


def create(name, batch=1, precision="fp32"):
    """(module, inputs) on the processor. Inputs are float32, and the module is, unless the precision has 16 bits."""
    dtype = DTYPES[precision]
    if name in KERNELS:
        make, rows, _ = KERNELS[name]
        return seed_weights(make()).eval().requires_grad_(False).to(dtype), (image("x", (rows, 4096)).to(dtype),)
    family = name.split("_")[0]
    if family in LLAMAS:
        with torch.device("cpu"):
            module = Llama(**LLAMAS[family]).to(dtype)
        length = PROMPT if name.endswith("prefill") else 1
        tokens = (whole_numbers("tokens", (1, length), 15000) + 15000).to(torch.int64)
        inputs = (tokens, torch.arange(length) if length > 1 else torch.tensor([PROMPT]))
    else:
        if name in TORCHVISION:
            import torchvision
            module = getattr(torchvision.models, name)(weights=None)
        else:
            module = {"detector": Detector, "unet": UNet, "bert_base": Bert, "lstm": lambda: Recurrent("LSTM"), "gru": lambda: Recurrent("GRU")}[name]()
        if name == "bert_base":
            inputs = ((whole_numbers("tokens", (batch, 128), 15000) + 15000).to(torch.int64),)
        elif name in ("lstm", "gru"):
            inputs = (image("x", (batch, 64, 256)).to(dtype),)
        else:
            size = {"detector": 640, "unet": 256}.get(name, 224)
            inputs = (image("x", (batch, 3, size, size)).to(dtype),)
    return seed_weights(module.eval().requires_grad_(False)).to(dtype), inputs


def image(name, shape):
    return whole_numbers(name, shape, 1024).to(torch.float32) / 512


def exported_in(name, precision):
    """What the program is exported in: float32, which nacre lowers; but in 16 bits where its state is to have them, and for kernels by themselves."""
    return precision if name in KERNELS or name.split("_")[0] in LLAMAS else "fp32"
