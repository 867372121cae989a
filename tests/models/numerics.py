"""Complex numbers, spectra, linear algebra, products by groups, bits, pooling: one module for each, which answers with many results.

`CASES` maps a name to a function that gives the module, {set: argument tuples} and dynamic shapes (or None).
"""
import torch
from torch import nn
from torch.export import Dim


def noise(*shape):
    return torch.randn(*shape)


def complex_noise(*shape):
    return torch.complex(noise(*shape), noise(*shape))


class Complex(nn.Module):
    """Arithmetic, functions, products, views and reductions of complex numbers; rotary phases and a running sum as buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("phases", torch.polar(torch.ones(6, 4), noise(6, 4)))
        self.register_buffer("total", torch.zeros(4, dtype=torch.complex64))
        self.weight = nn.Parameter(complex_noise(4, 3))

    def forward(self, x, a, b):
        rotated = torch.view_as_complex(x.reshape(-1, 6, 4, 2)) * self.phases
        self.total.add_(rotated.sum((0, 1)))
        changed = a.clone()
        changed.real.mul_(2)
        changed.imag.add_(1)
        return (torch.view_as_real(rotated).flatten(2), rotated @ self.weight, self.total * 1j,
                a * b, a / b, a - 2.5, 1 / a, a + x[0, 0, 0], a ** b, a ** 2, a ** -0.5, -a.conj(), changed,
                a.exp(), a.log(), a.sqrt(), a.sin(), a.cos(), a.tan(), a.tanh(), a.sigmoid(), a.abs(), a.angle(), a.sgn(),
                a == b, torch.where(a.real > 0, a, b), a.sum(0), a.mean(), a.prod(1), a.cumprod(0), a.to(torch.complex128) * b,
                torch.cat([a, b.flip(0)]), torch.nn.functional.pad(a, (1, 2)), a[torch.tensor([1, 0, 1])], a.t().contiguous())


def complex_numbers():
    def arguments(batch):
        return noise(batch, 6, 8), complex_noise(3, 5), complex_noise(3, 5)
    return Complex(), {"set_0": [arguments(2)], "also_0": [arguments(5)]}, ({0: Dim("batch", max=64)}, None, None)


class Bits(nn.Module):
    """Bytes as other types, of the same size, smaller and larger."""

    reads_bits = True

    def forward(self, x):
        bits = x.view(torch.int32)
        return ((bits >> 23) & 255, x.view(torch.uint8), x.view(torch.int64), x.to(torch.bfloat16).view(torch.int16),
                x.view(torch.complex64), (bits ^ (1 << 31)).view(torch.float32), x.t().contiguous().view(torch.float64))


def bits():
    return Bits(), {"set_0": [(noise(6, 4),)], "also_0": [(noise(10, 4),)]}, ({0: 2 * Dim("pairs", max=50)},)


class Spectra(nn.Module):
    """Transforms of lengths with small factors, prime and one; every norm; several dims; short-time transforms there and back."""

    lengths = (1, 2, 27, 60, 61, 97, 128)

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(60))

    def forward(self, x, z):
        fft = torch.fft
        results = []
        for n in self.lengths:
            half = fft.rfft(x, n=n)
            results += [fft.fft(z, n=n), half, fft.irfft(half, n=n)]
        grid = x[:, :120].reshape(-1, 4, 5, 6)
        results += [fft.ifft(z, norm="forward"), fft.hfft(z, norm="ortho"), fft.ihfft(x), fft.fftn(grid, dim=(1, 2, 3)), fft.rfft2(grid, norm="ortho"),
                    fft.irfftn(fft.rfftn(grid, dim=(1, 3)), dim=(1, 3)), fft.fft(grid, dim=1), fft.fftshift(fft.ifft2(grid))]
        spectrum = torch.stft(x, 60, 17, window=self.window, return_complex=True)
        results += [spectrum, torch.istft(spectrum, 60, 17, window=self.window, length=x.shape[1]),
                    torch.stft(x[0], 64, normalized=True, center=False, return_complex=True, onesided=False)]
        return tuple(results)


def spectra():
    def arguments(batch):
        return noise(batch, 300), complex_noise(batch, 33)
    batch = Dim("batch", max=64)
    return Spectra(), {"set_0": [arguments(3)], "also_0": [arguments(1)], "also_1": [arguments(40)]}, ({0: batch}, {0: batch})


class AnyLength(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.rfft(x, norm="ortho")
        return spectrum.abs(), torch.fft.irfft(spectrum, n=x.shape[1]), torch.view_as_real(torch.fft.fft(x))


def any_length():
    sets = {"set_0": [(noise(2, 60),)], "also_0": [(noise(1, 2),)], "also_1": [(noise(3, 211),)], "also_2": [(noise(5, 1024),)]}
    return AnyLength(), sets, ({0: Dim("batch", max=64), 1: Dim("length", min=2, max=1024)},)


class Algebra(nn.Module):
    """Determinants, inverses, systems and factors of batches of matrices of any size."""

    def forward(self, a, b):
        linalg = torch.linalg
        positive = a @ a.mT + torch.eye(a.shape[-1])
        lower = linalg.cholesky(positive)
        return (linalg.det(a), *linalg.slogdet(a), linalg.inv(a), linalg.solve(a, b), linalg.solve(a, b.mT, left=False),
                lower, linalg.cholesky(positive, upper=True), torch.cholesky_solve(b, lower), torch.cholesky_inverse(lower),
                linalg.solve_triangular(positive.triu(), b, upper=True), linalg.solve_triangular(a, b, upper=False, unitriangular=True),
                linalg.matrix_power(a, -2), linalg.matrix_exp(a), *linalg.lu_factor(a), *linalg.lu(a))


def algebra():
    def arguments(batch, n):
        return noise(batch, n, n), noise(batch, n, 3)
    batch, n = Dim("batch", max=64), Dim("n", min=2, max=64)
    sets = {"set_0": [arguments(3, 5)], "also_0": [arguments(1, 2)], "also_1": [arguments(2, 17)]}
    return Algebra(), sets, ({0: batch, 1: n, 2: n}, {0: batch, 1: n})


class Conditions(nn.Module):
    """Condition numbers by norms that need no singular values; without an inverse they are infinite."""

    def forward(self, a):
        return tuple(torch.linalg.cond(m, p) for m in (a, a[:, :0, :0]) for p in (1, -1, float("inf"), -float("inf"), "fro"))


def conditions():
    a = noise(4, 5, 5)
    a[1, 2] = a[1, 3] = 0
    a[2, 1, 1] = float("nan")
    return Conditions(), {"set_0": [(a,)]}, None


class Grouped(nn.Module):
    """Products by groups: rows in groups (one of them empty), and a batch."""

    def forward(self, rows, weights, ends, batch):
        if rows.dtype == torch.float64:  # PyTorch's own does not take it, and the reference needs it
            ends = ends.tolist()
            return torch.cat([rows[a:b] @ w for a, b, w in zip([0, *ends], ends, weights)]), batch @ weights
        product = torch.nn.functional.grouped_mm
        return product(rows, weights, offs=ends), product(batch, weights)


def grouped():
    def arguments(count, *ends):
        return noise(count, 16), noise(4, 16, 8), torch.tensor(ends, dtype=torch.int32), noise(4, 8, 16)
    sets = {"set_0": [arguments(7, 2, 2, 6, 7)], "also_0": [arguments(1, 0, 0, 0, 1)], "also_1": [arguments(40, 10, 30, 39, 40)]}
    return Grouped(), sets, ({0: Dim("rows", max=64)}, None, None, None)


class Edges(nn.Module):
    """Numbers at the ends of their types: floor division with the signs of its zeros, the next number, Bessel functions that
    overflow, choices between numbers of 16 bits, zeros that ReLU and limits leave as they are, quantiles far out, least common multiples."""

    reads_bits = True

    def forward(self, *numbers):
        results = []
        for a in numbers:
            bits = {torch.float32: torch.int32, torch.float64: torch.int64}.get(a.dtype, torch.int16)
            b = a[:, None]
            quotient, roots = torch.div(a, b, rounding_mode="floor"), torch.cat([torch.pow(a, 0.5), torch.pow(a, -0.5)])
            results += [quotient.isnan(), 1 / quotient.nan_to_num(5.0), roots.isnan(), 1 / roots.nan_to_num(5.0, 7.0, -7.0),
                        torch.nextafter(a, b).nan_to_num(5.0).view(bits), torch.special.i0(a),
                        torch.where(a < 0, a, 0.0).view(bits), torch.where(a > 1, a, 1.0).view(bits)]
            if a.dtype in (torch.float32, torch.float64):
                results += [torch.special.i1(a), torch.special.ndtri(a.abs()), 1 / torch.relu(a).nan_to_num(5.0),
                            1 / a.clamp(-1.0, 0.0).nan_to_num(5.0)]
        whole = torch.arange(-128, 128)
        for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32):  # least common multiples that wrap
            n = whole.to(dtype) if dtype in (torch.int8, torch.uint8) else (whole * 250).to(dtype)
            results.append(torch.lcm(n, n[::7, None]))
        return tuple(results)


def edges():
    inf = float("inf")
    numbers = torch.tensor([0.0, -0.0, 0.5, -0.5, 1, -1, 2.5, -7, 90, 88.7, 65504, 1e38, -3e38, 6e-8, -1e-40, inf, -inf, float("nan")])
    dtypes = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    return Edges(), {"set_0": [tuple(numbers.to(dtype) for dtype in dtypes)]}, None


class Halves(nn.Module):
    """16-bit floats between operators that are fused: they round and overflow where PyTorch's do; sums into elements, and sorting."""

    reads_bits = True

    def forward(self, x, index):
        results = []
        for dtype in (torch.float16, torch.bfloat16):
            h = x.to(dtype)
            results += [h.float(), h.double(), (h * h).float(), (h * 3.3 - h).float(), torch.where(h > 0, h, 0.1).double(), (h * 300).isinf(),
                        (h.float() * 1.001).to(dtype).float(), x.long().to(dtype).float(), h == x, (h.exp() * 0.5).clamp(max=3), h.sum(),
                        torch.zeros(5, dtype=dtype).index_add(0, index, h[:64] / 8), torch.zeros(5, dtype=dtype).scatter_reduce(0, index, h[:64], "amax"),
                        *h.sort(stable=True), *h.sort(descending=True, stable=True), h.log(), 1 / h.relu(), 1 / h.clamp(max=0)]
        return tuple(results)


