"""Code for several processors of one family on each of them, and bad requests: nacre-remote for aarch64 under qemu-aarch64.

    python remote.py --tool build/bin/nacre --case FOLDER     a case of one f32 input and one output, as tests/models exports them
"""
import argparse
import functools
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

import tally

F32 = 9  # formats/dtype.h


def ask(options, data, cpu="max", page=4096):
    command = ["qemu-aarch64", "-p", str(page), "-cpu", cpu, str(options.tool.parent.parent / "lib/nacre/nacre-remote-aarch64")]
    return subprocess.run(command, input=data, capture_output=True, timeout=120)


def opening(artifact, entry=0):
    return struct.pack("<Q", len(artifact)) + artifact + struct.pack("<II", entry, 1)


def call(x):
    strides = [s // x.itemsize for s in x.strides]
    return (struct.pack("<IIQ", 1, 1, x.nbytes) + x.tobytes() + struct.pack("<IIQII", 1, 0, 0, F32, x.ndim)
            + struct.pack(f"<{2 * x.ndim}q", *x.shape, *strides))


def text(answer):
    """The message of a status that is not 0."""
    status, length = struct.unpack("<II", answer[:8])
    assert status and len(answer) == 8 + length, answer
    return answer[8:].decode()


def runs(options, artifact, **machine):
    """The result is PyTorch's."""
    x, y = (numpy.load(options.case / "set_0" / f"{name}_0.npy") for name in ("input", "output"))
    answer = ask(options, opening(artifact) + call(x), **machine).stdout
    opened, status, outputs, rank = struct.unpack("<4I", answer[:16])
    assert (opened, status, outputs, rank) == (0, 0, 1, y.ndim), answer[:200]
    assert struct.unpack(f"<{rank}q", answer[16:16 + 8 * rank]) == y.shape
    result = numpy.frombuffer(answer, "<f4", y.size, 24 + 8 * rank).reshape(y.shape)
    assert numpy.abs(result - y).max() <= 1e-5 * max(1, numpy.abs(y).max()), numpy.abs(result - y).max()


def test_the_lower_image_runs_on_less(options, artifacts):
    for cpu in "cortex-a53", "cortex-a76", "max":
        runs(options, artifacts["aarch64,cortex-a78ae"], cpu=cpu)


def test_without_an_image_it_says_what_it_wants(options, artifacts):
    runs(options, artifacts["cortex-a78ae"], cpu="cortex-a76")
    said = text(ask(options, opening(artifacts["cortex-a78ae"]), cpu="cortex-a53").stdout)
    assert "compiled for cortex-a78ae (which wants half-precision arithmetic, dot product" in said, said


def test_pages_of_64_kib(options, artifacts):
    runs(options, artifacts["cortex-a78ae"], page=65536)


def test_bad_requests(options, artifacts):
    good = opening(artifacts["cortex-a78ae"])
    for name, data, says in (
            ("nothing", b"", "ends early"),
            ("half a number", b"\1\2", "ends early"),
            ("more than there is", struct.pack("<Q", 2**63), "out of memory"),
            ("an unknown kind", good + struct.pack("<I", 7), "unknown kind"),
            ("an input without a storage", good + struct.pack("<IIIIQII", 1, 0, 1, 5, 0, F32, 1), "outside its storage"),
            ("too many dimensions", good + struct.pack("<IIQIIQII", 1, 1, 0, 1, 0, 0, F32, 99), "dimensions")):
        done = ask(options, data)
        assert done.returncode == 2 and says in done.stderr.decode(), f"{name}: {done}"
    assert "not a nacre artifact" in text(ask(options, opening(os.urandom(128))).stdout)
    answer = ask(options, opening(artifacts["cortex-a78ae"], entry=9) + struct.pack("<III", 1, 0, 0)).stdout
    assert answer[:4] == bytes(4) and "no entry 9" in text(answer[4:]), answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--case", type=Path, required=True)
    options = parser.parse_args()
    artifacts = {}
    with tempfile.TemporaryDirectory() as folder:
        for target in "cortex-a78ae", "aarch64,cortex-a78ae":
            path = Path(folder) / "a.nacre"
            subprocess.run([options.tool, "compile", "--quiet", options.case / "model.pt2", "-o", path, "--target", target], check=True, stdout=subprocess.DEVNULL)
            artifacts[target] = path.read_bytes()
    return tally.run_all("remote", {name: functools.partial(test, options, artifacts) for name, test in tally.tests_of(globals()).items()})


if __name__ == "__main__":
    sys.exit(main())
