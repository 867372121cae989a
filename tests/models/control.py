"""Models whose course depends on data: branches, loops, scans. Each runs on several inputs, so that every branch is taken
and loops run no times, once and often.
"""
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from case import ROWS, case, ramp, zero


# ---------------------------------------------------------------- branches

@case((ramp(3, 4),), (ramp(3, 4, start=-9),), (ramp(3, 4, start=-1.4),))
class cond_nested(nn.Module):
    """Both branches of one branch, a parameter captured in each."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.25]))

    def forward(self, x):
        def high(v):
            def yes(w):
                return self.fc(w).relu(), w.sum(1)

            def no(w):
                return w * self.scale, w[:, 0] + 1
            return torch.cond(v.amax() > 3, yes, no, (v,))

        def low(v):
            return v.sin(), v.mean(1)
        a, b = torch.cond(x.sum() > 0, high, low, (x,))
        return a + 1, b.cos(), a.t()


@case((ramp(5, 4), torch.tensor(True)), (ramp(5, 4), torch.tensor(False)), (ramp(2, 4), torch.tensor(True)),
      (ramp(64, 4), torch.tensor(False)), dynamic=(ROWS, None))
class cond_views_and_rows(nn.Module):
    """Branches that return views of what they take, and sizes of it."""

    def forward(self, x, flag):
        def yes(v):
            return v.t().clone(), v * v.shape[0]

        def no(v):
            return v.flip(0).t().clone(), v + 0.5
        a, b = torch.cond(flag, yes, no, (x,))
        return a @ b, b


@case((ramp(7, 3),), (ramp(2, 3),), (ramp(40, 3),), dynamic=({0: Dim("rows", min=2, max=64)},))
class cond_on_a_size(nn.Module):
    """The condition is known from the sizes alone."""

    def forward(self, x):
        return torch.cond(x.shape[0] > 5, lambda v: v.cumsum(0), lambda v: v.softmax(1), (x,))


# ---------------------------------------------------------------- loops

@case((ramp(4, start=1),), (ramp(4, start=2000),), (ramp(4, start=0.001, step=0.0),))
class while_doubles(nn.Module):
    """Runs until the data say so, perhaps never."""

    def forward(self, x):
        return while_loop(lambda n, v: v.sum() < 1000, lambda n, v: (n + 1, v * 2), (zero(), x))


@case((ramp(3, 3, start=-1),), (ramp(1, 3),), (ramp(20, 3, step=0.01),), dynamic=(ROWS,))
class while_newton(nn.Module):
    """A matrix product and a reduction in each round, rows of any number, a weight captured."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3) * 0.3)

    def forward(self, x):
        def go_on(i, v, best):
            return (i < 6) & (best > 1e-6)

        def step(i, v, best):
            w = torch.tanh(v @ self.weight + x)
            return i + 1, w, (w - v).abs().amax()
        rounds, v, best = while_loop(go_on, step, (zero(), x, x.new_ones(())))
        return rounds, v, best < 0.5


@case((ramp(5),), (ramp(5, start=-3),))
class while_swaps(nn.Module):
    """The next values are each other's old ones; one is a view."""

    def forward(self, x):
        def step(i, a, b):
            return i + 1, b.flip(0), a + b
        return while_loop(lambda i, a, b: i < 4, step, (zero(), x, x.cos()))


@case((ramp(6, 2), torch.tensor(3)), (ramp(6, 2), torch.tensor(0)), (ramp(6, 2), torch.tensor(6)))
class while_fills_a_table(nn.Module):
    """A table that the body writes a row of each time, by an index that counts."""

    def forward(self, x, n):
        def step(i, table):
            row = (x[0] * i + 1).unsqueeze(0)
            return i + 1, table.index_copy(0, i.reshape(1), row)
        return while_loop(lambda i, table: i < n, step, (zero(), torch.zeros_like(x)))


@case((ramp(4),), (ramp(4, start=-20),))
class while_with_a_branch(nn.Module):
    """A branch within a loop within a branch."""

    def forward(self, x):
        def loop(v):
            def step(i, w):
                return i + 1, torch.cond(w.sum() > 2, lambda u: u * 0.5, lambda u: u + 1, (w,))
            return while_loop(lambda i, w: i < 5, step, (zero(), v))[1]
        return torch.cond(x.sum() > 0, loop, lambda v: v - 1, (x,))


# ---------------------------------------------------------------- scans and maps

@case((ramp(5, 2, 3), ramp(2, 4, start=-1)), (ramp(1, 2, 3), ramp(2, 4)), (ramp(33, 2, 3, step=0.01), ramp(2, 4)),
      dynamic=({0: Dim("time", min=1, max=64)}, None))
