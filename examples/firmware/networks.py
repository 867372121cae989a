"""MLPerf Tiny's reference networks: writes the exported program, and inputs with PyTorch's answers as a C header.

    python networks.py --network resnet8 --out DIR          model.pt2 and samples.h

Their weights are random (tests/models/zoo.py), so the classes mean nothing; that a board finds the same ones does.
"""
import argparse
import sys
from pathlib import Path

import numpy
import torch

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests" / "models"))
import zoo  # noqa: E402

SAMPLES = 3


def c_array(name, values):
    """A C array of floats, one row of them for each entry of the first dimension."""
    values = numpy.asarray(values, dtype=numpy.float32)
    rows = ",\n".join("  {" + ",".join(f"{float(v)!r}f" for v in row.flat) + "}" for row in values)
    return f"static const float {name}[{len(values)}][{values[0].size}] = {{\n{rows}}};\n"


def error_limit(eager, exact):
    """How far from `exact` (float64) an answer may be: twice PyTorch's own error, plus 8 units of rounding."""
    largest = numpy.abs(exact).max()
    return 2 * numpy.abs(eager - exact).max() + 8 * numpy.finfo(numpy.float32).eps / 2 * largest


def answers(module, inputs):
    """(float32 answers of PyTorch, the same computed in float64) for a batch of inputs, one at a time."""
    with torch.no_grad():
        eager = torch.cat([module(x[None]) for x in inputs]).numpy()
        exact = torch.cat([module.double()(x[None].double()) for x in inputs]).numpy()
        module.float()
    return eager, exact


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    module, example = zoo.create(options.network)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.export.save(torch.export.export(module, example), options.out / "model.pt2")

    torch.manual_seed(1)
    inputs = torch.randn(SAMPLES, *example[0].shape[1:])
    eager, exact = answers(module, inputs)
    limits = ", ".join(f"{error_limit(a, b):.3e}f" for a, b in zip(eager, exact))
    (options.out / "samples.h").write_text(f"""// Inputs of {options.network}, and what PyTorch answers.
#include <stdint.h>
#define NAME "{options.network}"
enum {{ SAMPLES = {SAMPLES}, OUTPUTS = {eager[0].size} }};
static const uint32_t classes[SAMPLES] = {{{", ".join(str(row.argmax()) for row in eager)}}};
static const float limits[SAMPLES] = {{{limits}}};
{c_array("samples", inputs)}{c_array("expected", exact)}""")


if __name__ == "__main__":
    main()
