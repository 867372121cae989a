"""TorchScript whose course depends on data: each runs on inputs that take every branch."""
from typing import Optional

import torch
from torch import nn

from case import case, ramp


@case((ramp(2, 4),), (ramp(2, 4, start=-9),), (ramp(2, 4, start=-0.9),), examples=["f32[2,4]"])
class script_branches(nn.Module):
    """Branches in branches that capture weights, return early and keep state."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x, mask: Optional[torch.Tensor] = None):
        y = self.fc(x)
        if mask is not None:
            y = y * mask
        if bool(x.sum() < -8):
            self.total.sub_(x[0])
            return y, x.sum(1)
        if bool(y.amax() > 0.5) and not bool(x[0, 0] > 0):
            y = y.relu()
            self.total.add_(x[1])
            self.peak = y.amax()
        elif float(x[1, 1]) * 2 > 1:
            y = y - self.total
        return y.tanh(), x.mean(1)


@case((ramp(3, start=1),), (ramp(3, start=100),), (ramp(3, start=0.5, step=0.0),), examples=["f32[3]"])
class script_newton(nn.Module):
    """Runs until it is near enough, or often enough."""

    def forward(self, x):
        y = torch.ones_like(x)
        error = 1.0
        rounds = 0
        while error > 1e-3 and rounds < 20:
            z = 0.5 * (y + x / y)
            error = float((z - y).abs().amax())
            y = z
            rounds += 1
        return y, rounds


@case((ramp(5, 3), torch.tensor(3)), (ramp(5, 3), torch.tensor(0)), (ramp(5, 3, start=4), torch.tensor(5)), examples=["f32[5,3]", "i64[]"])
class script_rows(nn.Module):
    """A recurrence over as many rows as a tensor says, which may end before."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x, n):
        h = torch.zeros(3)
        for i in range(int(n)):
            h = torch.tanh(self.cell(h) + x[i])
            if bool(h.sum() > 2.5):
                break
        return h


@case((ramp(4),), (ramp(4, start=2),), refuse=[(ramp(4, start=-9),)], examples=["f32[4]"])
class script_raises(nn.Module):
    """What it raises is a check of the artifact."""

    def forward(self, x):
        if bool(x.sum() < -8):
            raise ValueError("too little")
        return x * int(x[1] + 2)
