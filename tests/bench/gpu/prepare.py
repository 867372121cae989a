"""Exports and compiles what the GPU bench measures: one artifact for each model and precision, with an entry for each batch.

    prepare.py --out FOLDER [--models a,b] [--batches 1,8,32] [--precisions fp16,bf16,tf32,fp32] [--target cuda-sm_90]

Needs no GPU. NACRE_BIN names the nacre command. What is there already is kept (--again makes it anew).
"""
import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch

import models

NACRE = os.environ.get("NACRE_BIN", "build/bin/nacre")


def cases(options):
    """(model, precision, batches) of what is asked for and there is."""
    for name in options.models or [*models.MODELS, *models.KERNELS]:
        batches, precisions = models.MODELS.get(name, ((1,), ("fp16",)))
        batches = [b for b in batches if b in options.batches]
        for precision in precisions:
            if batches and (precision in options.precisions or len(precisions) == 1):
                yield name, precision, batches


def add_options(parser):
    parser.add_argument("--models", type=lambda text: text.split(","), help="comma-separated; default: all, and the kernels by themselves")
    parser.add_argument("--batches", type=lambda text: [int(x) for x in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=["fp16", "bf16", "tf32", "fp32"])


def prepare(name, precision, batches, folder, target):
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        entries = []
        for batch in batches:
            module, inputs = models.create(name, batch, models.exported_in(name, precision))
            path = Path(scratch) / f"b{batch}.pt2"
            torch.export.save(torch.export.export(module, inputs), path)
            entries += ["--entry", f"b{batch}={path}"]
        exported = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        artifact = folder / "model.nacre"
        subprocess.run([NACRE, "compile", *entries, "-o", artifact, "--target", target, "--precision", precision, "--no-check", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
    compiled = time.monotonic()
    parts = json.loads(subprocess.run([NACRE, "inspect", "--json", artifact], check=True, capture_output=True, text=True).stdout)
    variants = {entry["name"]: entry["variants"][0] for entry in parts["entries"]}
    info = {"model": name, "precision": precision, "target": target, "artifact_bytes": parts["size_bytes"], "weight_bytes": parts["section_bytes"].get("data", 0),
            "export_s": round(exported - started, 1), "compile_s": round(compiled - exported, 1),
            "kernels": {entry: sum(c["command"] == "call" for c in v["program"]) for entry, v in variants.items()}}
    (folder / "info.json").write_text(json.dumps(info, indent=1))
    print(f"{folder.name}: {len(batches)} entries, {info['artifact_bytes'] / 1e6:.1f} MB, export {info['export_s']} s, compile {info['compile_s']} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="cuda-sm_90")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    failed = 0
    for name, precision, batches in cases(options):
        folder = options.out / f"{name}-{precision}"
        known = json.loads((folder / "info.json").read_text())["kernels"] if (folder / "info.json").exists() else {}
        if not options.again and all(f"b{batch}" in known for batch in batches):
            continue
        try:
            prepare(name, precision, batches, folder, options.target)
        except Exception as error:  # a model that does not compile must not keep the others from it
            failed += 1
            print(f"{folder.name}: FAILED: {str(error)[:300]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
