"""One directory per model: the exported program, the ONNX file, inputs and the expected outputs.

Every peer starts from these files, so that all of them compute the same thing.
"""
import json
import os
import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))

ROOT = Path(os.environ["BENCH_BUILD"])
ONNX_OPSET = 18


class Case:
    """A model's directory below the build folder."""

    def __init__(self, name):
        self.name = name
        self.dir = ROOT / name
        self.pt2 = self.dir / "model.pt2"                  # torch.export, state mutated in place
        self.stateless_pt2 = self.dir / "stateless.pt2"    # idem, state as inputs and outputs
        self.onnx = self.dir / "model.onnx"                # stateless, float32

    @property
    def info(self):
        return json.loads((self.dir / "info.json").read_text())

    def inputs(self, stateless=False):
        """Example inputs as numpy arrays."""
        with numpy.load(self.dir / ("stateless.npz" if stateless else "inputs.npz")) as file:
            return [file[f"arr_{i}"] for i in range(len(file.files))]

    def reference(self):
        """The first output in float64."""
        return numpy.load(self.dir / "reference.npy")

    def error(self, output):
        """(max absolute error, the same relative to the largest reference value)."""
        expected = self.reference()
        if output.size != expected.size:
            raise ValueError(f"output has shape {output.shape}, expected {expected.shape}")
        delta = numpy.abs(output.reshape(expected.shape).astype("float64") - expected).max()
        return float(delta), float(delta / numpy.abs(expected).max())


def export(name):
    """Write a case's files, but for the ONNX file."""
    import torch
    import zoo

    case = Case(name)
    case.dir.mkdir(parents=True, exist_ok=True)
    module, inputs = zoo.create(name)
    numpy.savez(case.dir / "inputs.npz", *[x.numpy() for x in inputs])
    torch.export.save(torch.export.export(module, inputs), case.pt2)

    stateless, stateless_inputs = zoo.create_stateless(name)
    numpy.savez(case.dir / "stateless.npz", *[x.numpy() for x in stateless_inputs])
    if zoo.MODELS[name].stateful:
        torch.export.save(torch.export.export(stateless, stateless_inputs), case.stateless_pt2)
    elif not case.stateless_pt2.exists():
        case.stateless_pt2.symlink_to(case.pt2.name)

    with torch.no_grad():
        double = [x.double() if x.is_floating_point() else x for x in inputs]
        numpy.save(case.dir / "reference.npy", module.double()(*double).numpy())
    (case.dir / "info.json").write_text(json.dumps({
        "kind": zoo.MODELS[name].kind,
        "flops": zoo.flops(name),
        "weight_bytes": zoo.weight_bytes(name),
        "inputs": [list(x.shape) for x in inputs]}))


def export_onnx(case):
    """Write a case's ONNX file. Needs onnxscript."""
    import torch
    import zoo

    stateless, stateless_inputs = zoo.create_stateless(case.name)
    for dynamo in (True, False):
        try:
            torch.onnx.export(stateless, stateless_inputs, str(case.onnx), opset_version=ONNX_OPSET,
                              dynamo=dynamo, external_data=False, verbose=False)
            return
        except Exception as error:
            print(f"{case.name}: no ONNX file with dynamo={dynamo}: {str(error).splitlines()[0]}")
