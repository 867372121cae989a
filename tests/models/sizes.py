"""Models whose results have as many elements as the data say: from none to all."""
import torch
from torch import nn
from torch.export import Dim

from case import ROWS, case, ramp


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


@case((torch.tensor([[3, 1, 2], [1, 0, 5], [3, 1, 2], [1, 0, 4], [1, 0, 5]]),), (torch.zeros(5, 3, dtype=torch.int64),),
      (torch.arange(15).reshape(5, 3).flip(0),), (torch.tensor([[2, 2, 2]]),), dynamic=(ROWS,))
class unique_rows(nn.Module):
    """Rows in the order of their elements, columns, and runs of rows."""

    def forward(self, x):
        rows, inverse, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
        runs, of_row, lengths = torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True)
        return rows, inverse, counts, runs, of_row, lengths, torch.unique(x, dim=1), torch.unique_consecutive(x, dim=1)


@case((torch.tensor([[[0.5, -1], [0.5, -1]], [[2, 2], [2, 2]]]),), (ramp(2, 2, 2),), (torch.zeros(2, 2, 2),))
class unique_of_three_dims(nn.Module):
    def forward(self, x):
        middle, inverse = torch.unique(x, dim=1, return_inverse=True)
        return middle, inverse, torch.unique(x, dim=-1), torch.unique(x), torch.unique_consecutive(x, return_inverse=True)


@case((torch.tensor([1.0, float("nan"), 1.0, float("nan"), -0.0, 0.0]),), (torch.full((6,), float("nan")),))
class unique_floats(nn.Module):
    """Every NaN counts for itself; zeros are equal."""

    def forward(self, x):
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values, inverse, counts, torch.unique_consecutive(x), torch.unique(x > 0), torch.unique(x.isnan().to(torch.uint8))


@case((torch.tensor([1, 2, 2, 5]),), (torch.tensor([0, 0, 0, 0]),), (torch.tensor([9, 0, 9, 1]),),
      refuse=[(torch.tensor([1, 2, 3, 10]),), (torch.tensor([1, -1, 3, 1]),)])
class bin_counts(nn.Module):
    """As many bins as the largest number, at most ten; never fewer than a minimum."""

    def forward(self, i):
        n = torch.bincount(i)
        torch._check(n.shape[0] <= 10)
        weighted = torch.bincount(i, weights=i * 0.5, minlength=8)
        torch._check(weighted.shape[0] <= 12)
        return n, weighted, torch.bincount(i.to(torch.uint8), minlength=3)


@case((torch.tensor([[True, False, True], [False, False, True]]),), (torch.zeros(2, 3, dtype=torch.bool),),
      (torch.ones(2, 3, dtype=torch.bool),))
class positions(nn.Module):
    """All the ways to ask where something is true."""

    def forward(self, mask):
        rows, columns = torch.nonzero(mask, as_tuple=True)
        return (torch.argwhere(mask), rows, columns, torch.nonzero_static(mask, size=4, fill_value=-7), torch.where(mask)[1],
                torch.nonzero(mask.any(1)), torch.count_nonzero(mask))


@case((ramp(3, 4, start=-1), torch.tensor([True, False, True])), (ramp(3, 4), torch.tensor([False] * 3)),
      (ramp(3, 4), torch.tensor([True] * 3)))
class masks_write(nn.Module):
    """Masks among indices, read and written."""

    def forward(self, x, keep):
        y = x.clone()
        y[keep, 1] = 7
        y[:, torch.tensor([True, False, True, False])] += 1
        z = x.clone()
        z[keep] = x[keep] * 2
        return y, z, x[keep][:, 1:], x[:, x.sum(0) > 1], torch.masked_select(x, keep[:, None]), x.masked_scatter(x > 0, -x)


@case((ramp(3, 2), torch.tensor([2, 0, 3])), (ramp(3, 2), torch.tensor([0, 0, 0])), (ramp(3, 2), torch.tensor([4, 4, 4])),
      refuse=[(ramp(3, 2), torch.tensor([9, 9, 9])), (ramp(3, 2), torch.tensor([2, -1, 1]))])
class repeat_elements(nn.Module):
    """Rows and columns as often as a tensor says."""

    def forward(self, x, n):
        rows = torch.repeat_interleave(x, n, dim=0)
        torch._check(rows.shape[0] <= 12)
        columns = torch.repeat_interleave(x.t(), n, dim=-1)
        torch._check(columns.shape[1] <= 12)
        twice = torch.repeat_interleave(x, torch.tensor([2]), dim=1)
        torch._check(twice.shape[1] <= 4)
        return rows, columns.sum(1), twice, rows.sum()


@case((ramp(3, 2), torch.tensor([2, 1, 2])), refuse=[(ramp(3, 2), torch.tensor([2, 1, 1]))])
class repeat_to_a_given_size(nn.Module):
    def forward(self, x, n):
        return torch.repeat_interleave(x, n, dim=0, output_size=5)


@case((ramp(6, 3), torch.tensor([2, 4])), (ramp(6, 3), torch.tensor([0, 6])), (ramp(6, 3), torch.tensor([6, 0])),
      refuse=[(ramp(6, 3), torch.tensor([2, 3])), (ramp(6, 3), torch.tensor([7, -1]))])
class split_by_data(nn.Module):
    """Parts whose sizes are a tensor's values."""

    def forward(self, x, n):
        a, b = n.tolist()
        first, second = torch.split(x, [a, b])
        left, right = torch.split(x, [a, x.shape[0] - a])
        return first * 2, second.sum(0), torch.cat([right, left]), first.mean()


@case((ramp(6, 3), torch.tensor([2, 4])), (ramp(6, 3), torch.tensor([-2, 9])), (ramp(6, 3), torch.tensor([5, 1])))
class tensor_split_by_data(nn.Module):
    def forward(self, x, n):
        a, b, c = torch.tensor_split(x, n)
        return a, b.sum(0), c * 2


@case((ramp(5, 4, start=-2),), (ramp(5, 4, start=-30),), (ramp(5, 4, start=9),))
class work_on_what_is_kept(nn.Module):
    """Sorting, softmax, products and reductions over as many rows as there happen to be."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        rows = x[x.sum(1) > 1]
        scores = torch.softmax(self.fc(rows) @ rows.t(), -1)
        order = rows[:, 0].argsort(descending=True)
        return scores @ rows, rows[order], rows.flip(0).cumsum(0), torch.cat([rows, x]), rows.reshape(-1), rows.shape[0] * 2
