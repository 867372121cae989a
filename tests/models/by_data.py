"""Exports small models whose course or sizes depend on data or on chance, and what is best kept as captured: those of control.py, sizes.py, numbers_from_data.py,
scripted.py, chance.py and kept.py.

    python by_data.py --out DIR [--only NAME,NAME] [--list]

The case folders are those of export.py.
"""
import argparse
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list or not options.out:
        print("\n".join(CASES))
        return 0
    failed = 0
    for name in options.only.split(",") if options.only else CASES:
        folder = options.out / name
        try:
            decomposed = name in DECOMPOSED
            if export.write_case(folder, name, CASES[name], decomposed, export.version(decomposed, FILES)):
                print(f"exported {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).strip()[:1500]}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
