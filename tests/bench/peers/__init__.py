"""Peers: one module each, with a common interface.

prepare(case, folder) -> Path
                        makes the deployable artifact; raises Unsupported with a reason
load(artifact, case, threads) -> Session
                        opens the artifact in the runtime, ready to infer
libraries() -> [Path]   the shared objects that a deployment needs
import_runtime()        imports what load() needs, so that it isn't counted as load time
"""
import importlib
from pathlib import Path

ALL = ["eager", "onnxruntime", "openvino", "nacre"]
# what a peer needs to be importable
PACKAGES = {"onnxruntime": ("onnx", "onnxscript", "onnxruntime"), "openvino": ("onnx", "onnxscript", "openvino")}


class Unsupported(Exception):
    """The peer cannot run this model; the message says why."""


class Session:
    """A loaded model. run() infers once; output() is the first output of the last run.

    keep    what must outlive the session, such as input arrays that a runtime only points to
    times   for a peer that times itself: seconds -> [milliseconds]
    figures for such a peer: its own load_ms, first_ms and peak_rss_mb
    """

    def __init__(self, run, output, keep=None, times=None, figures=None):
        self.run, self.output, self.keep = run, output, keep
        self.times, self.figures = times, figures or {}


def installed(name):
    import importlib.util
    return all(importlib.util.find_spec(package) for package in PACKAGES.get(name, ()))


def get(name):
    return importlib.import_module(f"peers.{name}_peer")


def size(path):
    """Bytes of a file, or of all files below a folder."""
    path = Path(path)
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def package_files(package, *patterns):
    """Shared objects below an installed package."""
    import importlib.util
    root = Path(importlib.util.find_spec(package).submodule_search_locations[0])
    found = []
    for pattern in patterns:
        found += [p for p in sorted(root.glob(pattern)) if p.is_file() and not p.is_symlink()]
    return found


def place(peer, model):
    """(folder of a peer's artifact, the file that says how its preparation went)."""
    from cases import ROOT
    return ROOT / model / peer, ROOT / model / f"{peer}.json"
