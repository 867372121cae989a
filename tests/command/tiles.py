"""Convolutions and products of sizes that leave remainders in every tile, on Cortex-M4 and M7: `nacre compile` runs them under QEMU
and compares with PyTorch.

    python tiles.py --tool build/bin/nacre
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

TARGETS = ["cortex-m4", "cortex-m7"]


class Filters(nn.Module):
    """Depthwise filters, at and beyond the image's edges, and dense ones."""

    def __init__(self, height, width):
        super().__init__()
        shapes = [dict(kernel_size=3, padding=1), dict(kernel_size=3, padding=1, stride=2), dict(kernel_size=3), dict(kernel_size=3, stride=2),
                  dict(kernel_size=(5, 3), padding=(2, 1)), dict(kernel_size=(1, 3), padding=(0, 1), stride=(1, 2)), dict(kernel_size=3, padding=2),
                  dict(kernel_size=3, padding=2, dilation=2), dict(kernel_size=5, padding=2)]
        dense = [(5, dict(kernel_size=3, padding=1)), (7, dict(kernel_size=1)), (6, dict(kernel_size=1, stride=2))]
        layers = [nn.Conv2d(8, 8, groups=8, **shape) for shape in shapes] + [nn.Conv2d(8, channels, **shape) for channels, shape in dense]
        self.layers = nn.ModuleList(layer for layer in layers if min(height, width) >= 3 or layer.padding != (0, 0))

    def forward(self, image):
        return tuple(layer(image).relu() for layer in self.layers)


class Products(nn.Module):
    """Matrix products of a few rows with long and short sums."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(k, n) for k, n in ((3, 5), (33, 9), (70, 13), (300, 6)))

    def forward(self, *inputs):
        return tuple(layer(x[:, :layer.in_features]) for x in inputs for layer in self.layers) + (inputs[-1] @ inputs[0].mT,)


def cases():
    """{name: (module, inputs, targets)}; the targets take turns."""
    found = {}
    for i, (height, width) in enumerate([(1, 1), (2, 2), (5, 3), (6, 4), (7, 5), (9, 6)]):
        found[f"filters{height}x{width}"] = Filters(height, width), (torch.randn(1, 8, height, width),), [TARGETS[i % 2]]
    found["products"] = Products(), tuple(torch.randn(rows, 300) for rows in (1, 2, 3, 5)), TARGETS
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (module, inputs, targets) in cases().items():
            model = Path(folder, f"{name}.pt2")
            torch.export.save(torch.export.export(module.eval(), inputs), model)
            for target in targets:
                done = subprocess.run([options.tool, "compile", "--quiet", model, "--target", target, "--emit", "static", "-o", Path(folder, name)],
                                      capture_output=True, text=True, timeout=900)
                ok = done.returncode == 0 and "check    error" in done.stdout and "qemu-system-arm" in done.stdout
                print(f"  {name} on {target}: {'ok' if ok else 'FAILED ' + done.stdout + done.stderr}", flush=True)
                results.append(ok)
    print(f"tiles: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
