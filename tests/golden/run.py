"""Runs the golden tests: textual IR in, chosen stages, textual IR out, compared with CHECK lines by FileCheck.

    python run.py --tool build/bin/nacre [--only WORD] [FILE.ir ...]

A test is a file *.ir below this folder. Its lines `# RUN: COMMAND` are run with bash; in them, %s is the file and %t a
file name for scratch. `nacre` is the tool that is tested, `not` turns a status of 1 to 127 into success:
    # RUN: nacre lower %s --from captured --to functional | FileCheck %s
    # RUN: not nacre lower %s --from primitive --to loops 2>&1 | FileCheck %s --check-prefix=ERROR
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = re.compile(r"^\s*(?:#|//)\s*RUN:\s*(.*?)\s*$")
PRELUDE = '''set -o pipefail
not() { "$@"; local status=$?; [ "$status" -ge 1 ] && [ "$status" -le 127 ]; }
'''


def commands(path):
    """The RUN lines; one that ends in a backslash goes on in the next."""
    found, begun = [], ""
    for line in path.read_text().splitlines():
        match = RUN.match(line)
        if not match:
            continue
        begun += match[1]
        if begun.endswith("\\"):
            begun = begun[:-1]
        else:
            found.append(begun)
            begun = ""
    return found


def run(path, environment):
    """Empty if the test passes, else what went wrong."""
    todo = commands(path)
    if not todo:
        return "no RUN line"
    with tempfile.TemporaryDirectory() as scratch:
        for command in todo:
            command = command.replace("%s", f"'{path}'").replace("%t", f"'{scratch}/t'")
            try:
                done = subprocess.run(["bash", "-c", PRELUDE + command], env=environment, capture_output=True, text=True,
                                      timeout=120)
            except subprocess.TimeoutExpired:
                return f"{command}\ntook more than 120 s"
            if done.returncode:
                return f"{command}\nstatus {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--filecheck", type=Path, default=Path("/usr/lib/llvm-19/bin/FileCheck"))
    parser.add_argument("--only", default="", help="a part of the file names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    for program in (options.tool, options.filecheck):
        if not program.exists():
            parser.error(f"{program} is not there")
    files = [f.resolve() for f in options.files] or sorted(HERE.rglob("*.ir"))
    files = [f for f in files if options.only in str(f)]
    folders = [str(options.tool.resolve().parent), str(options.filecheck.parent)]
    environment = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for path, wrong in zip(files, pool.map(lambda f: run(f, environment), files)):
            if wrong:
                failed += 1
                print(f"FAILED {path.relative_to(HERE) if HERE in path.parents else path}\n{wrong}\n", flush=True)
    print(f"golden: {len(files) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
