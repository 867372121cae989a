"""How the small models of control.py, sizes.py, numbers_from_data.py, scripted.py, chance.py and kept.py become cases."""
import torch
from torch.export import Dim

import export

CASES = {}
DECOMPOSED = set()


def case(*sets, dynamic=None, refuse=(), decomposed=False, examples=None):
    """The class below it, on these argument tuples. `decomposed`: saved after run_decompositions(). `examples`: saved as
    TorchScript, for which they stand in for the sample inputs."""
    def add(module):
        def make():
            torch.manual_seed(0)
            labelled = {"set_0": [sets[0]], **{f"also_{k}": [s] for k, s in enumerate(sets[1:])}}
            made = torch.jit.script(module()) if examples else module()
            return export.Program(made, labelled, dynamic, module.__doc__ or "", list(refuse), examples)
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
