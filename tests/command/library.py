"""Static libraries (`nacre compile --emit static`): what they need, how large they are, and what a C program gets of them.

    python library.py --tool build/bin/nacre --cases FOLDER     cases as tests/models exports them
"""
import argparse
import functools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

import tally

RUNTIME_LIMIT = 12 * 1024  # bytes of all code and constants but kernels and weights, for Cortex-M55


def compile_library(options, folder, case, target, *more, name="net"):
    command = [options.tool, "compile", "--quiet", "--emit", "static", "--target", target, *more, options.cases / case / "model.pt2", "-o", folder / name]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def symbols(library, *flags):
    lines = subprocess.run(["llvm-nm-19", *flags, library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def constants(header):
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", header.read_text())}


def test_it_needs_memcpy_and_memset_at_most(options, folder):
    for target in "cortex-m4", "cortex-m7", "cortex-m55", "rv64gc":
        done = compile_library(options, folder, "resnet8", target, "--no-check")
        assert done.returncode == 0, done.stderr
        assert symbols(folder / "net.o", "-u") <= {"memcpy", "memset"}, symbols(folder / "net.o", "-u")
        shown = symbols(folder / "net.o", "--defined-only", "--extern-only")
        hidden = subprocess.run(["llvm-readelf-19", "-sW", folder / "net.o"], capture_output=True, text=True, check=True).stdout
        visible = {name for name in shown if re.search(rf"GLOBAL +DEFAULT +\S+ +{name}$", hidden, re.M)}
        assert visible == {"net_run"}, visible
        sections = subprocess.run(["llvm-readelf-19", "-SW", folder / "net.o"], capture_output=True, text=True, check=True).stdout
        written = re.findall(r"(\S+) +(?:PROGBITS|NOBITS) +\S+ +\S+ +(?!000000)\S+ +\S+ +WA", sections)
        assert not written, f"data that is written: {written}"


def test_the_runtime_is_small(options, folder):
    for case in "ds_cnn", "gru_keyword", "counter":
        done = compile_library(options, folder, case, "cortex-m55", "--no-check")
        assert done.returncode == 0, done.stderr
        size = int(re.search(r"kernels; ([\d,]+) bytes of entries", done.stdout)[1].replace(",", ""))
        print(f"    {case}: {size} bytes of {RUNTIME_LIMIT} beside kernels and weights, for cortex-m55")
        assert size <= RUNTIME_LIMIT


def test_a_c_program_gets_pytorchs_result(options, folder):
    done = compile_library(options, folder, "ds_cnn", "native")
    assert done.returncode == 0 and "check    error" in done.stdout, done.stdout + done.stderr
    (folder / "main.c").write_text(r"""
#include "net.h"
#include <stdio.h>
static _Alignas(NET_ALIGNMENT) char arena[NET_ARENA_BYTES];
static float input[NET_INPUT_ELEMENTS], output[NET_OUTPUT_ELEMENTS];
int main(void) {
  if (fread(input, NET_INPUT_BYTES, 1, stdin) != 1) return 1;
  int status = net_run(arena, input, output);
  return status ? status : fwrite(output, NET_OUTPUT_BYTES, 1, stdout) != 1;
}
""")
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", "net.o", "-o", "main"], cwd=folder, check=True)
    x, y = (numpy.load(options.cases / "ds_cnn/set_0" / f"{name}_0.npy") for name in ("input", "output"))
    answer = subprocess.run([folder / "main"], input=x.tobytes(), capture_output=True, check=True).stdout
    result = numpy.frombuffer(answer, "<f4").reshape(y.shape)
    assert numpy.abs(result - y).max() <= 1e-5 * max(1, numpy.abs(y).max()), numpy.abs(result - y).max()


def test_several_programs_are_one_library(options, folder):
    command = [options.tool, "compile", "--quiet", "--emit", "static", "--target", "native", "--entry", f"first={options.cases / 'ds_cnn/model.pt2'}",
               "--entry", f"second={options.cases / 'counter/model.pt2'}", "-o", folder / "both"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    header = (folder / "both.h").read_text()
    for text in "int both_first(", "int both_second(", "void both_init(void* state);":
        assert text in header, text
    numbers = constants(folder / "both.h")
    assert numbers["BOTH_STACK_BYTES"] == max(numbers["BOTH_FIRST_STACK_BYTES"], numbers["BOTH_SECOND_STACK_BYTES"])


def test_the_header_is_c_and_cpp(options, folder):
    for case in "gru_keyword_dynamic", "counter":
        done = compile_library(options, folder, case, "native")
        assert done.returncode == 0, done.stderr
        for language in ["gcc", "-xc", "-std=c11"], ["g++", "-xc++", "-std=c++17"]:
            subprocess.run([*language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", folder / "net.h"], check=True)


def test_inputs_may_be_called_anything(options, folder):
    """Names of the generated function's own variables, of the header's constants, and words of C and C++; and many of them."""
    import torch

    class Named(torch.nn.Module):
        def forward(self, memory, nodes, n0, args, stack, Arena, x, X, alignas, int64_t, status):
            return memory + nodes * n0 - args + stack * Arena + x - X * alignas + int64_t - status

    class Many(torch.nn.Module):
        def forward(self, *inputs):
            return sum(inputs)

    for name, module, count in ("named", Named(), 11), ("many", Many(), 90):
        torch.export.save(torch.export.export(module, tuple(torch.randn(3) for _ in range(count))), folder / f"{name}.pt2")
        done = subprocess.run([options.tool, "compile", "--quiet", "--emit", "static", folder / f"{name}.pt2", "-o", folder / name], capture_output=True, text=True)
        assert done.returncode == 0 and "check    error" in done.stdout, done.stdout + done.stderr
        for language in ["gcc", "-xc", "-std=c11"], ["g++", "-xc++", "-std=c++20"]:
            subprocess.run([*language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", folder / f"{name}.h"], check=True)


def test_two_libraries_in_one_program(options, folder):
    for name in "one", "two":
        done = compile_library(options, folder, "ds_cnn", "native", "--no-check", name=name)
        assert done.returncode == 0, done.stderr
    (folder / "main.c").write_text('#include "one.h"\n#include "two.h"\nint main(void) { return &one_run == 0 || &two_run == 0; }\n')
    subprocess.run(["gcc", "-w", "main.c", "one.o", "two.o", "-o", "main"], cwd=folder, check=True)


def test_what_is_refused(options, folder):
    for more, says in (
            (["--target", "cortex-m4", "--emit", "artifact"], "--emit static"),
            (["--target", "aarch64,rv64gc", "--emit", "static"], "for one target"),
            (["--target", "native", "--emit", "static", "--variant", "input: [1, 1, 49, 10]"], "no variants"),
            (["--target", "cuda-sm_90", "--emit", "static"], "cuda-sm_90 is a GPU"),
            (["--target", "native", "--emit", "static", "-o", ""], "no name for a library"),
            (["--target", "native", "--emit", "shared"], "shared")):
        place = [] if "-o" in more else ["-o", folder / "refused"]
        done = subprocess.run([options.tool, "compile", "--quiet", *more, options.cases / "ds_cnn/model.pt2", *place], cwd=folder, capture_output=True, text=True)
        assert done.returncode != 0 and says in done.stderr, done.stderr
        assert not (folder / "refused.o").exists()


def test_a_limit_of_flash(options, folder):
    """Code for size where that is enough; else by how much it fails, and what is to blame."""
    def total(done):
        return sum(int(number.replace(",", "")) for line in done.stdout.splitlines() if re.match(r"  (code|weights) ", line)
                   for number in re.findall(r"([\d,]+) bytes", line))

    plain = compile_library(options, folder, "ds_cnn", "cortex-m7", "--no-check")
    assert plain.returncode == 0, plain.stderr
    limit = total(plain) - 100
    small = compile_library(options, folder, "ds_cnn", "cortex-m7", "--flash-limit", str(limit), name="small")
    assert small.returncode == 0, small.stderr
    print(f"    ds_cnn on cortex-m7: {total(plain)} bytes, {total(small)} within {limit}")
    assert total(small) <= limit
    none = compile_library(options, folder, "ds_cnn", "cortex-m7", "--flash-limit", "64K", name="none")
    assert none.returncode != 0 and not (folder / "none.o").exists()
    for says in "more than the limit of 65,536", "weight ", "code beside kernels":
        assert says in none.stderr, none.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True)
    options = parser.parse_args()
    options.tool, options.cases = options.tool.resolve(), options.cases.resolve()  # some run elsewhere
    def in_folder(test):
        with tempfile.TemporaryDirectory() as folder:
            test(options, Path(folder))
    return tally.run_all("library", {name: functools.partial(in_folder, test) for name, test in tally.tests_of(globals()).items()})


if __name__ == "__main__":
    sys.exit(main())
