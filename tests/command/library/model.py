"""Models with operators of torch.library, as cases: what PyTorch makes of them is in the case.

    python model.py FOLDER

scaled       two operators that only the application can compute, on two dtypes, with a dynamic batch
changed      one that changes its argument, after run_decompositions()
decomposed   one with a registered decomposition, after run_decompositions(): nothing of it is left
in_place     the same as changed, without run_decompositions(): refused
"""
import json
import sys
from pathlib import Path

import numpy
import torch
from torch import Tensor


@torch.library.custom_op("mylib::scale", mutates_args=())
def scale(x: Tensor, factor: float, times: int = 1) -> Tensor:
    return (x * factor * times).to(x.dtype)


@scale.register_fake
def _(x, factor, times=1):
    return torch.empty_like(x)


@torch.library.custom_op("mylib::join", mutates_args=())
def join(parts: list[Tensor], rows: int, fill: float) -> tuple[Tensor, Tensor]:
    """The parts side by side, then a column of `fill`; and the sum of each row."""
    joined = torch.cat([*parts, parts[0].new_full((rows, 1), fill)], 1)
    return joined, joined.sum(1)


@join.register_fake
def _(parts, rows, fill):
    return parts[0].new_empty((rows, sum(p.shape[1] for p in parts) + 1)), parts[0].new_empty((rows,))


@torch.library.custom_op("mylib::shift", mutates_args=("x",))
def shift(x: Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("mylib::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return 2 * x


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x, k):
        y = torch.ops.mylib.scale(self.linear(x), 2.5, 3)
        z = torch.ops.mylib.scale(k.t(), 2.0)
        joined, sums = torch.ops.mylib.join([y, x], x.shape[0], -0.5)
        return joined.relu(), z, sums + 1


class Changed(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        torch.ops.mylib.shift(y, 1.5)
        return y - x


class Decomposed(torch.nn.Module):
    def forward(self, x):
        return torch.ops.mylib.twice(x) + 1


def write(folder, program, module, sets):
    folder.mkdir(parents=True)
    torch.export.save(program, folder / "model.pt2")
    info = {}
    for name, inputs in sets.items():
        outputs = module(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        (folder / name).mkdir()
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for i, t in enumerate(tensors):
                numpy.save(folder / name / f"{kind}_{i}.npy", t.detach().numpy())
        info[name] = {"inputs": [{} for _ in inputs], "outputs": [{} for _ in outputs]}
    (folder / "case.json").write_text(json.dumps({"sets": info}))


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=64)
    numbers = torch.arange(-3, 3).reshape(2, 3)
    module = Scaled()
    program = torch.export.export(module, (torch.randn(3, 4), numbers), dynamic_shapes=({0: rows}, None))
    write(folder / "scaled", program, module, {f"set_{n}": (torch.randn(n, 4), numbers + n) for n in (3, 1, 64)})

    x = torch.randn(5, 4)
    for name, module in (("changed", Changed()), ("in_place", Changed()), ("decomposed", Decomposed())):
        program = torch.export.export(module, (torch.randn(5, 4),), dynamic_shapes=({0: rows},))
        if name == "changed":
            program = program.run_decompositions()
        if name == "decomposed":
            program = program.run_decompositions({torch.ops.mylib.twice.default: lambda x: x + x})
        write(folder / name, program, module, {"set_0": (x,)})


if __name__ == "__main__":
    main()
