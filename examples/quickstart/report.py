"""What both examples share: compiling a program with the nacre command, and the figures that they print."""
import argparse
import hashlib
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy
import torch

from nacre_runtime import Model, NacreError

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def options(description):
    parser = argparse.ArgumentParser(description=description)
    build = ROOT / "build"
    parser.add_argument("--tool", type=Path, default=build / "bin" / "nacre", help="the nacre command")
    parser.add_argument("--library", type=Path, default=build / "lib" / "libnacre.so", help="the runtime")
    parser.add_argument("--out", type=Path, default=build / "quickstart", help="folder for programs, artifacts and pictures")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    for path in (chosen.tool, chosen.library):
        if not path.exists():
            parser.error(f"{path} is not there: build first, or run examples/quickstart.sh")
    chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


def exported(path, module, inputs, dynamic_shapes, *sources):
    """Exports a module with torch.export to `path`, unless the same sources did so already."""
    digest = hashlib.sha256(torch.__version__.encode())
    for source in (__file__, *sources):
        digest.update(Path(source).read_bytes())
    stamp = path.with_suffix(".stamp")
    if not (path.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest()):
        print(f"  exporting {path.name}", flush=True)
        with torch.no_grad():
            program = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
        torch.export.save(program, path)
        stamp.write_text(digest.hexdigest())
    return path


def compiled(options, program):
    """Compiles program.pt2 to program.nacre with the nacre command."""
    artifact = program.with_suffix(".nacre")
    print(f"  nacre compile {program.name} -o {artifact.name}", flush=True)
    start = time.perf_counter()
    done = subprocess.run([options.tool, "compile", program, "-o", artifact, "--threads", str(options.threads)],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"nacre compile {program} failed")
    print("".join(f"    {line}\n" for line in done.stdout.splitlines()), end="")
    print(f"    took {time.perf_counter() - start:.1f} s", flush=True)
    return artifact


def opened(options, artifact):
    """(a Model, milliseconds that it took to open), with the file in the page cache."""
    artifact.read_bytes()
    best, model = None, None
    for _ in range(5):
        if model:
            model.close()
        start = time.perf_counter()
        model = Model(artifact, options.library, options.threads)
        taken = (time.perf_counter() - start) * 1e3
        best = taken if best is None else min(best, taken)
    return model, best


def side_by_side(first, second, rounds=5, seconds=0.25):
    """Milliseconds (minimum, median) of two functions that take turns."""
    times = ([], [])
    for _ in range(rounds):
        for function, kept in zip((first, second), times):
            function()
            end = time.perf_counter() + seconds
            while True:
                start = time.perf_counter()
                function()
                now = time.perf_counter()
                kept.append((now - start) * 1e3)
                if now > end:
                    break
    return tuple((min(kept), statistics.median(kept)) for kept in times)


def compare(options, name, artifact, module, cases, note=""):
    """Prints the figures of one network; `cases` are tuples of arrays, the first one is timed."""
    model, load_ms = opened(options, artifact)
    worst = worst_pytorch = 0.0
    for arrays in cases:
        tensors = [torch.from_numpy(a) for a in arrays]
        got = model.run(*arrays)
        with torch.inference_mode():
            eager = _flat(module(*tensors))
            wide = _flat(module.double()(*[t.double() if t.is_floating_point() else t for t in tensors]))
            module.float()
        for mine, theirs, exact in zip(got, eager, wide, strict=True):
            largest = max(numpy.abs(exact).max(), 1e-30)
            worst = max(worst, numpy.abs(mine.astype("float64") - theirs).max() / largest)
            worst_pytorch = max(worst_pytorch, numpy.abs(theirs.astype("float64") - exact).max() / largest)
    tensors = [torch.from_numpy(a) for a in cases[0]]
    call = model.bind(*cases[0])

    def eager_run():
        with torch.inference_mode():
            module(*tensors)
    (own, own_median), (eager, eager_median) = side_by_side(call.run, eager_run)
    sizes = " and ".join("x".join(map(str, a.shape)) for a in cases[0])
    print(f"""
  {name}
    artifact               {artifact.stat().st_size / 1e6:10.2f} MB
    runtime (libnacre.so)  {options.library.stat().st_size / 1e3:10.1f} KB
    load and session       {load_ms:10.2f} ms
    latency, nacre         {own:10.3f} ms   (median {own_median:.3f}; input {sizes}; {options.threads} thread(s))
    latency, PyTorch eager {eager:10.3f} ms   (median {eager_median:.3f})   {eager / own:.2f} times slower
    largest difference from PyTorch {worst:.1e} of the largest value (PyTorch's own from float64: {worst_pytorch:.1e}), {len(cases)} inputs{note}""",
          flush=True)
    return model


def _flat(outputs):
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [t.numpy() for t in outputs]


__all__ = ["Model", "NacreError", "compare", "compiled", "exported", "opened", "options", "side_by_side"]
