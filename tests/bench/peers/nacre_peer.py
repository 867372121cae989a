"""The project itself: `nacre compile` makes the artifact, `nacre bench --json` runs it.

The binary is found in NACRE_BIN or on PATH; libnacre beside it or in ../lib counts as its runtime.
`nacre bench --json ARTIFACT --threads N` must print one JSON object with the keys
load_ms, first_ms, peak_rss_mb and times_ms (a list), and take --inputs FILE.npz, --output FILE.npy
(the first output) and --seconds S.
"""
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy

from . import Session, Unsupported


def binary():
    found = os.environ.get("NACRE_BIN") or shutil.which("nacre")
    if not found or not Path(found).is_file():
        raise Unsupported("not built")
    return found


def import_runtime():
    pass


def prepare(case, folder):
    tool = binary()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.nacre"
    log = subprocess.run([tool, "compile", case.pt2, "-o", path], capture_output=True, text=True)
    if log.returncode:
        raise Unsupported(f"nacre compile: {(log.stderr.strip().splitlines() or ['no message'])[-1][:200]}")
    return path


def load(artifact, case, threads):
    result = artifact.with_name("output.npy")

    def bench(seconds):
        log = subprocess.run([binary(), "bench", "--json", artifact, "--threads", str(threads), "--inputs",
                              case.dir / "inputs.npz", "--output", result, "--seconds", str(seconds)],
                             capture_output=True, text=True, check=True)
        return json.loads(log.stdout)
    # its own process: the figures are its own too, not this interpreter's
    figures = bench(0.0)
    figures = {key: figures[key] for key in ("load_ms", "first_ms", "peak_rss_mb")}
    return Session(lambda: None, lambda: numpy.load(result), times=lambda seconds: bench(seconds)["times_ms"],
                   figures={**figures, "model_rss_mb": figures["peak_rss_mb"]})


def libraries():
    folder = Path(binary()).resolve().parent
    return [p for f in (folder, folder.parent / "lib") for p in sorted(f.glob("libnacre.so*")) if not p.is_symlink()]