class scan_recurrent(nn.Module):
    """A recurrent cell over time: carried state, a row of results each step."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(3, 4)
        self.state = nn.Linear(4, 4)

    def forward(self, x, h):
        def step(h, x_t):
            new = torch.tanh(self.input(x_t) + self.state(h))
            return new, new.sum(1)
        return scan(step, h, x)


@case((ramp(4, 3), ramp(4)), (ramp(4, 3, start=-5), ramp(4, start=2)))
class scan_two_streams(nn.Module):
    """Several carried values and rows, in reverse."""

    def forward(self, x, g):
        def step(carry, row):
            total, most = carry
            v, w = row
            total = total * w + v
            return (total, torch.maximum(most, v)), (total.clone(), v - most)
        return scan(step, (x.new_zeros(3), x.new_full((3,), -1.0)), (x, g), reverse=True)


@case((ramp(4, 3), ramp(3, 2)), (ramp(1, 3), ramp(3, 2)), (ramp(17, 3), ramp(3, 2)), dynamic=(ROWS, None))
class map_rows(nn.Module):
    """The body for each row, with an operand for all."""

    def forward(self, x, w):
        return torch_map(lambda row, weight: (row @ weight).sin(), x, w)


@case((ramp(6, 3),), (ramp(6, 3, start=-2),), decomposed=True)
class associative_scan_affine(nn.Module):
    """Affine maps composed: a pair of values. Off CUDA, export itself unrolls it (and leaves vmap to run_decompositions)."""

    def forward(self, x):
        def combine(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]
        return associative_scan(combine, (x.sigmoid(), x), 0, combine_mode="generic")


@case((ramp(5),), (ramp(5, start=-10),))
class nonzero_in_a_branch(nn.Module):
    """A size that depends on data, inside a branch."""

    def forward(self, x):
        def yes(v):
            return v[v > 0.5].sum() + v

        def no(v):
            return v * 2
        return torch.cond(x.sum() > 0, yes, no, (x,))


@case((ramp(5, 3, start=-3), torch.tensor(True)), (ramp(5, 3, start=1), torch.tensor(False)),
      (ramp(3, 3), torch.tensor(False)), (ramp(64, 3, start=-30), torch.tensor(True)),
      dynamic=({0: Dim("rows", min=3, max=64)}, None))
class cond_captures(nn.Module):
    """Branches in branches that capture tensors, sizes and parameters of every level around them."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.shift = nn.Buffer(torch.tensor([1.0, -2.0, 0.5]))

    def forward(self, x, flag):
        rows = x.shape[0]
        total = x.cumsum(0)

        def yes(v):
            scaled = v * rows

            def inner(w):
                return self.fc(w + total) * scaled.mean()
            return torch.cond(total.sum() < 0, inner, lambda w: w - scaled + self.shift, (v.tanh(),))
        return torch.cond(flag, yes, lambda v: torch.cat([total[1:], v[:1]]), (x,))


@case((ramp(6, 2),), (ramp(6, 2, start=-9),), (ramp(9, 2),), (ramp(2, 2),), dynamic=({0: Dim("rows", min=2, max=32)},))
class cond_integers_and_bools(nn.Module):
    """Branches that give several results of other dtypes."""

    def forward(self, x):
        def yes(v):
            return v.argsort(0), v > 1, v.to(torch.int32).sum(), v.double()

        def no(v):
            return v.argsort(0, descending=True), v < -1, (v.abs().sum() * 3).to(torch.int32).sum(), v.double() * 0.1
        return torch.cond(x.mean() > 0, yes, no, (x,))


@case((torch.tensor(12), torch.tensor(18)), (torch.tensor(7), torch.tensor(0)), (torch.tensor(0), torch.tensor(5)))
class while_integers(nn.Module):
    """Euclid: integers alone, each the other's next value; a bool among what is carried."""

    def forward(self, a, b):
        def step(a, b, odd, count):
            return b.clone(), a % torch.where(b == 0, 1, b), ~odd, count + 1
        return while_loop(lambda a, b, odd, count: b != 0, step, (a, b, torch.tensor(False), zero()))


@case((ramp(3, 4), torch.tensor(5)), (ramp(1, 4, start=-1), torch.tensor(0)), (ramp(20, 4, step=0.02), torch.tensor(3)),
      dynamic=(ROWS, None))
