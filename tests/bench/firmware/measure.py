"""What a network costs a microcontroller: instructions beside plain C loops, and memory beside TensorFlow Lite Micro.

    python measure.py --tool NACRE --out DIR [--networks a,b] [--boards a,b] [--layers]

Both versions of a network run in examples/firmware's program for the emulated board, which also compares them with PyTorch.
A plugin counts the instructions that QEMU executes, function by function: the counts are exact and repeat.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

import torch

import plain_loops

ROOT = Path(__file__).resolve().parents[3]
FIRMWARE = ROOT / "examples" / "firmware"

# Bytes that TensorFlow Lite Micro takes from its arena for the same networks in float32 (tflm.py measures them again).
TFLM_BYTES = {"ds_cnn": 72400, "resnet8": 212256, "mobilenet_v1_025": 338096, "autoencoder": 6224}
NETWORKS = list(TFLM_BYTES)
BOARDS = {"mps2-an386": "Cortex-M4", "mps2-an500": "Cortex-M7", "mps3-an547": "Cortex-M55", "riscv64": "rv64gc", "riscv64-vector": "rv64gcv"}


def on_board(board, script, *arguments, **options):
    """Runs shell commands after board/build.sh; $1... are the arguments."""
    start = f'source "{FIRMWARE}/board/build.sh"; board_set "{board}" || exit 1; '
    done = subprocess.run(["bash", "-euc", start + script, "firmware", *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        sys.exit(f"{board}: {script}\n{done.stdout}failed with {done.returncode}")
    return done.stdout


def functions_of(object_file):
    listing = subprocess.run(["llvm-nm-19", object_file], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r" [tTwW] (\S+)$", listing, re.MULTILINE))


def run(board, folder, network_object, model):
    """Instructions of an inference by function of the network, in the order in which they first ran."""
    counts = folder / "counts.txt"
    output = on_board(board, f'board_program "$1/firmware.elf" "{FIRMWARE}/classify.c" "$2" "-I$1" "-I$3"; '
                      'board_qemu+=(-plugin "$4,out=$5"); board_run "$1/firmware.elf" || test $? = 1',
                      folder, network_object, model, folder.parents[1] / "count_instructions.so", counts)
    own = functions_of(network_object) | {"memcpy", "memset"}
    found = [line.split(maxsplit=1) for line in counts.read_text().splitlines()]
    errors = re.findall(r"error (\S+), limit ([\d.e+-]+)", output)
    if not errors or any(float(error) > 10 * float(limit) for error, limit in errors):  # plain sums are less exact than PyTorch's
        sys.exit(f"{network_object} computes something else:\n{output}")
    calls = 1 + len(errors)  # the first measures the stack
    return {name: int(count) / calls for count, name in found if name in own}


def header_constant(header, name):
    return int(re.search(rf"#define NETWORK_{name} (\d+)", header.read_text()).group(1))


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--boards", default="mps2-an386,mps2-an500,mps3-an547")
    parser.add_argument("--layers", action="store_true", help="a table by function for each network and board, too")
    options = parser.parse_args()
    networks, boards = options.networks.split(","), options.boards.split(",")
    options.out.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", Path(__file__).with_name("count_instructions.c"),
                    "-o", options.out / "count_instructions.so"], check=True)

    totals, memory, layers = [], [], []
    for network in networks:
        model = options.out / network
        if not (model / "samples.h").exists():
            subprocess.run([sys.executable, FIRMWARE / "networks.py", "--network", network, "--out", model], check=True)
        row = [network]
        for board in boards:
            own, plain = model / board, model / f"{board}-plain"
            own.mkdir(exist_ok=True)
            plain.mkdir(exist_ok=True)
            on_board(board, '"$1" compile "$2" --target "$board_target" --emit static -o "$3"', options.tool, model / "model.pt2", own / "network")
            plain_loops.write(torch.export.load(model / "model.pt2"), plain)
            on_board(board, 'clang-19 "${board_flags[@]}" ${board_vector:-} -O3 -ffreestanding -c "$1/network.c" -o "$1/network.o"', plain)
            counts = run(board, own, own / "network.o", model)
            plain_counts = run(board, plain, plain / "network.o", model)
            total, plain_total = sum(counts.values()), sum(plain_counts.values())
            row += [f"{total / 1e6:.3f}", f"{plain_total / 1e6:.3f}", f"{plain_total / total:.2f}"]
            layers.append((f"{network}, {BOARDS[board]}", counts, plain_counts))
            print(f"{network} on {board}: {total / 1e6:.3f} million instructions, plain loops {plain_total / 1e6:.3f}", file=sys.stderr, flush=True)
        totals.append(row)
        header = own / "network.h"
        needed = header_constant(header, "ARENA_BYTES") + header_constant(header, "STATE_BYTES")
        memory.append([network, needed, TFLM_BYTES[network], f"{needed / TFLM_BYTES[network]:.0%}", header_constant(header, "STACK_BYTES")])

    print("Millions of instructions of an inference\n")
    table(["", *[f"{BOARDS[b]}: {kind}" for b in boards for kind in ("nacre", "plain C", "times fewer")]], totals)
    print(f"Bytes of memory in {BOARDS[boards[-1]]}'s code: the arena with all that a session needs; the stack comes on top of it\n")
    needed, theirs = (sum(row[i] for row in memory) for i in (1, 2))
    table(["", "nacre", "TensorFlow Lite Micro", "of it", "nacre's stack"], [*memory, ["sum", needed, theirs, f"{needed / theirs:.0%}", ""]])
    for title, counts, plain_counts in layers if options.layers else []:
        print(f"{title}\n")
        table(["function", "instructions"], [(name, f"{count:.0f}") for name, count in counts.items()])
        table(["plain C", "instructions"], [(name, f"{count:.0f}") for name, count in plain_counts.items()])


if __name__ == "__main__":
    main()
