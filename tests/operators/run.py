"""PyTorch's own operator database through nacre: every operator on the arguments that PyTorch tests it with.

    python run.py --tool build/bin/nacre --out DIR [--all] [--samples 3] [--dtypes float32,int64] [--seed 1] [--only NAME,NAME]
                  [--stage artifact] [--jobs 2] [--list]

The fixed sample is one case an operator, the dtypes in turn. --all is every dtype (of --dtypes), --samples cases of each. Another
seed is other values, other dtypes in turn, and other ones of the arguments that PyTorch has for the operator. Each case is a
program whose sample inputs `nacre verify` runs and compares with PyTorch. Programs that an equal version of this script and of
PyTorch wrote are left as they are. What is known to fail stands in known.py with its reason; it may fail, and it is told when
it passes.

Needs expecttest and hypothesis, which PyTorch's database imports.
"""
import argparse
import hashlib
import itertools
import json
import multiprocessing
import subprocess
import sys
import warnings
from pathlib import Path

import torch

import known

warnings.filterwarnings("ignore")

DTYPES = ["float32", "int64", "bool", "float16", "bfloat16", "int32", "float64", "uint8", "int16", "int8"]
LOOKED_AT = 48  # of an operator's samples, of which there may be thousands
AT_A_TIME = 100  # programs in one call of nacre verify


def operators():
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if not known.left_out(name):
            yield name, op


class Call(torch.nn.Module):
    """Calls an operator on its tensors; everything else is a constant of the module."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        self.leaves, self.spec = torch.utils._pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(self.leaves[i].detach().clone() for i in self.at)
        for i in self.at:
            self.leaves[i] = None

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for i, tensor in zip(self.at, tensors):
            leaves[i] = tensor
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


def jobs(options):
    """(operator, dtype, how many samples, seed, folder)."""
    for number, (name, op) in enumerate(operators()):
        if options.only and name not in options.only.split(","):
            continue
        supported = op.supported_dtypes("cpu")
        dtypes = [d for d in options.dtypes.split(",") if getattr(torch, d) in supported]
        if not options.all and dtypes:
            dtypes = [dtypes[(number + options.seed) % len(dtypes)]]
        for dtype in dtypes:
            yield name, dtype, options.samples if options.all else 1, options.seed, options.out


def write(job):
    """Exports samples of an operator, from all over its list; returns their names and what could not be exported."""
    name, dtype, count, seed, out = job
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    op = dict(operators())[name]
    written, refused = [], []
    samples = list(itertools.islice(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False), LOOKED_AT))
    step = max(1, len(samples) // count)
    for index in range(seed % step, len(samples), step)[:count]:
        case = f"{name}-{dtype}-{index}"
        file = out / f"{case}.pt2"
        written.append(case)
        if file.exists():
            continue
        try:
            module = Call(op.op, samples[index])
            tensors, module.tensors = module.tensors, None
            with torch.no_grad():
                program = torch.export.export(module.eval(), tensors, strict=False)
            torch.export.save(program, out / f"{case}.unfinished.pt2")
            (out / f"{case}.unfinished.pt2").rename(file)
        except Exception as error:  # what torch.export cannot express is no case
            written.pop()
            refused.append(f"{case}: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}")
    return written, refused


def export(options):
    cases, refused = [], []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for written, not_exported in pool.imap(write, jobs(options), chunksize=8):
            cases += written
            refused += not_exported
    for line in refused:
        print(f"  not exported: {line}")
    return cases


def verify(options, cases):
    """{case: nothing, or what is wrong}."""
    reasons = {}
    for start in range(0, len(cases), AT_A_TIME):
        chunk = cases[start:start + AT_A_TIME]
        command = [options.tool, "verify", "--json", "--jobs", str(options.jobs), "--timeout", "300", "--stage", options.stage]
        done = subprocess.run([*command, *(options.out / f"{case}.pt2" for case in chunk)], capture_output=True, text=True)
        try:
            verdicts = json.loads(done.stdout)
        except ValueError:
            verdicts = [{"passed": False, "reason": f"no verdict: {done.stderr.strip()[-300:]}"}] * len(chunk)
        for case, verdict in zip(chunk, verdicts, strict=True):
            reasons[case] = "" if verdict["passed"] else verdict["reason"]
    return reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--samples", type=int, default=3, help="with --all: cases of each operator and dtype")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="operators, separated by commas")
    parser.add_argument("--stage", default="artifact")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name every case, also those that pass")
    options = parser.parse_args()
    version = hashlib.sha256(torch.__version__.encode() + Path(__file__).read_bytes()).hexdigest()[:12]
    options.out = options.out / f"{version}-{options.seed}"
    options.out.mkdir(parents=True, exist_ok=True)
    cases = export(options)
    passed = failed = expected = 0
    for case, reason in verify(options, cases).items():
        if reason and known.reason(case, reason):
            expected += 1
        elif reason:
            failed += 1
            print(f"  FAILED {case}: {reason[:600]}")
        else:
            passed += 1
            if not known.is_counted(case):
                print(f"  {case} passes, though known.py has it")
            elif options.list:
                print(f"  ok {case}")
    print(f"  {expected} that are known to fail ({len(cases)} cases)")
    print(f"operators: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
