"""examples/firmware on emulated boards: what they print is PyTorch's, within the memory and stack that the header states.

    python firmware.py --tool build/bin/nacre --out FOLDER
"""
import argparse
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import tally

ROOT = Path(__file__).resolve().parents[2]
BOARDS = ["mps2-an386", "mps2-an500", "mps3-an547", "riscv64", "riscv64-vector"]


def example(options, network, board, flags=""):
    """(what the board prints, the folder with what was linked)."""
    environment = {**os.environ, "NACRE_BIN": str(options.tool.resolve()), "NACRE_BUILD": str(options.out.resolve()), "FIRMWARE_FLAGS": flags}
    done = subprocess.run(["bash", ROOT / "examples/firmware/run.sh", network, "--board", board], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    assert done.returncode == 0, f"it ended with {done.returncode}:\n{done.stdout[-2000:]}"
    return done.stdout, options.out / "firmware" / f"{network}-{board}"


def needs_nothing(folder):
    """The network's object takes two functions from elsewhere, and has no variables of its own."""
    listing = subprocess.run(["llvm-nm-19", folder / "network.o"], stdout=subprocess.PIPE, text=True, check=True).stdout
    undefined = set(re.findall(r"^ +U (\S+)$", listing, re.MULTILINE))
    assert undefined <= {"memcpy", "memset"}, undefined
    variables = re.findall(r" [bBdDC] (\S+)$", listing, re.MULTILINE)
    assert not variables, variables


def within_stack(said):
    stack, used = map(int, re.search(r"stack at most (\d+), used (\d+)", said).groups())
    assert 0 < used <= stack, f"{used} bytes of stack are used, the header says {stack}"


def classifies(options, network, board):
    said, folder = example(options, network, board)
    within_stack(said)
    samples = re.findall(r"sample \d+: class (\d+), PyTorch's (\d+); error \S+, limit \S+; (\d+) instructions, (\d+) waiting", said)
    assert len(samples) == 3 and all(own == theirs for own, theirs, _, _ in samples), samples
    asked_meanwhile = [int(waiting) for _, _, _, waiting in samples]
    assert asked_meanwhile[-1] == 0 and (int(samples[0][2]) < 1000000 or asked_meanwhile[0] > 0), asked_meanwhile
    assert "as PyTorch" in said, said
    needs_nothing(folder)


def spots_words(options, board):
    said, folder = example(options, "keyword", board)
    text = (folder / "model" / "recording.h").read_text()
    known = re.search(r"words\[CLASSES\] = \{(.*)\}", text).group(1)
    spoken = [(float(end), word) for end, word in re.findall(r"^// +(\S+) s  (\w+)$", text, re.MULTILINE) if f'"{word}"' in known]
    found = [(float(time), word) for time, word in re.findall(r"^ *(\S+) s  (\w+)$", said, re.MULTILINE)]
    right = [word for time, word in found if any(word == other and -0.5 < time - end < 1 for end, other in spoken)]
    assert len(right) >= 0.7 * len(spoken) and len(found) - len(right) <= 1, f"{found} of {spoken}"
    assert " 0 lost" in said and "as PyTorch" in said, said
    within_stack(said)


def survives_too_much(options):
    """Frames that come too fast are lost and counted; windows without a gap still give PyTorch's results."""
    said, _ = example(options, "keyword", "mps2-an386", "-DFRAME_US=50")
    runs, = re.findall(r"^(\d+) inferences", said, re.MULTILINE)
    lost, = re.findall(r"(\d+) lost", said)
    assert int(lost) > 0 and int(runs) > 0 and "as PyTorch" in said, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for what is built")
    options = parser.parse_args()
    # `nacre verify` runs each of these networks on each board; here they share the processor with interrupts.
    some = {"ds_cnn": "mps2-an386", "resnet8": "mps2-an500", "mobilenet_v1_025": "mps3-an547", "autoencoder": "riscv64"}
    tests = {f"{network} on {board}": functools.partial(classifies, options, network, board) for network, board in some.items()}
    tests |= {f"keyword on {board}": functools.partial(spots_words, options, board) for board in BOARDS}
    tests["more frames than there is time for"] = functools.partial(survives_too_much, options)
    return tally.run_all("firmware", tests)


if __name__ == "__main__":
    sys.exit(main())
