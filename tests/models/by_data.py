"""Exports small models whose course or sizes depend on data or on chance, and what is best kept as captured: those of control.py,
sizes.py, numbers_from_data.py, scripted.py, chance.py and kept.py.

    python by_data.py --out DIR [--only NAME,NAME] [--jobs 2] [--list]

The case folders are those of export.py.
"""
import argparse
import functools
import sys
from pathlib import Path

import case
import chance
import control
import export
import kept
import numbers_from_data
import scripted
import sizes
from case import CASES, DECOMPOSED

FILES = [module.__file__ for module in (case, chance, control, kept, sizes, numbers_from_data, scripted)]


def make(name):
    return CASES[name]()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list or not options.out:
        print("\n".join(CASES))
        return 0
    jobs = []
    for name in options.only.split(",") if options.only else CASES:
        decomposed = name in DECOMPOSED
        jobs.append((options.out / name, name, functools.partial(make, name), decomposed, export.version(decomposed, FILES)))
    return export.write_cases(jobs, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
