"""Exports small models whose course or sizes depend on data: branches, loops, scans, and results of unknown length.

    python control.py --out DIR [--only NAME,NAME] [--list]

The case folders are those of export.py. Each model runs on several inputs, so that every branch is taken, loops run no
times, once and often, and results are empty, partly filled and full.
"""
import argparse
import hashlib
import shutil
import sys
from pathlib import Path

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import export

CASES = {}


DECOMPOSED = set()


def case(*sets, dynamic=None, refuse=(), decomposed=False):
    """The class below it, on these argument tuples. `decomposed`: saved after run_decompositions()."""
    def add(module):
        def make():
            torch.manual_seed(0)
            labelled = {"set_0": [sets[0]], **{f"also_{k}": [s] for k, s in enumerate(sets[1:])}}
            return export.Program(module(), labelled, dynamic, module.__doc__ or "", list(refuse))
        CASES[module.__name__] = make
        if decomposed:
            DECOMPOSED.add(module.__name__)
        return module
    return add


def ramp(*shape, start=0.0, step=0.25):
    return (torch.arange(float(torch.Size(shape).numel())) * step + start).reshape(shape)


def zero():
    return torch.zeros((), dtype=torch.int64)


ROWS = {0: Dim("rows", min=1, max=64)}


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
        return while_loop(go_on, step, (zero(), x, x.new_ones(())))


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


# ---------------------------------------------------------------- sizes from data

@case((torch.tensor([[1.0, -1, 0, 2], [0, 0, 3, -4], [5, 6, -7, 0]]),), (-torch.ones(3, 4),), (torch.ones(3, 4),))
class nonzero_then_index(nn.Module):
    """How many rows: from none to all; arithmetic on them and their number."""

    def forward(self, x):
        p = torch.nonzero(x > 0)
        v = x[p[:, 0], p[:, 1]] * 2
        return p * 3 + 1, v.exp(), v.sum(), p.shape[0]


@case((ramp(5, 4, start=-2),), (ramp(1, 4, start=-20),), (ramp(64, 4),), dynamic=(ROWS,))
class boolean_masks(nn.Module):
    """Rows and elements that a mask selects; rows that it selects are multiplied."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        keep = x.sum(1) > 0
        rows = x[keep]
        return self.fc(rows), rows.sum(0), torch.masked_select(x, x > 0.5), x[x < 0]


@case((ramp(6), torch.tensor(2)), (ramp(6), torch.tensor(0)), (ramp(6), torch.tensor(5)),
      refuse=[(ramp(6), torch.tensor(6)), (ramp(6), torch.tensor(-1))])
class item_as_size(nn.Module):
    """A length that is an input's value, within a declared range."""

    def forward(self, x, n):
        u = n.item()
        torch._check(u >= 0)
        torch._check(u <= 5)
        return x[:u] * 2, torch.zeros(u, 3) + u, x.sum() * u


@case((ramp(4, 2), torch.tensor([2, 0, 1, 3])), (ramp(4, 2), torch.tensor([0, 0, 0, 0])),
      (ramp(4, 2), torch.tensor([4, 4, 4, 4])), refuse=[(ramp(4, 2), torch.tensor([9, 9, 0, 0]))])
class repeats(nn.Module):
    """Rows repeated as often as the data say, sixteen in all at most."""

    def forward(self, x, n):
        i = torch.repeat_interleave(n)
        torch._check(i.shape[0] <= 16)
        return i, x.index_select(0, i)


@case((torch.tensor([3, 1, 3, 2, 1, 1]),), (torch.tensor([7, 7, 7, 7, 7, 7]),), (torch.tensor([6, 5, 4, 3, 2, 1]),))
class unique_values(nn.Module):
    def forward(self, x):
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        runs, lengths = torch.unique_consecutive(x, return_counts=True)
        return values, inverse, counts, runs, lengths


@case((ramp(5),), (ramp(5, start=-10),))
class nonzero_in_a_branch(nn.Module):
    """A size that depends on data, inside a branch."""

    def forward(self, x):
        def yes(v):
            return v[v > 0.5].sum() + v

        def no(v):
            return v * 2
        return torch.cond(x.sum() > 0, yes, no, (x,))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list or not options.out:
        print("\n".join(CASES))
        return 0
    made_from = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    failed = 0
    for name in options.only.split(",") if options.only else CASES:
        folder = options.out / name
        stamp = folder / "made_from"
        if not stamp.exists() or stamp.read_text() != made_from:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            if export.write_case(folder, name, CASES[name], name in DECOMPOSED):
                print(f"exported {name}", flush=True)
            stamp.write_text(made_from)
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).strip()[:1500]}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
