"""Models that draw random numbers: only the shapes of their results can be compared (tests/unit has the distributions)."""
import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from case import ROWS, case, ramp, zero


BATCH = Dim("batch", min=2, max=64)


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


@case(*((ramp(6, batch, 3, start=-5), ramp(batch, 2, 7, 4)) for batch in (3, 2, 9)), dynamic=({1: BATCH}, {0: BATCH}))
class dropout_in_operators(Drawing):
    """Attention, and the layers of recurrent networks."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 3, dropout=0.3, bidirectional=True)
        self.gru = nn.GRU(3, 4, 2, dropout=0.3)
        self.rnn = nn.RNN(3, 4, 2, dropout=1.0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)

    def forward(self, x, q):
        attention = torch.nn.functional.scaled_dot_product_attention
        mask = q[:, 0, :, :1] > 1
        return (attention(q, q, q, dropout_p=0.25), attention(q, q, q, attn_mask=mask.unsqueeze(1), dropout_p=0.5, scale=0.1),
                attention(q, q[:, :1], q[:, :1], is_causal=True, dropout_p=0.1, enable_gqa=True),
                self.lstm(x), self.gru(x), self.rnn(x[:2]), self.layer(q.reshape(-1, 7, 8)))


@case((ramp(5, 4),), (ramp(5, 4, start=-3),), (ramp(5, 4, start=20),))
class distributions(Drawing):
    """What draws until it accepts."""

    def forward(self, x):
        rates = x.abs() * 4
        return (torch.poisson(rates), torch.poisson(rates.double() * 9), torch.binomial(rates.ceil(), x.sigmoid()), torch._standard_gamma(rates),
                torch._sample_dirichlet(rates + 1), torch.nn.functional.fractional_max_pool2d(x.reshape(1, 1, -1, 4), (1, 2), output_size=(1, 3)))