class while_in_while(nn.Module):
    """A loop in a loop, which counts with the outer one's counter; other dtypes carried."""

    def forward(self, x, n):
        def outer(i, v, hits, half):
            def inner(j, w):
                return j + 1, torch.sin(w) + j
            _, w = while_loop(lambda j, w: j < i, inner, (zero(), v))
            return i + 1, w, hits + (w > 0.5).to(torch.int32), half * 0.5
        return while_loop(lambda i, v, hits, half: i < n, outer,
                          (zero(), x, torch.zeros_like(x, dtype=torch.int32), torch.ones((), dtype=torch.float64)))


@case((ramp(6, 3, start=-2),), (ramp(6, 3),), (ramp(1, 3),), (ramp(33, 3, step=0.01),), dynamic=(ROWS,))
class associative_scan_sums(nn.Module):
    """As export keeps it: one operator with a body, for any number of rows."""

    def forward(self, x):
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="pointwise")


@case((ramp(4, 5, start=-2), ramp(4, 5, start=1)), (ramp(4, 5), ramp(4, 5, start=-9)))
class associative_scan_pairs(nn.Module):
    """A linear recurrence along the last dim, from the end."""

    def forward(self, x, g):
        def combine(a, b):
            return {"g": a["g"] * b["g"], "x": a["x"] * b["g"] + b["x"]}
        made = associative_scan(combine, {"g": g.sigmoid(), "x": x}, 1, reverse=True, combine_mode="pointwise")
        return made["x"], made["g"]


@case((ramp(5, 2, start=-1), ramp(2)), (ramp(1, 2), ramp(2)), (ramp(11, 2), ramp(2)), dynamic=(ROWS, None))
class scan_of_integers(nn.Module):
    """Integers carried beside floats, a branch and a table inside."""

    def forward(self, x, h):
        table = torch.tensor([0.5, -1.0, 2.0])

        def step(carry, row):
            h, k = carry
            h = torch.cond(row.sum() > 0, lambda a, b: a + b, lambda a, b: a * b - 1, (h, row))
            return (h, (k + 1) % 3), (h * table.index_select(0, k.reshape(1)), k * 2)
        return scan(step, (h, zero()), x)


@case((ramp(3, 4), ramp(3, 2)), (ramp(1, 4), ramp(1, 2)), (ramp(9, 4), ramp(9, 2)), dynamic=(ROWS, ROWS))
class map_of_pairs(nn.Module):
    """Several inputs, several results of other shapes and dtypes."""

    def forward(self, x, y):
        def body(rows, scale):
            return rows[0].cumsum(0) * scale, rows[0].argmax(), rows[1] > 1
        return torch_map(body, (x, y), torch.tensor(2.0))


@case((ramp(6, 3, start=-2),), (ramp(6, 3, start=-4),), (ramp(6, 3, start=1),))
class cond_of_unlike_sizes(nn.Module):
    """Branches whose results have sizes of their own, one of them by data."""

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda v: v[v.sum(1) > 2], lambda v: v[:4] * 2, (x,))
        return y, y.sum(0), y.shape[0]


@case((ramp(6, 3), torch.tensor(2)), (ramp(6, 3), torch.tensor(0)), (ramp(6, 3), torch.tensor(6)),
      refuse=[(ramp(6, 3), torch.tensor(7))])
class cond_on_a_number(nn.Module):
    """The condition is about a number, and so is the size of what the branches take."""

    def forward(self, x, n):
        u = n.item()
        torch._check(u >= 0)
        torch._check(u <= 6)
        return torch.cond(u > 3, lambda v: v * 2, lambda v: v - 1, (x[:u],))


@case((ramp(6, 3, start=-2),), (ramp(6, 3, start=-9),))
class while_selects(nn.Module):
    """A size by data that changes from round to round."""

    def forward(self, x):
        def step(i, v):
            kept = v[v > 0.5]
            return i + 1, v * 0.5 + kept.sum() / (kept.shape[0] + 1)
        return while_loop(lambda i, v: i < 3, step, (zero(), x))


@case((ramp(4, 6, start=-2), ramp(4)), (ramp(4, 1), ramp(4)), (torch.zeros(4, 0), ramp(4)),
      dynamic=({1: Dim("steps", min=0, max=64)}, None))
class scan_over_columns(nn.Module):
    """Along the last dim, in both directions, perhaps over nothing."""

    def forward(self, x, h):
        def step(h, column):
            return h * 0.5 + column, (h.cumsum(0), column > h)
        last, (sums, more) = scan(step, h, x, dim=1)
        first, (back, _) = scan(step, h, x, dim=1, reverse=True)
        return last, sums, more, first, back