def halves():
    inf = float("inf")
    numbers = torch.cat([noise(64) * 5, torch.tensor([1e5, -1e5, 65519, 65520, 1e-8, inf, 2049, -257.3, 0.0, -0.0])])
    return Halves(), {"set_0": [(numbers, torch.arange(64) % 5)]}, None


class Pooling(nn.Module):
    """Positions of maxima: windows with several NaN and with equal elements, windows of nothing but -inf, padding and dilation."""

    def forward(self, line, image, volume):
        f = torch.nn.functional
        results = []
        for x, pool, adaptive, output in ((line, f.max_pool1d, f.adaptive_max_pool1d, 3), (image, f.max_pool2d, f.adaptive_max_pool2d, (3, 2)),
                                          (volume, f.max_pool3d, f.adaptive_max_pool3d, (2, 3, 2))):
            results += [*pool(x, 3, 1, 1, return_indices=True), *pool(x, 2, 2, 1, ceil_mode=True, return_indices=True),
                        *pool(x, 2, 1, dilation=2, return_indices=True), *adaptive(x, output, return_indices=True),
                        *adaptive(x, 2, return_indices=True)]
        return tuple(results)


def pooling():
    def holed(*shape):
        x = noise(*shape).round()
        at = torch.rand(shape)
        return x.masked_fill(at < 0.2, float("nan")).masked_fill(at > 0.7, -float("inf"))

    def arguments(batch):
        return holed(batch, 2, 13), holed(batch, 2, 8, 6), holed(batch, 1, 6, 7, 4)
    batch = {0: Dim("batch", max=64)}
    return Pooling(), {"set_0": [arguments(2)], "also_0": [arguments(1)], "also_1": [arguments(17)]}, (batch, batch, batch)


