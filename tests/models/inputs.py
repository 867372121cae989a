"""Exports small modules whose inputs lie or are arranged in special ways: channels-last, with other strides, overlapping,
nested in lists and dataclasses; or whose parameters are written to.

    python inputs.py --out DIR [--only NAME,NAME]

The folders are those of export.py. In case.json, `variants` are what `nacre verify` compiles beside the general one, and `alias`
names the inputs that share one storage in the last of the sets.
"""
import argparse
import dataclasses
import json
import sys
from pathlib import Path

import torch
from torch.export import Dim

import export


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 3, stride=2),
            torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5))

    def forward(self, x):
        return self.body(x)


def channels_last():
    torch.manual_seed(1)
    wide = torch.randn(3, 3, 34, 40)
    batch = Dim("batch", min=1, max=16)
    return export.Program(Network(), {
        "set_0": [(torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last),)],
        "also_0": [(torch.randn(5, 3, 32, 32).to(memory_format=torch.channels_last),)],
        "also_1": [(torch.randn(4, 3, 32, 32),)],
        "also_2": [(wide[:, :, 1:33, 4:36],)]}, ({0: batch},))


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return x @ y + y.sum(0), x.amax(1)


def strides():
    torch.manual_seed(2)
    rows = Dim("rows", min=2, max=64)
    return export.Program(Sum(), {
        "set_0": [(torch.randn(6, 4), torch.randn(4, 8))],
        "also_0": [(torch.randn(4, 7).t(), torch.randn(8, 8)[::2])],
        "also_1": [(torch.randn(1, 4).expand(9, 4), torch.randn(8).expand(4, 8))],
        "also_2": [(torch.randn(64, 12)[:, 1::3], torch.randn(16, 4).t()[:, ::2])]}, ({0: rows}, None))


class Steps(torch.nn.Module):
    """Writes into one input and reads another, in turns."""

    def forward(self, x, y):
        x.mul_(2)
        z = y + 1
        y.add_(x[:1])
        return z * x, x + y


def overlap():
    rows = Dim("rows", min=2, max=64)

    def apart(count):
        return (torch.arange(4.0 * count).view(count, 4) - 3, torch.linspace(-1, 1, 4 * count).view(count, 4))
    base = torch.linspace(-2, 3, 9 * 4).view(9, 4)
    return export.Program(Steps(), {"set_0": [apart(3)], "also_0": [apart(7)], "also_1": [(base[:6], base[2:8])]},
                          ({0: rows}, {0: rows}))


@dataclasses.dataclass
class Picture:
    pixels: torch.Tensor
    mask: torch.Tensor


torch.export.register_dataclass(Picture, serialized_type_name="tests.models.Picture")


class Nested(torch.nn.Module):
    def forward(self, picture, options, unused, *more, scale=None):
        masked = picture.pixels * picture.mask
        scales = [masked * s for s in options["scales"]]
        return {"masked": masked, "again": masked, "scaled": (scales, None), "given": options["bias"]}, \
            Picture(picture.mask + more[0], more[1] - options["bias"])


def nested():
    def arguments(rows):
        torch.manual_seed(rows)
        return (Picture(torch.randn(rows, 3), torch.rand(rows, 3)), {"scales": [torch.randn(3), torch.randn(1)], "bias": torch.randn(3)},
                torch.ones(2), torch.randn(3), torch.randn(rows, 3))
    return export.Program(Nested(), {"set_0": [arguments(4)]})


class Rescaled(torch.nn.Module):
    """A parameter that each call writes to, as RWKV's blocks do, is state."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 3))
        self.fixed = torch.nn.Parameter(torch.linspace(-1, 1, 3))

    def forward(self, x):
        self.weight.div_(2).add_(self.fixed)
        return x * self.weight


def rescaled():
    calls = [(torch.linspace(-1, 1, 6).view(2, 3) * step,) for step in (1, 2, 3)]
    return export.Program(Rescaled(), {"set_0": calls[:1], "sequence": calls})


# name: (what makes the Program, variants, inputs that share memory in the last set)
CASES = {
    "channels_last": (channels_last, ["x: [_, 3, 32, 32] channels_last", "x: [4, 3, 32, 32]"], None),
    "strides": (strides, ["x: [7, 4]"], None),
    "overlap": (overlap, ["x: [3, 4]"], [0, 1]),
    "nested": (nested, [], None),
    "rescaled": (rescaled, [], None),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the case folders")
    parser.add_argument("--only", help="names, separated by commas")
    options = parser.parse_args()
    key = export.version(False, [__file__])
    for name in options.only.split(",") if options.only else CASES:
        make, variants, alias = CASES[name]
        folder = options.out / name
        if not export.write_case(folder, name, make, False, key):
            continue
        case = json.loads((folder / "case.json").read_text())
        case.update(variants=variants, alias=alias)
        (folder / "case.json").write_text(json.dumps(case, indent=1))
        if alias:  # what was widened lies apart
            for path in (folder / list(case["sets"])[-1]).glob("output64_*"):
                path.unlink()
        print(f"exported {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
