"""Random programs through nacre, compared with PyTorch.

    python random_graphs.py --tool build/bin/nacre --out DIR [--seed 1] [--first 0] [--count 60 | --seconds 600] [--stage artifact] [--jobs 2] [--list]

random_statements.py says what is in a program. The programs of a seed are numbered, and always the same. One that does not give PyTorch's
result is cut down to the statements that it takes and printed; DIR/SEED-NUMBER has its source and is a case for `nacre verify`.
DIR/SEED-NUMBER.whole is the program before that. What torch.export cannot express is no case.
"""
import argparse
import contextlib
import copy
import importlib.util
import json
import multiprocessing
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parent.parent / "models"))

import export  # noqa: E402
import random_programs  # noqa: E402
import random_statements  # noqa: E402

warnings.filterwarnings("ignore")

AT_A_TIME = 20  # programs in one call of nacre verify


def load(file):
    spec = importlib.util.spec_from_file_location("program", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_set(folder, module, arguments, sizes):
    """One set of a case (tests/models/export.py): what PyTorch answers, and what it leaves in inputs and buffers."""
    folder.mkdir()
    narrow, own = copy.deepcopy(module), arguments(**sizes)
    entry = {"refuse": False, "continues": False, "eager": "answers", "inputs": export.save_tensors(folder, "input", own)}
    entry["outputs"] = export.save_tensors(folder, "output", narrow(*own))
    for index, (old, new) in enumerate(zip(arguments(**sizes), own)):
        if not torch.equal(old, new):
            export.save_tensor(folder / f"after_input_{index}.npy", new)
    for (name, old), new in zip(module.named_buffers(), narrow.buffers()):
        if not torch.equal(old, new):
            export.save_tensor(folder / f"after_buffer_{name}.npy", new)
    return entry


def write_case(program, folder):
    """Why torch.export does not take the program; nothing if it does. A dynamic program that it takes with fixed sizes only loses its others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "program.py").write_text(program.source())
    code = load(folder / "program.py")
    with torch.no_grad():
        module = code.Program().eval()
        try:
            exported = torch.export.export(copy.deepcopy(module), code.arguments(**program.sizes[0]), dynamic_shapes=code.DYNAMIC)
            torch.export.save(exported, folder / "model.pt2")
        except Exception as error:
            if program.sizes[0]:
                return write_case(program.fixed(), folder)
            shutil.rmtree(folder)
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
        sets = {f"set_{i}": write_set(folder / f"set_{i}", module, code.arguments, sizes) for i, sizes in enumerate(program.sizes)}
    (folder / "case.json").write_text(json.dumps({"name": folder.name, "source": "tests/operators", "sets": sets}, indent=1))
    return ""


def write(job):
    name, out = job
    torch.set_num_threads(1)
    return name, write_case(random_statements.generate(name), out / name)


def verify(options, folders, stage):
    """What is wrong with each, or nothing, and the stage at which it is."""
    command = [options.tool, "verify", "--json", "--jobs", str(options.jobs), "--timeout", "300", *(["--stage", stage] if stage else [])]
    done = subprocess.run([*command, *folders], capture_output=True, text=True)
    try:
        verdicts = json.loads(done.stdout)
    except ValueError:
        verdicts = [{"passed": False, "stage": stage, "reason": f"no verdict: {done.stderr.strip()[-300:]}"}] * len(folders)
    return [("" if v["passed"] else v["reason"], v["stage"]) for v in verdicts]


def kind(reason):
    """What two failures of one cause have in common."""
    found = re.search(r"not supported: [^:]*: \S+|internal error: .{20}|crashed: \w+|no result|elements of|is nan|error|ended early|variant|it is", reason)
    return re.sub(r"\d+|'[^']*'", "", found[0]) if found else "other"


def shrink(options, program, folder, reason, stage):
    """The program with as few statements, results and sizes as fail in the same way, and how it fails."""
    def attempt(changed):
        nonlocal program, reason
        trial = folder.with_name(folder.name + ".trial")
        if not random_programs.valid(changed) or write_case(changed, trial):
            return False
        found, _ = verify(options, [trial], stage)[0]
        if found and kind(found) == kind(reason):
            program, reason = changed, found
            return True
        return False

    for result in [program.leaves[0].name, *program.results]:  # an input stands for none
        if program.results != [result] and attempt(program.only(result)):
            break
    smaller = True
    while smaller:
        smaller = False
        for position in reversed(range(len(program.statements))):
            smaller |= position < len(program.statements) and attempt(program.without(position))
    for result in list(program.results):
        if len(program.results) > 1:
            attempt(program.without_result(result))
    if program.sizes[0]:
        attempt(program.fixed())
    shutil.rmtree(folder.with_name(folder.name + ".trial"), ignore_errors=True)
    write_case(program, folder)
    (folder / "program.py").write_text(program.source(f"{program.name}: {stage}: {reason}"))
    return program, reason


def tell(options, name, reason):
    folder = options.out / name
    stages = verify(options, [folder], "")[0]
    reason, stage = stages if stages[0] else (reason, options.stage)
    shutil.rmtree(options.out / f"{name}.whole", ignore_errors=True)
    folder.rename(options.out / f"{name}.whole")
    program, reason = shrink(options, random_statements.generate(name), folder, reason, stage)
    print(f"  FAILED {name}: {stage}: {reason[:600]}\n" + "".join(f"    {line}\n" for line in (folder / "program.py").read_text().splitlines()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--count", type=int, default=60, help="programs")
    parser.add_argument("--seconds", type=float, help="go on so long, instead of --count")
    parser.add_argument("--stage", default="artifact")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name every program, also those that pass")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    passed = failed = not_exported = 0
    start, number = time.monotonic(), options.first
    torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(multiprocessing.get_context("spawn").Pool(options.jobs)).imap if options.jobs > 1 else map
        while time.monotonic() < start + options.seconds if options.seconds else number < options.first + options.count:
            count = AT_A_TIME if options.seconds else min(AT_A_TIME, options.first + options.count - number)
            names = []
            for name, refused in run(write, [(f"{options.seed}-{number + i}", options.out) for i in range(count)]):
                if refused:
                    not_exported += 1
                    print(f"  not exported: {name}: {refused}", flush=True)
                else:
                    names.append(name)
            number += count
            if not names:
                continue
            for name, (reason, _) in zip(names, verify(options, [options.out / name for name in names], options.stage), strict=True):
                if reason:
                    failed += 1
                    tell(options, name, reason)
                else:
                    passed += 1
                    shutil.rmtree(options.out / name)
                    if options.list:
                        print(f"  ok {name}", flush=True)
    print(f"  programs {options.first} to {number - 1} of seed {options.seed}, {not_exported} of which torch.export does not take")
    print(f"random: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