class SeesNothing(nn.Module):
    """Attention with rows that are masked as a whole, which are 0."""

    def forward(self, q, k, v, mask):
        attention = nn.functional.scaled_dot_product_attention
        return tuple(attention(q.to(dtype), k.to(dtype), v.to(dtype), attn_mask=mask)
                     for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16))


def sees_nothing():
    mask = torch.ones(5, 7, dtype=torch.bool).tril()
    mask[1] = mask[4] = False
    return SeesNothing(), {"set_0": [(noise(1, 2, 5, 8), noise(1, 2, 7, 8), noise(1, 2, 7, 8), mask)]}, None


class AttentionOperands(nn.Module):
    """Attention whose operands lie in another order, or are one number along the dimension that it reads in vectors."""

    def forward(self, q, k, v, x):
        attention = nn.functional.scaled_dot_product_attention
        # A convolution wants its channels last, which the operands below that one kernel makes with its own take over.
        square, positive, less = x * x, (x * x).clamp(min=0.25), (x * x).clamp(max=0.25)
        channels = nn.functional.conv1d(square.squeeze(1), torch.ones(8, 1, 3, dtype=x.dtype), padding=1, groups=8)
        wide = x[..., :1].abs().expand(x.shape)
        return (channels, attention(less, k, positive), attention(q, less, positive), attention(q, k, v.mT.contiguous().mT),
                attention(q, k, wide), attention(wide, k, v), attention(q, wide, positive))


