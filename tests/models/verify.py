"""Runs `nacre verify` on folders of cases and counts.

    python verify.py --tool build/bin/nacre [--stage artifact] [--jobs 2] [--only NAME,NAME] FOLDER ...

Every folder below a FOLDER that has a case.json with a program is a case. Cases whose capture has to fail are
left out: they have no program.

Cases in the folders after --frontier show how far nacre is: there a clear refusal (an operator that is not lowered yet,
a size that no variant accepts) is told and counted as skipped; a wrong result or a crash fails as everywhere.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def verify(options, environment, case):
    """(what is wrong, or nothing, and the seconds that it took)."""
    start = time.perf_counter()
    command = [options.tool, "verify", "--json", *(["--stage", options.stage] if options.stage else []),
               *(["--target", options.target] if options.target else []), *(["--emit", options.emit] if options.emit else []), *(["--specialize"] if options.specialize else []), case]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.timeout)
        verdicts = json.loads(done.stdout)
        bad = [v for v in verdicts if not v["passed"]]
        reason = "; ".join(f"{v['stage']}: {v['reason']}" for v in bad)
        if not verdicts:
            reason = "nothing was verified"
        elif not bad and done.returncode:
            reason = f"status {done.returncode} {done.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        reason = f"took more than {options.timeout:.0f} s"
    except (ValueError, KeyError, TypeError):
        reason = f"status {done.returncode}, no verdict: {done.stderr.strip()[-300:]}"
    return reason, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--stage", help="one stage only (default: all)")
    parser.add_argument("--target", help="of the artifact (default: this machine)")
    parser.add_argument("--emit", help="what stands for the artifact: static")
    parser.add_argument("--specialize", action="store_true", help="with a variant for the sizes of each set")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a case")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--frontier", nargs="*", default=[], type=Path, metavar="FOLDER")
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    cases = [info.parent for folder in [*options.folders, *options.frontier] for info in sorted(folder.glob("*/case.json"))
             if any((info.parent / program).exists() for program in ("model.pt2", "model.jit")) and not info.parent.name.endswith(".unfinished")]
    if options.only:
        cases = [case for case in cases if case.name in options.only.split(",")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} if options.jobs > 1 else None
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, (reason, seconds) in zip(cases, pool.map(lambda c: verify(options, environment, c), cases)):
            refused = case.parent in options.frontier and ("not supported:" in reason or "variant 0 wants" in reason)
            passed, failed, skipped = passed + (not reason), failed + (bool(reason) and not refused), skipped + refused
            verdict = "refused " + reason if refused else "FAILED " + reason if reason else "ok"
            print(f"  {case.parent.name}/{case.name}: {verdict} ({seconds:.1f} s)", flush=True)
    print(f"models: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
