"""Prepared artifacts for a machine that takes little: weights that models.py makes again from their names are left out.

    carry.py pack FOLDER FILE.tar.xz [--only a,b]     on the machine that compiled
    carry.py unpack FILE.tar.xz FOLDER                on the one with the GPU

An unpacked artifact, which has no holes.json any more, has the same bytes, which its own digest of the weights says.
"""
import argparse
import hashlib
import io
import json
import os
import struct
import subprocess
import tarfile
from pathlib import Path

import torch

import models
import prepare

SMALL = 4096  # bytes of a weight that is carried anyway


def contents(tensor):
    return tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


def orders(rank):
    """How layouts turn a weight's dims (layout/precision.h): as it is, channels-last, one filter a channel, transposed."""
    found = {"": list(range(rank))}
    if rank > 2:
        found["last"] = [0, *range(2, rank), 1]
        found["first"] = [*range(2, rank), 1, 0]
    if rank == 2:
        found["turned"] = [1, 0]
    return found


def of_dtype(tensor, dtype):
    """As a dtype of torch by name, or `tf32`: float32 numbers rounded to 11 bits."""
    if dtype != "tf32":
        return tensor.to(getattr(torch, dtype))
    return ((tensor.float().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def made_again(name, precision):
    """digest: (name, dtype, order) of what the module's weights may have become."""
    module, _ = models.create(name, 1, models.exported_in(name, precision))
    found = {}
    for key, tensor in module.state_dict().items():
        if not tensor.is_floating_point():
            continue
        names = {str(dtype).split(".")[1] for dtype in (tensor.dtype, models.DTYPES[precision])}
        for dtype in sorted(names) + (["tf32"] if precision == "tf32" else []):
            for order, dims in orders(tensor.dim()).items():
                data = contents(of_dtype(tensor, dtype).permute(dims))
                if len(data) > SMALL:
                    found.setdefault(hashlib.sha1(data).hexdigest(), (key, dtype, order))
    return found


def data_section(data):
    """Offset of the section of weights (formats/container.h)."""
    count = struct.unpack_from("<I", data, 20)[0]
    for i in range(count):
        kind, _, offset = struct.unpack_from("<IIQ", data, 64 + 40 * i)
        if kind == 2:
            return offset
    return len(data)


def pack(folder, file, only):
    with tarfile.open(file, "w:xz", preset=6) as archive:
        for case in sorted(p.parent for p in folder.glob("*/info.json")):
            info = json.loads((case / "info.json").read_text())
            if only and info["model"] not in only and case.name not in only:
                continue
            data = bytearray((case / "model.nacre").read_bytes())
            start = data_section(data)
            weights = json.loads(subprocess.run([prepare.NACRE, "inspect", "--json", case / "model.nacre"], check=True, capture_output=True, text=True).stdout)["weights"]
            known, holes = made_again(info["model"], info["precision"]), []
            for weight in weights:
                at, size = start + weight["offset_bytes"], weight["size_bytes"]
                found = known.get(hashlib.sha1(data[at:at + size]).hexdigest())
                if found:
                    holes.append([at, size, *found])
                    data[at:at + size] = bytes(size)
            left = sum(w["size_bytes"] for w in weights) - sum(h[1] for h in holes)
            print(f"{case.name}: {len(holes)} weights left out, {left} bytes of others", flush=True)
            for name, text in (("model.nacre", bytes(data)), ("holes.json", json.dumps(holes).encode()), ("info.json", (case / "info.json").read_bytes())):
                entry = tarfile.TarInfo(f"{case.name}/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
    print(f"{os.path.getsize(file) / 1e6:.1f} MB")


def fill(case):
    info, holes = json.loads((case / "info.json").read_text()), json.loads((case / "holes.json").read_text())
    module, _ = models.create(info["model"], 1, models.exported_in(info["model"], info["precision"]))
    state = module.state_dict()
    with open(case / "model.nacre", "r+b") as file:
        for at, size, key, dtype, order in holes:
            tensor = state[key]
            data = contents(of_dtype(tensor, dtype).permute(orders(tensor.dim())[order]))
            if len(data) != size:
                raise SystemExit(f"{case}: {key} has {len(data)} bytes, {size} are wanted")
            file.seek(at)
            file.write(data)
    (case / "holes.json").unlink()


def unpack(file, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    cases = sorted(p.parent for p in folder.glob("*/holes.json"))
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2)) as pool:
        list(pool.map(fill, cases))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["pack", "unpack"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--only", type=lambda text: text.split(","))
    options = parser.parse_args()
    if options.verb == "pack":
        pack(options.source, options.target, options.only)
    else:
        unpack(options.source, options.target)


if __name__ == "__main__":
    main()