def attention_operands():
    return AttentionOperands(), {"set_0": [tuple(noise(2, 1, 8, 16) for _ in range(4))]}, None


class AttentionDepths(nn.Module):
    """Attention of so many rows that a block of a GPU takes 64 of them, in depths that are no powers of two."""

    def forward(self, q, k, v):
        attention = nn.functional.scaled_dot_product_attention
        q, k, v = q * 0.5, k + q, v - q
        return attention(q, k, v), attention(q[..., :80], k[..., :80], v[..., :80])


def attention_depths():
    return AttentionDepths(), {"set_0": [tuple(noise(128, 1, 33, 112) for _ in range(3))]}, None


class Float64(nn.Module):
    """Sums, products of matrices and special functions in float64; a scan, a squeeze and a slice over a size that varies."""

    def forward(self, x):
        equal = (x / x).abs() + 0.5
        return (torch.rsqrt(equal).mean(), x.sum(1), (x @ x.mT).sum(), torch.digamma(x.abs() + 0.5), torch.lgamma(x.abs()), x.squeeze(0) * 2, x[-2:] + 1,
                (x > 0).cumsum(0, dtype=torch.float32), nn.functional.scaled_dot_product_attention(x, x, x), torch.lerp(x, x + 1, x[0, 0]))


def float64():
    def wide(rows):
        return (noise(rows, 67).double(),)
    return (Float64(), {"set_0": [wide(5)], "also_0": [wide(2)], "also_1": [wide(31)], "also_2": [wide(1)]},
            ({0: Dim("rows", max=64)},))


class Nothing(nn.Module):
    """What is chosen of no elements, and their normalisation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))
        self.register_buffer("no_mean", torch.zeros(0))
        self.register_buffer("no_var", torch.zeros(0))

    def forward(self, x):
        chosen = x[x > 0]
        normal = nn.functional.batch_norm(x, self.mean, self.var, training=True)  # which leaves the statistics
        flat = nn.functional.batch_norm(x.reshape(-1), self.no_mean, self.no_var, training=True)
        whole = x.long().reshape(1, 1, 0, 3)
        attention = nn.functional.scaled_dot_product_attention(whole, whole, whole)
        return normal, flat, chosen, x.unique(), chosen * 2, chosen.sum(), x.nonzero(), x[:, 0].sort()[0], x.reshape(3, 0).sum(1), attention


def nothing():
    return Nothing(), {"set_0": [(noise(0, 3),)]}, None


class Tall(nn.Module):
    """The most rows that it takes need more memory than there is: 16 bytes a row between its kernels."""

    def forward(self, x):
        sums = x.cumsum(0)
        return (sums * sums.flip(0)).sum(0)


def tall():
    return Tall(), {"set_0": [(noise(50, 4),)], "also_0": [(noise(1, 4),)]}, ({0: Dim("rows", max=2**36)},)


CASES = {"complex_numbers": complex_numbers, "bits": bits, "spectra": spectra, "any_length": any_length, "algebra": algebra, "conditions": conditions,
         "grouped": grouped, "edges": edges, "halves": halves, "pooling": pooling, "sees_nothing": sees_nothing, "attention_operands": attention_operands,
         "attention_depths": attention_depths, "float64": float64, "nothing": nothing,
         "tall": tall}
