"""Models that compute with numbers that `item` takes out of tensors."""
import math

import torch
from torch import nn

from case import case, ramp


@case((ramp(4, 3, start=-1),), (ramp(4, 3, start=-7.5),), (torch.zeros(4, 3),))
class floats(nn.Module):
    """A float is a number: it promotes no tensor of floats, and is rounded once; among the results it is what torch.tensor gives."""

    def forward(self, x):
        a, b = x.sum().item(), x.max().item()
        return (x * a, torch.full((3,), a * 2 + b), x + (a - b / 3), torch.tensor(a), x.clamp(b - 1, b), x.to(torch.float64) * a,
                x.to(torch.int64) + a, x.masked_fill(x > 0, b), torch.add(x, x, alpha=a), torch.where(x > 0, a, b),
                x.new_full((2,), -a), x.pow(2.0) - a, a, b / 3, 0.1)


@case((ramp(4, 3, start=-1),), (ramp(4, 3, start=-7.5),), (ramp(4, 3, start=1.6),))
class rounded_floats(nn.Module):
    """Integers out of floats, and back; what Python's operators do."""

    def forward(self, x):
        a = x.sum().item()
        return x + math.trunc(a), x * (a / 3), x * torch.sym_int(a * 4), x + torch.sym_sqrt(a * a), x * torch.sym_max(a, 0.5), x * (a * a), x - (-a)


@case((ramp(4, 3), torch.tensor(3)), (ramp(4, 3), torch.tensor(0)), (ramp(4, 3), torch.tensor(-2)))
class integers(nn.Module):
    """Arithmetic on an integer, which no size depends on."""

    def forward(self, x, n):
        u = n.item()
        return x * u, x + (u * 3 - 1), torch.tensor(u) * 2, u * 3, x.to(torch.int32) + u, x * (u / 4), x.fill_(u), u % 4, u // 2


@case((ramp(4, 3),), (ramp(4, 3, start=-9),))
class bools(nn.Module):
    def forward(self, x):
        positive = (x.sum() > 0).item()
        return torch.where(torch.tensor(positive), x, -x)


@case((ramp(4, 3),), (ramp(4, 3, start=1),), refuse=[(ramp(4, 3, start=-9),)])
class checked(nn.Module):
    """A condition on a number is checked while the model runs."""

    def forward(self, x):
        a = x.sum().item()
        torch._check(a > 0.5)
        return x / a


@case((ramp(4, 3), torch.tensor([2, 3])), (ramp(4, 3), torch.tensor([0, 0])), (ramp(4, 3), torch.tensor([4, 3])),
      refuse=[(ramp(4, 3), torch.tensor([5, 1]))])
class sizes(nn.Module):
    """Sizes that are expressions over several numbers."""

    def forward(self, x, n):
        a, b = n[0].item(), n[1].item()
        torch._check(0 <= a)
        torch._check(a <= 4)
        torch._check(0 <= b)
        torch._check(b <= 3)
        part = x.narrow(0, 0, a).narrow(1, 0, b)
        return part, part.reshape(a * b), torch.arange(a + b), torch.zeros(2 * a + 1, b).sum(1), x[a:].sum(0), x.sum() * a / (b + 1)


@case((ramp(5, 4),), (ramp(16, 4),), (ramp(1, 4),), dynamic=({0: torch.export.Dim("rows", min=1, max=64)},))
class floats_of_sizes(nn.Module):
    """Square roots and quotients of sizes that inputs have."""

    def forward(self, x):
        n = x.shape[0]
        return x / torch.sym_sqrt(n), x * (1 / n), x + n / 3, torch.full((2,), n ** 0.5)
