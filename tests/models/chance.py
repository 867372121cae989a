"""Models that draw random numbers: only the shapes of their results can be compared (tests/unit has the distributions)."""
import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from case import ROWS, case, ramp, zero


class Drawing(nn.Module):
    """Stays in training, where dropout drops."""

    def train(self, mode=True):
        return super().train()


@case((ramp(6, 3), ramp(4)), (ramp(6, 3, start=-90), ramp(4)), (ramp(1, 3), ramp(4)), (ramp(33, 3), ramp(4)), dynamic=(ROWS, None))
class random_in_bodies(Drawing):
    """Random numbers in branches, in loops and their conditions, in scans and maps, and in those within others."""

    def forward(self, x, y):
        def step(i, v):
            def noisy(w):
                return w + torch.randn_like(w)
            return i + 1, torch.cond(v.sum() > 0, noisy, lambda w: w * 2, (v,)) + torch.rand(4)

        rounds, v = while_loop(lambda i, v: i < 3 + torch.rand(()), step, (zero(), y))
        last, rows = scan(lambda carry, row: (carry + row, torch.rand_like(row) + row), x[0], x)
        dropped = torch_map(lambda row: torch.nn.functional.dropout(row, 0.5, True), x)
        chosen = torch.cond(x.sum() > 0, lambda t: t + torch.rand_like(t), lambda t: t.clone(), (x,))
        return rounds, v, last, rows, dropped, chosen
