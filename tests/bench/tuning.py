"""What cost models lose against measurements on this machine, shape by shape.

    python tuning.py --tool build/bin/nacre --cases DIR [--only NAME,NAME] [--target x86-64-v3] [--out DIR]

Compiles each case's program with --tune and reads the file of decisions, which stays in DIR: a line for each shape of a kernel with the time
of every choice, the cost model's first. The loss is how much longer the cost model's choice takes than the fastest, as a geometric mean of
the shapes; and of the time that all of them take together. A shape that several models have counts once for each.
"""
import argparse
import math
import re
import subprocess
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="build/bin/nacre")
    parser.add_argument("--cases", required=True, type=Path)
    parser.add_argument("--only", help="names, separated by commas; default: all")
    parser.add_argument("--target", default="native")
    parser.add_argument("--out", default="build/bench/tuning", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",") if options.only else sorted(path.parent.name for path in options.cases.glob("*/model.pt2"))
    every = []
    print("| model | shapes | loss, geometric mean | worst | of the time of all | s to tune and compile |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in [*names, None]:
        if name:
            file, start = options.out / f"{name}.{options.target}.tuning", time.monotonic()
            file.unlink(missing_ok=True)
            done = subprocess.run([options.tool, "compile", options.cases / name / "model.pt2", "-o", options.out / "model.nacre", "--no-check", "--quiet",
                                   "--target", options.target, "--tune", "--tuning", file], capture_output=True, text=True)
            took = time.monotonic() - start
            if done.returncode:
                print(f"| {name} | {done.stderr.strip().splitlines()[-1]} |")
                continue
            shapes = [[float(us) for us in re.findall(r" (\d+\.\d)(?:,|$)", line.partition("# us:")[2])] for line in file.read_text().splitlines()]
            every += shapes
        else:
            name, shapes, took = "all", every, 0
        losses = [us[0] / min(us) for us in shapes if us]
        if losses:
            mean = math.exp(sum(map(math.log, losses)) / len(losses))
            whole = sum(us[0] for us in shapes) / sum(map(min, shapes))
            print(f"| {name} | {len(losses)} | {100 * (mean - 1):.1f}% | {100 * (max(losses) - 1):.0f}% | {100 * (whole - 1):.1f}% | {took:.0f} |", flush=True)


if __name__ == "__main__":
    main()
