"""Operators that run_decompositions() would take apart, into arithmetic that is less exact or into a step for each element."""
import torch
from torch import nn
from torch.export import Dim

from case import case


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------- images of bytes

def images(batch, height, width):
    generator = torch.Generator().manual_seed(height * width)

    def image(*shape):
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    return image(batch, 3, height, width), image(1, 6, height, width)


def resized(x, y, more=()):
    resize = torch.nn.functional.interpolate
    results = []
    for mode in ("bilinear", "bicubic"):
        for antialias in (False, True):
            for corners in (False, True):
                results += [resize(v, size=size, mode=mode, align_corners=corners, antialias=antialias)
                            for v, size in ((x, (5, 17)), (y, (40, 11)), *more)]
            results += [resize(v, scale_factor=factor, mode=mode, antialias=antialias) for v, factor in ((x, (0.6, 1.7)), (y, (1.04, 0.3)))]
    return tuple(results)


HEIGHT, WIDTH = Dim("height", min=8, max=64), Dim("width", min=8, max=64)


@case(images(2, 9, 12), images(1, 8, 64), images(5, 40, 11), images(1, 8, 8),
      dynamic=({0: Dim("batch", max=64), 2: HEIGHT, 3: WIDTH}, {2: HEIGHT, 3: WIDTH}))
class resized_bytes(nn.Module):
    """Images of bytes, smaller and larger, along one dim or both: PyTorch weights them in whole numbers."""

    def forward(self, x, y):
        return resized(x, y)


@case(images(1, 37, 53), tuple(image // 128 * 255 for image in images(1, 37, 53)))
class resized_bytes_of_one_size(nn.Module):
    """The same where all sizes are known."""

    def forward(self, x, y):
        return resized(x, y, ((x, (23, 17)), (x, (9, 31)), (x, (1, 40)), (x, (37, 3)), (y, (40, 53))))


# ---------------------------------------------------------------- windows

def pooled(batch):
    image, volume = noise(batch, 3, 9, 8), noise(batch, 2, 7, 6, 9)
    image[:, :, 2:4, 1:3] = float("nan")
    return image, noise(batch, 3, 2).sigmoid(), volume, noise(batch, 2, 3).sigmoid()


BATCH = {0: Dim("batch", max=64)}


@case(pooled(2), pooled(2))
class fractional_windows(nn.Module):
    """Fractional pooling, whose windows start where the numbers that are given say, and Kaiser's windows."""

    def forward(self, image, planes, volume, cubes):
        f = torch.nn.functional
        return (f.fractional_max_pool2d(image, 2, output_size=(4, 3), _random_samples=planes, return_indices=True),
                f.fractional_max_pool2d(image, (3, 2), output_size=(1, 5), _random_samples=planes, return_indices=True),
                f.fractional_max_pool2d(image[0], 2, output_ratio=(0.5, 0.7), _random_samples=planes[:1], return_indices=True),
                f.fractional_max_pool3d(volume, 2, output_size=(3, 2, 4), _random_samples=cubes, return_indices=True),
                torch.kaiser_window(17), torch.kaiser_window(8, periodic=False),
                torch.kaiser_window(5, periodic=True, beta=3.5), torch.kaiser_window(9, dtype=torch.float64),
                torch.kaiser_window(1), torch.kaiser_window(0))


# ---------------------------------------------------------------- networks that recur

def sequence(length, batch):
    return noise(length, batch, 3), noise(1, batch, 2), noise(1, batch, 6)


@case(sequence(9, 2), sequence(9, 1), sequence(9, 7), dynamic=({1: BATCH[0]}, {1: BATCH[0]}, {1: BATCH[0]}))
class recurrent_steps(nn.Module):
    """Plain networks and LSTMs with a projection; export fixes the number of steps."""

    def __init__(self):
        super().__init__()
        self.networks = nn.ModuleList([
            nn.RNN(3, 4), nn.RNN(3, 5, 2, nonlinearity="relu", bidirectional=True), nn.RNN(3, 4, bias=False), nn.LSTM(3, 6, proj_size=2),
            nn.LSTM(3, 5, 2, bias=False, bidirectional=True, proj_size=3)])

    def forward(self, x, h, c):
        return (*(network(x) for network in self.networks), self.networks[3](x, (h, c)))


LAYER = [noise(6, n) if n else noise(6) for n in (3, 2, 0, 0)] * 2


@case((noise(5, 2, 3), *LAYER), (noise(5, 7, 3), *LAYER), dynamic=({1: BATCH[0]}, (None,) * len(LAYER)))
class recurrent_types(nn.Module):
    """LSTMs and GRUs of other types than float32, and with weights that are an input."""

    def __init__(self):
        super().__init__()
        self.networks = nn.ModuleList([
            network(3, 4, 2, bidirectional=True, dtype=dtype) for network in (nn.LSTM, nn.GRU)
            for dtype in (torch.float64, torch.float16, torch.bfloat16)])

    def forward(self, x, *weights):
        start = x.new_zeros(2, x.shape[1], 2)
        return (*(network(x.to(network.weight_hh_l0.dtype)) for network in self.networks),
                torch.gru(x, start, weights, True, 1, 0.0, False, True, False))


# ---------------------------------------------------------------- written in place

@case((noise(9, 6), noise(3, 3, 3)))
class diagonals(nn.Module):
    """Filled in a matrix, in a part of one, in one that is transposed in place, in a cube, and wrapped around."""

    def forward(self, x, cube):
        part = x * 1
        part.t()[1:4].fill_diagonal_(7).mul_(2)
        turned = x * 2
        turned.transpose_(0, 1).swapaxes_(0, 1)[1:].t_().fill_diagonal_(-1)
        return x.clone().fill_diagonal_(0.5), part, turned, cube.clone().fill_diagonal_(3), (x * 3)[:, :2].fill_diagonal_(4, wrap=True)


# ---------------------------------------------------------------- products of three

@case((noise(4, 6), noise(4, 3)), (noise(1, 6), noise(1, 3)), dynamic=({0: Dim("rows", max=64)},) * 2, decomposed=True)
class bilinear(nn.Module):
    """What run_decompositions() makes of it is one operator, too."""

    def __init__(self):
        super().__init__()
        self.wide, self.bare = nn.Bilinear(6, 3, 5), nn.Bilinear(3, 3, 2, bias=False)

    def forward(self, x, y):
        return self.wide(x, y), self.wide(x[:, None].expand(-1, 2, 6), y[:, None].flip(2).expand(-1, 2, 3)), self.bare(y, x[:, ::2])
